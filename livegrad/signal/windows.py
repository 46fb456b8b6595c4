"""Windows for signals, under the names and signatures of `torch.signal.windows`.

Each is computed in float64 and rounded once. With `sym=False` a window is the beginning of the
symmetric one that is longer by one, which repeats well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.elsewhere import placed
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, neg, sub
from livegrad.ops.elementwise.pointwise_math import cos, exp, sin
from livegrad.ops.elementwise.roots import sqrt, square
from livegrad.ops.making.generate import filled, steps
from livegrad.ops.special.bessel import i0

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def positions(M: int, start: float = 0.0, step: float = 1.0) -> Tensor:
    """start, start + step, … as float64, `M` of them."""
    return steps(M, start, step, dtypes.float64)


def _prepare(name: str, M: int, dtype: Any, layout: Any) -> DType:
    """The dtype of a window, after all arguments that windows share were checked."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and not str(layout).endswith("strided"):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if target not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {target!r}")
    return target


def _finish(window: Tensor, M: int, dtype: DType, device: Any, requires_grad: bool) -> Tensor:
    """The window as `dtype`; one of a single element is 1."""
    result = filled((1,), 1.0, dtype) if M == 1 else cast(window, dtype)
    result = placed(result, device)
    return result.requires_grad_() if requires_grad else result


def _span(M: int, sym: bool) -> int:
    """Steps from the first element to the last one of the symmetric window."""
    return max(M - 1 if sym else M, 1)


def cosine_sum(M: int, span: int, weights: Iterable[float]) -> Tensor:
    """The sum of `(-1)**i * weights[i] * cos(2 * pi * i * n / span)`, in float64."""
    total: Tensor | None = None
    for i, weight in enumerate(weights):
        wave = cos(positions(M, 0.0, 2 * math.pi * i / span)) if i else filled((M,), 1.0, _WIDE)
        term = mul(wave, -weight if i % 2 else weight)
        total = term if total is None else add(total, term)
    assert total is not None
    return total


_WIDE = dtypes.float64


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-|n - center| / tau)`; `center` can be given for windows that are not symmetric."""
    target = _prepare("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("exponential: Center must be None for symmetric windows")
    middle = _span(M, sym) / 2 if center is None else center
    window = exp(div(abs(positions(M, -middle)), -tau))
    return _finish(window, M, target, device, requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Half a period of a sine, sampled in the middle of each step."""
    target = _prepare("cosine", M, dtype, layout)
    step = math.pi / (_span(M, sym) + 1)
    return _finish(sin(positions(M, step / 2, step)), M, target, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`exp(-((n - middle) / std)**2 / 2)`."""
    target = _prepare("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    scaled = div(positions(M, -_span(M, sym) / 2), std)
    return _finish(exp(mul(square(scaled), -0.5)), M, target, device, requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`i0(beta * sqrt(1 - x**2)) / i0(beta)` for x from -1 to 1."""
    target = _prepare("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    return _finish(kaiser_curve(M, _span(M, sym), beta), M, target, device, requires_grad)


def kaiser_curve(M: int, span: int, beta: float) -> Tensor:
    """The first `M` values of a Kaiser window of `span` steps, in float64."""
    x = sub(div(positions(M), span / 2), 1)
    return div(i0(mul(sqrt(sub(1, square(x))), beta)), i0(filled((), beta, _WIDE)))


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that begins and ends with 0."""
    target = _prepare("bartlett", M, dtype, layout)
    return _finish(triangle(M, _span(M, sym)), M, target, device, requires_grad)


def triangle(M: int, span: int) -> Tensor:
    """The first `M` values of a triangle over `span` steps, in float64."""
    return add(neg(abs(sub(div(positions(M), span / 2), 1))), 1)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with weights `a`, the signs alternating."""
    target = _prepare("general_cosine", M, dtype, layout)
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: Coefficients must be a list/tuple; got {a!r}")
    weights = list(a)
    if not weights:
        raise ValueError("general_cosine: Coefficients cannot be empty")
    return _finish(cosine_sum(M, _span(M, sym), weights), M, target, device, requires_grad)


def general_hamming(M: int, *, alpha: float = 0.54, **options: Any) -> Tensor:
    """`alpha - (1 - alpha) * cos(2 * pi * n / last)`."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], **options)


def hamming(M: int, **options: Any) -> Tensor:
    """A raised cosine that begins and ends with 0.08."""
    return general_hamming(M, **options)


def hann(M: int, **options: Any) -> Tensor:
    """A raised cosine that begins and ends with 0."""
    return general_hamming(M, alpha=0.5, **options)


def blackman(M: int, **options: Any) -> Tensor:
    """Blackman's sum of three cosines."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], **options)


def nuttall(M: int, **options: Any) -> Tensor:
    """Nuttall's sum of four cosines, with a continuous first derivative."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], **options)
