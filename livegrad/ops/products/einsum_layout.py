"""How einsum's result lies in PyTorch's memory, which contracts pair after pair from the left.

Operands are seen with one dim per label, those of the result first, of size 1 where they lack it.
A pair becomes matrices, whose product lies as (batch, left, right), or is multiplied element by
element if there is nothing to sum over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.graph.layout import Strides, contiguous_strides, viewed_strides
from livegrad.graph.meta import Meta
from livegrad.ops.support.stepwise import Seen, elementwise


def einsum_strides(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """The layout of einsum: see EINSUM for its attrs."""
    labels, out = attrs
    if len(metas) == 1 or any([0 in m.shape for m in metas]):
        return None
    names = tuple(dict.fromkeys([*out, *[name for term in labels for name in term]]))
    terms = [_spread(m, term, names) for m, term in zip(metas, labels, strict=True)]
    counts = [sum([shape[d] != 1 for shape, _ in terms]) for d in range(len(names))]
    while len(terms) > 1:
        a, b, *rest = terms
        terms = [_pair(a, b, len(out), counts), *rest]
    shape, strides = terms[0]
    return strides if names == out else viewed_strides(shape, strides, meta.shape)


def _spread(meta: Meta, labels: Sequence[int], names: Sequence[int]) -> Seen:
    """An operand with a dim for every name."""
    dims = [labels.index(name) if name in labels else None for name in names]
    stride = meta.stride()
    shape = tuple([1 if d is None else meta.shape[d] for d in dims])
    return shape, tuple([1 if d is None else stride[d] for d in dims])


def _pair(a: Seen, b: Seen, kept: int, counts: list[int]) -> Seen:
    """Two terms as one, summed over dims from `kept` on that `counts` no other term for."""
    left, right = a[0], b[0]
    both = [d for d in range(len(left)) if left[d] != 1 != right[d]]
    over = []
    for d in both:
        if d >= kept:
            counts[d] -= 1
            if counts[d] == 1:
                over.append(d)
    a, b = _summed(a, b, kept, counts), _summed(b, a, kept, counts)
    if not over:
        return elementwise(a, b)
    batch = [d for d in both if d not in over]
    rows = [d for d in range(len(left)) if a[0][d] != 1 == b[0][d]]
    columns = [d for d in range(len(left)) if d not in (*batch, *rows, *over)]
    if rows and columns and columns[-1] < rows[0]:  # the product is made the other way round
        rows, columns = columns, rows
    order = [*batch, *rows, *over, *columns]
    shape = tuple([1 if d in over else max(a[0][d], b[0][d]) for d in range(len(left))])
    product = contiguous_strides(tuple([shape[d] for d in order]))
    return shape, tuple([product[order.index(d)] for d in range(len(left))])


def _summed(term: Seen, other: Seen, kept: int, counts: Sequence[int]) -> Seen:
    """A term summed, on its own, over the dims that no other term has."""
    shape = term[0]
    gone = [d for d in range(kept, len(shape)) if counts[d] == 1 and shape[d] != 1 == other[0][d]]
    if not gone:
        return term
    rest = tuple([1 if d in gone else size for d, size in enumerate(shape)])
    return rest, contiguous_strides(rest)
