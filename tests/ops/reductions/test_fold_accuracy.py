"""Folds against exact arithmetic: the bounds that "The same bits" in docs/design.md states.

`u` is half a unit in the last place of 1 in the dtype that is computed in. A fold made in one step
is off by at most 12 u of the sum of the magnitudes, whatever its length.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from fold_cases import (
    DATA,
    LAYOUTS,
    exact_means,
    exact_sums,
    exact_variances,
    groups,
)

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.compiler.folding import BLOCK
from livegrad.graph.state import reference_mode

# Those of a block, and of the sixteen lanes when they are merged.
ROUNDINGS = BLOCK + 4
MODES = {"compiled": nullcontext, "reference": reference_mode}
FLOATS = ("float32", "float64")
HALVES = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # with their own u


@pytest.fixture(params=MODES)
def mode(request: Any) -> Any:
    """Each way of running a program."""
    with MODES[request.param]():
        yield request.param


def unit(dtype: Any) -> float:
    """Half a unit in the last place of 1."""
    return float(np.finfo(dtype).eps) / 2


def array(x: Any) -> Any:
    return x.detach().double().numpy()


def draw(data: str, *shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return DATA[data](np.random.default_rng(seed), *shape).astype(dtype)


class Case(NamedTuple):
    """Values, what is folded into each result, and the exact sums of those and their magnitudes."""

    x: Any
    rows: Any
    sums: Any
    sizes: Any


@lru_cache
def case(data: str, layout: str, dtype: str = "float32") -> Case:
    """What both modes are judged by."""
    shape, dims, _, view = LAYOUTS[layout]
    x = draw(data, *shape, dtype=dtype)
    rows = groups(view(lg.tensor(x)).numpy(), dims)
    return Case(x, rows, exact_sums(rows), exact_sums(np.abs(rows)))


def within(got: Any, exact: Any, bound: Any) -> None:
    """Every result is within its bound of the exact one."""
    error = np.abs(np.asarray(got, np.longdouble).ravel() - exact)
    assert (error <= bound).all(), f"{float((error / bound).max()):.3g} times the bound"


# --------------------------------------------------------------------------------- the issue


def test_long_columns_with_an_offset(mode: str) -> None:
    x = (1000 + np.random.default_rng(0).random((60000, 2))).astype("f")
    t = lg.tensor(x)
    within(array(t.mean(0)), exact_means(x.T), 6.2e-5)  # a unit in the last place of 1000
    within(array(t.std(0)), np.sqrt(exact_variances(x.T)), 3e-8)


def test_many_equal_numbers(mode: str) -> None:
    exact = 60000 * float(np.float32(0.1))
    within(array(lg.full((60000, 64), 0.1).sum(0)), np.full(64, exact), exact * 2**-23)


# ---------------------------------------------------------------------------- sums and means


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sum(dtype: str, data: str, layout: str, mode: str) -> None:
    _, dims, steps, view = LAYOUTS[layout]
    x, _, sums, sizes = case(data, layout, dtype)
    bound = ROUNDINGS * steps * unit(dtype) * sizes
    within(array(view(lg.tensor(x)).sum(dims)), sums, bound)
    # What is folded is computed in the same kernel.
    within(array((view(lg.tensor(x)) * -2).sum(dims)), -2 * sums, 2 * bound)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", FLOATS)
def test_mean(dtype: str, data: str, layout: str, mode: str) -> None:
    _, dims, steps, view = LAYOUTS[layout]
    x, rows, sums, sizes = case(data, layout, dtype)
    count = rows.shape[1]
    bound = (ROUNDINGS * steps + 1) * unit(dtype) * sizes / count
    within(array(view(lg.tensor(x)).mean(dims)), sums / count, bound)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precisions_are_rounded_once(dtype: str, data: str, layout: str, mode: str) -> None:
    shape, dims, steps, view = LAYOUTS[layout]
    x = view(lg.tensor(draw(data, *shape)).to(getattr(lg, dtype)))
    rows = groups(array(x), dims)
    exact, size = exact_means(rows), exact_means(np.abs(rows))
    tiny = 2.0**-25 if dtype == "float16" else 0.0  # half of the least number there is
    inner = (ROUNDINGS * steps + 2) * unit(np.float32) * size
    within(array(x.mean(dims)), exact, HALVES[dtype] * np.abs(exact) * (1 + 1e-3) + inner + tiny)
    total = array(x.sum(dims))
    finite = np.isfinite(total).ravel()
    inner, exact = inner * rows.shape[1], exact_sums(rows)
    bound = HALVES[dtype] * np.abs(exact) * (1 + 1e-3) + inner + tiny
    within(total.ravel()[finite], exact[finite], bound[finite])
    assert (np.abs(exact[~finite]) > 65_000).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_infinite_sums(dtype: str, mode: str) -> None:
    kind = getattr(lg, dtype)
    for values, total in (
        ([1.0, math.inf], math.inf),
        ([-math.inf, 3.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
    ):
        x = lg.tensor([values, values] * 50, dtype=kind)
        np.testing.assert_equal(array(x.sum(1)), [total] * 100)
        np.testing.assert_equal(array(x.t().sum(0)), [total] * 100)
        np.testing.assert_equal(array(x.sum()), total)


def test_a_sum_larger_than_its_dtype(mode: str) -> None:
    for dtype in (np.float32, np.float64):
        largest = np.finfo(dtype).max
        assert array(lg.tensor(np.full((40, 3), largest)).sum(0)).tolist() == [math.inf] * 3


@pytest.mark.parametrize("name", ["nansum", "nanmean"])
def test_folds_that_skip_nan(name: str, mode: str) -> None:
    x = draw("offset", 5003, 3)
    x[::7] = np.nan
    rows = x[~np.isnan(x[:, 0])].T
    exact = exact_sums(rows) if name == "nansum" else exact_means(rows)
    within(array(getattr(lg, name)(lg.tensor(x), 0)), exact, 10 * unit("f") * exact)


def test_complex_sums(mode: str) -> None:
    for dtype, real in ((np.complex64, np.float32), (np.complex128, np.float64)):
        x = draw("offset", 60_000, 3) - 1j * draw("alternating", 60_000, 3)
        x = x.astype(dtype)
        y = lg.tensor(x).sum(0).numpy()
        for part in (np.real, np.imag):
            rows = part(x).T
            bound = 16 * unit(real) * exact_sums(np.abs(rows))
            within(part(y).astype(np.float64), exact_sums(rows), bound)


# ------------------------------------------------------------------------- variances, norms


@pytest.mark.parametrize("layout", ["short rows", "rows", "columns", "apart", "all", "permuted"])
@pytest.mark.parametrize("far", [0, 1e3, 1e6])
@pytest.mark.parametrize("dtype", FLOATS)
def test_variance_far_from_zero(dtype: str, far: float, layout: str, mode: str) -> None:
    shape, dims, _, view = LAYOUTS[layout]
    x = (far + np.random.default_rng(1).random(shape)).astype(dtype)
    t = view(lg.tensor(x))
    exact = exact_variances(groups(t.numpy(), dims))
    units = ROUNDINGS + 4  # of a deviation, its square, their sum and the quotient
    within(array(t.var(dims)), exact, units * unit(dtype) * exact)
    within(array(t.std(dims)), np.sqrt(exact), units * unit(dtype) * np.sqrt(exact))


@pytest.mark.parametrize("dtype", HALVES)
def test_variance_of_half_precisions(dtype: str, mode: str) -> None:
    x = lg.tensor(draw("offset", 5003, 3)).to(getattr(lg, dtype))
    exact = exact_variances(array(x).T)
    within(array(x.var(0)), exact, (HALVES[dtype] + 16 * unit("float32")) * exact)


def test_variance_of_equal_values_is_zero(mode: str) -> None:
    for dtype in (lg.float32, lg.float64):
        x = lg.full((1001, 3), 0.1, dtype=dtype)
        assert array(x.var(0)).tolist() == [0.0] * 3
        assert array(x.std(0)).tolist() == [0.0] * 3
        assert np.isfinite(array(F.batch_norm(x, None, None, training=True))).all()
        assert np.isfinite(array(F.layer_norm(x.t(), (1001,)))).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", DATA)
def test_norms(data: str, layout: str, mode: str) -> None:
    _, dims, steps, view = LAYOUTS[layout]
    x, rows, _, sizes = case(data, layout)
    t, u = view(lg.tensor(x)), unit("float32")
    length = np.sqrt(exact_sums(rows.astype(np.float64) ** 2))
    within(array(t.norm(dim=dims)), length, (ROUNDINGS * steps + 3) / 2 * u * length)
    within(array(t.norm(1, dim=dims)), sizes, ROUNDINGS * steps * u * sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logsumexp(layout: str, mode: str) -> None:
    _, dims, steps, view = LAYOUTS[layout]
    x, rows, _, _ = case("alternating", layout)
    exact = np.log(exact_sums(np.exp(rows.astype(np.float64))))
    bound = unit("f") * ((ROUNDINGS * steps + 4) + np.abs(exact) + 3)
    within(array(view(lg.tensor(x)).logsumexp(dims)), exact, bound)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(dtype: str, mode: str) -> None:
    factors = (1 + np.random.default_rng(3).normal(size=(5003, 3)) * 1e-3).astype(dtype)
    exact = np.prod(factors.astype(np.longdouble), 0)
    units = 2 if dtype == "float32" else 5003  # each factor costs a rounding in any order
    within(array(lg.tensor(factors).prod(0)), exact, units * unit(dtype) * exact)
    within(array(lg.tensor(factors.T.copy()).prod(1)), exact, units * unit(dtype) * exact)


# -------------------------------------------------------------------------------- scans, scatters


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("dtype", FLOATS)
def test_running_sums(dtype: str, data: str, mode: str) -> None:
    x = draw(data, 20_011, 2, dtype=dtype)
    exact = [
        np.array([float(v) for v in np.cumsum(column.astype(np.longdouble))]) for column in x.T
    ]
    # Carried in twice the precision, rounded for each result.
    size = np.cumsum(np.abs(x).astype(np.float64), 0)
    for column, wanted, sizes in zip(x.T, exact, size.T, strict=True):
        bound = 2 * unit(dtype) * np.abs(wanted) + 1e-15 * unit(dtype) * sizes + 1e-18 * sizes
        within(array(lg.tensor(column.copy()).cumsum(0)), wanted, bound)
    within(
        array(lg.tensor(x).cumsum(0)),
        np.stack(exact, 1).ravel(),
        (2 * unit(dtype) * np.abs(np.stack(exact, 1)) + 1e-18 * size).ravel(),
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_scattered_half_precisions_are_rounded_once(dtype: str, mode: str) -> None:
    kind = getattr(lg, dtype)
    ones = lg.ones(3000, 2, dtype=kind)
    where = lg.zeros(3000, dtype=lg.int64)
    base = lg.zeros(2, 2, dtype=kind)
    wanted = [[float(lg.tensor(3000.0, dtype=kind).item())] * 2, [0.0, 0.0]]
    assert array(base.index_add(0, where, ones)).tolist() == wanted
    assert array(base.scatter_add(0, where[:, None].expand(-1, 2), ones)).tolist() == wanted
    assert array(base.index_put((where,), ones, accumulate=True)).tolist() == wanted
    weight = lg.zeros(2, 2, dtype=kind, requires_grad=True)
    F.embedding(where, weight).sum().backward()
    assert array(weight.grad).tolist() == wanted


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_segments(reduce: str, mode: str) -> None:
    x = draw("long", 60_000, 2)
    y = lg.segment_reduce(lg.tensor(x), reduce, lengths=lg.tensor([60_000]))
    exact = exact_sums(x.T) if reduce == "sum" else exact_means(x.T)
    within(array(y), exact, 2 * unit("f") * exact)


# ------------------------------------------------------------------------- gradients, layers


def test_gradients_of_what_was_broadcast(mode: str) -> None:
    g = draw("offset", 20_000, 3)
    exact = exact_sums(g.T)
    linear = nn.Linear(4, 3)
    linear(lg.ones(20_000, 4)).backward(lg.tensor(g))
    within(array(linear.bias.grad), exact, ROUNDINGS * unit("f") * exact)
    bias = lg.zeros(3, requires_grad=True)
    (lg.ones(20_000, 3) + bias).backward(lg.tensor(g))
    within(array(bias.grad), exact, ROUNDINGS * unit("f") * exact)
    scale = lg.ones(1, requires_grad=True)
    (lg.ones(20_000, 3) * scale).backward(lg.tensor(g))
    within(array(scale.grad), exact_sums(g.reshape(1, -1)), ROUNDINGS * unit("f") * exact.sum())


def test_gradient_of_a_convolutions_bias(mode: str) -> None:
    g = draw("offset", 7, 3, 61, 5)
    conv = nn.Conv2d(1, 3, 1)
    conv(lg.ones(7, 1, 61, 5)).backward(lg.tensor(g))
    exact = exact_sums(groups(g, (0, 2, 3)))
    within(array(conv.bias.grad), exact, 2 * ROUNDINGS * unit("f") * exact)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_gradient_of_a_recurrent_bias(kind: str, mode: str) -> None:
    """Each step's share is the same here but for rounding, and there are many steps."""
    lg.manual_seed(0)
    x = lg.tensor(draw("long", 1, 2500, 3))
    gradients = []
    for dtype in (lg.float32, lg.float64):
        # A GRU's z has differences of states that are almost equal for slopes: for weights of some
        # seeds, the roundings of the states alone come to more than the bound, however it is run.
        lg.manual_seed(1 if kind == "GRU" else 0)
        layer = getattr(nn, kind)(3, 2, batch_first=True).to(dtype)
        with lg.no_grad():
            layer.weight_hh_l0.zero_()
        layer(x.to(dtype))[0].sum().backward()
        gradients.append(array(layer.bias_ih_l0.grad))
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=2e-6)


