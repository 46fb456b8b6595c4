"""Folds against PyTorch's: never off by more than twice what PyTorch is, and a rounding.

Errors are those of the worst of many results: where large numbers cancel, a single one of either
may be right by luck.
"""

import numpy as np
import pytest
from fold_cases import DATA, LAYOUTS, groups, offset

import livegrad as lg
import livegrad.nn.functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional
DRAWS = range(3)  # of each case
RESULTS = 12  # to take the worst of, at least


def exact(x):
    """`x` in a precision in which errors of its own show."""
    x = np.asarray(x)
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def no_worse(cases):
    """Of (ours, PyTorch's, the exact) result of each draw: our largest error is small enough."""
    ours, theirs, rounding = 0.0, 0.0, 0.0
    for mine, other, right in cases:
        mine, other = (t.detach().numpy() for t in (mine, other))
        assert mine.shape == other.shape
        assert mine.dtype == other.dtype
        right = np.reshape(right, mine.shape)
        ours = max(ours, np.abs(mine - right).max())
        theirs = max(theirs, np.abs(other - right).max())
        rounding = max(rounding, np.spacing(np.abs(right).max().astype(mine.dtype)))
    assert ours <= 2 * theirs + rounding, f"{ours / rounding} and {theirs / rounding} roundings"


