"""Values inside boxes of feature maps, as tensors of one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.nn.tuples import _ntuple

_pair = _ntuple(2)
Rois = Tensor | Sequence[Tensor]


def convert_boxes_to_roi_format(boxes: Sequence[Tensor]) -> Tensor:
    """Boxes per image as one tensor (K, 5), whose first column says which image."""
    images = [lg.full_like(x[:, :1], i) for i, x in enumerate(boxes)]
    return lg.cat([lg.cat(list(images)), lg.cat(list(boxes))], 1)


def _checked(boxes: Rois) -> Tensor:
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ValueError("The boxes tensor shape is not correct as Tensor[K, 5]")
        return boxes
    if any(x.ndim != 2 or x.shape[1] != 4 for x in boxes):
        raise ValueError(
            "The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]"
        )
    return convert_boxes_to_roi_format(list(boxes))


def _corners(at: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For places along one side: the two pixels around each, and their weights; 0 outside."""
    inside = ((at >= -1.0) & (at <= size)).to(at.dtype)
    at = at.clamp(min=0)
    low = at.floor().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    beyond = lg.where(low >= size - 1, low, at) - low
    return low.long(), high.long(), (1 - beyond) * inside, beyond * inside


def _places(start: Tensor, side: Tensor, bins: int, count: Any, most: int) -> Tensor:
    """Where bins are read: (K, bins, most), `count` of them spread over each."""
    index = lg.arange(bins, device=start.device, dtype=start.dtype)
    inner = lg.arange(most, device=start.device, dtype=start.dtype) + 0.5
    step = side / bins
    at = start[:, None, None] + index[None, :, None] * step[:, None, None]
    return at + inner[None, None, :] * (step / count)[:, None, None]


def roi_align(
    input: Tensor,
    boxes: Rois,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Means of interpolated values in the bins of each box, (K, C, *output_size).

    `sampling_ratio` points are read per side of a bin; -1: as many as it has pixels.
    """
    rois = _checked(boxes).to(input.dtype)
    high, wide = _pair(output_size)
    channels, height, width = input.shape[1:]
    offset = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = (rois[:, i] * spatial_scale - offset for i in (1, 2, 3, 4))
    sides = [y2 - y1, x2 - x1]
    if not aligned:
        sides = [side.clamp(min=1.0) for side in sides]
    counts: list[Any] = [float(sampling_ratio), float(sampling_ratio)]
    most = [sampling_ratio, sampling_ratio]
    if sampling_ratio <= 0:  # it depends on values
        counts = [(side / bins).ceil() for side, bins in zip(sides, (high, wide), strict=True)]
        most = [max(1, int(n.max().item())) if len(rois) else 1 for n in counts]
    ys = _places(y1, sides[0], high, counts[0], most[0])  # (K, high, points)
    xs = _places(x1, sides[1], wide, counts[1], most[1])
    rows, columns = _corners(ys, height), _corners(xs, width)
    if sampling_ratio <= 0:
        rows = _only(rows, counts[0], most[0])
        columns = _only(columns, counts[1], most[1])
    flat = input.permute(1, 0, 2, 3).reshape(channels, -1)
    image = rois[:, 0].long()[:, None, None, None, None] * (height * width)
    total = None
    for y, wy in ((rows[0], rows[2]), (rows[1], rows[3])):
        for x, wx in ((columns[0], columns[2]), (columns[1], columns[3])):
            y5, wy5 = y[:, :, None, :, None], wy[:, :, None, :, None]  # (K, high, 1, points, 1)
            x5, wx5 = x[:, None, :, None, :], wx[:, None, :, None, :]
            part = flat[:, image + y5 * width + x5] * (wy5 * wx5)  # (C, K, high, wide, p, p)
            total = part if total is None else total + part
    assert total is not None
    points = counts[0] * counts[1]
    if isinstance(points, Tensor):
        points = points.clamp(min=1)[:, None, None]
    return (total.sum((4, 5)) / points).transpose(0, 1)


def _only(corners: Any, count: Tensor, most: int) -> Any:
    """The corners with weights of points beyond a box's own number at 0."""
    index = lg.arange(most, device=count.device, dtype=count.dtype)
    used = (index[None, :] < count[:, None]).to(count.dtype)[:, None, :]
    low, high, near, far = corners
    return low, high, near * used, far * used


def roi_pool(input: Tensor, boxes: Rois, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """The largest values in the bins of each box, whose corners are rounded to pixels."""
    rois = _checked(boxes).to(input.dtype)
    high, wide = _pair(output_size)
    scaled = (rois[:, 1:] * spatial_scale + 0.5).floor()
    x1, y1, x2, y2 = scaled.unbind(1)
    found = input[rois[:, 0].long()]  # (K, C, H, W)
    for start, end, bins, dim in ((x1, x2, wide, 3), (y1, y2, high, 2)):
        found = _largest(found, start, end, bins, dim)
    return lg.where(found == -lg.inf, 0.0, found)


def _largest(x: Tensor, start: Tensor, end: Tensor, bins: int, dim: int) -> Tensor:
    """The largest values along a dim, within each bin of each box; -inf for an empty bin."""
    size = x.shape[dim]
    step = (end - start + 1).clamp(min=1) / bins
    index = lg.arange(bins, device=x.device, dtype=x.dtype)
    first = ((index * step[:, None]).floor() + start[:, None]).clamp(0, size)  # (K, bins)
    last = (((index + 1) * step[:, None]).ceil() + start[:, None]).clamp(0, size)
    at = lg.arange(size, device=x.device, dtype=x.dtype)
    inside = (at >= first[..., None]) & (at < last[..., None])  # (K, bins, size)
    parts = []
    for i in range(bins):
        shape = [len(x), 1, 1, 1]
        shape[dim] = size
        parts.append(lg.where(inside[:, i].reshape(shape), x, -lg.inf).amax(dim))
    return lg.stack(parts, dim)


def ps_roi_align(
    input: Tensor,
    boxes: Rois,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """`roi_align` where each bin reads channels of its own: (K, C / bins, *output_size)."""
    high, wide = _pair(output_size)
    channels = input.shape[1]
    if channels % (high * wide):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    rois = _checked(boxes).to(input.dtype)
    # The boxes are moved by half a pixel after scaling, and are as small as they come.
    aligned = roi_align(input, rois, (high, wide), spatial_scale, sampling_ratio, aligned=True)
    by_bin = aligned.reshape(len(rois), channels // (high * wide), high * wide, high * wide)
    return by_bin.diagonal(dim1=2, dim2=3).reshape(len(rois), -1, high, wide)


class RoIAlign(nn.Module):
    """See `roi_align`."""

    def __init__(
        self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Rois) -> Tensor:
        """Values in the boxes."""
        return roi_align(
            input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_size={self.output_size}, "
            f"spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
            f"aligned={self.aligned})"
        )


class RoIPool(nn.Module):
    """See `roi_pool`."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Rois) -> Tensor:
        """Values in the boxes."""
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_size={self.output_size}, "
            f"spatial_scale={self.spatial_scale})"
        )
