"""Layers, initial values and tools."""

import math

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def test_linear():
    layer = nn.Linear(4, 3).double()
    x = draw(2, 5, 4)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(lg.tensor(x)).detach().numpy(), x @ weight.T + bias)
    assert nn.Linear(4, 3, bias=False).bias is None
    assert abs(nn.Linear(100, 50).weight.detach().numpy()).max() <= 0.1


def test_bilinear():
    layer = nn.Bilinear(2, 3, 4).double()
    x1, x2 = draw(5, 2), draw(5, 3)
    expected = np.einsum("bi,kij,bj->bk", x1, layer.weight.detach().numpy(), x2)
    expected += layer.bias.detach().numpy()
    y = layer(lg.tensor(x1), lg.tensor(x2)).detach().numpy()
    np.testing.assert_allclose(y, expected, rtol=1e-10)


def test_flatten_unflatten_identity():
    x = lg.zeros(2, 3, 4)
    assert nn.Flatten()(x).shape == (2, 12)
    assert nn.Unflatten(1, (3, 4))(lg.zeros(2, 12)).shape == (2, 3, 4)
    assert nn.Identity(1, key=2)(x) is x


def test_dropout():
    layer = nn.Dropout(0.25)
    x = lg.ones(10_000)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.03
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_embedding():
    table = nn.Embedding(5, 3, padding_idx=-2)
    index = np.array([[0, 3], [4, 3]])
    weight = table.weight.detach().numpy()
    assert weight[3].tolist() == [0.0] * 3
    rows = table(lg.tensor(index))
    np.testing.assert_array_equal(rows.detach().numpy(), weight[index])
    rows.sum().backward()
    assert table.weight.grad.sum(1).tolist() == [3.0, 0.0, 0.0, 0.0, 3.0]


def test_embedding_from_pretrained_and_max_norm():
    rows = draw(4, 3).astype(np.float32) * 5
    table = nn.Embedding.from_pretrained(lg.tensor(rows), max_norm=1.0)
    assert not table.weight.requires_grad
    used = table(lg.tensor([0, 2])).numpy()
    np.testing.assert_allclose(np.linalg.norm(used, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(table.weight.numpy()[[1, 3]], rows[[1, 3]])


def test_layer_norm_module():
    layer = nn.LayerNorm((2, 3))
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    y = layer(lg.tensor(draw(4, 2, 3).astype(np.float32))).detach().numpy()
    np.testing.assert_allclose(y.reshape(4, 6).mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(y.reshape(4, 6).std(1), 1, rtol=1e-3)
    assert nn.LayerNorm(3, bias=False).bias is None
    assert nn.LayerNorm(3, elementwise_affine=False).weight is None
    assert nn.RMSNorm(3)(lg.ones(2, 3)).tolist()[0] == pytest.approx([1.0] * 3)


ACTIVATIONS = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "LogSigmoid": lambda x: -np.log1p(np.exp(-x)),
    "Tanh": np.tanh,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + abs(x)),
    "Tanhshrink": lambda x: x - np.tanh(x),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Hardtanh": lambda x: np.clip(x, -1, 1),
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Hardshrink": lambda x: np.where(abs(x) > 0.5, x, 0),
    "Softshrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
    "GELU": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "PReLU": lambda x: np.where(x > 0, x, 0.25 * x),
    "GLU": lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:])),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_modules(name):
    x = draw(4, 6) * 3
    layer = getattr(nn, name)().double()
    y = layer(lg.tensor(x)).detach().numpy()
    np.testing.assert_allclose(y, ACTIVATIONS[name](x), rtol=1e-6, atol=1e-7)


def test_inplace_activation_writes_to_its_input():
    x = lg.tensor([-1.0, 2.0])
    y = nn.ReLU(inplace=True)(x)
    assert y is x
    assert x.tolist() == [0.0, 2.0]


def test_softmax_without_dim_warns():
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        assert F.softmax(lg.zeros(2, 2)).tolist() == [[0.5, 0.5]] * 2