FOLDS = {
    "sum": (lambda t, d: t.sum(d), lambda rows: rows.sum(1)),
    "mean": (lambda t, d: t.mean(d), lambda rows: rows.mean(1)),
    "var": (lambda t, d: t.var(d), lambda rows: rows.var(1, ddof=1)),
    "std": (lambda t, d: t.std(d, correction=0), lambda rows: rows.std(1)),
    "norm": (lambda t, d: t.norm(dim=d), lambda rows: np.sqrt((rows**2).sum(1))),
    "norm 1": (lambda t, d: t.norm(1, dim=d), lambda rows: np.abs(rows).sum(1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("fold", FOLDS)
def test_fold(fold, dtype, layout):
    shape, dims, _, view = LAYOUTS[layout]
    call, right = FOLDS[fold]
    results = len(groups(view(torch.zeros(shape)).numpy(), dims))
    for data in DATA.values():
        cases = []
        for seed in range(-(-RESULTS // results)):
            x = data(np.random.default_rng(seed), *shape).astype(dtype)
            mine, other = view(lg.tensor(x)), view(torch.tensor(x))
            rows = exact(groups(other.numpy(), dims))
            cases.append((call(mine, dims), call(other, dims), right(rows)))
        no_worse(cases)


@pytest.mark.parametrize("layout", ["rows", "columns", "middle", "all"])
@pytest.mark.parametrize("fold", ["nansum", "nanmean"])
def test_fold_that_skips_nan(fold, layout):
    shape, dims, _, _ = LAYOUTS[layout]
    cases = []
    for seed in DRAWS:
        x = offset(np.random.default_rng(seed), *shape).astype("f")
        x.reshape(-1)[::11] = np.nan
        right = getattr(np, fold)(exact(groups(x, dims)), 1)
        mine, other = (getattr(module, fold) for module in (lg, torch))
        cases.append((mine(lg.tensor(x), dims), other(torch.tensor(x), dims), right))
    no_worse(cases)


@pytest.mark.parametrize("layout", ["rows", "columns", "middle", "all"])
def test_logsumexp(layout):
    shape, dims, _, _ = LAYOUTS[layout]
    cases = []
    for seed in DRAWS:
        x = np.random.default_rng(seed).normal(size=shape).astype("f")
        right = np.log(np.exp(exact(groups(x, dims))).sum(1))
        cases.append((lg.tensor(x).logsumexp(dims), torch.tensor(x).logsumexp(dims), right))
    no_worse(cases)


@pytest.mark.parametrize("dim", [0, 1])
def test_product(dim):
    cases = []
    for seed in DRAWS:
        x = (1 + np.random.default_rng(seed).normal(size=(501, 503)) * 1e-2).astype("f")
        cases.append((lg.tensor(x).prod(dim), torch.tensor(x).prod(dim), exact(x).prod(dim)))
    no_worse(cases)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", DATA)
def test_running_sum(data, dtype):
    x = DATA[data](np.random.default_rng(0), 5003, 3).astype(dtype)
    for d in (0, 1):
        no_worse([(lg.tensor(x).cumsum(d), torch.tensor(x).cumsum(d), exact(x).cumsum(d))])


@pytest.mark.parametrize("far", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("shape", [(60_000, 3), (100, 7), (10, 5), (16, 5, 9, 9)])
def test_batch_statistics(shape, far):
    dims = (0, *range(2, len(shape)))
    means, variances = [], []
    for seed in DRAWS:
        x = (far + np.random.default_rng(seed).random(shape)).astype("f")
        states = []
        for module, functions in ((lg, F), (torch, TF)):
            mean, variance = module.zeros(shape[1]), module.zeros(shape[1])
            functions.batch_norm(module.tensor(x), mean, variance, training=True, momentum=1.0)
            states.append((mean, variance))
        rows = exact(groups(x, dims))
        (mean, variance), (other_mean, other_variance) = states
        means.append((mean, other_mean, rows.mean(1)))
        variances.append((variance, other_variance, rows.var(1, ddof=1)))
    no_worse(means)
    no_worse(variances)


@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("norm", ["layer", "group", "instance", "batch"])
def test_normal_values(norm, far):
    calls = {
        "layer": lambda f, t: f.layer_norm(t, (501,)),
        "group": lambda f, t: f.group_norm(t, 4),
        "instance": lambda f, t: f.instance_norm(t),
        "batch": lambda f, t: f.batch_norm(t, None, None, training=True),
    }
    dims = (0, 2) if norm == "batch" else (2,)
    cases = []
    for seed in DRAWS:
        x = (far + np.random.default_rng(seed).random((6, 4, 501))).astype("f")
        wide = exact(x)
        apart = wide - wide.mean(dims, keepdims=True)
        right = apart / np.sqrt((apart**2).mean(dims, keepdims=True) + 1e-5)
        mine = calls[norm](F, lg.tensor(x))
        cases.append((mine, calls[norm](TF, torch.tensor(x)), right))
    no_worse(cases)


def test_bias_gradient():
    cases = []
    for seed in DRAWS:
        g = offset(np.random.default_rng(seed), 60_000, 3).astype("f")
        gradients = []
        for module, functions in ((lg, F), (torch, TF)):
            bias = module.zeros(3, requires_grad=True)
            y = functions.linear(module.ones(60_000, 2), module.ones(3, 2), bias)
            y.backward(module.tensor(g))
            gradients.append(bias.grad)
        cases.append((*gradients, exact(g).sum(0)))
    no_worse(cases)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", ["l1_loss", "mse_loss", "smooth_l1_loss", "cross_entropy"])
def test_loss(loss, reduction):
    cases = []
    for seed in DRAWS:
        rng = np.random.default_rng(seed)
        x, y = (rng.random((30_011, 5)).astype("f") for _ in range(2))
        apart = exact(x) - exact(y)
        if loss == "cross_entropy":
            y = np.arange(len(x)) % 5
            each = np.log(np.exp(exact(x)).sum(1)) - exact(x)[np.arange(len(x)), y]
        else:
            half = apart**2 / 2
            each = {"l1_loss": np.abs(apart), "mse_loss": 2 * half, "smooth_l1_loss": half}[loss]
        right = getattr(each, reduction)()
        mine = getattr(F, loss)(lg.tensor(x), lg.tensor(y), reduction=reduction)
        other = getattr(TF, loss)(torch.tensor(x), torch.tensor(y), reduction=reduction)
        cases.append((mine, other, right))
    no_worse(cases)


def test_softmax_of_columns():
    x = np.random.default_rng(0).normal(size=(20_011, 3)).astype("f")
    each = np.exp(exact(x))
    no_worse([(lg.tensor(x).softmax(0), torch.tensor(x).softmax(0), each / each.sum(0))])


@pytest.mark.parametrize("data", DATA)
def test_trace(data):
    cases = []
    for seed in range(RESULTS):
        x = np.diag(DATA[data](np.random.default_rng(seed), 2000, 1)[:, 0].astype("f"))
        cases.append((lg.tensor(x).trace(), torch.tensor(x).trace(), exact(x).trace()))
    no_worse(cases)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("call", ["sum", "mean", "var", "cumsum", "index_add", "scatter_add"])
def test_half_precisions(call, dtype):
    """Both are rounded from float32 or better: a rounding of the half precision apart at most."""
    x = np.random.default_rng(0).random((3000, 2)).astype("f")
    results = []
    for module in (lg, torch):
        t = module.tensor(x).to(getattr(module, dtype))
        zeros = module.zeros(1, 2, dtype=t.dtype)
        rows = module.zeros(3000, dtype=module.int64)
        if call == "index_add":
            value = zeros.index_add(0, rows, t)
        elif call == "scatter_add":
            value = zeros.scatter_add(0, rows[:, None].expand(-1, 2), t)
        else:
            value = getattr(t, call)(0)
        results.append(value.double().numpy())
    np.testing.assert_allclose(*results, rtol=2.0 ** (-7 if dtype == "bfloat16" else -10))
