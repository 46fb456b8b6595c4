"""Differences that are meant: what PyTorch refuses and livegrad does, with the reason.

They are recognised by PyTorch's own message. A program ends at one, because the two go on from
different states; but where values are kept, the whole of it is run again by a PyTorch that keeps
them too, and must then agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .undefined import GONE, ONE_GRADIENT, OVERLAPPING, TWO_STORAGES


@dataclass(frozen=True)
class Explained:
    reason: str
    torch_says: str


SET_ON_A_VIEW = "set_ on a view leaves the history of what that was a view of alone"
FOLLOWING = "several views made where no gradient was recorded follow what is written later"
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
    Explained(SET_ON_A_VIEW, "derivative for set_ is not implemented"),
    Explained(
        FOLLOWING,
        "with grad mode enabled. This view is the output of a function that returns multiple views",
    ),
    Explained(
        "what inference mode made may be used where gradients are recorded: nothing is lost by it",
        "Inference tensors cannot be saved for backward",
    ),
    Explained("PyTorch has no kernel for this dtype on the CPU", "not implemented for '"),
)


SUBCLASS = "NotImplementedError is a RuntimeError: whoever catches PyTorch's catches it"


ONE_WRITE = "an optimiser's update is one write, whatever operations it is made of in PyTorch"
OWN_STRIDES = "what autograd.grad returns lies in memory as the rules here make it"


LEFT = "what was made to share another storage no longer counts its writes for its former views"
HOOKED = "with a full backward hook, a module's outputs are views made by a Function in PyTorch"
EMPTY = "nothing lies in memory: PyTorch gives what is empty strides of 0, by how it was made"


NOTHING_FLOWS = "an empty gradient is a function of what it came from as that of anything else"


INTEGERS = "integers and bools never require a gradient, also where one is written to them"


def explanation_of_state(
    kind: str, detail: str, lines: Sequence[str], noted: Collection[str] = ()
) -> str | None:
    """Why tensors may differ in `kind` after `lines`; None if they should not.

    `noted` is what was not promised by a line on the way.
    """
    program = "\n".join(lines)
    if kind in VALUES:
        return explanation_of_values(kind, detail, program, noted)
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
    if kind == "storage_offset" and re.search(r" of shape \((\d+, )*0[,)]", detail):
        return EMPTY
    if kind in LAYOUT and "autograd.grad(" in program:
        return OWN_STRIDES
    if kind == "is_leaf" and "is a view and its base" in detail and has_left_a_storage(program):
        return LEFT
    if kind == "is_leaf" and "A view was created in no_grad mode and its base" in detail:
        return FOLLOWING if re.search(SEVERAL, program) else None
    if kind in FLOWS and re.search(" of dtype (bool|u?int)", detail):
        return INTEGERS
    if kind in FLOWS and "register_full_backward_hook" in program:
        return HOOKED
    if kind.endswith("requires_grad") and re.search(r" of shape \((\d+, )*0[,)]", detail):
        return NOTHING_FLOWS if "create_graph=True" in program else None
    if kind == "requires_grad" and ".set_(" in program and "torch True, livegrad False" in detail:
        return SET_ON_A_VIEW
    return None


VALUES = ("value", "grad value", "grad", "log")
NO_INTEGER = "NaN and infinities as integers are what the processor makes of them, in PyTorch"
ENDLESS = "gradients of products do not divide: they are right where PyTorch's, which do, are NaN"
GELU = "PyTorch's gelu of infinity is NaN, where it is computed in vectors"
SHORT_EPS = "the least length in cosine_similarity is not rounded to float16, where it would be 0"
AT_ZERO = "PyTorch's second gradient of prelu is another than that of its first one at 0"
HIDDEN_WHOLE = "what tensordot and einsum return is a view, in PyTorch, of what nobody can see"


def explanation_of_values(
    kind: str, detail: str, program: str, noted: Collection[str]
) -> str | None:
    """Why values, gradients or what hooks wrote may differ; None if they should not."""
    for reason, kinds in NOTED.items():
        if reason in noted and kind in kinds:
            return reason
    theirs, _, mine = detail.partition(", livegrad ")
    if kind == "value" and re.search("-9223372036854775808|-2147483648", theirs):
        return NO_INTEGER
    if re.search(r"\b(cum)?prod\(", program) and re.search("nan|inf", detail):
        return ENDLESS
    if "gelu(" in program and "nan" in theirs and "inf" in mine:
        return GELU
    if "cosine_similarity(" in program and "float16" in program and "nan" in theirs:
        return SHORT_EPS
    if re.search(r"PReLU\(|prelu\(", program) and "create_graph=True" in program:
        return AT_ZERO if re.search(r"\b0\.0\b", program) else None
    if kind != "value" and is_watched(program, r"T\.(?:tensordot|einsum)\("):
        return HIDDEN_WHOLE
    return None


NOTED = {
    OVERLAPPING: ("value", "grad value", "log"),
    TWO_STORAGES: ("value", "grad value", "log"),
    ONE_GRADIENT: ("grad value",),
    GONE: ("log",),
}


def is_watched(program: str, made: str) -> bool:
    """Whether something made so retains its gradient, or has a hook, and is written."""
    for name in re.findall(rf"^(\w+) = {made}", program, re.MULTILINE):
        if re.search(rf"\b{name}\.(retain_grad|register_hook)\(", program):
            return True
    return False


LAYOUT = ("stride", "storage_offset", "is_contiguous")
SEVERAL = r"\b(unbind|split|chunk|tensor_split|[hvd]split)\(|list\("
FLOWS = ("is_leaf", "requires_grad")


def has_left_a_storage(program: str) -> bool:
    return ".data = " in program or ".set_(" in program


def counts_less(detail: str) -> bool:
    theirs, mine = [int(n) for n in re.findall(r"by (\d+)", detail)]
    return mine < theirs


CLAMPED = "clamp with numbers casts to the dtype of out, as clamp with tensors does in both"
NO_INDEX = "an index must name a place, also where there is nothing to read or write"
STALE = "a view that was given up is refused by every function, also by those without a gradient"
GIVEN_UP = "a Function is given up with what it saved, whether or not its backward looks at that"
SPENT_WITH = "what is computed from a graph that is gone goes with it, as in `total += loss`"
SPREAD = "PyTorch cannot differentiate what was written to an expanded view"
UNSEEN = "PyTorch takes a view for a leaf, if its base was written to, until it is asked"
SINGLE = "PyTorch cannot repeat a tensor without dims along its only dim"


def is_of_no_index(message: str) -> bool:
    """Whether an error names an index that no tensor of the named size has, or that nothing has."""
    if re.match(r"index_fill: dimension \d+ has no elements to fill", message):
        return True
    found = re.search(r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)", message)
    return found is not None and not -int(found[2]) <= int(found[1]) < int(found[2])


def explanation_of_refusal(message: str, named: Sequence[Any], line: str) -> str | None:
    """Why livegrad refuses, in these words, what PyTorch does with the tensors `named`."""
    empty = any(x.numel() == 0 for x in named) or re.search(r"T\.zeros\(\((\d+, )*0[,)]", line)
    if is_of_no_index(message):
        return NO_INDEX
    if "doesn't require gradient" in message and any(is_integer(x) for x in named):
        return INTEGERS
    if "another view of its base has been modified" in message and any(map(is_stale, named)):
        return STALE
    if "not implemented for 'Bool'" in message:
        return "there is no kernel for bool, also where there is nothing to compute"
    if re.search("not implemented for '?[cC]omplex", message) and empty:
        return "there is no kernel for complex numbers, also where there is nothing to compute"
    if re.search(r"running_mean should contain \d+ elements", message) and empty:
        return "the number of features is checked, also that of an empty batch"
    if "the graph was spent by backward" in message:
        if is_after(named, "OwnBackward"):
            return GIVEN_UP
        return SPENT_WITH if "autograd.grad(" in line else None
    return None


def is_integer(x: Any) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


def is_after(tensors: Sequence[Any], name: str) -> bool:
    """Whether gradients from PyTorch's `tensors` go through a function of that name."""
    found = [x.grad_fn for x in tensors if not is_stale(x) and x.grad_fn is not None]
    for function in found:  # grows while it is walked
        if name in str(function):
            return True
        found += [f for f, _ in function.next_functions if f is not None and f not in found]
    return False


def is_computed_view(x: Any) -> bool:
    """Whether a tensor is a view, and no leaf if it is asked."""
    return x._is_view() and not is_stale(x) and not x.is_leaf


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
        return explanation_of_refusal(str(found), named, line)
    if type(wrong) is RuntimeError and isinstance(found, NotImplementedError):
        return SUBCLASS
    if wrong is None or found is not None:
        return None
    message = str(wrong)
    if re.search(r"clamp\w*\(.*out=", line) and re.match(r"Found dtype \w+ but expected", message):
        return CLAMPED
    if "created inside a custom Function" in message and is_after(named, "BackwardHookFunction"):
        return HOOKED
    if "a leaf Variable that requires grad" in message and any(map(is_computed_view, named)):
        return UNSEEN
    if "more than one element of the written-to tensor" in message and "backward(" in line:
        return SPREAD
    if "Dimension out of range" in message and "repeat_interleave(" in line:
        return SINGLE if any(x.ndim == 0 for x in named) else None
    for known in EXPLAINED:
        if known.torch_says in message:
            return known.reason
    return None
