"""vmap: a function of one example, for many at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.func import tree
from livegrad.func.replay import Replay
from livegrad.func.trace import Trace
from livegrad.graph.handle import Handle, Step, node_of, share_of, shares_with
from livegrad.graph.layout import span, viewed_strides
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.views import laid_out, view
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import PERMUTE, RESHAPE, alias, expand, movedim
from livegrad.ops.shaping.slicing import FLIP, narrow
from livegrad.random import default_generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Function = Callable[..., Any]


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """`func` for all examples that lie along a dim of its arguments.

        vmap(f)(x)  is  stack([f(x[0]), f(x[1]), …])

    but `func` is called once, and each of its operations is recorded once, for all examples.

    Args:
        in_dims: which dim of each argument counts the examples; None: the argument is the same for
            all. A number, or a tuple like the arguments, nested like them if need be.
        out_dims: where that dim is in the results.
        randomness: whether random operations raise ("error"), draw anew for each example
            ("different"), or once for all ("same").
        chunk_size: do so many examples at a time.

    Example:
        >>> dot = lg.vmap(lg.dot)  # one after the other, without a loop
        >>> dot(lg.ones(3, 4), lg.ones(3, 4))
        tensor([4., 4., 4.])
    """
    _check_options(randomness, chunk_size)

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        _check_out_dims(func, out_dims)
        size, dims, leaves, shape = _inputs(func, in_dims, args)
        call = _Call(func, shape, dims, kwargs, out_dims, randomness)
        if chunk_size is None or chunk_size >= size:
            return call.run(leaves, size)
        return call.run_in_chunks(leaves, size, chunk_size)

    return mapped


class _Call:
    """One call of a mapped function."""

    def __init__(
        self,
        func: Function,
        shape: tree.Shape,
        dims: list[int | None],
        kwargs: dict[str, Any],
        out_dims: Any,
        randomness: str,
    ) -> None:
        self.func = func
        self.shape = shape
        self.dims = dims
        self.kwargs = kwargs
        self.out_dims = out_dims
        self.randomness = randomness

    def run(self, leaves: list[Any], size: int) -> Any:
        """Traces the function on one example and replays it for all."""
        replay = Replay(size, self.randomness)
        inputs = list(leaves)
        with Trace() as trace:
            for i, dim in enumerate(self.dims):
                if dim is not None:
                    inputs[i] = _placeholder(trace, leaves[i], dim)
            starts = [node_of(x) if isinstance(x, Handle) else None for x in inputs]
            out = self.func(*tree.unflatten(inputs, self.shape), **self.kwargs)
            results, out_shape = tree.flatten(out)
            places = self._out_dims(out, results, out_shape)
            ends = [node_of(y) if isinstance(y, Handle) else None for y in results]
            now = [node_of(x) if isinstance(x, Handle) else None for x in inputs]
        with setting(held=True):  # what is recorded keeps its inputs
            for i, dim in enumerate(self.dims):
                if dim is not None:
                    replay.bind(starts[i], _moved(leaves[i], dim, 0))  # type: ignore[arg-type]
        written = [
            i for i, dim in enumerate(self.dims) if dim is not None and now[i] is not starts[i]
        ]
        roots = [n for n in ends if n is not None] + [now[i] for i in written]
        replay.run(trace, roots)  # type: ignore[arg-type]
        for i in written:  # in place: the argument takes the values of all examples
            dim = self.dims[i]
            assert dim is not None
            rebind(leaves[i], _moved(replay.all_of(now[i]), 0, dim))  # type: ignore[arg-type]
        shown = [
            (inputs[i], leaves[i])
            for i, dim in enumerate(self.dims)
            if dim is not None and i not in written
        ]
        taken = [x for x in leaves if isinstance(x, Handle)]
        found = []
        for y, node, place in zip(results, ends, places, strict=True):
            result = self._result(replay, trace, y, node, place)
            if place is not None:
                result = _view_or_own(result, y, shown, taken)
            taken.append(result)
            found.append(result)
        return tree.unflatten(found, out_shape)

    def _result(self, replay: Replay, trace: Trace, y: Any, node: Any, place: int | None) -> Any:
        name = name_of(self.func)
        if place is None:
            if node is not None and replay.batched(node) is not None:
                raise ValueError(
                    f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is "
                    "None"
                )
            return y
        if node is None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(y)}. Did "
                "you mean to set out_dims= to None for output?"
            )
        ndim = node.meta.ndim + 1
        if not -ndim <= place < ndim:
            raise IndexError(
                f"vmap({name}, ...): Dimension out of range (expected to be in range of "
                f"[{-ndim}, {ndim - 1}], but got {place})"
            )
        with setting(held=True):
            if replay.batched(node) is not None:
                return _moved(replay.all_of(node), 0, place % ndim)
            if trace.is_made_for_each(node):  # in PyTorch it is a tensor of examples
                return _moved(_one_after_another(replay.all_of(node), node.meta), 0, place % ndim)
            return movedim(expand(y, (replay.size, *node.meta.shape)), 0, place % ndim)

    def _out_dims(self, out: Any, results: list[Any], shape: tree.Shape) -> list[int | None]:
        wanted = self.out_dims
        if isinstance(out, Handle) and isinstance(wanted, tuple) and len(wanted) == 1:
            wanted = wanted[0]
        found = tree.spread(wanted, shape)
        if found is None or (isinstance(out, Handle) and isinstance(wanted, tuple | list | dict)):
            raise ValueError(
                f"vmap({name_of(self.func)}, ..., out_dims={self.out_dims})(<inputs>): out_dims is "
                "not compatible with the structure of `outputs`. out_dims has structure "
                f"{tree.flatten(self.out_dims)[1]} but outputs has structure {shape}."
            )
        return found

    def run_in_chunks(self, leaves: list[Any], size: int, step: int) -> Any:
        """So many examples at a time; the results one after the other."""
        state = default_generator.get_state() if self.randomness == "same" else None
        outs = []
        for start in range(0, size, step):
            if state is not None:
                default_generator.set_state(state)
            count = min(step, size - start)
            part = [
                x if dim is None else narrow(x, dim, start, count)
                for x, dim in zip(leaves, self.dims, strict=True)
            ]
            outs.append(self.run(part, count))
        flat = [tree.flatten(out) for out in outs]
        shape = flat[0][1]
        places = tree.spread(self.out_dims, shape)
        assert places is not None
        joined = [
            parts[0] if place is None else cat(list(parts), place)
            for place, *parts in zip(places, *[results for results, _ in flat], strict=True)
        ]
        return tree.unflatten(joined, shape)


def _one_after_another(examples: Tensor, one: Meta) -> Tensor:
    """Examples that are all the same, as if each had a storage like that `one` has."""
    strides = max(span(one.shape, one.stride()), 1), *one.stride()
    return laid_out(examples, node_of(examples).meta.with_strides(strides))


def _view_or_own(
    result: Tensor, y: Tensor, arguments: list[tuple[Tensor, Tensor]], taken: list[Tensor]
) -> Tensor:
    """A result as a view of an argument, or as a tensor that may be written to by itself."""
    shown = _view_of_argument(result, y, arguments)
    if shown is not None:
        return shown
    return clone(result) if any(result is x for x in taken) else result


def _view_of_argument(
    result: Tensor, y: Tensor, arguments: list[tuple[Tensor, Tensor]]
) -> Tensor | None:
    """The result as a view of the argument that shows the same elements; None if there is none.

    `arguments` has placeholders of one example, and what they stand for; `y` is the result for one
    example: a view of a placeholder, or one itself.
    """
    for x, whole in arguments:
        if y is x or shares_with(y, x):
            steps = _steps_between(node_of(whole), node_of(result))
            if steps is None:
                return None
            if y is x and node_of(result).meta is node_of(whole).meta:
                return whole
            shown = _viewed(whole, steps) if steps else alias(whole)
            if y._share is not None and y._share.made is not None:
                share_of(shown).mark_made(y._share.made)
            return shown
    return None


def _steps_between(start: Node, end: Node) -> list[Step] | None:
    """The views that lead from one node to another; None if there is a copy on the way."""
    steps: list[Step] = []
    node = end
    while node is not start:
        if node.op.kind != "movement" or len(node.inputs) != 1 or not _is_view(node):
            return None
        steps.append((node.op, node.attrs, node.args, node.meta.shape))
        node = node.inputs[0]
    return steps[::-1]


def _is_view(node: Node) -> bool:
    """Whether a movement is a view in PyTorch, and was recorded as one would be now."""
    before = node.inputs[0]
    flows = LOCAL.state.grad and before.grad_to is not None and node.op.grads is not None
    if node.op is FLIP or flows != (node.grad_to is not None):
        return False
    shape, strides = before.meta.shape, before.meta.stride()
    return node.op is not RESHAPE or viewed_strides(shape, strides, node.meta.shape) is not None


def _viewed(x: Tensor, steps: list[Step]) -> Tensor:
    for step in steps:
        op, attrs, args, shape = step
        x = view(op, x, attrs, args, shape)
    return x


def _placeholder(trace: Trace, x: Tensor, dim: int) -> Tensor:
    meta = node_of(x).meta
    shape = meta.shape[:dim] + meta.shape[dim + 1 :]
    return trace.placeholder(meta_of(shape, meta.dtype), node_of(x).grad_to is not None)


def _moved(x: Tensor, source: int, target: int) -> Tensor:
    """A dim moved to another place, not as a view."""
    if source == target:
        return x
    order = [d for d in range(node_of(x).meta.ndim) if d != source]
    order.insert(target, source)
    return record(PERMUTE, (x,), (tuple(order),))


# ------------------------------------------------------------------------------------ checks


def name_of(func: Any) -> str:
    """What to call a function in messages."""
    if isinstance(func, functools.partial):
        return f"functools.partial({name_of(func.func)}, ...)"
    return getattr(func, "__name__", None) or repr(func)


def _check_options(randomness: str, chunk_size: int | None) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def _check_out_dims(func: Function, out_dims: Any) -> None:
    for place in tree.flatten(out_dims)[0]:
        if place is not None and not isinstance(place, int):
            raise ValueError(
                f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None "
                "or a python collection of ints representing where in the outputs the vmapped "
                "dimension should appear."
            )


def _inputs(
    func: Function, in_dims: Any, args: tuple[Any, ...]
) -> tuple[int, list[int | None], list[Any], tree.Shape]:
    """Number of examples, the dim of each leaf of the arguments, the leaves, their shape."""
    where = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{where}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{where}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    leaves, shape = tree.flatten(args)
    dims = tree.spread(in_dims, shape)
    if dims is None:
        raise ValueError(
            f"{where}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {tree.flatten(in_dims)[1]} but inputs has structure {shape}."
        )
    dims = [_in_dim(where, x, dim) for x, dim in zip(leaves, dims, strict=True)]
    sizes = [node_of(x).meta.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], dims, leaves, shape


def _in_dim(where: str, x: Any, dim: Any) -> int | None:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but in_dim must be either an integer "
            "dimension or None."
        )
    if not isinstance(x, Handle):
        raise ValueError(
            f"{where}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    ndim = node_of(x).meta.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"{where}: Got in_dim={dim} for some input, but that input is a Tensor of "
            f"dimensionality {ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
        )
    return dim % ndim
