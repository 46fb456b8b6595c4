"""One operation of the user's own: how it is called, recorded and run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from livegrad import dtypes
from livegrad.autograd import Function, no_grad
from livegrad.autograd.below import is_below_autograd
from livegrad.device import CPU
from livegrad.graph.elsewhere import empty
from livegrad.graph.geometry import count_write
from livegrad.graph.handle import Handle, leaf_node, node_of, wrap
from livegrad.graph.meta import Meta, meta_of, on_device
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import record
from livegrad.graph.state import scratch_state
from livegrad.graph.writes import check_writable
from livegrad.library.schema import Schema, converted, fits
from livegrad.runtime.memory import Buffer
from livegrad.runtime.values import array_of, from_compute, to_compute
from livegrad.tensor import Tensor

# An argument that is a tensor, in the pattern of a call; lists of tensors are tuples of these.
_TENSOR = "<tensor>"
# Several results lie in the bytes of one, each from a multiple of this on.
_ALIGNED = 16

# Of dispatch keys, those whose function runs on the CPU's values.
_ON_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
# Dispatch keys of types of devices.
_KEYS = {"cpu": "CPU", "meta": "Meta", "default": "CompositeExplicitAutograd"}

_definitions: dict[str, CustomOpDef] = {}
_overloads: dict[str, list[CustomOpDef]] = {}


def definition(name: str) -> Any:
    """The operation that was made with a name such as "mine::cube", or one function for several
    overloads, "mine::cube.int"; None if there is none."""
    if name in _definitions or name not in _overloads:
        return _definitions.get(name)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        for op in _overloads[name]:
            if fits(op._signature, args, kwargs):
                return op(*args, **kwargs)
        known = ", ".join(f"{op.__name__}{op._signature}" for op in _overloads[name])
        raise RuntimeError(f"{name}: no overload takes these arguments; there are {known}")

    return chosen


def definition_of(op: Any) -> CustomOpDef:
    """The operation that is meant by itself, by its name, or by what `torch.ops` has for it."""
    if isinstance(op, CustomOpDef):
        return op
    name = op if isinstance(op, str) else op.name() if hasattr(op, "_packet") else str(op)
    if name not in _definitions:
        raise ValueError(f"library: there is no operation {name!r}. Define it first: custom_op")
    return _definitions[name]


class DataDependentError(RuntimeError):
    """A fake function asked for a size that only values tell."""


class FakeContext:
    """What `get_ctx()` gives a fake function."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> NoReturn:
        """A size that only the values tell: the operation runs at once."""
        raise DataDependentError("new_dynamic_size: only the values tell this size")


def get_ctx() -> FakeContext:
    """What a fake function asks about sizes that depend on values."""
    return FakeContext()


# ------------------------------------------------------------------------------ the operation


