"""NaN blame in models as people write them, and with optimisers that have a step of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
import livegrad.nn.functional as F
from livegrad import events
from livegrad.debug.blaming import Latest
from livegrad.graph.watch import BLAMING
from tests.debug.faults import marked_line

INF = float("inf")
WRONG = 12  # the step that goes wrong, counted from 1


@pytest.fixture(autouse=True)
def blaming() -> Iterator[None]:
    BLAMING.enabled, BLAMING.reads, Latest.blame = True, False, None
    yield
    BLAMING.enabled = BLAMING.reads = False


def blamed(model: Any, loss_of: Callable[[Any, float], Any], **options: Any) -> Any:
    """Trains until a step has gone wrong, for which `bad` is 1; what was found."""
    after = options.pop("after", lambda: None)
    make = options.pop("optimizer", lg.optim.SGD)
    steps = make(model.parameters(), **{"lr": 1e-3, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(1, WRONG + 1):
            assert Latest.blame is None, (i, Latest.blame)
            steps.zero_grad()
            loss_of(model, float(i == WRONG)).backward()
            after()
            steps.step()
    assert lg.blame() is not None
    assert lg.blame().step == WRONG
    return lg.blame()


class Attention(nn.Module):
    """One head of attention, whose mask may leave nothing to some."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Any, bad: float) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = lg.arange(x.shape[1])[:, None] >= lg.arange(x.shape[1])[None] + bad
        scores = (q @ k.transpose(-2, -1)).masked_fill(~seen, -INF)
        return scores.softmax(-1) @ v  # here


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.out = nn.LayerNorm(8), Attention(), nn.Linear(8, 8)

    def forward(self, x: Any, bad: float) -> Any:
        return x + self.out(self.attention(self.norm(x), bad)).relu()


class Language(nn.Module):
    """A small GPT: the fault is in the middle block."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Any, bad: float) -> Any:
        x = self.words(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, bad if i == 1 else 0.0)
        return self.head(x)


def test_a_mask_in_a_block_of_a_gpt() -> None:
    tokens = lg.arange(14).reshape(2, 7) % 11

    def loss(model: Any, bad: float) -> Any:
        return F.cross_entropy(model(tokens, bad).flatten(0, 1), tokens.flatten())

    found = blamed(Language(), loss, optimizer=lg.optim.AdamW)
    assert (found.op, found.how) == ("softmax", "forward"), found
    assert found.line == marked_line(Attention.forward)
    assert found.module == "blocks.1.attention (Attention)"
    assert [link.op for link in found.chain][-1] == "cross_entropy"


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x: Any, bad: float) -> Any:
        y, _ = self.lstm(x / (1 - bad))  # here
        return self.head(y[:, -1])


def test_behind_an_lstm() -> None:
    """Whose gates make plain numbers of infinities, and NaN of what they are multiplied by."""
    x = lg.randn(3, 5, 4)
    found = blamed(Recurrent(), lambda m, bad: m(x, bad).square().mean())
    assert (found.op, found.line) == ("div", marked_line(Recurrent.forward)), found


def test_the_gradient_behind_an_lstm() -> None:
    x = lg.randn(3, 5, 4)

    def loss(model: Any, bad: float) -> Any:
        y, _ = model.lstm(x)
        return (y.abs() * (1 - bad)).sqrt().mean()  # here

    found = blamed(Recurrent(), loss)
    assert (found.op, found.how) == ("sqrt", "backward"), found
    assert found.line == marked_line(loss)


def test_a_batch_norm_of_channels_that_do_not_vary() -> None:
    """Without `eps`, they are divided by a deviation of zero."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, eps=0.0).eval(), nn.Linear(3, 1))
    x = lg.randn(6, 4)

    def loss(model: Any, bad: float) -> Any:
        model[1].running_var.mul_(1 - bad)
        return model(x).square().mean()  # here

    found = blamed(model, loss)
    assert (found.op, found.line) == ("norm_with_statistics", marked_line(loss)), found
    assert found.inputs[2].high == 0.0


def test_under_autocast() -> None:
    """A product that float32 holds, and float16 does not."""
    model = nn.Linear(16, 16)
    x = lg.ones(4, 16)

    def loss(model: Any, bad: float) -> Any:
        with lg.autocast("cpu", dtype=lg.float16):
            y = model(x)
            z = y @ (y.T * (1 + 1e5 * bad))  # here
        return z.float().mean()

    found = blamed(model, loss)
    assert found.line == marked_line(loss), found
    assert "float16" in str(found.result)


class Twice(nn.Module):
    """The same part for two inputs, of which one is to blame."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(4, 4), nn.Softplus())

    def forward(self, x: Any, bad: float) -> Any:
        first = self.part(x)
        second = self.part(x * (1 - bad) - 1000 * bad)
        return first.log().sum() + second.log().sum()  # here


def test_a_module_that_is_called_twice() -> None:
    model = Twice()
    with lg.no_grad():
        model.part[0].weight.copy_(lg.eye(4))
    found = blamed(model, lambda m, bad: m(lg.ones(2, 4), bad))
    assert (found.op, found.line) == ("log", marked_line(Twice.forward)), found
    assert found.inputs[0].low == 0.0


class Scaled(lg.autograd.Function):
    """Is right forward, and divides by nothing backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (scale,) = ctx.saved_tensors
        return g * (scale / scale), None  # here


