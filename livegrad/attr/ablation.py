"""What becomes of the answer when parts of the input are taken away."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from livegrad import Tensor, arange, cat, no_grad, where, zeros, zeros_like
from livegrad.attr.asking import (
    Forward,
    Tensors,
    as_tuple,
    ask,
    baselines_of,
    extras,
    like,
    repeated,
)

Masks = Iterator[Tensor]


class FeatureAblation:
    """How much less the answer is when a feature has the value of the baseline.

    A feature is one element of the input, or all that have the same number in `feature_mask`.
    """

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        feature_mask: Any = None,
        perturbations_per_eval: int = 1,
    ) -> Any:
        """A value for each element of the inputs, the same for all of a feature."""
        given = tuple([x.detach() for x in as_tuple(inputs)])
        masks = (None,) * len(given) if feature_mask is None else as_tuple(feature_mask)
        features = [numbers(x, mask) for x, mask in zip(given, masks, strict=True)]

        def parts(i: int) -> Masks:
            for number in sorted(set(features[i].flatten().tolist())):
                yield features[i] == number

        bases = baselines_of(baselines, given)
        asked = Ablated(self.forward_func, given, bases, target, extras(additional_forward_args))
        found = [asked.without(i, parts(i), perturbations_per_eval)[0] for i in range(len(given))]
        return like(inputs, found)


class Occlusion:
    """How much less the answer is when a window of the input has the value of the baseline.

    Elements in several windows have the mean of them.
    """

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    def attribute(
        self,
        inputs: Any,
        sliding_window_shapes: Any,
        strides: Any = None,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        perturbations_per_eval: int = 1,
    ) -> Any:
        """A value for each element; shapes and strides are those of an example, without batch."""
        given = tuple([x.detach() for x in as_tuple(inputs)])
        shapes = _per_input(sliding_window_shapes, given, "sliding_window_shapes")
        steps = [None] * len(given) if strides is None else _per_input(strides, given, "strides")
        asked = Ablated(
            *(self.forward_func, given, baselines_of(baselines, given), target),
            extras(additional_forward_args),
        )
        found = []
        for i, x in enumerate(given):
            masks = windows(x, shapes[i], steps[i])
            total, count = asked.without(i, masks, perturbations_per_eval)
            found.append(total / count)
        return like(inputs, found)


class Ablated:
    """A model that is asked about inputs of which a part is taken away."""

    def __init__(
        self,
        forward: Forward,
        inputs: Tensors,
        baselines: tuple[Any, ...],
        target: Any,
        more: tuple[Any, ...],
    ) -> None:
        self.forward, self.inputs, self.baselines = forward, inputs, baselines
        self.target, self.more = target, more
        with no_grad():
            self.whole = ask(forward, inputs, target, more).reshape(-1)

    def without(self, i: int, masks: Masks, together: int) -> tuple[Tensor, Tensor]:
        """Of each element of input `i`: what the answers lose with it, added up; and how often."""
        if together < 1:
            raise ValueError(f"perturbations_per_eval must be at least 1, but is {together}")
        x = self.inputs[i]
        shape = (self.whole.numel(), *x.shape[1:])
        total, count = zeros(shape, dtype=self.whole.dtype), zeros(shape, dtype=self.whole.dtype)
        masks = iter(masks)
        with no_grad():
            while some := list(itertools.islice(masks, together)):
                lost = self.whole - self._answers(i, some)  # (masks, answers)
                for mask, change in zip(some, lost, strict=True):
                    change = change.reshape(-1, *[1] * (x.ndim - 1))
                    total = total + change * mask
                    count = count + mask
        return total, count

    def _answers(self, i: int, masks: Sequence[Tensor]) -> Tensor:
        """The answers without each of some parts."""
        rows, times = self.inputs[i].size(0), len(masks)
        batch = [repeated(x, rows, times) for x in self.inputs]
        batch[i] = cat([where(mask, self.baselines[i], self.inputs[i]) for mask in masks])
        target = repeated(self.target, rows, times)
        more = tuple([repeated(x, rows, times) for x in self.more])
        answers = ask(self.forward, tuple(batch), target, more)
        if answers.numel() != times * self.whole.numel():
            raise ValueError(
                "a model with one answer for a whole batch is asked about one part at a time:"
                " perturbations_per_eval=1"
            )
        return answers.reshape(times, -1)


def numbers(x: Tensor, mask: Any) -> Tensor:
    """The number of the feature of each element of an example: (1, ...)."""
    if mask is None:
        return arange(x[:1].numel()).reshape(x[:1].shape)
    return mask.reshape(1, *mask.shape) if mask.ndim == x.ndim - 1 else mask  # type: ignore[no-any-return]


def _per_input(given: Any, inputs: Tensors, name: str) -> list[Any]:
    """What is given for one input, or for each."""
    several = isinstance(given, tuple) and given and isinstance(given[0], tuple)
    found = list(given) if several else [given]
    if len(found) != len(inputs):
        raise ValueError(f"there are {len(inputs)} inputs, but {len(found)} {name}")
    return found


def windows(x: Tensor, shape: Any, strides: Any) -> Masks:
    """Where each window is; the last of a dim ends with it."""
    sizes = x.shape[1:]
    window = (shape,) * len(sizes) if isinstance(shape, int) else tuple(shape)
    steps = (1,) * len(sizes) if strides is None else strides
    steps = (steps,) * len(sizes) if isinstance(steps, int) else tuple(steps)
    if len(window) != len(sizes) or len(steps) != len(sizes):
        raise ValueError(f"windows and strides of {len(sizes)} dims are needed, not {shape}")
    starts = []
    for size, width, step in zip(sizes, window, steps, strict=True):
        if not 1 <= width <= size or not 1 <= step <= width:
            raise ValueError(
                f"a window of {width} with steps of {step} does not cover {size} elements"
            )
        starts.append(range(0, -(-(size - width) // step) * step + 1, step))
    for corner in itertools.product(*starts):
        mask = zeros_like(x[:1]).bool()
        ends = [begin + width for begin, width in zip(corner, window, strict=True)]
        mask[(slice(None), *[slice(a, b) for a, b in zip(corner, ends, strict=True)])] = True
        yield mask
