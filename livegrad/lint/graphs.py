"""Rules about what was recorded: backward is about to walk it, and the lint walks it first."""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import Interior, LeafRef, Node
from livegrad.lint.rules import say

# A graph larger than this is looked at in part: its end, where the loss is.
_MOST_NODES = 2048

# Losses that take logits, and those that take log-probabilities; what should not be their input.
_LOGITS = {
    "cross_entropy": ("softmax", "logits", "cross_entropy"),
    "cross_entropy_probabilities": ("softmax", "logits", "cross_entropy"),
    "nll_loss": ("softmax", "log-probabilities", "nll_loss"),
    "binary_cross_entropy_with_logits": (
        "sigmoid",
        "logits",
        "binary_cross_entropy_with_logits",
    ),
    "bce_with_pos_weight": ("sigmoid", "logits", "binary_cross_entropy_with_logits"),
}
_LOSSES = frozenset(("weighted_loss", *_LOGITS))
# What rearranges or converts values, and leaves them what they are.
_MOVES = frozenset(
    "reshape permute index expand cast clone as_strided diagonal index_select gather custom".split()
)


def look(roots: list[Node]) -> list[Any]:
    """Checks the graph below `roots`; the leaf tensors that will receive gradients."""
    leaves: dict[int, Any] = {}
    seen = set(roots)
    todo = list(roots)
    for node in todo:  # grows while it is walked
        to: Any = node.grad_to
        if type(to) is LeafRef:
            leaf = to()
            if leaf is not None:
                leaves[id(leaf)] = leaf
            continue
        spec = node.spec
        if spec.op.name in _LOSSES:
            _check_probabilities(node)
        ways = to.edges if type(to) is Interior and to.edges is not None else node.inputs
        for x in ways:
            if x.grad_to is not None and x not in seen:
                seen.add(x)
                todo.append(x)
        if len(seen) > _MOST_NODES:
            break
    for root in roots:
        _check_differences(root)
    return list(leaves.values())


# ----------------------------------------------------------------------- softmax before a loss


def _check_probabilities(node: Node) -> None:
    name = node.attrs[0].name if node.op.name == "weighted_loss" else node.op.name
    found = _LOGITS.get(name)
    if found is None or not node.inputs:
        return
    unwanted, wanted, function = found
    x = node.inputs[0]
    while x.op.name in _MOVES and x.inputs:
        x = x.inputs[0]
    if x.op.name == unwanted:
        cure = "log_softmax" if function == "nll_loss" else f"no {unwanted}"
        say(
            "softmax",
            f"{function} takes {wanted}, but its input is the result of {unwanted}: the network "
            f"learns slowly, or not at all. Use {cure} there",
            node.site,
        )


# ------------------------------------------------------------------------ [n] against [n, 1]


def _check_differences(root: Node) -> None:
    """Looks for `prediction - target` of [n] and [n, 1] in a loss written by hand."""
    if root.meta.numel != 1:
        return
    seen = {root}
    todo = [root]
    for node in todo:  # grows while it is walked
        if node.op.name == "sub" and len(node.inputs) == 2:
            _check_difference(node)
            continue
        if node.op.kind not in ("elementwise", "reduce") and node.op.name != "mean":
            continue
        for x in node.inputs:
            if x.grad_to is not None and x not in seen:
                seen.add(x)
                todo.append(x)


def _check_difference(node: Node) -> None:
    a, b = node.inputs
    # Differences of all pairs are meant where both sides are learned, or neither.
    if (a.grad_to is None) == (b.grad_to is None):
        return
    shapes = sorted([a.meta.shape, b.meta.shape], key=len)
    if len(shapes[0]) == 1 and shapes[1] == (*shapes[0], 1) and shapes[0][0] > 1:
        n = shapes[0][0]
        say(
            "broadcast",
            f"a difference of tensors of sizes {list(a.meta.shape)} and {list(b.meta.shape)} in a "
            f"loss compares each of {n} with all {n}. Give both the same size, with "
            ".squeeze(1) or .unsqueeze(1)",
            node.site,
        )
