"""What a program has left in its variables, where that is meant to differ, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from .compare import flat
from .explained_backward import (
    CONVERTED,
    GIVEN_SHAPE,
    OLD_SHAPE,
    SMALLER_BASE,
    asked_for,
    has_former_shape,
    is_of_converted,
    is_summed_to_former_shape,
)
from .explained_values import (
    HIDDEN_WHOLE,
    SIGN,
    VALUES,
    explanation_of_values,
    is_part_of_hidden,
    numbers_of,
    places_of_differences,
)
from .program import names
from .sides import version
from .tensors import (
    are_equal,
    functions_before,
    has_large_integers,
    has_left_its_base,
    has_nan,
    has_zero_and_single,
    has_zero_gradient,
    is_after,
    is_counted_with_left,
    is_hidden_view,
    is_its_own_gradient,
    is_left,
    is_made_by_set,
    is_unsigned,
    is_view_of_leaf,
    storage,
)
from .undefined import is_stale, may_write, overlaps_itself, places_of

SET_ON_A_VIEW = "set_ on a view leaves the history of what that was a view of alone"
SET_ON_A_WHOLE = "views of what set_ gives another storage keep the history that they had"
ONE_FACTOR = (
    "the gradient of a product of one number is a function of that; PyTorch's not, if another is 0"
)
OWN_FAULT = "PyTorch finds a fault of its own"
NO_INDEX = "an index must name a place, also where there is nothing to read or write"
NEGATED_UNSIGNED = "PyTorch's gradient of atan2 negates a uint8, which is none of its numbers"
SQUARED = "PyTorch's gradient of atan2 squares integers as such, which may be too large for that"
LAST_NAN = "of several NaN in a window the first has the gradient, as in max(); PyTorch's last has"
GRADIENT = "a gradient is a tensor like any other; PyTorch's may be a view, made without gradients"
HIDING = (
    *("repeat_interleave(", "avg_pool1d(", "einsum(", "tensordot(", "F.linear("),
    "F.instance_norm(",
)
DECAYED = "AdamW shrinks and moves a parameter in one write; in PyTorch these are two"
OWN_STRIDES = "what autograd.grad returns lies in memory as the rules here make it"
LEFT = "what was made to share another storage is no view any more, and counts writes for itself"
NEW_PLACE = (
    "PyTorch brings a gradient of what has left its base to where that would be by its new strides"
)
NO_HALVES = "there are no complex numbers of two half precisions: they are complex64"
COPIED_CONJUGATES = "PyTorch copies conjugates that it computes with: dims of size 1 lie as in that"
EMPTY = "nothing lies in memory: what is empty has strides, in PyTorch, by how it was made"
UNREAD = "PyTorch leaves a ZeroTensor as a gradient, which cannot be read"
UNREADABLE = "PyTorch cannot read a conjugate whose history it has given up"
NOTHING_FLOWS = "an empty gradient is a function of what it came from as that of anything else"
HALF_WAY = "what was made in inference mode, and given other values, is none of that any more"
DETACHED = "PyTorch's flag retains_grad stays, where detach_() has made a leaf of a tensor"
ONE_FOR_TWO = (
    "each gradient is a tensor of its own; PyTorch's are one, or in one memory, where a rule gives "
    "it on as it is"
)
OF_NOTHING = "PyTorch's gradient of cummax, and of cummin, of nothing is the tensor itself"
INTEGERS = "integers and bools never require a gradient, also where one is written to them"

ANY_OF_EQUALS = "which of equal numbers topk takes first is not promised"
LEAF_BEFORE = "a view that was made a leaf stays one; PyTorch's not, if it had been written before"

NO_GAPS = "a copy with a part replaced has no gaps; PyTorch's has those of what it is a copy of"
GIVEN_UP = r"Output \d+ of [A-Z][a-z]+ is a|A view was created in (inference|no_grad) mode"
RETAINED = re.compile(r"\w+ = (\w+)\.grad$")
GRADIENTS = re.compile(r"T\.autograd\.(grad\(|functional\.)|T\.func\.(?!functional_call\()")
LAYOUT = ("stride", "storage_offset", "is_contiguous")
FLOWS = ("is_leaf", "requires_grad")


def explanation_of_state(
    kind: str,
    detail: str,
    name: str | None,
    lines: Sequence[str],
    theirs: dict[str, Any],
    noted: Collection[str] = (),
    dropped: Mapping[str, Any] = MappingProxyType({}),
) -> str | None:
    """Why the variable `name` may differ in `kind` after `lines`; None if it should not.

    `theirs` are the variables as PyTorch has them, `noted` is what a line did not promise,
    `dropped` are variables that were deleted: gradients may have come through them.
    """
    gradients = gradients_in(lines)
    if kind == "value" and name in gradients:
        x = theirs[name]
        if is_written_together(x, detail) or is_written_part_by_part(str(name), x, lines):
            return OWN_STRIDES
    if kind == "value" and name in theirs and are_signs_of_nan(str(name), detail, lines, theirs):
        return SIGN
    if kind == "shape" and name in gradients:
        return OLD_SHAPE if has_former_shape(str(name), lines, theirs) else None
    together = kind in ("value", "version", *FLOWS) and name in theirs
    if together and is_one_of_two(str(name), lines, theirs):
        return ONE_FOR_TWO
    known = {**dropped, **theirs}
    if kind == "grad value" and (reason := explanation_of_gradient(detail, name, lines, known)):
        return reason
    if kind in ("type", "value") and name and is_of_converted(name, lines, known):
        return CONVERTED
    if kind in VALUES:
        return explanation_of_values(kind, detail, "\n".join(lines), noted, theirs)
    if kind == "RuntimeError at a read" and "unallocated storage" in detail:
        return UNREAD if any(map(has_zero_gradient, theirs.values())) else None
    if kind.endswith("Error at a read") and is_of_no_index(detail):
        return NO_INDEX
    if kind == "RuntimeError at a read" and "please report a bug to PyTorch" in detail:
        return OWN_FAULT
    if kind == "RuntimeError at a read" and re.search(GIVEN_UP, detail):
        return UNREADABLE if re.search(r"conj|adjoint|\.m?H\b", "\n".join(lines)) else None
    if name is None:
        return None
    if kind == "type" and "NoneType" in detail and name in gradients:
        asked = [
            theirs.get(x) for line in lines if name in names(line).makes for x in asked_for(line)
        ]
        return SET_ON_A_WHOLE if any(map(is_made_by_set, asked)) else None
    if kind == "type" and "torch None" in detail and name in gradients:
        return HIDDEN_WHOLE if written_hidden(theirs, lines) else None
    if kind == "version":
        return explanation_of_version(name, theirs, lines)
    if kind == "identity":
        return ONE_FOR_TWO if are_asked_together(detail, name, lines) else None
    if kind == "dtype" and "torch complex32" in detail:
        return NO_HALVES
    if kind in LAYOUT:
        return explanation_of_layout(kind, detail, name, lines, theirs)
    return explanation_of_flow(kind, detail, name, lines, theirs)


def explanation_of_gradient(
    detail: str, name: Any, lines: Sequence[str], theirs: dict[str, Any]
) -> str | None:
    """Why the gradient of a variable may have other values, whatever these are."""
    x = theirs[name]
    if is_through(x, "atan2(", is_unsigned, theirs, lines):
        return NEGATED_UNSIGNED
    if is_through(x, "atan2(", has_large_integers, theirs, lines):
        return SQUARED
    if is_through(x, "max_pool1d(", has_nan, theirs, lines):
        return LAST_NAN
    if is_summed_to_former_shape(x, numbers_of(detail.partition(", livegrad ")[2])):
        return GIVEN_SHAPE
    if any(isinstance(y, torch.Tensor) and ends_beyond_its_base(y) for y in theirs.values()):
        return SMALLER_BASE

    def is_equal_there(y: Any) -> bool:
        return are_equal(y, places_of_differences(detail))

    if is_through(x, "topk(", is_equal_there, theirs, lines):
        return ANY_OF_EQUALS
    return NEW_PLACE if is_sought_where_it_lies_now(x, theirs, lines) else None


NOTHING_THERE = r" of shape \((\d+, )*0[,)]"


def explanation_of_layout(
    kind: str, detail: str, name: str, lines: Sequence[str], theirs: dict[str, Any]
) -> str | None:
    """Why a variable may lie otherwise in memory."""
    if re.search(r"torch \(([1-9]\d*, )*0[,)].*" + NOTHING_THERE, detail):
        return EMPTY
    odd = derived(lines, "ldexp(") | derived(lines, "masked_scatter(")
    made_oddly = name in odd or name in made_after(is_masked, lines)
    if re.search(NOTHING_THERE, detail) and (kind == "storage_offset" or made_oddly):
        return EMPTY
    if name in gradients_in(lines) or name in retained_gradients(lines, theirs):
        return OWN_STRIDES
    if kind == "storage_offset" and is_part_as_gradient(theirs[name], name, lines):
        return OWN_STRIDES
    if name in derived_from_parts(lines):
        return NO_GAPS
    if kind == "stride" and is_made_of_conjugates(name, theirs, lines):
        return COPIED_CONJUGATES if differ_along_single(detail) else None
    return None


def explanation_of_flow(
    kind: str, detail: str, name: str, lines: Sequence[str], theirs: dict[str, Any]
) -> str | None:
    """Why a variable, or its gradient, may be another part of the graph."""
    gradients = gradients_in(lines)
    empty = re.search(NOTHING_THERE, detail)
    if kind in FLOWS and re.search(" of dtype (bool|u?int)", detail):
        return INTEGERS
    if kind == "grad requires_grad" and "torch False" in detail:
        made = any("create_graph=True" in line for line in lines)
        if made and is_through(theirs[name], "prod(", has_zero_and_single, theirs, lines):
            return ONE_FACTOR
    if "torch False" in detail and is_made_differentiable(kind, name, lines, theirs):
        return NOTHING_FLOWS if empty or comes_from_nothing(kind, name, lines, theirs) else None
    if kind == "grad requires_grad" and "torch True" in detail and empty:
        return OF_NOTHING if is_its_own_gradient(theirs[name]) else None
    if (
        kind == "grad requires_grad"
        and "torch True" in detail
        and any(
            is_through(theirs[name], call, lambda y: not y.numel(), theirs, lines)
            for call in ("cummax(", "cummin(")
        )
    ):
        return OF_NOTHING
    asked = kind == "requires_grad" and "torch True" in detail and name in gradients
    if asked and has_extremes_of_nothing(lines, theirs):
        return OF_NOTHING
    if "torch True" in detail and is_set(shown_in(kind, theirs[name]), lines, theirs):
        return SET_ON_A_VIEW
    if kind in FLOWS and "please report a bug to PyTorch" in detail:
        return OWN_FAULT
    if kind in FLOWS and "torch <class 'RuntimeError'>" in detail and name in gradients:
        return GRADIENT if is_hidden_view(theirs[name], list(theirs.values())) else None
    if kind in FLOWS and (has_left_its_base(theirs[name]) or is_left(theirs[name], theirs)):
        return LEFT
    if kind in FLOWS and is_given_data(name, lines) and theirs[name]._is_view():
        return LEFT
    if kind in FLOWS and is_counted_with_left(theirs[name], theirs):
        return LEFT
    if kind in FLOWS and is_stale(theirs[name]) and counts_for_others(theirs[name], theirs):
        return LEFT
    if kind in FLOWS and any(name in derived(lines, call) for call in HIDING):
        return HIDDEN_WHOLE if is_part_of_hidden(theirs[name], theirs) else None
    if kind == "is_leaf" and "torch False" in detail and is_asked_for(name, lines):
        return LEAF_BEFORE if is_view_of_leaf(theirs[name]) else None
    if kind == "grad requires_grad" and "torch True" in detail:
        return HIDDEN_WHOLE if is_through_hidden(theirs[name], theirs, lines) else None
    if kind == "retains_grad" and theirs[name].is_leaf:
        return DETACHED
    return None


def are_asked_together(detail: str, name: str, lines: Sequence[str]) -> bool:
    """Whether a variable, and the one that PyTorch has for it, are gradients of one call."""
    other = re.search(r"torch's (\w+)", detail)
    return other is not None and any(
        "T.autograd.grad(" in line and {name, other[1]} <= names(line).makes for line in lines
    )


def is_one_of_two(name: str, lines: Sequence[str], theirs: dict[str, Any]) -> bool:
    """Whether PyTorch has a gradient in the memory of another of one call, and it was written."""
    calls = [names(line).makes for line in lines if "T.autograd.grad(" in line]
    made = {name}.union(*[made for made in calls if name in made])
    beside = [theirs.get(other) for other in made - {name}]
    found = [y for y in (theirs[name], *beside) if isinstance(y, torch.Tensor)]
    if not any(storage(y) == storage(found[0]) for y in found[1:]):
        return False
    unseen = [line for line in lines if ".data" in line and may_write(line)]
    return any(map(version, found)) or any(names(line).reads & made for line in unseen)


def are_signs_of_nan(name: str, detail: str, lines: Sequence[str], theirs: dict[str, Any]) -> bool:
    """Whether a variable says which numbers are negative, and differs only where they are NaN."""
    theirs_and_mine = [re.findall("True|False", text) for text in detail.split(", livegrad ")]
    for line in lines:
        made = re.match(rf"{name} = T\.signbit\((\w+)\)", line)
        of = None if made is None else theirs.get(made[1])
        if isinstance(of, torch.Tensor) and of.is_floating_point():
            signs = zip(of.isnan().flatten().tolist(), *theirs_and_mine, strict=True)
            return all(a == b or is_nan for is_nan, a, b in signs)
    return False


def is_part_as_gradient(x: torch.Tensor, name: str, lines: Sequence[str]) -> bool:
    """Whether a variable shows gradients, of which PyTorch has made one that is a part."""
    shown = re.compile(rf"{name} = (?:\w+|\[\w+)\.grad\b")
    is_part = x.untyped_storage().nbytes() > x.numel() * x.element_size()
    return is_part and not x.requires_grad and any(map(shown.match, lines))


def is_made_of_conjugates(name: str, theirs: dict[str, Any], lines: Sequence[str]) -> bool:
    """Whether a variable was made from a tensor that shows conjugates of what lies in memory."""
    read = [y for line in lines if name in names(line).makes for y in names(line).reads]
    shown = [y for y in map(theirs.get, read) if isinstance(y, torch.Tensor)]
    return any(y.is_conj() for y in shown)


def differ_along_single(detail: str) -> bool:
    """Whether strides differ along dims of size 1 only."""
    found = re.findall(r"\(([\d, ]*)\)", detail)
    theirs, mine, shape = ([int(n) for n in re.findall(r"\d+", text)] for text in found)
    return all(a == b or size == 1 for a, b, size in zip(theirs, mine, shape, strict=True))


def is_masked(line: str) -> bool:
    """Whether a line picks elements by a mask."""
    return re.search(r"\w\[T\.tensor\(\[[^\]]*(True|False)", line) is not None


def is_written_together(x: Any, detail: str) -> bool:
    """Whether what was written to one element of PyTorch's `x` is seen in others, and only that.

    Here it is in one of those that lie in the same place, at least.
    """
    mine = numbers_of(detail.partition(", livegrad ")[2])
    if not isinstance(x, torch.Tensor) or not version(x) or len(mine) != x.numel():
        return False
    seen: dict[int, set[float]] = {}
    for place, number in zip(places_of(x).flatten().tolist(), mine, strict=True):
        seen.setdefault(place, set()).add(number)
    theirs = dict(zip(places_of(x).flatten().tolist(), flat(x.tolist()), strict=True))
    return all(theirs[place] in numbers for place, numbers in seen.items())


def is_written_part_by_part(name: str, x: Any, lines: Sequence[str]) -> bool:
    """Whether each part of PyTorch's `x` was written, and they lie in the same place."""
    if not isinstance(x, torch.Tensor) or not overlaps_itself(x):
        return False
    parts = rf"(?:with [^:]*: )?for \w+ in {name}: "
    return any(re.match(parts, line) for line in lines)


