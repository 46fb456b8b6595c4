"""NaN blame after the fact: the operation and the line of faults that were planted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.debug.blaming import Latest
from livegrad.graph.watch import BLAMING, TrainingWarning
from livegrad.runtime.report import last_steps
from livegrad.runtime.sight import Policy
from tests.debug import faults
from tests.debug.faults import FAULTS, marked_line


@pytest.fixture(autouse=True)
def blaming() -> Iterator[None]:
    BLAMING.enabled, BLAMING.reads, Latest.blame = True, False, None
    yield
    BLAMING.enabled = BLAMING.reads = False


class Stage(nn.Module):
    """Layers, with a fault behind one of them."""

    def __init__(self, depth: int, at: int, fault: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(depth)])
        self.at, self.fault = at, fault

    def forward(self, x: Any, bad: Any) -> Any:
        for i, layer in enumerate(self.layers):
            x = layer(x).relu() + x * 0.5
            if i == self.at:
                x = self.fault(x, bad)
        return (x * x).mean()


def train(fault: Any, clean: int, seed: int, optimizer: Any = lg.optim.SGD, **options: Any) -> Any:
    """Takes clean steps and then one that goes wrong; what the program is told of it."""
    generator = lg.Generator().manual_seed(seed)
    lg.manual_seed(seed)
    depth = int(lg.randint(1, 6, (), generator=generator))
    model = Stage(depth, int(lg.randint(0, depth, (), generator=generator)), fault)
    steps = optimizer(model.parameters(), **{"lr": 1e-4, **options})
    x = lg.randn(5, 6, generator=generator)
    good, wrong = lg.tensor(0.0), lg.tensor(1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TrainingWarning)
        for i in range(clean + 3):
            steps.zero_grad()
            loss = model(x, wrong if i == clean else good)
            loss.backward()
            steps.step()
            if i < clean:
                assert Latest.blame is None, (i, Latest.blame)
    told = [str(w.message) for w in caught if "not finite" in str(w.message)]
    assert len(told) == 1, told
    return lg.blame()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("clean", [2, 150])
def test_planted_faults(name: str, clean: int) -> None:
    planted = FAULTS[name]
    found = train(planted.function, clean, seed=len(name) + clean)
    assert (found.op, found.line, found.how) == (planted.op, planted.line, planted.how), found
    assert found.file == faults.__file__
    assert found.step == clean + 1
    assert found.source in Path(found.file).read_text()


def test_after_a_thousand_clean_steps() -> None:
    for name in ("log_of_zero", "root_of_zero", "bad_mask"):
        BLAMING.enabled, Latest.blame = True, None
        planted = FAULTS[name]
        found = train(planted.function, 1000, seed=3, optimizer=lg.optim.Adam)
        assert (found.op, found.line, found.step) == (planted.op, planted.line, 1001), found


@pytest.mark.parametrize("optimizer", [lg.optim.SGD, lg.optim.Adam])
def test_in_the_first_step(optimizer: Any) -> None:
    """Which makes the optimiser's state as well: that is computed before updates are recorded."""
    planted = FAULTS["log_of_zero"]
    found = train(planted.function, 0, seed=3, optimizer=optimizer)
    assert (found.op, found.line, found.step) == (planted.op, planted.line, 1), found


def test_where_the_program_has_written_to_parameters() -> None:
    def forward(x: Any) -> Any:
        return layer(x).log()  # here

    layer = nn.Linear(3, 1)
    steps = lg.optim.Adam(layer.parameters(), lr=1e-3)
    for i in range(5):
        layer.bias.data.fill_(10.0 if i < 4 else -10.0)
        steps.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forward(lg.ones(2, 3)).sum().backward()
            steps.step()
    found = lg.blame()
    assert (found.op, found.line, found.step) == ("log", marked_line(forward), 5), found


def made_at_marked_line() -> Any:
    values = [[0.5] * 6] * 4 + [[float("nan")] * 6]
    return lg.tensor(values)  # here


def test_nan_in_data() -> None:
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=0.1)
    x, wrong = lg.ones(5, 6), made_at_marked_line()
    for i in range(40):
        steps.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(wrong if i == 39 else x).sum().backward()
            steps.step()
    found = lg.blame()
    assert (found.how, found.line) == ("data", marked_line(made_at_marked_line)), found
    assert "linear" in found.note


@pytest.mark.parametrize("name", ["in_function", "in_backward_of_function", "in_hook"])
def test_code_of_the_users(name: str) -> None:
    where = {
        "in_function": faults.Inverse,
        "in_backward_of_function": faults.Wrong,
        "in_hook": faults.in_hook,
    }[name]
    found = train(getattr(faults, name), 40, seed=5)
    assert (found.op, found.line) == ("div", marked_line(where)), found
    assert found.how == ("forward" if name == "in_function" else "backward")


