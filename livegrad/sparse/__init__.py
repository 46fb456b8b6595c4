"""Sparse tensors: `torch.sparse` for livegrad. How they are made: docs/design.md."""

from __future__ import annotations

from livegrad.graph.elsewhere import Sparse
from livegrad.sparse import (
    answers,
    converting as converting,
    gradients as gradients,
    making as making,
    moving as moving,
    products as products,
)
from livegrad.sparse.core import SparseTensor as SparseTensor
from livegrad.sparse.folding import log_softmax, softmax, sum
from livegrad.sparse.functions import (
    addmm,
    as_sparse_gradcheck,
    mm,
    solve,
    spdiags,
    spsolve,
    to_sparse_semi_structured,
)
from livegrad.sparse.invariants import check_sparse_tensor_invariants
from livegrad.sparse.old import (
    BFloat16Tensor as BFloat16Tensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
)
from livegrad.sparse.products import sampled_addmm as sampled_addmm

Sparse.exist = True
answers.give_methods()
answers.install()

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "solve",
    "spdiags",
    "spsolve",
    "sum",
    "to_sparse_semi_structured",
]
