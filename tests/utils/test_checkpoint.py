"""checkpoint: the same bits, from less memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.graph.state import reference_mode
from livegrad.utils import checkpoint as checkpoints
from livegrad.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    get_device_states,
    set_checkpoint_debug_enabled,
    set_device_states,
)


def plain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `checkpoint` must agree with."""
    for option in ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check"):
        kwargs.pop(option, None)
    return function(*args, **kwargs)


def both(run: Callable[[Any], list[lg.Tensor]]) -> None:
    """Asserts that what `run` gives with and without checkpoint is bit for bit the same."""
    results = []
    for way in (plain, checkpoint):
        lg.manual_seed(0)
        results.append([x.detach().numpy() for x in run(way)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def gradients(*tensors: Any) -> list[lg.Tensor]:
    for x in tensors:
        assert x.grad is not None
    return [x.grad for x in tensors]


def test_gradients_reach_inputs_parameters_and_what_lies_around() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        x = lg.randn(5, 4, requires_grad=True)
        leaf = lg.randn(3, requires_grad=True)
        around = leaf.exp()
        y = way(lambda t: net(t) * around, x.sin(), use_reentrant=False)
        y.square().sum().backward()
        return [y, *gradients(x, leaf, *net.parameters())]

    both(run)


def test_dropout_drops_the_same_and_the_stream_goes_on() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6), nn.Dropout(0.3))
        x = lg.randn(7, 6)
        loss = way(net, way(net, x)).sum()
        between = lg.rand(3)
        loss.backward()
        return [loss, between, lg.rand(3), *gradients(*net.parameters())]

    both(run)


def test_without_the_stream_other_numbers_are_drawn() -> None:
    x = lg.ones(100, requires_grad=True)
    y = checkpoint(F.dropout, x, preserve_rng_state=False)
    y.sum().backward()
    assert y.tolist() != x.grad.tolist()
    x.grad = None
    y = checkpoint(F.dropout, x)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist()


def test_nested() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        layers = [nn.Sequential(nn.Linear(5, 5), nn.Dropout(0.2), nn.GELU()) for _ in range(4)]

        def inner(x: Any) -> Any:
            return way(layers[1], way(layers[0], x))

        def outer(x: Any) -> Any:
            return way(layers[2], way(inner, x)) + x

        x = lg.randn(3, 5, requires_grad=True)
        way(layers[3], way(outer, x)).sum().backward()
        return gradients(x, *[p for layer in layers for p in layer.parameters()])

    both(run)


@dataclass
class Pair:
    left: Any
    right: Any


def test_arguments_and_results_of_all_kinds() -> None:
    def function(x: Any, pair: Any, name: str, *, scale: Any, options: Any = None) -> Any:
        assert name == "name"
        a, b = pair
        return {
            "sum": x + a * options["factor"],
            "others": [b * scale, None, "text", (x > 0)],
            "pair": Pair(x * b, 3),
        }

    def run(way: Any) -> list[lg.Tensor]:
        x, a, b, scale = (lg.randn(4, requires_grad=True) for _ in range(4))
        out = way(function, x.clone(), (a, b), "name", scale=scale, options={"factor": 2.0})
        assert out["others"][1:3] == [None, "text"]
        assert out["others"][3].dtype is lg.bool
        assert out["pair"].right == 3
        (out["sum"].sum() + (out["pair"].left * 2).sum()).backward()
        assert scale.grad is None or not scale.grad.any()
        return gradients(x, a, b)

    both(run)


def test_sequential_of_several_segments() -> None:
    for segments in (1, 2, 3, 5):
        net = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)) for _ in range(5)])
        x = lg.randn(3, 4)
        found = []
        for run in (net, lambda t, n=segments, m=net: checkpoint_sequential(m, n, t)):
            lg.manual_seed(1)
            net.zero_grad()
            run(x).sum().backward()
            found.append([p.grad.numpy() for p in net.parameters()])
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)
    assert checkpoint_sequential([lambda t: t + 1] * 3, 2, lg.zeros(2)).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint_sequential(net, 2, x, foo=1)


