"""A little of everything, in a few seconds: what to run before every commit (`make tiny`).

Each test goes once through one part of the package, by its public names. What a part does in full
is held by the tests of that part.
"""

from __future__ import annotations

import io

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.graph.state import reference_mode
from livegrad.native.hot import CLASSES, FUNCTIONS
from livegrad.native.layout import is_known, slots_of
from livegrad.native.translate import translate_unit
from livegrad.runtime.speedup import original_functions


def test_recording_computes_nothing() -> None:
    before = lg.stats().flushes
    y = lg.ones(2, 3) * 2 + 1
    assert y.shape == (2, 3)
    assert lg.stats().flushes == before
    assert y.tolist() == [[3.0] * 3] * 2
    assert lg.stats().flushes == before + 1


def test_compiled_and_reference_agree() -> None:
    def program() -> list[float]:
        x = lg.arange(24, dtype=lg.float32).reshape(4, 6) / 7
        return (lg.softmax(x, 1).exp() @ x.T).sum(0).tolist()

    compiled = program()
    with reference_mode():
        np.testing.assert_allclose(compiled, program(), rtol=1e-6)


@pytest.mark.usefixtures("whole_plans")
def test_a_chain_is_one_kernel() -> None:
    x = lg.tensor(np.ones((8, 8), np.float32))
    y = (x * 2 + 1).exp().sum(1)
    before = lg.stats().kernels_run
    y.tolist()
    assert lg.stats().kernels_run == before + 1


def test_views_see_writes() -> None:
    x = lg.zeros(3, 2)
    row = x[1]
    row += 5
    x[0] = 1
    assert x.tolist() == [[1, 1], [5, 5], [0, 0]]
    assert row.data_ptr() == x.data_ptr() + 2 * x.element_size()


def test_memory_is_shared_with_numpy() -> None:
    array = np.zeros(3, np.float32)
    x = lg.from_numpy(array)
    x += 1
    array[0] = 7
    assert x.tolist() == [7, 1, 1]


def test_gradients_of_any_order() -> None:
    x = lg.tensor([2.0], requires_grad=True)
    (first,) = lg.autograd.grad(x**3, x, create_graph=True)
    (second,) = lg.autograd.grad(first, x)
    assert (first.item(), second.item()) == (12.0, 12.0)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_training_learns_and_is_planned_once(make: type[optim.Optimizer]) -> None:
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x = lg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    target = lg.tensor([[0.0], [1.0], [1.0], [0.0]])
    optimizer = make(net.parameters(), lr=0.1)
    losses = []
    for step in range(20):
        if step == 3:
            misses = lg.stats().plan_misses
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert lg.stats().plan_misses == misses


def test_convolution_and_classes() -> None:
    images = lg.ones(2, 1, 6, 6, requires_grad=True)
    weight = lg.ones(3, 1, 3, 3)
    logits = F.max_pool2d(F.conv2d(images, weight, padding=1), 2).flatten(1)
    F.cross_entropy(logits, lg.tensor([0, 1])).backward()
    assert images.grad is not None
    assert images.grad.shape == images.shape


def test_vmap_of_grad() -> None:
    each = lg.func.vmap(lg.func.grad(lambda x: (x**2).sum()))
    assert each(lg.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2, 4], [6, 8]]


def test_dtypes_promote() -> None:
    assert (lg.tensor([1], dtype=lg.int32) + lg.tensor(1.5)).dtype is lg.float32
    assert (lg.ones(1, dtype=lg.float16) + 1).dtype is lg.float16


def test_random_numbers_repeat() -> None:
    lg.manual_seed(3)
    first = lg.randn(4).tolist()
    lg.manual_seed(3)
    assert lg.randn(4).tolist() == first


def test_saving() -> None:
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    file = io.BytesIO()
    lg.save(net.state_dict(), file)
    file.seek(0)
    other.load_state_dict(lg.load(file))
    assert lg.equal(net.weight, other.weight)


def test_errors_come_at_the_line() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2|inner|shapes"):
        lg.ones(2, 3) @ lg.ones(2, 3)
    with pytest.raises(IndexError, match=r"test_tiny\.py"):
        lg.ones(3)[lg.tensor([2, 3]) * 2].tolist()


def test_what_happened_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lg.softmax(lg.ones(2, 2), 1).tolist()
    lg.explain()
    assert "flushed because of tolist()" in capsys.readouterr().out


@pytest.mark.skipif(not is_known(), reason="an interpreter we do not know")
def test_every_hot_function_can_be_translated() -> None:
    # One that cannot leaves all of them to Python: programs are slower, and nothing else shows it.
    with original_functions():
        made = translate_unit(slots_of(CLASSES), FUNCTIONS)
    assert FUNCTIONS[-1].__name__ in made.ir
