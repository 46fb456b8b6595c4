"""The training lint while several threads train: it stays on, and mixes nobody up with others."""

from __future__ import annotations

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import lint, nn, optim
from livegrad.lint.rules import Lint


@pytest.fixture(autouse=True)
def fresh():
    lint.reset()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    lint.reset()


def at_once(*functions):
    start = threading.Barrier(len(functions))

    def run(function):
        start.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result(timeout=60) for f in [pool.submit(run, g) for g in functions]]


def network():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.1), nn.Linear(6, 3))


def train(net, steps=20, zero=True):
    x, target = lg.ones(5, 4), lg.tensor([0, 1, 2, 0, 1])
    for _ in range(4):
        optimizer = optim.SGD(net.parameters(), lr=0.01)
        for _ in range(steps):
            if zero:
                optimizer.zero_grad()
            loss = F.cross_entropy(net(x), target)
            loss.backward()
            optimizer.step()
            loss.item()


def test_threads_with_networks_of_their_own_are_not_warned():
    at_once(*[lambda: train(network())] * 4)
    assert lint.is_enabled()


@pytest.mark.slow
def test_threads_with_one_network_are_not_warned():
    net = network()
    at_once(*[lambda: train(net)] * 3)
    assert lint.is_enabled()


def test_an_optimiser_that_two_threads_use_is_not_watched():
    net = network()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    x, target = lg.ones(5, 4), lg.tensor([0, 1, 2, 0, 1])

    def step():
        F.cross_entropy(net(x), target).backward()
        optimizer.step()

    step()
    assert optimizer.watched
    at_once(step)
    assert not optimizer.watched


def test_a_mistake_in_one_of_them_is_found():
    Lint.steps_left = 10_000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        at_once(lambda: train(network()), lambda: train(network(), zero=False))
    rules = {str(w.message).rpartition(": ")[2] for w in caught}
    assert rules == {"zero-grad)"}
    assert lint.is_enabled()


def test_switching_it_off_and_on_meanwhile_does_no_harm():
    done = threading.Event()

    def switch():
        while not done.is_set():
            lint.disable()
            lint.enable()

    def work():
        try:
            train(network(), steps=5)
        finally:
            done.set()

    at_once(switch, work)