def test_reading_values_inside() -> None:
    """A flush in the middle of a segment does not hide what came before it."""

    def run(way: Any) -> list[lg.Tensor]:
        w = lg.randn(4, requires_grad=True)
        v = lg.randn(4, requires_grad=True)

        def function(x: Any) -> Any:
            h = x * w
            if h.sum().item() > -1e9:
                h = h.tanh()
            assert str(h)
            return h * v

        x = lg.randn(4, requires_grad=True)
        way(function, x).sum().backward()
        return gradients(x, w, v)

    both(run)


def test_writing_in_place_inside() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))
        x = lg.randn(3, 4, requires_grad=True)
        seen = lg.zeros(())

        def function(h: Any, count: Any) -> Any:
            count.add_(1)
            return net(h)

        way(function, x * 2, seen).sum().backward()
        assert seen.item() == 1.0  # written once, although the function ran twice
        return gradients(x, *net.parameters())

    both(run)


def test_arguments_may_be_written_to_afterwards() -> None:
    x = lg.ones(3, requires_grad=True)
    h = x * 2
    y = checkpoint(lambda t: t * t, h)
    h.mul_(100)
    y.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


def test_nothing_to_differentiate() -> None:
    x = lg.ones(3)
    assert not checkpoint(lambda t: t + 1, x).requires_grad
    with lg.no_grad():
        assert not checkpoint(lambda t: t + 1, lg.ones(3, requires_grad=True)).requires_grad
    w = lg.ones(3, requires_grad=True)
    assert checkpoint(lambda t: t, w).requires_grad
    checkpoint(lambda t: (t, t * 2), w)[0].sum().backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


def test_second_gradients() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 1))
        x = lg.randn(4, 3, requires_grad=True)
        (g,) = lg.autograd.grad(way(net, x).sum(), x, create_graph=True)
        (g.square().sum()).backward()
        return [g, *gradients(x, net[0].weight, net[3].weight)]

    both(run)


def test_second_backward_and_inputs() -> None:
    w = lg.ones(3, requires_grad=True)
    x = lg.ones(3, requires_grad=True)
    y = checkpoint(lambda t: t * w, x).sum()
    y.backward(retain_graph=True)
    y.backward(inputs=[x])
    assert x.grad.tolist() == [2.0] * 3
    assert w.grad.tolist() == [1.0] * 3


def test_training_step_by_step() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.2), nn.LayerNorm(6), nn.Linear(6, 6))
        optimizer = optim.Adam(net.parameters(), lr=0.05)
        x = lg.randn(8, 6)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = way(net, way(net, x)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return [*losses, *net.parameters()]

    both(run)


def test_inside_of_autocast() -> None:
    def run(way: Any) -> list[lg.Tensor]:
        net = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 6))
        with lg.autocast("cpu"):
            y = way(net, lg.randn(8, 6))
        assert y.dtype is lg.bfloat16
        y.float().sum().backward()
        return gradients(*net.parameters())

    both(run)


def test_hooks_inside_and_outside_run_once() -> None:
    seen = []
    w = lg.ones(3, requires_grad=True)
    w.register_hook(lambda g: seen.append("leaf"))
    h = w * 2
    h.register_hook(lambda g: seen.append("input"))

    def function(x: Any) -> Any:
        y = x * w
        if y.requires_grad:
            y.register_hook(lambda g: seen.append("inside"))
        return y.sum()

    checkpoint(function, h).backward()
    assert sorted(seen) == ["input", "inside", "leaf"]


