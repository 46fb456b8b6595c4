"""What a search chooses from: `Float`, `Int`, `Choice`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Params = dict[str, Any]


@dataclass(frozen=True)
class Float:
    """A number from `low` to `high`; `log`: evenly in its logarithm."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, rng: np.random.Generator) -> float:
        """One of them."""
        if self.log:
            return float(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return float(rng.uniform(self.low, self.high))

    def grid(self, points: int) -> list[Any]:
        """So many, evenly, with both ends."""
        space = np.geomspace if self.log else np.linspace
        return [float(x) for x in space(self.low, self.high, points)]


@dataclass(frozen=True)
class Int:
    """A whole number from `low` to `high`, both among them; `log`: evenly in its logarithm."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)

    def draw(self, rng: np.random.Generator) -> int:
        """One of them."""
        if not self.log:
            return int(rng.integers(self.low, self.high + 1))
        found = math.exp(rng.uniform(math.log(self.low - 0.5), math.log(self.high + 0.5)))
        return int(min(max(round(found), self.low), self.high))

    def grid(self, points: int) -> list[Any]:
        """So many at most, evenly, with both ends."""
        space = np.geomspace if self.log else np.linspace
        return sorted({round(float(x)) for x in space(self.low, self.high, points)})


class Choice:
    """One of some values: numbers, strings, booleans or None."""

    def __init__(self, *options: Any) -> None:
        if len(options) == 1 and isinstance(options[0], list | tuple):
            options = tuple(options[0])
        if not options:
            raise ValueError("Choice: there is nothing to choose from")
        for option in options:
            if option is not None and not isinstance(option, bool | int | float | str):
                raise TypeError(
                    f"Choice: got {option!r}; expected numbers, strings, booleans or None. Give "
                    "names, and look them up in the objective"
                )
        self.options = options

    def draw(self, rng: np.random.Generator) -> Any:
        """One of them."""
        return self.options[int(rng.integers(len(self.options)))]

    def grid(self, points: int) -> list[Any]:
        """All."""
        return list(self.options)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.options))})"


Space = Mapping[str, Any]


def _check_range(x: Any) -> None:
    kind = type(x).__name__
    if not x.low < x.high and not (kind == "Int" and x.low == x.high):
        raise ValueError(f"{kind}: got low={x.low}, high={x.high}; expected low < high")
    if x.log and x.low <= 0:
        raise ValueError(f"{kind}: got low={x.low} with log=True; expected more than 0")


def check_space(space: Any) -> None:
    """Raises unless every parameter has something to be chosen from."""
    if not isinstance(space, Mapping) or not space:
        raise ValueError('search: expected a space such as {"lr": Float(1e-4, 1e-1, log=True)}')
    for name, part in space.items():
        if not isinstance(part, Float | Int | Choice):
            raise TypeError(f"search: got {part!r} for {name!r}; expected Float, Int or Choice")


def drawn(space: Space, seed: int, number: int) -> Params:
    """The parameters of a trial: the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    return {name: part.draw(rng) for name, part in space.items()}
