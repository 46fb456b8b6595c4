"""Transforms against torchvision's: the same tensors, and the same bytes of Pillow's images."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import vision_oracle

import livegrad as lg
from livegrad.vision import transforms as ours, tv_tensors
from livegrad.vision.transforms import autoaugment, functional as F, v2

torchvision = vision_oracle.torchvision()
torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
theirs = torchvision.transforms
TF = theirs.functional
TV2 = vision_oracle.submodule("torchvision.transforms.v2")

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (3, 17, 23), dtype=np.uint8)
FLOATS = RNG.random((2, 3, 17, 23)).astype(np.float32)
GREY = RNG.integers(0, 256, (1, 12, 9), dtype=np.uint8)
MODES = ("NEAREST", "BILINEAR", "BICUBIC")


def calls():
    """name, arguments; a mode is given by its name."""
    yield from [("hflip",), ("vflip",), ("invert",), ("autocontrast",), ("equalize",)]
    yield from [("crop", 2, 3, 10, 11), ("crop", -2, 5, 30, 9), ("crop", 12, 18, 10, 10)]
    yield from [("center_crop", 8), ("center_crop", [9, 30]), ("center_crop", [30, 31])]
    for factor in (0.0, 0.3, 1.0, 1.7):
        for name in ("brightness", "contrast", "saturation", "sharpness"):
            yield f"adjust_{name}", factor
    yield from [("adjust_hue", 0.2), ("adjust_hue", -0.5), ("adjust_gamma", 2.2, 0.9)]
    yield from [("rgb_to_grayscale",), ("rgb_to_grayscale", 3), ("posterize", 3), ("solarize", 90)]
    for mode in ("constant", "edge", "reflect", "symmetric"):
        yield "pad", [1, 2, 3, 4], 0, mode
    yield from [("pad", 3, 7), ("pad", [2, 3])]
    for mode in MODES:
        yield "resize", 8, mode
        yield "resize", [30, 11], mode
    yield "resize", 12, "BILINEAR", 15
    yield "resized_crop", 1, 2, 9, 12, [8, 8], "BILINEAR"
    yield from [("gaussian_blur", [3, 5]), ("gaussian_blur", 5, 0.7)]
    for mode in ("NEAREST", "BILINEAR"):
        for fill in (None, 5.0, [1.0, 2.0, 3.0]):
            yield "rotate", 33.0, mode, False, None, fill
            yield "rotate", -80.0, mode, True, None, fill
            yield "affine", 20.0, [2, -3], 1.2, [5.0, -4.0], mode, fill
            yield "perspective", CORNERS[0], CORNERS[1], mode, fill
    yield "rotate", 12.0, "BILINEAR", False, [3, 4]
    yield "affine", -15.0, [0, 0], 0.7, [0.0, 0.0], "NEAREST", None, [2, 3]


CORNERS = [[0, 0], [22, 0], [22, 16], [0, 16]], [[2, 1], [20, 3], [21, 14], [3, 16]]
CALLS = list(calls())


def with_modes(args, modes):
    return [getattr(modes, x) if isinstance(x, str) and x in MODES else x for x in args]


def both(call, our, their):
    name, *args = call
    found = getattr(F, name)(our, *with_modes(args, F.InterpolationMode))
    return found, getattr(TF, name)(their, *with_modes(args, theirs.InterpolationMode))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_tensors(call):
    name = call[0]
    # Rounding decides which of two pixels is nearest, or which of two integers is nearer.
    for array in (BYTES, FLOATS):
        if array.dtype != np.uint8 and name in ("equalize", "posterize"):
            continue
        if array.dtype != np.uint8 and name == "solarize":
            call = ("solarize", 0.4)
        found, expected = both(call, lg.tensor(array), torch.tensor(array))
        assert found.dtype == getattr(lg, str(expected.dtype).split(".")[1])
        a, b = found.numpy(), expected.numpy()
        assert a.shape == b.shape
        if array.dtype == np.uint8:
            away = np.abs(a.astype(int) - b.astype(int))
            assert (away > 0).mean() <= 0.01, f"{(away > 0).sum()} of {away.size} differ"
            assert "NEAREST" in call or away.max() <= 1
        else:
            wrong = np.abs(a - b) > 2e-5
            assert wrong.mean() <= (0.01 if "NEAREST" in call else 0), np.abs(a - b).max()


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pillow(call, mode):
    image = Image.fromarray(BYTES.transpose(1, 2, 0)).convert(mode)
    if mode == "L" and any(isinstance(x, list) and len(x) == 3 for x in call):
        call = tuple(7.0 if isinstance(x, list) and len(x) == 3 else x for x in call)
    found, expected = both(call, image, image)
    assert (found.mode, found.size) == (expected.mode, expected.size)
    if call[0] == "gaussian_blur":  # by tensors
        away = np.asarray(found).astype(int) - np.asarray(expected)
        assert np.abs(away).max() <= 1
    else:
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["to_tensor", "pil_to_tensor"])
@pytest.mark.parametrize("mode", ["RGB", "L", "1", "I", "F", "LA", "RGBA"])
def test_from_pillow(name, mode):
    image = Image.fromarray(BYTES.transpose(1, 2, 0)).convert(mode)
    found, expected = getattr(F, name)(image), getattr(TF, name)(image)
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("array", [BYTES, FLOATS[0], GREY, GREY[0]], ids=str)
def test_to_pillow(array):
    found, expected = F.to_pil_image(lg.tensor(array)), TF.to_pil_image(torch.tensor(array))
    assert (found.mode, found.tobytes()) == (expected.mode, expected.tobytes())
    if array.ndim == 3:
        turned = np.ascontiguousarray(array.transpose(1, 2, 0))
        if turned.dtype == np.uint8:
            assert F.to_pil_image(turned).tobytes() == TF.to_pil_image(turned).tobytes()


@pytest.mark.parametrize("source", ["uint8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("target", ["uint8", "int16", "int32", "int64", "float32", "float64"])
def test_dtypes(source, target):
    values = FLOATS if "float" in source else RNG.integers(0, np.iinfo(source).max, (3, 4, 5))
    array = values.astype(source)
    try:
        expected = TF.convert_image_dtype(torch.tensor(array), getattr(torch, target))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="cannot be performed safely"):
            F.convert_image_dtype(lg.tensor(array), getattr(lg, target))
        return
    found = F.convert_image_dtype(lg.tensor(array), getattr(lg, target))
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_policies():
    for name in ("IMAGENET", "CIFAR10", "SVHN"):
        their = theirs.AutoAugment(theirs.AutoAugmentPolicy[name]).policies
        assert autoaugment.policy(autoaugment.AutoAugmentPolicy[name]) == their


NAMES = [n for n in dir(ours) if inspect.isclass(getattr(ours, n)) and hasattr(theirs, n)]


def test_all_transforms_are_there():
    missing = {n for n in theirs.transforms.__all__ if not hasattr(ours, n)}
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
    """Torchvision's names, in its order, with its defaults."""
    if name in ("AutoAugmentPolicy", "InterpolationMode"):
        assert [x.value for x in getattr(ours, name)] == [x.value for x in getattr(theirs, name)]
        return
    mine, other = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
    for own, their in zip(mine.values(), other.values(), strict=False):
        assert own.name == their.name
        value = getattr(their.default, "value", their.default)
        if name != "ConvertImageDtype":
            assert getattr(own.default, "value", own.default) == value


