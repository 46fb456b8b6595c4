"""NaN blame in programs of many kinds: the operation, the line, the module and the step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.debug.blaming import Latest
from livegrad.graph.watch import BLAMING
from tests.debug import model_scenes, odd_scenes  # noqa: F401 - they join the others
from tests.debug.scenes import SCENES

WRONG = 6  # the step that goes wrong, counted from 1


@pytest.fixture(autouse=True)
def blaming() -> Iterator[None]:
    BLAMING.enabled, BLAMING.reads, Latest.blame = True, False, None
    yield
    BLAMING.enabled = BLAMING.reads = False


def play(make: Any) -> None:
    """Trains, also after the step that goes wrong."""
    made = make()
    model = made["model"]
    steps = made.get("optimizer", lg.optim.SGD)(model.parameters(), lr=1e-3)
    for i in range(1, WRONG + made.get("steps_after", 2) + 1):
        bad = float(i == WRONG)
        steps.zero_grad()
        if "step" in made:
            made["step"](bad)
        else:
            made["loss"](model, bad).backward()
        made.get("after", lambda model, bad: None)(model, bad)
        made.get("before", lambda *given: None)(steps, i, WRONG)
        steps.step()
        assert i >= WRONG or Latest.blame is None, (i, Latest.blame)


@pytest.mark.parametrize("name", SCENES)
def test_scenes(name: str) -> None:
    lg.manual_seed(len(name))
    expected = SCENES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(expected.make)
    found = lg.blame()
    assert found is not None
    print(found)
    assert found.op in expected.ops, found
    assert expected.how in (found.how, "any"), found
    if expected.how != "update":
        assert (found.file, found.line) == (expected.file, expected.line), found
    if expected.module is not None:
        assert expected.module in str(found.module), found
    assert found.step == WRONG + expected.step
    assert len([w for w in caught if "not finite" in str(w.message)]) == 1


class Rows(lg.utils.data.Dataset[Any]):
    """One row of which is not a number."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        return lg.full((6,), float("nan") if i == 21 else 1.0)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_row_that_a_worker_has_read(workers: int) -> None:
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in lg.utils.data.DataLoader(Rows(), batch_size=4, num_workers=workers):
            steps.zero_grad()
            model(x).square().mean().backward()
            steps.step()
    found = lg.blame()
    assert (found.step, found.module) == (6, "Linear" if workers else None), found
    assert found.how == "data" if workers else found.op == "full"
    assert found.result.nan == 6


def test_a_scaler_skips_steps_without_a_word() -> None:
    """Infinite gradients are what it looks for."""
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=1e-3)
    scaler = lg.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    x = lg.ones(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(6):
            steps.zero_grad()
            with lg.autocast("cpu", dtype=lg.float16):
                y = model(x)
            loss = (y.float() * (1e38 if i == 3 else 1.0)).sum()
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
    assert lg.blame() is None
    assert scaler.get_scale() == 2.0**11  # doubled, halved and doubled again


def test_weights_that_were_read_from_a_file(tmp_path: Path) -> None:
    lg.save({"weight": lg.full((2, 6), float("nan")), "bias": lg.zeros(2)}, tmp_path / "w.lg")
    model = nn.Linear(6, 2)
    steps = lg.optim.SGD(model.parameters(), lr=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(4):
            if i == 3:
                model.load_state_dict(lg.load(tmp_path / "w.lg"))
            steps.zero_grad()
            model(lg.ones(3, 6)).sum().backward()
            steps.step()
    found = lg.blame()
    assert (found.how, found.step) == ("data", 4), found
    assert "lg.load" in found.source


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a_straight_through_rule_that_divides", "by div in a backward pass"),
        ("an_angle_of_nothing", "by the gradient of acos"),
    ],
)
def test_the_message_tells_rules_of_the_program_from_gradients(name: str, said: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        play(SCENES[name].make)
    assert said in str(lg.blame())


def test_the_message_marks_the_expression() -> None:
    x = lg.tensor([0.0, 1.0])
    y = (x + 1).log() + x.log() * 2
    found = lg.blame(y)
    line, marks = str(found).splitlines()[2:4]
    assert line[marks.index("~") : marks.rindex("~") + 1] == "x.log()"
