"""Quantised models: near the ones they were made of, smaller, saved and loaded; refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import compress, nn
from livegrad.compress import layers
from livegrad.datasets import digits_split
from livegrad.graph.state import flush
from livegrad.runtime.report import last_steps
from livegrad.vision.models import lenet

Array = np.ndarray[Any, Any]


def error(found: Any, wanted: Any) -> float:
    """The greatest difference, as a share of the greatest value."""
    return float(((found - wanted).abs().max() / wanted.abs().max()).item())


def calibrated(model: nn.Module, *inputs: Any, config: Any = None) -> Any:
    model.eval()
    model.qconfig = config or compress.get_default_qconfig()
    prepared = compress.prepare(model)
    prepared(*inputs)
    return compress.convert(prepared)


def by_hand(x: Array, layer: Any) -> Array:
    """What a static Linear gives, by its definition, in integers."""
    step, zero = float(layer.scale.item()), int(layer.zero_point.item())
    q = np.clip(np.round(x * np.float32(1 / step)) + zero, 0, 255).astype(np.int64)
    sums = (q - zero) @ layer.weight.numpy().astype(np.int64).T
    out = sums.astype(np.float32) * (layer.weight_scale.numpy() * np.float32(step))
    return np.asarray(out + layer.bias.numpy())


# ---------------------------------------------------------------------------------- values


@pytest.mark.parametrize("shape", [(4, 37), (2, 3, 37), (37,), (0, 37)])
def test_static_linear_is_what_it_says(shape: tuple[int, ...]) -> None:
    lg.manual_seed(0)
    model = calibrated(nn.Sequential(nn.Linear(37, 21)), lg.randn(64, 37))
    x = lg.randn(*shape) * 2
    found = model(x)
    assert found.shape == (*shape[:-1], 21)
    np.testing.assert_allclose(found.numpy(), by_hand(x.numpy(), model[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 4, 64, 259])
@pytest.mark.parametrize("outputs", [1, 5, 40])
def test_dynamic_linear_is_near(size: int, outputs: int) -> None:
    lg.manual_seed(0)
    layer = nn.Linear(size, outputs)
    x = lg.randn(6, size) * 3
    small = compress.quantize_dynamic(nn.Sequential(layer))
    assert error(small(x), layer(x)) < 0.03


def test_a_row_is_the_same_alone() -> None:
    lg.manual_seed(0)
    small = compress.quantize_dynamic(nn.Sequential(nn.Linear(40, 8)))
    x = lg.cat([lg.randn(1, 40), lg.randn(5, 40) * 100])
    assert small(x)[0].tolist() == small(x[0]).tolist()


def test_zeros_stay_zeros() -> None:
    small = compress.quantize_dynamic(nn.Sequential(nn.Linear(9, 3)))
    assert small(lg.zeros(2, 9)).tolist() == [small[0].bias.tolist()] * 2


CONVS = [
    (nn.Conv2d(1, 6, 5, padding=2), (3, 1, 9, 9)),
    (nn.Conv2d(6, 9, 3, stride=2), (20, 6, 9, 8)),
    (nn.Conv2d(5, 4, (3, 2), dilation=2, padding="same"), (2, 5, 9, 8)),
    (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), (2, 4, 6, 6)),
    (nn.Conv2d(4, 8, 3, groups=2, padding=1), (2, 4, 6, 6)),
    (nn.Conv2d(8, 8, 1), (2, 8, 4, 4)),
    (nn.Conv1d(3, 5, 4, bias=False), (2, 3, 11)),
    (nn.Conv1d(3, 5, 4, dilation=3, stride=2), (2, 3, 31)),
    (nn.Conv3d(2, 3, 2, padding=1), (2, 2, 4, 5, 6)),
]


@pytest.mark.parametrize(("layer", "shape"), CONVS, ids=lambda x: str(x)[:40])
def test_convolutions_are_near(layer: Any, shape: tuple[int, ...]) -> None:
    lg.manual_seed(0)
    lg.nn.init.uniform_(layer.weight, -1, 1)
    x = lg.randn(*shape) + 0.3
    config = compress.QConfig(compress.MinMaxObserver, compress.default_per_channel_weight_observer)
    small = calibrated(nn.Sequential(layer), x, config=config)
    assert error(small(x), layer(x)) < 0.03
    assert error(small(x[0]), layer(x[0])) < 0.03


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_are_near(kind: Any) -> None:
    lg.manual_seed(0)
    layer = kind(12, 20, 2, bidirectional=True, batch_first=True)
    x = lg.randn(3, 7, 12)
    small = compress.quantize_dynamic(layer)
    assert error(small(x)[0], layer(x)[0]) < 0.03
    large = kind(64, 64)
    small = compress.quantize_dynamic(large)
    assert compress.size_on_disk(small) * 3 < compress.size_on_disk(large)


def test_embeddings() -> None:
    table = nn.Embedding(30, 16)
    small = compress.quantize_dynamic(nn.Sequential(table), {nn.Embedding})
    ids = lg.tensor([[1, 29], [0, 3]])
    assert error(small(ids), table(ids)) < 0.01
    with pytest.raises(IndexError):
        small(lg.tensor([30])).tolist()


def test_half_precision_in_and_out() -> None:
    small = compress.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)))
    assert small(lg.randn(2, 8).half()).dtype is lg.float16


@pytest.mark.usefixtures("whole_plans")
def test_kernels_of_layers() -> None:
    """Rounding is one kernel by rows; or it is fused with the layer before."""
    x = lg.randn(8, 64)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    for small, wanted in (
        (compress.quantize_dynamic(net), ["loops", "product", "loops", "product"]),
        (calibrated(net, x), ["loops", "product", "product"]),
    ):
        small(x).tolist()
        with lg.no_grad():
            y = small(x)
        flush("a test", y._node)
        assert [step.kind for step in last_steps()] == wanted


# ------------------------------------------------------------------------------- accuracy


def trained_lenet() -> tuple[Any, Any, Any]:
    split = [lg.tensor(x) for x in digits_split()]
    images, tests = [F.interpolate(x[:, None], (16, 16)) for x in (split[0], split[2])]
    lg.manual_seed(0)
    model = lenet(image_size=16)
    optimizer = lg.optim.Adam(model.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    for _ in range(150):
        rows = lg.tensor(rng.integers(0, len(images), 64))
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), split[1][rows]).backward()
        optimizer.step()
    return model.eval(), images, (tests, split[3])


def test_lenet_stays_as_good(tmp_path: Path) -> None:
    model, images, (tests, labels) = trained_lenet()

    def accuracy(net: Any) -> float:
        return float((net(tests).argmax(1) == labels).float().mean().item())

    small = calibrated(model, images[:256])
    report = compress.compare({"float": model, "int8": small}, tests[:4], score=accuracy, repeats=1)
    before, after = report["float"], report["int8"]
    assert before.score is not None
    assert before.score > 0.93
    assert after.score is not None
    assert after.score > before.score - 0.01
    assert report.smaller("int8") > 3
    assert report["int8"].packed < report["int8"].nbytes
    assert "int8" in str(report)
    assert "smaller" in str(report)
    lg.save(small, tmp_path / "small.safetensors")
    again = lg.load(tmp_path / "small.safetensors")
    assert again(tests).tolist() == small(tests).tolist()


def test_state_dicts() -> None:
    lg.manual_seed(0)
    x = lg.randn(6, 3, 8, 8)

    def made(seed: int) -> Any:
        lg.manual_seed(seed)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
        return calibrated(net, x * seed)

    one, other = made(1), made(2)
    before = one(x).tolist()
    other(x).tolist()  # what is made ready is made anew after loading
    other.load_state_dict(one.state_dict())
    assert other(x).tolist() == before
    assert {v.dtype for k, v in one.state_dict().items() if k.endswith(".weight")} == {lg.int8}


# ------------------------------------------------------------------------------- learning


def test_fake_quantize() -> None:
    x = lg.tensor([-0.4, 0.12, 0.38, 9.0], requires_grad=True)
    y = lg.fake_quantize_per_tensor_affine(x, 0.25, 1, 0, 7)
    assert y.tolist() == [-0.25, 0.0, 0.5, 1.5]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_learning_with_rounding() -> None:
    lg.manual_seed(0)
    x, labels = lg.randn(64, 8), lg.randint(0, 3, (64,))
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    model.qconfig = compress.get_default_qat_qconfig()
    learning = compress.prepare_qat(model)
    assert learning[0].weight is not model[0].weight
    optimizer = lg.optim.Adam(learning.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(learning(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] * 0.6
    learning.eval()
    learning.apply(compress.disable_observer)
    small = compress.convert(learning)
    assert isinstance(small[0], layers.Linear)
    # What was learnt is what runs: both round alike, up to what lies on an edge of two steps.
    assert error(small(x), learning(x)) < 0.01


# ------------------------------------------------------------------------------ observers


def test_ranges_of_observers() -> None:
    x, y = lg.tensor([-1.0, 2.0]), lg.tensor([-3.0, 1.0])
    plain = compress.MinMaxObserver()
    average = compress.MovingAverageMinMaxObserver(averaging_constant=0.5)
    for observer in (plain, average):
        observer(x)
        observer(y)
    assert [v.item() for v in plain.extremes()] == [-3.0, 2.0]
    assert [v.item() for v in average.extremes()] == [-2.0, 1.5]
    scale, zero = plain.calculate_qparams()
    assert scale.item() == pytest.approx(5 / 255)
    assert zero.item() == 153
    channels = compress.PerChannelMinMaxObserver(
        dtype=compress.qint8, qscheme=compress.per_channel_symmetric
    )
    channels(lg.tensor([[1.0, -2.0], [4.0, 0.0]]))
    scale, zero = channels.calculate_qparams()
    assert scale.tolist() == pytest.approx([2 / 127.5, 4 / 127.5])
    assert zero.tolist() == [0, 0]


@pytest.mark.parametrize("method", ["mse", "entropy", "percentile"])
def test_histograms_cut_what_is_rare(method: str) -> None:
    lg.manual_seed(0)
    observer = compress.HistogramObserver(method=method, percentile=99.9)
    for _ in range(4):
        observer(lg.randn(4000))
    observer(lg.tensor([400.0]))
    low, high = [v.item() for v in observer.extremes()]
    assert -6 < low < -2
    assert high < 400


def test_nothing_seen() -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    model.qconfig = compress.default_qconfig
    with pytest.raises(RuntimeError, match="layer 0.*no values were seen"):
        compress.convert(compress.prepare(model))


# ------------------------------------------------------------------------------- refusals


def test_refusals() -> None:
    model = nn.Sequential(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="no layer has a qconfig"):
        compress.prepare(model)
    with pytest.raises(ValueError, match="no layer is prepared"):
        compress.convert(model)
    with pytest.raises(ValueError, match="no quantised layer for Conv2d"):
        compress.quantize_dynamic(model, {nn.Conv2d})
    with pytest.raises(ValueError, match="call model.train"):
        compress.prepare_qat(model.eval())
    with pytest.raises(ValueError, match="got backend 'tpu'"):
        compress.get_default_qconfig("tpu")
    small = compress.quantize_dynamic(model)
    with pytest.raises(RuntimeError, match="inner sizes differ"):
        small(lg.zeros(2, 4))
    with pytest.raises(RuntimeError, match="expected floating-point"):
        small(lg.zeros(2, 3, dtype=lg.int64))


def test_names_choose_layers() -> None:
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Sequential(nn.Linear(3, 3))})
    small = compress.quantize_dynamic(net, {"b"})
    assert type(small["a"]) is nn.Linear
    assert type(small["b"][0]) is layers.Linear
    assert type(net["b"][0]) is nn.Linear  # the model itself is as it was


def test_batch_norms_are_folded() -> None:
    lg.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU())
    net[1].running_mean.uniform_()
    x = lg.randn(2, 2, 6, 6)
    fused = compress.fuse_modules(net.eval(), ["0", "1", "2"])
    assert type(fused[1]) is nn.Identity
    np.testing.assert_allclose(
        fused(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(NotImplementedError, match="cannot fuse ReLU, Conv2d"):
        compress.fuse_modules(net, ["2", "0"])


def test_gradients_end_at_rounding() -> None:
    small = compress.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)))
    x = lg.randn(2, 4, requires_grad=True)
    assert not small(x).requires_grad


def test_a_layer_of_several_names() -> None:
    lg.manual_seed(0)
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.ReLU(), nn.Sequential(shared))
    x = lg.randn(8, 4)
    small = calibrated(net, x)
    assert small[0] is small[2][0]
    assert error(small(x), net(x)) < 0.05
