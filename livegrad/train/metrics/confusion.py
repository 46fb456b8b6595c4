"""The confusion matrix, and metrics that need all of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from livegrad.train.metrics.base import ratio
from livegrad.train.metrics.classification import Labels
from livegrad.utils.reading import Array

NORMALS = (None, "true", "pred", "all")


class ConfusionMatrix(Labels):
    """How often true class i (row) was predicted as class j (column).

    `normalize` divides by the sums of rows ("true"), of columns ("pred"), or of all. The matrix
    has `num_classes` rows, or as many as labels were met. For inputs see `Precision`.
    """

    counts = ("matrix",)

    def __init__(
        self,
        num_classes: int | None = None,
        normalize: str | None = None,
        *,
        threshold: float = 0.5,
        ignore_index: int | None = None,
    ) -> None:
        if normalize not in NORMALS:
            raise ValueError(
                f"{type(self).__name__}: got normalize={normalize!r}; expected one of "
                f"{', '.join(map(repr, NORMALS))}"
            )
        self.num_classes = num_classes
        self.normalize = normalize
        super().__init__(threshold, ignore_index)

    def clear(self) -> None:
        """Sets the counts to nothing."""
        size = self.num_classes or 0
        self.matrix = np.zeros((size, size), np.int64)

    def add(self, predictions: Any, targets: Any) -> None:
        """Counts a batch."""
        said, true = self.labels(predictions, targets)
        size = max(int(true.max(initial=-1)), int(said.max(initial=-1))) + 1
        missing = size - len(self.matrix)
        if missing > 0:
            if self.num_classes is not None:
                raise ValueError(
                    f"{type(self).__name__}: got the label {size - 1}; expected labels below "
                    f"num_classes={self.num_classes}"
                )
            self.matrix = np.pad(self.matrix, (0, missing))
        size = len(self.matrix)
        pairs = np.bincount(true * size + said, minlength=size * size)
        self.matrix += pairs.reshape(size, size)

    def result(self) -> Any:
        """The matrix: of int64, or of float64 if normalised."""
        if self.normalize is None:
            return self.matrix.copy()
        below = {
            "true": self.matrix.sum(1, keepdims=True),
            "pred": self.matrix.sum(0, keepdims=True),
            "all": self.matrix.sum(),
        }[self.normalize]
        return ratio(self.matrix, below)


class MatthewsCorrelation(ConfusionMatrix):
    """The correlation of predicted and true classes: 1 if all are right, 0 for a guess."""

    def __init__(self, num_classes: int | None = None, **options: Any) -> None:
        super().__init__(num_classes, **options)

    def result(self) -> float:
        """See the class; 0 if one of the two does not vary."""
        true, said, right, total = _sums(self.matrix)
        both = right * total - float(true @ said)
        spread = math.sqrt(total**2 - float(said @ said)) * math.sqrt(total**2 - float(true @ true))
        return both / spread if spread else 0.0


class CohenKappa(ConfusionMatrix):
    """How much more often predictions are right than a guess with the same frequencies."""

    def __init__(self, num_classes: int | None = None, **options: Any) -> None:
        super().__init__(num_classes, **options)

    def result(self) -> float:
        """See the class; nan if a guess would always be right."""
        true, said, right, total = _sums(self.matrix)
        if not total:
            return math.nan
        by_chance = float(true @ said) / total**2
        return (right / total - by_chance) / (1 - by_chance) if by_chance != 1 else math.nan


def _sums(matrix: Array) -> tuple[Array, Array, float, float]:
    """Sums of rows, of columns, of the diagonal, of all, as floats: products would overflow."""
    wide = matrix.astype(np.float64)
    return wide.sum(1), wide.sum(0), float(np.trace(wide)), float(wide.sum())
