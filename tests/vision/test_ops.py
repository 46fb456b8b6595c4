"""Boxes, regions, pyramids and blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.vision import ops
from livegrad.vision.models.detection import AnchorGenerator, ssd300_vgg16
from livegrad.vision.models.detection._utils import BoxCoder, Matcher
from livegrad.vision.models.detection.image_list import ImageList

BOXES = lg.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 40], [0, 0, 10, 9.5]])


def test_nms_keeps_the_best() -> None:
    scores = lg.tensor([0.5, 0.9, 0.3, 0.6])
    assert ops.nms(BOXES, scores, 0.5).tolist() == [1, 2]
    assert ops.nms(BOXES, scores, 0.99).tolist() == [1, 3, 0, 2]
    assert ops.nms(BOXES[:0], scores[:0], 0.5).tolist() == []
    groups = lg.tensor([0, 1, 0, 0])
    assert ops.batched_nms(BOXES, scores, groups, 0.5).tolist() == [1, 3, 2]
    with pytest.raises(RuntimeError, match="same number of elements"):
        ops.nms(BOXES, scores[:2], 0.5)


def test_groups_may_be_many() -> None:
    source = np.random.default_rng(0)
    corner = source.random((1200, 2)) * 50
    boxes = lg.tensor(np.concatenate([corner, corner + 1 + source.random((1200, 2)) * 9], 1))
    scores, groups = lg.tensor(source.random(1200)), lg.tensor(source.integers(0, 3, 1200))
    found = ops.batched_nms(boxes, scores, groups, 0.4)
    apart = boxes + (groups * 1000.0)[:, None]
    assert found.tolist() == ops.nms(apart, scores, 0.4).tolist()


@pytest.mark.parametrize("format", ["xyxy", "xywh", "cxcywh"])
def test_formats_there_and_back(format: str) -> None:
    there = ops.box_convert(BOXES, "xyxy", format)
    assert ops.box_convert(there, format, "xyxy").tolist() == BOXES.tolist()
    assert ops.box_area(there, format).tolist() == [100.0, 100.0, 200.0, 95.0]
    with pytest.raises(ValueError, match="Unsupported"):
        ops.box_convert(BOXES, "xyxy", "none")


def test_overlaps() -> None:
    iou = ops.box_iou(BOXES, BOXES)
    assert iou.diagonal().tolist() == [1.0] * 4
    assert iou[0, 1].item() == pytest.approx(81 / 119)
    assert ops.generalized_box_iou(BOXES, BOXES)[0, 2].item() == pytest.approx(-900 / 1200)
    assert ops.distance_box_iou(BOXES, BOXES)[0, 2].item() == pytest.approx(-1025 / 2500)
    loss = ops.generalized_box_iou_loss(BOXES, BOXES.flip(0), "mean")
    assert loss.item() > 0
    assert ops.complete_box_iou_loss(BOXES, BOXES, "sum").item() == pytest.approx(0, abs=1e-5)


def test_small_and_outside() -> None:
    assert ops.remove_small_boxes(BOXES, 9.9).tolist() == [0, 1, 2]
    clipped = ops.clip_boxes_to_image(BOXES, (35, 25))
    assert clipped[2].tolist() == [20.0, 20.0, 25.0, 35.0]
    masks = lg.zeros(1, 8, 9)
    masks[0, 2:5, 3:7] = 1
    assert ops.masks_to_boxes(masks).tolist() == [[3.0, 2.0, 6.0, 4.0]]


def bilinear(image: np.ndarray, y: float, x: float) -> float:
    height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    y, x = min(y, height - 1), min(x, width - 1)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    upper = image[top, left] * (1 - u) + image[top, right] * u
    return float(upper * (1 - v) + (image[bottom, left] * (1 - u) + image[bottom, right] * u) * v)


def aligned(image: np.ndarray, box: list[float], size: int, ratio: int, shift: float) -> np.ndarray:
    x1, y1, x2, y2 = (c - shift for c in box)
    high, wide = y2 - y1, x2 - x1
    if not shift:
        high, wide = max(high, 1.0), max(wide, 1.0)
    down, across = (ratio if ratio > 0 else math.ceil(side / size) for side in (high, wide))
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            values = [
                bilinear(
                    image,
                    y1 + (i + (a + 0.5) / down) * high / size,
                    x1 + (j + (b + 0.5) / across) * wide / size,
                )
                for a in range(down)
                for b in range(across)
            ]
            out[i, j] = sum(values) / max(1, len(values))
    return out


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("is_aligned", [False, True])
def test_roi_align(ratio: int, is_aligned: bool) -> None:
    image = np.random.default_rng(0).random((2, 2, 9, 11))
    rois = [[0, 1.0, 2.0, 8.0, 7.5], [1, -3.0, 4.2, 6.0, 12.0], [1, 2.0, 2.0, 2.4, 2.3]]
    x = lg.tensor(image, requires_grad=True)
    found = ops.roi_align(x, lg.tensor(rois, dtype=lg.float64), 3, 1.0, ratio, is_aligned)
    shift = 0.5 if is_aligned else 0.0
    for k, (index, *box) in enumerate(rois):
        for c in range(2):
            expected = aligned(image[int(index), c], box, 3, ratio, shift)
            np.testing.assert_allclose(found[k, c].detach().numpy(), expected, rtol=1e-9)
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum().item() > 0


def test_roi_pool() -> None:
    image = lg.arange(36, dtype=lg.float32).reshape(1, 1, 6, 6)
    found = ops.roi_pool(image, [lg.tensor([[0.0, 0, 3, 3]])], 2)
    assert found.tolist() == [[[[7.0, 9.0], [19.0, 21.0]]]]
    by_bin = ops.ps_roi_align(image.expand(1, 8, 6, 6), [lg.tensor([[0.0, 0, 3, 3]])], 2)
    assert by_bin.shape == (1, 2, 2, 2)


def test_a_deformable_convolution_without_offsets_is_a_convolution() -> None:
    lg.manual_seed(0)
    layer = ops.DeformConv2d(4, 6, 3, padding=1, stride=2, groups=2)
    x = lg.randn(2, 4, 7, 8)
    offset = lg.zeros(2, 18, 4, 4)
    expected = nn.functional.conv2d(x, layer.weight, layer.bias, 2, 1, 1, 2)
    found = layer(x, offset)
    assert lg.allclose(found, expected, atol=1e-5)
    moved = ops.deform_conv2d(x, offset + 1.0, layer.weight, None, 2, 1)
    beside = nn.functional.conv2d(x[:, :, 1:, 1:], layer.weight, None, 2, 1, 1, 2)
    assert lg.allclose(moved[..., 1:3, 1:3], beside[..., 1:3, 1:3], atol=1e-5)


def test_a_pyramid() -> None:
    net = ops.FeaturePyramidNetwork([4, 8], 5)
    maps = {"a": lg.randn(1, 4, 8, 8), "b": lg.randn(1, 8, 4, 4)}
    found = net(maps)
    assert {k: tuple(v.shape) for k, v in found.items()} == {"a": (1, 5, 8, 8), "b": (1, 5, 4, 4)}
    pool = ops.MultiScaleRoIAlign(["a", "b"], 2, 2)
    boxes = [lg.tensor([[0.0, 0, 10, 10], [0, 0, 60, 60]])]
    assert pool(found, boxes, [(64, 64)]).shape == (2, 5, 2, 2)


def test_stochastic_depth_keeps_the_mean() -> None:
    lg.manual_seed(0)
    x = lg.ones(4000, 2)
    found = ops.stochastic_depth(x, 0.25, "row")
    assert found.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
    assert found.mean().item() == pytest.approx(1.0, abs=0.05)
    assert (found[:, 0] == found[:, 1]).all()
    assert ops.StochasticDepth(0.5, "batch").eval()(x) is x


def test_frozen_norms_load_weights_of_others() -> None:
    norm = nn.BatchNorm2d(3)
    norm.running_mean += 2.0
    frozen = ops.FrozenBatchNorm2d(3)
    frozen.load_state_dict(norm.state_dict())
    x = lg.randn(2, 3, 4, 4)
    assert lg.allclose(frozen(x), norm.eval()(x), atol=1e-5)
    assert list(frozen.parameters()) == []


def test_focal_loss_is_cross_entropy_by_gamma_0() -> None:
    x, y = lg.randn(5), lg.tensor([0.0, 1, 1, 0, 1])
    plain = nn.functional.binary_cross_entropy_with_logits(x, y)
    assert ops.sigmoid_focal_loss(x, y, -1, 0, "mean").item() == pytest.approx(
        plain.item(), rel=1e-5
    )


def test_boxes_as_predictions_and_matches() -> None:
    coder = BoxCoder((10.0, 10.0, 5.0, 5.0))
    codes = coder.encode_single(BOXES, BOXES + 3.0)
    assert lg.allclose(coder.decode_single(codes, BOXES + 3.0), BOXES, atol=1e-4)
    quality = lg.tensor([[0.9, 0.45, 0.1, 0.2], [0.1, 0.2, 0.3, 0.0]])
    assert Matcher(0.5, 0.4)(quality).tolist() == [0, -2, -1, -1]
    assert Matcher(0.5, 0.4, True)(quality).tolist() == [0, -2, 1, -1]


def test_anchors() -> None:
    generator = AnchorGenerator(((32,),), ((1.0,),))
    images = ImageList(lg.zeros(1, 3, 64, 64), [(64, 64)])
    found = generator(images, [lg.zeros(1, 1, 2, 2)])[0]
    assert found.tolist()[1] == [16.0, -16.0, 48.0, 16.0]


def test_targets_are_checked() -> None:
    with lg.device("meta"):
        net = ssd300_vgg16(num_classes=3)
    with pytest.raises(AssertionError, match="should not be none"):
        net([lg.zeros(3, 8, 8)])
    with pytest.raises(AssertionError, match="positive height and width"):
        net([lg.zeros(3, 8, 8)], [{"boxes": lg.tensor([[4.0, 4, 2, 8]]), "labels": lg.tensor([1])}])
