"""Random writes through views, some of which fail: everything is as if those had not been there."""

from __future__ import annotations

import random

import numpy as np
import pytest

import livegrad as lg

VIEWS = (
    lambda x: x,
    lambda x: x[1],
    lambda x: x[:, 1:3],
    lambda x: x.T,
    lambda x: x.detach() if isinstance(x, lg.Tensor) else x,
)
FAILURES = (IndexError, RuntimeError)


def unknown(values):
    """Integers that are not computed yet."""
    return lg.tensor(values) + 0


class Program:
    """Tensors with their views, and arrays that are written as long as no write has failed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        arrays = [np.arange(12).reshape(3, 4) + 10 * i for i in range(self.random.randint(1, 4))]
        self.arrays = arrays
        self.tensors = [[] for _ in arrays]
        for views, array in zip(self.tensors, arrays, strict=True):
            base = lg.tensor(array)
            views += [view(base) for view in VIEWS]
        self.failed = [False] * len(arrays)
        self.others = []

    def step(self):
        which, how = self.random.randrange(len(self.arrays)), self.random.randrange(len(VIEWS))
        x = self.tensors[which][how]
        part = VIEWS[how](self.arrays[which] if not self.failed[which] else np.zeros((3, 4), int))
        fails = self.random.random() < 0.2
        kind = self.random.choice(["put", "divide", "add", "read", "flush"])
        if kind == "put":
            place, value = self.random.randrange(len(part)), self.random.randrange(100)
            x[unknown([len(part) + 2 if fails else place])] = value
            self.failed[which] |= fails
            if not fails:
                part[place] = value
        elif kind == "divide":
            by = np.full(part.shape, 2)
            by.flat[self.random.randrange(by.size)] = 0 if fails else 2
            x //= unknown(by.tolist())
            self.failed[which] |= fails
            if not fails:
                part //= 2
        elif kind == "add":
            x += 3
            part += 3
        elif kind == "read" and not self.failed[which]:
            self.others.append((x * 2, part * 2))
        elif kind == "flush" and self.random.random() < 0.3:
            self.flush()

    def flush(self):
        """Raises once if something failed, and not again."""
        if any(self.failed):
            with pytest.raises(FAILURES):
                (lg.ones(2) + 1).tolist()
        self.failed = [False] * len(self.failed)
        (lg.ones(2) + 1).tolist()


@pytest.mark.parametrize("seed", range(60))
def test_writes_that_fail_were_never_there(seed):
    program = Program(seed)
    for _ in range(program.random.randint(3, 14)):
        program.step()
    program.flush()
    for views, array in zip(program.tensors, program.arrays, strict=True):
        for x, view in zip(views, VIEWS, strict=True):
            np.testing.assert_array_equal(x.tolist(), view(array))
    for got, want in program.others:
        np.testing.assert_array_equal(got.tolist(), want)