def is_made_differentiable(
    kind: str, name: str, lines: Sequence[str], theirs: Mapping[str, Any]
) -> bool:
    """Whether what is said to require a gradient, or not, is one itself, or made from one."""
    if kind == "grad requires_grad":
        # What retains its gradient does so, too, where gradients are asked for.
        calls = ("backward(", "autograd.grad(")[: 1 + theirs[name].retains_grad]
        made = [line for line in lines if any(call in line for call in calls)]
        return any("create_graph=True" in line for line in made)
    return kind == "requires_grad" and name in derived(lines, "create_graph=True")


def comes_from_nothing(kind: str, name: str, lines: Sequence[str], theirs: dict[str, Any]) -> bool:
    """Whether the last gradients to be differentiable came from, or through, an empty tensor."""
    call = "backward(" if kind == "grad requires_grad" else "autograd.grad("
    made = [line for line in lines if call in line and "create_graph=True" in line]
    if kind == "requires_grad":
        made = [line for line in made if name in names(line).makes]
    empty = {k for k, x in theirs.items() if isinstance(x, torch.Tensor) and not x.numel()}
    through = made_after(lambda line: bool(names(line).reads & empty), lines) | empty
    return bool(made) and bool(names(made[-1]).reads & through)


def has_extremes_of_nothing(lines: Sequence[str], theirs: dict[str, Any]) -> bool:
    """Whether a variable is cummax, or cummin, of an empty tensor."""
    made = [names(line).makes for line in lines if re.search(r"cum(max|min)\(", line)]
    return any(
        isinstance(x := theirs.get(name), torch.Tensor) and not x.numel()
        for one in made
        for name in one
    )


