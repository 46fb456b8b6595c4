"""A registered device: moves, arithmetic, gradients, training, saving, and refusals."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.device import CPU
from tests.devices.reference import BACKEND, DEVICE


def there(*shape, **options):
    return lg.randn(*shape, device=DEVICE, **options)


def test_moves_both_ways_keep_values_dtypes_and_strides():
    for dtype in (lg.float32, lg.float64, lg.bfloat16, lg.int16, lg.bool, lg.complex64):
        x = (lg.arange(6).reshape(2, 3) % 2).to(dtype).t()
        y = x.to("reference")
        assert (y.device, y.dtype, y.shape, y.stride()) == (DEVICE, dtype, x.shape, x.stride())
        assert not y.is_cpu
        assert y.cpu().tolist() == x.tolist()
    assert y.to(DEVICE) is y
    assert y.cpu().device is CPU


def test_creation_on_the_device():
    with lg.device("reference"):
        made = [lg.zeros(2, 3), lg.tensor([1.0, 2.0]), lg.rand(3), lg.arange(4), lg.eye(2)]
        made += [lg.full((2,), 7), lg.randint(0, 5, (3,)), lg.randperm(4), lg.linspace(0, 1, 3)]
        made += [lg.empty(2), nn.Linear(2, 3).weight]
    assert {x.device for x in made} == {DEVICE}
    x = there(2)
    made = [lg.zeros_like(x), lg.rand_like(x), x.new_zeros(3), x.clone(), x.new_tensor([1.0])]
    assert {y.device for y in made} == {DEVICE}


def test_operations_run_there():
    before = BACKEND.runs
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]], device=DEVICE)
    results = [x + 1, x @ x, x.sum(), x[0], x.t(), x.softmax(1), x.sort().values, lg.cat([x, x])]
    assert {y.device for y in results} == {DEVICE}
    assert BACKEND.runs >= before + len(results)
    assert (x @ x).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert x.sum().item() == 10.0
    assert "device='reference'" in repr(x)


def test_numbers_of_the_cpu_go_along():
    x = lg.ones(2, device=DEVICE)
    assert (x * lg.tensor(3.0)).tolist() == [3.0, 3.0]
    w = lg.tensor(2.0, requires_grad=True)
    (x * w).sum().backward()
    assert w.grad.item() == 2.0
    assert w.grad.device is CPU


@pytest.mark.parametrize(
    "mix", [lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: lg.cat([a, b])]
)
def test_devices_do_not_mix(mix):
    here, other = lg.ones(2), lg.ones(2, device=DEVICE)
    for a, b in ((here, other), (other, here)):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but"
        ):
            mix(a, b)
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        mix(lg.ones(2, device="meta"), other)


def test_memory_is_not_numpys():
    with pytest.raises(TypeError, match="can't convert reference device type tensor to numpy"):
        there(2).numpy()


def test_gradients_cross_devices():
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(DEVICE)
    (y * y).sum().cpu().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.grad.device is CPU
    z = lg.tensor([3.0], device=DEVICE, requires_grad=True)
    (z.exp() * 2).sum().backward()
    assert z.grad.device is DEVICE


def test_writes_and_views():
    x = lg.zeros(2, 3, device=DEVICE)
    x[0] = 1.0
    x.t()[2].add_(5)
    assert x.tolist() == [[1.0, 1.0, 6.0], [0.0, 0.0, 5.0]]
    x.copy_(lg.ones(2, 3))  # from the CPU
    here = lg.zeros(2, 3)
    here.copy_(x)
    assert here.tolist() == [[1.0] * 3] * 2
    assert (x.device, here.device) == (DEVICE, CPU)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW], ids=lambda f: f.__name__)
def test_training_is_that_of_the_cpu(make):
    losses = []
    for device in (CPU, DEVICE):
        lg.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
        x, y = lg.randn(16, 4), lg.randint(0, 3, (16,))
        model = model.to(device)
        optimizer = make(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        assert {p.device for p in model.parameters()} == {device}
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_saved_and_loaded():
    x = there(3)
    file = io.BytesIO()
    lg.save({"x": x}, file)
    file.seek(0)
    loaded = lg.load(file)["x"]
    assert loaded.device is CPU
    assert loaded.tolist() == x.tolist()
    file.seek(0)
    assert lg.load(file, map_location="reference")["x"].device is DEVICE


def test_copies_stay_there():
    x = there(3, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert (y.device, y.requires_grad, y.tolist()) == (DEVICE, True, x.tolist())


def test_an_error_leaves_nothing_half_done():
    x = lg.zeros(2, device=DEVICE)
    with pytest.raises(RuntimeError):
        x.copy_(lg.ones(3))
    with pytest.raises(IndexError):
        x[lg.tensor(5)]
    assert x.tolist() == [0.0, 0.0]


def test_values_are_numpys_own():
    x = there(4)
    np.testing.assert_allclose(np.array(x.exp().tolist()), np.exp(np.array(x.tolist())), rtol=1e-6)


def test_unknown_devices_are_refused_as_ever():
    with pytest.raises(RuntimeError, match="device string"):
        lg.ones(2, device="nowhere")
    with pytest.raises(AssertionError):
        lg.ones(2, device="cuda")
