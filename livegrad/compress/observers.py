"""Observers: modules that look at values, and say which steps they should be rounded to."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from livegrad.autograd import no_grad
from livegrad.compress.schemes import (
    QuantizedType,
    Scheme,
    as_quantized,
    per_channel_affine,
    per_tensor_affine,
    quint8,
)
from livegrad.creation import empty, full, tensor
from livegrad.nn.module import Module
from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)


class With:
    """A class that can be made ready to be called with arguments: `MinMaxObserver.with_args(…)`."""

    @classmethod
    def with_args(cls, **arguments: Any) -> Any:
        """What makes such a module, with these arguments."""
        return partial(cls, **arguments)


class ObserverBase(With, Module):
    """What all observers share: the type, the scheme, and how a range becomes steps."""

    ch_axis = -1

    def __init__(
        self,
        dtype: Any = quint8,
        qscheme: Scheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
    ) -> None:
        super().__init__()
        self.dtype: QuantizedType = as_quantized(dtype)
        self.qscheme, self.reduce_range, self.eps = qscheme, reduce_range, eps
        low, high = self.dtype.low, self.dtype.high
        if quant_min is not None and quant_max is not None:
            if not low <= quant_min < quant_max <= high:
                raise ValueError(
                    f"{type(self).__name__}: got quant_min={quant_min}, quant_max={quant_max}; "
                    f"expected them in order within {low} and {high}"
                )
            low, high = quant_min, quant_max
        elif reduce_range:
            low, high = low // 2, high // 2
        self.quant_min, self.quant_max = low, high

    def forward(self, x_orig: Tensor) -> Tensor:
        """Looks at the values, and gives them back."""
        with no_grad():
            self.look(x_orig.detach())
        return x_orig

    def look(self, x: Tensor) -> None:
        """Takes note of values."""
        raise NotImplementedError

    def extremes(self) -> tuple[Tensor, Tensor]:
        """The range that steps are to cover: least and greatest value."""
        raise NotImplementedError

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point."""
        with no_grad():
            low, high = self.extremes()
            steps = self.quant_max - self.quant_min
            low, high = low.clamp(max=0.0), high.clamp(min=0.0)
            if self.qscheme.symmetric:
                scale = (Tensor.maximum(-low, high) / (steps / 2)).clamp(min=self.eps)
                middle = (self.quant_max + self.quant_min + 1) // 2 if self.dtype == quint8 else 0
                return scale, full(tuple(scale.shape), middle).int()
            scale = ((high - low) / steps).clamp(min=self.eps)
            zero = (self.quant_min - (low / scale).round()).clamp(self.quant_min, self.quant_max)
            return scale, zero.int()

    def extra_repr(self) -> str:
        """The type and the scheme."""
        return f"dtype={self.dtype}, qscheme={self.qscheme}"


class MinMaxObserver(ObserverBase):
    """The least and the greatest of all values that were seen."""

    min_val: Any
    max_val: Any

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.reset_min_max_vals()

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen."""
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))
        self._seen = False

    def _extremes_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Least and greatest value of a tensor, or of its channels."""
        if not self.qscheme.per_channel:
            return x.amin().float(), x.amax().float()
        rows = x.movedim(self.ch_axis, 0).flatten(1)
        return rows.amin(1).float(), rows.amax(1).float()

    def look(self, x: Tensor) -> None:
        """Widens the range."""
        if not x.numel():
            return
        low, high = self._extremes_of(x)
        if self._seen and self.min_val.shape == low.shape:
            low, high = self.joined(low, high)
        self.min_val, self.max_val, self._seen = low.detach(), high.detach(), True

    def joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The range so far and a new one."""
        return Tensor.minimum(self.min_val, low), Tensor.maximum(self.max_val, high)

    def extremes(self) -> tuple[Tensor, Tensor]:
        """As seen."""
        if not self._seen:
            raise RuntimeError(
                f"{type(self).__name__}: no values were seen; run the prepared model on some data "
                "before convert()"
            )
        return self.min_val, self.max_val

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Buffers take the shapes of a file: how many channels there are is seen with values."""
        for name in ("min_val", "max_val"):
            found = state_dict.get(prefix + name)
            if found is not None and found.shape != getattr(self, name).shape:
                setattr(self, name, empty(tuple(found.shape)))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._seen = bool((self.min_val <= self.max_val).all())


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Averages of the least and the greatest values of batches, in which late ones count more."""

    def __init__(self, averaging_constant: float = 0.01, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.averaging_constant = averaging_constant

    def joined(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Some of the way from the range so far to the new one."""
        share = self.averaging_constant
        return (
            self.min_val + share * (low - self.min_val),
            self.max_val + share * (high - self.max_val),
        )


class PerChannelMinMaxObserver(MinMaxObserver):
    """The least and the greatest values of each channel."""

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: Scheme = per_channel_affine,
        **more: Any,
    ) -> None:
        super().__init__(dtype, qscheme, **more)
        self.ch_axis = ch_axis