class CustomOpDef:
    """An operation made by `custom_op`: call it as the function it was made of.

    One that is `declared` by a schema gets its functions later, from `give`.
    """

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        function: Callable[..., Any] | None = None,
        written: frozenset[str] = frozenset(),
    ) -> None:
        self.__name__, self.__doc__ = name, getattr(function, "__doc__", None)
        self._signature = signature
        # Arguments by keyword alone come last, to the function and to the others registered.
        kinds = [(p.name, p.kind is p.KEYWORD_ONLY) for p in self._signature.parameters.values()]
        self._keywords = [name for name, by_keyword in kinds if by_keyword]
        self._positional = len(kinds) - len(self._keywords)
        self._given: dict[str, Callable[..., Any]] = {} if function is None else {"CPU": function}
        self._written = written
        self._aliases = False  # whether a result may be an argument
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._differentiable = _function_of(self)
        if name in _definitions:  # a cell of a notebook that runs again
            del REGISTRY[name]
        self._op = Op(name, "host", infer=self._infer, ref=self._run)
        _definitions[name] = self

    @classmethod
    def declared(cls, name: str, schema: Schema) -> CustomOpDef:
        """An operation without a function so far."""
        if name in _definitions:
            raise RuntimeError(f"Library.define: the operation {name} is there already")
        op = cls(name, schema.signature, None, schema.written)
        op._aliases = schema.aliases
        head, dot, _ = name.rpartition(".")
        if dot:
            _overloads.setdefault(head, []).append(op)
        return op

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.__name__})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records the operation."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].annotation
            kind = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
            bound.arguments[name] = converted(value, kind)
        outer = self._outer()
        if outer is not None:
            return outer(*bound.args, **bound.kwargs)
        if self._written:
            self._note_writes(bound.arguments)
        pattern, tensors = _taken_apart(bound.args + tuple(bound.kwargs.values()), self.__name__)
        if any([node_of(x).grad_to is not None for x in tensors]):
            return self._differentiable.apply(pattern, *tensors)
        return self._recorded(pattern, tensors)

    def _outer(self) -> Callable[..., Any] | None:
        """The function that is called at once, and records what it calls, if there is one."""
        for key in () if is_below_autograd() else ("AutogradCPU", "Autograd"):
            if key in self._given:
                return self._given[key]
        if any([key in self._given for key in _ON_CPU]):
            return None
        return self._given.get("CompositeImplicitAutograd")

    @property
    def _function(self) -> Callable[..., Any]:
        """The function that computes the values."""
        for key in _ON_CPU:
            if key in self._given:
                return self._given[key]
        raise NotImplementedError(
            f"Could not run '{self.__name__}' with arguments from the 'CPU' backend: it has no "
            "function for it. Register one: torch.library.register_kernel(name, 'cpu')"
        )

    def _note_writes(self, arguments: dict[str, Any]) -> None:
        """Counts a write to each tensor that is written to, or refuses it."""
        values = [arguments[name] for name in self._written]
        _, tensors = _taken_apart(tuple(values), self.__name__)
        with no_grad():
            for x in tensors:
                check_writable(x, expanded=True)
        for x in tensors:
            count_write(x)

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as positional ones, and those by keyword alone."""
        keywords = zip(self._keywords, args[self._positional :], strict=True)
        return args[: self._positional], dict(keywords)

    def _call(self, function: Callable[..., Any], pattern: Any, tensors: Sequence[Any]) -> Any:
        """Calls a function with the arguments of a call."""
        args, keywords = self._split(_put_together(pattern, tensors))
        return function(*args, **keywords)

    # ---- registering -----------------------------------------------------------------------

    def give(self, key: str, function: Callable[..., Any]) -> None:
        """Registers the function for a dispatch key."""
        if key == "Meta":
            self._fake = function
        else:
            self._given[key] = function

    def register_kernel(
        self, device_types: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Gives the function for types of devices; None means all of them."""
        types = [device_types] if isinstance(device_types, str) else device_types or ["default"]

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in types:
                self.give(_KEYS.get(kind, kind.upper()), function)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Says what the results are like: `func` is given tensors without data, returns such."""
        self._fake = func
        return func

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Says what the gradient is: `backward(ctx, *grads)` returns one for each argument.

        `setup_context(ctx, inputs, output)` leaves on `ctx` what that needs; it is called with
        keywords, and has `keyword_only_inputs` as well if there are such arguments.
        """
        if self._written:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self}. Please "
                "create a functional operator and register an autograd formula for that."
            )
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Says how many examples are done at once: `func(info, in_dims, *args)` returns the result
        and the dim of it that counts examples; `info.batch_size` is how many there are."""

        def rule(n: Any, size: int, xs: list[Any], batched: tuple[bool, ...]) -> Any:
            pattern = n.attrs[0]
            dims = _put_together(pattern, [0 if b else None for b in batched], None)
            info = SimpleNamespace(batch_size=size, randomness="error")
            with_info = functools.partial(func, info, dims[: self._positional])
            result, dim = self._call(with_info, pattern, xs)
            if isinstance(result, tuple):
                return NotImplemented  # several results lie in the bytes of one: one by one
            return result if dim == 0 else result.movedim(dim, 0)

        self._op.batch = rule
        return func

    # ---- recording -------------------------------------------------------------------------

    def _recorded(self, pattern: Any, tensors: Sequence[Any]) -> Any:
        if self._fake is None or self._written:
            return self._at_once(pattern, tensors)
        metas = [node_of(x).meta for x in tensors]
        try:
            results = self._results(pattern, metas)
        except DataDependentError:
            return self._at_once(pattern, tensors)
        y = record(self._op, tensors, (pattern, tuple([m.dtype for m in metas])))
        return y if isinstance(results, Meta) else _unpacked(y, results)

    def _at_once(self, pattern: Any, tensors: Sequence[Any]) -> Any:
        """Calls the function, or without values what tells of its results, on the tensors."""
        elsewhere = any([node_of(x).meta.device is not CPU for x in tensors])
        function = self._fake if elsewhere and self._fake is not None else self._function
        with no_grad():
            results = self._call(function, pattern, tensors)
        for y in results if isinstance(results, tuple) else (results,):
            if not self._aliases and any([y is x for x in tensors]):
                raise RuntimeError(
                    f"{self.__name__}: a result must not also be an argument. Return a clone() of "
                    "it, or nothing if the function has written to it"
                )
        return results

    def _results(self, pattern: Any, metas: Sequence[Meta]) -> Meta | list[Meta]:
        """What the results are like, or the only one, by the function that tells."""
        assert self._fake is not None
        # Sizes as plain integers: while a plan is made for any size, they may be symbols.
        shapes = [tuple([int(n) for n in m.shape]) for m in metas]
        fakes = [empty(shape, m.dtype) for shape, m in zip(shapes, metas, strict=True)]
        with scratch_state(), no_grad():
            told = self._call(self._fake, pattern, fakes)
        found = [self._meta(x) for x in (told if isinstance(told, tuple) else (told,))]
        return found if isinstance(told, tuple) else found[0]

    def _meta(self, x: Any) -> Meta:
        if not isinstance(x, Handle):
            kind = type(x).__name__
            raise TypeError(f"{self.__name__}: a result is no tensor; got {kind}")
        meta = node_of(x).meta
        return on_device(meta_of(meta.shape, meta.dtype), CPU)

    def _infer(self, metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
        results = self._results(attrs[0], metas)
        if isinstance(results, Meta):
            return results
        return meta_of((_places(results)[-1],), dtypes.uint8)

    # ---- running ---------------------------------------------------------------------------

    def _run(self, n: Any, *arrays: Any) -> Any:
        """The reference of the op: the user's function, on the values."""
        pattern, of = n.attrs
        metas = [meta_of(x.shape, dtype) for x, dtype in zip(arrays, of, strict=True)]
        tensors = [_tensor(x, meta) for x, meta in zip(arrays, metas, strict=True)]
        # As references run: kernels of a plan inside of another one would share its memory.
        with scratch_state() as state, no_grad():
            state.reference = True
            try:
                results = self._call(self._function, pattern, tensors)
            except Exception as error:
                kind = type(error).__name__
                raise RuntimeError(f"{self.__name__}: {kind}: {error}") from error
            several = isinstance(results, tuple)
            nodes = [node_of(x) for x in (results if several else (results,))]
        self._check([x.meta for x in nodes], self._results(pattern, metas))
        if not several:
            return to_compute(array_of(nodes[0]), n.meta.dtype)
        return _packed([array_of(x) for x in nodes])

    def _check(self, found: list[Meta], wanted: Meta | list[Meta]) -> None:
        """RuntimeError if the results are not what the fake function said."""
        expected = [wanted] if isinstance(wanted, Meta) else wanted
        got = [(m.dtype, m.shape) for m in found]
        if got != [(m.dtype, m.shape) for m in expected]:
            raise RuntimeError(
                f"{self.__name__}: the results are {', '.join(map(str, found))}, but register_fake "
                f"said {', '.join(map(str, expected))}"
            )


