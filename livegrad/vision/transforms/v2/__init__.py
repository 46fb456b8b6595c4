"""Transforms of samples: images, masks and boxes together, in any nesting of tuples and dicts."""

from __future__ import annotations

from livegrad.vision.transforms.autoaugment import (
    AugMix as AugMix,
    AutoAugment as AutoAugment,
    AutoAugmentPolicy as AutoAugmentPolicy,
    RandAugment as RandAugment,
    TrivialAugmentWide as TrivialAugmentWide,
)
from livegrad.vision.transforms.base import (
    Transform as Transform,
)
from livegrad.vision.transforms.cleaning import (
    SanitizeBoundingBoxes as SanitizeBoundingBoxes,
)
from livegrad.vision.transforms.color import (
    RGB as RGB,
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
    RandomPhotometricDistort as RandomPhotometricDistort,
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
    ScaleJitter as ScaleJitter,
    TenCrop as TenCrop,
)
from livegrad.vision.transforms.kinds import (
    ClampBoundingBoxes as ClampBoundingBoxes,
    ConvertBoundingBoxFormat as ConvertBoundingBoxFormat,
    ConvertImageDtype as ConvertImageDtype,
    Lambda as Lambda,
    PILToTensor as PILToTensor,
    ToDtype as ToDtype,
    ToImage as ToImage,
    ToPILImage as ToPILImage,
    ToPureTensor as ToPureTensor,
    ToTensor as ToTensor,
)
from livegrad.vision.transforms.mixing import (
    CutMix as CutMix,
    MixUp as MixUp,
)
from livegrad.vision.transforms.modes import (
    InterpolationMode as InterpolationMode,
)
from livegrad.vision.transforms.v2 import functional as functional
