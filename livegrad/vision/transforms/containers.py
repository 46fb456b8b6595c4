"""Transforms of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad import nn
from livegrad.vision.transforms import draws
from livegrad.vision.transforms.base import Transform


class _Container(Transform):
    transforms: Any

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence | nn.ModuleList):
            raise TypeError("Argument transforms should be a sequence of callables")
        self.transforms = transforms

    def __repr__(self) -> str:
        inside = "".join(f"\n    {x}" for x in self.transforms)
        return f"{type(self).__name__}({inside}\n)"


def _in_turn(transforms: Any, inputs: tuple[Any, ...]) -> Any:
    for transform in transforms:
        found = transform(*inputs)
        inputs = found if len(inputs) > 1 else (found,)
    return inputs if len(inputs) > 1 else inputs[0]


class Compose(_Container):
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__(transforms)
        if len(transforms) == 0:
            raise ValueError("Pass at least one transform")

    def forward(self, *inputs: Any) -> Any:
        """All of them."""
        return _in_turn(self.transforms, inputs)


class RandomApply(_Container):
    """All transforms, with probability `p`."""

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """All of them, or the inputs as they are."""
        if draws.chance(self.p):
            return _in_turn(self.transforms, inputs)
        return inputs if len(inputs) > 1 else inputs[0]

    def __repr__(self) -> str:
        inside = "".join(f"\n    {x}" for x in self.transforms)
        return f"{type(self).__name__}(\n    p={self.p}{inside}\n)"


class RandomChoice(_Container):
    """One of the transforms, with probabilities `p`."""

    def __init__(
        self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None
    ) -> None:
        super().__init__(transforms)
        if p is not None and len(p) != len(transforms):
            raise ValueError(
                f"Length of p doesn't match the number of transforms: {len(p)} != {len(transforms)}"
            )
        self.p = [1.0] * len(transforms) if p is None else list(p)

    def forward(self, *inputs: Any) -> Any:
        """One of them."""
        chosen = draws.source().choices(range(len(self.transforms)), self.p)[0]
        return self.transforms[chosen](*inputs)


class RandomOrder(_Container):
    """All transforms, in any order."""

    def forward(self, *inputs: Any) -> Any:
        """All of them."""
        order = list(range(len(self.transforms)))
        draws.source().shuffle(order)
        return _in_turn([self.transforms[i] for i in order], inputs)