def test_gradients_of_layer_norm(mode: str) -> None:
    x, g = draw("alternating", 20_000, 8), draw("offset", 20_000, 8, seed=1)
    layer = nn.LayerNorm(8)
    layer(lg.tensor(x)).backward(lg.tensor(g))
    wide = x.astype(np.float64)
    apart = wide - wide.mean(1, keepdims=True)
    normal = apart / np.sqrt((apart**2).mean(1, keepdims=True) + 1e-5)
    each = normal * g
    bound = (ROUNDINGS + 16) * unit("f") * exact_sums(np.abs(each).T)
    within(array(layer.weight.grad), exact_sums(each.T), bound)
    within(array(layer.bias.grad), exact_sums(g.T), ROUNDINGS * unit("f") * exact_sums(g.T))


@pytest.mark.parametrize("shape", [(60_000, 2), (64, 3), (9, 4), (32, 3, 13, 7), (5, 2, 1001)])
@pytest.mark.parametrize("far", [0, 1e3, 1e6])
def test_batch_statistics(far: float, shape: tuple[int, ...], mode: str) -> None:
    x = (far + np.random.default_rng(2).random(shape)).astype("f")
    rows = groups(x, (0, *range(2, len(shape))))
    mean, variance = lg.zeros(shape[1]), lg.zeros(shape[1])
    F.batch_norm(lg.tensor(x), mean, variance, training=True, momentum=1.0)
    size = exact_means(np.abs(rows))
    within(array(mean), exact_means(rows), (2 * ROUNDINGS + 3) * unit("f") * size)
    exact = exact_variances(rows)
    within(array(variance), exact, (2 * ROUNDINGS + 8) * unit("f") * exact)


