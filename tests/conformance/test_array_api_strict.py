"""The array API namespace against the standard's strict reference, function by function."""

from __future__ import annotations

import inspect
import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import array_api as xp

strict = pytest.importorskip("array_api_strict")
strict.set_array_api_strict_flags(api_version="2024.12")

# PyTorch's rounding, or a difference that the standard leaves open.
LEFT_OPEN = {"empty", "empty_like"}
DTYPES = list(xp.__array_namespace_info__().dtypes())
RNG = np.random.default_rng(0)


def names(module: Any) -> list[str]:
    return sorted(n for n in module.__all__ if not n.startswith("_"))


OWN = {f"{verb}_array_api_strict_flags" for verb in ("get", "set", "reset")}
OWN |= {"ArrayAPIStrictFlags", "Device"}


@pytest.mark.parametrize("part", ["", "linalg", "fft"])
def test_every_name_is_there(part: str) -> None:
    theirs, mine = (getattr(m, part) if part else m for m in (strict, xp))
    missing = [n for n in names(theirs) if n not in OWN and not hasattr(mine, n)]
    assert missing == []


@pytest.mark.parametrize("part", ["", "linalg", "fft"])
def test_signatures(part: str) -> None:
    theirs, mine = (getattr(m, part) if part else m for m in (strict, xp))
    wrong = []
    for name in names(theirs):
        function = getattr(theirs, name)
        if name in OWN or not inspect.isfunction(function) or name.startswith("__"):
            continue
        wanted = inspect.signature(function).parameters
        have = inspect.signature(getattr(mine, name)).parameters
        for p in wanted.values():
            if p.kind is p.POSITIONAL_ONLY or p.kind is p.VAR_POSITIONAL:
                continue
            if p.name not in have:
                wrong.append(f"{name}({p.name})")
    assert wrong == []


def array(dtype: str, shape: tuple[int, ...] = (3, 4), small: bool = False) -> np.ndarray:
    if dtype == "bool":
        return RNG.random(shape) > 0.5
    if "int" in dtype:
        low = 0 if dtype.startswith("u") else (-3 if small else -20)
        return RNG.integers(low, 4 if small else 20, shape).astype(dtype)
    values = RNG.uniform(-2, 2, shape)
    if "complex" in dtype:
        values = values + 1j * RNG.uniform(-2, 2, shape)
    return values.astype(dtype)


def agree(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            agree(a, b)
        return
    if not hasattr(wanted, "dtype"):
        assert got == wanted
        return
    expected = np.asarray(wanted._array)
    assert got.dtype.name == expected.dtype.name
    assert tuple(got.shape) == expected.shape
    values = np.asarray(got.detach())
    if expected.dtype.kind in "fc":
        wide = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1) > 4
        rtol = 1e-10 if wide else 2e-5
        np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(values, expected)