def is_asked_for(name: str, lines: Sequence[str]) -> bool:
    """Whether a program has made a tensor require a gradient by itself."""
    return any(re.match(rf"{name}\.requires_grad(_\((True)?\)| = True)", x) for x in lines)


def is_given_data(name: str, lines: Sequence[str]) -> bool:
    """Whether a tensor was made to show what another does: perhaps another part of its storage."""
    return any(re.match(rf"{name}\.data = ", line) for line in lines)


def is_given_part(line: str, before: Sequence[str], theirs: Mapping[str, Any]) -> bool:
    """Whether a line names a view that was made to show what another tensor does."""
    views = [name for name in names(line).reads if name in theirs and theirs[name]._is_view()]
    return any(is_given_data(name, before) for name in views)


def written_hidden(theirs: dict[str, Any], lines: Sequence[str]) -> list[torch.Tensor]:
    """Views of what has no name that were written to."""
    hiding = [name for call in HIDING for name in derived(lines, call)]
    made = [y for name in hiding if isinstance(y := theirs.get(name), torch.Tensor)]
    return [y for y in made if is_part_of_hidden(y, theirs) and version(y)]


def is_through_hidden(x: Any, theirs: dict[str, Any], lines: Sequence[str]) -> bool:
    """Whether `x` has a gradient through what was written to a view of what has no name."""
    written = written_hidden(theirs, lines)
    return any(getattr(f, "variable", None) is x for f in functions_before(written))