@pytest.mark.parametrize("far", [0, 1e3, 1e5])
@pytest.mark.parametrize("norm", ["batch", "layer", "group", "instance"])
def test_normal_values(norm: str, far: float, mode: str) -> None:
    """The values of a row or channel less their mean, which is rounded, by their deviation."""
    x = (far + np.random.default_rng(4).random((6, 4, 501))).astype("f")
    dims, call = {
        "batch": ((0, 2), lambda t: F.batch_norm(t, None, None, training=True)),
        "layer": ((2,), lambda t: F.layer_norm(t, (501,))),
        "group": ((2,), lambda t: F.group_norm(t, 4)),
        "instance": ((2,), lambda t: F.instance_norm(t)),
    }[norm]
    wide = x.astype(np.longdouble)
    apart = wide - wide.mean(dims, keepdims=True)
    exact = apart / np.sqrt((apart**2).mean(dims, keepdims=True) + 1e-5)
    deviation = 0.28
    bound = 32 * unit("f") * np.abs(exact).max() + 3 * unit("f") * (far + 1) / deviation
    within(array(call(lg.tensor(x))), exact.ravel(), bound)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("shape", [(20_003, 3), (81920,), (3, 5, 2001)])
def test_losses(shape: tuple[int, ...], reduction: str, mode: str) -> None:
    x, y = draw("offset", *shape), draw("offset", *shape, seed=1)
    apart = (x - y).astype(np.float64)  # exact in float32 too
    for loss, each in (("l1_loss", np.abs(apart)), ("mse_loss", apart**2)):
        rows = each.reshape(1, -1)
        exact = exact_sums(rows) if reduction == "sum" else exact_sums(rows) / rows.size
        got = getattr(F, loss)(lg.tensor(x), lg.tensor(y), reduction=reduction)
        within(array(got), exact, (2 * ROUNDINGS + 2) * unit("f") * exact)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_cross_entropy_of_many_rows(reduction: str, mode: str) -> None:
    x, labels = draw("alternating", 30_011, 5), np.arange(30_011) % 5
    wide = x.astype(np.float64)
    each = np.log(np.exp(wide).sum(1)) - wide[np.arange(len(x)), labels]
    exact = exact_sums(each[None]) / (1 if reduction == "sum" else len(x))
    got = F.cross_entropy(lg.tensor(x), lg.tensor(labels), reduction=reduction)
    within(array(got), exact, 2 * ROUNDINGS * unit("f") * exact)


