"""What predictions and targets mean as labels."""

from __future__ import annotations

import numpy as np

from livegrad.utils.reading import Array

Shape = tuple[int, ...]


def has_scores(predictions: Shape, targets: Shape) -> bool:
    """Whether predictions have classes at dim 1 that targets do not have."""
    return len(predictions) == len(targets) + 1 and len(targets) > 0


def check_shapes(name: str, predictions: Shape, targets: Shape) -> None:
    """Raises unless predictions are (N, C, …) or (N, …) for targets (N, …)."""
    if has_scores(predictions, targets):
        if predictions[0] == targets[0] and predictions[2:] == targets[1:]:
            if predictions[1] == 1:
                raise ValueError(
                    f"{name}: got predictions {predictions} for targets {targets}: one class. "
                    "For one score per target, give predictions.squeeze(1)"
                )
            return
        hint = ""
        if predictions[:-1] == targets:
            hint = ". If classes are last, flatten both: predictions.flatten(0, -2)"
    elif predictions == targets:
        return
    else:
        hint = ""
    raise ValueError(
        f"{name}: got predictions {predictions} and targets {targets}; expected (N, C, …) scores "
        f"or (N, …) labels for (N, …) targets{hint}"
    )


def decided(predictions: Array, targets: Shape, threshold: float) -> Array:
    """The predicted labels."""
    if has_scores(predictions.shape, targets):
        best: Array = predictions.argmax(1)
        return best
    if predictions.dtype.kind == "f":
        yes: Array = predictions > threshold
        return yes.astype(np.int64)
    return predictions.astype(np.int64)


def true_labels(name: str, targets: Array) -> Array:
    """Targets as integers; raises if they are not whole numbers."""
    labels = targets.astype(np.int64, copy=False)
    if targets.dtype.kind == "f" and not np.array_equal(labels, targets):
        raise ValueError(f"{name}: got targets that are not whole numbers; expected labels")
    return labels


def check_labels(name: str, *labels: Array) -> None:
    """Raises if there is a negative label."""
    for found in labels:
        least = int(found.min(initial=0))
        if least < 0:
            raise ValueError(
                f"{name}: got the label {least}; expected labels from 0. To leave targets out, "
                f"give ignore_index={least}"
            )
