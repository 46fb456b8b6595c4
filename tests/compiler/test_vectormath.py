"""Elementary functions: errors in ULP against exact values, edge cases, equality across hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest
from building import LANES, host_builder, wide
from test_builder import compile_ir

from livegrad.runtime.cpu.target import Target

mpmath.mp.dps = 50
INF, NAN = np.inf, np.nan

# name: (bound on the float error in ULP, where the random points lie)
FLOAT = {
    "exp": (1.1, [(-104, 89), (-1, 1)]),
    "exp2": (1.2, [(-150, 128), (-1, 1)]),
    "expm1": (1.8, [(-18, 89), (-1, 1), (-1e-3, 1e-3)]),
    "log": (1.0, [(0, 3), (0, 1e30)]),
    "log2": (0.51, [(0, 3), (0, 1e30)]),
    "log10": (0.51, [(0, 3), (0, 1e30)]),
    "log1p": (0.51, [(-1, 1), (-1e-3, 1e-3), (0, 1e30)]),
    "tanh": (3.0, [(-10, 10), (-1, 1), (-1e-3, 1e-3)]),
    "sigmoid": (2.4, [(-104, 20), (-3, 3)]),
    "erf": (1.5, [(-4, 4), (-1, 1), (-1e-3, 1e-3)]),
    "erfc": (0.51, [(-4, 10.1), (-1, 1)]),
    "sin": (1.6, [(-10, 10), (-1e4, 1e4), (-1e9, 1e9), (-1e30, 1e30)]),
    "cos": (1.6, [(-10, 10), (-1e4, 1e4), (-1e9, 1e9), (-1e30, 1e30)]),
    "tan": (0.51, [(-10, 10), (-1e4, 1e4), (-1e9, 1e9)]),
    "asin": (0.51, [(-1, 1), (-1e-3, 1e-3)]),
    "acos": (0.51, [(-1, 1), (0.99, 1)]),
    "atan": (0.51, [(-1, 1), (-10, 10), (-1e30, 1e30)]),
    "sinh": (0.51, [(-90, 90), (-1, 1), (-1e-3, 1e-3)]),
    "cosh": (0.51, [(-90, 90), (-1, 1)]),
    "asinh": (0.51, [(-3, 3), (-1e-3, 1e-3), (-1e30, 1e30)]),
    "acosh": (0.51, [(1, 3), (1, 1e30), (1, 1.001)]),
    "atanh": (0.51, [(-1, 1), (-1e-3, 1e-3)]),
}
DOUBLE = {
    "exp": (1.1, [(-745, 710), (-1, 1)]),
    "expm1": (1.8, [(-40, 710), (-1, 1), (-1e-3, 1e-3)]),
    "log": (1.0, [(0, 3), (0, 1e300)]),
    "log1p": (1.0, [(-1, 1), (-1e-3, 1e-3), (0, 1e300), (-1, 10)]),
    "tanh": (3.0, [(-20, 20), (-1, 1), (-1e-3, 1e-3)]),
    "sigmoid": (2.4, [(-746, 40), (-3, 3)]),
}
LIBM = {"exp2", "log2", "log10", "erf", "erfc", "sin", "cos", "tan", "asin", "acos", "atan"}
LIBM |= {"sinh", "cosh", "asinh", "acosh", "atanh"}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def mp_sigmoid(x: mpmath.mpf) -> mpmath.mpf:
    return 1 / (1 + mpmath.exp(-x))


def exact(name: str) -> Callable[..., mpmath.mpf]:
    special = {
        "exp2": lambda x: mpmath.power(2, x),
        "log2": lambda x: mpmath.log(x, 2),
        "sigmoid": mp_sigmoid,
        "pow": mpmath.power,
    }
    return special.get(name) or getattr(mpmath, name)


NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
NUMPY_NAMES |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power"}


def double_precision(name: str) -> Callable[..., np.ndarray]:
    """The function on extended (80-bit) or double arrays, exact enough to judge floats."""
    if name == "sigmoid":
        return sigmoid
    if name in ("erf", "erfc"):
        from math import erf, erfc

        return np.vectorize(erf if name == "erf" else erfc, otypes=[np.float64])
    return getattr(np, NUMPY_NAMES.get(name, name))


_KERNELS: dict[tuple[str, str, Target | None], Callable[..., None]] = {}


def apply(name: str, *arrays: np.ndarray, target: Target | None = None) -> np.ndarray:
    """Run `b.<name>` compiled on whole arrays."""
    element = {"float32": "float", "float64": "double"}[arrays[0].dtype.name]
    key = (name, element, target)
    if key not in _KERNELS:
        _KERNELS[key] = build(name, element, len(arrays), target)
    arrays = tuple(np.ascontiguousarray(x) for x in arrays)
    out = np.empty_like(arrays[0])
    _KERNELS[key](*[x.ctypes.data for x in arrays], out.ctypes.data, out.size)
    return out


def build(name: str, element: str, inputs: int, target: Target | None) -> Callable[..., None]:
    b = host_builder(
        "kernel", [("ptr", f"x{i}") for i in range(inputs)] + [("ptr", "out"), ("i64", "n")]
    )
    *xs, out, n = b.params
    with b.loop(0, n, LANES) as loop:
        mask = b.lane_mask(b.sub(n, loop.index))
        values = [b.load(wide(element), b.gep(x, element, loop.index), mask) for x in xs]
        b.store(getattr(b, name)(*values), b.gep(out, element, loop.index), mask)
    return compile_ir(b.ir(), "kernel", inputs + 2, target)


def points(ranges: list[tuple[float, float]], dtype: type, count: int) -> np.ndarray:
    """Random points of the ranges, half of them spread over the exponents."""
    rng = np.random.default_rng(0)
    parts = []
    for low, high in ranges:
        parts.append(rng.uniform(low, high, count))
        sizes = np.abs(rng.choice([x for x in (low, high) if x], count)).astype(np.float64)
        spread = sizes * np.exp2(-30 * rng.random(count))
        parts.append(np.where(rng.random(count) < 0.5, spread, -spread))
    x = np.concatenate(parts).astype(dtype)
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    return x[(x > low) & (x < high)]


def ulp_error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in spacings of `got`'s format at `want`; infinite where one is not finite."""
    tiny = np.finfo(got.dtype).smallest_subnormal
    with np.errstate(all="ignore"):
        near = want.astype(got.dtype)
        _, exponent = np.frexp(np.abs(want))
        bits = np.finfo(got.dtype).nmant + 1
        unit = np.maximum(np.ldexp(want.dtype.type(1), exponent - bits), want.dtype.type(tiny))
        error = np.abs(got.astype(want.dtype) - want) / unit
        same = (got == near) & ~np.isfinite(near)
    return np.where(same, 0, np.where(np.isnan(error), INF, error))


