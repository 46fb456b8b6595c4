"""Boxes, regions and detectors against torchvision's, whose C++ is replaced where it has any."""

from __future__ import annotations

import numpy as np
import pytest
import vision_oracle

import livegrad as lg
from livegrad.vision import models, ops

torchvision = vision_oracle.torchvision()
torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def boxes(count):
    corner = RNG.random((count, 2)) * 20
    return np.concatenate([corner, corner + 0.5 + RNG.random((count, 2)) * 9], 1).astype(np.float32)


A, B = boxes(7), boxes(5)
PAIRS = ["box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"]


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name):
    found = getattr(ops, name)(lg.tensor(A), lg.tensor(B))
    expected = getattr(torchvision.ops, name)(torch.tensor(A), torch.tensor(B))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [f"{x}_loss" for x in PAIRS[1:]])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(name, reduction):
    ours = [lg.tensor(x, requires_grad=True) for x in (A[:5], B)]
    theirs = [torch.tensor(x, requires_grad=True) for x in (A[:5], B)]
    found = getattr(ops, name)(*ours, reduction=reduction)
    expected = getattr(torchvision.ops, name)(*theirs, reduction=reduction)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-4)
    found.sum().backward()
    expected.sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("args", [(), (0.5, 1.0), (-1, 3)])
def test_focal_loss(args):
    x, y = RNG.standard_normal((4, 5)), (RNG.random((4, 5)) > 0.5).astype(float)
    found = ops.sigmoid_focal_loss(lg.tensor(x), lg.tensor(y), *args)
    expected = torchvision.ops.sigmoid_focal_loss(torch.tensor(x), torch.tensor(y), *args)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)


def nms(boxes, scores, threshold):
    """The plain algorithm, for what torchvision has in C++."""
    order, kept = torch.argsort(scores, descending=True, stable=True).tolist(), []
    while order:
        best, *rest = order
        kept.append(best)
        iou = torchvision.ops.box_iou(boxes[best : best + 1], boxes[rest])[0].tolist()
        order = [i for i, overlap in zip(rest, iou, strict=True) if not overlap > threshold]
    return torch.tensor(kept, dtype=torch.int64)


@pytest.fixture
def with_nms(monkeypatch):
    module = vision_oracle.submodule("torchvision.ops.boxes")
    monkeypatch.setattr(module, "nms", nms)


TARGETS = [
    {"boxes": np.array([[5.0, 6, 40, 50], [20, 10, 80, 60]]), "labels": np.array([1, 3])},
    {"boxes": np.array([[10.0, 6, 60, 90]]), "labels": np.array([5])},
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssd300_vgg16", "retinanet_resnet50_fpn"])
def test_detectors(name, with_nms):
    torch.manual_seed(0)
    options = {"num_classes": 7}
    if name.startswith("retina"):
        options |= {"min_size": 96, "max_size": 128}
    build = torchvision.models.get_model_builder(name)
    their = build(weights=None, weights_backbone=None, **options)
    for key, value in their.state_dict().items():
        if "cls_logits" in key:  # else no score is above the threshold
            value.normal_(-1 if "bias" in key else 0, 0.05)
    their = their.double()
    our = models.get_model(name, **options).double()
    our.load_state_dict({k: lg.tensor(v.numpy()) for k, v in their.state_dict().items()})
    images = [RNG.random((3, 70, 90)), RNG.random((3, 100, 64))]
    with torch.no_grad():
        expected = their.eval()([torch.tensor(x) for x in images])
    with lg.no_grad():
        found = our.eval()([lg.tensor(x) for x in images])
    for a, b in zip(found, expected, strict=True):
        assert a["labels"].tolist() == b["labels"].tolist()
        assert len(a["labels"]) > 100
        for key in ("boxes", "scores"):
            np.testing.assert_allclose(a[key].numpy(), b[key].numpy(), rtol=1e-7, atol=1e-7)
    for net in (our.train(), their.train()):
        for layer in net.modules():
            if "BatchNorm" in type(layer).__name__:
                layer.eval()
    loss = our(
        [lg.tensor(x) for x in images],
        [{k: lg.tensor(v) for k, v in target.items()} for target in TARGETS],
    )
    wanted = their(
        [torch.tensor(x) for x in images],
        [{k: torch.tensor(v) for k, v in target.items()} for target in TARGETS],
    )
    assert {k: v.item() for k, v in loss.items()} == pytest.approx(
        {k: v.item() for k, v in wanted.items()}, rel=1e-7
    )
