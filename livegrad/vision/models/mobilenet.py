"""All MobileNets."""

from __future__ import annotations

from livegrad.vision.models.mobilenetv2 import (
    MobileNetV2 as MobileNetV2,
    mobilenet_v2 as mobilenet_v2,
)
from livegrad.vision.models.mobilenetv3 import (
    MobileNetV3 as MobileNetV3,
    mobilenet_v3_large as mobilenet_v3_large,
    mobilenet_v3_small as mobilenet_v3_small,
)
