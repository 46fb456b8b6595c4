"""Ops that the compiler inserts: nobody records them."""

from __future__ import annotations

import numpy as np

from livegrad.graph.lowering import lowered_by
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.support import batched, samples as s

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
    inserted=True,
    samples=s.unary(smooth=False),
)

WRITTEN = Op(
    "written",
    "kernel",
    # Inputs: a base, and the part that is stored into its memory. attrs: the part's region.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, base, part: base,
    lower=lowered_by("parts.Written"),
    inserted=True,
    samples=s.calls(),
)

MOVED: Op = Op(
    "moved",
    "kernel",
    # A leaf's value, in memory that may be the leaf's own.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: np.array(x),
    lower=lowered_by("move.Moved"),
    inserted=True,
    batch=batched.as_it_is,
    samples=s.calls(lambda: s.Sample((s.uniform(3, 37),), lambda x: record(MOVED, (x,)))),
)

ASSEMBLY = Op(
    "assembly",
    "kernel",
    # Inputs: parts, stored one after the other. attrs: per part the kind of region.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, *parts: parts[0],
    lower=lowered_by("parts.Assembly"),
    inserted=True,
    samples=s.calls(),
)
