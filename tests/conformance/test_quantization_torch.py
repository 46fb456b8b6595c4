"""Quantisation against PyTorch's: observers, fake quantisation, and how near layers come."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import compress, nn

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    quantization = torch.ao.quantization

rng = np.random.default_rng(0)
DATA = [rng.normal(0.3, 1.5, (6, 5, 4)).astype(np.float32) for _ in range(3)]

OBSERVERS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "affine": ("MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_affine"}, {}),
    "symmetric": ("MinMaxObserver", {"dtype": "qint8", "qscheme": "per_tensor_symmetric"}, {}),
    "unsigned symmetric": (
        "MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_symmetric"}, {},
    ),
    "reduced": (
        "MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_affine"},
        {"reduce_range": True},
    ),
    "seven bits": (
        "MinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_affine"},
        {"quant_min": 0, "quant_max": 127},
    ),
    "average": (
        "MovingAverageMinMaxObserver", {"dtype": "quint8", "qscheme": "per_tensor_affine"},
        {"averaging_constant": 0.3},
    ),
    "channels": (
        "PerChannelMinMaxObserver", {"dtype": "qint8", "qscheme": "per_channel_symmetric"},
        {"ch_axis": 1},
    ),
    "average of channels": (
        "MovingAveragePerChannelMinMaxObserver",
        {"dtype": "quint8", "qscheme": "per_channel_affine"},
        {"ch_axis": 2, "averaging_constant": 0.3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OBSERVERS)
@pytest.mark.filterwarnings("ignore")
def test_observers(case: str) -> None:
    name, told, more = OBSERVERS[case]
    found = []
    for library, module in ((lg, compress), (torch, quantization)):
        arguments = {key: getattr(library, value) for key, value in told.items()}
        observer = getattr(module, name)(**arguments, **more)
        for x in DATA:
            observer(library.tensor(x))
        scale, zero = observer.calculate_qparams()
        found.append((np.asarray(scale.reshape(-1)), np.asarray(zero.reshape(-1))))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-6)
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("per_channel", [False, True])
def test_fake_quantize(per_channel: bool) -> None:
    found = []
    for library in (lg, torch):
        x = library.tensor(DATA[0] * 4, requires_grad=True)
        if per_channel:
            scales = library.tensor(np.linspace(0.01, 0.2, 5).astype(np.float32))
            zeros = library.tensor([0, 3, 60, 128, 255]).to(library.int32)
            y = library.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 255)
        else:
            y = library.fake_quantize_per_tensor_affine(x, 0.05, 100, 0, 255)
        (y * y).sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_dynamic_layers_come_as_near() -> None:
    """Of one layer's error, that of PyTorch's is a bound: its steps are those of all rows."""
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(96, 64))
    ours = nn.Sequential(nn.Linear(96, 64))
    ours.load_state_dict({k: lg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = rng.normal(size=(40, 96)).astype(np.float32)
    exact = theirs(torch.tensor(x)).detach().numpy()
    small = compress.quantize_dynamic(ours, {nn.Linear}, dtype=lg.qint8)
    found = small(lg.tensor(x)).detach().numpy()
    other = quantization.quantize_dynamic(theirs, {torch.nn.Linear}, dtype=torch.qint8)
    bound = np.abs(other(torch.tensor(x)).detach().numpy() - exact).mean()
    assert np.abs(found - exact).mean() <= bound


def test_names_of_pytorch() -> None:
    """What its module has and programs use is here under the same name."""
    wanted = """QConfig QuantStub DeQuantStub QuantWrapper FakeQuantize FakeQuantizeBase
        MinMaxObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver HistogramObserver
        MovingAveragePerChannelMinMaxObserver PlaceholderObserver NoopObserver ObserverBase
        add_quant_dequant convert default_dynamic_qconfig default_fake_quant default_observer
        default_per_channel_qconfig default_per_channel_weight_observer default_qat_qconfig
        default_qconfig default_weight_fake_quant default_weight_observer disable_fake_quant
        disable_observer enable_fake_quant enable_observer float_qparams_weight_only_qconfig
        fuse_modules get_default_qat_qconfig get_default_qconfig per_channel_dynamic_qconfig prepare
        prepare_qat propagate_qconfig_ quantize quantize_dynamic quantize_qat"""
    for name in wanted.split():
        assert hasattr(quantization, name), name
        assert hasattr(compress, name), name
