"""Differences that are meant: what PyTorch refuses and livegrad does, with the reason.

They are recognised by PyTorch's own message. A program ends at one, because the two go on from
different states; but where values are kept, the whole of it is run again by a PyTorch that keeps
them too, and must then agree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .explained_backward import (
    CONVERTED,
    EXPANDED,
    OLD_SHAPE,
    asked_for,
    explanation_of_backward,
    is_passed,
)
from .explained_states import (
    GRADIENT,
    HALF_WAY,
    HIDING,
    INTEGERS,
    LEFT,
    NEW_PLACE,
    NO_GAPS,
    NO_INDEX,
    NOTHING_FLOWS,
    OF_NOTHING,
    OWN_FAULT,
    OWN_STRIDES,
    SET_ON_A_VIEW,
    SET_ON_A_WHOLE,
    derived,
    derived_from_parts,
    gradients_in,
    has_extremes_of_nothing,
    is_computed_from_left,
    is_given_data,
    is_given_part,
    is_of_no_index,
    is_set,
)
from .program import names
from .tensors import (
    comes_from_integers,
    functions_before,
    has_gradient_of_old_shape,
    has_left_its_base,
    has_more,
    is_after,
    is_after_freed,
    is_hidden_view,
    is_integer,
    is_of_written_base,
    is_product,
    is_sought_elsewhere,
)
from .undefined import SIBLINGS, have_siblings, is_stale, overlaps_itself, writes_of


@dataclass(frozen=True)
class Explained:
    reason: str
    torch_says: str


ONE_NUMBER_ALONE = "the largest so far of one complex number is that number, and has its gradient"
COMPLEX_FOLDS = "complex numbers that are folded in at indices have gradients, as real ones do"
COMPLEX_PARTS = "complex numbers written to a part of a copy have gradients, as real ones do"
KEPT = "values that backward needs are kept as they were: there is nothing to refuse"

EXPLAINED = (
    Explained(KEPT, "modified by an inplace operation"),
    Explained(KEPT, "Trying to use a saved tensor that has been detached in-place"),
    Explained(
        "a second backward computes again what the first one dropped",
        "Trying to backward through the graph a second time",
    ),
    Explained(
        "slices may have negative steps, as the array API wants",
        "step must be greater than zero",
    ),
    Explained(SET_ON_A_VIEW, "derivative for set_ is not implemented"),
    Explained("PyTorch has no kernel for this dtype on the CPU", "not implemented for '"),
    Explained(
        "what backward needs is kept, whoever writes to it: also what was made in inference mode",
        "Inference tensors cannot be saved for backward",
    ),
    Explained(
        "PyTorch's logaddexp of a real and a complex tensor has a gradient that it refuses itself",
        "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)",
    ),
    Explained(
        "nan_to_num of complex numbers has a gradient, that of its parts",
        "nan_to_num does not support automatic differentiation",
    ),
    Explained(COMPLEX_FOLDS, "scatter_reduce does not support automatic differentiation"),
    Explained(COMPLEX_FOLDS, "index_reduce does not support automatic differentiation"),
    Explained(COMPLEX_PARTS, "slice_scatter does not support automatic differentiation"),
    Explained(COMPLEX_PARTS, "select_scatter does not support automatic differentiation"),
    Explained(COMPLEX_PARTS, "diagonal_scatter does not support automatic differentiation"),
    Explained(ONE_NUMBER_ALONE, "cummax does not support automatic differentiation"),
    Explained(ONE_NUMBER_ALONE, "cummin does not support automatic differentiation"),
    Explained(
        "numpy() of what shows conjugates, or negatives, of what lies in memory is a copy",
        "bit set. Use tensor.resolve_",
    ),
    Explained(
        "new_tensor of what shows conjugates is one of any other; PyTorch finds no device for it",
        "DispatchKey Conjugate doesn't correspond to a device",
    ),
    Explained(
        "a hook on several tensors may be on a leaf, also where gradients are asked for",
        "A leaf node was passed to _will_engine_execute_node",
    ),
    Explained(
        "integers never require a gradient: PyTorch's do after one was written to them, and then "
        "have no views",
        "Autograd not support dtype",
    ),
)


SUBCLASS = "NotImplementedError is a RuntimeError: whoever catches PyTorch's catches it"

CLAMPED = "clamp with numbers casts to the dtype of out, as clamp with tensors does in both"
STALE = "a view that was given up is refused by every function, also by those without a gradient"
RANGE = "an index out of range is an IndexError: PyTorch's class depends on which kernel meets it"
NO_TENSOR = "what is no tensor is refused as such; PyTorch looks for a method that it lacks"
TWO_FAULTS = "a tensor must not be written, and has no such index: either may be said first"
STALE_AND_WRONG = "a view was given up, and cannot be used so anyway: either may be said first"
UNASKED = "PyTorch takes a view for a leaf until somebody has asked for its grad_fn"
VIEW_BEFORE = "a view of what became a leaf later requires a gradient, as PyTorch says, and has one"
NOT_TO_EXPANDED = (
    "nothing is written to expanded tensors; PyTorch's reductions go on with what they wrote there"
)
NO_DIM = "a dim must be one of the tensor's, also where there is nothing to roll"
HIDDEN_VIEW = "what is repeated, averaged or contracted is a view, in PyTorch, of what has no name"
PRODUCT = "PyTorch multiplies more than two dims as a matrix, of which the result is a view"
GIVEN_UP = "a Function is given up with what it saved, whether or not its backward looks at that"
SPENT_WITH = "what is computed from a graph that is gone goes with it, as in `total += loss`"
UNSEEN_REST = "what is summed has a storage of its own size; PyTorch may have made it for more"
AS_NUMBER = "a tensor that is written is cast; PyTorch takes one of one element for a number here"
ONE_NUMBER = re.compile(r"T\.tensor\(\[*[^\[\],]+\]*[,)]")
OUT = re.compile(r"\bout=(\w+)\)")
FORWARD = re.compile(r"T\.func\.(jvp|jacfwd|hessian|linearize)\(")
TANGENT = "a tangent of what is expanded is a tensor of its own; PyTorch's writes to another such"
TRIANGLE = "tril_ and triu_ take expanded tensors; PyTorch's copy some with more than three dims"


UNFITTING = "a step refuses gradients of the shape that a parameter had; PyTorch's broadcasts them"
TO_ITSELF = "a tensor is written to itself; PyTorch takes it for another by strides along size 1"
NO_GRADIENT = "a hook is called with a gradient; PyTorch's of a leaf that none has reached, too"
KRON = "PyTorch's kron refuses tensors of which it cannot take the product for one matrix"

SINGLE = "PyTorch cannot repeat a tensor without dims along its only dim"


def is_own_fault(wrong: Exception | None) -> bool:
    """Whether PyTorch says of itself that something is wrong: it may have left anything behind."""
    return "please report a bug to PyTorch" in str(wrong)


def explanation_of_refusal(
    message: str,
    named: Sequence[Any],
    line: str,
    before: Sequence[str],
    theirs: Mapping[str, Any],
) -> str | None:
    """Why livegrad refuses, in these words, what PyTorch does with the tensors `named`."""
    empty = any(x.numel() == 0 for x in named) or re.search(r"T\.zeros\(\((\d+, )*0[,)]", line)
    if is_of_no_index(message) or (empty and re.match(r"index_(add|copy): index -", message)):
        return NO_INDEX
    if "doesn't require gradient" in message:
        if any(map(is_integer, named)) or any(map(comes_from_integers, named)):
            return INTEGERS
        if not any(is_set(x, before, theirs) for x in named):
            return None
        return SET_ON_A_WHOLE if is_after(named, "NotImplemented") else SET_ON_A_VIEW
    if "retain_grad on Tensor that has requires_grad=False" in message:
        if any(x.numel() == 0 for x in named) and has_extremes_of_nothing(before, theirs):
            return OF_NOTHING
        return INTEGERS if any(map(comes_from_integers, named)) else None
    if "derivative for set_ is not implemented" in message:
        return SET_ON_A_VIEW if is_after(named, "CopySlices") else None
    if "does not require grad" in message and any(map(comes_from_integers, named)):
        return INTEGERS
    if "you can only change requires_grad flags of leaf" in message:
        return UNASKED if any(map(is_of_written_base, named[:1])) else None
    if "does not require grad" in message and "autograd.grad(" in line:
        asked = [theirs[name] for name in asked_for(line) if name in theirs]
        if any(x.numel() == 0 for x in asked) and has_extremes_of_nothing(before, theirs):
            return OF_NOTHING
        left = is_computed_from_left(line, before, theirs)
        return LEFT if left else SET_ON_A_WHOLE if is_after(named, "NotImplemented") else None
    if "a view of a leaf Variable" in message:
        return SET_ON_A_WHOLE if is_after(named, "NotImplemented") else None
    if "the gradient and state of a parameter must have its shape" in message:
        return UNFITTING if any(map(has_gradient_of_old_shape, theirs.values())) else None
    if message.startswith("the gradient of a tensor that was given another shape by `.data`"):
        functions = functions_before(named)
        passed = [x for x in theirs.values() if is_passed(x, functions) and x._is_view()]
        given = [theirs[name] for name in theirs if is_given_data(name, before)]
        shown_anew = any(x._base is y._base for x in passed for y in given)
        if shown_anew and is_after(passed, "AsStridedBackward0"):
            return NEW_PLACE
    if message.startswith("expand: the expanded size") and "backward(" in line:
        return OLD_SHAPE if any(map(has_gradient_of_old_shape, theirs.values())) else None
    if "arguments don't support automatic differentiation" in message:
        gradients = [theirs[name] for name in gradients_in(before) if name in theirs]
        hidden = [x for x in gradients if is_hidden_view(x, list(theirs.values()))]
        return GRADIENT if any(x._base is y._base for x in hidden for y in named) else None
    if "appears to not have been used in the graph" in message and "create_graph=True" in line:
        return PRODUCT if any(is_product(x) and x._version for x in named) else None
    if message.startswith("roll: Dimension out of range"):
        return NO_DIM if all(x.numel() == 0 for x in named) else None
    if "another view of its base has been modified" in message and any(map(is_stale, named)):
        return STALE
    if "more than one element of the written-to" in message and (out := OUT.search(line)):
        return NOT_TO_EXPANDED if out[1] in theirs and overlaps_itself(theirs[out[1]]) else None
    if "not implemented for 'Bool'" in message:
        return "there is no kernel for bool, also where there is nothing to compute"
    without_dims = any(not x.ndim for x in named)
    if re.search("not implemented for '?[cC]omplex", message) and (empty or without_dims):
        return "there is no kernel for complex numbers, also where there is nothing to compute"
    if re.search(r"running_mean should contain \d+ elements", message) and empty:
        return "the number of features is checked, also that of an empty batch"
    if re.search(r"are out of bounds for storage of \d+", message):
        if names(line).reads & derived_from_parts(before):
            return NO_GAPS
        if names(line).reads & gradients_in(before) and any(x.numel() == 0 for x in named):
            return OWN_STRIDES
        return UNSEEN_REST if any(map(has_more, named)) else None
    if "that was given another shape by" in message and is_made_hiding(line, before):
        return HIDDEN_VIEW if any(is_hidden_view(x, list(theirs.values())) for x in named) else None
    if "the graph was spent by backward" in message:
        if is_after(named, "OwnBackward") or is_after(named, "BackwardHookFunction"):
            return GIVEN_UP
        return SPENT_WITH if "autograd.grad(" in line and is_after_freed(named) else None
    return None


def is_out_of_range(message: str) -> bool:
    """Whether an error says so; PyTorch may have looked for what an empty storage does not have."""
    words = (
        r"out of bounds for dim|out of range in self|INDICES element is out|^setStorage|"
        "indexing axis dim should be positive|has no elements to fill|^ZeroDivisionError$"
    )
    return re.search(words, message) is not None


def is_not_to_be_written(refusal: Exception) -> bool:
    """Whether a write was refused because of the tensor, whatever the indices."""
    words = (
        "a (view of a )?leaf Variable|.*(is being|has been) modified inplace|"
        "unsupported operation: more than one element of the written-to"
    )
    return re.match(words, str(refusal)) is not None


def is_view_of_later_leaf(x: Any) -> bool:
    """Whether a tensor says that it requires a gradient, and yet has nowhere to give it to."""
    return x._is_view() and x.requires_grad and x.grad_fn is None and x._base.is_leaf


def is_met_by_backward(message: str, line: str, named: Sequence[Any]) -> bool:
    """Whether backward was refused a value that it needs: that of a view, which was written."""
    stale = re.match(r"Output \d+ of \w+ is a view and its base|A view was created", message)
    asked = re.search(r"backward\(|autograd\.grad\(", line)
    return bool(stale and asked) and not any(map(is_stale, named))


def is_made_hiding(line: str, before: Sequence[str]) -> bool:
    """Whether a line reads what a function has returned that hides what it returns a view of."""
    made = [names(other).makes for other in before if any(f in other for f in HIDING)]
    return any(names(line).reads & one for one in made)


def hooked_in(lines: Sequence[str], theirs: Mapping[str, Any]) -> list[Any]:
    """The tensors that hooks on their gradients were registered for."""
    hooks = r"\b(\w+)\.register_(?:post_accumulate_grad_)?hook\("
    return [theirs[name] for name in re.findall(hooks, "\n".join(lines)) if name in theirs]


def is_hooked_in_vain(x: Any) -> bool:
    """Whether a leaf, which has hooks, has got no gradient."""
    return not is_stale(x) and x.is_leaf and x.grad is None


def explanation_of_two(
    wrong: Exception, found: Exception, named: Sequence[Any], written: Sequence[Any]
) -> str | None:
    """Why PyTorch says that something is `wrong`, and livegrad something else.

    `written` is what the line writes to, which may have no name.
    """
    if isinstance(wrong, AttributeError) and isinstance(found, TypeError):
        lacking = re.match(r"'(\w+)' object has no attribute", str(wrong))
        return NO_TENSOR if lacking and f"must be Tensor, not {lacking[1]}" in str(found) else None
    if is_not_to_be_written(found) and str(wrong).startswith("too many indices for tensor"):
        return TWO_FAULTS
    if is_out_of_range(str(wrong)):
        both = is_not_to_be_written(found)
        return TWO_FAULTS if both else RANGE if is_out_of_range(str(found)) else None
    if str(found).startswith("roll: Dimension out of range"):
        return NO_DIM if all(x.numel() == 0 for x in named) else None
    if "view of its base has been modified" in str(found) and any(map(is_stale, named)):
        return STALE_AND_WRONG
    if is_of_no_index(str(found)) and any(x.numel() == 0 for x in (*named, *written)):
        return NO_INDEX
    both = is_not_to_be_written(wrong) and isinstance(found, IndexError)
    return TWO_FAULTS if both else None


def explanation(
    wrong: Exception | None,
    found: Exception | None,
    line: str = "",
    named: Sequence[Any] = (),
    before: Sequence[str] = (),
    theirs: Mapping[str, Any] = MappingProxyType({}),
) -> str | None:
    """Why livegrad did not raise what PyTorch raised; None if it should have.

    `named` are the tensors that occur in the line, as PyTorch has them, `before` the lines that
    came before it, `theirs` all tensors of PyTorch's.
    """
    if wrong is None and found is not None:
        return explanation_of_refusal(str(found), named, line, before, theirs)
    if is_own_fault(wrong):
        return OWN_FAULT
    message = str(wrong)
    if "appears to not have been used in the graph" in message and found is None:
        asked = [theirs[name] for name in asked_for(line) if name in theirs]
        if any(is_sought_elsewhere(x, theirs) for x in asked):
            return CONVERTED
        hidden = any(is_hidden_view(x, list(theirs.values())) for x in asked)
        return HIDDEN_VIEW if hidden and any(f in x for f in HIDING for x in before) else None
    if "does not require grad and does not have a grad_fn" in message and found is None:
        # PyTorch returns zeros for what is empty, or was picked as nothing: a constant.
        if "create_graph=True" in line and any(x.numel() == 0 for x in named):
            return NOTHING_FLOWS
        return VIEW_BEFORE if any(is_view_of_later_leaf(x) for x in named[:1]) else None
    if "Dimension out of range" in message and "repeat_interleave(" in line:
        return SINGLE if any(x.ndim == 0 for x in named) else None
    if "'NoneType'" in message and found is None and "backward(" in line:
        return NO_GRADIENT if any(map(is_hooked_in_vain, hooked_in(before, theirs))) else None
    if type(wrong) is RuntimeError and isinstance(found, NotImplementedError):
        return SUBCLASS
    if wrong is not None and found is not None:
        written = [write.to for write in writes_of(line, dict(theirs))]
        return explanation_of_two(wrong, found, named, written)
    if message == "cannot resize variables that require grad":
        return INTEGERS if any(map(is_integer, named[:1])) else None
    if re.search("inference tensor|Inference tensors do not track", message):
        return HALF_WAY if named and not named[0].is_inference() else None
    if "some elements of the input tensor and the written-to" in message and found is None:
        itself = re.search(r"(^|: )(\w+)(\.data)?\[(True|None)\] = \2$", line)
        return TO_ITSELF if itself and any(1 in x.shape for x in named) else None
    if message.startswith("view size is not compatible") and "T.kron(" in line and found is None:
        turned = re.search(r"T\.kron\(.*\.(t|mT|permute|transpose)\b", line)
        return KRON if turned or not all(x.is_contiguous() for x in named) else None
    if message.startswith("derivative for") and "autograd.grad(" in line and found is None:
        return SIBLINGS if any(have_siblings(named, theirs.values())) else None
    if "is being modified inplace" in message and named:
        if is_integer(named[0]):
            return INTEGERS
        if is_set(named[0], before, theirs):
            return SET_ON_A_VIEW
        if is_made_hiding(line, before):
            return HIDDEN_VIEW if is_hidden_view(named[0], list(theirs.values())) else None
        gradients = names(line).reads & gradients_in(before)
        return GRADIENT if gradients and is_hidden_view(named[0], named) else None
    if is_met_by_backward(message, line, named):
        return KEPT
    if "backward(" in line:
        reason = explanation_of_backward(message, named, theirs)
        if reason is not None:
            return reason
    if re.match(r"a view of a leaf Variable|Output \d+ of \w+ is a view and its base", message):
        if any(map(has_left_its_base, named)) or is_given_part(line, before, theirs):
            return LEFT
        return SET_ON_A_VIEW if any(is_set(x, before, theirs) for x in named) else None
    if message.startswith("a leaf Variable"):
        return UNASKED if any(is_stale(x) or not x.is_leaf for x in named[:1]) else None
    if "more than one element of the written-to" in message and re.search(r"tri[lu]_\(", line):
        written = [write.to for write in writes_of(line, dict(theirs))]
        return TRIANGLE if any(x.ndim > 3 and overlaps_itself(x) for x in written) else None
    if "more than one element of the written-to" in message and "autograd.grad(" in line:
        return EXPANDED if is_after(named, "CopySlices") else None
    if "more than one element of the written-to" in message and FORWARD.search(line):
        return TANGENT if any(map(overlaps_itself, named)) else None
    if "more than one element of the written-to" in message and named:
        gradients = names(line).reads & gradients_in(before)
        return OWN_STRIDES if gradients and overlaps_itself(named[0]) else None
    if message.startswith("Can't detach views") and any(map(is_product, named)):
        return PRODUCT
    if message.startswith("Can't detach views") and names(line).reads & derived(
        before, "T.autograd.grad("
    ):
        return GRADIENT if is_hidden_view(named[0], named) else None
    if message.startswith("Can't detach views") and is_made_hiding(line, before):
        return HIDDEN_VIEW if is_hidden_view(named[0], named) else None
    if re.search(r"clamp\w*\(.*out=", line) and re.match(r"Found dtype \w+ but expected", message):
        return CLAMPED
    if re.match(r"value cannot be converted to type \w+ without overflow", message):
        written_with = [x for x in named[1:] if x.numel() == 1]
        number = ONE_NUMBER.search(line) or written_with or any(x.ndim == 0 for x in named)
        return AS_NUMBER if number else None
    for known in EXPLAINED:
        if known.torch_says in message:
            return known.reason
    return None
