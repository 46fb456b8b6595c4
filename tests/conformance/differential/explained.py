"""Differences that are meant: what PyTorch refuses and livegrad does, with the reason.

They are recognised by PyTorch's own message. A program ends at one, because the two go on from
different states; but where values are kept, the whole of it is run again by a PyTorch that keeps
them too, and must then agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


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
SPENT = "an update overwrote in place what a graph that backward had walked would need"


ONE_WRITE = "an optimiser's update is one write, whatever operations it is made of in PyTorch"
OWN_STRIDES = "what autograd.grad returns lies in memory as the rules here make it"


ONE_MEMORY = "writes are counted by memory, and x.data = y and x.set_(y) change which that is"
HOOKED = "with a full backward hook, a module's outputs are views made by a Function in PyTorch"
EMPTY = "nothing lies in memory: PyTorch gives what is empty strides of 0, by how it was made"


INTEGERS = "integers and bools never require a gradient, also where one is written to them"


def explanation_of_state(kind: str, detail: str, lines: Sequence[str]) -> str | None:
    """Why tensors may differ in `kind` after `lines`; None if they should not."""
    program = "\n".join(lines)
    if kind == "version":
        moved = ".data = " in program or ".set_(" in program
        return ONE_WRITE if ".step()" in program else ONE_MEMORY if moved else None
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


CLAMPED = "clamp with numbers casts to the dtype of out, as clamp with tensors does in both"
TWO_FAULTS = "the index is looked at before it is asked whether the tensor may be written"
NO_PLACE = "an index must name a place, also where there is nothing to be written to it"
NO_ORDER = "there is no kernel for complex numbers, also where there is nothing to compare"


def explanation(wrong: Exception | None, found: Exception | None, line: str = "") -> str | None:
    """Why livegrad did not raise what PyTorch raised; None if it should have."""
    if type(wrong) is RuntimeError and isinstance(found, NotImplementedError):
        return SUBCLASS
    if wrong is None and found is not None and "not implemented for 'Bool'" in str(found):
        return "there is no kernel for bool, also where there is nothing to compute"
    if wrong is None and found is not None and "the graph was spent by backward" in str(found):
        return SPENT
    if wrong is None and re.match(r"index_(add|copy|fill): .* size 0$", str(found)):
        return NO_PLACE
    if wrong is None and found is not None and re.match('"cumm(ax|in)".*complex', str(found)):
        return NO_ORDER
    if type(found) is IndexError and "a leaf Variable that requires grad is being" in str(wrong):
        return TWO_FAULTS
    if wrong is None or found is not None:
        return None
    message = str(wrong)
    if re.search(r"clamp\w*\(.*out=", line) and re.match(r"Found dtype \w+ but expected", message):
        return CLAMPED
    for known in EXPLAINED:
        if known.torch_says in message:
            return known.reason
    return None
