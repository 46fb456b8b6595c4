"""Looking at a value, wherever and however, changes no bit and adds no compile to later steps."""

from __future__ import annotations

import io

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim

READS = {
    "print": lambda x: print(x, file=io.StringIO()),
    "repr": repr,
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x.detach().reshape(-1)[0].item(),
    "sum": lambda x: x.sum().item(),
    "bool": lambda x: bool((x > 0).any()),
    "branch": lambda x: "big" if x.max() > 1 else "small",
    "numpy": lambda x: x.detach().numpy(),
    "array": lambda x: np.asarray(x.detach()),
    "format": lambda x: f"{x.mean():.3f}",
    "iterate": lambda x: [float(v) for v in x.reshape(-1)[:3]],
    "shape": lambda x: (x.shape, x.dtype, x.requires_grad, x.grad_fn, len(x) if x.ndim else 0),
}


class Program:
    """A training program whose intermediate values are shown to `look(place, value)`."""

    PLACES = 16

    def __init__(self, dtype):
        rng = np.random.default_rng(7)

        def leaf(*shape, grad=True):
            return lg.tensor(rng.normal(size=shape) * 0.3, dtype=dtype, requires_grad=grad)

        self.x = leaf(6, 5, 8, grad=False)
        self.t = lg.tensor(rng.integers(0, 7, 30))
        self.scale, self.shift = leaf(8), leaf(8)
        self.up, self.bias, self.down = leaf(8, 12), leaf(12), leaf(12, 8)
        self.head = leaf(8, 7)
        self.parameters = [
            self.scale, self.shift, self.up, self.bias, self.down, self.head,
        ]  # fmt: skip
        self.optimizer = optim.Adam(self.parameters, lr=0.05)

    def step(self, look):
        """One training step; the loss."""
        place = iter(range(100))

        def at(x):
            look(next(place), x)
            return x

        lg.manual_seed(3)
        self.optimizer.zero_grad()
        x = at(self.x * 2)
        n = at(F.layer_norm(x, (8,), self.scale, self.shift))
        scores = at(n @ n.transpose(1, 2))
        weights = at(F.softmax(at(scores / 8**0.5), -1))
        y = at(x + at(weights @ n))
        h = at(F.gelu(at(y @ self.up + self.bias)))
        h = at(F.dropout(h, 0.25, True))
        y = at(y + h @ self.down)
        y[:, 0] += 1
        at(y)
        logits = at((y[..., :].flip(1) @ self.head).reshape(30, 7))
        loss = at(F.cross_entropy(logits, self.t))
        if lg.stats() is None:  # never: Python decides, livegrad follows
            loss = loss * 2
        loss.backward()
        at(self.up.grad)
        self.optimizer.step()
        at(self.up)
        return loss

    def bits(self):
        """All results, bit for bit."""
        state = [v for s in self.optimizer.state.values() for v in s.values()]
        tensors = [*self.parameters, *[p.grad for p in self.parameters], *state]
        return [x.detach().numpy().tobytes() for x in tensors if isinstance(x, lg.Tensor)]


def nothing(place, x):
    pass


def reads(kind, wanted):
    def look(place, x):
        if wanted is None or place == wanted:
            READS[kind](x)

    return look


@pytest.fixture(scope="module", params=["float32", "float64"])
def undisturbed(request):
    dtype = getattr(lg, request.param)
    program = Program(dtype)
    losses = [program.step(nothing).item() for _ in range(3)]
    return dtype, losses, program.bits()


def test_places_are_counted():
    places = []
    Program(lg.float32).step(lambda place, x: places.append(place))
    assert places == list(range(Program.PLACES))


@pytest.mark.parametrize("kind", READS)
def test_reading_everywhere(undisturbed, kind):
    dtype, losses, bits = undisturbed
    program = Program(dtype)
    assert [program.step(reads(kind, None)).item() for _ in range(3)] == losses
    assert program.bits() == bits


@pytest.mark.parametrize("place", range(Program.PLACES))
def test_reading_at_one_place(undisturbed, place):
    dtype, losses, bits = undisturbed
    for kind in ("print", "item", "bool"):
        program = Program(dtype)
        assert [program.step(reads(kind, place)).item() for _ in range(3)] == losses
        assert program.bits() == bits


def test_reading_once_in_the_middle_of_training(undisturbed):
    dtype, losses, bits = undisturbed
    program = Program(dtype)
    looks = [nothing, reads("print", 6), nothing]
    assert [program.step(look).item() for look in looks] == losses
    assert program.bits() == bits


@pytest.mark.parametrize("kind", READS)
@pytest.mark.usefixtures("whole_plans")
def test_reading_compiles_nothing_in_later_steps(counted, kind):
    program = Program(lg.float32)
    look = reads(kind, None)
    for _ in range(2):
        program.step(nothing)
        program.step(look)
    with counted() as c:
        for _ in range(3):
            program.step(nothing)
            program.step(look)
    assert (c.compiles, c.kernels_made, c.plan_misses) == (0, 0, 0)


def test_reading_at_a_moving_place_compiles_nothing_new(counted):
    program = Program(lg.float32)
    for _ in range(2):
        for place in range(Program.PLACES):
            program.step(reads("print", place))
    with counted() as c:
        for place in range(Program.PLACES):
            program.step(reads("print", place))
    assert (c.compiles, c.kernels_made, c.plan_misses) == (0, 0, 0)


def test_what_was_read_once_is_not_computed_again(counted):
    x = lg.ones(3) + 1
    assert x.tolist() == [2.0] * 3
    with counted() as c:
        repr(x), x.tolist(), x.numpy(), x[0].shape
    assert (c.flushes, c.kernels_run) == (0, 0)