def is_set(x: Any, lines: Sequence[str], theirs: Mapping[str, Any]) -> bool:
    """Whether `x` is a view of what a view was made to share another storage of, or that itself."""
    set_ones = re.findall(r"^(?:with [^:]*: )?(\w+)\b.*\.set_\(", "\n".join(lines), re.MULTILINE)
    known = [theirs[name] for name in set_ones if name in theirs]
    return x is not None and any(family(y) is family(x) for y in known)


def shown_in(kind: str, x: Any) -> Any:
    """The tensor that a difference in whether a gradient is required is about; None for others."""
    about = {"requires_grad": x, "grad requires_grad": getattr(x, "grad", None)}
    return about.get(kind)


def is_computed_from_left(line: str, before: Sequence[str], theirs: Mapping[str, Any]) -> bool:
    """Whether a line reads what was made from a tensor that has left its base."""
    left = {name for name, x in theirs.items() if has_left_its_base(x)}
    made = made_after(lambda other: bool(names(other).reads & left), before)
    return bool(names(line).reads & (made | left))


def family(x: Any) -> Any:
    return x if x._base is None else x._base


def gradients_in(lines: Sequence[str]) -> set[str]:
    """The variables that are gradients, or made from some."""
    return made_after(lambda line: GRADIENTS.search(line) is not None, lines)


