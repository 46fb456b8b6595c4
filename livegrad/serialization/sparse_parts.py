"""Sparse tensors in files: their layout, indices, elements and size. Nothing of it is trusted."""

from __future__ import annotations

from typing import Any

from livegrad.graph.above import Above
from livegrad.settings import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

LAYOUTS = {x.name: x for x in (sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)}


def checked_sparse(layout: Any, parts: Any, elements: Any, size: Any, coalesced: bool) -> Any:
    """The sparse tensor of these parts; RuntimeError if they make none."""
    if layout not in LAYOUTS:
        raise RuntimeError(f"there is no layout {layout!r}")
    making = Above.sparse().making
    if layout == "sparse_coo":
        return making.sparse_coo_tensor(
            *parts, elements, size, check_invariants=True, is_coalesced=coalesced
        )
    return making.sparse_compressed_tensor(
        *parts, elements, size, layout=LAYOUTS[layout], check_invariants=True
    )
