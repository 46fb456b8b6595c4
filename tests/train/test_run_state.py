"""Runs in one file: every object, every generator, exact numbers, and files that are not runs."""

from __future__ import annotations

import random

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

OPTIMIZERS = [
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop",
    "ASGD", "Adafactor", "LBFGS",
]  # fmt: skip
SCHEDULERS = {
    "StepLR": lambda o, s: s.StepLR(o, 2),
    "LambdaLR": lambda o, s: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "OneCycleLR": lambda o, s: s.OneCycleLR(o, 0.1, total_steps=20),
    "CosineAnnealingWarmRestarts": lambda o, s: s.CosineAnnealingWarmRestarts(o, 3),
    "CyclicLR": lambda o, s: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
    "SequentialLR": lambda o, s: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)], milestones=[4]
    ),
    "MultiStepLR": lambda o, s: s.MultiStepLR(o, [2, 5]),
    "ReduceLROnPlateau": lambda o, s: s.ReduceLROnPlateau(o, patience=1),
}


class Program:
    """A small training program with dropout and a scheduler."""

    def __init__(self, name="Adam", scheduler="StepLR"):
        train.seed_everything(3)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        if name == "LBFGS":
            self.optimizer = optim.LBFGS(self.model.parameters(), max_iter=3)
        else:
            self.optimizer = getattr(optim, name)(self.model.parameters(), lr=0.03)
        self.scheduler = SCHEDULERS[scheduler](self.optimizer, optim.lr_scheduler)

    def parts(self):
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}

    def step(self):
        x = lg.tensor(np.random.standard_normal((6, 4)), dtype=lg.float32)  # noqa: NPY002
        y = lg.tensor([random.randrange(2) for _ in range(6)])

        def closure():
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            return loss

        loss = self.optimizer.step(closure)
        plateau = isinstance(self.scheduler, optim.lr_scheduler.ReduceLROnPlateau)
        self.scheduler.step(*[loss.item()] if plateau else [])

    def steps(self, count):
        for _ in range(count):
            self.step()
        return [p.detach().numpy().tobytes() for p in self.model.parameters()]


@pytest.mark.filterwarnings("ignore:Seems like")
@pytest.mark.parametrize(
    ("optimizer", "scheduler"),
    [(name, "StepLR") for name in OPTIMIZERS] + [("Adam", name) for name in SCHEDULERS],
)
def test_goes_on_exactly(optimizer, scheduler, tmp_path):
    program = Program(optimizer, scheduler)
    program.steps(4)
    train.save_run(tmp_path / "run", **program.parts(), step=4)
    expected = program.steps(4)
    rate = program.optimizer.param_groups[0]["lr"]
    other = Program(optimizer, scheduler)
    lg.manual_seed(99)
    assert train.load_run(tmp_path / "run", **other.parts()) == {"step": 4}
    assert other.steps(4) == expected
    assert other.optimizer.param_groups[0]["lr"] == rate


def test_numbers_of_an_optimiser_are_exact(tmp_path):
    program = Program("NAdam")
    program.steps(3)
    product = [state["mu_product"].item() for state in program.optimizer.state.values()]
    train.save_run(tmp_path / "run", optimizer=program.optimizer)
    other = Program("NAdam")
    train.load_run(tmp_path / "run", optimizer=other.optimizer)
    assert [state["mu_product"].item() for state in other.optimizer.state.values()] == product


def test_generators_and_values(tmp_path):
    train.seed_everything(1)
    own = {"a": np.random.default_rng(2), "b": random.Random(3), "c": lg.Generator(4)}

    def draw():
        return (
            own["a"].random(), own["b"].random(), lg.rand(2, generator=own["c"]).tolist(),
            np.random.random(), random.random(), lg.rand(2).tolist(),  # noqa: NPY002
        )  # fmt: skip

    draw()
    extra = {"numbers": [1, 2.5], "tensor": lg.arange(3), "none": None, "nested": {"k": (1, "x")}}
    train.save_run(tmp_path / "run", **own, **extra)
    expected = draw()
    values = train.load_run(tmp_path / "run", **own)
    assert draw() == expected
    assert values.pop("tensor").tolist() == [0, 1, 2]
    assert values == {k: v for k, v in extra.items() if k != "tensor"}
    before = draw()
    train.load_run(tmp_path / "run", restore_rng=False, **own)
    assert draw()[:3] == expected[:3]
    assert draw()[3:] != before[3:]


def test_names_must_agree(tmp_path):
    program = Program()
    train.save_run(tmp_path / "run", **program.parts(), epoch=1)
    with pytest.raises(ValueError, match="also has the state of scheduler"):
        train.load_run(tmp_path / "run", model=program.model, optimizer=program.optimizer)
    with pytest.raises(ValueError, match="no state of net.*model, optimizer.*epoch"):
        train.load_run(tmp_path / "run", net=program.model)
    with pytest.raises(TypeError, match="epoch is a int"):
        train.load_run(tmp_path / "run", **program.parts(), epoch=0)
    assert train.load_run(tmp_path / "run", strict=False, model=program.model) == {"epoch": 1}


def test_files_that_are_not_runs(tmp_path):
    lg.save({"weight": lg.ones(2)}, tmp_path / "weights")
    with pytest.raises(ValueError, match="not a run"):
        train.load_run(tmp_path / "weights")
    with pytest.raises(FileNotFoundError):
        train.load_run(tmp_path / "nothing")


def test_what_cannot_be_saved_leaves_the_old_file(tmp_path):
    train.save_run(tmp_path / "run", step=1)
    with pytest.raises(TypeError):
        train.save_run(tmp_path / "run", step=(x for x in ()))
    assert train.load_run(tmp_path / "run") == {"step": 1}


def test_seed_everything():
    def draw():
        return lg.rand(3).tolist(), np.random.random(), random.random()  # noqa: NPY002

    assert train.seed_everything(2**40) == 2**40
    first = draw()
    train.seed_everything(2**40)
    assert draw() == first
    drawn = train.seed_everything()
    first = draw()
    train.seed_everything(drawn)
    assert draw() == first
    with pytest.raises(TypeError, match="integer"):
        train.seed_everything(1.5)