def retained_gradients(lines: Sequence[str], theirs: dict[str, Any]) -> set[str]:
    """The variables that are gradients which a tensor has retained, or made from some."""

    def names_one(line: str) -> bool:
        x = theirs.get(found[1]) if (found := RETAINED.match(line)) else None
        return isinstance(x, torch.Tensor) and not is_stale(x) and not x.is_leaf

    return made_after(names_one, lines)


def derived_from_parts(lines: Sequence[str]) -> set[str]:
    """The variables that are a copy with a part replaced, or made from one."""
    return derived(lines, "T.slice_scatter(") | derived(lines, "T.select_scatter(")


def derived(lines: Sequence[str], call: str) -> set[str]:
    """The variables that a line with `call` has made, or a line that reads one of them."""
    return made_after(lambda line: call in line, lines)


def made_after(begins: Callable[[str], bool], lines: Sequence[str]) -> set[str]:
    """The variables that a line which `begins` has made, or a line that reads one of them."""
    found: set[str] = set()
    for line in lines:
        used = names(line)
        if begins(line) or used.reads & found:
            found |= used.makes
    return found


def explanation_of_version(name: str, theirs: dict[str, Any], lines: Sequence[str]) -> str | None:
    x = theirs[name]
    if x.is_inference() and re.search(rf"^{name}\.data = ", "\n".join(lines), re.MULTILINE):
        return HALF_WAY
    if has_lost_one_that_left(name, theirs, lines):
        return LEFT
    optimizers = [o for o in theirs.values() if isinstance(o, torch.optim.AdamW)]
    parameters = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    if any(storage(p) == storage(x) for p in parameters):
        return DECAYED
    return LEFT if counts_for_others(x, theirs) or has_come_back(x, theirs, lines) else None