def both(call: Any, *arrays: Any) -> None:
    """The same result, where the standard says what it is."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = call(strict, *[strict.asarray(a) for a in arrays])
        except Exception:  # the standard leaves open what happens, the reference refuses
            return
        agree(call(xp, *[xp.asarray(a) for a in arrays]), wanted)


UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor
imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
sign signbit sin sinh sqrt square tan tanh trunc""".split()
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp
logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
remainder subtract""".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    for dtype in DTYPES:
        both(lambda m, x: getattr(m, name)(x), array(dtype))
        if "float" in dtype:
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5], dtype)
            both(lambda m, x: getattr(m, name)(x), special)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    for a, b in itertools.product(DTYPES, DTYPES):
        # The standard leaves division by zero and shifts out of range open.
        right = array(b, (4,), small=True)
        if "int" in b:
            right = np.abs(right) % 4 + (0 if "shift" in name else 1)
            right = right.astype(b)
        both(lambda m, x, y: getattr(m, name)(x, y), array(a, small=True), right)
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        return
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -3.0])
    x, y = np.meshgrid(special, special)
    if name not in ("floor_divide", "remainder", "pow"):
        both(lambda m, x, y: getattr(m, name)(x, y), x, y)


@pytest.mark.parametrize("name", ["add", "multiply", "less", "maximum", "pow", "equal"])
@pytest.mark.parametrize("number", [2, 1.5, True, 1j])
def test_numbers(name: str, number: Any) -> None:
    if number == 1j and name in ("less", "maximum"):
        return  # complex numbers have no order
    for dtype in DTYPES:
        both(lambda m, x: getattr(m, name)(x, number), np.abs(array(dtype)).astype(dtype))
        both(lambda m, x: getattr(m, name)(number, x), np.abs(array(dtype)).astype(dtype))


FOLDS = "all any max mean min prod std sum var count_nonzero argmax argmin".split()


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": -1, "keepdims": True}], ids=str)
def test_folds(name: str, options: dict[str, Any]) -> None:
    for dtype in DTYPES:
        both(lambda m, x: getattr(m, name)(x, **options), array(dtype, small=True))


OTHER = [
    lambda m, x: m.concat([x, x], axis=1),
    lambda m, x: m.concat([x, x], axis=None),
    lambda m, x: m.stack([x, x], axis=-1),
    lambda m, x: m.unstack(x, axis=1),
    lambda m, x: m.expand_dims(x, axis=1),
    lambda m, x: m.squeeze(m.expand_dims(x, axis=0), 0),
    lambda m, x: m.flip(x),
    lambda m, x: m.flip(x, axis=0),
    lambda m, x: m.moveaxis(x, 0, -1),
    lambda m, x: m.permute_dims(x, (1, 0)),
    lambda m, x: m.repeat(x, 2, axis=0),
    lambda m, x: m.repeat(x, 2),
    lambda m, x: m.tile(x, (2, 1, 2)),
    lambda m, x: m.reshape(x, (4, -1)),
    lambda m, x: m.roll(x, 2),
    lambda m, x: m.roll(x, (1, -1), axis=(0, 1)),
    lambda m, x: m.take(x, m.asarray([2, 0]), axis=0),
    lambda m, x: m.take_along_axis(x, m.asarray([[0, 1, 1, 0]]), axis=0),
    lambda m, x: m.nonzero(x),
    lambda m, x: m.sort(x, axis=0),
    lambda m, x: m.sort(x, descending=True),
    lambda m, x: m.argsort(x),
    lambda m, x: m.argsort(x, axis=0, descending=True),
    lambda m, x: m.unique_values(x),
    lambda m, x: m.unique_counts(x),
    lambda m, x: m.unique_inverse(x),
    lambda m, x: m.cumulative_sum(x, axis=1),
    lambda m, x: m.cumulative_sum(x, axis=0, include_initial=True),
    lambda m, x: m.cumulative_prod(x, axis=1),
    lambda m, x: m.diff(x),
    lambda m, x: m.diff(x, axis=0, n=2),
    lambda m, x: m.where(x == x, x, m.zeros_like(x)),
    lambda m, x: m.tril(x, k=1),
    lambda m, x: m.triu(x, k=-1),
    lambda m, x: m.matmul(x, m.matrix_transpose(x)),
    lambda m, x: m.tensordot(x, x, axes=2),
    lambda m, x: m.tensordot(x, m.matrix_transpose(x), axes=1),
    lambda m, x: m.vecdot(x, x),
    lambda m, x: m.clip(x, 1, 2),
    lambda m, x: m.clip(x, min=m.asarray(1, dtype=x.dtype)),
    lambda m, x: m.broadcast_to(x, (2, 3, 4)),
    lambda m, x: m.astype(x, m.float64),
    lambda m, x: m.astype(x, m.int32),
    lambda m, x: m.full_like(x, 1),
    lambda m, x: m.ones_like(x),
    lambda m, x: x[1:, ::-1] if m is strict else m.flip(x[1:], axis=1),
    lambda m, x: x[..., 0],
    lambda m, x: x[x == x],
    lambda m, x: x.T,
    lambda m, x: x.mT,
    lambda m, x: m.linalg.trace(x),
    lambda m, x: m.linalg.diagonal(x, offset=1),
    lambda m, x: m.linalg.outer(x[0, :], x[1, :]),
    lambda m, x: m.linalg.cross(x[:, :3], x[:, 1:]),
    lambda m, x: m.linalg.vector_norm(x, axis=1),
    lambda m, x: m.linalg.matrix_norm(x),
    lambda m, x: m.linalg.det(m.matmul(x, m.matrix_transpose(x))),
    lambda m, x: m.linalg.svdvals(x),
    lambda m, x: m.linalg.pinv(x),
    lambda m, x: m.linalg.matrix_rank(m.astype(x, m.float64)),
    lambda m, x: m.linalg.matrix_power(x[:3, :3], 3),
    lambda m, x: m.linalg.solve(x[:3, :3], x[:, 3]),
    lambda m, x: m.linalg.inv(x[:3, :3]),
    lambda m, x: m.linalg.slogdet(x[:3, :3]),
    lambda m, x: m.fft.fft(x),
    lambda m, x: m.fft.rfft(x, axis=0),
    lambda m, x: m.fft.irfft(x),
    lambda m, x: m.fft.fftn(x),
    lambda m, x: m.fft.fftshift(x),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OTHER)))
def test_other(number: int) -> None:
    for dtype in DTYPES:
        both(OTHER[number], array(dtype, small=True))


MAKERS = [
    lambda m: m.arange(5),
    lambda m: m.arange(1, 7, 2),
    lambda m: m.arange(5, 1, -1.5, dtype=m.float64),
    lambda m: m.arange(3, 1),
    lambda m: m.linspace(0, 1, 5, dtype=m.float64),
    lambda m: m.linspace(0, 1, 5, endpoint=False, dtype=m.float64),
    lambda m: m.eye(3, k=1, dtype=m.float64),
    lambda m: m.eye(2, 4, k=-1, dtype=m.int8),
    lambda m: m.full((2, 2), 7, dtype=m.uint8),
    lambda m: m.zeros(3, dtype=m.int16),
    lambda m: m.meshgrid(m.arange(2), m.arange(3)),
    lambda m: m.meshgrid(m.arange(2), m.arange(3), indexing="ij"),
    lambda m: m.asarray([[1, 2], [3, 4]]),
    lambda m: m.asarray(True),
    lambda m: m.fft.fftfreq(6, d=0.5, dtype=m.float64),
    lambda m: m.searchsorted(m.asarray([1, 3, 5]), m.asarray([0, 3, 6]), side="right"),
    lambda m: m.can_cast(m.int8, m.int64),
    lambda m: m.can_cast(m.int64, m.int8),
    lambda m: m.isdtype(m.uint8, "unsigned integer"),
    lambda m: m.isdtype(m.int8, ("real floating", "bool")),
    lambda m: m.iinfo(m.uint16).max,
    lambda m: m.finfo(m.float32).eps,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MAKERS)))
def test_makers(number: int) -> None:
    both(MAKERS[number])


def test_promotion() -> None:
    for a, b in itertools.product(DTYPES, DTYPES):
        try:
            wanted = str(strict.result_type(getattr(strict, a), getattr(strict, b)))
        except TypeError:
            continue
        assert xp.result_type(getattr(xp, a), getattr(xp, b)).name in wanted, (a, b)


def test_tensors_lead_here() -> None:
    x = lg.ones(2, 3)
    assert x.__array_namespace__() is xp
    assert x.size == 6
    assert x.size() == (2, 3)
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="version"):
        x.__array_namespace__(api_version="1999.01")
