"""How sparse tensors print: PyTorch's layout, character for character."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.printing import contents_text, with_suffixes
from livegrad.sparse.pattern import Compressed

if TYPE_CHECKING:
    from livegrad.sparse.core import SparseTensor


def _part(name: str, x: Any, indent: int) -> str:
    prefix = f"{name}=tensor("
    text = prefix + contents_text(x, indent + len(prefix))
    if not x.numel():
        text += f", size={tuple(x.shape)}"
    return text + ")"


def sparse_text(x: SparseTensor) -> str:
    """`repr` of a sparse tensor; computes its values."""
    prefix = "tensor("
    indent = len(prefix)
    pattern = x._pattern
    names = ["indices"]
    if isinstance(pattern, Compressed):
        names = (
            ["ccol_indices", "row_indices"]
            if pattern.by_columns
            else ["crow_indices", "col_indices"]
        )
    parts = [*zip(names, pattern.parts, strict=True), ("values", x._values())]
    texts = [_part(name, part.detach(), indent) for name, part in parts]
    usual = {dtypes.get_default_dtype(), dtypes.default_complex(), dtypes.int64, dtypes.bool_}
    notes = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if x.dtype not in usual:
        notes.append(f"dtype={x.dtype!r}")
    notes.append(f"layout={x.layout!r}")
    if x.grad_fn is not None:
        notes.append(f"grad_fn=<{type(x.grad_fn).__name__}>")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    text = prefix + (",\n" + " " * indent).join(texts)
    return with_suffixes(text, notes, indent, below=not isinstance(pattern, Compressed))
