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
from livegrad.device import CPU, backend_of
from livegrad.graph.state import reference_mode
from livegrad.runtime.plans import forget_plans
from tests.devices import planned, reference


@pytest.fixture(params=[reference.DEVICE, planned.DEVICE], ids=str)
def device(request):
    return request.param


def test_moves_both_ways_keep_values_dtypes_and_strides(device):
    for dtype in (lg.float32, lg.float64, lg.bfloat16, lg.int16, lg.bool, lg.complex64):
        x = (lg.arange(6).reshape(2, 3) % 2).to(dtype).t()
        y = x.to(str(device))
        assert (y.device, y.dtype, y.shape, y.stride()) == (device, dtype, x.shape, x.stride())
        assert not y.is_cpu
        assert y.cpu().tolist() == x.tolist()
    assert y.to(device) is y
    assert y.cpu().device is CPU


def test_creation_on_the_device(device):
    with lg.device(str(device)):
        made = [lg.zeros(2, 3), lg.tensor([1.0, 2.0]), lg.rand(3), lg.arange(4), lg.eye(2)]
        made += [lg.full((2,), 7), lg.randint(0, 5, (3,)), lg.randperm(4), lg.linspace(0, 1, 3)]
        made += [lg.empty(2), nn.Linear(2, 3).weight]
    assert {x.device for x in made} == {device}
    x = lg.randn(2, device=device)
    made = [lg.zeros_like(x), lg.rand_like(x), x.new_zeros(3), x.clone(), x.new_tensor([1.0])]
    assert {y.device for y in made} == {device}


def test_operations_run_there(device):
    backend = backend_of(device)
    before = backend.runs
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    results = [x + 1, x @ x, x.sum(), x[0], x.t(), x.softmax(1), x.sort().values, lg.cat([x, x])]
    assert {y.device for y in results} == {device}
    assert backend.runs == before  # they wait until a value is needed
    results[0].tolist()
    # One plan for all, or node by node.
    assert backend.runs - before == 1 if device is planned.DEVICE else len(results)
    assert (x @ x).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert x.sum().item() == 10.0
    assert f"device='{device}'" in repr(x)


def test_numbers_of_the_cpu_go_along(device):
    x = lg.ones(2, device=device)
    assert (x * lg.tensor(3.0)).tolist() == [3.0, 3.0]
    w = lg.tensor(2.0, requires_grad=True)
    (x * w).sum().backward()
    assert w.grad.item() == 2.0
    assert w.grad.device is CPU


@pytest.mark.parametrize(
    "mix", [lambda a, b: a + b, lambda a, b: a @ b, lambda a, b: lg.cat([a, b])]
)
def test_devices_do_not_mix(mix, device):
    here, other = lg.ones(2), lg.ones(2, device=device)
    for a, b in ((here, other), (other, here)):
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but"
        ):
            mix(a, b)
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        mix(lg.ones(2, device="meta"), other)


def test_memory_is_not_numpys(device):
    with pytest.raises(TypeError, match=f"can't convert {device} device type tensor to numpy"):
        lg.randn(2, device=device).numpy()


def test_gradients_cross_devices(device):
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(device)
    (y * y).sum().cpu().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.grad.device is CPU
    z = lg.tensor([3.0], device=device, requires_grad=True)
    (z.exp() * 2).sum().backward()
    assert z.grad.device is device


def test_writes_and_views(device):
    x = lg.zeros(2, 3, device=device)
    x[0] = 1.0
    x.t()[2].add_(5)
    assert x.tolist() == [[1.0, 1.0, 6.0], [0.0, 0.0, 5.0]]
    x.copy_(lg.ones(2, 3))  # from the CPU
    here = lg.zeros(2, 3)
    here.copy_(x)
    assert here.tolist() == [[1.0] * 3] * 2
    assert (x.device, here.device) == (device, CPU)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW], ids=lambda f: f.__name__)
def test_training_is_that_of_the_cpu(make, device):
    losses = []
    for place in (CPU, device):
        lg.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))
        x, y = lg.randn(16, 4), lg.randint(0, 3, (16,))
        model = model.to(place)
        optimizer = make(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to(place)), y.to(place))
            loss.backward()
            optimizer.step()
        assert {p.device for p in model.parameters()} == {place}
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_saved_and_loaded(device):
    x = lg.randn(3, device=device)
    file = io.BytesIO()
    lg.save({"x": x}, file)
    file.seek(0)
    loaded = lg.load(file)["x"]
    assert loaded.device is CPU
    assert loaded.tolist() == x.tolist()
    file.seek(0)
    assert lg.load(file, map_location=str(device))["x"].device is device