def test_in_the_backward_of_a_function() -> None:
    x = lg.randn(3, 4)

    def loss(model: Any, bad: float) -> Any:
        return Scaled.apply(model(x), lg.tensor(1.0 - bad)).sum()

    found = blamed(nn.Linear(4, 4), loss)
    assert (found.op, found.line) == ("div", marked_line(Scaled.backward)), found


def test_an_exploding_gradient() -> None:
    """Through time: each step of a recurrence multiplies it."""

    class Grows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(lg.eye(3))

        def forward(self, x: Any, bad: float) -> Any:
            for _ in range(12):
                x = (x @ self.w) * (1 + 9999 * bad)  # here
            return (x * 1e-30).sum()

    found = blamed(Grows(), lambda m, bad: m(lg.ones(2, 3), bad))
    assert found.line == marked_line(Grows.forward), found
    assert found.op in ("mul", "matmul")


def test_nan_in_the_targets() -> None:
    def target() -> Any:
        return lg.tensor([[0.0, float("nan")]])  # here

    wrong = target()
    x, right = lg.ones(1, 3), lg.zeros(1, 2)
    found = blamed(nn.Linear(3, 2), lambda m, bad: F.mse_loss(m(x), wrong if bad else right))
    assert (found.how, found.line) == ("data", marked_line(target)), found


# ----------------------------------------------------------------------- what optimisers do


class Own(lg.optim.Optimizer):
    """As people write them: a step of its own, in place."""

    def __init__(self, params: Any, lr: float = 1e-3, wrong: int = 0) -> None:
        super().__init__(params, {"lr": lr})
        self.wrong, self.count = wrong, 0

    @lg.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with lg.enable_grad():
                loss = closure()
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                step = p.grad / (0.0 if self.count == self.wrong else 1.0)  # here
                p.add_(step, alpha=-group["lr"])
        return loss


def root(x: Any) -> Callable[[Any, float], Any]:
    def loss(model: Any, bad: float) -> Any:
        return (model(x).square() * (1 - bad)).sqrt().mean()  # here

    return loss


ROOT = marked_line(root)


@pytest.mark.parametrize("width", [4, 200])
def test_a_step_of_its_own(width: int) -> None:
    found = blamed(nn.Linear(width, width), root(lg.randn(3, width)), optimizer=Own)
    assert (found.op, found.how, found.line) == ("sqrt", "backward", ROOT), found
    assert "Own" in str(found)
    assert found.parameters == ("weight", "bias")


@pytest.mark.parametrize("optimizer", [Own, lg.optim.LBFGS])
def test_a_step_with_a_closure(optimizer: Any) -> None:
    model, loss_of = nn.Linear(4, 4), root(lg.randn(3, 4))
    steps = optimizer(model.parameters(), lr=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(1, 5):

            def closure(bad: float = float(i == 4)) -> Any:
                steps.zero_grad()
                loss = loss_of(model, bad)
                loss.backward()
                return loss

            steps.step(closure)
    found = lg.blame()
    assert (found.op, found.how, found.line) == ("sqrt", "backward", ROOT), found
    assert found.step == 4
    assert len([w for w in caught if "not finite" in str(w.message)]) == 1


def test_an_update_of_its_own_that_makes_nan() -> None:
    x = lg.randn(3, 4)
    model = nn.Linear(4, 4)
    steps = Own(model.parameters(), wrong=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(7):
            steps.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            steps.step()
            loss.item()
    found = lg.blame()
    assert (found.op, found.line, found.step) == ("div", marked_line(Own), 6), found


@pytest.mark.parametrize("width", [4, 200])
@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_gradients_that_are_clipped(clip: Any, width: int) -> None:
    model = nn.Linear(width, width)
    clipped = lambda: clip(model.parameters(), 1.0)
    found = blamed(model, root(lg.randn(3, width)), after=clipped, optimizer=lg.optim.Adam)
    assert (found.op, found.how, found.line) == ("sqrt", "backward", ROOT), found


def test_of_clipped_gradients_the_norm_is_looked_at() -> None:
    """It is finite only if they are, and it is one number."""
    model = nn.Linear(8, 8)
    steps = lg.optim.SGD(model.parameters(), lr=0.1)
    asked = []
    for _ in range(2):
        steps.zero_grad()
        model(lg.ones(2, 8)).sum().backward()
        with events.listen("recorded", lambda e: asked.append(e)):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
    questions = [e for e in asked if e.op == "finite"]
    assert questions
    assert {shape for e in questions for shape in e.input_shapes} == {()}


@pytest.mark.parametrize("norm_type", [0.0, 1.0, 2.0, INF])
def test_all_kinds_of_norms_tell(norm_type: float) -> None:
    model = nn.Linear(4, 4)
    clipped = lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type)
    found = blamed(model, root(lg.randn(3, 4)), after=clipped)
    assert (found.op, found.how, found.line) == ("sqrt", "backward", ROOT), found


def test_a_step_that_overwrites_much() -> None:
    """An average of the weights, which is written where it lies."""
    model = nn.Linear(200, 200)
    average = model.weight.detach().clone()
    average.sum().item()

    def follow() -> None:
        average.mul_(0.9).add_(model.weight.detach(), alpha=0.1)

    found = blamed(model, root(lg.randn(3, 200)), after=follow)
    assert (found.op, found.how, found.line) == ("sqrt", "backward", ROOT), found
