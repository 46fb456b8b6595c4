"""Boxes as what a network predicts, and which box is to predict which object."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor

_CLIP = math.log(1000.0 / 16)


def _centres(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Centres and sides of corners, (N, 2) each."""
    sides = boxes[:, 2:] - boxes[:, :2]
    return boxes[:, :2] + 0.5 * sides, sides


class BoxCoder:
    """Boxes relative to others: how far centres are apart, by the sides; logarithms of sides."""

    def __init__(
        self, weights: tuple[float, float, float, float], bbox_xform_clip: float = _CLIP
    ) -> None:
        self.weights, self.bbox_xform_clip = weights, bbox_xform_clip

    def _weights(self, like: Tensor) -> tuple[Tensor, Tensor]:
        weights = lg.tensor(self.weights, dtype=like.dtype, device=like.device)
        return weights[:2], weights[2:]

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        """What a network should predict at `proposals`."""
        (target, target_sides), (own, sides) = _centres(reference_boxes), _centres(proposals)
        moving, growing = self._weights(proposals)
        moved = moving * (target - own) / sides
        return lg.cat((moved, growing * (target_sides / sides).log()), 1)

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        """The boxes that predictions (N, 4 · k) at `boxes` mean."""
        own, sides = _centres(boxes.to(rel_codes.dtype))
        moving, growing = self._weights(rel_codes)
        codes = rel_codes.reshape(len(rel_codes), -1, 4)
        own, sides = own[:, None], sides[:, None]
        centre = codes[..., :2] / moving * sides + own
        half = 0.5 * (codes[..., 2:] / growing).clamp(max=self.bbox_xform_clip).exp() * sides
        return lg.cat((centre - half, centre + half), -1).reshape(rel_codes.shape)

    def encode(
        self, reference_boxes: Sequence[Tensor], proposals: Sequence[Tensor]
    ) -> list[Tensor]:
        """`encode_single` per image."""
        pairs = zip(reference_boxes, proposals, strict=True)
        return [self.encode_single(wanted, own) for wanted, own in pairs]

    def decode(self, rel_codes: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Predictions of all images, as (N, k, 4)."""
        together = lg.cat(list(boxes))
        return self.decode_single(rel_codes, together).reshape(len(together), -1, 4)


class Matcher:
    """For each prediction the object that it overlaps most, or that it is between, or below."""

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(
        self,
        high_threshold: float,
        low_threshold: float,
        allow_low_quality_matches: bool = False,
    ) -> None:
        if low_threshold > high_threshold:
            raise ValueError("low_threshold should be <= high_threshold")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """From overlaps (objects, predictions): objects by prediction; negative for none."""
        if match_quality_matrix.numel() == 0:
            raise ValueError(
                "No ground-truth boxes, or no proposal boxes, available for one of the images "
                "during training"
            )
        best, matches = match_quality_matrix.max(0)
        found = lg.where(best < self.low_threshold, self.BELOW_LOW_THRESHOLD, matches)
        between = (best >= self.low_threshold) & (best < self.high_threshold)
        found = lg.where(between, self.BETWEEN_THRESHOLDS, found)
        if self.allow_low_quality_matches:  # every object keeps the predictions nearest to it
            highest = match_quality_matrix.amax(1, keepdim=True)
            nearest = (match_quality_matrix == highest).any(0)
            found = lg.where(nearest, matches, found)
        return found


class SSDMatcher(Matcher):
    """Besides, the best prediction of each object is that object's."""

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """From overlaps (objects, predictions): objects by prediction; -1 for none."""
        found = super().__call__(match_quality_matrix)
        best = match_quality_matrix.argmax(1)
        objects = lg.arange(len(best), dtype=lg.int64, device=best.device)
        found[best] = objects
        return found


def checked_targets(targets: Any) -> Sequence[dict[str, Tensor]]:
    """Targets that training needs; a ValueError or AssertionError says what is wrong with them."""
    if targets is None:
        raise AssertionError("targets should not be none when in training mode")
    for i, target in enumerate(targets):
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise AssertionError(f"Expected target boxes to be of type Tensor, got {type(boxes)}.")
        if boxes.ndim != 2 or boxes.shape[-1] != 4:
            raise AssertionError(
                f"Expected target boxes to be a tensor of shape [N, 4], got {tuple(boxes.shape)}."
            )
        wrong = (boxes[:, 2:] <= boxes[:, :2]).any(1)
        if wrong.any():
            first = boxes[wrong][0].tolist()
            raise AssertionError(
                "All bounding boxes should have positive height and width. "
                f"Found invalid box {first} for target at index {i}."
            )
    return list(targets)


def freeze_all_but(backbone: Any, trainable: int, names: Sequence[str]) -> None:
    """Only the last `trainable` of the layers, named from last to first, learn."""
    if not 0 <= trainable <= len(names):
        raise ValueError(
            f"Trainable layers should be in the range [0,{len(names)}], got {trainable}"
        )
    learning = list(names[:trainable])
    if trainable == len(names):
        learning.append("bn1")
    for name, parameter in backbone.named_parameters():
        if not any(name.startswith(layer) for layer in learning):
            parameter.requires_grad_(False)


def layers_to_train(trained: bool, asked: int | None, most: int, default: int) -> int:
    """How many layers learn: those asked for, or all if the network starts from nothing."""
    if not trained:
        return most
    return default if asked is None else asked


Layer = Callable[..., Any]