def counts_for_others(x: torch.Tensor, theirs: dict[str, Any]) -> bool:
    """Whether PyTorch counts writes to another storage for `x`: also to parameters of modules."""
    tensors = [y for y in theirs.values() if isinstance(y, torch.Tensor)]
    modules = [m for m in theirs.values() if isinstance(m, torch.nn.Module)]
    tensors += [y for m in modules for y in (*m.parameters(), *m.buffers())]
    return any(storage(y) != storage(x) for y in counted_with(x, tensors))


def has_come_back(x: torch.Tensor, theirs: dict[str, Any], lines: Sequence[str]) -> bool:
    """Whether one that PyTorch counts writes with has been given another storage meanwhile."""
    tensors = {name: y for name, y in theirs.items() if isinstance(y, torch.Tensor)}
    together = {id(y) for y in counted_with(x, list(tensors.values()))}
    left = re.findall(r"^(?:with [^:]*: )?(\w+)\.data = ", "\n".join(lines), re.MULTILINE)
    return any(id(tensors.get(name)) in together for name in left)


def has_lost_one_that_left(name: str, theirs: dict[str, Any], lines: Sequence[str]) -> bool:
    """Whether a tensor that is gone was made from this one, and then given another storage."""
    made = made_after(lambda line: name in names(line).makes, lines)
    for at, line in enumerate(lines):
        left = re.match(r"(\w+)\.data = ", line)
        if left is not None and left[1] in made:
            again = any(left[1] in names(later).makes for later in lines[at + 1 :])
            if again or left[1] not in theirs:
                return True
    return False


def counted_with(x: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Those whose writes PyTorch counts together with those of `x`."""
    before = [version(y) for y in tensors]
    torch.autograd.graph.increment_version(x)
    return [y for y, count in zip(tensors, before, strict=True) if version(y) != count]


def ends_beyond_its_base(x: torch.Tensor) -> bool:
    """Whether a view shows elements that lie behind all of its base: one of them was resized."""
    if is_stale(x) or x._base is None or not x.numel() or not x._base.numel():
        return False
    ends = [int(places_of(y).max()) + y.storage_offset() for y in (x, x._base)]
    return storage(x) == storage(x._base) and ends[0] > ends[1]


def is_through(
    x: Any, call: str, of: Callable[[Any], bool], theirs: dict[str, Any], lines: Sequence[str]
) -> bool:
    """Whether `x` has a gradient through a call that reads a tensor `of` some kind."""
    for line in lines:
        used = names(line)
        read = [theirs.get(name) for name in used.reads]
        if call in line and any(isinstance(y, torch.Tensor) and of(y) for y in read):
            made = [y for y in map(theirs.get, used.makes) if isinstance(y, torch.Tensor)]
            if any(getattr(f, "variable", None) is x for f in functions_before(made)):
                return True
    return False


def is_sought_where_it_lies_now(x: Any, theirs: dict[str, Any], lines: Sequence[str]) -> bool:
    """Whether a gradient of a view that has left its base came to `x`, found by its strides."""
    for name, y in theirs.items():
        if has_left_its_base(y) and not is_stale(y) and is_after([y], "AsStridedBackward0"):
            made = made_after(lambda line, name=name: name in names(line).makes, lines)
            asked = any(names(line).reads & made for line in lines if "backward(" in line)
            if asked and any(getattr(f, "variable", None) is x for f in functions_before([y])):
                return True
    return False


def is_of_no_index(message: str) -> bool:
    """Whether an error names an index that no tensor of the named size has, or that nothing has."""
    if re.match(r"index_fill: dimension \d+ has no elements to fill", message):
        return True
    found = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", message)
    return found is not None and not -int(found[2]) <= int(found[1]) < int(found[2])
