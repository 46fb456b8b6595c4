"""Strides: where PyTorch would keep the elements of a value in its storage.

Nothing here is about our memory, in which every value is contiguous. But what shares memory with
what, and so which writes are seen where, follows in PyTorch from strides; they are therefore part
of a value's Meta, inferred with its shape and dtype. Strides count elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from operator import itemgetter

from livegrad.native.hot import hot

Shape = tuple[int, ...]
Strides = tuple[int, ...]


@hot
def contiguous_strides(shape: Shape) -> Strides:
    """Strides of row-major order."""
    strides = [1] * len(shape)
    step = 1
    for d in range(len(shape) - 1, 0, -1):
        size = shape[d]
        if size > 1:
            step = step * size
        strides[d - 1] = step
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """Whether the elements lie in row-major order without gaps; dims of size 1 do not matter."""
    return 0 in shape or _fill(zip(reversed(shape), reversed(strides), strict=True))


def _fill(dims: Iterable[tuple[int, int]]) -> bool:
    """Whether dims, as (size, stride) from the innermost on, leave no gaps between elements."""
    expected = 1
    for size, stride in dims:
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def channels_last_strides(shape: Shape) -> Strides:
    """Strides of PyTorch's channels_last formats: dim 1 innermost, then the others."""
    return strides_in_order(shape, _channels_last(len(shape)))


def _channels_last(ndim: int) -> tuple[int, ...]:
    """The dims in that order, innermost first."""
    return 1, *range(ndim - 1, 1, -1), 0


def strides_in_order(shape: Shape, order: Sequence[int]) -> Strides:
    """Dense strides with the dims in `order`, innermost first."""
    strides = [0] * len(shape)
    step = 1
    for d in order:
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def is_channels_last(shape: Shape, strides: Strides) -> bool:
    """Whether the elements lie in a channels_last order without gaps."""
    order = _channels_last(len(shape))
    return len(shape) in (4, 5) and _fill([(shape[d], strides[d]) for d in order])


def prefers_channels_last(shape: Shape, strides: Strides) -> bool:
    """Whether strides look like channels_last, even with gaps: what PyTorch suggests by them."""
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for d in _channels_last(len(shape)):
        if shape[d] == 0 or strides[d] < least:
            return False
        if d == 0 and least == strides[1]:
            return False
        least = strides[d] * (shape[d] if shape[d] > 1 else 1)
    return True


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Whether the elements fill a stretch of memory, each place once, in any order of dims."""
    dims = sorted(zip(shape, strides, strict=True), key=itemgetter(1))
    return 0 in shape or _fill(dims)


def repeats(shape: Shape, strides: Strides) -> bool:
    """Whether several elements certainly lie in one place: a dim was expanded."""
    if 0 in shape:
        return False
    return any([size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True)])


def may_overlap(shape: Shape, strides: Strides) -> bool:
    """Whether several elements may lie in one place, as those of overlapping windows do."""
    if 0 in shape:
        return False
    reach = 0
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if abs(stride) <= reach:
                return True
            reach += abs(stride) * (size - 1)
    return False


# ----------------------------------------------------------------------- layouts of results


def order_of(shape: Shape, operands: Sequence[Strides]) -> list[int]:
    """The dims, innermost first, in which PyTorch walks over operands broadcast to `shape`.

    An operand has stride 0 along dims it is broadcast over. The first operand that tells two dims
    apart decides; dims that none tells apart stay in row-major order.
    """
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        place = i
        for before in range(i - 1, -1, -1):
            comparison = _compared(shape, operands, order[before], order[place])
            if comparison > 0:
                order[before], order[place] = order[place], order[before]
                place = before
            elif comparison < 0:
                break
    return order


def _compared(shape: Shape, operands: Sequence[Strides], a: int, b: int) -> int:
    """Positive if dim `a` should lie outside dim `b`, negative if inside, 0 if nobody can say."""
    for strides in operands:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return -1 if strides[a] < strides[b] else 1
        if shape[a] > shape[b]:
            return 1
    return 0


def broadcast_strides(shape: Shape, strides: Strides, wanted: Shape) -> Strides:
    """The strides of an operand as it is read when broadcast to `wanted`."""
    lead = len(wanted) - len(shape)
    return (0,) * lead + tuple(
        [
            0 if size == 1 != wanted[lead + d] else stride
            for d, (size, stride) in enumerate(zip(shape, strides, strict=True))
        ]
    )


def expanded_strides(shape: Shape, strides: Strides, wanted: Shape) -> Strides:
    """The strides of a view that is expanded to `wanted`."""
    lead = len(wanted) - len(shape)
    out = [0 if n != wanted[lead + d] else strides[d] for d, n in enumerate(shape)]
    for d in range(lead - 1, -1, -1):
        following = wanted[d + 1] * out[0] if out else 0
        out.insert(0, following if wanted[d] == 1 else 0)
    return tuple(out)


def elementwise_strides(shape: Shape, operands: Sequence[tuple[Shape, Strides]]) -> Strides:
    """The strides of the result of an elementwise operation; a number is an operand without dims.

    Where dims have size 1 or 0, PyTorch's result depends on whether it took a short cut.
    """
    if all([size == shape for size, _ in operands]):
        if all([is_contiguous(shape, strides) for _, strides in operands]):
            return contiguous_strides(shape)
        if len(shape) == 4 and all([is_channels_last(shape, strides) for _, strides in operands]):
            return channels_last_strides(shape)
        first = operands[0][1]
        if is_dense(shape, first) and all([strides == first for _, strides in operands]):
            return first
    read = [broadcast_strides(size, strides, shape) for size, strides in operands]
    return _allocated(shape, order_of(shape, read))


def _allocated(shape: Shape, order: Sequence[int]) -> Strides:
    """Strides with the dims in `order`; those outside an empty dim are 0 unless it is row-major."""
    if list(order) == list(range(len(shape) - 1, -1, -1)):
        return contiguous_strides(shape)
    return tuple([prod([shape[d] for d in order[: order.index(at)]]) for at in range(len(shape))])


def like_strides(shape: Shape, strides: Strides) -> Strides:
    """The strides of a copy: the same if they are dense, else dense in the same order of dims."""
    return (
        strides if is_dense(shape, strides) else strides_in_order(shape, order_of(shape, [strides]))
    )


def viewed_strides(shape: Shape, strides: Strides, wanted: Shape) -> Strides | None:
    """The strides with which `wanted` shows the same elements; None if only a copy can."""
    if 0 in shape:
        return strides if shape == wanted else contiguous_strides(wanted)
    if not shape:
        return (1,) * len(wanted)
    out = [0] * len(wanted)
    at = len(wanted) - 1
    base, count, made = strides[-1], 1, 1
    for d in range(len(shape) - 1, -1, -1):
        count *= shape[d]
        ends = d == 0 or (shape[d - 1] != 1 and strides[d - 1] != count * base)
        if not ends:
            continue
        while at >= 0 and (made < count or wanted[at] == 1):
            out[at] = made * base
            made *= wanted[at]
            at -= 1
        if made != count:
            return None
        if d > 0:
            base, count, made = strides[d - 1], 1, 1
    return tuple(out) if at == -1 else None


def span(shape: Shape, strides: Strides) -> int:
    """How many elements of storage lie between the first and the last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)])


def memory_order(shape: Shape, strides: Strides) -> tuple[int, ...]:
    """The dims of a dense value from the outermost in memory to the innermost."""
    return tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], shape[d] == 1, d)))
