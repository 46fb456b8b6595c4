"""How tensors print: PyTorch's layout, character for character."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.above import Above
from livegrad.graph.family import node_to_read
from livegrad.graph.handle import node_of
from livegrad.graph.state import LOCAL
from livegrad.graph.watch import BLAMING
from livegrad.runtime.values import to_compute

Array = np.ndarray[Any, Any]


@dataclass
class PrintOptions:
    """What `set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = PRINT_OPTS = PrintOptions()

_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors print.

    Args:
        precision: digits after the point.
        threshold: tensors of more elements are shortened.
        edgeitems: elements shown at each end of a shortened dim.
        linewidth: characters per line.
        profile: "default", "short" or "full", which set all of these.
        sci_mode: always (True) or never (False) use scientific notation; None decides by values.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: got profile {profile!r}; expected {list(_PROFILES)}"
            )
        values = _PROFILES[profile]
        _options.precision, _options.threshold, _options.edgeitems, _options.linewidth = values
    if precision is not None:
        _options.precision = precision
    if threshold is not None:
        _options.threshold = threshold
    if edgeitems is not None:
        _options.edgeitems = edgeitems
    if linewidth is not None:
        _options.linewidth = linewidth
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options now in force."""
    return dict(vars(_options))


# ------------------------------------------------------------------------------------ elements


class Formatter:
    """Writes one element so that all elements of a tensor are equally wide."""

    def __init__(self, values: Array) -> None:
        self.floating = values.dtype.kind == "f"
        self.whole = True
        self.scientific = False
        self.width = 1
        if self.floating:
            self._measure_floats(values)
        else:
            self.width = max([len(str(v)) for v in values.ravel().tolist()], default=1)

    def _measure_floats(self, values: Array) -> None:
        wide = values.astype(np.float64)
        shown = wide[np.isfinite(wide) & (wide != 0)]
        if shown.size:
            sizes = np.abs(shown)
            low, high = float(sizes.min()), float(sizes.max())
            self.whole = bool((shown == np.ceil(shown)).all())
            too_small = not self.whole and low < 1.0e-4
            self.scientific = high / low > 1000.0 or high > 1.0e8 or too_small
        if _options.sci_mode is not None:
            self.scientific = _options.sci_mode
        if shown.size:
            self.width = max([len(self._text(v)) for v in shown.tolist()])

    def _text(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{_options.precision}e}"
        if not self.whole:
            return f"{value:.{_options.precision}f}"
        text = f"{value:.0f}"
        return f"{text}." if math.isfinite(value) else text

    def __call__(self, value: Any) -> str:
        """The text of one element, padded to the common width."""
        text = self._text(value) if self.floating else str(value)
        return text.rjust(self.width)


class ComplexFormatter:
    """Writes complex elements: each part as wide as the widest of its kind."""

    def __init__(self, values: Array) -> None:
        self.real, self.imag = Formatter(values.real), Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        """The text of one element."""
        imag = f"{self.imag(value.imag)}j".lstrip()
        return self.real(value.real) + (imag if imag[0] in "+-" else f"+{imag}")


Write = Formatter | ComplexFormatter


# -------------------------------------------------------------------------------------- layout


def _edges(values: Array) -> Array:
    """The elements that a shortened tensor shows."""
    n = _options.edgeitems
    for dim, size in enumerate(values.shape):
        if size > 2 * n:
            kept = [*range(n), *range(size - n, size)]
            values = np.take(values, kept, dim)
    return values


def _vector_text(values: Array, indent: int, short: bool, write: Write) -> str:
    per_line = max(1, (_options.linewidth - indent) // (write.width + 2))
    n = _options.edgeitems
    if short and len(values) > 2 * n:
        ends = values[:n].tolist(), values[len(values) - n :].tolist()
        cells = [write(v) for v in ends[0]] + [" ..."] + [write(v) for v in ends[1]]
    else:
        cells = [write(v) for v in values.tolist()]
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _array_text(values: Array, indent: int, short: bool, write: Write) -> str:
    if values.ndim == 0:
        return write(values.item())
    if values.ndim == 1:
        return _vector_text(values, indent, short, write)
    n = _options.edgeitems
    if short and len(values) > 2 * n:
        first = [_array_text(v, indent + 1, short, write) for v in values[:n]]
        last = [_array_text(v, indent + 1, short, write) for v in values[len(values) - n :]]
        rows = [*first, "...", *last]
    else:
        rows = [_array_text(v, indent + 1, short, write) for v in values]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def _suffixes(x: Any, values: Array) -> list[str]:
    """What stands behind the values: size of an empty tensor, unusual dtype, gradient."""
    notes = []
    usual = {dtypes.get_default_dtype()}
    if values.size:
        usual |= {dtypes.default_complex(), dtypes.int64, dtypes.bool_}
    elif values.ndim != 1:
        notes.append(f"size={tuple(values.shape)}")
    if not (x.is_cpu or x.is_meta):
        notes.append(f"device='{x.device}'")
    if x.dtype not in usual:
        notes.append(f"dtype={x.dtype!r}")
    if (function := _function_name(x)) is not None:
        notes.append(f"grad_fn=<{function}>")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    return notes


def _function_name(x: Any) -> str | None:
    """What made a tensor that a gradient flows through; "Invalid" if that may not be asked for."""
    try:
        function = x.grad_fn
    except RuntimeError:
        return "Invalid"
    return None if function is None else type(function).__name__


def with_suffixes(text: str, notes: list[str], indent: int, below: bool = False) -> str:
    """A text with notes behind it, on new lines where they do not fit, and the last bracket.

    With `below`, the first note is on a new line whether it fits or not.
    """
    parts = [text]
    last_line = len(text) - text.rfind("\n") + 1
    for note in notes:
        if below or last_line + len(note) + 2 > _options.linewidth:
            below = False
            parts.append(",\n" + " " * indent + note)
            last_line = indent + len(note)
        else:
            parts.append(", " + note)
            last_line += len(note) + 2
    return "".join(parts) + ")"


def tensor_text(x: Any) -> str:
    """`repr` of a tensor; computes its values."""
    kind = type(x)
    ours = kind.__module__.startswith("livegrad.")
    prefix = "tensor(" if ours else f"{kind.__name__}("
    flusher = LOCAL.state.flusher
    if flusher is not None and flusher.depends(node_of(x)):  # none is known yet
        return f"BatchedTensor(shape={list(x.shape)}, dtype={x.dtype})"
    if x.is_meta:
        notes = ["device='meta'", f"size={tuple(x.shape)}", *_suffixes(x, np.empty(0))]
        return with_suffixes(prefix + "...", notes, len(prefix))
    values = _read(x)
    text = _values_text(values, len(prefix))
    return with_suffixes(prefix + text, _suffixes(x, values), len(prefix))


def _read(x: Any) -> Array:
    """The values of a tensor; a NaN among those of a program that trains is looked into."""
    node = node_to_read(x)
    if not BLAMING.reads or node.buffer is not None or node.meta.dtype.category < dtypes.FLOAT:
        return to_compute(x._values("print"), x.dtype)
    nodes = LOCAL.state.nodes
    inputs = [one.inputs for one in nodes]
    values = to_compute(x._values("print"), x.dtype)
    if BLAMING.enabled and np.isnan(values).any():
        Above.blaming().read_not_finite(node, nodes, inputs)
    return values


def _values_text(values: Array, indent: int) -> str:
    if values.size == 0:
        return "[]"
    short = values.size > _options.threshold
    write: Write = (ComplexFormatter if values.dtype.kind == "c" else Formatter)(
        _edges(values) if short else values
    )
    return _array_text(values, indent, short, write)


def contents_text(x: Any, indent: int) -> str:
    """The elements of a tensor alone, in brackets, for a text that begins at column `indent`."""
    return _values_text(to_compute(x._values("print"), x.dtype), indent)


_tensor_str = contents_text  # as PyTorch calls it
