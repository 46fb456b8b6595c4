"""`torch.testing`: comparing values in tests, and making values to test with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.creation import tensor
from livegrad.dtypes import DType
from livegrad.ops.elementwise.complex_parts import view_as_complex
from livegrad.ops.making.random import rand
from livegrad.random import Generator, default_generator
from livegrad.settings import strided
from livegrad.tensor import Tensor

# How far results of a dtype may be apart: relative, absolute.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """AssertionError unless `|actual - expected| <= atol + rtol * |expected|` everywhere.

    Tensors, numbers, arrays, and sequences and mappings of them. The tolerances are those of the
    dtype unless both are given. `msg` replaces the message, or makes another of it.

    Args:
        actual, expected: what is compared.
        allow_subclasses: whether one may be of a subclass of the other's class.
        rtol, atol: tolerances, relative and absolute: both or none.
        equal_nan: whether NaN equals NaN.
        check_dtype: whether dtypes must be the same.
        check_device, check_layout, check_stride: accepted.
        msg: the message, or a function of it.

    Example:
        >>> lg.testing.assert_close(lg.tensor([0.1]) * 3, lg.tensor([0.3]))
        >>> lg.testing.assert_close(lg.tensor([1.0]), lg.tensor([1.1]))
        Traceback (most recent call last):
            ...
        AssertionError: Tensor-likes are not close!
        ...
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"assert_close: rtol and atol are given together or not at all; got {rtol=} and {atol=}"
        )
    wrong = _differences(
        actual, expected, (rtol, atol), equal_nan, check_dtype, allow_subclasses, ""
    )
    if wrong is not None:
        if callable(msg):
            wrong = msg(wrong)
        raise AssertionError(wrong if msg is None or callable(msg) else msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` of values alone: their dtypes may differ. An old name."""
    actual, expected = (tensor(x) if not isinstance(x, Tensor) else x for x in (actual, expected))
    options: Any = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "msg": msg or None}
    assert_close(actual, expected, check_dtype=False, **options)


def _differences(
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    check_dtype: bool,
    subclasses: bool,
    where: str,
) -> str | None:
    """What is wrong, or None."""

    def inside(a: Any, b: Any, place: Any) -> str | None:
        return _differences(
            a, b, tolerances, equal_nan, check_dtype, subclasses, f"{where}[{place!r}]"
        )

    at = f"The failure occurred for item {where}\n" if where else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing, more = set(expected) - set(actual), set(actual) - set(expected)
            return (
                f"{at}The keys do not match: missing {missing or '{}'}, unexpected {more or '{}'}"
            )
        found = (inside(actual[key], expected[key], key) for key in actual)
        return next((wrong for wrong in found if wrong is not None), None)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"{at}The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        pairs = enumerate(zip(actual, expected, strict=True))
        found = (inside(a, b, i) for i, (a, b) in pairs)
        return next((wrong for wrong in found if wrong is not None), None)
    if actual is None and expected is None:
        return None
    if not subclasses and type(actual) is not type(expected):
        return f"{at}The classes do not match: {type(actual)} and {type(expected)}"
    return _value_differences(
        _as_tensor(actual), _as_tensor(expected), tolerances, equal_nan, check_dtype, at
    )


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _as_tensor(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach()
    if isinstance(x, float | complex):
        return tensor(x, dtype=dtypes.float64 if isinstance(x, float) else dtypes.complex128)
    if isinstance(x, bool | int | np.ndarray | np.generic):
        return tensor(x)
    raise TypeError(
        f"assert_close: got {type(x).__name__}; expected a tensor, a number, an array, or a "
        "sequence or mapping of them"
    )


def _value_differences(
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    check_dtype: bool,
    at: str,
) -> str | None:
    if actual.shape != expected.shape:
        return (
            f"{at}The values for attribute 'shape' do not match: "
            f"{tuple(actual.shape)} != {tuple(expected.shape)}."
        )
    if actual.device != expected.device:
        return (
            f"{at}The values for attribute 'device' do not match: {actual.device} != "
            f"{expected.device}."
        )
    if check_dtype and actual.dtype is not expected.dtype:
        return (
            f"{at}The values for attribute 'dtype' do not match: "
            f"{actual.dtype} != {expected.dtype}."
        )
    if actual.layout is not expected.layout:
        return (
            f"{at}The values for attribute 'layout' do not match: {actual.layout} != "
            f"{expected.layout}."
        )
    if actual.layout is not strided:
        return _sparse_differences(actual, expected, tolerances, equal_nan, check_dtype, at)
    if actual.is_meta:
        return None  # there is nothing else to compare
    rtol, atol = tolerances
    if rtol is None or atol is None:
        known = [_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = max(r for r, _ in known), max(a for _, a in known)
    a, b = [_wide(x) for x in (actual, expected)]
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= atol + rtol * np.abs(b)
        close = (a == b) | (near & (np.abs(b) != np.inf))
    if equal_nan:
        close |= (a != a) & (b != b)
    if close.all():
        return None
    return f"{at}{_summary(a, b, close, rtol, atol)}"


def _sparse_differences(
    actual: Any,
    expected: Any,
    tolerances: tuple[float | None, float | None],
    equal_nan: bool,
    check_dtype: bool,
    at: str,
) -> str | None:
    """As for dense tensors, part by part."""
    kind = actual.layout.name.removeprefix("sparse_").upper()
    if actual._nnz() != expected._nnz():
        return (
            f"{at}The number of specified values in sparse {kind} tensors does not match: "
            f"{actual._nnz()} != {expected._nnz()}"
        )
    given = [
        {"indices": x._pattern.parts, "values": [x._elements.detach()]} for x in (actual, expected)
    ]
    for name in ("indices", "values"):
        for a, b in zip(given[0][name], given[1][name], strict=True):
            limits = tolerances if name == "values" else (0.0, 0.0)
            wrong = _value_differences(a, b, limits, equal_nan, check_dtype, at)
            if wrong is not None:
                return wrong.replace("Tensor-likes", f"Sparse {kind} {name}")
    return None


def _wide(x: Any) -> Any:
    """The values in the widest type of their kind: what is subtracted must not overflow."""
    if x.dtype.is_complex:
        return x.numpy().astype(np.complex128)
    if x.dtype.is_floating_point:
        return x.to(dtypes.float64).numpy()
    return x.numpy().astype(object)  # Python's integers


def _summary(a: Any, b: Any, close: Any, rtol: float, atol: float) -> str:
    kind = "equal" if rtol == atol == 0 else "close"
    if a.ndim == 0:
        return (
            f"Scalars are not {kind}!\n\nExpected {b} but got {a}.\n"
            f"Absolute difference: {abs(a - b)} (up to {atol} allowed)"
        )
    bad = int((~close).sum())
    distance = np.where(close, 0.0, np.abs(a - b).astype(np.float64))
    place = np.unravel_index(int(np.nan_to_num(distance, nan=np.inf).argmax()), a.shape)
    index = tuple(int(i) for i in place)
    with np.errstate(all="ignore"):
        relative = float(distance[place]) / abs(float(abs(b[place]))) if b[place] else np.inf
    return (
        f"Tensor-likes are not {kind}!\n\n"
        f"Mismatched elements: {bad} / {a.size} ({100 * bad / a.size:.1f}%)\n"
        f"Greatest absolute difference: {distance[place]} at index {index} (up to {atol} allowed)\n"
        f"Its relative difference: {relative} (up to {rtol} allowed)"
    )


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """Random numbers of any dtype, evenly spread from `low` to `high`.

    Unless given, the bounds are -9 and 9 (0 and 9 without signs; 0 and 1 for bool).
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    lowest, highest = (0, 2) if dtype is dtypes.bool_ else (-9 if dtype.signed else 0, 10)
    if dtype.is_floating_point or dtype.is_complex:
        lowest, highest = -9, 9
    low, high = (lowest if low is None else low), (highest if high is None else high)
    if low >= high:
        raise ValueError(f"make_tensor: `low` must be less than `high`; got {low} and {high}")
    source = generator or default_generator
    unit = dtypes.float64
    if dtype.is_complex:
        parts = rand((*sizes, 2), dtype=unit, generator=source) * (high - low) + low
        made = view_as_complex(parts).to(dtype)
    else:
        made = rand(sizes, dtype=unit, generator=source) * (high - low) + low
        made = made.to(dtype) if dtype.is_floating_point else made.floor().to(dtype)
    if exclude_zero:
        made = made.masked_fill(made == 0, 1)
    out: Tensor = made.detach().requires_grad_(requires_grad)
    return out
