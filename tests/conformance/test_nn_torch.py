"""nn against PyTorch: same weights, same inputs, same outputs, gradients and text."""

import inspect
import itertools

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn

torch = pytest.importorskip("torch")


def build(nn):
    return nn.Sequential(
        nn.Linear(6, 8),
        nn.GELU(),
        nn.LayerNorm(8),
        nn.Sequential(nn.Linear(8, 8, bias=False), nn.SiLU(), nn.Dropout(0.0)),
        nn.RMSNorm(8),
        nn.Linear(8, 3),
        nn.LogSoftmax(1),
    )


def test_a_network_forward_backward_and_repr():
    ours, theirs = build(nn), build(torch.nn)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    t = np.array([0, 1, 2, 0, 1])
    loss = F.nll_loss(ours(lg.tensor(x)), lg.tensor(t))
    expected = torch.nn.functional.nll_loss(theirs(torch.tensor(x)), torch.tensor(t))
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


PRINTED = [
    "ReLU(inplace=True)", "ReLU6()", "ELU()", "CELU(0.5)", "LeakyReLU(0.2, True)", "RReLU()",
    "PReLU()", "Hardtanh()", "Threshold(0.1, 20)", "GELU('tanh')", "Softplus()", "Hardshrink()",
    "Softshrink()", "GLU()", "Softmax(1)", "LogSoftmax(-1)", "Identity()", "Linear(3, 4, False)",
    "Bilinear(2, 3, 4)", "Flatten()", "Unflatten(1, (2, 3))", "Dropout()",
    "Embedding(4, 5, padding_idx=-1, max_norm=2.0)", "LayerNorm((3, 4), bias=False)",
    "LayerNorm(4, elementwise_affine=False)", "RMSNorm(4)", "MSELoss()", "CrossEntropyLoss()",
    "ModuleList([nn.Linear(2, 3) for _ in range(3)] + [nn.ReLU()])", "ModuleDict({'a': nn.ReLU()})",
    "Conv2d(2, 4, 3, padding='same', groups=2, bias=False)", "Conv1d(1, 2, 3, 2, 1, 2)",
    "Conv2d(2, 4, (3, 1), padding=(1, 0), padding_mode='circular')", "ConvTranspose2d(2, 3, 2, 2)",
    "ConvTranspose1d(2, 3, 2, 2, output_padding=1)", "MaxPool2d(2)", "MaxPool1d(2, 1)",
    "AvgPool1d(2)", "AvgPool2d((2, 1))", "AdaptiveAvgPool2d((None, 2))", "AdaptiveMaxPool1d(3)",
    "LPPool2d(2, 3)", "MaxUnpool2d(2)", "FractionalMaxPool2d(2, output_ratio=0.5)", "ZeroPad2d(1)",
    "ConstantPad1d((1, 2), 3.5)", "ReflectionPad2d((1, 1, 2, 0))", "CircularPad3d(1)",
    "BatchNorm1d(3)", "BatchNorm2d(3, affine=False)", "SyncBatchNorm(3, bias=False)",
    "InstanceNorm2d(4, affine=True)", "GroupNorm(2, 4)", "LocalResponseNorm(2)", "CrossMapLRN2d(3)",
    "Dropout1d(0.2)", "AlphaDropout()", "FeatureAlphaDropout()", "EmbeddingBag(4, 5, mode='sum')",
    "RNN(3, 4, 2, 'relu', bidirectional=True)", "LSTM(3, 4, proj_size=2, batch_first=True)",
    "GRU(3, 4, num_layers=2, dropout=0.5, bias=False)", "RNNCell(3, 4, nonlinearity='relu')",
    "LSTMCell(3, 4, False)", "GRUCell(3, 4)", "MultiheadAttention(4, 2)", "Softmax2d()",
    "TransformerEncoderLayer(4, 2, 8, batch_first=True)", "TransformerDecoderLayer(4, 2, 8)",
    "Transformer(4, 2, 1, 1, 8, batch_first=True)", "CosineSimilarity()", "PairwiseDistance(1.0)",
    "Fold((4, 4), 2)", "Unfold(2, padding=1)", "Upsample(scale_factor=2, mode='bilinear')",
    "UpsamplingNearest2d(size=4)", "PixelShuffle(2)", "PixelUnshuffle(3)", "ChannelShuffle(2)",
    "TripletMarginLoss()", "CTCLoss()", "LazyLinear(3)", "LazyConv2d(3, 2)", "LazyBatchNorm1d()",
    "LinearCrossEntropyLoss(3, 4, bias=True)", "AdaptiveLogSoftmaxWithLoss(32, 20, [5, 10])",
    "DataParallel(nn.Linear(1, 2))",
    "Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)))",
]  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_repr(text):
    assert repr(eval(f"nn.{text}", {"nn": nn})) == repr(eval(f"nn.{text}", {"nn": torch.nn}))


