"""The native check of a repeated step: it says yes to the same step, and to nothing else."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.graph.state import reference_mode
from livegrad.native import layout
from livegrad.runtime.cpu import follow
from livegrad.runtime.plans import forget_plans

pytestmark = [
    pytest.mark.usefixtures("whole_plans"),
    pytest.mark.skipif(
        not follow.available(), reason="the objects of this interpreter are not known"
    ),
]


def test_is_on_where_it_was_tried():
    assert sys.version_info[:2] in layout.KNOWN


@pytest.fixture
def answers(monkeypatch):
    """What followers answered, in order: those of the test alone."""
    forget_plans()
    given = []
    matches = follow.Follower.matches

    def noted(self, nodes, handles):
        given.append(matches(self, nodes, handles))
        return given[-1]

    monkeypatch.setattr(follow.Follower, "matches", noted)
    return given


def repeat(step, times=4):
    for _ in range(times):
        step()


# Functions, because pytest's assert keeps the intermediate values of what it is given.


def scaled(x, factor):
    return (x * factor + 1).sum().item()


def part(x, start):
    return x[start : start + 4].sum().item()


def test_a_step_that_repeats_is_followed(answers):
    x = lg.tensor([1.0, 2.0])
    repeat(lambda: scaled(x, 2.5))
    answers.clear()
    assert scaled(x, 2.5) == 9.5
    assert answers == [True]


def test_numbers_and_leaves_are_those_of_this_run(answers):
    x = lg.tensor([1.0, 2.0])
    repeat(lambda: scaled(x, 2.5))
    answers.clear()
    for factor in (0.5, 4.0, float("inf")):
        for values in ([3.0, 4.0], [0.25, 8.0]):
            y = lg.tensor(values)
            assert scaled(y, factor) == sum(values) * factor + 2
    assert answers == [True] * 6


def test_slice_bounds_are_those_of_this_run(answers):
    x = lg.tensor(np.arange(40.0))
    repeat(lambda: part(x, 3))
    answers.clear()
    for start in (0, 11, 36):
        assert part(x, start) == sum(range(start, start + 4))
    assert answers == [True] * 3


def test_another_name_of_a_value_that_was_there_is_followed(answers):
    kept = []

    def step(i):
        x = lg.tensor([[1.0 * i, 1.0], [2.0, 3.0]]) * 1
        x.sum().item()
        flat = x.reshape(4)
        kept.append((x, flat, x.reshape(4, 1)))
        return (x * 2).sum().item()

    for i in range(4):
        step(i)
    answers.clear()
    assert [step(i) for i in (4, 5)] == [20.0, 22.0]
    assert answers == [True] * 4
    for i, (_, flat, tall) in enumerate(kept):
        assert flat.tolist() == [i, 1, 2, 3]
        assert tall.tolist() == [[i], [1], [2], [3]]
    x, flat, _ = kept[5]
    before = flat.clone()
    x.zero_()
    assert (flat.tolist(), before.tolist()) == ([0.0] * 4, [5.0, 1.0, 2.0, 3.0])


def test_another_name_of_a_parameter_is_not_what_an_update_makes_of_it(answers):
    weight = lg.ones(2, 3, requires_grad=True)
    optimiser = optim.SGD([weight], lr=0.5)
    kept = []
    for _ in range(8):
        optimiser.zero_grad()
        weight.sum().backward()
        with lg.no_grad():
            kept.append(weight.clone().reshape(6))
        optimiser.step()
    assert True in answers
    assert [flat[5].item() for flat in kept] == [1 - 0.5 * i for i in range(8)]


def test_another_structure_is_not(answers):
    x = lg.tensor([1.0, 2.0])
    repeat(lambda: (x * 2 + 1).sum().item())
    answers.clear()
    assert (x * 2 - 1).sum().item() == 4.0
    assert answers == [False]


def test_steps_are_followed_in_any_order(answers):
    """Each that was found once is known, whatever came before it last time."""
    x = lg.tensor([1.0, 2.0])

    def step(name):
        y = {"a": lambda: x * 2, "b": lambda: x + 3, "c": lambda: x / 4}[name]()
        return y.sum().item()

    expected = {"a": 6.0, "b": 9.0, "c": 0.75}
    repeat(lambda: [step(name) for name in "abc"], 2)
    for name in "acbbacabcc":
        answers.clear()
        assert step(name) == expected[name]
        assert answers.count(True) == 1, name


def test_what_was_dropped_is_not_followed(answers):
    x = lg.tensor([1.0, 2.0])
    repeat(lambda: scaled(x, 2.5))
    forget_plans()
    answers.clear()
    assert scaled(x, 2.5) == 9.5
    assert answers == []


def test_a_value_kept_or_not_is_another_step(answers):
    x = lg.tensor([1.0, 2.0])
    repeat(lambda: (x * 2 + 1).sum().item())
    answers.clear()
    kept = x * 2
    assert (kept + 1).sum().item() == 8.0
    assert answers == [False]
    assert kept.tolist() == [2.0, 4.0]


def test_one_leaf_twice_is_not_two_leaves(answers):
    a, b = lg.tensor([1.0, 2.0]), lg.tensor([5.0, 7.0])
    repeat(lambda: (a * a).sum().item())
    answers.clear()
    assert (a * b).sum().item() == 19.0
    assert answers == [False]


def test_a_pending_value_is_not_a_computed_one(answers):
    x = lg.tensor([1.0, 2.0])
    y = x + 1
    y.tolist()
    repeat(lambda: (y * 3).sum().item())
    answers.clear()
    assert ((x + 2) * 3).sum().item() == 21.0
    assert True not in answers


def test_an_integer_where_a_float_was(answers):
    def fill(number):
        return (lg.full((3,), number, dtype=lg.float32) + 1).tolist()

    repeat(lambda: fill(2.5))
    assert fill(2) == [3.0] * 3
    assert fill(0.25) == [1.25] * 3


def halting(w, x, steps):
    """A state that is read at every step of a graph; the gradient goes through all of them."""
    state = x
    for _ in range(steps):
        state = lg.tanh(state @ w) * 0.5
        state.sum().item()
    return state


def test_values_read_inside_of_a_graph_are_followed(answers):
    w, x = lg.full((3, 3), 0.25, requires_grad=True), lg.ones(2, 3)
    halting(w, x, 4)
    answers.clear()
    halting(w, x, 6).sum().backward()
    assert answers.count(True) >= 5
    with reference_mode():
        other = lg.full((3, 3), 0.25, requires_grad=True)
        halting(other, x, 6).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), other.grad.numpy(), rtol=1e-5)


def test_what_backward_will_need_is_kept_also_if_it_was_not_when_planned(answers):
    w, x = lg.full((3, 3), 0.25, requires_grad=True), lg.ones(2, 3)
    with lg.no_grad():
        halting(w, x, 6)
    answers.clear()
    state = halting(w, x, 6)
    assert answers[0] is False
    with lg.no_grad():
        answers.clear()
        halting(w, x, 3)
    assert answers[0] is False
    state.sum().backward()
    with reference_mode():
        other = lg.full((3, 3), 0.25, requires_grad=True)
        halting(other, x, 6).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), other.grad.numpy(), rtol=1e-5)


def train(steps, net, x, t, read=None):
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), t)
        loss.backward()
        if read is not None:
            read(step, net, loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def network():
    lg.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def data():
    rng = np.random.default_rng(0)
    return lg.tensor(rng.normal(size=(6, 5))), lg.tensor(rng.integers(0, 3, 6))


def parameters(net):
    return [p.detach().numpy() for p in net.parameters()]


def test_training_is_followed_and_gives_the_same_bits(answers, monkeypatch):
    x, t = data()
    net = network().double()
    losses = train(8, net, x, t)
    assert answers[-4:] == [True] * 4
    monkeypatch.setattr(follow.Follower, "matches", lambda self, nodes, handles: False)
    other = network().double()
    assert train(8, other, x, t) == losses
    for a, b in zip(parameters(net), parameters(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_parameter_that_somebody_else_sees_is_not_overwritten():
    x, t = data()
    net = network().double()
    kept = {}

    def read(step, net, loss):
        if step == 5:
            kept["old"] = net[0].weight.detach().clone()
            kept["values"] = np.array(net[0].weight.detach())

    train(8, net, x, t, read)
    np.testing.assert_array_equal(kept["old"].numpy(), kept["values"])
    assert not np.array_equal(kept["values"], net[0].weight.detach().numpy())


def test_a_graph_that_is_kept_keeps_the_values_it_needs():
    x, t = data()
    net = network().double()
    kept = {}

    def read(step, net, loss):
        if step == 5:
            kept["loss"] = F.cross_entropy(net(x), t)
            kept["weight"] = net[2].weight.detach().numpy()
            kept["gradient"] = net[2].weight.grad.numpy()

    train(8, net, x, t, read)
    net.zero_grad()
    kept["loss"].backward()
    np.testing.assert_allclose(net[2].weight.grad.numpy(), kept["gradient"], rtol=1e-12)


def test_the_reference_agrees():
    x, t = data()
    with reference_mode():
        wanted = train(6, network().double(), x, t)
    np.testing.assert_allclose(train(6, network().double(), x, t), wanted, rtol=1e-9)
