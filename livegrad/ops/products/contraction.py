"""Contraction: sums of products over any dims (einsum, tensordot), and Kronecker products.

Every dim has a label. EINSUM multiplies its operands where labels agree and sums over the labels
that its result lacks; it is done pair by pair, each pair as one (batched) matrix product:

    batch   in both, kept         left, right   in one of them, kept         sum   in both, not kept
    (batch, left, sum) @ (batch, sum, right)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_items
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import row_major, view
from livegrad.ops.elementwise.arithmetic import cast, mul
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.products.einsum_layout import einsum_strides
from livegrad.ops.products.matmul import MATMUL, transposed
from livegrad.ops.reductions.reduce import sum as summed
from livegrad.ops.shaping.diagonals import DIAGONAL
from livegrad.ops.shaping.joining import EachInput
from livegrad.ops.shaping.movement import EXPAND, PERMUTE, normal_dim, permute, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import casted
from livegrad.ops.support.out import casting, exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Labels = tuple[int, ...]

# Labels of letters are 0 … 51, in the order of torch; dims of an ellipsis are numbered from here.
_ELLIPSIS = 52


class _Term(NamedTuple):
    """A tensor and the labels of its dims."""

    value: Tensor
    labels: Labels


# ------------------------------------------------------------------------------------- the op


def _sizes(labels: Sequence[Labels], shapes: Sequence[Shape]) -> dict[int, int]:
    """The size of every label; a dim of size 1 is broadcast."""
    sizes: dict[int, int] = {}
    for names, shape in zip(labels, shapes, strict=True):
        for name, size in zip(names, shape, strict=True):
            if sizes.get(name, 1) == 1:
                sizes[name] = size
            elif size not in (1, sizes[name]):
                raise RuntimeError(
                    f"einsum(): subscript {_letter(name)} has size {size} which does not broadcast "
                    f"with previously seen size {sizes[name]}"
                )
    return sizes


def _einsum_infer(metas: tuple[Meta, ...], attrs: Attrs, shape: Any) -> Meta:
    labels, out = attrs
    sizes = _sizes(labels, [m.shape for m in metas])
    wanted = tuple([sizes[name] for name in out])
    kinds = [m.dtype for m in metas]
    uses = [name for names in labels for name in set(names)]
    alone = [any(name not in out and uses.count(name) == 1 for name in names) for names in labels]
    # Sums of bools and integers are int64; products of matrices have one dtype.
    kinds = [
        dtypes.int64 if kind.category < dtypes.FLOAT and summed else kind
        for kind, summed in zip(kinds, alone, strict=True)
    ]
    if any(name not in out and uses.count(name) > 1 for name in uses):
        if dtypes.bool_ in kinds:
            raise not_implemented("bmm", dtypes.bool_)
        if len({m.dtype for m in metas}) > 1:
            names = ", ".join([m.dtype.name for m in metas])
            raise RuntimeError(f"einsum(): expected operands of one dtype; got {names}")
    return meta_of(wanted, dtypes.result_dtype(tuple([(kind, 2) for kind in kinds])))


def _einsum_expand(n: Any, *operands: Tensor) -> Tensor:
    labels, out = n.attrs
    sizes = _sizes(labels, [node_of(x).meta.shape for x in operands])
    if n.meta.dtype.category == dtypes.INT:
        operands = tuple([cast(x, n.meta.dtype) for x in operands])
    terms = [_without_ones(x, names, sizes) for x, names in zip(operands, labels, strict=True)]
    terms = [_summed(term, _needed(terms, i, out)) for i, term in enumerate(terms)]
    while len(terms) > 1:
        i, j = _cheapest(terms, out, sizes)
        needed = _needed(terms, i, out, j)
        pair = _contracted(terms[i], terms[j], needed, sizes)
        terms = [term for k, term in enumerate(terms) if k not in (i, j)] + [pair]
    return cast(_ordered(terms[0], out), n.meta.dtype)


def _without_ones(x: Tensor, labels: Labels, sizes: dict[int, int]) -> _Term:
    """A term without the dims along which it is broadcast."""
    shape = node_of(x).meta.shape
    kept = [d for d, name in enumerate(labels) if shape[d] != 1 or sizes[name] == 1]
    return _Term(reshape_to(x, tuple([shape[d] for d in kept])), tuple([labels[d] for d in kept]))


def _needed(terms: Sequence[_Term], i: int, out: Labels, j: int = -1) -> set[int]:
    """The labels that somebody but terms `i` and `j` asks for."""
    others = [term.labels for k, term in enumerate(terms) if k not in (i, j)]
    return set(out).union(*others)


def _summed(term: _Term, needed: set[int]) -> _Term:
    """A term summed over the labels that nobody else needs."""
    gone = [d for d, name in enumerate(term.labels) if name not in needed]
    if not gone:
        return term
    return _Term(summed(term.value, gone), tuple([name for name in term.labels if name in needed]))


def _cheapest(terms: Sequence[_Term], out: Labels, sizes: dict[int, int]) -> tuple[int, int]:
    """The pair to contract next: the one whose result grows least, the first of equals."""
    if len(terms) == 2:
        return 0, 1

    def growth(pair: tuple[int, int]) -> int:
        i, j = pair
        a, b = set(terms[i].labels), set(terms[j].labels)
        kept = (a | b) & _needed(terms, i, out, j)
        before = [prod([sizes[name] for name in names]) for names in (a, b)]
        return prod([sizes[name] for name in kept]) - before[0] - before[1]

    return min(combinations(range(len(terms)), 2), key=growth)


def _contracted(a: _Term, b: _Term, needed: set[int], sizes: dict[int, int]) -> _Term:
    """Two terms as one, summed over the labels both have and nobody else needs."""
    both = [name for name in a.labels if name in b.labels]
    batch = [name for name in both if name in needed]
    left = [name for name in a.labels if name not in b.labels]
    right = [name for name in b.labels if name not in a.labels]
    over = [name for name in both if name not in needed]
    labels = (*batch, *left, *right)
    shape = tuple([sizes[name] for name in labels])
    if not over:
        return _Term(mul(_spaced(a, labels, sizes), _spaced(b, labels, sizes)), labels)
    x = _matrices(a, batch, left, over, sizes)
    y = _matrices(b, batch, over, right, sizes)
    return _Term(reshape_to(record(MATMUL, (x, y)), shape), labels)


def _ordered(term: _Term, labels: Sequence[int]) -> Tensor:
    """The value of a term with its dims in another order."""
    order = tuple([term.labels.index(name) for name in labels])
    if order == tuple(range(len(order))):
        return term.value
    return record(PERMUTE, (term.value,), (order,))


def _spaced(term: _Term, labels: Labels, sizes: dict[int, int]) -> Tensor:
    """The value of a term with a dim for every label, of size 1 where it lacks it."""
    mine = [name for name in labels if name in term.labels]
    shape = tuple([sizes[name] if name in mine else 1 for name in labels])
    return reshape_to(_ordered(term, mine), shape)


def _matrices(
    term: _Term, batch: list[int], rows: list[int], columns: list[int], sizes: dict[int, int]
) -> Tensor:
    """A term as (a batch of) matrices; if its columns come first in memory, as their transpose."""
    turned = bool(rows and columns) and term.labels.index(columns[0]) < term.labels.index(rows[0])
    inner = (columns, rows) if turned else (rows, columns)
    value = _ordered(term, (*batch, *inner[0], *inner[1]))
    groups = ([batch] if batch else []) + list(inner)
    value = reshape_to(value, tuple([prod([sizes[x] for x in names]) for names in groups]))
    return transposed(value) if turned else value


def _einsum_ref(n: Any, *arrays: Any) -> Any:
    labels, out = n.attrs
    sizes = _sizes(labels, [x.shape for x in arrays])
    letters = {name: i for i, name in enumerate(sizes)}
    given: list[Any] = []
    for x, names in zip(arrays, labels, strict=True):
        if x.dtype.kind in "biu" and n.meta.dtype.category == dtypes.INT:
            x = x.astype(n.meta.dtype.storage)
        kept = [d for d, name in enumerate(names) if x.shape[d] == sizes[name]]
        given += [
            x.reshape([x.shape[d] for d in kept]),
            [letters[names[d]] for d in kept],
        ]
    return np.einsum(*given, [letters[name] for name in out])


def _einsum_grad(i: int, g: Tensor, y: Tensor, *operands: Tensor) -> Tensor:
    labels, out = y._node.attrs
    mine = labels[i]
    others = [k for k in range(len(operands)) if k != i]
    known = set(out).union(*[labels[k] for k in others])
    kept = tuple([name for name in mine if name in known])
    given = (g, *[conj(operands[k]) for k in others])
    back = record(EINSUM, given, ((out, *[labels[k] for k in others]), kept))
    # What was summed over nothing else gets the same gradient everywhere.
    have = dict(zip(kept, node_of(back).meta.shape, strict=True))
    sizes = zip(mine, operands[i].shape, strict=True)
    wanted = tuple([have.get(name, size) for name, size in sizes])
    spaced = reshape_to(back, tuple([have.get(name, 1) for name in mine]))
    return spaced if spaced.shape == wanted else record(EXPAND, (spaced,), (), (), wanted)


EINSUM: Op = Op(
    "einsum",
    "composite",
    # Labels of the operands, none of them twice in one, and of the result: attrs (labels, out).
    infer=_einsum_infer,
    ref=_einsum_ref,
    expand=_einsum_expand,
    grads=EachInput(_einsum_grad),
    layout=einsum_strides,
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3), s.uniform(3, 4)), lambda a, b: einsum("ij,jk", a, b)),
        lambda: s.Sample(
            (s.uniform(2, 3, 4), s.uniform(2, 5, 4)), lambda a, b: einsum("bqd,bkd->bkq", a, b)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3), s.uniform(4, 2), s.uniform(3)),
            lambda a, b, c: einsum("ij,ki,j->k", a, b, c),
        ),
        lambda: s.Sample((s.uniform(3, 3),), lambda a: einsum("ii", a)),
        lambda: s.Sample(
            (s.uniform(2, 1, 3), s.uniform(4, 3)), lambda a, b: einsum("...i,...i->...", a, b)
        ),
        lambda: s.Sample((s.uniform(2, 0), s.uniform(0, 3)), lambda a, b: einsum("ij,jk", a, b)),
    ),
)


# ------------------------------------------------------------------------------ reading labels


def _label(letter: str, place: int) -> int:
    if "A" <= letter <= "Z":
        return ord(letter) - ord("A")
    if "a" <= letter <= "z":
        return ord(letter) - ord("a") + 26
    raise RuntimeError(
        f"einsum(): invalid subscript {letter!r} at index {place} in the equation string, "
        "subscripts must be in [a-zA-Z]"
    )


def _letter(label: int) -> str:
    if label >= _ELLIPSIS:
        return "... (an ellipsis)"
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _parse_subscripts(text: str, what: str) -> list[Any]:
    """Labels and Ellipsis of one operand, or of the result, of an equation."""
    found: list[Any] = []
    i = 0
    while i < len(text):
        if text[i] == ".":
            if Ellipsis in found:
                raise RuntimeError(
                    f"einsum(): found '.' for {what} for which an ellipsis was already found"
                )
            if text[i : i + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for {what} that is not part of any ellipsis"
                )
            found.append(Ellipsis)
            i += 3
        else:
            if text[i] != " ":
                found.append(_label(text[i], i))
            i += 1
    return found


def _parse_equation(equation: str, operands: Sequence[Tensor]) -> tuple[list[Any], Any]:
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more = "fewer" if len(operands) < len(terms) else "more"
        raise RuntimeError(
            f"einsum(): {more} operands were provided than specified in the equation; got "
            f"{len(operands)}; expected {len(terms)}"
        )
    inputs = [_parse_subscripts(term, f"operand {i}") for i, term in enumerate(terms)]
    return inputs, _parse_subscripts(right, "the output") if arrow else None


def _parse_sublist(sublist: Sequence[Any]) -> list[Any]:
    for label in as_items(sublist, "list of ints"):
        if label is not Ellipsis and not 0 <= label < _ELLIPSIS:
            raise ValueError(
                f"einsum(): subscript {label} in subscript list is not within the valid range "
                "[0, 52)"
            )
    return list(sublist)


def _explicit(inputs: list[Any], out: Any, shapes: Sequence[Shape]) -> tuple[list[Labels], Labels]:
    """Labels of all dims, those under an ellipsis too, and of the result, given or not."""
    widest = 0
    for i, (names, shape) in enumerate(zip(inputs, shapes, strict=True)):
        hidden = len(shape) - (len(names) - names.count(Ellipsis))
        if hidden < 0 or (hidden and Ellipsis not in names):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(names)}) does not match "
                f"the number of dimensions ({len(shape)}) for operand {i}"
            )
        widest = max(widest, hidden)
    # Dims under an ellipsis are aligned on the right: number them from the left of the widest.
    under = tuple(range(_ELLIPSIS, _ELLIPSIS + widest))
    labels = [
        _filled_in(names, under[widest - (len(shape) - len(names) + names.count(Ellipsis)) :])
        for names, shape in zip(inputs, shapes, strict=True)
    ]
    if out is None:
        flat = [name for names in inputs for name in names if name is not Ellipsis]
        return labels, (*under, *sorted({name for name in flat if flat.count(name) == 1}))
    wanted = _filled_in(out, under)
    for name in wanted:
        if wanted.count(name) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {_letter(name)} appears more than once in the output"
            )
        if not any(name in names for names in labels):
            raise RuntimeError(
                f"einsum(): output subscript {_letter(name)} does not appear in the equation for "
                "any input operand"
            )
    return labels, wanted


def _filled_in(names: Sequence[Any], covered: Sequence[int]) -> Labels:
    filled: list[int] = []
    for name in names:
        filled += covered if name is Ellipsis else [name]
    return tuple(filled)


def _diagonals(i: int, x: Tensor, labels: Labels) -> _Term:
    """A term in which no label is repeated: the diagonal of the dims that share one."""
    names = list(labels)
    for name in sorted(set(names)):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            shape = node_of(x).meta.shape
            if shape[first] != shape[second]:
                raise RuntimeError(
                    f"einsum(): subscript {_letter(name)} is repeated for operand {i} but the "
                    f"sizes don't match, {shape[second]} != {shape[first]}"
                )
            rest = [size for d, size in enumerate(shape) if d not in (first, second)]
            x = view(DIAGONAL, x, (first, second), (0, 0), (*rest, shape[first]))
            names = [n for d, n in enumerate(names) if d not in (first, second)] + [name]
    return _Term(x, tuple(names))


# --------------------------------------------------------------------------- public functions


def einsum(*args: Any) -> Tensor:
    """Sum of products of elements by Einstein's convention: einsum("ij,jk->ik", a, b).

    Labels that the result does not have are summed over; `...` stands for dims that are broadcast;
    without `->` the result has the labels that occur once. Or with numbers for letters, each list
    after its operand: einsum(a, [0, 1], b, [1, 2], [0, 2]).

    Example:
        >>> lg.einsum("ij,jk->ik", lg.ones(2, 3), lg.ones(3, 4)).shape
        livegrad.Size([2, 4])
        >>> lg.einsum("ii->", lg.eye(3))
        tensor(3.)
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], Handle):
        operands = list(args[: len(args) // 2 * 2 : 2])
        inputs = [_parse_sublist(sublist) for sublist in args[1::2]]
        out = _parse_sublist(args[-1]) if len(args) % 2 else None
    elif isinstance(args[0], str):
        several = len(args) == 2 and isinstance(args[1], list | tuple)
        operands = list(args[1] if several else args[1:])
        inputs, out = _parse_equation(args[0], operands)
    else:
        raise TypeError(f"einsum(): argument 'equation' must be str, not {type(args[0]).__name__}")
    for i, x in enumerate(operands):
        if not isinstance(x, Handle):
            raise TypeError(f"einsum(): operand {i} must be Tensor, not {type(x).__name__}")
    labels, wanted = _explicit(inputs, out, [node_of(x).meta.shape for x in operands])
    terms = [
        _diagonals(i, x, names) for i, (x, names) in enumerate(zip(operands, labels, strict=True))
    ]
    if len(terms) == 1 and sorted(terms[0].labels) == sorted(wanted):  # nothing is summed: a view
        return permute(terms[0].value, [terms[0].labels.index(name) for name in wanted])
    return _record([term.value for term in terms], [term.labels for term in terms], wanted)


def _record(operands: list[Tensor], labels: list[Labels], out: Labels) -> Tensor:
    # Numbered in the order they occur, so that equal contractions are equal whatever the letters.
    names: dict[int, int] = {}
    for name in [name for term in labels for name in term]:
        names.setdefault(name, len(names))
    renamed = tuple([tuple([names[name] for name in term]) for term in labels])
    _sizes(labels, [node_of(x).meta.shape for x in operands])  # errors with the user's letters
    summed = [name for term in labels for name in set(term) if name not in out]
    if len(set(summed)) < len(summed):  # a product of matrices, not of elements
        operands = list(casted("low", *operands))
    return record(EINSUM, operands, (renamed, tuple([names[name] for name in out])))


@exact
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over dims of both: the last `dims` of `a` and first of `b`, or two lists.

    Example:
        >>> lg.tensordot(lg.ones(2, 3, 4), lg.ones(3, 4, 5), dims=2).shape
        livegrad.Size([2, 5])
    """
    x, y = node_of(a).meta, node_of(b).meta
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"tensordot: both inputs should have same dtype; got {x.dtype.name} and {y.dtype.name}"
        )
    if isinstance(dims, Handle):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(x.ndim, y.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (list(range(x.ndim - dims, x.ndim)), list(range(dims)))
    if not isinstance(dims, Sequence) or len(dims) != 2:
        raise RuntimeError(f"tensordot expects dims to be an int or two lists; got dims={dims}")
    first, second = [[side] if isinstance(side, int) else list(side) for side in dims]
    if len(first) != len(second):
        raise RuntimeError(
            f"tensordot: both dimension lists should have same length; got {first} and {second}"
        )
    left, right = list(range(x.ndim)), list(range(x.ndim, x.ndim + y.ndim))
    for p, q in zip(first, second, strict=True):
        d, e = normal_dim("tensordot", p, x.ndim), normal_dim("tensordot", q, y.ndim)
        if x.shape[d] != y.shape[e] and 1 not in (x.shape[d], y.shape[e]):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {x.shape[d]} "
                f"in dim {d} and second has size {y.shape[e]} in dim {e}"
            )
        right[e] = left[d]
    out = [name for name in (*left, *right) if (name in left) != (name in right)]
    return row_major(_record([a, b], [tuple(left), tuple(right)], tuple(out)))


@casting
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: `other` in place of every element of `input`, times that element."""
    a, b = node_of(input).meta.shape, node_of(other).meta.shape
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    left = tuple([n for size in a for n in (size, 1)])
    right = tuple([n for size in b for n in (1, size)])
    product = mul(reshape_to(input, left), reshape_to(other, right))
    return reshape_to(product, tuple([m * n for m, n in zip(a, b, strict=True)]))