# Modules that PyTorch's own database does not have: constructor, shapes of inputs.
OTHERS = [
    ("ChannelShuffle(2)", [(2, 4, 3, 3)]), ("CosineSimilarity()", [(3, 4), (3, 4)]),
    ("PairwiseDistance(keepdim=True)", [(3, 4), (3, 4)]), ("Flatten(0, 1)", [(2, 3, 4)]),
    ("Unflatten(1, (2, 3))", [(2, 6)]), ("Fold((4, 5), 2)", [(1, 8, 12)]),
    ("Unfold(2, padding=1, stride=2)", [(1, 2, 4, 5)]), ("Hardsigmoid()", [(3, 4)]),
    ("Identity()", [(3, 4)]), ("PixelShuffle(2)", [(1, 8, 2, 3)]),
    ("PixelUnshuffle(2)", [(1, 2, 4, 6)]), ("Upsample(scale_factor=2)", [(1, 2, 3, 3)]),
    ("Upsample(size=(5, 4), mode='bicubic')", [(1, 2, 3, 3)]),
    ("UpsamplingBilinear2d(scale_factor=2)", [(1, 2, 3, 3)]),
    ("UpsamplingNearest2d(size=7)", [(1, 2, 3, 3)]), ("TripletMarginLoss(swap=True)", [(3, 4)] * 3),
    ("TripletMarginWithDistanceLoss()", [(3, 4)] * 3), ("LocalResponseNorm(3, 0.5)", [(2, 5, 3)]),
    ("LazyLinear(3)", [(2, 4)]),
    ("LazyBatchNorm1d()", [(5, 4)]), ("LazyInstanceNorm2d()", [(2, 3, 4, 4)]),
    ("Dropout2d(0.0)", [(2, 3, 4, 4)]), ("AlphaDropout(0.0)", [(3, 4)]),
    ("RReLU(0.2, 0.2)", [(3, 4)]), ("BatchNorm2d(3, track_running_stats=False)", [(2, 3, 4, 4)]),
    ("Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))", [(3, 4)]),
    ("BatchNorm1d(4, momentum=None)", [(5, 4)]),
    ("ConvTranspose2d(2, 3, 3, stride=2, output_padding=1)", [(1, 2, 4, 4)]),
    ("Conv2d(2, 4, 3, padding=(1, 2), padding_mode='reflect', dilation=(1, 2))", [(1, 2, 6, 7)]),
    ("TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0), 2)", [(4, 2, 8), (5, 2, 8)]),
    ("MultiheadAttention(8, 2, kdim=6, vdim=4)", [(3, 2, 8), (5, 2, 6), (5, 2, 4)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), OTHERS, ids=[text for text, _ in OTHERS])
def test_other_modules(text, shapes):
    ours, theirs = [eval(f"nn.{text}", {"nn": lib}) for lib in (nn, torch.nn)]
    arrays = [np.random.default_rng([i, *s]).standard_normal(s) for i, s in enumerate(shapes)]
    theirs = theirs.double()
    with torch.no_grad():
        theirs(*map(torch.tensor, arrays))  # the shapes of a lazy one
    ours.double().load_state_dict(theirs.state_dict())
    xs = [lg.tensor(a, requires_grad=True) for a in arrays]
    ts = [torch.tensor(a, requires_grad=True) for a in arrays]
    for _ in range(2):  # running statistics change
        y, t = ours(*[x * 1 for x in xs]), theirs(*[x * 1 for x in ts])
        y, t = (y[0], t[0]) if isinstance(y, tuple) else (y, t)
        np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), rtol=1e-9, atol=1e-12)
    (y * y).sum().backward()
    (t * t).sum().backward()
    pairs = [*zip(xs, ts, strict=True), *zip(ours.parameters(), theirs.parameters(), strict=True)]
    for a, b in pairs:
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-7, atol=1e-11)
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)


def test_unpooling():
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 8))
    results = []
    for lib in (lg, torch):
        values, places = lib.nn.MaxPool2d(2, return_indices=True)(lib.tensor(x))
        results.append(lib.nn.MaxUnpool2d(2)(values, places).numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    options = {"mode": mode, "padding_idx": 1}
    ours, theirs = nn.EmbeddingBag(6, 3, **options), torch.nn.EmbeddingBag(6, 3, **options)
    ours.load_state_dict(theirs.state_dict())
    index, offsets = np.array([0, 1, 5, 2, 2, 3]), np.array([0, 2, 2])
    a = ours(lg.tensor(index), lg.tensor(offsets))
    b = theirs(torch.tensor(index), torch.tensor(offsets))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
    (a * a).sum().backward()
    (b * b).sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5)