def _tensor(values: Any, meta: Meta) -> Any:
    return wrap(leaf_node(meta, Buffer.from_array(from_compute(values, meta.dtype))))


def _function_of(op: CustomOpDef) -> Any:
    """The operation with its gradient."""

    class CustomOp(Function):
        @staticmethod
        def forward(ctx: Any, pattern: Any, *tensors: Any) -> Any:
            output = op._recorded(pattern, tensors)
            ctx.pattern = pattern
            needed = _put_together(pattern, ctx.needs_input_grad[1:], False)
            ctx.needs_input_grad = needed[: op._positional]
            if op._setup_context is not None:
                args, keywords = op._split(_put_together(pattern, tensors))
                more = {"keyword_only_inputs": keywords} if keywords else {}
                op._setup_context(ctx=ctx, inputs=args, output=output, **more)
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if op._backward is None:
                raise RuntimeError(
                    f"Trying to backward through {op.__name__} but no autograd formula was "
                    "registered. Please use register_autograd to add one."
                )
            given = op._backward(ctx, *grads)
            given = given if isinstance(given, tuple) else (given,)
            if len(given) != op._positional:
                raise RuntimeError(
                    f"{op.__name__}: backward returned {len(given)} gradients; expected "
                    f"{op._positional}, one for each argument, None for those that have none"
                )
            return (None, *_of_tensors(ctx.pattern, (*given, *[None] * len(op._keywords))))

    CustomOp.__name__ = op.__name__
    return CustomOp


