"""Convolution and transposed convolution of signals, images and volumes: checks and functions.

The work is done by the records of convolution_products.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.drawing import Shown, in_a_row
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.meta import Shape
from livegrad.graph.record import record
from livegrad.ops.shaping.movement import reshape_to, squeeze
from livegrad.ops.support.autocast import in_low
from livegrad.ops.windows.convolution_products import CONV, CONV_INPUT, Geometry
from livegrad.ops.windows.unfolding import Amounts, Sizes, per_dim, permuted, span

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


# ------------------------------------------------------------------------------------ checking


def _check_operands(name: str, rank: int, input: Tensor, weight: Tensor, bias: Any) -> None:
    for what, x in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(x, Handle) and (x is not None or what != "bias"):
            raise TypeError(f"{name}(): argument {what!r} must be Tensor, not {type(x).__name__}")
    x, w = node_of(input).meta, node_of(weight).meta
    if w.ndim != rank + 2 or x.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}: got input {list(x.shape)} and weight {list(w.shape)}; expected {rank + 1}D "
            f"(unbatched) or {rank + 2}D (batched) input and {rank + 2}D weight"
        )
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and node_of(other).meta.dtype is not x.dtype:
            raise RuntimeError(
                f"{name}: Input type ({x.dtype.name}) and {what} type "
                f"({node_of(other).meta.dtype.name}) should be the same"
            )
    if x.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'; convert with .float()")


def _check_numbers(name: str, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> None:
    if min(stride) <= 0:
        raise RuntimeError(f"{name}: non-positive stride is not supported; got {stride}")
    if min(padding) < 0:
        raise RuntimeError(f"{name}: negative padding is not supported; got {padding}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{name}: dilation should be greater than zero; got {dilation}")
    if as_index(groups) <= 0:
        raise RuntimeError(f"{name}: non-positive groups is not supported; got {groups}")


def _check_channels(
    name: str, x: Shape, rank: int, weight: Shape, bias: Any, groups: int, transposed: bool
) -> None:
    channels = x[-1 - rank]
    per_group = weight[0] if transposed else weight[1] * groups
    if weight[0] < groups or weight[0] % groups:
        raise RuntimeError(
            f"{name}: Given groups={groups}, expected weight to be at least {groups} at dimension "
            f"0 and divisible by it, but got weight of size {list(weight)} instead"
        )
    if channels != per_group:
        shown = Shown("input", x, {len(x) - 1 - rank}), Shown("weight", weight, {not transposed})
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight)}, expected input{list(x)} to "
            f"have {per_group} channels, but got {channels} channels instead\n"
            f"{in_a_row(shown[0], ' and ', shown[1])}\n"
            f"{name}: input.shape[{-1 - rank}] must be weight.shape[{int(not transposed)}]"
            f"{f' * {groups} groups' if groups > 1 and not transposed else ''}"
        )
    outputs = weight[1] * groups if transposed else weight[0]
    if bias is not None and node_of(bias).meta.shape != (outputs,):
        raise RuntimeError(
            f"{name}: Given weight of size {list(weight)}, expected bias to be 1-dimensional with "
            f"{outputs} elements, but got bias of size {list(node_of(bias).meta.shape)} instead"
        )


def _paddings(
    name: str, padding: Any, rank: int, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[Amounts, ...]:
    """`padding` as (before, after) per dim; 'same' pads one more after than before if need be."""
    if not isinstance(padding, str):
        return tuple([(p, p) for p in per_dim(name, "padding", padding, rank)])
    if padding == "valid":
        return ((0, 0),) * rank
    if padding != "same":
        raise RuntimeError(
            f"{name}: Invalid padding string: {padding!r}; expected 'valid' or 'same'"
        )
    if any(step != 1 for step in stride):
        raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions")
    totals = [span(k, d) - 1 for k, d in zip(kernel, dilation, strict=True)]
    return tuple([(total // 2, total - total // 2) for total in totals])


def _check_sizes(name: str, sizes: Sizes, counts: Sizes) -> None:
    if min(counts) < 1 or 0 in sizes:
        raise RuntimeError(
            f"{name}: Given input size per channel {sizes}, the calculated output size per channel "
            f"is {counts}. Output size is too small: the kernel, dilated, must fit into the padded "
            "input"
        )


# What was asked for and found right before: attrs by rank, metas and the addresses of options.
# These are kept, so that no others get the addresses; equal ones may be refused, as 1.0 is.
_FOUND: dict[tuple[Any, ...], tuple[Geometry, tuple[Any, ...]]] = {}
_MOST_FOUND = 1024


def _asked(name: str, rank: int, operands: tuple[Any, ...], options: tuple[Any, ...]) -> Geometry:
    """The attrs of a convolution that is asked for; an error if it cannot be."""
    try:
        metas = [None if x is None else node_of(x).meta for x in operands]
    except TypeError:
        return _checked(name, rank, operands, options)
    key = (rank, *metas, *map(id, options))
    found = _FOUND.get(key)
    if found is None:
        found = _checked(name, rank, operands, options), options
        if all(map(_stays, options)):
            if len(_FOUND) >= _MOST_FOUND:
                _FOUND.clear()
            _FOUND[key] = found
    return found[0]


def _stays(option: Any) -> bool:
    """Whether an object cannot change."""
    return type(option) in (int, str) or (
        type(option) is tuple and all([type(x) is int for x in option])
    )


def _checked(name: str, rank: int, operands: tuple[Any, ...], options: tuple[Any, ...]) -> Geometry:
    input, weight, bias = operands
    stride, padding, dilation, groups = options
    _check_operands(name, rank, input, weight, bias)
    x, w = node_of(input).meta.shape, node_of(weight).meta.shape
    steps = per_dim(name, "stride", stride, rank)
    spread = per_dim(name, "dilation", dilation, rank)
    plain = (0,) if isinstance(padding, str) else per_dim(name, "padding", padding, rank)
    _check_numbers(name, steps, plain, spread, groups)
    pads = _paddings(name, padding, rank, w[2:], steps, spread)
    _check_channels(name, x, rank, w, bias, groups, False)
    found = Geometry(steps, pads, spread, groups)
    _check_sizes(name, x[-rank:], found.counts(x[-rank:], w[2:]))
    return found


# ----------------------------------------------------------------------------- public functions


@in_low
def convolve(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    """A convolution of `rank` dims, under the public name `name`."""
    attrs = _asked(name, rank, (input, weight, bias), (stride, padding, dilation, groups))
    x = node_of(input).meta.shape
    batched = len(x) == rank + 2
    if not batched:
        input = reshape_to(input, (1, *x))
    inputs = (input, weight) if bias is None else (input, weight, bias)
    out = record(CONV, inputs, attrs)
    return out if batched else squeeze(out, 0)  # a view, as in PyTorch


@in_low
def convolve_transposed(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """A transposed convolution of `rank` dims: the gradient of a convolution, as a function."""
    _check_operands(name, rank, input, weight, bias)
    x, w = node_of(input).meta.shape, node_of(weight).meta.shape
    steps = per_dim(name, "stride", stride, rank)
    spread = per_dim(name, "dilation", dilation, rank)
    plain = per_dim(name, "padding", padding, rank)
    extra = per_dim(name, "output_padding", output_padding, rank)
    _check_numbers(name, steps, plain, spread, groups)
    _check_channels(name, x, rank, w, bias, groups, True)
    if any(not 0 <= e < max(st, d) for e, st, d in zip(extra, steps, spread, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation; got "
            f"output_padding {extra}, stride {steps}, dilation {spread}"
        )
    rows = zip(x[-rank:], steps, plain, spread, extra, w[2:], strict=True)
    sizes = tuple([(n - 1) * st - 2 * p + span(k, d) + e for n, st, p, d, e, k in rows])
    _check_sizes(name, x[-rank:], sizes)
    # Padding after the output is padding taken from its end.
    pads = tuple([(p, p - e) for p, e in zip(plain, extra, strict=True)])
    batched = len(x) == rank + 2
    if not batched:
        input = reshape_to(input, (1, *x))
    inputs = (input, weight) if bias is None else (input, weight, bias)
    out = record(CONV_INPUT, inputs, (steps, pads, spread, groups, sizes))
    return out if batched else squeeze(out, 0)  # a view, as in PyTorch


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of signals (N, C, L) with `weight` (O, C / groups, K).

    Args:
        padding: zeros on both sides, 'valid' for none, or 'same' to keep the length.

    Example:
        >>> F.conv1d(lg.tensor([[[1.0, 2.0, 3.0, 4.0]]]), lg.tensor([[[1.0, -1.0]]]))
        tensor([[[-1., -1., -1.]]])
    """
    return convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images (N, C, H, W) with `weight` (O, C / groups, KH, KW); see `conv1d`.

    Args:
        input: (N, C, H, W), or (C, H, W).
        weight: (O, C / groups, KH, KW).
        bias: (O), or None.
        stride: of the windows.
        padding: zeros around the images, "same" or "valid".
        dilation: from one element of a window to the next.
        groups: of channels that are convolved apart.

    Example:
        >>> F.conv2d(lg.ones(1, 3, 8, 8), lg.ones(6, 3, 3, 3), padding=1).shape
        livegrad.Size([1, 6, 8, 8])
    """
    return convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of volumes (N, C, D, H, W); see `conv1d`."""
    return convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of signals (N, C, L) with `weight` (C, O / groups, K)."""
    options = (stride, padding, output_padding, groups, dilation)
    return convolve_transposed("conv_transpose1d", 1, input, weight, bias, *options)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of images (N, C, H, W) with `weight` (C, O / groups, KH, KW)."""
    options = (stride, padding, output_padding, groups, dilation)
    return convolve_transposed("conv_transpose2d", 2, input, weight, bias, *options)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of volumes (N, C, D, H, W)."""
    options = (stride, padding, output_padding, groups, dilation)
    return convolve_transposed("conv_transpose3d", 3, input, weight, bias, *options)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """Any of the above; the weight tells the rank."""
    rank = node_of(weight).meta.ndim - 2
    if rank not in (1, 2, 3):
        raise RuntimeError(
            f"convolution: got weight of {rank + 2} dims; expected 3, 4 or 5: (out, in, *kernel)"
        )
    if transposed:
        options = (stride, padding, output_padding, groups, dilation)
        return convolve_transposed("convolution", rank, input, weight, bias, *options)
    return convolve("convolution", rank, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of sequences (time, batch, channels) with `weight` (K, C, O)."""
    for what, x in (("input", input), ("weight", weight)):
        if node_of(x).meta.ndim != 3:
            raise RuntimeError(f"conv_tbc: {what} must have 3 dims; got {x.shape}")
    out = convolve(
        "conv_tbc", 1, permuted(input, (1, 2, 0)), permuted(weight, (2, 1, 0)), bias, 1, pad, 1, 1
    )
    return permuted(out, (2, 0, 1))
