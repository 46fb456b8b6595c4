"""Metrics of how scores order the samples: they keep all scores until the reset."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from livegrad.train.metrics.base import Metric
from livegrad.train.metrics.labels import has_scores, true_labels
from livegrad.utils.reading import Array, array_of, shape_of

AVERAGES = ("macro", "weighted", "micro", None)
Curve = tuple[Array, Array, Array]


class _OfScores(Metric):
    """Metrics of yes/no scores; of several classes each is taken against the rest."""

    counts = ("scores", "targets")

    def __init__(self, average: str | None = "macro") -> None:
        if average not in AVERAGES:
            raise ValueError(
                f"{type(self).__name__}: got average={average!r}; expected one of "
                f"{', '.join(map(repr, AVERAGES))}"
            )
        self.average = average
        super().__init__()

    def clear(self) -> None:
        """Sets the counts to nothing."""
        self.scores: list[Array] = []
        self.targets: list[Array] = []

    def check(self, scores: Any, targets: Any) -> None:
        """Raises if the shapes do not go together."""
        got, true = shape_of(scores), shape_of(targets)
        by_class = len(true) == 1 and has_scores(got, true) and got[0] == true[0]
        if not by_class and (got != true or len(true) not in (1, 2)):
            raise ValueError(
                f"{type(self).__name__}: got scores {got} and targets {true}; expected (N,) for "
                "(N,), (N, C) for (N,), or (N, L) for (N, L)"
            )

    def add(self, scores: Any, targets: Any) -> None:
        """Keeps a batch."""
        values = array_of(scores)
        if np.isnan(values).any():
            raise ValueError(f"{type(self).__name__}: got scores that are nan")
        labels = true_labels(type(self).__name__, array_of(targets))
        if labels.shape == values.shape and not np.isin(labels, (0, 1)).all():
            raise ValueError(
                f"{type(self).__name__}: got labels other than 0 and 1; expected scores (N, C) "
                "for more than two classes"
            )
        self.scores.append(np.array(values))
        self.targets.append(labels)

    def value(self, scores: Array, yes: Array) -> float:
        """The figure of one column."""
        raise NotImplementedError

    def result(self) -> Any:
        """A float, or with `average=None` an array with a value for each class."""
        if not self.scores:
            return math.nan
        scores, targets = np.concatenate(self.scores), np.concatenate(self.targets)
        if scores.ndim == 1:
            return self.value(scores, targets == 1)
        if targets.ndim == 1:
            yes = targets[:, None] == np.arange(scores.shape[1])
        else:
            yes = targets == 1
        if self.average == "micro":
            return self.value(scores.ravel(), yes.ravel())
        values = np.array([self.value(scores[:, i], yes[:, i]) for i in range(scores.shape[1])])
        return values if self.average is None else _averaged(values, yes.sum(0), self.average)


def _averaged(values: Array, support: Array, average: str) -> float:
    """The mean of the values that exist: of classes with samples both in and out of them."""
    exist = ~np.isnan(values)
    weights = np.where(exist, support if average == "weighted" else 1, 0)
    total = float(weights.sum())
    return float((np.where(exist, values, 0.0) * weights).sum() / total) if total else math.nan


class AUC(_OfScores):
    """The area under the ROC curve: how likely a yes scores above a no.

    `update(scores, targets)`: (N,) scores for (N,) labels 0 and 1; or (N, C) scores for (N,)
    classes; or (N, L) scores for (N, L) labels 0 and 1. Of several columns each is taken against
    the rest, and `average` is "macro", "weighted" (by how often it is true), "micro" or None. The
    value is exact; nan if all targets are the same.
    """

    def value(self, scores: Array, yes: Array) -> float:
        """From the ranks of the scores, where equal scores share a rank."""
        positive = int(yes.sum())
        negative = yes.size - positive
        if not positive or not negative:
            return math.nan
        _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts - 1) / 2
        ranks = float(middle[places][yes].sum())
        return (ranks - positive * (positive + 1) / 2) / (positive * negative)

    def curve(self) -> Curve:
        """The ROC curve of (N,) scores; see `roc_curve`."""
        self._settle()
        return roc_curve(np.concatenate(self.scores), np.concatenate(self.targets))


class AveragePrecision(_OfScores):
    """The area under the precision-recall curve, as a sum of steps. For inputs see `AUC`."""

    def value(self, scores: Array, yes: Array) -> float:
        """Precision at each threshold, weighted by what it adds to the recall."""
        if not yes.any():
            return math.nan
        _, right, said = _thresholds(scores, yes)
        gained = np.diff(right, prepend=0)
        return float((gained * right / said).sum() / yes.sum())

    def curve(self) -> Curve:
        """The precision-recall curve of (N,) scores; see `precision_recall_curve`."""
        self._settle()
        return precision_recall_curve(np.concatenate(self.scores), np.concatenate(self.targets))


def _thresholds(scores: Array, yes: Array) -> Curve:
    """Distinct scores, falling; and how many are right, and how many said yes, down to each."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    ordered = scores[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    right = np.cumsum(yes[order])[last]
    return ordered[last], right, last + 1


def roc_curve(scores: Any, targets: Any) -> Curve:
    """False-positive rates, true-positive rates, and the thresholds (score >= threshold is a yes).

    The curve starts at (0, 0), with an infinite threshold.
    """
    values, yes = array_of(scores), array_of(targets).astype(bool)
    thresholds, right, said = _thresholds(values, yes)
    wrong = said - right
    positive, negative = max(int(yes.sum()), 1), max(int((~yes).sum()), 1)
    return (
        np.append(0.0, wrong / negative),
        np.append(0.0, right / positive),
        np.append(np.inf, thresholds),
    )


def precision_recall_curve(scores: Any, targets: Any) -> Curve:
    """Precisions, recalls, and the thresholds (score >= threshold is a yes).

    In the order of rising thresholds; at the end is the point (1, 0), which has no threshold.
    """
    values, yes = array_of(scores), array_of(targets).astype(bool)
    thresholds, right, said = _thresholds(values, yes)
    precision = np.append((right / said)[::-1], 1.0)
    recall = np.append((right / max(int(yes.sum()), 1))[::-1], 0.0)
    return precision, recall, thresholds[::-1].copy()