def test_an_update_that_makes_nan() -> None:
    def step(optimizer: Any, p: Any) -> None:
        (p * p * lg.tensor([0.0, 1.0])).sum().backward()
        optimizer.step()  # here
        optimizer.zero_grad()

    p = nn.Parameter(lg.ones(2))
    optimizer = lg.optim.Adam([p], lr=1e-3, eps=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            step(optimizer, p)
    found = lg.blame()
    assert (found.how, found.op, found.line) == ("update", "Adam", marked_line(step)), found
    assert found.step == 1
    assert "eps=0.0" in found.note


def trained() -> Any:
    """A model that has been trained a little: from then on, what is read is looked at."""
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=0.1)
    model(lg.ones(5, 6)).sum().backward()
    steps.step()
    return model


@pytest.mark.parametrize("show", [lambda x: x.sum().item(), repr, lambda x: f"{x.mean()}"])
def test_nan_that_is_read(show: Any) -> None:
    def evaluate(model: Any) -> Any:
        y = model(lg.ones(3, 6))
        z = (y - y).log()
        ratio = z / z  # here
        return ratio + y

    model = trained()
    with lg.no_grad(), pytest.warns(TrainingWarning, match="NaN was read") as caught:
        show(evaluate(model))
    assert len(caught) == 1
    found = lg.blame()
    assert (found.op, found.inputs[0].high) == ("log", 0.0), found  # inf / inf came of it
    with lg.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        show(evaluate(model))  # it is said once


def test_nothing_is_said_of_programs_that_do_not_train() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(lg.zeros(2) / 0) == "tensor([nan, nan])"
    assert lg.blame() is None


def test_a_tensor_is_asked_for() -> None:
    x = lg.tensor([1.0, 4.0, 0.0], requires_grad=True)
    y = x.sqrt()
    assert lg.blame(y) is None
    z = (y - 3).log()
    found = lg.blame(z.sum())
    assert (found.op, found.how, found.result.nan) == ("log", "forward", 3)
    assert (found.inputs[0].low, found.inputs[0].high) == (-3.0, -1.0)
    assert [link.op for link in found.chain] == ["log", "sum"]
    y.sum().backward()
    found = lg.blame(x)
    assert (found.op, found.how) == ("sqrt", "backward")
    with pytest.raises(TypeError, match="must be Tensor"):
        lg.blame(3.0)


@pytest.mark.parametrize("clip", [False, True])
def test_gradients_changed_by_hand(clip: bool) -> None:
    """Also those of which clipping has asked before."""
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=0.1)

    def step(scale: float) -> None:
        model(lg.ones(5, 6)).sum().backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for p in model.parameters():
            p.grad.div_(scale)  # here
        steps.step()
        steps.zero_grad()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(40):
            step(0.0 if i == 39 else 2.0)
    found = lg.blame()
    assert (found.op, found.line, found.step) == ("div", marked_line(step), 40), found


@pytest.mark.parametrize("through_data", [False, True])
def test_parameters_updated_by_hand(through_data: bool) -> None:
    """A program without an optimiser trains, too: it writes to what gradients were asked of."""
    model, x = nn.Linear(6, 2), lg.randn(5, 6)

    @lg.no_grad()
    def update(scale: float) -> None:
        for p in model.parameters():
            written = p.data if through_data else p
            written -= 0.1 * p.grad / scale  # here

    assert lg.blame() is None
    for i in range(7):
        model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        update(0.0 if i == 5 else 1.0)
        if i < 6:
            loss.item()
    with pytest.warns(TrainingWarning, match="NaN was read"):
        loss.item()
    assert lg.blame().line == marked_line(update), lg.blame()


def test_the_program_goes_on_as_if_nobody_had_looked() -> None:
    def train(enabled: bool) -> list[Any]:
        BLAMING.enabled = enabled
        lg.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(), nn.Linear(4, 2))
        groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.1}]
        steps = lg.optim.Adam(groups)
        x = lg.randn(5, 6)
        for i in range(45):
            steps.zero_grad()
            y = model(x) * (float("inf") if i == 40 else 1.0)
            (y[:, 0] if i == 40 else y).sum().backward()
            steps.step()
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(True) == train(False)


def test_names_of_modules_and_parameters() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            return self.fc(x).log()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x: Any) -> Any:
            return self.blocks[1](x)

    net = Net()
    with lg.no_grad():
        for p in net.parameters():
            p.fill_(0.0)
    found = lg.blame(net(lg.ones(2, 6)))
    assert (found.op, found.module) == ("log", "blocks.1 (Block)")


def test_updates_look_at_their_gradients_before_any_of_them_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Policy, "whole", True)
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.1}]
    steps = lg.optim.SGD(groups, lr=0.2)
    for _ in range(2):
        steps.zero_grad()
        model(lg.ones(5, 6)).sum().backward()
        steps.step()
    kinds = [step.kind for step in last_steps()]
    ops = [step.ops for step in last_steps()]
    assert kinds.count("finite") == 2
    assert kinds[-4:] == ["finite", "finite", "loops", "loops"]
    assert ops[-4:] == [("sgd",)] * 4
