"""Matrix products: values, bits, and nothing touched that is not theirs."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.compiler.products import Tile, tile_for
from livegrad.runtime.report import last_steps

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "f4") -> Any:
    return lg.tensor(RNG.standard_normal(shape).astype(dtype))


@pytest.mark.skipif(sys.platform != "linux", reason="maps pages by Linux's numbers")
@pytest.mark.parametrize("module", ["products_bounds", "windows_bounds"])
def test_nothing_is_touched_out_of_bounds(python: Any, module: str) -> None:
    done = python(f"from tests.compiler.{module} import main; main()", check=False)
    assert done.stdout == "within bounds\n", (done.returncode, done.stderr)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x.numpy()).tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_row_has_the_same_bits_in_any_company(dtype: str) -> None:
    x, weight, bias = (
        drawn(70, 300, dtype=dtype),
        drawn(50, 300, dtype=dtype),
        drawn(50, dtype=dtype),
    )
    whole = F.linear(x, weight, bias)
    for rows in (slice(0, 1), slice(3, 5), slice(10, 14), slice(8, 70), slice(69, 70)):
        assert bits(F.linear(x[rows], weight, bias)) == bits(whole[rows])
    for columns in (slice(0, 1), slice(7, 40)):
        part = F.linear(x, weight[columns], bias[columns])
        assert bits(part) == bits(whole[:, columns])
    assert bits(F.linear(x.reshape(7, 10, 300), weight, bias)) == bits(whole)
    assert bits((weight @ x.T).T + bias) == bits(whole)


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16], ids=str)
def test_half_precisions_are_read_as_they_are(dtype: Any) -> None:
    """No copies in float32 are made for a product; bits are those of the product of such copies."""
    sizes = ((1, 33, 300), (3, 1, 530), (4, 600, 17), (37, 41, 43), (15, 70, 2))
    for (rows, columns, terms), turned in itertools.product(sizes, (False, True)):
        a, b = drawn(rows, terms).to(dtype), drawn(terms, columns).to(dtype)
        if turned:
            a, b = a.T.contiguous().T, b.T.contiguous().T
        found = a @ b
        assert bits(found.float()) == bits((a.float() @ b.float()).to(dtype).float())
        (a @ b).tolist()
        assert [step.kind for step in last_steps()] == ["product"]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_an_image_has_the_same_bits_in_any_company(dtype: str) -> None:
    """Lanes are images if there are enough of them, otherwise windows."""
    x, weight = drawn(50, 40, 6, 7, dtype=dtype), drawn(17, 40, 3, 3, dtype=dtype)
    for options in ({"padding": 1}, {"stride": 2, "dilation": 2, "padding": 2}):
        whole = F.conv2d(x, weight, None, **options)
        for images in (slice(0, 1), slice(3, 8), slice(5, 20), slice(10, 42), slice(17, 50)):
            assert bits(F.conv2d(x[images], weight, None, **options)) == bits(whole[images])
        some = F.conv2d(x, weight[4:9], None, **options)
        assert bits(some) == bits(whole[:, 4:9])


def test_bits_do_not_depend_on_how_operands_lie() -> None:
    a, b = drawn(40, 90), drawn(90, 30)
    plain = bits(a @ b)
    turned_a, turned_b = a.T.contiguous().T, b.T.contiguous().T
    for left in (a, turned_a):
        for right in (b, turned_b):
            assert bits(left @ right) == plain
    strided = lg.zeros(40, 180)
    strided[:, ::2] = a
    assert bits(strided[:, ::2] @ b) == plain


@pytest.mark.parametrize(
    "sizes",
    [(1130, 40, 300), (64, 700, 520), (600, 270, 40), (3, 5000, 300)],
    ids=["tall", "wide", "both", "few"],
)
def test_threads_share_bands_of_rows_and_change_no_bit(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, bias = drawn(m, k), drawn(k, n), drawn(n)
    threads, found = lg.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7, 16):
            lg.set_num_threads(count)
            found.append(bits(a @ b + bias))
    finally:
        lg.set_num_threads(threads)
    assert len(set(found)) == 1
    values = np.frombuffer(found[0], "f4").reshape(m, n)
    exact = a.numpy().astype("f8") @ b.numpy().astype("f8") + bias.numpy()
    sizes_of = np.abs(a.numpy()).astype("f8") @ np.abs(b.numpy()).astype("f8")
    assert (np.abs(values - exact) <= 1e-5 * sizes_of + 1e-6).all()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 40, 33, 30), (3, 9, 14, 29), (7, 30, 28, 28)], ids=str)
def test_threads_share_outputs_as_lanes_and_change_no_bit(sizes: Any, stride: int) -> None:
    x, weight, bias = drawn(*sizes), drawn(50, sizes[1], 3, 3), drawn(50)
    threads, found = lg.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7, 16):
            lg.set_num_threads(count)
            y = nn.functional.conv2d(x, weight, bias, stride, 1)
            found.append(bits(y.relu()))
    finally:
        lg.set_num_threads(threads)
    assert len(set(found)) == 1
    exact = nn.functional.conv2d(x.double(), weight.double(), bias.double(), stride, 1)
    values = np.frombuffer(found[0], "f4").reshape(exact.shape)
    np.testing.assert_allclose(values, exact.relu().numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("sizes", [(3, 50, 60, 33), (1, 700, 7, 7), (4, 16, 120, 120)], ids=str)
def test_threads_share_channels_by_themselves_and_change_no_bit(sizes: Any) -> None:
    x, weight, scale = drawn(*sizes), drawn(sizes[1], 1, 3, 3), drawn(sizes[1], 1, 1)
    threads, found = lg.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7, 16):
            lg.set_num_threads(count)
            y = nn.functional.conv2d(x, weight, padding=1, groups=sizes[1])
            found.append(bits((y * scale).relu()))
    finally:
        lg.set_num_threads(threads)
    assert len(set(found)) == 1
    y = nn.functional.conv2d(x.double(), weight.double(), padding=1, groups=sizes[1])
    exact = (y * scale.double()).relu().numpy()
    values = np.frombuffer(found[0], "f4").reshape(sizes)
    np.testing.assert_allclose(values, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "sizes",
    [
        ((20, 3, 20, 28), (6, 3, 5, 5), 0),  # windows are lanes
        ((3, 8, 9, 9, 9), (20, 8, 3, 3, 3), 1),
        ((9, 2, 30, 7), (5, 2, 3, 3), 1),  # too few of them
        ((6, 40, 10, 12), (24, 40, 3, 3), 1),  # channels are taken together
        ((6, 20, 28, 26), (17, 20, 3, 3), 1),  # a sum of two parts
        ((10, 35, 21, 20), (35, 1, 3, 5), 1),  # channels by themselves, two parts
    ],
    ids=["lanes", "volumes", "few", "channels", "parts", "alone"],
)
def test_threads_share_gradients_of_weights_and_change_no_bit(sizes: Any) -> None:
    shape, weights, padding = sizes
    x, groups = drawn(*shape), shape[1] // weights[1]
    counts = [n + 2 * padding - k + 1 for n, k in zip(shape[2:], weights[2:], strict=True)]
    g = drawn(shape[0], weights[0], *counts)
    function = getattr(nn.grad, f"conv{len(counts)}d_weight")
    threads, found = lg.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7, 16):
            lg.set_num_threads(count)
            found.append(bits(function(x, weights, g, padding=padding, groups=groups)))
    finally:
        lg.set_num_threads(threads)
    assert len(set(found)) == 1
    pairs = (x.double(), g.double()), (x.double().abs(), g.double().abs())
    exact, scale = [
        function(a, weights, b, padding=padding, groups=groups).numpy() for a, b in pairs
    ]
    values = np.frombuffer(found[0], "f4").reshape(weights)
    assert (np.abs(values - exact) <= 3e-6 * scale).all()


@pytest.mark.parametrize("dtype", [lg.float32, lg.float64, lg.bfloat16], ids=str)
def test_gradients_of_weights_are_written_in_squares(dtype: Any) -> None:
    """They lie across: neighbours in memory are results of one column."""
    for outputs, channels, taps in ((24, 40, 3), (1, 12, 2), (33, 16, 3), (300, 13, 1), (2, 17, 1)):
        weights, padding = (outputs, channels, taps, taps), taps // 2
        x = drawn(3, channels, 9, 7).to(dtype)
        g = drawn(3, outputs, *[n + 2 * padding - taps + 1 for n in (9, 7)]).to(dtype)
        found = nn.grad.conv2d_weight(x, weights, g, padding=padding)
        exact = nn.grad.conv2d_weight(x.double(), weights, g.double(), padding=padding)
        rounding = 1e-2 if dtype is lg.bfloat16 else 1e-5
        np.testing.assert_allclose(found.double().numpy(), exact.numpy(), rounding, 3e-5)


def test_long_sums_over_windows_are_made_in_parts_once() -> None:
    x, g = drawn(8, 12, 64, 64), drawn(8, 5, 64, 64)
    nn.grad.conv2d_weight(x, (5, 12, 1, 1), g).numpy()
    assert [step.kind for step in last_steps()] == ["product", "loops"]
    halves = nn.grad.conv2d_weight(x.bfloat16(), (5, 12, 1, 1), g.bfloat16())
    want = nn.grad.conv2d_weight(x.bfloat16().float(), (5, 12, 1, 1), g.bfloat16().float())
    assert bits(halves.float()) == bits(want.bfloat16().float())


@pytest.mark.parametrize("channels", [3, 16])
def test_gradients_of_weights_have_the_same_bits_in_a_batch(channels: int) -> None:
    x, g, weight = drawn(5, 8, channels, 20, 28), drawn(5, 8, 6, 18, 26), (6, channels, 3, 3)

    def slopes(x: Any, g: Any) -> Any:
        return nn.grad.conv2d_weight(x, weight, g)

    each = [bits(slopes(x[i], g[i])) for i in range(5)]
    assert bits(lg.func.vmap(slopes)(x, g)) == b"".join(each)
    each = [bits(slopes(x[0], g[i])) for i in range(5)]
    assert bits(lg.func.vmap(slopes, (None, 0))(x[0], g)) == b"".join(each)
    each = [bits(slopes(x[i], g[0])) for i in range(5)]
    assert bits(lg.func.vmap(slopes, (0, None))(x, g[0])) == b"".join(each)


def test_batches_are_broadcast() -> None:
    a, b = drawn(3, 1, 20, 33), drawn(4, 33, 17)
    found = a @ b
    assert found.shape == (3, 4, 20, 17)
    for i in range(3):
        for j in range(4):
            assert bits(found[i, j]) == bits(a[i, 0] @ b[j])


def test_rows_of_dot_products() -> None:
    a, b = drawn(6, 1, 40), drawn(6, 40, 1)
    assert bits(a @ b) == b"".join([bits(a[i] @ b[i]) for i in range(6)])
    assert bits(lg.dot(a[0, 0], b[0, :, 0])) == bits(a[0] @ b[0])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_wrap(dtype: str) -> None:
    a, b = [RNG.integers(0, 100, shape).astype(dtype) for shape in ((20, 30), (30, 40))]
    assert (lg.tensor(a) @ lg.tensor(b)).numpy().tolist() == (a @ b).tolist()


def test_two_products_that_meet() -> None:
    x, h, w, u = drawn(20, 8), drawn(20, 16), drawn(24, 8), drawn(24, 16)
    found = lg.tanh(F.linear(x, w) + F.linear(h, u)).numpy()
    assert [step.kind for step in last_steps()] == ["product"]
    want = np.tanh(x.numpy() @ w.numpy().T + h.numpy() @ u.numpy().T)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_infinite_terms_stay_in_their_rows_and_columns() -> None:
    a, b = RNG.standard_normal((9, 21)).astype("f"), RNG.standard_normal((21, 19)).astype("f")
    a[3, 20], b[20, 18] = np.inf, np.nan
    found = (lg.tensor(a) @ lg.tensor(b)).numpy()
    assert np.isfinite(np.delete(np.delete(found, 3, 0), 18, 1)).all()
    assert not np.isfinite(found[3]).any()
    assert np.isnan(found[:, 18]).all()


def test_tiles_fit_into_registers() -> None:
    assert tile_for(32, "float") == Tile(14, 2)
    for vectors in (32, 8, 4):
        for element in ("float", "double", "i32", "i64"):
            rows, wide = tile_for(vectors, element)
            assert (rows * wide + wide) * (2 if element in ("double", "i64") else 1) <= vectors
