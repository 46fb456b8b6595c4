"""Functions under the names and signatures of `torch.nn.functional`."""

from __future__ import annotations

import math
import warnings
from typing import Any

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.graph.record import rebind, record, unary
from livegrad.ops import (
    activation as A,
    composite,
    joining,
    matmul as products,
    reduce,
    smooth_activation as S,
)
from livegrad.ops.activation import RELU, hardshrink, prelu, softshrink
from livegrad.ops.class_loss import cross_entropy, nll_loss
from livegrad.ops.comparison import eq
from livegrad.ops.composite import cosine_similarity, layer_norm, normalize, rms_norm
from livegrad.ops.elementwise import add, where
from livegrad.ops.gathering import embedding_lookup
from livegrad.ops.generate import counting
from livegrad.ops.indexing import one_hot
from livegrad.ops.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from livegrad.ops.movement import DETACH
from livegrad.ops.pointwise_math import sigmoid, tanh
from livegrad.ops.random import dropout
from livegrad.ops.smooth_activation import gelu, logsigmoid, softplus, softsign, tanhshrink
from livegrad.ops.statistics import norm

pad = joining.pad
linear = products.linear


# -------------------------------------------------------------------------------- activations


def _maybe_inplace(input: Any, value: Any, inplace: bool) -> Any:
    return rebind(input, value) if inplace else value


def relu(input: Any, inplace: bool = False) -> Any:
    """Elementwise `max(input, 0)`."""
    return rebind(input, unary(RELU, input)) if inplace else unary(RELU, input)


def relu6(input: Any, inplace: bool = False) -> Any:
    """Elementwise `min(max(input, 0), 6)`."""
    return _maybe_inplace(input, A.relu6(input), inplace)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """`input` where positive, else `negative_slope * input`."""
    return _maybe_inplace(input, A.leaky_relu(input, negative_slope), inplace)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """leaky_relu whose slope is drawn per element while training, else the mean slope."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with no_grad():
        slopes = input.detach().clone().uniform_(lower, upper)
    return _maybe_inplace(input, where(input >= 0, input, input * slopes), inplace)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`input` where positive, else `alpha * (exp(input) - 1)`."""
    return _maybe_inplace(input, S.elu(input, alpha), inplace)


def selu(input: Any, inplace: bool = False) -> Any:
    """Scaled elu, which keeps mean 0 and variance 1."""
    return _maybe_inplace(input, S.selu(input), inplace)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`input` where positive, else `alpha * (exp(input / alpha) - 1)`."""
    return _maybe_inplace(input, S.celu(input, alpha), inplace)


def silu(input: Any, inplace: bool = False) -> Any:
    """Elementwise `input * sigmoid(input)`."""
    return _maybe_inplace(input, S.silu(input), inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """Elementwise `input * tanh(softplus(input))`."""
    return _maybe_inplace(input, S.mish(input), inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """`input` limited to [min_val, max_val]."""
    return _maybe_inplace(input, A.hardtanh(input, min_val, max_val), inplace)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """Elementwise `input * relu6(input + 3) / 6`."""
    return _maybe_inplace(input, A.hardswish(input), inplace)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """Elementwise `relu6(input + 3) / 6`."""
    return _maybe_inplace(input, A.hardsigmoid(input), inplace)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """`input` where it is greater than `threshold`, else `value`."""
    return _maybe_inplace(input, A.threshold(input, threshold, value), inplace)


def glu(input: Any, dim: int = -1) -> Any:
    """First half of `input` along `dim` times the sigmoid of the second half."""
    size = input.shape[dim] if input.ndim else 1
    if size % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {dim} is size {size}"
        )
    left, right = input.chunk(2, dim)
    return left * sigmoid(right)


def _softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`exp(input)` divided by its sum along `dim`."""
    if dim is None:
        dim = _softmax_dim("softmax", input.ndim, _stacklevel)
    return composite.softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """Logarithm of softmax along `dim`, computed stably."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.ndim, _stacklevel)
    return composite.log_softmax(input, dim, dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax of `-input` along `dim`."""
    if dim is None:
        dim = _softmax_dim("softmin", input.ndim, _stacklevel)
    return composite.softmin(input, dim, dtype)


# ------------------------------------------------------------------------------------- layers


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k."""
    outputs, size1, size2 = weight.shape
    left = input1.reshape(-1, size1) @ weight.permute(1, 0, 2).reshape(size1, outputs * size2)
    products_ = left.reshape(-1, outputs, size2) * input2.reshape(-1, 1, size2)
    result = products_.sum(-1).reshape(*input1.shape[:-1], outputs)
    return result if bias is None else add(result, bias)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of `weight` at the indices `input`; the row `padding_idx` gets no gradient."""
    if scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "embedding: scale_grad_by_freq and sparse gradients are not there; pass False"
        )
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        _limit_norms(input, weight, max_norm, norm_type)
    if padding_idx is not None:
        return _embedding_with_padding(input, weight, padding_idx)
    return embedding_lookup(weight, input)


def _embedding_with_padding(input: Any, weight: Any, padding_idx: int) -> Any:
    """The rows, with those of the padding index detached."""
    rows = embedding_lookup(weight, input)
    padded = eq(input, padding_idx).unsqueeze(-1)
    return where(padded, record(DETACH, (rows,)), rows)


def _limit_norms(input: Any, weight: Any, max_norm: float, norm_type: float) -> None:
    """Scales the rows of `weight` named in `input` down to `max_norm`, in place."""
    with no_grad():
        norms = norm(weight, norm_type, 1, True)  # (rows, 1)
        rows = counting(weight.shape[0]).unsqueeze(-1)
        used = reduce.any(eq(rows, input.reshape(1, -1)), 1, True)
        scale = max_norm / (norms + 1e-7)
        weight.copy_(where((norms > max_norm) & used, weight * scale, weight))


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """p-norm of `x1 - x2 + eps` along the last dim."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """`softmax(query @ key.T * scale + mask) @ value`, over (…, length, features)."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor  # (…, L, S)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("scaled_dot_product_attention: is_causal excludes attn_mask")
        rows, columns = counting(query.shape[-2]).unsqueeze(-1), counting(key.shape[-2])
        scores = where(rows >= columns, scores, -math.inf)
    elif attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        scores = where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return dropout(composite.softmax(scores, -1), dropout_p, dropout_p > 0) @ value


__all__ = [
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]
