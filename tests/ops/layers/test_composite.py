"""Composite ops against NumPy formulas written out here."""

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.graph.handle import node_of
from livegrad.ops.layers import composite


def draw(*shape, seed=0, low=-2.0, high=2.0):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def log_softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def gradient(function, x, step=1e-6):
    """Central differences of the scalar `function` at `x`."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        out[i] = (function(up) - function(down)) / (2 * step)
    return out


@pytest.mark.parametrize(("shape", "dim"), [((3, 7), -1), ((3, 7), 0), ((2, 3, 4), 1)])
def test_softmax_and_log_softmax(shape, dim):
    x = draw(*shape)
    expected = log_softmax(x, dim)
    np.testing.assert_allclose(F.log_softmax(lg.tensor(x), dim).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(F.softmax(lg.tensor(x), dim).numpy(), np.exp(expected), rtol=1e-12)
    negative = np.exp(log_softmax(-x, dim))
    np.testing.assert_allclose(F.softmin(lg.tensor(x), dim).numpy(), negative, rtol=1e-12)


def test_softmax_of_large_values_and_of_all_minus_infinity():
    y = F.softmax(lg.tensor([1000.0, 1000.0, -1000.0]), 0).numpy()
    np.testing.assert_array_equal(y, [0.5, 0.5, 0.0])
    masked = F.softmax(lg.tensor([-np.inf, 0.0]), 0).numpy()
    np.testing.assert_array_equal(masked, [0.0, 1.0])


def test_softmax_dtype_and_empty_rows():
    assert F.softmax(lg.tensor([1, 2, 3]), 0, dtype=lg.float64).dtype is lg.float64
    assert F.softmax(lg.zeros(3, 0), 1).shape == (3, 0)
    assert F.softmax(lg.tensor(4.0), 0).item() == 1.0
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        F.softmax(lg.tensor([1, 2]), 0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        F.softmax(lg.zeros(2), 3)


def test_softmax_in_half_precision_rounds_once():
    x = draw(4, 50).astype(np.float16)
    exact = np.exp(log_softmax(x.astype(np.float64), 1))
    np.testing.assert_allclose(F.softmax(lg.tensor(x), 1).numpy(), exact, rtol=1e-3)


def test_each_composite_is_one_node():
    x = lg.zeros(4, 5, requires_grad=True)
    t = lg.zeros(4, dtype=lg.int64)
    w = lg.ones(5)
    for y, name in [
        (F.softmax(x, 1), "softmax"),
        (F.log_softmax(x, 1), "log_softmax"),
        (F.layer_norm(x, (5,), w, w), "layer_norm"),
        (F.cross_entropy(x, t), "cross_entropy"),
        (F.mse_loss(x, x), "mse_loss"),
    ]:
        assert y._node.op.name == name
        assert y._node.inputs[0] is node_of(x)


@pytest.mark.parametrize("affine", [(), ("weight",), ("weight", "bias"), ("bias",)])
def test_layer_norm(affine):
    x, w, b = draw(3, 4, 5), draw(4, 5, seed=1), draw(4, 5, seed=2)
    expected = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    if "weight" in affine:
        expected = expected * w
    if "bias" in affine:
        expected = expected + b
    options = {name: lg.tensor({"weight": w, "bias": b}[name]) for name in affine}
    y = F.layer_norm(lg.tensor(x), (4, 5), **options)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_layer_norm_gradients():
    x, w, g = draw(3, 5), draw(5, seed=1), draw(3, 5, seed=2)

    def value(x, w, b):
        n = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return ((n * w + b) * g).sum()

    tensors = [lg.tensor(a, requires_grad=True) for a in (x, w, np.zeros(5))]
    (F.layer_norm(tensors[0], (5,), *tensors[1:]) * lg.tensor(g)).sum().backward()
    zero = np.zeros(5)
    for tensor, expected in zip(
        tensors,
        [
            gradient(lambda v: value(v, w, zero), x),
            gradient(lambda v: value(x, v, zero), w),
            gradient(lambda v: value(x, w, v), zero),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(tensor.grad.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_layer_norm_of_wrong_shape():
    with pytest.raises(RuntimeError, match=r"normalized_shape=\[4\]"):
        F.layer_norm(lg.zeros(3, 5), (4,))
    with pytest.raises(RuntimeError, match="expected weight to be of same shape"):
        F.layer_norm(lg.zeros(3, 5), (5,), lg.ones(4))


def test_rms_norm():
    x, w = draw(3, 5), draw(5, seed=1)
    expected = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-3) * w
    y = F.rms_norm(lg.tensor(x), (5,), lg.tensor(w), 1e-3)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10)


def cross_entropy(x, t, weight, ignore, reduction, smoothing):
    """Row by row, as the definition reads."""
    losses, weights = [], []
    logs = log_softmax(x, 1)
    for row, label in zip(logs, t, strict=True):
        if label == ignore:
            losses.append(0.0)
            weights.append(0.0)
            continue
        sharp = -weight[label] * row[label]
        smooth = -(weight * row).mean()
        losses.append((1 - smoothing) * sharp + smoothing * smooth)
        weights.append(weight[label])
    if reduction == "none":
        return np.array(losses)
    return np.sum(losses) / (np.sum(weights) if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy_of_indices(reduction, smoothing, weighted, ignore):
    x, t = draw(8, 5), np.arange(8) % 5
    weight = draw(5, seed=1, low=0.5) if weighted else np.ones(5)
    g = draw(*((8,) if reduction == "none" else ()), seed=2)

    def value(x):
        return (cross_entropy(x, t, weight, ignore, reduction, smoothing) * g).sum()

    tensor = lg.tensor(x, requires_grad=True)
    loss = F.cross_entropy(
        tensor,
        lg.tensor(t),
        lg.tensor(weight) if weighted else None,
        ignore_index=ignore,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    expected = cross_entropy(x, t, weight, ignore, reduction, smoothing)
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-9)
    (loss * lg.tensor(g)).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), gradient(value, x), rtol=1e-5, atol=1e-8)


def test_cross_entropy_of_other_ranks():
    x, t = draw(2, 5, 3), np.arange(6).reshape(2, 3) % 5
    rows = np.moveaxis(x, 1, -1).reshape(6, 5)
    expected = cross_entropy(rows, t.reshape(-1), np.ones(5), -100, "none", 0.0)
    y = F.cross_entropy(lg.tensor(x), lg.tensor(t), reduction="none")
    np.testing.assert_allclose(y.numpy(), expected.reshape(2, 3), rtol=1e-9)
    one = F.cross_entropy(lg.tensor(rows[0]), lg.tensor(int(t[0, 0])))
    np.testing.assert_allclose(one.item(), expected[0], rtol=1e-9)


def test_cross_entropy_of_probabilities():
    x, p = draw(4, 5), draw(4, 5, seed=1, low=0.0)
    expected = -(log_softmax(x, 1) * (0.8 * p + 0.2 / 5)).sum(1)
    y = F.cross_entropy(lg.tensor(x), lg.tensor(p), label_smoothing=0.2)
    np.testing.assert_allclose(y.item(), expected.mean(), rtol=1e-9)
    each = F.cross_entropy(lg.tensor(x), lg.tensor(p), label_smoothing=0.2, reduction="none")
    np.testing.assert_allclose(each.numpy(), expected, rtol=1e-9)


def test_cross_entropy_with_everything_ignored_is_nan():
    assert np.isnan(F.cross_entropy(lg.zeros(2, 3), lg.tensor([1, 1]), ignore_index=1).item())


def test_cross_entropy_errors():
    x = lg.zeros(3, 5)
    with pytest.raises(ValueError, match=r"batch_size \(3\) to match target batch_size \(2\)"):
        F.cross_entropy(x, lg.zeros(2, dtype=lg.int64))
    with pytest.raises(RuntimeError, match="Long or Byte"):
        F.cross_entropy(x, lg.zeros(3))
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        F.cross_entropy(x, lg.zeros(3, dtype=lg.int64), reduction="average")
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(x, lg.zeros(3, dtype=lg.int64), label_smoothing=2.0)
    with pytest.raises(RuntimeError, match="weight tensor"):
        F.cross_entropy(x, lg.zeros(3, dtype=lg.int64), lg.ones(4))


def test_target_out_of_range():
    x = lg.tensor(draw(3, 5))
    F.cross_entropy(x, lg.tensor([0, 4, -100])).item()
    for wrong in (5, -1):
        with pytest.raises(IndexError, match=rf"Target {wrong} is out of bounds\."):
            F.cross_entropy(x, lg.tensor([0, wrong, 1])).item()


def test_nll_loss():
    x, t = draw(6, 5), np.arange(6) % 5
    y = F.nll_loss(lg.tensor(x), lg.tensor(t), ignore_index=1)
    kept = t != 1
    np.testing.assert_allclose(y.item(), -x[np.arange(6), t][kept].mean(), rtol=1e-12)


ELEMENTWISE = {
    "mse_loss": (lambda x, t: (x - t) ** 2, {}),
    "l1_loss": (lambda x, t: abs(x - t), {}),
    "smooth_l1_loss": (
        lambda x, t: np.where(abs(x - t) < 0.4, 0.5 * (x - t) ** 2 / 0.4, abs(x - t) - 0.2),
        {"beta": 0.4},
    ),
    "huber_loss": (
        lambda x, t: np.where(abs(x - t) <= 0.4, 0.5 * (x - t) ** 2, 0.4 * (abs(x - t) - 0.2)),
        {"delta": 0.4},
    ),
    "binary_cross_entropy": (lambda x, t: -(t * np.log(x) + (1 - t) * np.log(1 - x)), {}),
    "binary_cross_entropy_with_logits": (
        lambda x, t: np.maximum(x, 0) - x * t + np.log1p(np.exp(-abs(x))),
        {},
    ),
    "kl_div": (lambda x, t: t * (np.log(t) - x), {}),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_one_element_at_a_time(name, reduction):
    formula, options = ELEMENTWISE[name]
    x, t = draw(4, 5, low=0.1, high=0.9), draw(4, 5, low=0.1, high=0.9, seed=1)
    fold = {"mean": np.mean, "sum": np.sum, "none": lambda v: v}[reduction]
    tensors = [lg.tensor(x, requires_grad=True), lg.tensor(t, requires_grad=True)]
    loss = getattr(F, name)(*tensors, reduction=reduction, **options)
    np.testing.assert_allclose(loss.detach().numpy(), fold(formula(x, t)), rtol=1e-9, atol=1e-12)
    loss.sum().backward()
    for tensor, expected in zip(
        tensors,
        [
            gradient(lambda v: np.sum(fold(formula(v, t))), x),
            gradient(lambda v: np.sum(fold(formula(x, v))), t),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(tensor.grad.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_loss_of_different_sizes_warns_and_broadcasts():
    with pytest.warns(UserWarning, match="different to the input size"):
        y = F.mse_loss(lg.ones(3, 1), lg.zeros(3))
    assert y.item() == 1.0
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy(lg.ones(3), lg.zeros(3, 1))


def test_binary_cross_entropy_is_finite_at_certainty():
    loss = F.binary_cross_entropy(lg.tensor([0.0, 1.0]), lg.tensor([1.0, 1.0]), reduction="none")
    np.testing.assert_array_equal(loss.numpy(), [100.0, 0.0])


def test_cosine_similarity_and_normalize():
    a, b = draw(3, 4), draw(3, 4, seed=1)
    expected = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(
        F.cosine_similarity(lg.tensor(a), lg.tensor(b)).numpy(), expected, rtol=1e-9
    )
    np.testing.assert_allclose(
        F.normalize(lg.tensor(a)).numpy(), a / np.linalg.norm(a, axis=1, keepdims=True), rtol=1e-9
    )
    assert F.normalize(lg.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(
    "op",
    [composite.SOFTMAX, composite.LOG_SOFTMAX, composite.LAYER_NORM, composite.RMS_NORM],
    ids=lambda op: op.name,
)
def test_reference_equals_expansion(op, monkeypatch):
    samples = list(op.samples())
    before = [s.call(*map(lg.tensor, s.inputs)).numpy() for s in samples]
    monkeypatch.setattr(op, "ref", None)
    after = [s.call(*map(lg.tensor, s.inputs)).numpy() for s in samples]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
