"""The pen that writes a program: it runs each line in PyTorch, so it knows what there is to use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch

from .sides import TorchSide

SLIP = 0.02  # how often an argument is wrong on purpose

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
COMPLEX = ("complex64",)

SHAPES = (
    *[()] * 3,
    *[(3,)] * 4,
    *[(4,)] * 3,
    *[(2, 3)] * 6,
    *[(3, 3)] * 3,
    *[(2, 3, 4)] * 3,
    *((1,), (6,), (3, 2), (4, 4), (1, 3), (2, 1), (2, 2, 2), (2, 1, 3), (1, 2, 1, 3)),
    *((0,), (2, 0), (0, 3)),
)


class Stuck(Exception):
    """There is nothing yet that the statement could be about."""


class Pen:
    def __init__(self, seed: str):
        self.rng = Random(seed)
        self.side = TorchSide()
        self.count = 0

    # ----------------------------------------------------------------------------- choosing

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def choose(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def fresh(self) -> str:
        """A new name: a, b, …, z, a1, b1, …"""
        letter, round_ = chr(ord("a") + self.count % 26), self.count // 26
        self.count += 1
        return f"{letter}{round_ or ''}"

    def value(self, name: str) -> Any:
        return self.side.variables[name]

    def named(self, condition: Callable[[Any], bool]) -> list[str]:
        return [name for name, x in self.side.own().items() if holds(condition, x)]

    def pick(self, condition: Callable[[Any], bool]) -> str:
        """A variable that fulfils a condition; young ones more often."""
        names = self.named(condition)
        if not names:
            raise Stuck
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def tensor(self, condition: Callable[[torch.Tensor], bool] = lambda x: True) -> str:
        return self.pick(lambda x: isinstance(x, torch.Tensor) and condition(x))

    def floats(self, condition: Callable[[torch.Tensor], bool] = lambda x: True) -> str:
        return self.tensor(lambda x: x.is_floating_point() and condition(x))

    # ----------------------------------------------------------------------------- arguments

    def dim(self, x: torch.Tensor) -> int:
        """A dim of x, often counted from the end; rarely one that it does not have."""
        n = max(x.dim(), 1)
        if self.chance(SLIP):
            return self.choose(n, -n - 1)
        return self.rng.randrange(-n, n)

    def dims(self, x: torch.Tensor) -> tuple[int, ...]:
        count = self.rng.randint(1, max(x.dim(), 1))
        return tuple(self.rng.sample(range(x.dim()), min(count, x.dim())))

    def place(self, size: int) -> int:
        """A place in a dim of some size, often counted from the end; rarely outside."""
        if size == 0 or self.chance(SLIP):
            return self.choose(size, -size - 1)
        return self.rng.randrange(-size, size)

    def number(self, dtype: torch.dtype = torch.float32) -> str:
        """A Python number that suits the dtype, mostly."""
        if self.chance(0.1):
            return self.choose("0", "1", "0.5", "True", "-1", "2.5")
        if dtype.is_floating_point:
            return self.choose("2", "0.5", "-1.5", "3", "0.25", "1.0", "-1")
        if dtype.is_complex:
            return self.choose("2", "0.5", "1j", "(1 + 2j)")
        if dtype == torch.bool:
            return self.choose("True", "False", "1")
        return self.choose("2", "3", "1", "5", "-1" if dtype.is_signed else "4")

    def dtype(self) -> str:
        kinds = (*[FLOATS[0]] * 10, *[FLOATS[1]] * 4, *FLOATS[2:], *INTS, "int64", "bool", *COMPLEX)
        return self.choose(*kinds)

    def values(self, shape: Sequence[int], dtype: str, finite: bool) -> str:
        """A nested list of small numbers that have few digits, so that sums of them are exact."""
        if not shape:
            return self.entry(dtype, finite)
        rows = [self.values(shape[1:], dtype, finite) for _ in range(shape[0])]
        return "[" + ", ".join(rows) + "]"

    def entry(self, dtype: str, finite: bool) -> str:
        if dtype == "bool":
            return str(self.chance(0.5))
        if dtype in INTS:
            return str(self.rng.randint(0 if dtype == "uint8" else -4, 7))
        if dtype in COMPLEX:
            return f"{self.rng.randint(-4, 4) / 2}+{self.rng.randint(0, 4) / 2}j"
        if not finite and self.chance(0.02):
            return self.choose("float('nan')", "float('inf')", "-0.0", "1e4")
        return str(self.rng.randint(-12, 12) / 4)

    def literal(
        self, shape: Sequence[int], dtype: str, options: str = "", finite: bool = False
    ) -> str:
        """A new tensor of small numbers."""
        if 0 in shape:
            return f"T.zeros({tuple(shape)}, dtype=T.{dtype}{options})"
        return f"T.tensor({self.values(shape, dtype, finite)}, dtype=T.{dtype}{options})"

    def indices(self, count: int, size: int) -> str:
        """A list of places in a dim of some size."""
        return "[" + ", ".join(str(self.place(size)) for _ in range(count)) + "]"

    def index(self, count: int, size: int, negative: bool = False) -> str:
        """A 1-D index tensor of places in a dim; not negative unless asked."""
        places = [self.place(size) for _ in range(count)]
        if not negative and not self.chance(SLIP):
            places = [p % size if size else p for p in places]
        return f"T.tensor({places}, dtype=T.int64)"

    def fitting(self, x: torch.Tensor) -> str:
        """An operand that broadcasts with x: a variable, a number or a new tensor."""
        dtype = str(x.dtype).split(".")[-1]
        shape = list(x.shape)
        if self.chance(0.35):
            return self.number(x.dtype)
        if self.chance(0.6):
            others = self.named(lambda y: isinstance(y, torch.Tensor) and broadcasts(x, y))
            if others:
                return self.choose(*others)
        shape = shape[self.rng.randint(0, len(shape)) :]
        shape = [1 if self.chance(0.2) else n for n in shape]
        if self.chance(SLIP):
            shape = [*shape, 5]
        other = dtype if self.chance(0.75) else self.dtype()
        return self.literal(shape, other)

    def shape_of_size(self, size: int) -> tuple[int, ...]:
        """A random factorisation of a number of elements."""
        shape: list[int] = []
        while size > 1 and len(shape) < 3 and self.chance(0.8):
            factor = self.choose(*[n for n in range(1, size + 1) if size % n == 0])
            shape.append(factor)
            size //= factor
        shape.insert(self.rng.randint(0, len(shape)), size)
        return tuple(shape)

    # ----------------------------------------------------------------------------- writing

    def writes(self, line: str) -> Exception | None:
        """Runs a line; the error that it raises in PyTorch, if any."""
        return self.side.run(line)


def holds(condition: Callable[[Any], bool], x: Any) -> bool:
    try:
        return condition(x)
    except RuntimeError:  # a view that PyTorch gave up, because its base was written to
        return False


def broadcasts(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether y fits x without making it larger."""
    try:
        return torch.broadcast_shapes(x.shape, y.shape) == x.shape
    except RuntimeError:
        return False


def overlaps(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether y may be part of x's memory, but not all of it in the same order.

    What a write to x gives that reads y meanwhile is then not defined.
    """
    if x.untyped_storage().data_ptr() != y.untyped_storage().data_ptr():
        return False
    return (x.data_ptr(), x.shape, x.stride()) != (y.data_ptr(), y.shape, y.stride())


def is_overlapping(x: torch.Tensor) -> bool:
    """Whether two elements of x are one place in memory."""
    places = {x.storage_offset()}
    for n, step in zip(x.shape, x.stride(), strict=True):
        places = {p + i * step for p in places for i in range(n)}
    return len(places) < x.numel()


def in_range(x: torch.Tensor) -> bool:
    """Whether the numbers fit every dtype: what a conversion of others gives is not defined."""
    if x.dtype == torch.bool or x.numel() == 0:
        return True
    return bool((x.detach().abs() < 100).all()) and (x.is_complex() or bool((x >= 0).all()))
