"""Boxes, regions of feature maps, and blocks of networks."""

from __future__ import annotations

from livegrad.vision.ops.boxes import (
    batched_nms as batched_nms,
    box_area as box_area,
    box_convert as box_convert,
    box_iou as box_iou,
    clip_boxes_to_image as clip_boxes_to_image,
    complete_box_iou as complete_box_iou,
    complete_box_iou_loss as complete_box_iou_loss,
    distance_box_iou as distance_box_iou,
    distance_box_iou_loss as distance_box_iou_loss,
    generalized_box_iou as generalized_box_iou,
    generalized_box_iou_loss as generalized_box_iou_loss,
    masks_to_boxes as masks_to_boxes,
    nms as nms,
    remove_small_boxes as remove_small_boxes,
)
from livegrad.vision.ops.deform_conv import (
    DeformConv2d as DeformConv2d,
    deform_conv2d as deform_conv2d,
)
from livegrad.vision.ops.feature_pyramid_network import (
    FeaturePyramidNetwork as FeaturePyramidNetwork,
)
from livegrad.vision.ops.focal_loss import sigmoid_focal_loss as sigmoid_focal_loss
from livegrad.vision.ops.misc import (
    MLP as MLP,
    Conv2dNormActivation as Conv2dNormActivation,
    Conv3dNormActivation as Conv3dNormActivation,
    FrozenBatchNorm2d as FrozenBatchNorm2d,
    Permute as Permute,
    SqueezeExcitation as SqueezeExcitation,
)
from livegrad.vision.ops.poolers import MultiScaleRoIAlign as MultiScaleRoIAlign
from livegrad.vision.ops.rois import (
    RoIAlign as RoIAlign,
    RoIPool as RoIPool,
    ps_roi_align as ps_roi_align,
    roi_align as roi_align,
    roi_pool as roi_pool,
)
from livegrad.vision.ops.stochastic_depth import (
    StochasticDepth as StochasticDepth,
    stochastic_depth as stochastic_depth,
)
