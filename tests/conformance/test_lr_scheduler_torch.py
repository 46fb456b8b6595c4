"""Learning-rate schedulers against PyTorch's: same rates and momentums at every step."""

import copy
from typing import Any

import pytest

import livegrad as lg
from livegrad import nn, optim

torch = pytest.importorskip("torch")

SCHEDULERS = [
    ("LambdaLR", {"lr_lambda": [lambda e: 0.9**e, lambda e: 1 / (e + 1)]}),
    ("LambdaLR", {"lr_lambda": lambda e: 0.5**e}),
    ("MultiplicativeLR", {"lr_lambda": lambda e: 0.95}),
    ("StepLR", {"step_size": 4, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [3, 7, 7], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 8, "power": 1.7}),
    ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.001}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.002}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": [0.01, 0.02], "max_lr": 0.1, "step_size_up": 4, "mode": "exp_range",
                  "gamma": 0.97}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 2, "scale_fn": lambda x: 1 / x,
                  "cycle_momentum": False}),
    ("OneCycleLR", {"max_lr": 0.2, "total_steps": 25}),
    ("OneCycleLR", {"max_lr": [0.2, 0.1], "epochs": 5, "steps_per_epoch": 5, "three_phase": True,
                    "anneal_strategy": "linear"}),
]  # fmt: skip

NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(SCHEDULERS)]
LINEAR = {"anneal_strategy": "linear", "anneal_epochs": 4}


def pair(name="SGD", **options):
    options = {"lr": 0.1, **({"momentum": 0.5} if name == "SGD" else {}), **options}
    ours = [nn.Parameter(lg.ones(2)), nn.Parameter(lg.ones(3))]
    theirs = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))]
    for p, q in zip(ours, theirs, strict=True):
        p.grad, q.grad = lg.ones(p.shape), torch.ones(q.shape)
    groups = [[{"params": [x[0]]}, {"params": [x[1]], "lr": 0.05}] for x in (ours, theirs)]
    a = getattr(optim, name)(groups[0], **options)
    return a, getattr(torch.optim, name)(groups[1], **options)


def state(optimizer):
    return [(float(g["lr"]), g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]


def same(a, b):
    for mine, theirs in zip(state(a), state(b), strict=True):
        assert mine[0] == pytest.approx(theirs[0], rel=1e-9, abs=1e-15)
        assert mine[1:] == pytest.approx(theirs[1:]) if mine[1] is not None else True
        assert mine[2] == pytest.approx(theirs[2]) if mine[2] is not None else True


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize(
    ("name", "options"), SCHEDULERS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_twenty_epochs(name, options, optimizer):
    a, b = pair(optimizer)
    mine = getattr(optim.lr_scheduler, name)(a, **options)
    theirs = getattr(torch.optim.lr_scheduler, name)(b, **options)
    same(a, b)
    for _ in range(20):
        a.step()
        b.step()
        mine.step()
        theirs.step()
        same(a, b)
        assert mine.get_last_lr() == pytest.approx(theirs.get_last_lr())


@pytest.mark.parametrize(
    ("name", "options"), SCHEDULERS, ids=lambda x: x if isinstance(x, str) else ""
)
def test_state_can_be_saved_and_loaded(name, options):
    a, _ = pair()
    first = getattr(optim.lr_scheduler, name)(a, **options)
    for _ in range(5):
        a.step()
        first.step()
    saved, rates = copy.deepcopy(first.state_dict()), state(a)
    again, _ = pair()
    second = getattr(optim.lr_scheduler, name)(again, **options)
    second.load_state_dict(saved)
    again.load_state_dict(a.state_dict())
    assert state(again) == rates
    for _ in range(5):
        for optimizer, scheduler in ((a, first), (again, second)):
            optimizer.step()
            scheduler.step()
        assert state(again) == state(a)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "threshold_mode": "abs", "threshold": 0.1},
        {"mode": "max", "patience": 1},
        {"patience": 2, "cooldown": 2, "min_lr": [0.01, 0.02]},
        {"factor": 0.5, "patience": 0, "threshold_mode": "abs"},
    ],
    ids=str,
)
def test_plateau(options):
    options = {"patience": 1, **options}
    a, b = pair()
    mine = optim.lr_scheduler.ReduceLROnPlateau(a, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(b, **options)
    for value in [5, 4, 4, 4.1, 4, 3.9, 4, 4, 4, 4, 3, 3, 3, 3, 3, 10, 11, 12, 12, 12, 12]:
        mine.step(value)
        theirs.step(value)
        same(a, b)


def combined(scheduler, optimizer):
    s = scheduler
    warm = s.LinearLR(optimizer, 0.1, total_iters=4)
    then = s.CosineAnnealingLR(optimizer, 10)
    last = s.ExponentialLR(optimizer, 0.9)
    return s.SequentialLR(optimizer, [warm, then, last], [4, 12])


def chained(scheduler, optimizer):
    parts = [scheduler.ConstantLR(optimizer, 0.1, 3), scheduler.ExponentialLR(optimizer, 0.9)]
    return scheduler.ChainedScheduler(parts)


@pytest.mark.parametrize("make", [combined, chained])
def test_several(make):
    a, b = pair()
    mine, theirs = make(optim.lr_scheduler, a), make(torch.optim.lr_scheduler, b)
    same(a, b)
    for _ in range(20):
        a.step()
        b.step()
        mine.step()
        theirs.step()
        same(a, b)


@pytest.mark.parametrize(
    "options", [{}, {"anneal_strategy": "linear", "anneal_epochs": 4}], ids=str
)
def test_swalr(options):
    a, b = pair()
    mine = optim.swa_utils.SWALR(a, swa_lr=0.02, **options)
    theirs = torch.optim.swa_utils.SWALR(b, swa_lr=0.02, **options)
    for _ in range(15):
        a.step()
        b.step()
        mine.step()
        theirs.step()
        same(a, b)


def test_a_rate_that_is_a_tensor_is_written_to() -> None:
    def run(T: Any) -> Any:
        w, rate = T.nn.Parameter(T.ones(2)), T.tensor(0.5)
        update = T.optim.SGD([w], rate)
        schedule = T.optim.lr_scheduler.ExponentialLR(update, 0.5)
        for _ in range(2):
            update.zero_grad()
            (w * w).sum().backward()
            update.step()
            schedule.step()
        return rate.tolist(), update.param_groups[0]["lr"] is rate, w.tolist()

    assert run(lg) == run(torch)
