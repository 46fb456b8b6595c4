"""Operations of your own, from outside the package: `livegrad.library`, after `torch.library`.

An operation is a Python function of tensors. It is recorded as one node, like any other, and runs
when its value is needed, between the kernels of a plan; it may use NumPy, SciPy, or any library.

```python
import numpy as np
import livegrad as lg

@lg.library.custom_op("mine::cube", mutates_args=())
def cube(x: lg.Tensor) -> lg.Tensor:
    return lg.from_numpy(x.numpy() ** 3)

@cube.register_fake                                 # shape and dtype, without values
def _(x):
    return lg.empty_like(x)

def backward(ctx, g):                               # written with tensors: it has gradients, too
    (x,) = ctx.saved_tensors
    return 3 * x * x * g

def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

cube.register_autograd(backward, setup_context=setup_context)
```

Without `register_fake`, only running it tells the shape of the result: then it runs at once. vmap
calls it for each example, unless `register_vmap` says better.

A function that writes to tensors it is given names them, `mutates_args=("out",)`. It runs at once,
on the tensors themselves, and has no gradient, as in PyTorch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.autograd import Function, no_grad
from livegrad.device import CPU
from livegrad.graph.elsewhere import empty
from livegrad.graph.geometry import count_write
from livegrad.graph.handle import Handle, leaf_node, node_of, wrap
from livegrad.graph.meta import Meta, meta_of, on_device
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import record
from livegrad.graph.state import scratch_state
from livegrad.graph.writes import check_writable
from livegrad.opcheck import TESTS, Call, results_of
from livegrad.runtime.memory import Buffer
from livegrad.runtime.values import array_of, from_compute, to_compute
from livegrad.tensor import Tensor

__all__ = [
    "CustomOpDef",
    "custom_op",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_vmap",
]

# An argument that is a tensor, in the pattern of a call; lists of tensors are tuples of these.
_TENSOR = "<tensor>"
# Several results lie in the bytes of one, each from a multiple of this on.
_ALIGNED = 16

_definitions: dict[str, CustomOpDef] = {}


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """Makes an operation of a function; a decorator if `fn` is left out.

    `name` is `"namespace::name"`. Arguments are tensors, lists of tensors, None, and what can be
    compared and has a hash: numbers, words, dtypes, tuples of them (those are structure: each new
    value makes a new plan). Results are a tensor, or a tuple of tensors, none of them an argument.

    `mutates_args` names the arguments that the function writes to; "unknown" means any of them.
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema
        )
    if "::" not in name:
        raise ValueError(f'custom_op(name, ...): name must be "namespace::name", got {name!r}')
    return CustomOpDef(name, fn, _names_written(inspect.signature(fn), mutates_args))


def _names_written(signature: inspect.Signature, given: Any) -> frozenset[str]:
    """The parameters that a function writes to, from `mutates_args`."""
    parameters = signature.parameters
    if isinstance(given, str):
        if given != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are "
                f"mutated or the string 'unknown'; got {given!r}"
            )
        return frozenset(parameters)
    unknown = set(given).difference(parameters)
    if unknown:
        raise ValueError(
            f"custom_op: {unknown} in mutates_args were not found in the custom op's signature "
            f"{signature}"
        )
    for name in given:
        kind = parameters[name].annotation
        if kind is not inspect.Parameter.empty and "Tensor" not in str(kind):
            raise ValueError(
                f"custom_op: Parameter {name} is in mutates_args but only Tensors or collections "
                f"of Tensors can be mutated; got {signature}"
            )
    return frozenset(given)


def register_fake(op: Any, func: Callable[..., Any] | None = None, /) -> Any:
    """`op.register_fake`, of an operation or its name."""
    return _definition(op).register_fake if func is None else _definition(op).register_fake(func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
) -> None:
    """`op.register_autograd`, of an operation or its name."""
    _definition(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /) -> Any:
    """`op.register_vmap`, of an operation or its name."""
    return _definition(op).register_vmap if func is None else _definition(op).register_vmap(func)


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] | None = None,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Whether an operation does what was said about it, asked with these arguments.

    The result has "SUCCESS" for each test; the first error is raised, or in the result if not
    `raise_exception`.
    """
    tests = [test_utils] if isinstance(test_utils, str) else list(test_utils or TESTS)
    call = Call(_definition(op), tuple(args), kwargs or {}, {"atol": atol, "rtol": rtol})
    return results_of(call, tests, raise_exception)


def definition(name: str) -> CustomOpDef | None:
    """The operation that was made with a name such as "mine::cube"; None if there is none."""
    return _definitions.get(name)


def _definition(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _definitions:
        raise ValueError(f"library: no operation {op!r} was made with custom_op")
    return _definitions[op]


# ------------------------------------------------------------------------------ the operation


class CustomOpDef:
    """An operation made by `custom_op`: call it as the function it was made of."""

    def __init__(
        self, name: str, function: Callable[..., Any], written: frozenset[str] = frozenset()
    ) -> None:
        self.__name__, self.__doc__ = name, function.__doc__
        self._signature = inspect.signature(function)
        # Arguments by keyword alone come last, to the function and to the others registered.
        kinds = [(p.name, p.kind is p.KEYWORD_ONLY) for p in self._signature.parameters.values()]
        self._keywords = [name for name, by_keyword in kinds if by_keyword]
        self._positional = len(kinds) - len(self._keywords)
        self._function = function
        self._written = written
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self._differentiable = _function_of(self)
        if name in _definitions:  # a cell of a notebook that runs again
            del REGISTRY[name]
        self._op = Op(name, "host", infer=self._infer, ref=self._run)
        _definitions[name] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.__name__})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Records the operation."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self._written:
            self._note_writes(bound.arguments)
        pattern, tensors = _taken_apart(bound.args + tuple(bound.kwargs.values()), self.__name__)
        if any([node_of(x).grad_to is not None for x in tensors]):
            return self._differentiable.apply(pattern, *tensors)
        return self._recorded(pattern, tensors)

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
        results = self._results(pattern, metas)
        y = record(self._op, tensors, (pattern, tuple([m.dtype for m in metas])))
        return y if isinstance(results, Meta) else _unpacked(y, results)

    def _at_once(self, pattern: Any, tensors: Sequence[Any]) -> Any:
        """Calls the function, or without values what tells of its results, on the tensors."""
        elsewhere = any([node_of(x).meta.device is not CPU for x in tensors])
        function = self._fake if elsewhere and self._fake is not None else self._function
        with no_grad():
            results = self._call(function, pattern, tensors)
        for y in results if isinstance(results, tuple) else (results,):
            if any([y is x for x in tensors]):
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
