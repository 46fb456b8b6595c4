"""Backward passes that PyTorch refuses, or takes otherwise, and livegrad does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .tensors import functions_before, is_after, is_sought_elsewhere
from .undefined import is_stale

EXPANDED = "what was written to an expanded tensor has a gradient; PyTorch's writes to another such"
RESHAPED = "gradients are added although a leaf was reshaped in place since it got the first"
SMALLER_BASE = "PyTorch finds no room for the gradient of a view whose base is smaller by now"
SUBTRACTED = "PyTorch's gradient of logaddexp subtracts the operands, which it refuses of bools"
NEGATED = "PyTorch's gradient of atan2 negates the other operand, which it refuses of bools"
UNWRITABLE = "PyTorch leaves a ZeroTensor as a gradient, to which it cannot add another"
OLD_SHAPE = (
    "PyTorch gives what got another shape in place a gradient of its former shape, or refuses, by "
    "strides"
)
OLD_HOOKS = (
    "a hook on what was given another shape in place has the gradient of that; PyTorch's joins "
    "the hooks of before, if there are any"
)
HOOKED_AGAIN = re.compile(
    r"\b(\w+)\.register_hook\(.*^\1\.(?:(?:un)?squeeze_|t_|transpose_|swap(?:axes|dims)_|"
    r"as_strided_)\(.*\b\1\.register_hook\(",
    re.DOTALL | re.MULTILINE,
)
GIVEN_SHAPE = (
    "a leaf has a gradient of the shape that `.data` gave it; PyTorch refuses one while something "
    "that was computed from it before is there, or sums it to the shape of then"
)
CONVERTED = (
    "a leaf that `.data` gave another dtype has all of its gradients; PyTorch's autograd.grad does "
    "not find those of before, which its backward brings"
)
MOVED = "what was a leaf collects what is computed from it then, whatever was written to it since"


def explanation_of_backward(
    message: str, named: Sequence[Any], theirs: Mapping[str, Any]
) -> str | None:
    """Why livegrad does not refuse, in these words of PyTorch's, a backward from `named`."""
    if message == "leaf variable has been moved into the graph interior":
        return MOVED if any(map(is_of_moved_leaf, functions_before(named))) else None
    if message.startswith("ZeroTensors are immutable"):
        return UNWRITABLE if go_to_unwritable(named) else None
    if "more than one element of the written-to" in message:
        return EXPANDED
    if message.startswith(("setStorage", "Function AsStridedBackward0 returned an invalid")):
        if any(map(is_beyond_its_base, named)):
            return SMALLER_BASE
        shown = re.search(r"got \[([\d, ]*)\] but expected shape compatible with", message)
        functions = functions_before(named)
        passed = [x for x in theirs.values() if is_passed(x, functions)]
        reshaped = shown is not None and any(has_base_of_shape(x, shown[1]) for x in passed)
        return OLD_SHAPE if reshaped else None
    if shapes := re.search(r"got \[([\d, ]*)\] but expected shape .* \[([\d, ]*)\]$", message):
        leaves = [*named, *[getattr(f, "variable", None) for f in functions_before(named)]]
        given = [x for x in leaves if x is not None and shape_of(x) == shapes[1] != shapes[2]]
        return GIVEN_SHAPE if given else None
    if message.startswith("output with shape"):
        return RESHAPED
    if message.startswith("Subtraction, the `-` operator, with a bool"):
        return SUBTRACTED if is_after(named, "LogaddexpBackward") else None
    if message.startswith("Negation, the `-` operator, on a bool"):
        return NEGATED if is_after(named, "Atan2Backward") else None
    return None


def is_beyond_its_base(x: torch.Tensor) -> bool:
    """Whether a view shows more than what it is a view of, which was made smaller in place."""
    return not is_stale(x) and x._base is not None and x.numel() > x._base.numel()


def has_base_of_shape(x: torch.Tensor, sizes: str) -> bool:
    """Whether what a tensor is a view of has these sizes now."""
    return not is_stale(x) and x._base is not None and shape_of(x._base) == sizes


def is_passed(x: Any, functions: Sequence[Any]) -> bool:
    """Whether gradients that go through these functions are brought to a tensor on their way."""
    return isinstance(x, torch.Tensor) and not is_stale(x) and x.grad_fn in functions


def shape_of(x: torch.Tensor) -> str:
    """A shape as PyTorch's messages have it."""
    return ", ".join(map(str, x.shape))


def is_summed_to_former_shape(x: Any, mine: Sequence[float]) -> bool:
    """Whether PyTorch's gradient of a leaf is `mine`, summed to the shape that it had before."""
    if not isinstance(x, torch.Tensor) or is_stale(x) or not (x.is_leaf and x.requires_grad):
        return False
    former = torch.autograd.graph.get_gradient_edge(x).node._input_metadata[0].shape
    if x.grad is None or len(mine) != x.numel() or tuple(former) == tuple(x.shape):
        return False
    try:
        summed = torch.tensor(mine, dtype=torch.float64).view(x.shape).sum_to_size(former)
        return torch.allclose(summed.expand_as(x), x.grad.double(), rtol=1e-4)
    except RuntimeError:  # it was none that this one could be summed to
        return False


def go_to_unwritable(tensors: Sequence[Any]) -> bool:
    """Whether gradients of `tensors` are added to a ZeroTensor, which has nothing to write to."""
    leaves = [*tensors, *[getattr(f, "variable", None) for f in functions_before(tensors)]]
    grads = [leaf._grad for leaf in leaves if leaf is not None]
    return any(grad is not None and grad._is_zerotensor() for grad in grads)


def is_of_moved_leaf(function: Any) -> bool:
    """Whether a function of PyTorch's brings gradients to what was a leaf once."""
    leaf = getattr(function, "variable", None)
    return leaf is not None and leaf.grad_fn is not None


def asked_for(line: str) -> list[str]:
    """The variables that a call of `autograd.grad` lists."""
    found = re.search(r"autograd\.grad\(.*, \[([\w, ]+)\]", line)
    return [] if found is None else found[1].split(", ")


def is_of_converted(name: str, lines: Sequence[str], theirs: Mapping[str, Any]) -> bool:
    """Whether autograd.grad was asked for the gradient `name` of a leaf of another dtype by now."""
    of = [
        leaf
        for line in lines
        if "autograd.grad(" in line
        for made, leaf in zip(line.partition("=")[0].split(","), asked_for(line), strict=False)
        if made.strip() == name
    ]
    return any(is_sought_elsewhere(theirs.get(leaf), theirs) for leaf in of)


def has_former_shape(name: str, lines: Sequence[str], theirs: Mapping[str, Any]) -> bool:
    """Whether PyTorch's autograd.grad gave a gradient of another shape than what it is of."""
    for line in lines:
        gradients = re.findall(r"\w+", line.partition("=")[0])
        if name in gradients and "autograd.grad(" in line:
            of = dict(zip(gradients, asked_for(line), strict=False)).get(name)
            return of in theirs and theirs[of].shape != theirs[name].shape
    return False
