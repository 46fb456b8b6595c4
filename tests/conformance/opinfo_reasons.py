"""Why samples fail and names are missing, in words, for docs/coverage.md."""

from __future__ import annotations

# (op, column) -> reason; "*" stands for every column, or every op.
REASONS: dict[tuple[str, str], str] = {}

# Beginning of a name -> why it is not there.
MISSING: dict[str, str] = {
    "jiterator": "compiles CUDA kernels from source text",
    "torch.ops.aten": "internal to PyTorch",
    "torch._scaled_mm": "internal to PyTorch: float8 products",
    "sparse.": "sparse layouts do not exist here",
    "to_sparse": "sparse layouts do not exist here",
}
