"""Metrics of predicted classes that need, per class, only how often it was right, said and true."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.train.metrics.base import Metric, grown, ratio
from livegrad.train.metrics.labels import (
    check_labels,
    check_shapes,
    decided,
    has_scores,
    true_labels,
)
from livegrad.utils.reading import Array, array_of, shape_of

AVERAGES = ("auto", "binary", "micro", "macro", "weighted", None)


class Labels(Metric):
    """Metrics of predicted and true labels.

    Targets are labels (N, …). Predictions are scores (N, C, …) with the classes at dim 1 as in
    `cross_entropy`, or labels of the targets' shape, or one score per target, which says yes above
    `threshold` (0.5 for probabilities; give 0 for logits). Targets equal to `ignore_index` do not
    count.
    """

    def __init__(self, threshold: float = 0.5, ignore_index: int | None = None) -> None:
        self.threshold = threshold
        self.ignore_index = ignore_index
        super().__init__()

    def check(self, predictions: Any, targets: Any) -> None:
        """Raises if the shapes do not go together."""
        check_shapes(type(self).__name__, shape_of(predictions), shape_of(targets))

    def labels(self, predictions: Any, targets: Any) -> tuple[Array, Array]:
        """Predicted and true labels that count, as vectors."""
        name = type(self).__name__
        said = decided(array_of(predictions), shape_of(targets), self.threshold).ravel()
        true = true_labels(name, array_of(targets)).ravel()
        if self.ignore_index is not None:
            counted = true != self.ignore_index
            said, true = said[counted], true[counted]
        check_labels(name, true, said)
        return said, true


class Accuracy(Labels):
    """The share of targets that are predicted correctly.

    With `k`, a target counts as predicted if its score is among the `k` greatest. With
    `average="macro"`, the mean over the classes of each one's share. Scores that are nan predict
    nothing. For inputs see `Precision`.
    """

    # Per class, or of all targets if the average is "micro".
    counts = ("right", "true")

    def __init__(
        self,
        k: int = 1,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        average: str = "micro",
    ) -> None:
        if k < 1:
            raise ValueError(f"Accuracy: got k={k}; expected at least 1")
        if average not in ("micro", "macro"):
            raise ValueError(f"Accuracy: got average={average!r}; expected 'micro' or 'macro'")
        self.k = k
        self.average = average
        super().__init__(threshold, ignore_index)

    def clear(self) -> None:
        """Sets the counts to nothing."""
        size = int(self.average == "micro")
        self.right = np.zeros(size, np.int64)
        self.true = np.zeros(size, np.int64)

    def add(self, predictions: Any, targets: Any) -> None:
        """Counts a batch."""
        scores, true = array_of(predictions), true_labels("Accuracy", array_of(targets))
        if has_scores(scores.shape, true.shape):
            right = _among_best(scores, true, self.k)
        elif self.k > 1:
            raise ValueError(
                f"Accuracy: k={self.k} needs scores (N, C, …); got predictions {scores.shape} "
                f"for targets {true.shape}"
            )
        else:
            right = decided(scores, true.shape, self.threshold) == true
        if self.ignore_index is not None:
            counted = true != self.ignore_index
            right, true = right[counted], true[counted]
        check_labels("Accuracy", true)
        if self.average == "micro":
            self.right += np.count_nonzero(right)
            self.true += true.size
            return
        size = int(true.max(initial=-1)) + 1
        self.right, self.true = grown(self.right, size), grown(self.true, size)
        self.right += np.bincount(true[right], minlength=len(self.right))
        self.true += np.bincount(true.ravel(), minlength=len(self.true))

    def result(self) -> float:
        """The share; nan if there were no targets."""
        if not self.true.sum():
            return float("nan")
        seen = self.true > 0
        return float((self.right[seen] / self.true[seen]).mean())


def _among_best(scores: Array, true: Array, k: int) -> Array:
    """Whether the score of each true label is among the `k` greatest; of equal ones the first."""
    if k == 1 and not np.isnan(scores).any():
        first: Array = scores.argmax(1) == true
        return first
    inside = (true >= 0) & (true < scores.shape[1])
    place = np.expand_dims(np.where(inside, true, 0), 1)
    own = np.take_along_axis(scores, place, 1)  # (N, 1, …)
    classes = np.arange(scores.shape[1]).reshape(-1, *[1] * (scores.ndim - 2))
    better = (scores > own) | ((scores == own) & (classes < place))
    rank: Array = better.sum(1)
    among: Array = (rank < k) & inside & ~np.isnan(own[:, 0])
    return among


class _PerClass(Labels):
    """Metrics made of three counts per class: `right`, `said` (predicted) and `true`."""

    counts = ("right", "said", "true", "total", "single")

    def __init__(
        self,
        average: str | None = "auto",
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
        num_classes: int | None = None,
    ) -> None:
        if average not in AVERAGES:
            raise ValueError(
                f"{type(self).__name__}: got average={average!r}; expected one of "
                f"{', '.join(map(repr, AVERAGES))}"
            )
        self.average = average
        self.num_classes = num_classes
        super().__init__(threshold, ignore_index)

    def clear(self) -> None:
        """Sets the counts to nothing."""
        size = self.num_classes or 0
        self.right = np.zeros(size, np.int64)
        self.said = np.zeros(size, np.int64)
        self.true = np.zeros(size, np.int64)
        self.total = 0
        self.single = False  # whether predictions were one score per target

    def add(self, predictions: Any, targets: Any) -> None:
        """Counts a batch."""
        scores = array_of(predictions)
        self.single = scores.shape == shape_of(targets) and scores.dtype.kind == "f"
        several = self.average not in ("auto", "binary")
        if self.single and several and scores.ndim > 1:
            self._add_columns(scores, targets)
            return
        said, true = self.labels(scores, targets)
        size = max(int(true.max(initial=-1)), int(said.max(initial=-1))) + 1
        if self.num_classes is not None and size > self.num_classes:
            raise ValueError(
                f"{type(self).__name__}: got the label {size - 1}; expected labels below "
                f"num_classes={self.num_classes}"
            )
        if self.average == "binary" and size > 2:
            raise ValueError(
                f"{type(self).__name__}: got the label {size - 1}, but average='binary' is about "
                "labels 0 and 1. Choose 'micro', 'macro', 'weighted' or None"
            )
        self._count(
            np.bincount(true[said == true], minlength=size),
            np.bincount(said, minlength=size),
            np.bincount(true, minlength=size),
            true.size,
        )

    def _add_columns(self, scores: Array, targets: Any) -> None:
        """Several labels per sample: dim 1 is the labels, each with its own yes or no."""
        true = true_labels(type(self).__name__, array_of(targets))
        counted = (
            np.ones(true.shape, bool) if self.ignore_index is None else (true != self.ignore_index)
        )
        yes, said = (true == 1) & counted, (scores > self.threshold) & counted
        others = (0, *range(2, scores.ndim))
        self._count((yes & said).sum(others), said.sum(others), yes.sum(others), len(true))

    def _count(self, right: Array, said: Array, true: Array, total: int) -> None:
        self.right = grown(self.right, len(right))
        self.said, self.true = grown(self.said, len(said)), grown(self.true, len(true))
        self.right[: len(right)] += right
        self.said[: len(said)] += said
        self.true[: len(true)] += true
        self.total += total

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """The metric of classes with these counts."""
        raise NotImplementedError

    def result(self) -> Any:
        """A float, or with `average=None` an array with a value for each class."""
        average = self.average
        if average == "auto":
            average = "binary" if self.single else "macro"
        counts = self.right, self.said, self.true
        if average == "micro":
            right, said, true = [np.asarray(c.sum()) for c in counts]
            total = np.asarray(self.total * len(self.right))
            return float(self.value(right, said, true, total))
        values = self.value(*counts, np.asarray(self.total))
        if average is None:
            return values
        if average == "binary":
            return float(values[1]) if len(values) > 1 else 0.0
        weights = self.true if average == "weighted" else (self.said + self.true > 0)
        whole = float(weights.sum())
        return float((values * weights).sum() / whole) if whole else float("nan")


class Precision(_PerClass):
    """Of what was predicted as a class, the share that is of it.

    Targets are labels (N, …). Predictions are scores (N, C, …) with the classes at dim 1 as in
    `cross_entropy`, or labels of the targets' shape, or one score per target, which says yes above
    `threshold` (0.5 for probabilities; give 0 for logits). Targets equal to `ignore_index` do not
    count. `average` says what becomes of the values of the classes:

        "binary"    that of class 1
        "macro"     their mean, over classes that were predicted or true at least once
        "weighted"  the same, each weighted by how often it was true
        "micro"     the value of the counts of all classes together
        None        all of them, as an array
        "auto"      "binary" if there is one score per target, else "macro"

    With one score per target in (N, L) and an average other than "binary", the L columns are
    labels of which a sample may have several. Where nothing was predicted the value is 0.
    """

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """right / said."""
        out: Array = ratio(right, said)
        return out


class Recall(_PerClass):
    """Of what is of a class, the share that was predicted as it. For inputs see `Precision`."""

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """right / true."""
        out: Array = ratio(right, true)
        return out


class Specificity(_PerClass):
    """Of what is not of a class, the share not predicted as it. For inputs see `Precision`."""

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """Neither said nor true / not true."""
        out: Array = ratio(total - said - true + right, total - true)
        return out


class FBeta(_PerClass):
    """The harmonic mean of precision and recall, where recall counts `beta` times as much.

    For inputs see `Precision`.
    """

    def __init__(self, beta: float = 1.0, average: str | None = "auto", **options: Any) -> None:
        self.beta = beta
        super().__init__(average, **options)

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """(1 + β²) right / (β² true + said)."""
        square = self.beta**2
        out: Array = ratio((1 + square) * right, square * true + said)
        return out


class F1(FBeta):
    """The harmonic mean of precision and recall. For inputs see `Precision`."""

    def __init__(self, average: str | None = "auto", **options: Any) -> None:
        super().__init__(1.0, average, **options)


class Dice(F1):
    """2 |A ∩ B| / (|A| + |B|) of predicted and true regions: F1, for masks."""


class IoU(_PerClass):
    """|A ∩ B| / |A ∪ B| of predicted and true regions. For inputs see `Precision`."""

    def value(self, right: Array, said: Array, true: Array, total: Array) -> Array:
        """right / (said + true - right)."""
        out: Array = ratio(right, said + true - right)
        return out
