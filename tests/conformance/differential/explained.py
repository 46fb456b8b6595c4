"""Differences that are meant: what PyTorch refuses and livegrad does, with the reason.

They are recognised by PyTorch's own message. A program ends at one, because the two go on from
different states; but where values are kept, the whole of it is run again by a PyTorch that keeps
them too, and must then agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Explained:
    reason: str
    torch_says: str


KEPT = "values that backward needs are kept as they were: there is nothing to refuse"

EXPLAINED = (
    Explained(KEPT, "modified by an inplace operation"),
    Explained(
        "a second backward computes again what the first one dropped",
        "Trying to backward through the graph a second time",
    ),
    Explained(
        "slices may have negative steps, as the array API wants",
        "step must be greater than zero",
    ),
    Explained(
        "full backward hooks of modules put no view of a Function between: outputs may be written",
        "Output 0 of BackwardHookFunction is a view and",
    ),
    Explained(
        "set_ on a view leaves the history of what that was a view of alone",
        "derivative for set_ is not implemented",
    ),
    Explained(
        "several views that were made where no gradient was recorded follow what is written later",
        "with grad mode enabled. This view is the output of a function that returns multiple views",
    ),
    Explained("PyTorch has no kernel for this dtype on the CPU", "not implemented for '"),
)


SUBCLASS = "NotImplementedError is a RuntimeError: whoever catches PyTorch's catches it"


ONE_WRITE = "an optimiser's update is one write, whatever operations it is made of in PyTorch"
OWN_STRIDES = "what autograd.grad returns lies in memory as the rules here make it"


LEFT = "what was made to share another storage no longer counts its writes for its former views"
HOOKED = "with a full backward hook, a module's outputs are views made by a Function in PyTorch"
EMPTY = "nothing lies in memory: PyTorch gives what is empty strides of 0, by how it was made"


INTEGERS = "integers and bools never require a gradient, also where one is written to them"


def explanation_of_state(kind: str, detail: str, lines: Sequence[str]) -> str | None:
    """Why tensors may differ in `kind` after `lines`; None if they should not."""
    program = "\n".join(lines)
    if kind == "version":
        if ".step()" in program:
            return ONE_WRITE
        return LEFT if has_left_a_storage(program) and counts_less(detail) else None
    if kind == "IndexError at a read" and is_of_no_index(detail):
        return NO_INDEX
    if kind == "identity" and "resolve_conj(" in program:
        return "a conjugate is a value like any other: resolve_conj has nothing to do"
    if kind in LAYOUT and re.search(
        r"torch \(([1-9]\d*, )*0[,)].* of shape \((\d+, )*0[,)]", detail
    ):
        return EMPTY
    if kind in LAYOUT and "autograd.grad(" in program:
        return OWN_STRIDES
    if kind in FLOWS and re.search(" of dtype (bool|u?int)", detail):
        return INTEGERS
    if kind in FLOWS and "register_full_backward_hook" in program:
        return HOOKED
    return None


LAYOUT = ("stride", "storage_offset", "is_contiguous")
FLOWS = ("is_leaf", "requires_grad")


def has_left_a_storage(program: str) -> bool:
    return ".data = " in program or ".set_(" in program


def counts_less(detail: str) -> bool:
    theirs, mine = [int(n) for n in re.findall(r"by (\d+)", detail)]
    return mine < theirs


CLAMPED = "clamp with numbers casts to the dtype of out, as clamp with tensors does in both"
NO_INDEX = "an index must name a place, also where there is nothing to read or write"
STALE = "a view that was given up is refused by every function, also by those without a gradient"
SINGLE = "PyTorch cannot repeat a tensor without dims along its only dim"


def is_of_no_index(message: str) -> bool:
    """Whether an error names an index that no tensor of the named size has, or that nothing has."""
    if re.match(r"index_fill: dimension \d+ has no elements to fill", message):
        return True
    found = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", message)
    return found is not None and not -int(found[2]) <= int(found[1]) < int(found[2])


def explanation_of_refusal(message: str, named: Sequence[Any]) -> str | None:
    """Why livegrad refuses, in these words, what PyTorch does with the tensors `named`."""
    if is_of_no_index(message):
        return NO_INDEX
    if "doesn't require gradient" in message and any(is_integer(x) for x in named):
        return INTEGERS
    if "another view of its base has been modified" in message and any(map(is_stale, named)):
        return STALE
    if "not implemented for 'Bool'" in message:
        return "there is no kernel for bool, also where there is nothing to compute"
    if "not implemented for complex" in message and any(x.numel() == 0 for x in named):
        return "there is no kernel for complex numbers, also where there is nothing to compute"
    if "running_mean should contain 0 elements" in message:
        return "the number of features is checked, also that of an empty batch"
    return None


def is_integer(x: Any) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


def is_stale(x: Any) -> bool:
    """Whether PyTorch has given up the history of a view, one of several."""
    try:
        x.is_leaf
    except RuntimeError:
        return True
    return False


def explanation(
    wrong: Exception | None, found: Exception | None, line: str = "", named: Sequence[Any] = ()
) -> str | None:
    """Why livegrad did not raise what PyTorch raised; None if it should have.

    `named` are the tensors that occur in the line, as PyTorch has them.
    """
    if wrong is None and found is not None:
        return explanation_of_refusal(str(found), named)
    if type(wrong) is RuntimeError and isinstance(found, NotImplementedError):
        return SUBCLASS
    if wrong is None or found is not None:
        return None
    message = str(wrong)
    if re.search(r"clamp\w*\(.*out=", line) and re.match(r"Found dtype \w+ but expected", message):
        return CLAMPED
    if "Dimension out of range" in message and "repeat_interleave(" in line:
        return SINGLE if any(x.ndim == 0 for x in named) else None
    for known in EXPLAINED:
        if known.torch_says in message:
            return known.reason
    return None
