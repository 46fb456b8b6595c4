"""No rule computes with a run-time number while a plan is made: plans hold for all numbers.

A plan that holds for certain numbers only is right, but is made anew for every learning rate and
every seed of a dropout that comes along, and nothing shows it but the time it takes.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from test_registry import OPS, as_inputs, call, floats, samples_of, values, weighted_sum

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim
from livegrad.compiler.lowerings import update as updates
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import elementwise
from livegrad.graph.state import LOCAL
from livegrad.ops.support.samples import Sample
from livegrad.runtime import plans as runtime
from livegrad.runtime.plans import forget_plans

# Ops whose plans depend on a number, with the reason.
DEPENDS: dict[str, str] = {}


def with_numbers_on_the_left(op: Op) -> list[Sample]:
    """Elementwise ops of two operands take a number in either place."""
    found = []
    for sample in samples_of(op):
        if sample.call is None and len(sample.inputs) == 2:
            a, b = sample.inputs
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.size:
                found.append(Sample((float(a.flat[0]), b), smooth=sample.smooth))
    return found[:1]


def specialised() -> bool:
    """Whether a plan in memory holds for certain numbers only."""
    return any(x.specialised is not None for alike in runtime._executables.values() for x in alike)


def run(op: Op, sample: Sample, gradients: int) -> None:
    """Computes the sample, or its gradients, or theirs."""
    inputs = as_inputs(sample, lg.float32)
    leaves = [inputs[i].requires_grad_() for i in floats(inputs)] if gradients else []
    y = call(op, sample, inputs)
    if not leaves or not y.requires_grad:
        values(y)
        return
    if gradients == 1:
        weighted_sum(y).backward()
    else:
        grads = lg.autograd.grad(weighted_sum(y), leaves, create_graph=True, allow_unused=True)
        second = [weighted_sum(g) for g in grads if g is not None and g.requires_grad]
        if second:
            sum(second).backward()
    for x in leaves:
        if x.grad is not None:
            x.grad.numpy()


@pytest.mark.parametrize("name", OPS)
def test_no_plan_depends_on_a_number(name: str) -> None:
    op = REGISTRY[name]
    for sample in samples_of(op) + with_numbers_on_the_left(op):
        for gradients in (0, 1, 2):
            forget_plans()
            try:
                run(op, sample, gradients)
            except (RuntimeError, TypeError, NotImplementedError):
                continue  # not for float32, not for numbers, or no second gradient
            assert specialised() == (name in DEPENDS), f"{name} with {sample.inputs}"


def changed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([x * 1.25 if type(x) is float else x for x in args])


@pytest.mark.parametrize("name", OPS)
def test_a_plan_computes_with_the_numbers_of_each_run(name: str) -> None:
    """What a plan made for other numbers gives is what a plan made for these gives."""
    op = REGISTRY[name]
    for sample in samples_of(op) + with_numbers_on_the_left(op):
        found = []
        for numbers, planned in ((lambda x: x, False), (changed, True), (changed, False)):
            if not planned:
                forget_plans()
            try:
                y = call(op, sample, as_inputs(sample, lg.float32))
            except (RuntimeError, TypeError, NotImplementedError):
                break
            pending = LOCAL.state.nodes
            if not any(type(x) is float for node in pending for x in node.args):
                values(y)
                break
            for node in pending:
                node.args = numbers(node.args)
            try:
                found.append(values(y))
            except (RuntimeError, ValueError):
                break  # a number that is out of range, such as a probability
        if len(found) == 3:
            np.testing.assert_array_equal(found[1].tobytes(), found[2].tobytes(), err_msg=name)


OPTIMIZERS = [
    cls
    for _, cls in inspect.getmembers(optim, inspect.isclass)
    if issubclass(cls, optim.Optimizer) and cls not in (optim.Optimizer, optim.LBFGS)
]
OPTIONS = (
    {}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
    {"amsgrad": True}, {"maximize": True}, {"decoupled_weight_decay": True, "weight_decay": 0.1},
    {"centered": True, "momentum": 0.5}, {"momentum": 0.9, "dampening": 0.5},
)  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("cls", OPTIMIZERS, ids=lambda cls: cls.__name__)
def test_no_update_depends_on_a_number(cls: Any, options: dict[str, Any]) -> None:
    if not set(options) <= set(inspect.signature(cls).parameters):
        pytest.skip("another optimiser's option")

    def loss(p: Any) -> Any:
        """Its gradient is of the kind that the optimiser takes."""
        if cls is not optim.SparseAdam:
            return (p * p).sum()
        rows = F.embedding(lg.tensor([2, 0, 2]), p, sparse=True)
        return (rows * rows).sum()

    def train(rates: tuple[float, ...], shared: bool) -> bytes:
        p = lg.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)
        optimizer = cls([p], lr=rates[0], **options)
        for rate in rates:
            if not shared:
                forget_plans()
                updates._described.clear()
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            loss(p).backward()
            optimizer.step()
            assert not specialised()
        return bytes(np.asarray(p.detach()).tobytes())

    rates = (0.1, 0.05, 0.2, 0.01)
    assert train(rates, True) == train(rates, False)
    assert train(rates, True) == train(rates, False)


def test_elementwise_numbers_of_rules_that_samples_do_not_reach() -> None:
    x = lg.tensor([0.5, 1.5, 2.5], requires_grad=True)
    for function in (
        lambda n: 2.0**x + n,
        lambda n: x**n,
        lambda n: n**x,
        lambda n: lg.atan2(lg.tensor(n), x),
        lambda n: lg.lerp(x, x * 2, n),
        lambda n: elementwise(REGISTRY["atan2"], (x, n)),
    ):
        forget_plans()
        for n in (1.25, 1.5, 1.75):
            x.grad = None
            function(n).sum().backward()
            x.grad.tolist()
        assert not specialised()
