"""Calls that work, for functions whose arguments have to fit each other: fuzzing spoils them."""

from __future__ import annotations

from typing import Any


class Room:
    """A tensor to be made: its shape, and what is in it."""

    def __init__(self, *shape: int, of: str = "float") -> None:
        self.shape = shape
        self.of = of


def F(*shape: int) -> Room:
    """Floats."""
    return Room(*shape)


def N(*shape: int) -> Room:
    """Indices: 0, 1 and 2, as int64."""
    return Room(*shape, of="index")


def M(*shape: int) -> Room:
    """A mask."""
    return Room(*shape, of="bool")


def C(*shape: int) -> Room:
    """Complex numbers."""
    return Room(*shape, of="complex")


# By name, in whatever namespace: positional arguments, and options.
RECIPES: dict[str, list[tuple[Any, ...]]] = {
    "addbmm": [(F(3, 5), F(2, 3, 4), F(2, 4, 5))],
    "addmm": [(F(3, 5), F(3, 4), F(4, 5))],
    "addmv": [(F(3), F(3, 4), F(4))],
    "addr": [(F(3, 4), F(3), F(4))],
    "affine_grid": [(F(2, 2, 3), (2, 1, 3, 4))],
    "affine_grid_generator": [(F(2, 3, 4), (2, 1, 2, 3, 4), True)],
    "adaptive_avg_pool2d": [(F(1, 2, 5, 5), 3)],
    "adaptive_avg_pool3d": [(F(1, 2, 4, 4, 4), (2, 1, 3))],
    "adaptive_max_pool2d": [(F(1, 2, 5, 5), 3)],
    "adaptive_max_pool3d": [(F(1, 2, 4, 4, 4), 2)],
    "as_strided": [(F(3, 4), (2, 2), (1, 2), 1)],
    "as_strided_scatter": [(F(12), F(2, 2), (2, 2), (1, 2), 1)],
    "avg_pool1d": [(F(1, 2, 8), 3, 2)],
    "avg_pool2d": [(F(1, 2, 6, 6), (2, 3), 2, 1)],
    "avg_pool3d": [(F(1, 1, 4, 4, 4), 2)],
    "baddbmm": [(F(2, 3, 5), F(2, 3, 4), F(2, 4, 5))],
    "batch_norm": [(F(2, 3, 4), F(3), F(3), F(3), F(3), True, 0.1, 1e-5)],
    "bilinear": [(F(2, 3), F(2, 4), F(5, 3, 4), F(5))],
    "bmm": [(F(2, 3, 4), F(2, 4, 5))],
    "cdist": [(F(2, 3, 4), F(2, 5, 4))],
    "conv1d": [(F(1, 2, 7), F(3, 2, 3), F(3), 2, 1)],
    "conv2d": [(F(1, 2, 5, 5), F(4, 1, 3, 3), None, 1, (1, 0), 1, 2)],
    "conv3d": [(F(1, 1, 4, 4, 4), F(2, 1, 2, 2, 2))],
    "conv_tbc": [(F(5, 2, 3), F(3, 3, 4), F(4), 1)],
    "conv_transpose1d": [(F(1, 2, 5), F(2, 3, 3), F(3), 2, 1, 1)],
    "conv_transpose2d": [(F(1, 2, 3, 3), F(2, 2, 2, 2))],
    "conv_transpose3d": [(F(1, 1, 2, 2, 2), F(1, 1, 2, 2, 2))],
    "convolution": [(F(1, 2, 7), F(3, 2, 3), None, (1,), (0,), (1,), False, (0,), 1)],
    "cosine_embedding_loss": [(F(3, 4), F(3, 4), F(3))],
    "cross_entropy": [(F(4, 3), N(4)), (F(2, 3, 2, 2), N(2, 2, 2)), (F(4, 3), F(4, 3))],
    "ctc_loss": [(F(6, 2, 4), N(2, 3), (6, 5), (2, 3))],
    "diagonal_scatter": [(F(3, 4), F(3))],
    "einsum": [("ij,jk->ik", F(2, 3), F(3, 4)), ("bii->b", F(2, 3, 3))],
    "embedding": [(N(4), F(5, 3)), (N(2, 3), F(4, 2), 1)],
    "embedding_bag": [(N(2, 3), F(5, 4)), (N(6), F(5, 4), N(2))],
    "fold": [(F(1, 8, 4), (4, 4), 2, 1, 0, 2)],
    "fractional_max_pool2d": [(F(1, 2, 6, 6), 2, 3)],
    "fractional_max_pool3d": [(F(1, 1, 5, 5, 5), 2, 2)],
    "gather": [(F(3, 4), 1, N(3, 2))],
    "grid_sample": [(F(1, 2, 4, 4), F(1, 3, 3, 2))],
    "grid_sampler": [(F(1, 2, 4, 4), F(1, 3, 3, 2), 0, 1, True)],
    "group_norm": [(F(2, 4, 3), 2, F(4), F(4))],
    "histogram": [(F(7), 4)],
    "householder_product": [(F(4, 3), F(3))],
    "index_add": [(F(3, 4), 0, N(2), F(2, 4))],
    "index_copy": [(F(3, 4), 0, N(2), F(2, 4))],
    "index_fill": [(F(3, 4), 1, N(2), 1.5)],
    "index_put": [(F(3, 4), (N(2), N(2)), F(2))],
    "index_reduce": [(F(3, 4), 0, N(2), F(2, 4), "amax")],
    "index_select": [(F(3, 4), 1, N(5))],
    "instance_norm": [(F(2, 3, 4),)],
    "interpolate": [(F(1, 2, 4, 4), 3), (F(1, 2, 4), None, 1.5, "linear")],
    "istft": [(C(5, 4), 8)],
    "layer_norm": [(F(2, 3, 4), (3, 4), F(3, 4), F(3, 4))],
    "ldl_solve": [(F(3, 3), N(3), F(3, 2))],
    "linear": [(F(2, 3), F(4, 3), F(4))],
    "linear_cross_entropy": [(F(4, 3), F(5, 3), N(4))],
    "lp_pool2d": [(F(1, 2, 4, 4), 2.0, 2)],
    "lp_pool3d": [(F(1, 1, 4, 4, 4), 2.0, 2)],
    "lu_solve": [(F(3, 3), N(3), F(3, 2))],
    "masked_fill": [(F(3, 4), M(3, 4), 2.0)],
    "masked_scatter": [(F(3, 4), M(3, 4), F(12))],
    "masked_select": [(F(3, 4), M(3, 4))],
    "max_pool1d": [(F(1, 2, 8), 3, 2)],
    "max_pool2d": [(F(1, 2, 6, 6), 2, 2, 1, 1, True)],
    "max_pool3d": [(F(1, 1, 4, 4, 4), 2)],
    "max_pool2d_with_indices_backward": [
        (F(1, 1, 2, 2), F(1, 1, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), False, N(1, 1, 2, 2)),
    ],
    "max_unpool2d": [(F(1, 2, 2, 2), N(1, 2, 2, 2), 2)],
    "max_unpool3d": [(F(1, 1, 2, 2, 2), N(1, 1, 2, 2, 2), 2)],
    "multi_head_attention_forward": [
        (F(3, 2, 4), F(3, 2, 4), F(3, 2, 4), 4, 2, F(12, 4), F(12), None, None, False, 0.0,
         F(4, 4), F(4)),
    ],
    "multi_margin_loss": [(F(4, 3), N(4))],
    "multinomial": [(F(2, 4), 3, True)],
    "mv": [(F(3, 4), F(4))],
    "narrow": [(F(3, 4), 1, 1, 2)],
    "native_batch_norm": [(F(2, 3, 4), F(3), F(3), F(3), F(3), True, 0.1, 1e-5)],
    "native_group_norm": [(F(2, 4, 3), F(4), F(4), 2, 4, 3, 2, 1e-5)],
    "native_layer_norm": [(F(2, 3), (3,), F(3), F(3), 1e-5)],
    "nll_loss": [(F(4, 3), N(4), F(3))],
    "ormqr": [(F(3, 3), F(3), F(3, 2))],
    "permute": [(F(2, 3, 4), (2, 0, 1))],
    "pixel_shuffle": [(F(1, 8, 2, 2), 2)],
    "pixel_unshuffle": [(F(1, 2, 4, 4), 2)],
    "put": [(F(3, 4), N(2), F(2))],
    "quantile": [(F(3, 4), 0.5, 1)],
    "renorm": [(F(3, 4), 2.0, 0, 1.0)],
    "repeat_interleave": [(F(3, 4), N(4), 1), (F(3), 2)],
    "rms_norm": [(F(2, 3), (3,), F(3))],
    "scaled_dot_product_attention": [(F(2, 3, 4), F(2, 5, 4), F(2, 5, 6))],
    "scatter": [(F(3, 4), 0, N(2, 4), F(2, 4))],
    "scatter_add": [(F(3, 4), 0, N(2, 4), F(2, 4))],
    "scatter_reduce": [(F(3, 4), 0, N(2, 4), F(2, 4), "prod")],
    "searchsorted": [(F(5), F(2, 3))],
    "segment_reduce": [(F(6, 2), "sum")],
    "select_scatter": [(F(3, 4), F(4), 0, 1)],
    "slice_scatter": [(F(3, 4), F(2, 4), 0, 1)],
    "solve_triangular": [(F(3, 3), F(3, 2))],
    "split_with_sizes_copy": [(F(5, 2), (2, 3))],
    "stft": [(F(2, 20), 8, 4, None, None, True, "reflect", False, True, True)],
    "swapaxes": [(F(2, 3), 0, 1)],
    "take_along_dim": [(F(3, 4), N(3, 2), 1)],
    "tensorinv": [(F(2, 3, 6), 2)],
    "tensorsolve": [(F(2, 3, 6), F(2, 3))],
    "triplet_margin_loss": [(F(3, 4), F(3, 4), F(3, 4))],
    "unfold": [(F(1, 2, 4, 4), 2), (F(3, 8), 1, 3, 2)],
    "upsample": [(F(1, 2, 4, 4), None, 2)],
    "upsample_bilinear": [(F(1, 2, 4, 4), 6)],
    "view_as_complex": [(F(3, 2),)],
}  # fmt: skip
# Other names of the same calls.
for _name, _same in {
    "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d",
    "adaptive_max_pool3d_with_indices": "adaptive_max_pool3d",
    "fractional_max_pool2d_with_indices": "fractional_max_pool2d",
    "fractional_max_pool3d_with_indices": "fractional_max_pool3d",
    "grid_sampler_2d": "grid_sampler",
    "max_pool1d_with_indices": "max_pool1d",
    "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d",
    "narrow_copy": "narrow",
    "permute_copy": "permute",
    "swapdims": "swapaxes",
    "transpose": "swapaxes",
}.items():
    RECIPES[_name] = RECIPES[_same]
