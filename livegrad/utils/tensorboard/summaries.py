"""Values of a summary as messages; the numbers are those of summary.proto and of the plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from livegrad.utils.tensorboard.images import png
from livegrad.utils.tensorboard.wire import block, double, doubles, integer, pair, single

Array = np.ndarray[Any, Any]

_FLOAT, _DOUBLE, _STRING = 1, 2, 7  # DataType
_SCALAR, _TENSOR = 1, 2  # DataClass


def summary(*values: bytes) -> bytes:
    """Summary: several values."""
    return b"".join(block(1, value) for value in values)


def scalar(tag: str, value: float) -> bytes:
    """Value with a simple number."""
    return block(1, tag) + single(2, value)


def scalar_tensor(tag: str, value: float, wide: bool) -> bytes:
    """Value with a number as a tensor, of double precision if `wide`."""
    number = double(6, value) if wide else single(5, value)
    tensor = integer(1, _DOUBLE if wide else _FLOAT) + block(2, b"") + number
    return block(1, tag) + block(8, tensor) + metadata("scalars", b"", _SCALAR)


def metadata(plugin: str, content: bytes, kind: int | None = None) -> bytes:
    """The field of a value that says which plugin shows it."""
    data = block(1, block(1, plugin) + block(2, content))
    return block(9, data if kind is None else data + integer(4, kind))


def shape(sizes: Iterable[int]) -> bytes:
    """TensorShapeProto."""
    return b"".join(block(2, integer(1, size)) for size in sizes)


def text(tag: str, words: str) -> bytes:
    """Value with a text, which is shown as Markdown."""
    tensor = integer(1, _STRING) + block(2, shape([1])) + block(8, words)
    plugin = metadata("text", integer(1, 0), _TENSOR)
    return block(1, f"{tag}/text_summary") + block(8, tensor) + plugin


def image(tag: str, rows: Array) -> bytes:
    """Value with an image (H, W, C) as PNG."""
    height, width, channels = rows.shape
    inner = integer(1, height) + integer(2, width) + integer(3, channels) + block(4, png(rows))
    return block(1, tag) + block(4, inner)


def tensor(tag: str, values: Array) -> bytes:
    """Value with a tensor of float32."""
    inner = integer(1, _FLOAT) + block(2, shape(values.shape))
    inner += block(4, np.ascontiguousarray(values, "<f4").tobytes())
    return block(1, tag) + block(8, inner) + metadata("tensor", b"", _TENSOR)


# ------------------------------------------------------------------------------------- histograms


@cache
def _default_limits() -> Array:
    """Buckets that grow by a tenth, on both sides of zero."""
    growing = 1e-12 * 1.1 ** np.arange(776)
    positive = np.append(growing[growing < 1e20], np.finfo(np.float64).max)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(tag: str, values: Array, bins: Any, max_bins: int | None) -> bytes:
    """Value with a histogram; `bins` is "tensorflow" or what NumPy takes."""
    limits = _default_limits() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, edges = np.histogram(values, bins=limits)
    if max_bins is not None and len(counts) > max_bins:
        factor = -(-len(counts) // max_bins)
        padded = np.pad(counts, (0, -len(counts) % factor))
        counts = padded.reshape(-1, factor).sum(1)
        edges = np.append(edges[:-1:factor], edges[-1])
    used = np.flatnonzero(counts)
    first, last = (used[0], used[-1] + 1) if len(used) else (0, 1)
    # One empty bucket in front: its limit is where the first one begins.
    right = np.concatenate([[edges[first]], edges[first + 1 : last + 1]])
    kept = np.concatenate([[0], counts[first:last]])
    least, most = (values.min(), values.max()) if values.size else (0.0, 0.0)
    sums = float(values.sum()), float(values @ values)
    return histogram_raw(tag, float(least), float(most), values.size, *sums, right, kept)


def histogram_raw(
    tag: str,
    least: float,
    most: float,
    count: float,
    total: float,
    squares: float,
    limits: Iterable[float],
    counts: Iterable[float],
) -> bytes:
    """Value with a histogram that has been made already."""
    inner = double(1, least) + double(2, most) + double(3, count) + double(4, total)
    inner += double(5, squares) + doubles(6, limits) + doubles(7, counts)
    return block(1, tag) + block(5, inner)


# ------------------------------------------------------------------------ precision-recall curves


def pr_curve(tag: str, table: Array) -> bytes:
    """Value with a curve: rows are tp, fp, tn, fn, precision and recall, by threshold."""
    inner = integer(1, _FLOAT) + block(2, shape(table.shape))
    inner += block(4, np.ascontiguousarray(table, "<f4").tobytes())
    plugin = metadata("pr_curves", integer(1, 0) + integer(2, table.shape[1]), _TENSOR)
    return block(1, tag) + block(8, inner) + plugin


def pr_table(labels: Array, predictions: Array, thresholds: int, weights: Array | None) -> Array:
    """The table of `pr_curve`: scores of at least i / (thresholds - 1) say yes at threshold i."""
    weight = np.ones(labels.shape) if weights is None else weights.astype(np.float64)
    places = np.floor(predictions * (thresholds - 1)).astype(np.int64).clip(0, thresholds - 1)
    yes = labels.astype(bool)
    by_place = [
        np.bincount(places[chosen], weight[chosen], minlength=thresholds) for chosen in (yes, ~yes)
    ]
    tp, fp = (np.cumsum(counts[::-1])[::-1] for counts in by_place)
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7
    precision, recall = tp / np.maximum(tp + fp, tiny), tp / np.maximum(tp + fn, tiny)
    return np.stack([tp, fp, tn, fn, precision, recall])


# ------------------------------------------------------------------------------- hyper-parameters

Values = Mapping[str, Any]


def hparams(params: Values, metrics: Iterable[str], domains: Values, now: float) -> list[bytes]:
    """The three values that tell the HParams plugin of a run: experiment, start and end."""
    infos = b"".join(block(4, _hparam_info(k, v, domains.get(k))) for k, v in params.items())
    # A metric is named by its tag; the group is empty.
    infos += b"".join(block(5, block(1, block(2, name))) for name in metrics)
    start = b"".join(pair(1, name, _any(value)) for name, value in params.items())
    start += double(5, now)
    finished = integer(1, 1) + double(2, now)
    parts = {
        "experiment": block(2, infos),
        "session_start_info": block(3, start),
        "session_end_info": block(4, finished),
    }
    return [
        block(1, f"_hparams_/{name}") + metadata("hparams", integer(1, 0) + data)
        for name, data in parts.items()
    ]


def _hparam_info(name: str, value: Any, domain: Any) -> bytes:
    kind = {str: 1, bool: 2}.get(type(value), 3)
    info = block(1, name) + integer(4, kind)
    if domain is not None:
        info += block(5, b"".join(block(1, _any(x)) for x in domain))
    return info


def _any(value: Any) -> bytes:
    """google.protobuf.Value."""
    if isinstance(value, bool):
        return integer(4, value)
    return block(3, value) if isinstance(value, str) else double(2, value)