def test_loss_modules():
    x, t = lg.tensor([[0.2, 0.8]]), lg.tensor([[0.0, 1.0]])
    assert nn.MSELoss()(x, t).item() == pytest.approx(0.04)
    assert nn.L1Loss(reduction="sum")(x, t).item() == pytest.approx(0.4)
    assert nn.SmoothL1Loss(beta=0.1)(x, t).item() == pytest.approx(0.15)
    assert nn.HuberLoss(delta=0.1)(x, t).item() == pytest.approx(0.015)
    assert nn.BCELoss()(x, t).item() == pytest.approx(-math.log(0.8))
    assert nn.CrossEntropyLoss()(x, lg.tensor([1])).item() == pytest.approx(
        math.log(1 + math.exp(-0.6))
    )
    assert nn.NLLLoss(weight=lg.tensor([1.0, 2.0]))(x, lg.tensor([1])).item() == pytest.approx(-0.8)
    assert nn.KLDivLoss(log_target=True)(x, x).item() == 0.0
    weighted = nn.BCEWithLogitsLoss(pos_weight=lg.tensor([2.0, 2.0]))
    assert set(weighted.state_dict()) == {"pos_weight"}
    assert nn.MSELoss(size_average=False).reduction == "sum"


def test_attention_against_the_definition():
    q, k, v = draw(2, 3, 4), draw(2, 5, 4, seed=1), draw(2, 5, 6, seed=2)
    scores = q @ k.transpose(0, 2, 1) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    y = F.scaled_dot_product_attention(lg.tensor(q), lg.tensor(k), lg.tensor(v)).numpy()
    np.testing.assert_allclose(y, weights @ v, rtol=1e-9)
    causal = F.scaled_dot_product_attention(
        lg.tensor(q), lg.tensor(k), lg.tensor(v), is_causal=True
    ).numpy()
    np.testing.assert_allclose(causal[:, 0], v[:, 0], rtol=1e-9)


@pytest.mark.parametrize("keys", [60, 256, 300, 600])
@pytest.mark.parametrize("features", [40, 300])
def test_attention_of_some_queries_has_the_same_bits(keys, features):
    """Keys and values that are brought together once for all queries, some of them, or none."""
    q, k, v = [lg.tensor(draw(2, n, features, seed=n)).float() for n in (50, keys, keys)]
    y = F.scaled_dot_product_attention(q, k, v)
    for first, last in ((0, 1), (7, 10), (20, 41)):
        some = F.scaled_dot_product_attention(q[:, first:last], k, v)
        assert some.numpy().tobytes() == y[:, first:last].numpy().tobytes()
    scores = (q @ k.transpose(1, 2)).double().numpy() / math.sqrt(features)
    shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(y.numpy(), shares @ v.double().numpy(), atol=1e-5)


@pytest.mark.parametrize("keys", [60, 256, 300])
def test_gradients_of_causal_attention_against_those_of_its_parts(keys):
    shape = (2, keys, 24)
    q, k, v = [lg.tensor(draw(*shape, seed=n)).requires_grad_() for n in range(3)]
    g = lg.tensor(draw(*shape, seed=3))
    scores = q @ k.transpose(1, 2) / math.sqrt(24)
    later = lg.ones(keys, keys, dtype=lg.bool).triu(1)
    parts = F.softmax(scores.masked_fill(later, -math.inf), -1) @ v
    whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected, found = [lg.autograd.grad(y, (q, k, v), g) for y in (parts, whole)]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("keys", [60, 300])