PRINTED = [
    "Resize(256)", "CenterCrop(10)", "RandomCrop(32, padding=4)", "RandomHorizontalFlip()",
    "ToTensor()", "PILToTensor()", "ConvertImageDtype()", "ToPILImage()", "ToPILImage('RGB')",
    "ColorJitter(0.1, (0.5, 1.2), 0, 0.1)", "Grayscale()", "RandomGrayscale()", "Pad(3, 1)",
    "GaussianBlur(3)", "RandomErasing()", "RandomPerspective()", "RandomInvert(0.2)",
    "RandomPosterize(3)", "RandomSolarize(3.0)", "TenCrop(3)", "FiveCrop((2, 3))",
    "RandAugment()", "TrivialAugmentWide()", "AugMix()", "RandomAdjustSharpness(2)",
]  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_printed(text):
    if text == "ConvertImageDtype()":
        text = "ConvertImageDtype(None)"
    mine, other = eval(f"m.{text}", {"m": ours}), eval(f"m.{text}", {"m": theirs})
    got, want = repr(mine), repr(other)
    if text.startswith(("Rand", "Trivial", "AugMix")):  # modes print as their class here and there
        want = want.replace("InterpolationMode.NEAREST", "nearest")
        want = want.replace("InterpolationMode.BILINEAR", "bilinear")
    assert got == want


def boxes_of(module, tensors, format, floats):
    values = [[2, 3, 9, 8], [0, 0, 23, 17], [10, 4, 5, 12]]
    if format == "XYXY":
        values[2] = [10, 4, 15, 16]
    data = module.tensor(values, dtype=module.float32 if floats else module.int64)
    return tensors.BoundingBoxes(data, format=format, canvas_size=(17, 23))


MOVES = [("horizontal_flip",), ("vertical_flip",), ("resize", [30, 40]), ("crop", 2, 3, 10, 11)]
MOVES += [
    ("pad", [1, 2, 3, 4]),
    ("center_crop", [9, 31]),
]  # theirs move boxes by another half pixel than odd images
MOVES += [("rotate", 30.0), ("rotate", 30.0, "NEAREST", True)]
MOVES += [("affine", 20.0, [2, -3], 1.2, [5.0, -4.0]), ("perspective", *CORNERS)]


@pytest.mark.parametrize("call", MOVES, ids=str)
@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_and_masks(call, format):
    name, *args = call
    own = boxes_of(lg, tv_tensors, format, True)
    their = boxes_of(torch, torchvision.tv_tensors, format, True)
    found = getattr(v2.functional, name)(own, *with_modes(args, F.InterpolationMode))
    expected = getattr(TV2.functional, name)(their, *with_modes(args, theirs.InterpolationMode))
    assert found.canvas_size == tuple(expected.canvas_size)
    assert found.format.value == expected.format.value
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-3)
    mask = (BYTES > 100).astype(np.uint8)
    got = getattr(v2.functional, name)(
        tv_tensors.Mask(lg.tensor(mask)), *with_modes(args, F.InterpolationMode)
    )
    want = getattr(TV2.functional, name)(
        torchvision.tv_tensors.Mask(torch.tensor(mask)), *with_modes(args, theirs.InterpolationMode)
    )
    assert isinstance(got, tv_tensors.Mask)
    assert (got.numpy() != want.numpy()).mean() < 0.01