def test_adaptive_softmax():
    build = "AdaptiveLogSoftmaxWithLoss(16, 20, [4, 9], div_value=2.0, head_bias=True)"
    ours, theirs = [eval(f"nn.{build}", {"nn": lib}).double() for lib in (nn, torch.nn)]
    ours.load_state_dict(theirs.state_dict())
    x, target = np.random.default_rng(0).standard_normal((6, 16)), np.array([0, 19, 4, 8, 9, 3])
    a, b = ours(lg.tensor(x), lg.tensor(target)), theirs(torch.tensor(x), torch.tensor(target))
    np.testing.assert_allclose(a.output.detach().numpy(), b.output.detach().numpy(), rtol=1e-9)
    a.loss.backward()
    b.loss.backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-8, atol=1e-12)
    full = ours.log_prob(lg.tensor(x)).detach().numpy()
    np.testing.assert_allclose(full, theirs.log_prob(torch.tensor(x)).detach().numpy(), rtol=1e-9)
    assert ours.predict(lg.tensor(x)).tolist() == theirs.predict(torch.tensor(x)).tolist()
    with pytest.raises(RuntimeError):
        ours(lg.tensor(x[:1]), lg.tensor([20])).loss.item()


def public_classes():
    return [name for name in dir(torch.nn) if inspect.isclass(getattr(torch.nn, name))]


# Old names without use, and what is made of several processes or machines.
LEFT_OUT = {"Container"}


def test_every_class_is_there():
    assert {name for name in public_classes() if not hasattr(nn, name)} == LEFT_OUT


@pytest.mark.parametrize("name", sorted(set(public_classes()) - LEFT_OUT))
def test_signatures(name):
    """Arguments of constructor and forward: names, order, defaults."""
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    methods = ["__init__", "forward"] if issubclass(theirs, torch.nn.Module) else ["__new__"]
    if getattr(theirs, "forward", None) is torch.nn.Module.forward:
        methods = ["__init__"]
    for method in methods:
        mine, wanted = [inspect.signature(getattr(c, method)).parameters for c in (ours, theirs)]
        kinds = {p.kind for p in wanted.values()}
        if inspect.Parameter.VAR_KEYWORD in kinds and "self" in wanted and len(wanted) == 3:
            continue  # (*args, **kwargs): of no interest
        assert list(mine) == list(wanted), method
        for key, p in wanted.items():
            default = mine[key].default
            if callable(p.default) and p.default is not inspect.Parameter.empty:
                assert default.__name__ == p.default.__name__
            else:
                assert default == p.default, (method, key)


STARTS = [
    "Linear(300, 200)", "Bilinear(20, 30, 40)", "Conv1d(40, 60, 5)", "Conv2d(20, 40, 3, groups=2)",
    "ConvTranspose2d(30, 20, 4)", "Embedding(100, 80)", "EmbeddingBag(100, 80)", "LSTM(40, 30)",
    "GRU(30, 40)", "RNNCell(60, 50)", "MultiheadAttention(64, 4, add_bias_kv=True)", "PReLU(50)",
    "MultiheadAttention(64, 4, kdim=32)", "BatchNorm2d(30)", "LayerNorm(30)",
    "TransformerEncoderLayer(64, 4, 128)", "Transformer(64, 4, 1, 1, 128, batch_first=True)",
    "AdaptiveLogSoftmaxWithLoss(64, 300, [50, 100])",
]  # fmt: skip


@pytest.mark.parametrize("text", STARTS)
def test_initial_values_have_the_same_distribution(text):
    ours, theirs = [eval(f"nn.{text}", {"nn": lib}) for lib in (nn, torch.nn)]
    for (key, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        x, t = a.double().numpy(), b.double().numpy()
        if t.size < 100:
            assert (x.std() == 0) == (t.std() == 0), key
            continue
        spread = 8 / np.sqrt(t.size)  # relative, of standard deviations and of the mean
        assert x.std() == pytest.approx(t.std(), rel=spread), key
        assert abs(x.mean() - t.mean()) <= spread * max(t.std(), 1e-9), key
        if t.std() and t.size > 500:  # even (1.8) or normal (3)
            kurtosis = [((v - v.mean()) ** 4).mean() / v.var() ** 2 for v in (x, t)]
            assert (kurtosis[0] < 2.4) == (kurtosis[1] < 2.4), key


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 1.0}], ids=str)
def test_embedding(options):
    ours, theirs = nn.Embedding(5, 3, **options), torch.nn.Embedding(5, 3, **options)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    index = np.array([[0, 2], [4, 2]])
    a, b = ours(lg.tensor(index)), theirs(torch.tensor(index))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)
    (a * a).sum().backward()
    (b * b).sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5)