def test_copies_stay_there(device):
    x = lg.randn(3, device=device, requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert (y.device, y.requires_grad, y.tolist()) == (device, True, x.tolist())


def test_an_error_leaves_nothing_half_done(device):
    x = lg.zeros(2, device=device)
    with pytest.raises(RuntimeError):
        x.copy_(lg.ones(3))
    with pytest.raises(IndexError):
        x[lg.tensor(5)]
    assert x.tolist() == [0.0, 0.0]


def test_values_are_numpys_own(device):
    x = lg.randn(4, device=device)
    np.testing.assert_allclose(np.array(x.exp().tolist()), np.exp(np.array(x.tolist())), rtol=1e-6)


def test_unknown_devices_are_refused_as_ever():
    with pytest.raises(RuntimeError, match="device string"):
        lg.ones(2, device="nowhere")
    with pytest.raises(AssertionError):
        lg.ones(2, device="cuda")


# ------------------------------------------------------------------- computed together, and late


def test_what_is_dead_is_not_computed(device):
    x = lg.ones(3, device=device)
    x.tolist()
    before = backend_of(device).runs
    for _ in range(5):
        x.exp()
    y = x + 1
    assert y.tolist() == [2.0] * 3
    assert backend_of(device).runs == before + 1


def test_a_refused_value_is_an_error_of_its_line(device):
    x = lg.arange(4.0, device=device)
    index = lg.tensor([1, 9]).to(device)
    kept = x * 2
    picked = x[index]  # refused
    after = picked + 1
    with pytest.raises(IndexError, match=r"test_registered_device.py:\d+: picked = x\[index\]"):
        after.tolist()
    assert kept.tolist() == [0.0, 2.0, 4.0, 6.0]
    with pytest.raises(IndexError):  # it still has no value
        after.tolist()


def test_a_refused_write_is_taken_back(device):
    x = lg.zeros(3, device=device)
    x.index_copy_(0, lg.tensor([7]).to(device), lg.ones(1, device=device))
    with pytest.raises((IndexError, RuntimeError)):
        x.tolist()
    assert x.tolist() == [0.0] * 3


def test_devices_wait_side_by_side(device):
    here, other = lg.arange(3.0), lg.arange(3.0, device=device)
    third = lg.arange(3.0, device=planned.DEVICE if device is reference.DEVICE else "reference")
    sums = [x.exp().log() for x in (here, other, third)]
    sums = [y * 2 + x for x, y in zip((here, other, third), sums, strict=True)]
    for y in sums:
        np.testing.assert_allclose(y.tolist(), [0.0, 3.0, 6.0], rtol=1e-6)


def test_an_error_on_one_device_is_none_on_another(device):
    here = lg.arange(3.0) + 1
    bad = lg.arange(3.0, device=device)[lg.tensor([5]).to(device)]
    with pytest.raises(IndexError):
        bad.tolist()
    assert here.tolist() == [1.0, 2.0, 3.0]


def test_random_numbers_are_the_same(device):
    drawn = []
    for place in (CPU, device):
        lg.manual_seed(4)
        made = lg.rand(5, device=place), lg.randint(0, 9, (5,), device=place)
        drawn.append([x.tolist() for x in made])
    assert drawn[0] == drawn[1]


def test_values_that_were_dropped_are_computed_again(device):
    x = lg.ones(2, device=device, requires_grad=True)
    y = x * 3
    z = (y * y).sum()
    z.item()
    z.backward()
    assert x.grad.tolist() == [18.0, 18.0]


def test_reference_mode_is_for_all_devices(device):
    with reference_mode():
        assert (lg.ones(2, device=device) + 1).sum().item() == 4.0


# ------------------------------------------------------------------------------------ whole plans


def test_a_plan_is_found_again():
    plans = planned.BACKEND.plans
    step = lambda x: (x.softmax(1) * 2).sum(0).tolist()
    for value in range(4):
        x = lg.full((3, 4), float(value)).to(planned.DEVICE)
        count = len(plans)
        step(x)
    assert len(plans) == count
    assert len(plans[-1].steps) <= 2  # fused as for the CPU


@pytest.mark.usefixtures("whole_plans")
def test_plans_are_those_of_the_cpu():
    """The plan that the CPU makes runs there as it is: nothing in it says where."""
    x = lg.randn(3, 4)
    x.tolist()
    made = []
    for place in (CPU, planned.DEVICE):
        y = x.to(place)
        with lg.events.listen("planned", lambda e: made.append([step.kernel for step in e.steps])):
            forget_plans()
            F.layer_norm(y.tanh(), (4,)).sum(1).tolist()
    assert made[0] == made[1]


def test_reading_waits():
    x = lg.ones(3, device=planned.DEVICE) * 2
    lg.ones(1).tolist()  # a flush computes everything: there it is begun
    assert planned.BACKEND.queue
    assert x.tolist() == [2.0] * 3
    assert not planned.BACKEND.queue
