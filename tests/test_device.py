"""Devices as names, the default device, and tensors without data (the meta device)."""

import copy
import pickle
import threading

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim
from livegrad.runtime.counters import counters


def meta(*shape, **options):
    return lg.ones(shape, device="meta", **options)


def test_a_device_is_a_name():
    first = lg.device("cuda", 1)
    assert first == lg.device("cuda:1") == lg.device(first) == lg.device(type="cuda", index=1)
    assert hash(first) == hash(lg.device("cuda:1"))
    assert (first.type, first.index, str(first)) == ("cuda", 1, "cuda:1")
    assert repr(first) == "device(type='cuda', index=1)"
    assert repr(lg.device("cpu")) == "device(type='cpu')"
    assert first != lg.device("cuda")
    assert lg.device("cpu") != lg.device("cpu:0")
    assert first != "cuda:1"
    assert pickle.loads(pickle.dumps(first)) == copy.copy(first) == first
    assert {first: 1}[lg.device("cuda:1")] == 1
    with pytest.raises(AttributeError):
        first.index = 2


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (("gpu",), RuntimeError, "Expected one of cpu, cuda"),
        (("cuda:x",), RuntimeError, "Invalid device string: 'cuda:x'"),
        (("",), RuntimeError, "must not be empty"),
        (("cuda", -1), RuntimeError, "must not be negative"),
        (("cuda:1", 2), RuntimeError, "must not include an index"),
        ((0,), RuntimeError, "none is available"),
        ((None,), TypeError, "invalid combination"),
        ((), TypeError, "invalid combination"),
        (("cpu", 0, 1), TypeError, "invalid combination"),
    ],
)
def test_what_is_no_device(args, error, text):
    with pytest.raises(error, match=text):
        lg.device(*args)


@pytest.mark.parametrize(
    "use",
    [
        lambda d: lg.zeros(2, device=d),
        lambda d: lg.randn(2, device=d),
        lambda d: lg.ones(2).to(d),
        lambda d: lg.tensor([1], device=d),
        lambda d: nn.Linear(2, 2, device=d),
        lambda d: nn.Linear(2, 2).to(d),
    ],
)
@pytest.mark.parametrize(
    ("device", "error"), [("cuda:1", AssertionError), ("mps", NotImplementedError)]
)
def test_nothing_can_be_made_elsewhere(use, device, error):
    with pytest.raises(error, match=f"no device '{device.partition(':')[0]}'"):
        use(device)
    with lg.device(device):
        assert lg.get_default_device() == lg.device(device)
        with pytest.raises(error):
            lg.ones(2)
    assert lg.ones(2, device="cpu:0").device == lg.device("cpu")


def test_the_default_device_belongs_to_a_thread():
    seen = []
    lg.set_default_device("meta")
    try:
        worker = threading.Thread(target=lambda: seen.append(lg.ones(2).device.type))
        worker.start()
        worker.join()
        assert lg.ones(2).is_meta
    finally:
        lg.set_default_device(None)
    assert seen == ["cpu"]
    assert lg.ones(2).tolist() == [1.0, 1.0]


def test_a_context_ends_with_an_error_too():
    with pytest.raises(ZeroDivisionError), lg.device("meta"):
        1 / 0
    assert not lg.ones(2).is_meta


def test_nothing_is_computed_and_nothing_allocated():
    lg.zeros(1).item()
    nodes, flushes = counters.nodes_recorded, counters.flushes
    net = nn.Sequential(
        nn.Linear(8, 1 << 20, device="meta"), nn.ReLU(), nn.LayerNorm(1 << 20, device="meta")
    )
    y = net(meta(1 << 30, 8))
    assert y.shape == (1 << 30, 1 << 20)
    y.sum().backward()
    grads = [p.grad for p in net.parameters()]
    assert all(
        g.is_meta and g.shape == p.shape for g, p in zip(grads, net.parameters(), strict=True)
    )
    lg.zeros(1).item()
    assert counters.flushes == flushes + 1
    assert counters.nodes_recorded == nodes + 1
    assert repr(y).startswith("tensor(..., device='meta', size=(1073741824, 1048576)")