def test_softmax_of_long_columns(mode: str) -> None:
    x = draw("alternating", 20_011, 2)
    each = np.exp(x.astype(np.float64))
    exact = each / exact_sums(each.T)
    within(
        array(lg.tensor(x).softmax(0)), exact.ravel(), (ROUNDINGS + 8) * unit("f") * exact.ravel()
    )


def test_a_fold_of_what_rows_gave(mode: str) -> None:
    """The mean of a loss, which the kernel of its rows ends with."""
    x = draw("offset", 4001, 17)
    exact = exact_sums(x.reshape(1, -1))
    within(array(lg.tensor(x).sum(1).sum()), exact, 2 * ROUNDINGS * unit("f") * exact)
    within(array(lg.tensor(x).mean(1).mean()), exact / x.size, 20 * unit("f") * exact / x.size)


@pytest.mark.parametrize("dtype", [lg.float32, lg.bfloat16])
@pytest.mark.parametrize("power", [-120, -100, -60, -40, 0, 40, 60, 64, 100, 112])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_deviations_of_values_whose_squares_are_no_float32(
    dim: int | None, power: int, dtype: Any, mode: str
) -> None:
    """Values and deviations times a power of two are those of ordinary ones, times that."""
    numbers = np.random.default_rng(0).integers(-127, 128, (37, 19)).astype(np.float64)
    x = lg.tensor(numbers * 2.0**power, dtype=dtype)
    assert x.double().numpy().tolist() == (numbers * 2.0**power).tolist()
    dims = () if dim is None else (dim,)
    want = numbers.std(axis=dim, ddof=1) * 2.0**power
    found = lg.std(x, *dims).double().numpy()
    assert np.allclose(found, want, rtol=2.0**-7 if dtype is lg.bfloat16 else 2.0**-21, atol=0)
    variance = lg.var(x, *dims).double().numpy()
    if abs(power) < 60:
        assert np.allclose(variance, want**2, rtol=2.0**-7, atol=0)


def test_the_deviation_of_nothing() -> None:
    assert np.isnan(lg.zeros(0, 3).std(0).numpy()).all()
    assert lg.zeros(0, 3).std(1).shape == (0,)