def test_dropout_in_attention_drops_the_same_in_gradients(keys):
    """The result is linear in values: the gradient of its sum by them, times them, is the sum."""
    q, k, v = [lg.tensor(draw(2, keys, 24, seed=n)) for n in range(3)]
    v.requires_grad_()
    y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True)
    (slopes,) = lg.autograd.grad(y.sum(), v)
    assert not lg.allclose(y, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    assert (slopes * v).sum().item() == pytest.approx(y.sum().item())


def moments(tensor):
    values = tensor.detach().numpy()
    return values.mean(), values.std()


def test_init_distributions():
    w = nn.Parameter(lg.empty(200, 300))
    for fill, std in [
        (lambda: nn.init.xavier_uniform_(w, 2.0), 2 * math.sqrt(2 / 500)),
        (lambda: nn.init.xavier_normal_(w), math.sqrt(2 / 500)),
        (lambda: nn.init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda: nn.init.kaiming_normal_(w, mode="fan_out"), math.sqrt(2 / 200)),
        (lambda: nn.init.normal_(w, 0.0, 3.0), 3.0),
        (lambda: nn.init.uniform_(w, -1.0, 1.0), 1 / math.sqrt(3)),
    ]:
        assert fill() is w
        mean, spread = moments(w)
        assert abs(mean) < 0.03 * std
        assert spread == pytest.approx(std, rel=0.02)
        assert w.is_leaf
        assert w.requires_grad


@pytest.mark.parametrize(("low", "high"), [(-2.0, 2.0), (-0.1, 0.3), (3.0, 4.0), (-9.0, -8.0)])
def test_truncated_normal(low, high):
    w = nn.init.trunc_normal_(nn.Parameter(lg.empty(4000)), 0.0, 1.0, low, high)
    values = w.detach().numpy()
    assert low <= values.min() <= values.max() <= high
    grid = np.linspace(low, high, 10_001)
    weights = np.exp(-(grid**2) / 2 + min(low**2, high**2) / 2)
    assert values.mean() == pytest.approx((grid * weights).sum() / weights.sum(), abs=0.05)


def test_init_exact_values():
    w = nn.Parameter(lg.empty(2, 3))
    assert nn.init.eye_(w).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.constant_(w, 2.5).tolist() == [[2.5] * 3] * 2
    assert nn.init.ones_(w).tolist() == [[1.0] * 3] * 2
    assert nn.init.zeros_(w).tolist() == [[0.0] * 3] * 2
    q = nn.init.orthogonal_(nn.Parameter(lg.empty(3, 5)), gain=2).detach().numpy()
    np.testing.assert_allclose(q @ q.T, 4 * np.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(lg.empty(3))
    assert nn.init.calculate_gain("leaky_relu", 0.2) == pytest.approx(math.sqrt(2 / 1.04))


def test_clip_grad_and_vectors():
    params = [nn.Parameter(lg.zeros(2)), nn.Parameter(lg.zeros(1)), nn.Parameter(lg.zeros(1))]
    params[0].grad, params[1].grad = lg.tensor([3.0, 0.0]), lg.tensor([4.0])
    assert nn.utils.clip_grad_norm_(params, 1.0).item() == pytest.approx(5.0)
    assert params[1].grad.item() == pytest.approx(0.8)
    nn.utils.clip_grad_norm_(params, 10.0)
    assert params[1].grad.item() == pytest.approx(0.8)
    nn.utils.clip_grad_value_(params, 0.5)
    assert params[0].grad.tolist() == [0.5, 0.0]
    params[0].grad = lg.tensor([math.inf, 0.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    nn.utils.vector_to_parameters(lg.tensor([1.0, 2.0, 3.0, 4.0]), params)
    assert nn.utils.parameters_to_vector(params).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert params[2].item() == 4.0


def test_a_convolutional_network_learns():
    lg.manual_seed(0)
    x = lg.tensor(draw(32, 1, 8, 8).astype(np.float32))
    target = (x[:, 0, :4].mean((1, 2)) > x[:, 0, 4:].mean((1, 2))).long()
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, padding="same", padding_mode="circular"),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 2),
    )
    optimizer = lg.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_batch_norm_collects_and_uses_statistics():
    norm = nn.BatchNorm1d(2, momentum=None)
    batches = [draw(6, 2, seed=i).astype(np.float32) + 3 for i in range(3)]
    for batch in batches:
        y = norm(lg.tensor(batch)).detach().numpy()
        np.testing.assert_allclose(y.mean(0), 0, atol=1e-5)
    wanted = np.mean([b.mean(0) for b in batches], 0)
    np.testing.assert_allclose(norm.running_mean.numpy(), wanted, rtol=1e-5)
    assert norm.num_batches_tracked.item() == 3
    norm.eval()
    y = norm(lg.tensor(batches[0])).detach().numpy()
    scale = np.sqrt(norm.running_var.numpy() + norm.eps)
    np.testing.assert_allclose(y, (batches[0] - wanted) / scale, rtol=1e-4)
    norm.reset_running_stats()
    assert norm.running_var.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        norm(lg.ones(1, 2, 3, 4))


def test_batch_norms_become_sync_ones_with_the_same_tensors():
    net = nn.Sequential(nn.Conv1d(2, 3, 1), nn.Sequential(nn.BatchNorm1d(3)))
    weight = net[1][0].weight
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(net[1][0]) is nn.SyncBatchNorm
    assert net[1][0].weight is weight
    assert net(lg.ones(2, 2, 4)).shape == (2, 3, 4)


def test_transposed_convolution_undoes_the_shape():
    down, up = nn.Conv2d(1, 2, 3, 2), nn.ConvTranspose2d(2, 1, 3, 2)
    x = lg.ones(1, 1, 8, 7)
    assert up(down(x), output_size=(8, 7)).shape == x.shape
    with pytest.raises(ValueError, match="must be in the range from 7 to 8"):
        up(down(x), output_size=(9, 7))


MISTAKES = [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), "strided"),
    (lambda: nn.Conv1d(3, 4, 3, padding_mode="mirror"), "padding_mode must be one of"),
    (lambda: nn.ConvTranspose1d(3, 4, 3, padding_mode="circular"), 'Only "zeros"'),
    (lambda: nn.GroupNorm(2, 3), "must be divisible by num_groups"),
    (lambda: nn.FractionalMaxPool2d(2), "requires specifying either"),
    (lambda: nn.InstanceNorm1d(3, affine=True)(lg.ones(2, 4, 5)), "to match num_features"),
    (lambda: nn.MultiheadAttention(0, 1), "must be greater than 0"),
    (lambda: nn.TripletMarginLoss(margin=0), "margin to be greater than 0"),
    (lambda: nn.MultiMarginLoss(p=3), "only p == 1 and p == 2"),
    (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3]), "sorted in an increasing order"),
    (lambda: nn.Softmax2d()(lg.ones(2, 3)), "3D or 4D"),
    (lambda: nn.CircularPad1d(1)(lg.ones(3)), "expected 2D or 3D input"),
]