def test_contexts_for_both_runs() -> None:
    seen = []

    @contextmanager
    def noting(what: str) -> Any:
        seen.append(what)
        yield

    x = lg.ones(3, requires_grad=True)
    y = checkpoint(
        lambda t: t.exp(),
        x,
        use_reentrant=False,
        context_fn=lambda: (noting("first"), noting("again")),
    )
    assert seen == ["first"]
    y.sum().backward()
    assert seen == ["first", "again"]
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda t: t, x, use_reentrant=True, context_fn=lambda: None)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint(lambda t, a: t, x, use_reentrant=True, a=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(lambda t: t, x, determinism_check="strictly")


def test_a_function_that_does_something_else_is_found_out() -> None:
    x = lg.ones(3, requires_grad=True)
    calls = []

    def other_shape(t: Any) -> Any:
        calls.append(1)
        return t[: len(calls)] * 2

    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(other_shape, x).sum().backward()
    calls.clear()

    def other_count(t: Any) -> Any:
        calls.append(1)
        return tuple([t * 2] * len(calls))

    with (
        pytest.raises(CheckpointError, match=r"recomputation: 2(.|\n)*mul at test_checkpoint"),
        set_checkpoint_debug_enabled(True),
    ):
        checkpoint(other_count, x)[0].sum().backward()
    late = lg.ones(3, requires_grad=True)
    calls.clear()

    def other_leaf(t: Any) -> Any:
        calls.append(1)
        return t * late if len(calls) > 1 else t * 1

    with pytest.raises(CheckpointError, match="was not by the forward pass"):
        checkpoint(other_leaf, x).sum().backward()


def test_an_error_inside_leaves_all_as_it_was() -> None:
    x = lg.ones(3, requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda t: t * (1 // 0), x)
    assert lg.is_grad_enabled()
    assert (x * 2).requires_grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_within_transforms_reference_mode_and_threads() -> None:
    w = lg.randn(3)

    def f(x: Any) -> Any:
        return checkpoint(lambda t: (t * w).sin().sum(), x)

    x = lg.randn(3)
    expected = (w * (x * w).cos()).numpy()
    np.testing.assert_allclose(lg.func.grad(f)(x).numpy(), expected, rtol=1e-6)
    many = lg.vmap(lg.func.grad(f))(x.expand(2, 3))
    np.testing.assert_allclose(many[1].numpy(), expected, rtol=1e-6)
    leaf = x.clone().requires_grad_()
    with reference_mode():
        f(leaf).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-5)

    def in_thread() -> None:
        leaf.grad = None
        f(leaf).backward()

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-5)


MEMORY = """
import livegrad as lg, livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.runtime.memory import memory_in_use, memory_peak, reset_peak
from livegrad.utils.checkpoint import checkpoint, checkpoint_sequential

lg.manual_seed(0)
net = nn.Sequential(*[
    nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.1), nn.LayerNorm(64))
    for _ in range(24)
])
optimizer = optim.SGD(net.parameters(), lr=0.01)
x = lg.randn(2048, 64)
x.sum().item()
start = memory_in_use()
for step in range(3):
    optimizer.zero_grad()
    loss = FORWARD.square().mean()
    loss.backward()
    optimizer.step()
print(memory_peak() - start, loss.item())
"""


@pytest.mark.slow
def test_it_takes_less_memory(python) -> None:
    found = {}
    for name, forward in (
        ("plain", "net(x)"),
        ("segments", "checkpoint_sequential(net, 6, x)"),
        ("one", "checkpoint(net, x)"),
    ):
        # Piece by piece, the plain one takes less, since values are given up as they are read.
        done = python(MEMORY.replace("FORWARD", forward), LIVEGRAD_MODE="whole")
        peak, loss = done.stdout.split()
        found[name] = (int(peak), float(loss))
    peaks = {name: peak for name, (peak, _) in found.items()}
    value = 2048 * 64 * 4  # bytes of one value inside
    assert peaks["plain"] > 90 * value
    # Five inputs of segments, and what is inside of one.
    assert peaks["segments"] < 32 * value
    assert len({loss for _, loss in found.values()}) == 1
    # One segment as large as the network saves nothing, and costs next to nothing.
    assert peaks["one"] < 1.1 * peaks["plain"]


def test_plans_are_found_again(counted) -> None:
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)])
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x = lg.randn(4, 8)

    def step() -> None:
        optimizer.zero_grad()
        checkpoint_sequential(net, 4, x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    with counted() as c:
        step()
    assert c.plan_misses == 0


def test_states_of_devices_that_are_not_there() -> None:
    assert get_device_states(lg.ones(2), [lg.ones(1)], "x") == ([], [])
    set_device_states([], [])
    with pytest.raises(RuntimeError, match="no GPU"):
        set_device_states([0], [lg.zeros(1)])


def test_inputs_are_cut_off_from_how_they_were_made() -> None:
    x = lg.ones(2, requires_grad=True)
    y, z, word = checkpoints.detach_variable((x * 2, lg.ones(2), "word"))
    assert y.requires_grad
    assert y.is_leaf
    assert not z.requires_grad
    assert word == "word"
    with pytest.raises(RuntimeError, match="Only tuple of tensors"):
        checkpoints.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoints.check_backward_validity([z])
