"""Each rule of the training lint: programs that have the mistake, and those that only look so."""

from __future__ import annotations

import copy
import linecache
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import lint, nn, optim
from livegrad.graph.events import BACKWARD, READ, STEP
from livegrad.graph.watch import Watch
from livegrad.lint.hearing import hears
from livegrad.optim.swa_utils import update_bn
from livegrad.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    lint.reset()
    yield
    lint.reset()


def warned(run: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """The TrainingWarnings of a program."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w for w in caught if issubclass(w.category, lint.TrainingWarning)]


def only(rule: str, run: Callable[[], Any], line: str = "") -> warnings.WarningMessage:
    """The one warning of a program, which must be of `rule` and at a line that contains `line`."""
    found = warned(run)
    assert [str(w.message).rpartition(": ")[2] for w in found] == [f"{rule})"]
    assert found[0].filename == __file__
    text = linecache.getline(__file__, found[0].lineno)
    assert line in text, text
    return found[0]


def data(rows: int = 8) -> tuple[Any, Any]:
    lg.manual_seed(0)
    return lg.randn(rows, 4), lg.randint(0, 3, (rows,))


class Net(nn.Module):
    def __init__(self, dropout: float = 0.5) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        return self.second(self.drop(F.relu(self.norm(self.first(x)))))


def train(net: nn.Module, steps: int = 3, optimizer: Any = None) -> Any:
    x, y = data()
    optimizer = optimizer or optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return optimizer


# ----------------------------------------------------------------------------------- broadcast


def test_losses_of_other_sizes() -> None:
    x, y = lg.randn(5, 1, requires_grad=True), lg.randn(5)
    only("broadcast", lambda: F.mse_loss(x, y), "F.mse_loss(x, y)")
    only("broadcast", lambda: nn.L1Loss()(x, y), "nn.L1Loss")
    assert not warned(lambda: F.mse_loss(x, y.unsqueeze(1)))


def by_hand(target: Any, difference: Callable[[Any, Any], Any]) -> None:
    net = nn.Linear(4, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    x, _ = data()
    for _ in range(3):
        optimizer.zero_grad()
        loss = difference(net(x), target)
        loss.backward()
        optimizer.step()


def test_losses_written_by_hand() -> None:
    target = lg.randn(8)
    only("broadcast", lambda: by_hand(target, lambda p, t: ((p - t) ** 2).mean()), "p - t")
    lint.reset()
    only("broadcast", lambda: by_hand(target, lambda p, t: (t - p).abs().sum()), "t - p")
    lint.reset()
    assert not warned(lambda: by_hand(target, lambda p, t: ((p.squeeze(1) - t) ** 2).mean()))
    # All pairs of predictions are meant; so are features of a difference to fixed centres.
    assert not warned(lambda: by_hand(target, lambda p, t: (p - p.squeeze(1)).square().mean()))
    layer = nn.Linear(8, 1)
    bumps = lambda p, t: layer((p - t).square().neg().exp()).mean()
    assert not warned(lambda: by_hand(target, bumps))


# ------------------------------------------------------------------------------------- softmax


@pytest.mark.parametrize(
    ("loss", "mistake"),
    [
        (lambda x, y: F.cross_entropy(x.softmax(1), y), True),
        (lambda x, y: nn.CrossEntropyLoss()(nn.Softmax(dim=-1)(x).reshape(-1, 3), y), True),
        (lambda x, y: F.nll_loss(F.softmax(x, 1), y), True),
        (lambda x, y: F.binary_cross_entropy_with_logits(x[:, 0].sigmoid(), y.float() / 2), True),
        (lambda x, y: F.cross_entropy(x, y), False),
        (lambda x, y: F.nll_loss(x.log_softmax(1), y), False),
        (lambda x, y: F.cross_entropy(x, x.detach().softmax(1)), False),
        (lambda x, y: F.cross_entropy(x.softmax(1) @ lg.eye(3), y), False),
        (lambda x, y: F.binary_cross_entropy(x[:, 0].sigmoid(), y.float() / 2), False),
    ],
)
def test_probabilities_given_to_a_loss_of_logits(loss: Any, mistake: bool) -> None:
    net = nn.Linear(4, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    x, y = data()

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            loss(net(x), y).backward()
            optimizer.step()

    if mistake:
        only("softmax", run, "lambda x, y")
    else:
        assert not warned(run)


def test_softmax_that_was_computed_already_is_seen() -> None:
    net = nn.Linear(4, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    x, y = data()

    def run() -> None:
        shares = net(x).softmax(1)
        assert str(shares)
        with lg.autocast("cpu"):
            F.cross_entropy(shares, y).backward()
        optimizer.step()

    only("softmax", run, "F.cross_entropy(shares")


# --------------------------------------------------------------------------------- no-gradient


def test_parameters_without_a_gradient() -> None:
    class Forgetful(Net):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(2, 5)

    found = only("no-gradient", lambda: train(Forgetful(), 15), "optimizer.step()")
    assert "unused.weight [5, 2], unused.bias [5]" in str(found.message)


def test_layers_used_now_and_then_and_frozen_ones() -> None:
    class Sometimes(Net):
        calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return super().forward(x) + (self.extra(x) if self.calls % 6 == 0 else 0)

    net = Sometimes()
    net.extra = nn.Linear(4, 3)
    assert not warned(lambda: train(net, 30))
    frozen = Net()
    frozen.first.requires_grad_(False)
    assert not warned(lambda: train(frozen, 15))


def test_an_optimiser_whose_turn_it_is_not() -> None:
    first, second = nn.Linear(4, 3), nn.Linear(4, 3)
    optimizers = [optim.SGD(net.parameters(), lr=0.1) for net in (first, second)]
    x, y = data()

    def run() -> None:
        for step in range(30):
            for optimizer in optimizers:
                optimizer.zero_grad()
            F.cross_entropy((first, second)[step // 15](x), y).backward()
            for optimizer in optimizers:
                optimizer.step()

    assert not warned(run)


# ----------------------------------------------------------------------------------- zero-grad


def accumulate(clear: Callable[[Any, Any], Any], steps: int = 4, each: int = 1) -> None:
    net = nn.Linear(4, 3)
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    x, y = data()
    for _ in range(steps):
        for _ in range(each):
            F.cross_entropy(net(x), y).backward()
        optimizer.step()
        clear(net, optimizer)


def test_two_steps_without_zero_grad() -> None:
    only("zero-grad", lambda: accumulate(lambda net, optimizer: None), "optimizer.step()")


def _zero_by_hand(net: Any, optimizer: Any) -> None:
    for p in net.parameters():
        p.grad.zero_()


@pytest.mark.parametrize(
    "clear",
    [
        lambda net, optimizer: optimizer.zero_grad(),
        lambda net, optimizer: optimizer.zero_grad(set_to_none=False),
        lambda net, optimizer: net.zero_grad(),
        lambda net, optimizer: [setattr(p, "grad", None) for p in net.parameters()],
        _zero_by_hand,
        lambda net, optimizer: [p.grad.data.zero_() for p in net.parameters()],
    ],
)
def test_all_ways_to_make_gradients_zero(clear: Any) -> None:
    assert not warned(lambda: accumulate(clear, each=2))


def test_gradients_that_are_added_to_and_then_dropped() -> None:
    """A discriminator collects gradients in the generator's step, and drops them before its own."""
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    first, second = (optim.SGD(net.parameters(), lr=0.01) for net in (maker, judge))
    x, _ = data()

    def run() -> None:
        for _ in range(5):
            second.zero_grad()
            (judge(maker(x).detach()).mean() - judge(x).mean()).backward()
            nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
            second.step()
            first.zero_grad()
            judge(maker(x)).mean().neg().backward()
            first.step()

    assert not warned(run)


# ------------------------------------------------------------------------------------ replaced


def test_an_optimiser_made_too_early() -> None:
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net.second = nn.Linear(6, 3)
    found = only("replaced", lambda: train(net, 15, optimizer), "optimizer.step()")
    assert "second.weight [3, 6]" in str(found.message)


def test_all_parameters_replaced() -> None:
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net = copy.deepcopy(net)
    only("replaced", lambda: train(net, 15, optimizer), "optimizer.step()")


def test_replacing_before_and_adding_after() -> None:
    net = Net()
    net.second = nn.Linear(6, 3)
    assert not warned(lambda: train(net))
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    net.to(lg.float64).to(lg.float32)
    assert not warned(lambda: train(net, 15, optimizer))
    # Only a part is trained, and the rest is not frozen.
    net = Net()
    assert not warned(lambda: train(net, 15, optim.SGD(net.second.parameters(), lr=0.1)))


# ----------------------------------------------------------------------------- overflow, losses


def test_a_learning_rate_that_is_too_large() -> None:
    net = nn.Linear(4, 3)
    optimizer = optim.SGD(net.parameters(), lr=1e38)
    x, _ = data()

    def run() -> None:
        for _ in range(4):
            optimizer.zero_grad()
            loss = (net(x) * 1e4).square().mean()
            loss.backward()
            optimizer.step()

    found = only("overflow", run, "optimizer.step()")
    assert "learning rate 1e+38" in str(found.message)


def test_a_gradient_that_is_not_finite() -> None:
    p = nn.Parameter(lg.zeros(3))
    optimizer = optim.SGD([p], lr=0.1)

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            p.sqrt().sum().backward()
            optimizer.step()

    assert "its gradient is infinite or NaN" in str(only("overflow", run).message)


def test_large_but_finite_and_infinite_from_the_start() -> None:
    assert not warned(lambda: train(Net(), 5, None))
    p = nn.Parameter(lg.tensor([1.0, float("-inf")]))
    optimizer = optim.SGD([p], lr=1e-3)

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            p.exp().sum().backward()
            optimizer.step()

    assert not warned(run)


def test_a_loss_that_is_not_a_number() -> None:
    p = nn.Parameter(lg.ones(3))
    optimizer = optim.SGD([p], lr=0.0)

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            loss = (p * 0).log().sum()
            (loss / 2).backward()
            print(loss.item())

    only("loss", run, "loss.item()")


def test_numbers_that_are_no_losses_may_be_anything() -> None:
    p = nn.Parameter(lg.ones(3))
    optimizer = optim.SGD([p], lr=0.1)

    def run() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            p.sum().backward()
            optimizer.step()
            (p * float("inf")).sum().item()
            float(lg.tensor(float("nan")))

    assert not warned(run)


# ------------------------------------------------------------------------------- train and eval


def test_eval_forgotten() -> None:
    net = Net()
    x, y = data()

    def run() -> None:
        train(net)
        with lg.no_grad():
            guess = net(x).argmax(1)
            assert (guess == y).sum().item() >= 0

    only("eval-forgotten", run, "guess = net(x)")


def test_eval_forgotten_in_a_loop_of_batches() -> None:
    net = Net()
    x, _ = data()

    def run() -> None:
        train(net)
        for _ in range(3):
            with lg.no_grad():
                net(x)

    only("eval-forgotten", run, "net(x)")
    assert not net._hooked


def test_eval_remembered_and_other_uses_of_no_grad() -> None:
    net = Net()
    x, y = data()

    def run() -> None:
        with lg.no_grad():
            net(x).sum().item()  # nothing has been trained yet
        optimizer = train(net)
        net.eval()
        with lg.no_grad():
            for _ in range(3):
                (net(x).argmax(1) == y).sum().item()
        net.drop.train()  # on purpose
        with lg.no_grad():
            for _ in range(3):
                net(x).sum().item()
        net.train()
        update_bn([x, x, x], net)
        average = copy.deepcopy(net)
        with lg.no_grad():  # not what is trained
            for _ in range(3):
                average(x).sum().item()
        for _ in range(3):  # targets for the next step
            with lg.no_grad():
                target = net(x).softmax(1)
            optimizer.zero_grad()
            F.cross_entropy(net(x), target).backward()
            optimizer.step()
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(checkpoint(net, x), y)
            loss.backward()
            optimizer.step()
            loss.item()

    assert not warned(run)


def test_train_forgotten() -> None:
    net = Net()
    x, _ = data()

    def run() -> None:
        optimizer = train(net)
        net.eval()
        with lg.no_grad():
            net(x).sum().item()
        train(net, 3, optimizer)

    only("train-forgotten", run, "F.cross_entropy(net(x), y)")


def test_eval_mode_with_gradients_that_is_no_training() -> None:
    net = Net()
    x, y = data()

    def run() -> None:
        optimizer = train(net)
        for _ in range(3):
            net.eval()
            F.cross_entropy(net(x), y).item()
            net.train()
            train(net, 2, optimizer)
        net.norm.eval()  # one layer keeps its statistics
        train(net, 5, optimizer)

    assert not warned(run)


class Careless(nn.Module):
    def __init__(self, knows: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.knows = knows

    def forward(self, x: Any) -> Any:
        if self.knows:
            return F.dropout(self.layer(x), 0.5, self.training)
        return F.dropout(self.layer(x), 0.5)


def test_functional_dropout_in_eval_mode() -> None:
    x, _ = data()

    def run(knows: bool) -> None:
        net = Careless(knows)
        train(net)
        net.eval()
        with lg.no_grad():
            net(x)
            net(x)

    assert not warned(lambda: run(True))
    only("dropout-in-eval", lambda: run(False), "F.dropout(self.layer(x), 0.5)")


# ------------------------------------------------------------------------------------ settings


def test_a_warning_comes_once_per_line() -> None:
    def run() -> None:
        accumulate(lambda net, optimizer: None, 10)
        accumulate(lambda net, optimizer: None, 10)

    assert len(warned(run)) == 1


def test_switching_off_and_on() -> None:
    def run() -> None:
        accumulate(lambda net, optimizer: None)

    lint.disable("zero-grad")
    assert not lint.is_enabled("zero-grad")
    assert not warned(run)
    lint.enable("zero-grad")
    assert len(warned(run)) == 1
    lint.reset()
    lint.disable()
    assert not lint.is_enabled()
    assert not warned(run)
    assert not warned(lambda: F.mse_loss(lg.ones(3, 1), lg.ones(3)))
    lint.enable()
    assert len(warned(run)) == 1
    with pytest.raises(ValueError, match="unknown rule"):
        lint.disable("typos")


@pytest.mark.slow
def test_the_environment_switches_it_off(python) -> None:
    source = """
import livegrad as lg, sys
from livegrad import nn, optim
import livegrad.nn.functional as F
net = nn.Linear(4, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    F.cross_entropy(net(lg.ones(2, 4)), lg.tensor([0, 1])).backward()
    optimizer.step()
print("livegrad.lint.events" in sys.modules)
"""
    assert "zero-grad" in python(source).stderr
    done = python(source, LIVEGRAD_LINT="off")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_it_is_over_after_the_first_steps() -> None:
    net = nn.Linear(4, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    train(net, 49, optimizer)
    assert optimizer.watched
    assert hears(BACKWARD)
    train(net, 2, optimizer)
    assert not optimizer.watched
    assert not any(hears(kind) for kind in (BACKWARD, READ, STEP))
    assert Watch.suspect is None


def test_a_fault_of_the_lint_ends_it_and_nothing_else(monkeypatch) -> None:
    from livegrad.lint import graphs

    monkeypatch.setattr(graphs, "look", lambda roots: 1 / 0)
    net = nn.Linear(4, 3)
    with pytest.warns(UserWarning, match="failed and is off now"):
        train(net)
    assert not lint.is_enabled()


def test_names_are_found_without_touching_other_objects() -> None:
    """Among all objects of the program are some whose properties warn or raise when asked."""

    class Proxy:
        @property
        def __class__(self) -> Any:
            raise RuntimeError("asked for its class")

    proxies = [Proxy()]
    model = nn.Sequential(nn.Linear(2, 3))
    assert lint.rules.named(model[0].bias) == "0.bias [3]"
    assert len(proxies) == 1