def both(function, expected, arrays, integers=(), second=True):
    """Value, gradients and gradients of gradients of two programs agree."""
    ours = [lg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = function(*ours, *map(lg.tensor, integers))
    t = expected(*theirs, *map(torch.tensor, integers))
    np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), rtol=1e-7, atol=1e-10)
    w = np.random.default_rng(9).standard_normal(tuple(t.shape))
    g = lg.autograd.grad(y, ours, lg.tensor(w), create_graph=True)
    h = torch.autograd.grad(t, theirs, torch.tensor(w), create_graph=True)
    for a, b in zip(g, h, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)
    if second and all(b.requires_grad for b in h):
        g2 = lg.autograd.grad(
            sum((a * a).sum() for a in g), ours, allow_unused=True, materialize_grads=True
        )
        h2 = torch.autograd.grad(
            sum((b * b).sum() for b in h), theirs, allow_unused=True, materialize_grads=True
        )
        for a, b in zip(g2, h2, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(force=True), rtol=1e-5, atol=1e-8)


def draw(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(("shape", "dim"), [((3, 7), -1), ((2, 3, 4), 1), ((3, 7), 0)])
def test_softmax(name, shape, dim):
    theirs = getattr(torch.nn.functional, name)
    both(lambda x: getattr(F, name)(x, dim), lambda x: theirs(x, dim), [draw(*shape)])


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_norms(shape):
    T = torch.nn.functional
    x, w, b = draw(*shape), draw(7, seed=1), draw(7, seed=2)
    both(
        lambda x, w, b: F.layer_norm(x, (7,), w, b),
        lambda x, w, b: T.layer_norm(x, (7,), w, b),
        [x, w, b],
    )
    both(lambda x: F.layer_norm(x, (7,)), lambda x: T.layer_norm(x, (7,)), [x])
    both(lambda x, w: F.rms_norm(x, (7,), w), lambda x, w: T.rms_norm(x, (7,), w), [x, w])


CROSS = list(itertools.product(("mean", "sum", "none"), (-100, 2), (False, True), (0.0, 0.3)))


@pytest.mark.parametrize(("reduction", "ignore", "weighted", "smoothing"), CROSS)
@pytest.mark.parametrize(
    ("shape", "rows"), [((6, 5), (6,)), ((3, 5, 2), (3, 2)), ((2, 5, 2, 3), (2, 2, 3))]
)
def test_cross_entropy(reduction, ignore, weighted, smoothing, shape, rows):
    target = np.random.default_rng(1).integers(0, 5, rows)
    weight = draw(5, low=0.5)
    options = {"reduction": reduction, "ignore_index": ignore, "label_smoothing": smoothing}
    both(
        lambda x, t: F.cross_entropy(x, t, lg.tensor(weight) if weighted else None, **options),
        lambda x, t: torch.nn.functional.cross_entropy(
            x, t, torch.tensor(weight) if weighted else None, **options
        ),
        [draw(*shape)],
        [target],
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities(reduction, smoothing):
    options = {"reduction": reduction, "label_smoothing": smoothing}
    both(
        lambda x, t: F.cross_entropy(x, t, **options),
        lambda x, t: torch.nn.functional.cross_entropy(x, t, **options),
        [draw(4, 5), draw(4, 5, low=0.0, seed=1)],
    )


LOSSES = [
    ("mse_loss", {}),
    ("smooth_l1_loss", {"beta": 0.3}),
    ("huber_loss", {"delta": 0.3}),
    ("binary_cross_entropy", {}),
    ("binary_cross_entropy_with_logits", {}),
    ("kl_div", {}),
    ("kl_div", {"log_target": True}),
]


@pytest.mark.parametrize(("name", "options"), LOSSES, ids=str)
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_losses(name, options, reduction):
    x, t = draw(4, 5, low=0.05, high=0.95), draw(4, 5, low=0.05, high=0.95, seed=1)
    both(
        lambda x, t: getattr(F, name)(x, t, reduction=reduction, **options),
        lambda x, t: getattr(torch.nn.functional, name)(x, t, reduction=reduction, **options),
        [x, t],
    )


def test_clip_grad_norm():
    grads = [draw(3, 2), draw(4)]
    ours = [nn.Parameter(lg.tensor(g)) for g in grads]
    theirs = [torch.nn.Parameter(torch.tensor(g)) for g in grads]
    for p, q, g in zip(ours, theirs, grads, strict=True):
        p.grad, q.grad = lg.tensor(g), torch.tensor(g)
    for kind in (2.0, 1.0, float("inf")):
        a = nn.utils.clip_grad_norm_(ours, 0.5, kind).item()
        assert a == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.5, kind).item())
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)