def mp_error(got: np.ndarray, name: str, *xs: np.ndarray) -> float:
    """The largest error in ULP against mpmath."""
    function, info = exact(name), np.finfo(got.dtype)
    worst = 0.0
    for y, *x in zip(got.tolist(), *[x.tolist() for x in xs], strict=True):
        want = function(*[mpmath.mpf(v) for v in x])
        near = float(want) if got.dtype == np.float64 else float(np.float32(float(want)))
        if y == near:
            continue
        _, exponent = mpmath.frexp(want)
        unit = max(mpmath.ldexp(1, int(exponent) - info.nmant - 1), float(info.smallest_subnormal))
        worst = max(worst, float(abs(mpmath.mpf(y) - want) / unit))
    return worst


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", FLOAT)
def test_float_error(name: str) -> None:
    bound, ranges = FLOAT[name]
    x = points(ranges, np.float32, 60_000)
    got = apply(name, x)
    wide = x.astype(np.longdouble)
    if name in ("erf", "erfc"):
        wide = x.astype(np.float64)
    error = ulp_error(got, double_precision(name)(wide))
    worst = int(np.argmax(error))
    print(f"float {name} {error[worst]:.3f}")
    assert error[worst] <= bound, f"{error[worst]} ULP at {x[worst]!r}: got {got[worst]!r}"


@pytest.mark.parametrize("name", FLOAT)
def test_float_error_exactly(name: str) -> None:
    bound, ranges = FLOAT[name]
    x = points(ranges, np.float32, 100)
    assert mp_error(apply(name, x), name, x) <= bound


@pytest.mark.parametrize("name", DOUBLE)
def test_double_error(name: str) -> None:
    bound, ranges = DOUBLE[name]
    x = points(ranges, np.float64, 700)
    error = mp_error(apply(name, x), name, x)
    print(f"double {name} {error:.3f}")
    assert error <= bound


@pytest.mark.parametrize("name", sorted(LIBM))
def test_double_from_libm(name: str) -> None:
    x = points(FLOAT[name][1], np.float64, 30)
    assert mp_error(apply(name, x), name, x) <= 4


