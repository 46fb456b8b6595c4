"""Ops that the compiler inserts: nobody records them."""

from __future__ import annotations

import numpy as np

from livegrad.graph.lowering import lowered_by
from livegrad.graph.op import Op
from livegrad.ops.support import samples as s

COPY = Op(
    "copy",
    "elementwise",
    # A clone where values must lie in memory in plain order.
    ref=np.array,
    emit=lambda e, x: x,
    lower=lowered_by("elementwise.Stored", label="copy"),
    cheap=False,
    saves="",
    samples=s.unary(smooth=False),
)

PART = Op(
    "part",
    "elementwise",
    # Values stored into a part of a larger buffer; the ASSEMBLY that owns the buffer reads it.
    ref=np.array,
    emit=lambda e, x: x,
    lower=lowered_by("elementwise.Stored"),
    samples=s.unary(smooth=False),
)

ASSEMBLY = Op(
    "assembly",
    "kernel",
    # Inputs: parts, stored one after the other. attrs: per part the kind of region.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, *parts: parts[0],
    lower=lowered_by("parts.Assembly"),
    samples=s.calls(),
)
