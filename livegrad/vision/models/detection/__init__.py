"""Networks that find objects."""

from __future__ import annotations

from livegrad.vision.models.detection.anchor_utils import (
    AnchorGenerator as AnchorGenerator,
    DefaultBoxGenerator as DefaultBoxGenerator,
)
from livegrad.vision.models.detection.retinanet import (
    RetinaNet as RetinaNet,
    RetinaNetHead as RetinaNetHead,
    retinanet_resnet50_fpn as retinanet_resnet50_fpn,
)
from livegrad.vision.models.detection.ssd import (
    SSD as SSD,
    SSDHead as SSDHead,
    ssd300_vgg16 as ssd300_vgg16,
)