EDGES = [0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.1754944e-38, -1e-38, 1e-30, -1e-30]
EDGES += [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 10.0, -10.0, 88.7228, 88.73, -87.4, -103.9, -104.5]
EDGES += [-149.0, -150.0, 127.99, 128.0, 709.78, 709.79, -745.1, -745.2, 1e9, -1e9, 1.1e9, 3e38]
EDGES += [-3e38, INF, -INF, NAN, 0.99999994, 1.0000001, -0.99999994, 0.70710677, 1.4142135, 5e-324]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FLOAT)
def test_edges(name: str, dtype: type) -> None:
    x = np.array(EDGES, dtype)
    got = apply(name, x)
    want = double_precision(name)(x.astype(np.float64 if "erf" in name else np.longdouble))
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    error = ulp_error(got[~nan], want[~nan])
    assert error.max() <= 4, dict(zip(x[~nan].tolist(), error.tolist(), strict=True))
    signed = (want == 0) & ~nan if name in ("sigmoid", "exp", "exp2", "erfc", "log") else ~nan
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_pairs_of_edges(name: str, dtype: type) -> None:
    values = [0.0, -0.0, 1e-40, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.0, 3.0, -3.0, -3.5, 1e30]
    values += [16777215.0, 16777216.0, -1e30, INF, -INF, NAN]
    base = np.array(values, dtype)
    x, y = np.repeat(base, base.size), np.tile(base, base.size)
    got = apply(name, x, y)
    want = double_precision(name)(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
    np.testing.assert_array_max_ulp(got[number], want[number], 2)


@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_float_pair_error(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-20, 20, 200_000)).astype(np.float32)
    y = rng.uniform(-10, 10, 200_000).astype(np.float32)
    got = apply(name, x, y)
    error = ulp_error(got, double_precision(name)(x.astype(np.longdouble), y.astype(np.longdouble)))
    print(f"float {name} {error.max():.3f}")
    assert error.max() <= 0.51


def test_angles_next_to_multiples_of_half_pi() -> None:
    turns = np.arange(1, 20_000, 7)
    x = (turns * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(INF)), np.float32([16367173.0 * 2**6])])
    for name in ("sin", "cos", "tan"):
        assert mp_error(apply(name, x[::13]), name, x[::13]) <= FLOAT[name][0]


HOSTS = {
    "avx2": Target("x86-64", "+avx2,+fma,+f16c,+bmi2"),
    "sse4 without fma": Target("x86-64", "+sse4.2"),
    "sse2": Target("x86-64", ""),
}


@pytest.mark.skipif("x86_64" not in llvm.get_default_triple(), reason="features are x86 names")
@pytest.mark.parametrize("host", HOSTS)
def test_every_host_gives_the_same_bits(host: str) -> None:
    x = np.concatenate([np.array(EDGES), points([(-100, 100), (-2, 2)], np.float64, 300)])
    for name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "tan", "erfc"):
        a = apply(name, x.astype(np.float32))
        b = apply(name, x.astype(np.float32), target=HOSTS[host])
        np.testing.assert_array_equal(a, b, err_msg=name)
        assert (np.signbit(a) == np.signbit(b))[~np.isnan(a)].all(), name
    for name in ("exp", "log", "tanh"):
        np.testing.assert_array_equal(apply(name, x), apply(name, x, target=HOSTS[host]))


def test_libm_takes_any_function() -> None:
    x = np.array([0.5, 3.5, 10.0])
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "out")])
    src, out = b.params
    mask = b.lane_mask(b.const("i64", 3))
    values = b.load(wide("double"), src, mask)
    b.store(b.fadd(b.libm("lgamma", values), b.libm("fmod", values, values)), out, mask)
    got = np.empty(3)
    compile_ir(b.ir(), "kernel", 2)(x.ctypes.data, got.ctypes.data)
    np.testing.assert_allclose(got, [float(mpmath.loggamma(v)) for v in x], rtol=1e-14)


@pytest.mark.parametrize("name", ["exp", "sin", "tanh", "log1p"])
def test_scalars_agree_with_vectors(name: str) -> None:
    x = np.array(EDGES, np.float32)
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "out"), ("i64", "n")])
    src, out, n = b.params
    with b.loop(0, n) as loop:
        value = b.load("float", b.gep(src, "float", loop.index))
        b.store(getattr(b, name)(value), b.gep(out, "float", loop.index))
    got = np.empty_like(x)
    compile_ir(b.ir(), "kernel", 3)(x.ctypes.data, got.ctypes.data, x.size)
    np.testing.assert_array_equal(got, apply(name, x))
