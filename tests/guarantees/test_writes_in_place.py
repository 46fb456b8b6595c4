"""In-place writes cost what they write, and nobody sees them who should not."""

from __future__ import annotations

import random

import numpy as np
import pytest

import livegrad as lg

# ------------------------------------------------------------------------------ what is seen


class Walk:
    """A random program over a few tensors, beside it the same with copies of NumPy arrays.

    Tensors are held by names; `views` are pairs of a view and the name and key that it shows.
    """

    SHAPES = ((6,), (3, 4), (2, 3, 2))

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tensors: list[lg.Tensor] = []
        self.arrays: list[np.ndarray] = []
        self.views: list[tuple[lg.Tensor, np.ndarray]] = []
        self.frozen: list[tuple[lg.Tensor, np.ndarray]] = []
        for shape in (*self.SHAPES, (6,)):
            self.add(np.array([self.number() for _ in range(int(np.prod(shape)))]).reshape(shape))

    def number(self) -> float:
        return float(self.rng.randrange(-8, 9))

    def add(self, array: np.ndarray) -> None:
        self.tensors.append(lg.tensor(array.tolist(), dtype=lg.float64))
        self.arrays.append(array.astype(np.float64))

    def pick(self) -> int:
        return self.rng.randrange(len(self.tensors))

    def key(self, shape: tuple[int, ...]):
        """Ints and slices, of the leading dims or all."""
        key = []
        for size in shape[: self.rng.randrange(1, len(shape) + 1)]:
            if self.rng.random() < 0.5:
                key.append(self.rng.randrange(-size, size))
            else:
                low = self.rng.randrange(size)
                high = self.rng.randrange(low, size) + 1
                key.append(slice(low, high, self.rng.choice((None, 1, 2))))
        return key[0] if len(key) == 1 else tuple(key)

    def value(self, shape: tuple[int, ...], what: int):
        """Something for a part of tensor `what`: a number, or computed from tensors."""
        kind = self.rng.randrange(4)
        if kind == 0:
            number = self.number()
            return number, number
        if kind == 1:
            array = np.array([self.number() for _ in range(int(np.prod(shape)))]).reshape(shape)
            return lg.tensor(array.tolist(), dtype=lg.float64), array
        if kind == 2:
            other = self.pick()
            return self.tensors[other].sum() + 1, self.arrays[other].sum() + 1
        return self.part_like(shape, what)

    def part_like(self, shape: tuple[int, ...], what: int):
        """What is computed from a part, of the same shape, of what is written."""
        x, n = self.tensors[what].reshape(-1), self.arrays[what].reshape(-1)
        count = int(np.prod(shape))
        start = self.rng.randrange(len(n) - count + 1)
        twice = self.rng.random() < 0.5
        part, like = (
            x[start : start + count].reshape(shape),
            n[start : start + count].reshape(shape),
        )
        return (part * 2, like * 2) if twice else (part.clone(), like.copy())

    # ------------------------------------------------------------------------------ steps

    def write(self) -> None:
        what = self.pick()
        array = self.arrays[what]
        key = self.key(array.shape)
        value, like = self.value(array[key].shape, what)
        self.tensors[what][key] = value
        array[key] = like

    def add_to_part(self) -> None:
        what = self.pick()
        key, number = self.key(self.arrays[what].shape), self.number()
        self.tensors[what][key] += number
        self.arrays[what][key] += number

    def write_by_index(self) -> None:
        what = self.pick()
        array = self.arrays[what]
        places = [self.rng.randrange(len(array)) for _ in range(self.rng.randrange(1, 4))]
        index = lg.tensor(places) if self.rng.random() < 0.5 else lg.tensor(places) + 0
        kind, number = self.rng.randrange(5), self.number()
        x = self.tensors[what]
        rows = np.full((len(places), *array.shape[1:]), number)
        given = lg.tensor(rows.tolist(), dtype=lg.float64)
        if kind == 0:
            x[index] = number
            array[places] = number
        elif kind == 1:
            x.index_add_(0, index, given)
            np.add.at(array, places, rows)
        elif kind == 2:
            x.index_copy_(0, index, given)
            array[places] = rows
        elif kind == 3:
            x.index_fill_(0, index, number)
            array[places] = number
        else:
            wide = index.reshape(-1, *[1] * (array.ndim - 1)).expand(rows.shape)
            x.scatter_(0, wide, given)
            array[places] = rows

    def write_by_mask(self) -> None:
        what, number = self.pick(), self.number()
        x, array = self.tensors[what], self.arrays[what]
        if self.rng.random() < 0.5:
            x[x > number] = number
        else:
            x.masked_fill_(x > number, number)
        array[array > number] = number

    def write_all(self) -> None:
        what, number = self.pick(), self.number()
        self.tensors[what].add_(number)
        self.arrays[what] += number

    def look(self) -> None:
        what = self.pick()
        key = self.key(self.arrays[what].shape)
        seen = self.tensors[what][key].detach()
        seen = seen.numpy() if self.rng.random() < 0.2 else seen.tolist()
        np.testing.assert_array_equal(seen, self.arrays[what][key])

    def hold_view(self) -> None:
        what = self.pick()
        key = self.key(self.arrays[what].shape)
        whole = (*key, ...) if isinstance(key, tuple) else (key, ...)  # never a scalar
        self.views.append((self.tensors[what][key], self.arrays[what][whole]))

    def write_to_view(self) -> None:
        views = [v for v in self.views if v[1].ndim]
        if views:
            view, array = self.rng.choice(views)
            number = self.number()
            if self.rng.random() < 0.5:
                view[0] = number
                array[0] = number
            else:
                view.mul_(number)
                array *= number

    def freeze(self) -> None:
        """Holds a value that later writes must not change."""
        what = self.pick()
        x, array = self.tensors[what], self.arrays[what]
        make = self.rng.choice(
            (
                lambda t: t.clone(),
                lambda t: t + 0,
                lambda t: t.detach().clone(),
                lambda t: t * 2 / 2,
            )
        )
        self.frozen.append((make(x), array.copy()))

    def detach(self) -> None:
        what = self.pick()
        self.views.append((self.tensors[what].detach(), self.arrays[what]))

    def export(self) -> None:
        what = self.pick()
        copied = self.tensors[what].detach().clone().numpy()
        self.frozen.append((lg.tensor(copied), self.arrays[what].copy()))

    def forget(self) -> None:
        for held in (self.views, self.frozen):
            if held:
                del held[self.rng.randrange(len(held))]

    def raise_caught(self) -> None:
        """An error whose traceback refers to what is there now."""
        what = self.pick()
        try:
            self.tensors[what][99] = 1
        except IndexError as error:
            self.frozen.append((self.tensors[what] + 0, self.arrays[what].copy()))
            self.frozen[-1][0].error = error

    STEPS = (
        write, write, write, add_to_part, add_to_part, write_by_index, write_by_mask, write_all,
        look, look, hold_view, write_to_view, freeze, detach, export, forget, raise_caught,
    )  # fmt: skip

    def check(self) -> None:
        for x, array in [*self.frozen, *zip(self.tensors, self.arrays, strict=True)]:
            np.testing.assert_array_equal(x.tolist(), array)
        for view, array in self.views:
            np.testing.assert_array_equal(view.tolist(), array)

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.rng.choice(self.STEPS)(self)
            if number % 25 == 24:
                self.check()
        self.check()


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_see_what_copies_would_show(seed: int) -> None:
    for _ in range(3):  # the plans of the first are followed natively by the others
        Walk(seed).run(60)