class MovingAveragePerChannelMinMaxObserver(MovingAverageMinMaxObserver):
    """Averages of the least and the greatest values of each channel."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: Scheme = per_channel_affine,
        **more: Any,
    ) -> None:
        super().__init__(averaging_constant, dtype, qscheme, **more)
        self.ch_axis = ch_axis


# -------------------------------------------------------------------------------- histograms


class HistogramObserver(MinMaxObserver):
    """How often values are seen, and the range that makes the error of rounding least.

    `method` says what is least: "mse", the mean of squares; "entropy", what is lost of the
    distribution (Kullback–Leibler); or "percentile": the range that `percentile` percent of the
    values lie in.
    """

    histogram: Any

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = quint8,
        qscheme: Scheme = per_tensor_affine,
        method: str = "mse",
        percentile: float = 99.99,
        **more: Any,
    ) -> None:
        if method not in ("mse", "entropy", "percentile"):
            raise ValueError(
                f"HistogramObserver: got method={method!r}; expected mse, entropy or percentile"
            )
        if qscheme.per_channel:
            raise NotImplementedError("HistogramObserver: expected a scheme per tensor")
        super().__init__(dtype, qscheme, **more)
        self.bins, self.method, self.percentile = bins, method, percentile
        self.register_buffer("histogram", tensor(np.zeros(bins, np.float32)))

    def look(self, x: Tensor) -> None:
        """Counts values; what was counted before is moved to the bins of a wider range."""
        values = np.asarray(x.float().numpy()).ravel()
        values = values[np.isfinite(values)]
        if not values.size:
            return
        before, seen = self._range(), np.asarray(self.histogram.numpy(), np.float64)
        low, high = float(values.min()), float(values.max())
        if before is not None:
            low, high = min(low, before[0]), max(high, before[1])
        if low == high:
            high = low + EPS + abs(low) * EPS
        found, _ = np.histogram(values, self.bins, (low, high))
        if before is not None:
            width = (before[1] - before[0]) / self.bins
            centres = before[0] + (np.arange(self.bins) + 0.5) * width
            found = found + np.histogram(centres, self.bins, (low, high), weights=seen)[0]
        self.min_val, self.max_val, self._seen = tensor(low), tensor(high), True
        self.histogram = tensor(np.asarray(found, np.float32))

    def _range(self) -> tuple[float, float] | None:
        low, high = float(self.min_val.item()), float(self.max_val.item())
        return (low, high) if low < high else None

    def extremes(self) -> tuple[Tensor, Tensor]:
        """The best range within that of all values."""
        super().extremes()
        low, high = float(self.min_val.item()), float(self.max_val.item())
        counts = np.asarray(self.histogram.numpy(), np.float64)
        centres = low + (np.arange(self.bins) + 0.5) * ((high - low) / self.bins)
        if self.method == "percentile":
            best = _of_percentile(counts, centres, self.percentile)
        else:
            loss = _squares if self.method == "mse" else _divergence
            steps = self.quant_max - self.quant_min
            best = _least_loss(counts, centres, (low, high), steps, loss)
        return tensor(float(best[0])), tensor(float(best[1]))


Range = tuple[float, float]


def _of_percentile(counts: Array, centres: Array, percentile: float) -> Range:
    share = np.cumsum(counts) / counts.sum()
    cut = (1 - percentile / 100) / 2
    first, last = np.searchsorted(share, [cut, 1 - cut])
    return float(centres[first]), float(centres[min(last, len(centres) - 1)])


def _least_loss(counts: Array, centres: Array, whole: Range, steps: int, loss: Any) -> Range:
    """The range that loses least, of some that are cut at either end."""
    found = [(loss(counts, centres, whole, steps), whole)]
    for part in np.linspace(0.98, 0.3, 35):
        for low, high in ((part, part), (1.0, part), (part, 1.0)):
            cut = (min(whole[0], 0.0) * low, max(whole[1], 0.0) * high)
            if cut[0] < cut[1]:
                found.append((loss(counts, centres, cut, steps), cut))
    return min(found, key=lambda pair: pair[0])[1]


def _rounded(centres: Array, cut: Range, steps: int) -> Array:
    step = (cut[1] - cut[0]) / steps
    return np.clip(np.round((centres - cut[0]) / step), 0, steps) * step + cut[0]


def _squares(counts: Array, centres: Array, cut: Range, steps: int) -> float:
    return float((counts * (centres - _rounded(centres, cut, steps)) ** 2).sum())


def _divergence(counts: Array, centres: Array, cut: Range, steps: int) -> float:
    """Of the values within the range, those outside taken to its ends, from what steps keep."""
    place = np.searchsorted(centres, cut)
    inside = counts[place[0] : place[1]].copy()
    if not len(inside):
        return float("inf")
    inside[0] += counts[: place[0]].sum()
    inside[-1] += counts[place[1] :].sum()
    steps = min(steps, len(inside))
    group = np.arange(len(inside)) * steps // len(inside)
    there = counts[place[0] : place[1]] > 0
    totals = np.bincount(group, np.where(there, counts[place[0] : place[1]], 0), steps)
    kept = np.where(there, (totals / np.maximum(np.bincount(group, there, steps), 1))[group], 0)
    p, q = inside / inside.sum(), kept / max(kept.sum(), 1)
    p, q = p + 1e-9, q + 1e-9
    return float((p * np.log(p / q)).sum())


# ------------------------------------------------------------------------------ those that do not


class PlaceholderObserver(ObserverBase):
    """Looks at nothing: of layers whose inputs are quantised as they come."""

    def __init__(self, dtype: Any = quint8, is_dynamic: bool = True, **more: Any) -> None:
        super().__init__(dtype, **more)
        self.is_dynamic = is_dynamic

    def look(self, x: Tensor) -> None:
        """Nothing."""

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """It has none."""
        raise RuntimeError("PlaceholderObserver: has seen no values, and so has no scale")


class NoopObserver(PlaceholderObserver):
    """Looks at nothing."""
