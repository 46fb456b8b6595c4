"""Transforms of images: Pillow's, tensors, and batches of tensors.

They are those of `transforms.v2`, which also take samples with masks and boxes.
"""

from __future__ import annotations

from livegrad.vision.transforms import functional as functional, v2 as v2
from livegrad.vision.transforms.autoaugment import (
    AugMix as AugMix,
    AutoAugment as AutoAugment,
    AutoAugmentPolicy as AutoAugmentPolicy,
    RandAugment as RandAugment,
    TrivialAugmentWide as TrivialAugmentWide,
)
from livegrad.vision.transforms.color import (
    ColorJitter as ColorJitter,
    GaussianBlur as GaussianBlur,
    Grayscale as Grayscale,
    LinearTransformation as LinearTransformation,
    Normalize as Normalize,
    RandomAdjustSharpness as RandomAdjustSharpness,
    RandomAutocontrast as RandomAutocontrast,
    RandomEqualize as RandomEqualize,
    RandomErasing as RandomErasing,
    RandomGrayscale as RandomGrayscale,
    RandomInvert as RandomInvert,
    RandomPosterize as RandomPosterize,
    RandomSolarize as RandomSolarize,
)
from livegrad.vision.transforms.containers import (
    Compose as Compose,
    RandomApply as RandomApply,
    RandomChoice as RandomChoice,
    RandomOrder as RandomOrder,
)
from livegrad.vision.transforms.geometry import (
    CenterCrop as CenterCrop,
    ElasticTransform as ElasticTransform,
    FiveCrop as FiveCrop,
    Pad as Pad,
    RandomAffine as RandomAffine,
    RandomCrop as RandomCrop,
    RandomHorizontalFlip as RandomHorizontalFlip,
    RandomPerspective as RandomPerspective,
    RandomResizedCrop as RandomResizedCrop,
    RandomRotation as RandomRotation,
    RandomVerticalFlip as RandomVerticalFlip,
    Resize as Resize,
    TenCrop as TenCrop,
)
from livegrad.vision.transforms.kinds import (
    ConvertImageDtype as ConvertImageDtype,
    Lambda as Lambda,
    PILToTensor as PILToTensor,
    ToPILImage as ToPILImage,
    ToTensor as ToTensor,
)
from livegrad.vision.transforms.modes import (
    InterpolationMode as InterpolationMode,
)
