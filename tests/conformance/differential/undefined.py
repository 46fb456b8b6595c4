"""Lines after which PyTorch's own values hang on an order, or on memory, that it does not promise.

They are told by PyTorch's tensors: what a program writes with indices, or as `out`, to a tensor
several elements of which lie in one place, what it reads through one storage while it writes the
same memory through another, and gradients that PyTorch has given the same memory.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import torch

OVERLAPPING = "places of one memory are written twice: which write comes last is not promised"
OVERLAPPING_BACK = (
    "the gradient of what was written twice is that of each write; PyTorch copies one over another"
)
READ_MEANWHILE = (
    "what is read is being written, at other places: PyTorch only looks at tensors without gaps"
)
TWO_STORAGES = "what is read is being written, through another storage: PyTorch cannot see it"
ONE_GRADIENT = "two gradients lie in the same memory in PyTorch, and each grows with the other"
GONE = "a graph that is gone is refused at once; PyTorch runs hooks on the way to where it is gone"
SIBLINGS = (
    "hooks and refusals of one of several outputs are met, in PyTorch, where a gradient of another "
    "is asked for"
)

HALF_WAY = (
    "a backward that was refused on its way has brought some gradients: which, is not promised"
)

ZERO_BELOW = "a number over complex 0 is infinite; PyTorch multiplies it by 1 / 0, which is NaN"

ZERO_TO = "0 to the power of 0 is 1, also of complex numbers; PyTorch's is exp(0 * log(0)): NaN"

TOO_LARGE = (
    "numbers whose squares are infinite are 0 if divided by their deviation; PyTorch's are 0, or "
    "NaN, by how many there are"
)

COPIED_OVERLAP = (
    "a copy with a part replaced is otherwise what it is a copy of; PyTorch's overlaps as that does"
)

SORTED_IN_PLACE = "equal numbers along an expanded dim have a median; PyTorch sorts where they lie"

OF_BYTES = "any and all ask whether numbers are 0; PyTorch of bytes that it makes of them for `out`"

MASKED_NAN = (
    "what a mask hides is hidden, also a NaN: PyTorch's attention shows it, or not, by how many "
    "dims there are"
)
MASKED_INFINITY = (
    "what a mask hides is hidden, also an infinite score: PyTorch's attention adds -inf to it"
)

ON_THE_WAY = (  # refusals of what is met after some gradients may have been brought
    "derivative for .* is not implemented|the gradient of a tensor that was given another shape|"
    r"Function \w+ returned an invalid gradient"
)
TRUTH = re.compile(r"\b(any|all)\(.*\bout=")
MEDIAN = re.compile(r"\bT\.(nan)?median\(\w+, dim=")
WITH_PART = re.compile(r"\b(select|slice|diagonal)_scatter\(")
ATTENTION = re.compile(r"scaled_dot_product_attention\(.*(?:is_causal=True|attn_mask=)")
RESULT = re.compile(r"\w+ = ")
NORMS = re.compile(r"(layer|group)_norm\(|\b(Layer|Group)Norm\(")
ZERO_TO_POWER = re.compile(r"(?<![\w.])0(?:\.0)? \*\* (\w+)")
NUMBER_OVER = re.compile(r"= [^=]*[\dj]\)? / (\w+)")
IN_PLACE = re.compile(r"\w_\(|(^|: )\w+ (\*\*|//|<<|>>|[-+*/%&|^])= ")
IN_NO_ORDER = re.compile(
    r"\](\[[^=]*)? *[-+*/]?= |(index_(put|copy|add|reduce)|scatter|masked_scatter|put)\w*_\(|"
    r"\bout=\w"
)
AT_INDICES = re.compile(r"(index_(put|copy|add|reduce)|scatter|masked_scatter|put)\w*_")
TRIANGLE = re.compile(r"\btri[lu]_\(")
RUNNING = re.compile(r"cum\w+_")  # sums go on from what may have been written meanwhile


@dataclass(frozen=True)
class Write:
    """A tensor, which may have no name, that a line writes to, and those that it reads for that."""

    to: torch.Tensor
    read: list[torch.Tensor]
    at_indices: bool


def notes(
    line: str,
    named: Iterable[Any],
    refusal: Exception | None,
    known: Iterable[Any] = (),
    writes: Iterable[Write] = (),
) -> set[str]:
    """What is not promised after a line that named these of the `known` tensors.

    `refusal` is what both raised, in the words of livegrad; `writes` is what `writes_of` tells.
    """
    tensors = list(named)
    found = set()
    if "autograd.grad(" in line and any(have_siblings(tensors, known)):
        found.add(SIBLINGS)
    if refusal is not None:
        if "backward(" in line and re.match(ON_THE_WAY, str(refusal)):
            found.add(HALF_WAY)
        return found | ({GONE} if "the graph was spent by backward" in str(refusal) else set())
    if NUMBER_OVER.search(line) and any(map(has_complex_zero, tensors)):
        found.add(ZERO_BELOW)
    if NORMS.search(line) and any(map(is_too_large, tensors)):
        found.add(TOO_LARGE)
    if ZERO_TO_POWER.search(line) and any(x.is_complex() for x in tensors):
        found.add(ZERO_TO)
    if ATTENTION.search(line):
        given = [x.detach() for x in tensors[bool(RESULT.match(line)) :]]
        if any(bool(x.isnan().any()) for x in given):
            found.add(MASKED_NAN)
        elif any(bool(x.isinf().any()) for x in given):
            found.add(MASKED_INFINITY)
    if MEDIAN.search(line) and any(map(is_expanded, tensors)):
        found.add(SORTED_IN_PLACE)
    as_bytes = TRUTH.search(line) and any(write.to.dtype is torch.uint8 for write in writes)
    if as_bytes and any(map(is_lost_in_bytes, tensors)):
        found.add(OF_BYTES)
    if WITH_PART.search(line) and any(map(overlaps_itself, tensors)):
        found.add(COPIED_OVERLAP)
    in_no_order = IN_NO_ORDER.search(line) is not None
    if in_no_order and any(overlaps_itself(x) for x in tensors):
        found.add(OVERLAPPING)
    if any(write.at_indices and overlaps_itself(write.to) for write in writes):
        found.add(OVERLAPPING)
    if TRIANGLE.search(line) and any(
        write.to.ndim > 3 and overlaps_itself(write.to) for write in writes
    ):
        found.add(OVERLAPPING)  # PyTorch copies these, and all of them back
    if any(write.to.requires_grad and overlaps_itself(write.to) for write in writes):
        found.add(OVERLAPPING_BACK)
    if any(is_read_meanwhile(write, x) for write in writes for x in write.read):
        found.add(READ_MEANWHILE)
    if (in_no_order or IN_PLACE.search(line)) and any(
        share_unseen(x, y) for x, y in combinations(tensors, 2)
    ):
        found.add(TWO_STORAGES)
    return found


def has_complex_zero(x: torch.Tensor) -> bool:
    return x.is_complex() and bool((x.detach() == 0).any())


def is_too_large(x: torch.Tensor) -> bool:
    """Whether the variance of finite numbers may be infinite."""
    values = x.detach()  # PyTorch refuses to look at a view that it has given up
    if not values.is_floating_point() or not values.isfinite().all():
        return False
    return bool(values.square().sum().isinf())


def is_lost_in_bytes(x: torch.Tensor) -> bool:
    """Whether numbers that are not 0 would be, as bytes."""
    values = x.detach()
    return bool(((values != 0) & (values.to(torch.uint8) == 0)).any())


def may_write(line: str) -> bool:
    return (IN_NO_ORDER.search(line) or IN_PLACE.search(line)) is not None


def writes_of(line: str, variables: dict[str, Any]) -> list[Write]:
    """What a line writes to, which may have no name, and the tensors that it reads for that."""
    found: list[Write] = []
    for node in ast.walk(ast.parse(line)):
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            itself = target if isinstance(node, ast.AugAssign) else None
            written: ast.expr | None = target.value if isinstance(target, ast.Subscript) else itself
            read = [node.value]
            key = target.slice if isinstance(target, ast.Subscript) else target
            at_indices = any(isinstance(x, ast.Call | ast.List) for x in ast.walk(key))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            in_place = re.fullmatch(r"[a-z]\w*[a-z\d]_", node.func.attr)
            out = [keyword.value for keyword in node.keywords if keyword.arg == "out"]
            written = node.func.value if in_place else out[0] if out else None
            read = [*node.args, *(keyword.value for keyword in node.keywords)]
            name = node.func.attr
            at_indices = (AT_INDICES.fullmatch(name) or RUNNING.fullmatch(name)) is not None
        else:
            continue
        if written is not None and isinstance(x := shown(written, variables), torch.Tensor):
            values = [shown(one, variables) for one in read]
            found.append(Write(x, [y for y in values if isinstance(y, torch.Tensor)], at_indices))
    return found


def shown(expression: ast.expr, variables: dict[str, Any]) -> Any:
    """The value of an expression, if it changes nothing; else None."""
    text = ast.unparse(expression)
    if re.search(r"\w_\(", text):
        return None
    try:
        with torch.no_grad():
            return eval(text, dict(variables))
    except Exception:  # it names what the line itself makes, or was refused
        return None


def is_read_meanwhile(write: Write, read: torch.Tensor) -> bool:
    """Whether a write changes what it has yet to read, unseen: one of the two has gaps."""
    written = write.to
    if written.untyped_storage()._cdata != read.untyped_storage()._cdata:
        return False
    if written.dtype is not read.dtype or (is_dense(written) and is_dense(read)):
        return False
    alike = written.shape == read.shape and written.stride() == read.stride()
    if alike and written.storage_offset() == read.storage_offset() and not write.at_indices:
        return False
    places = [set((places_of(x) + x.storage_offset()).flatten().tolist()) for x in (written, read)]
    return not places[0].isdisjoint(places[1])


def is_dense(x: torch.Tensor) -> bool:
    """Whether a tensor has neither gaps nor repetitions."""
    places = places_of(x).unique()
    return places.numel() == x.numel() and (not x.numel() or int(places.max()) == x.numel() - 1)


def is_expanded(x: torch.Tensor) -> bool:
    """Whether there is a dim along which all elements lie in one place."""
    return any(not step and size > 1 for size, step in zip(x.shape, x.stride(), strict=True))


def overlaps_itself(x: Any) -> bool:
    """Whether several elements lie in one place."""
    places = places_of(x)
    return places.numel() > places.unique().numel()


def places_of(x: Any) -> torch.Tensor:
    """Where each element lies, counted from the first."""
    places = torch.zeros((), dtype=torch.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * step
    return places


def have_siblings(tensors: Iterable[Any], known: Iterable[Any]) -> Iterator[bool]:
    """For each pair of tensors: whether one function of PyTorch's returned both.

    Or what the second was, before it was written in place.
    """
    for x, y in product(tensors, known):
        if x is not y and not is_stale(x) and not is_stale(y) and x.grad_fn is not None:
            before = y.grad_fn.next_functions if y.grad_fn is not None and y._version else ()
            other = any(f is x.grad_fn and number != x.output_nr for f, number in before)
            yield x.grad_fn is y.grad_fn or other


def is_stale(x: Any) -> bool:
    """Whether PyTorch has given up the history of a view, one of several."""
    try:
        x.is_leaf
    except RuntimeError:
        return True
    return False


def share_unseen(x: Any, y: Any) -> bool:
    """Whether two tensors lie in the same memory, but not in the same storage."""
    if x.untyped_storage()._cdata == y.untyped_storage()._cdata:
        return False
    (a, b), (c, d) = stretch(x), stretch(y)
    return a < d and c < b


def stretch(x: Any) -> tuple[int, int]:
    storage = x.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def share_gradients(tensors: Iterable[Any]) -> bool:
    """Whether two tensors have been given one memory for their gradients."""
    grads = {id(x._grad): x._grad for x in tensors if x._grad is not None}
    known = [g.untyped_storage().data_ptr() for g in grads.values() if g.numel()]
    return len(known) > len(set(known))