def test_no_node_without_data_is_pending():
    from livegrad.graph.state import LOCAL

    lg.zeros(1).item()
    x = meta(3, requires_grad=True)
    y = (x.exp() * 2 + x.to(lg.float64)).sum().relu()
    y.backward()
    assert LOCAL.state.nodes == []
    assert x.grad.is_meta
    with pytest.raises(NotImplementedError, match="no data"):
        x.detach().tolist()


def test_mixing_is_refused():
    for call in (
        lambda: meta(2) + lg.ones(2),
        lambda: lg.ones(2, 2) @ meta(2, 2),
        lambda: lg.stack([lg.ones(2), meta(2)]),
        lambda: lg.ones(2).add_(meta(2)),
        lambda: nn.Linear(2, 2)(meta(1, 2)),
        lambda: lg.where(lg.ones(2) > 0, meta(2), 0.0),
    ):
        with pytest.raises(RuntimeError, match="is not on the expected device"):
            call()
    assert (meta(2) * lg.tensor(3.0)).is_meta
    assert meta(4, 2)[lg.tensor([1, 2])].shape == (2, 2)


def test_values_can_be_written_in_but_not_out():
    x = meta(2, 3)
    row = x[0]
    row += 1
    x[1] = lg.ones(3)
    x.copy_(lg.ones(2, 3))
    x.t().zero_()
    assert x.is_meta
    assert row.is_meta
    for write in (
        lambda: lg.ones(2, 3).copy_(x),
        lambda: lg.ones(2, 3).__setitem__(0, x[0]),
        lambda: lg.add(x, x, out=lg.ones(2, 3)),
        lambda: x.cpu(),
        lambda: np.array(x.tolist()),
    ):
        with pytest.raises(NotImplementedError, match="no data"):
            write()


def test_initialisers_draw_nothing():
    before = lg.get_rng_state().tolist()
    with lg.device("meta"):
        nn.TransformerEncoderLayer(8, 2, 16)
        nn.init.orthogonal_(lg.empty(3, 3))
        nn.init.trunc_normal_(lg.empty(3, 3))
        lg.randn(3).uniform_()
    assert lg.get_rng_state().tolist() == before


def test_a_model_without_data_gets_memory_and_values():
    source = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with lg.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    assert sum(p.numel() for p in model.parameters()) == 24
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model.to_empty(device="cpu")
    model.load_state_dict(source.state_dict())
    x = lg.randn(5, 3)
    np.testing.assert_array_equal(model(x).detach().numpy(), source(x).detach().numpy())
    model(x).pow(2).sum().backward()
    optimizer.step()  # its parameters are the model's still
    assert not lg.equal(model[0].weight, source[0].weight)
    with lg.device("meta"):
        other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(source.state_dict(), assign=True)
    for key, value in source.state_dict().items():
        assert lg.equal(other.state_dict()[key], value)


def test_state_dicts_without_data_can_be_saved(tmp_path):
    module = nn.Linear(3, 2, device="meta")
    lg.save(module.state_dict(), tmp_path / "a.pt")
    back = lg.load(tmp_path / "a.pt")
    assert {k: (v.device.type, tuple(v.shape)) for k, v in back.items()} == {
        "weight": ("meta", (2, 3)),
        "bias": ("meta", (2,)),
    }
    with pytest.raises(NotImplementedError, match="no data"):
        lg.save(module.state_dict(), tmp_path / "a.safetensors")


def test_lookups_of_data_are_refused():
    x = meta(3)
    for ask in (x.nonzero, x.unique, lambda: x[x > 0], lambda: x.masked_select(x > 0)):
        with pytest.raises(NotImplementedError, match="no data"):
            ask()
    for ask in (lambda: meta().item(), lambda: bool(meta()), lambda: float(meta())):
        with pytest.raises(RuntimeError, match="cannot be called on meta tensors"):
            ask()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()


def test_a_program_that_is_translated_refuses_too(monkeypatch):
    """Recording takes the same way after the hot functions were replaced by native ones."""
    from livegrad.runtime.speedup import FLUSHES_BEFORE

    for _ in range(FLUSHES_BEFORE + 2):
        lg.ones(1).item()
    x = meta(2, requires_grad=True)
    y = (x.exp() + x * 2 + 1).sum()
    assert y.is_meta
    y.backward()
    assert x.grad.is_meta
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        lg.ones(2) * x