@pytest.mark.parametrize(("call", "text"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_mistakes(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_attention_masks():
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = lg.tensor(draw(2, 5, 8).astype(np.float32))
    future = lg.ones(5, 5, dtype=lg.bool).triu(1)
    out, weights = layer(x, x, x, attn_mask=future)
    assert (weights.detach().numpy() * np.triu(np.ones((5, 5)), 1) == 0).all()
    np.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1, rtol=1e-5)
    plain, none = layer(x, x, x, attn_mask=future, need_weights=False, is_causal=True)
    assert none is None
    np.testing.assert_allclose(plain.detach().numpy(), out.detach().numpy(), rtol=1e-4, atol=1e-6)
    padding = lg.tensor([[False] * 5, [False] * 3 + [True] * 2])
    _, heads = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    assert heads.shape == (2, 2, 5, 5)
    assert heads[1, :, :, 3:].abs().max().item() == 0
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(8, 3)


def test_a_transformer_copies_its_layers():
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True)
    encoder = nn.TransformerEncoder(layer, 3, nn.LayerNorm(8))
    assert len({id(p) for p in encoder.parameters()}) == 3 * 12 + 2
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    assert mask[0].tolist() == [0.0] + [-math.inf] * 3
    assert encoder(lg.ones(4, 2, 8), mask, is_causal=True).shape == (4, 2, 8)
    net = nn.Transformer(8, 2, 1, 1, 16)
    with pytest.raises(RuntimeError, match="batch number of src and tgt"):
        net(lg.ones(3, 2, 8), lg.ones(3, 1, 8))
    with pytest.raises(RuntimeError, match="equal to d_model"):
        net(lg.ones(3, 2, 7), lg.ones(3, 2, 8))
    with pytest.raises(RuntimeError, match="activation should be relu/gelu"):
        nn.TransformerEncoderLayer(8, 2, activation="tanh")


def test_initial_values_of_convolutions_and_sparse_matrices():
    kernel = nn.init.dirac_(lg.empty(4, 2, 3, 3), groups=2)
    layer = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
    with lg.no_grad():
        layer.weight.copy_(kernel)
    x = lg.tensor(draw(1, 4, 5, 5).astype(np.float32))
    np.testing.assert_array_equal(layer(x).detach().numpy(), x.numpy())
    sparse = nn.init.sparse_(lg.empty(10, 6), 0.25, std=2.0)
    assert (sparse == 0).sum(0).tolist() == [3] * 6
    with pytest.warns(FutureWarning, match="deprecated in favor of `nn.init.constant_`"):
        assert nn.init.constant(lg.empty(2), 3.0).tolist() == [3.0, 3.0]
