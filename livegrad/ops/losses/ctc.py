"""Connectionist temporal classification: how likely a sequence of scores spells a target.

The sum over all alignments runs forward and backward over time, in logarithms and in float64, for
all examples and all places of the targets at once. It is NumPy code inside the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_items
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, may_refuse
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import div
from livegrad.ops.elementwise.comparison import clamp_min
from livegrad.ops.layers.composite import Array, Attrs, Metas, to_dtype
from livegrad.ops.losses.class_loss import check_reduction
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# Inputs of all ops here: log-probabilities (T, N, C), targets (N, S) or one after the other,
# lengths (N,) of inputs and of targets; attrs (blank, whether infinite losses count as 0).


class _Alignment(NamedTuple):
    """What is known of each example; L = 2 S + 1 places: blank, label, blank, label, … blank."""

    labels: Array  # (N, L) the class at each place
    skips: Array  # (N, L) whether the blank before a place may be left out
    scores: Array  # (T, N, L) log-probability of each place's class
    lengths: Array  # (N,) of the inputs
    ends: Array  # (N,) the last place


def _align(x: Array, targets: Array, inputs: Array, lengths: Array, blank: int) -> _Alignment:
    time, batch, classes = x.shape
    _check_values(time, classes, targets, inputs, lengths)
    longest = int(lengths.max()) if batch else 0
    spelled = np.full((batch, longest), blank, np.int64)
    column = np.arange(longest)
    inside = column < lengths[:, None]
    if targets.ndim == 2:
        spelled[inside] = targets[:, :longest][inside]
    else:
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if batch else lengths
        spelled[inside] = targets[(starts[:, None] + column)[inside]]
    labels = np.full((batch, 2 * longest + 1), blank, np.int64)
    labels[:, 1::2] = spelled
    skips = np.zeros(labels.shape, bool)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    scores = np.take_along_axis(
        x.astype(np.float64), np.broadcast_to(labels, (time, *labels.shape)), 2
    )
    return _Alignment(labels, skips, scores, inputs, 2 * lengths)


def _check_values(time: int, classes: int, targets: Array, inputs: Array, lengths: Array) -> None:
    if inputs.size and (inputs.max() > time or inputs.min() < 0):
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {time}, but got value "
            f"{inputs.max()}"
        )
    if lengths.size and lengths.min() < 0:
        raise RuntimeError(
            f"ctc_loss: Expected target_lengths to have value at least 0, but got {lengths.min()}"
        )
    have = targets.shape[1] if targets.ndim == 2 else targets.size
    need = (lengths.max() if targets.ndim == 2 else lengths.sum()) if lengths.size else 0
    if need > have:
        raise RuntimeError(
            f"ctc_loss: Expected targets to have size at least {need} at their last dim, but got "
            f"{list(targets.shape)}"
        )
    if targets.size and (targets.min() < 0 or targets.max() >= classes):
        wrong = targets[(targets < 0) | (targets >= classes)].ravel()[0]
        raise RuntimeError(f"ctc_loss: got the label {wrong}; expected labels in [0, {classes})")


def _step(before: Array, skips: Array) -> Array:
    """Scores of arriving at each place from itself, its left neighbour, or the one beyond."""
    left = np.full_like(before, -np.inf)
    left[:, 1:] = before[:, :-1]
    beyond = np.full_like(before, -np.inf)
    beyond[:, 2:] = before[:, :-2]
    return np.logaddexp(np.logaddexp(before, left), np.where(skips, beyond, -np.inf))


def _forward(a: _Alignment) -> Array:
    """(T, N, L): score of all alignments that end at a place at a time."""
    alpha = np.full(a.scores.shape, -np.inf)
    if not alpha.size:
        return alpha
    alpha[0, :, :2] = a.scores[0, :, :2]
    alpha[0, a.ends == 0, 1:] = -np.inf
    for t in range(1, len(alpha)):
        alpha[t] = _step(alpha[t - 1], a.skips) + a.scores[t]
    return alpha


def _backward(a: _Alignment) -> Array:
    """(T, N, L): score of all alignments that go on from a place at a time to the end."""
    time, batch, places = a.scores.shape
    beta = np.full(a.scores.shape, -np.inf)
    # A step back is a step forward with places counted from the end.
    skips = np.zeros_like(a.skips)
    skips[:, :-2] = a.skips[:, 2:]
    skips = skips[:, ::-1]
    column = np.arange(places)
    last = (column == a.ends[:, None]) | (column == a.ends[:, None] - 1)
    following = np.full((batch, places), -np.inf)
    for t in reversed(range(time)):
        following = _step(following[:, ::-1], skips)[:, ::-1]
        ending = (a.lengths == t + 1)[:, None]
        following = np.where(ending, np.where(last, 0.0, -np.inf), following)
        following = following + a.scores[t]
        beta[t] = following
    return beta


def _losses(a: _Alignment, alpha: Array) -> Array:
    """(N,): negative logarithm of the likelihood of all alignments."""
    batch = len(a.lengths)
    if not len(alpha):
        return np.where(a.ends == 0, 0.0, np.inf)
    row, end = np.arange(batch), a.ends
    at = alpha[np.maximum(a.lengths - 1, 0), row]  # (N, L)
    total = at[row, end]
    total = np.where(end > 0, np.logaddexp(total, at[row, np.maximum(end - 1, 0)]), total)
    total = np.where(a.lengths == 0, np.where(end == 0, 0.0, -np.inf), total)
    return np.asarray(-total)


def _loss_ref(n: Any, x: Array, targets: Array, inputs: Array, lengths: Array) -> Array:
    a = _align(x, targets, inputs, lengths, n.attrs[0])
    losses = _losses(a, _forward(a))
    return np.where(np.isinf(losses), 0.0, losses) if n.attrs[1] else losses


def _gradient_ref(
    n: Any, g: Array, x: Array, targets: Array, inputs: Array, lengths: Array
) -> Array:
    """Probability of each class less how often the alignments use it.

    That is the gradient through a log_softmax, whose result the log-probabilities are meant to be;
    PyTorch has the same convention.
    """
    time, batch, classes = x.shape
    a = _align(x, targets, inputs, lengths, n.attrs[0])
    alpha = _forward(a)
    losses = _losses(a, alpha)
    used = np.exp(alpha + _backward(a) - a.scores + losses[:, None])  # (T, N, L)
    cell = np.arange(time * batch).reshape(time, batch, 1) * classes + a.labels
    counts = np.bincount(cell.ravel(), used.ravel(), time * batch * classes)
    slope = np.exp(x.astype(np.float64)) - counts.reshape(x.shape)
    slope = np.where((np.arange(time)[:, None] < a.lengths)[:, :, None], slope, 0.0)
    if n.attrs[1]:
        slope = np.where(np.isinf(losses)[:, None], 0.0, slope)
    return slope * g[:, None]


@may_refuse
def _not_again(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
    raise RuntimeError(
        "ctc_loss: derivative for the gradient of ctc_loss is not implemented; it can be "
        "differentiated once"
    )


def _example(call: Any) -> s.Sample:
    """Targets of lengths 3 and 2 of 3 labels. Gradients have tests of their own: see above."""
    targets, lengths = np.array([[1, 2, 2], [3, 1, 0]]), np.array([3, 2])
    return s.Sample((s.uniform(5, 2, 4), targets, np.array([5, 4]), lengths), call, smooth=False)


CTC_SLOPES: Op = Op(
    "ctc_slopes",
    "host",
    # inputs (g, …)
    infer=lambda metas, attrs, shape: metas[1],
    ref=_gradient_ref,
    grads=(_not_again, _not_again, None, None, None),
    saves="x",
    samples=s.calls(
        lambda: _example(lambda x, *rest: record(CTC_SLOPES, (x[0, :, 0], x, *rest), (0, False)))
    ),
)
CTC_GRADIENT: Op = Op(
    "ctc_gradient",
    "composite",
    # Without rules of its own, so that a second backward is walked at once, and raises there.
    infer=lambda metas, attrs, shape: metas[1],
    expand=lambda n, *inputs: record(CTC_SLOPES, inputs, n.attrs),
    saves="x",
    samples=s.calls(
        lambda: _example(lambda x, *rest: record(CTC_GRADIENT, (x[0, :, 0], x, *rest), (0, False)))
    ),
)
CTC_LOSSES: Op = Op(
    "ctc_losses",
    "host",
    infer=lambda metas, attrs, shape: meta_of((metas[0].shape[1],), metas[0].dtype),
    ref=_loss_ref,
    grads=(
        lambda g, y, *inputs: record(CTC_GRADIENT, (g, *inputs), y._node.attrs),
        None,
        None,
        None,
    ),
    saves="x",
    autocast="float32",
    samples=s.calls(lambda: _example(lambda *inputs: record(CTC_LOSSES, inputs, (0, True)))),
)


def _ctc_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, targets, inputs, lengths = metas
    reduction, blank = attrs[:2]
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f'"ctc_loss" not implemented for {x.dtype.name}')
    if x.ndim not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: expected log_probs of 2 or 3 dims (T, [N,] C); got {list(x.shape)}"
        )
    for meta, what in (
        (targets, "targets"),
        (inputs, "input_lengths"),
        (lengths, "target_lengths"),
    ):
        if meta.dtype.category != dtypes.INT:
            raise RuntimeError(f"ctc_loss: {what} must be integral; got {meta.dtype.name}")
    if not 0 <= blank < x.shape[-1]:
        raise RuntimeError(
            f"ctc_loss: blank must be in label range [0, {x.shape[-1]}); got {blank}"
        )
    batch = x.shape[1] if x.ndim == 3 else 1
    for meta, what in ((inputs, "input_lengths"), (lengths, "target_lengths")):
        if meta.numel != batch:
            raise RuntimeError(
                f"ctc_loss: {what} must be of size batch_size {batch}; got {list(meta.shape)}"
            )
    if targets.ndim not in (1, 2) or (targets.ndim == 2 and targets.shape[0] != batch):
        raise RuntimeError(
            f"ctc_loss: expected targets ({batch}, S) or of 1 dim; got {list(targets.shape)}"
        )
    single = () if x.ndim == 2 else (batch,)
    return meta_of(single if reduction == "none" else (), x.dtype)


def _ctc_expand(n: Any, x: Tensor, targets: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
    reduction, blank, zero_infinity = n.attrs
    shape = node_of(x).meta.shape
    if len(shape) == 2:
        x = reshape_to(x, (shape[0], 1, shape[1]))
    flat = [reshape_to(v, (node_of(v).meta.numel,)) for v in (inputs, lengths)]
    losses = record(CTC_LOSSES, (x, targets, *flat), (blank, zero_infinity))
    if reduction == "none":
        return reshape_to(losses, n.meta.shape)
    if reduction == "sum":
        return rd.sum(losses)
    return rd.mean(div(losses, clamp_min(to_dtype(flat[1], n.meta.dtype), 1)))


CTC_LOSS = Op(
    "ctc_loss",
    "composite",
    # attrs (reduction, blank, whether infinite losses count as 0); differentiated through the
    # expansion, once.
    infer=_ctc_infer,
    expand=_ctc_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: _example(lambda *inputs: ctc_loss(*inputs)),
        lambda: s.Sample(
            (s.uniform(5, 4), np.array([1, 3]), np.array(5), np.array(2)),
            lambda x, t, i, l: ctc_loss(x, t, i, l, 2, "none"),
            smooth=False,
        ),
    ),
)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Negative logarithm of the probability that `log_probs` spell `targets`, in any alignment.

    Args:
        log_probs: (T, N, C) or (T, C), results of log_softmax over the classes.
        targets: (N, S), or all targets one after the other.
        input_lengths: how much of T each example has; tensor or sequence of N.
        reduction: "mean" divides each loss by the length of its target first.
        zero_infinity: losses of inputs too short for their target, and their gradients, become 0.
    """
    check_reduction(reduction)
    node_of(targets)  # or it is no tensor
    lengths = [
        x if isinstance(x, Handle) else targets.new_tensor(as_items(x), dtype=dtypes.int64)
        for x in (input_lengths, target_lengths)
    ]
    attrs = (reduction, int(blank), bool(zero_infinity))
    return record(CTC_LOSS, (log_probs, targets, *lengths), attrs)
