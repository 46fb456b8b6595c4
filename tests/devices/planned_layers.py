"""What the kernels of recurrent layers do with their argument blocks, by NumPy."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.compiler.attention import Kind
from livegrad.compiler.panels import PANEL, full
from livegrad.compiler.recurrence import (
    NUMBERS,
    generate_recurrent,
    recurrent_pointers,
    slopes_pointers,
)
from livegrad.graph.meta import meta_of
from livegrad.ops.layers.attention import ATTEND, ATTEND_SLOPES
from livegrad.ops.layers.recurrent import Inputs, Layout, Widths, backward, forward
from livegrad.ops.layers.recurrent_cells import OfArrays


def run_panels(memory: Any, slots: list[int], signature: Any) -> None:
    _, turned, dtype = signature
    panels, out, address, depth, width = slots
    found = memory.view(out, dtype, (panels, depth, PANEL))
    matrix = memory.view(address, dtype, (width, depth) if turned else (depth, width))
    wide = np.zeros((depth, panels * PANEL), matrix.dtype)
    wide[:, :width] = matrix.T if turned else matrix
    found[...] = wide.reshape(depth, panels, PANEL).transpose(1, 0, 2)


def run_recurrent(memory: Any, slots: list[int], signature: Any) -> None:
    generate, attrs, dtype = signature
    layout = Layout(*attrs)
    is_forward = generate is generate_recurrent
    names = (recurrent_pointers if is_forward else slopes_pointers)(layout)
    at = dict(zip(names, slots[1:], strict=False))
    count, steps, rows, _, *widths = slots[1 + len(names) :][: len(NUMBERS)]
    gates, state, hidden = widths
    kept, slopes = [getattr(Widths(*widths), kind)(layout) for kind in ("kept", "slopes")]

    def matrix(name: str, *shape: int) -> Any:
        return memory.view(at[name], dtype, shape) if name in at else None

    def weight(name: str, height: int, width: int) -> Any:
        """Of (height, width) as the layer has it, from its panels."""
        if name not in at:
            return None
        depth, columns = (width, height) if is_forward else (height, width)
        panels = memory.view(at[name], dtype, (full(columns) // PANEL, depth, PANEL))
        found = panels.transpose(1, 0, 2).reshape(depth, full(columns))[:, :columns]
        return found.T if is_forward else found

    given = Inputs(
        matrix("gates", rows, gates),
        matrix("h", count, state),
        weight("weight", gates, state),
        matrix("c", count, hidden),
        matrix("bias", gates),
        weight("projection", state, hidden),
    )
    sizes = [count] * steps
    if layout.packed:
        sizes = memory.view(at["sizes"], dtypes.int64, (steps,)).tolist()
    if is_forward:
        out = matrix("kept", rows, sum(kept))
        out[...] = forward(OfArrays, layout, given, sizes)
    else:
        g, read = matrix("g", rows, sum(kept[:2])), matrix("kept", rows, sum(kept))
        out = matrix("slopes", rows + count, sum(slopes))
        out[...] = backward(OfArrays, layout, g, read, given, sizes)


def run_attention(memory: Any, slots: list[int], signature: Any) -> None:
    _, told, dtype = signature
    kind = Kind(*told)
    names = ["items", *kind.calls, *kind.operands, *kind.numbers]
    names += [f"size {d}" for d in range(kind.rank)]
    for name in kind.operands:
        names += [f"{name} row", f"{name} column", *[f"{name} {d}" for d in range(kind.rank)]]
    at = dict(zip(names, slots, strict=True))
    batch = [at[f"size {d}"] for d in range(kind.rank)]
    rows, columns, features, width = [at[x] for x in ("rows", "columns", "features", "width")]
    sizes = {
        "q": (rows, features), "k": (columns, features), "v": (columns, width),
        "mask": (rows, columns), "g": (rows, width), "out": (rows, width), "gq": (rows, features),
        "gk": (columns, features), "gv": (columns, width),
    }  # fmt: skip

    def matrices(name: str) -> Any:
        strides = [at[f"{name} {d}"] for d in range(kind.rank)]
        strides += [at[f"{name} row"], at[f"{name} column"]]
        of = dtypes.bool_ if name == "mask" and kind.mask == "bool" else dtype
        return memory.view(at[name], of, (*batch, *sizes[name]), strides)

    results = ("gq", "gk", "gv") if kind.gradient else ("out",)
    inputs = [matrices(name) for name in kind.operands[len(results) :]]
    reals = [struct.unpack("<d", struct.pack("<q", at[x]))[0] for x in kind.numbers[6:9]]
    args = (*reals, *[at[x] for x in kind.numbers[9:]])
    count = sum([matrices(name).size for name in results])
    n = SimpleNamespace(attrs=tuple(kind[:3]), args=args, meta=meta_of((count,), dtype))
    op: Any = ATTEND_SLOPES if kind.gradient else ATTEND
    found, start = op.ref(n, *inputs), 0
    for name in results:
        out = matrices(name)
        part = found[start : start + out.size]
        shape = (*batch[:-1], sizes[name][0], batch[-1], sizes[name][1]) if batch else sizes[name]
        out[...] = np.swapaxes(part.reshape(shape), -2, -3) if batch else part.reshape(shape)
        start += out.size