# ---------------------------------------------------------------------------- calls as patterns


def _taken_apart(args: tuple[Any, ...], name: str) -> tuple[Any, list[Any]]:
    """Arguments as a pattern that has a hash, and the tensors among them, in order."""
    pattern: list[Any] = []
    tensors: list[Any] = []
    for x in args:
        if isinstance(x, Handle):
            pattern.append(_TENSOR)
            tensors.append(x)
        elif isinstance(x, list | tuple) and any([isinstance(item, Handle) for item in x]):
            pattern.append((_TENSOR,) * len(x))
            tensors += x
        else:
            pattern.append((_frozen(x, name),))
    return tuple(pattern), tensors


def _frozen(x: Any, name: str) -> Any:
    """An argument that is structure."""
    value = tuple(x) if isinstance(x, list) else x
    try:
        hash(value)
    except TypeError:
        kind = type(x).__name__
        raise TypeError(f"{name}: got a {kind}; expected tensors, numbers, words") from None
    return value


def _is_list(part: Any) -> bool:
    return isinstance(part, tuple) and part[:1] == (_TENSOR,)


def _put_together(pattern: Any, tensors: Sequence[Any], constant: Any = ...) -> tuple[Any, ...]:
    """The arguments of a call; what is not a tensor may be replaced by one `constant`."""
    rest: Iterator[Any] = iter(tensors)
    args: list[Any] = []
    for part in pattern:
        if part == _TENSOR:
            args.append(next(rest))
        elif _is_list(part):
            args.append([next(rest) for _ in part])
        else:
            args.append(part[0] if constant is ... else constant)
    return tuple(args)


def _of_tensors(pattern: Any, values: Sequence[Any]) -> list[Any]:
    """Of one value per argument, those of tensors; lists of tensors have lists of values."""
    found: list[Any] = []
    for part, value in zip(pattern, values, strict=True):
        if part == _TENSOR:
            found.append(value)
        elif _is_list(part):
            found += value if value is not None else [None] * len(part)
    return found


# ------------------------------------------------------------------------------ several results


def _places(metas: Sequence[Meta]) -> list[int]:
    """Where each of several results begins in the bytes of all, and where they end."""
    places = [0]
    for meta in metas:
        places.append(places[-1] + -(-meta.nbytes // _ALIGNED) * _ALIGNED)
    return places


def _packed(arrays: Sequence[Any]) -> Any:
    parts = []
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        parts += [data, np.zeros(-data.size % _ALIGNED, np.uint8)]
    return np.concatenate(parts)


def _unpacked(y: Any, metas: Sequence[Meta]) -> tuple[Tensor, ...]:
    found = []
    for start, meta in zip(_places(metas), metas, strict=False):
        part = y[start : start + meta.nbytes].clone()
        found.append(part.view(meta.dtype).reshape(meta.shape))
    return tuple(found)
