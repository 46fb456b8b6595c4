"""Ops that the compiler inserts: nobody records them."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.compiler.panels import PANEL, full
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
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


def _panels_infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    depth, width = metas[0].shape[:: -1 if attrs[0] else 1]
    return meta_of((full(width) // PANEL, depth, PANEL), metas[0].dtype)


def _panels_ref(n: Any, matrix: Any) -> Any:
    matrix = matrix.T if n.attrs[0] else matrix
    depth, width = matrix.shape
    wide = np.zeros((depth, full(width)), matrix.dtype)
    wide[:, :width] = matrix
    return wide.reshape(depth, full(width) // PANEL, PANEL).transpose(1, 0, 2)


PANELS: Op = Op(
    "panels",
    "kernel",
    # A matrix (K, N), or, attrs (turned,), its transpose, as (⌈N / 16⌉, K, 16): compiler/panels.py.
    infer=_panels_infer,
    ref=_panels_ref,
    lower=lowered_by("panels.Panels"),
    inserted=True,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 37),), lambda x: record(PANELS, (x,), (False,))),
        lambda: s.Sample((s.uniform(33, 21),), lambda x: record(PANELS, (x,), (True,))),
        lambda: s.Sample((s.uniform(32, 16),), lambda x: record(PANELS, (x,), (True,))),
        lambda: s.Sample((s.uniform(16, 0),), lambda x: record(PANELS, (x,), (True,))),
        lambda: s.Sample((s.uniform(0, 5),), lambda x: record(PANELS, (x,), (True,))),
    ),
)
