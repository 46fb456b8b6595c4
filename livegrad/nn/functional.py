"""Functions under the names and signatures of `torch.nn.functional`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import Handle, node_of
from livegrad.graph.record import unary
from livegrad.graph.writes import rebind
from livegrad.methods import inplace as inplace_form
from livegrad.ops.elementwise.pointwise_math import SIGMOID, TANH
from livegrad.ops.layers import activation as A, composite, smooth_activation as S
from livegrad.ops.layers.activation import RELU, hardshrink, prelu, softshrink
from livegrad.ops.layers.attention import scaled_dot_product_attention
from livegrad.ops.layers.composite import cosine_similarity, layer_norm, normalize, rms_norm
from livegrad.ops.layers.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    gumbel_softmax,
    rrelu,
)
from livegrad.ops.layers.gating import bilinear, glu
from livegrad.ops.layers.heads import multi_head_attention_forward
from livegrad.ops.layers.smooth_activation import gelu, logsigmoid, softplus, softsign, tanhshrink
from livegrad.ops.losses.class_loss import cross_entropy, nll_loss
from livegrad.ops.losses.ctc import ctc_loss
from livegrad.ops.losses.label_loss import (
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
)
from livegrad.ops.losses.likelihood_loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    kl_div,
    poisson_nll_loss,
)
from livegrad.ops.losses.linear_loss import linear_cross_entropy
from livegrad.ops.losses.loss import huber_loss, l1_loss, mse_loss, smooth_l1_loss
from livegrad.ops.losses.ranking_loss import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from livegrad.ops.norms.normalisation import (
    batch_norm,
    group_norm,
    instance_norm,
    local_response_norm,
)
from livegrad.ops.picking.embedding import embedding, embedding_bag
from livegrad.ops.picking.masking import one_hot
from livegrad.ops.products import matmul as products
from livegrad.ops.products.distances import pdist
from livegrad.ops.products.pairwise import pairwise_distance
from livegrad.ops.shaping import joining
from livegrad.ops.shaping.shuffling import channel_shuffle, pixel_shuffle, pixel_unshuffle
from livegrad.ops.support.public import publish
from livegrad.ops.windows.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    fractional_max_pool2d,
    fractional_max_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from livegrad.ops.windows.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from livegrad.ops.windows.grid_sampling import affine_grid, grid_sample
from livegrad.ops.windows.interpolation import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from livegrad.ops.windows.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from livegrad.ops.windows.pooling_indices import (
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d_with_indices,
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
)
from livegrad.ops.windows.unfolding import fold, unfold

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


pad = joining.pad
linear = products.linear


# -------------------------------------------------------------------------------- activations


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of an activation."""
    shared = inplace_form(function)

    def write(input: Tensor, *args: float) -> Tensor:
        if isinstance(input, Handle) and input._share is None:
            return rebind(input, function(input, *args))
        return shared(input, *args)  # hooks on views, and elements that lie in one place

    return write


_relu_ = _in_place(A.relu)
_relu6_ = _in_place(A.relu6)
_leaky_relu_ = _in_place(A.leaky_relu)
_elu_ = _in_place(S.elu)
_selu_ = _in_place(S.selu)
_celu_ = _in_place(S.celu)
_silu_ = _in_place(S.silu)
_mish_ = _in_place(S.mish)
_hardtanh_ = _in_place(A.hardtanh)
_hardswish_ = _in_place(A.hardswish)
_hardsigmoid_ = _in_place(A.hardsigmoid)
_threshold_ = _in_place(A.threshold)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `max(input, 0)`.

    Args:
        input: a tensor.
        inplace: whether `input` takes the result.

    Example:
        >>> F.relu(lg.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return _relu_(input) if inplace else unary(RELU, input)


def sigmoid(input: Tensor) -> Tensor:
    """Elementwise `1 / (1 + exp(-input))`.

    Example:
        >>> F.sigmoid(lg.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
    return unary(SIGMOID, input)


def tanh(input: Tensor) -> Tensor:
    """Elementwise hyperbolic tangent."""
    return unary(TANH, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `min(max(input, 0), 6)`."""
    return _relu6_(input) if inplace else A.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`input` where positive, else `negative_slope * input`.

    Args:
        negative_slope: of the line below 0.
        inplace: write to `input`.

    Example:
        >>> F.leaky_relu(lg.tensor([-1.0, 2.0]), 0.1)
        tensor([-0.1000,  2.0000])
    """
    return _leaky_relu_(input, negative_slope) if inplace else A.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where positive, else `alpha * (exp(input) - 1)`.

    Args:
        alpha: minus the limit on the left.
        inplace: write to `input`.

    Example:
        >>> F.elu(lg.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return _elu_(input, alpha) if inplace else S.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled elu, which keeps mean 0 and variance 1."""
    return _selu_(input) if inplace else S.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` where positive, else `alpha * (exp(input / alpha) - 1)`."""
    return _celu_(input, alpha) if inplace else S.celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `input * sigmoid(input)`.

    Example:
        >>> F.silu(lg.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])
    """
    return _silu_(input) if inplace else S.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `input * tanh(softplus(input))`."""
    return _mish_(input) if inplace else S.mish(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """`input` limited to [min_val, max_val]."""
    return _hardtanh_(input, min_val, max_val) if inplace else A.hardtanh(input, min_val, max_val)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `input * relu6(input + 3) / 6`."""
    return _hardswish_(input) if inplace else A.hardswish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Elementwise `relu6(input + 3) / 6`."""
    return _hardsigmoid_(input) if inplace else A.hardsigmoid(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`input` where it is greater than `threshold`, else `value`."""
    return _threshold_(input, threshold, value) if inplace else A.threshold(input, threshold, value)


def _softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """`exp(input)` divided by its sum along `dim`.

    Args:
        input: a tensor.
        dim: along which the results add up to 1.
        dtype: what to compute in, if not the dtype of `input`.

    Example:
        >>> F.softmax(lg.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _softmax_dim("softmax", node_of(input).meta.ndim, _stacklevel)
    return composite.softmax(input, dim, dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of softmax along `dim`, computed stably.

    Args:
        input: a tensor.
        dim: along which the exponentials of the results add up to 1.
        dtype: what to compute in, if not the dtype of `input`.

    Example:
        >>> F.log_softmax(lg.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    if dim is None:
        dim = _softmax_dim("log_softmax", node_of(input).meta.ndim, _stacklevel)
    return composite.log_softmax(input, dim, dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax of `-input` along `dim`."""
    if dim is None:
        dim = _softmax_dim("softmin", node_of(input).meta.ndim, _stacklevel)
    return composite.softmin(input, dim, dtype)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return _celu_(input, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place."""
    return _elu_(input, alpha)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place."""
    return _hardtanh_(input, min_val, max_val)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place."""
    return _leaky_relu_(input, negative_slope)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return _relu_(input)


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return _selu_(input)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place."""
    return _threshold_(input, threshold, value)


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

publish(globals(), __all__)
