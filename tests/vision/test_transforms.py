"""Transforms without torchvision: what they mean, samples, randomness, laziness."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.vision import transforms as T, tv_tensors as tv
from livegrad.vision.transforms import draws, functional as F, v2

X = lg.arange(2 * 3 * 4 * 6, dtype=lg.float32).reshape(2, 3, 4, 6) / 144


def test_flips_crops_and_pads() -> None:
    assert F.hflip(X).tolist() == X.flip(-1).tolist()
    assert F.crop(X, 1, 2, 2, 3).tolist() == X[..., 1:3, 2:5].tolist()
    assert F.crop(X, 3, 5, 3, 3)[..., 1:, :].abs().sum().item() == 0
    assert F.pad(X, [1, 2, 3, 4]).shape == (2, 3, 10, 10)
    assert F.pad(X, 1, [0.0, 1.0, 2.0])[0, :, 0, 0].tolist() == [0.0, 1.0, 2.0]
    assert F.pad(X, 1, padding_mode="edge")[0, 0, 0, 0] == X[0, 0, 0, 0]
    assert F.center_crop(X, 2).tolist() == X[..., 1:3, 2:4].tolist()
    assert [x.shape for x in F.five_crop(X, 2)] == [(2, 3, 2, 2)] * 5
    assert len(F.ten_crop(X, (2, 3))) == 10
    with pytest.raises(ValueError, match="bigger than input size"):
        F.five_crop(X, 9)
    with pytest.raises(ValueError, match="1, 2, or 4 element"):
        F.pad(X, [1, 2, 3])


@pytest.mark.parametrize(
    ("size", "limit", "expected"),
    [(8, None, (8, 12)), ([8], None, (8, 12)), ((5, 7), None, (5, 7)), (8, 10, (6, 10))],
)
def test_sizes(size: object, limit: int | None, expected: tuple[int, int]) -> None:
    assert tuple(F.resize(X, size, max_size=limit).shape[-2:]) == expected


def test_a_batch_is_one_transform_of_every_image() -> None:
    turned = F.rotate(X, 30.0, F.InterpolationMode.BILINEAR)
    each = lg.stack([F.rotate(x, 30.0, F.InterpolationMode.BILINEAR) for x in X])
    assert (turned == each).all()


def test_a_pipeline_of_tensors_stays_pending() -> None:
    pipeline = T.Compose(
        [
            T.RandomHorizontalFlip(),
            T.RandomCrop(4, padding=1),
            T.ColorJitter(0.2, 0.2, 0.2),
            T.Normalize([0.5] * 3, [0.5] * 3),
        ]
    )
    batch = lg.ones(8, 3, 4, 4)
    batch.sum().item()
    before = lg.stats().flushes
    found = pipeline(batch)
    assert lg.stats().flushes == before
    assert found.shape == (8, 3, 4, 4)


def test_seeds_repeat_what_is_drawn() -> None:
    lg.manual_seed(3)
    first = [draws.uniform() for _ in range(3)] + [draws.integer(0, 9)]
    lg.manual_seed(3)
    assert first == [draws.uniform() for _ in range(3)] + [draws.integer(0, 9)]
    assert len(set(first)) == 4
    counts = [draws.chance(0.25) for _ in range(2000)]
    assert 0.2 < np.mean(counts) < 0.3


def test_random_transforms_are_sometimes_nothing() -> None:
    flip = T.RandomHorizontalFlip(0.5)
    lg.manual_seed(0)
    found = {tuple(flip(X)[0, 0, 0].tolist()) for _ in range(30)}
    assert len(found) == 2
    assert T.RandomApply([T.RandomHorizontalFlip(1.0)], p=0.0)(X) is X


def sample() -> dict[str, object]:
    boxes = tv.BoundingBoxes([[1.0, 1, 3, 2]], format="XYXY", canvas_size=(4, 6))
    mask = lg.zeros(1, 4, 6)
    mask[0, 1:2, 1:3] = 1
    return {"image": tv.Image(X[0]), "boxes": boxes, "masks": tv.Mask(mask), "label": 3}


def test_boxes_and_masks_follow_the_image() -> None:
    found = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((8, 12))])(sample())
    assert found["boxes"].tolist() == [[6.0, 2.0, 10.0, 4.0]]
    assert found["boxes"].canvas_size == (8, 12)
    rows, columns = found["masks"][0].nonzero().unbind(1)
    assert [rows.min().item(), rows.max().item()] == [2, 3]
    assert [columns.min().item(), columns.max().item()] == [6, 9]
    assert found["label"] == 3
    assert isinstance(found["image"], tv.Image)
    assert isinstance(found["masks"], tv.Mask)


def test_plain_tensors_are_images_only_if_nothing_else_is() -> None:
    flip = v2.RandomHorizontalFlip(1.0)
    image, other = flip(X[0], X[1])
    assert image.tolist() == X[0].flip(-1).tolist()
    assert other is X[1] or other.tolist() == X[1].tolist()
    image, other = flip(tv.Image(X[0]), X[1])
    assert other.tolist() == X[1].tolist()


def test_classes_are_kept_by_copies_only() -> None:
    boxes = sample()["boxes"]
    assert isinstance(boxes, tv.BoundingBoxes)
    for same in (boxes.clone(), boxes.to(lg.float64), boxes.detach()):
        assert isinstance(same, tv.BoundingBoxes)
        assert same.canvas_size == (4, 6)
    assert type(boxes + 1) is lg.Tensor
    converted = F.convert_bounding_box_format(boxes, "CXCYWH")
    assert converted.tolist() == [[2.0, 1.5, 2.0, 1.0]]
    with pytest.raises(KeyError):
        tv.BoundingBoxes([[0, 0, 1, 1]], format="ABCD", canvas_size=(1, 1))


def test_sanitized_boxes_take_labels_and_masks_along() -> None:
    values = [[0.0, 0, 3, 3], [1, 1, 1.2, 4]]
    boxes = tv.BoundingBoxes(values, format="XYXY", canvas_size=(4, 6))
    masks = tv.Mask(lg.zeros(2, 4, 6))
    target = {"boxes": boxes, "labels": lg.tensor([7, 8]), "masks": masks}
    _, found = v2.SanitizeBoundingBoxes()(tv.Image(X[0]), target)
    assert found["boxes"].tolist() == [[0.0, 0.0, 3.0, 3.0]]
    assert found["labels"].tolist() == [7]
    assert len(found["masks"]) == 1


@pytest.mark.parametrize("mix", [v2.MixUp, v2.CutMix])
def test_mixing(mix: type) -> None:
    labels = lg.tensor([0, 2])
    images, shares = mix(num_classes=3)(X, labels)
    assert images.shape == X.shape
    np.testing.assert_allclose(shares.sum(1).numpy(), [1.0, 1.0], rtol=1e-6)
    part = shares[0, 0].item()
    if mix is v2.MixUp:
        expected = part * X[0] + (1 - part) * X[1]
        np.testing.assert_allclose(images[0].numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="num_classes"):
        mix()(X, labels)
    assert mix(num_classes=3)({"image": X, "labels": labels})["labels"].shape == (2, 3)


@pytest.mark.parametrize(
    "transform",
    [
        T.AutoAugment(), T.AutoAugment(T.AutoAugmentPolicy.SVHN, fill=3), T.RandAugment(3),
        T.TrivialAugmentWide(fill=[1, 2, 3]), T.AugMix(), T.RandomPerspective(p=1.0),
        T.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5), T.ElasticTransform(sigma=1.0),
        T.GaussianBlur(3), T.RandomErasing(1.0, value="random"),
        T.RandomOrder([T.RandomInvert(1.0)]),
        T.RandomChoice([T.RandomAutocontrast(), T.RandomEqualize()]), T.RandomGrayscale(1.0),
        v2.RandomPhotometricDistort(p=1.0), T.RandomPosterize(3, 1.0), T.RandomSolarize(9, 1.0),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_augmentations_keep_shape_and_dtype(transform: T.Compose) -> None:
    lg.manual_seed(0)
    image = (lg.rand(3, 16, 20) * 255).to(lg.uint8)
    for _ in range(4):
        found = transform(image)
        assert (found.shape, found.dtype) == (image.shape, image.dtype)


def test_errors_are_torchvisions() -> None:
    with pytest.raises(TypeError, match="should be a float tensor"):
        F.normalize(X.to(lg.uint8), [0.5], [0.5])
    with pytest.raises(ValueError, match="std evaluated to zero"):
        F.normalize(X, [0.5], [0.0])
    with pytest.raises(ValueError, match="larger than input image size"):
        T.RandomCrop(9)(X)
    with pytest.raises(TypeError, match="Unexpected type"):
        F.hflip([1, 2])
    with pytest.raises(ValueError, match="odd and positive"):
        F.gaussian_blur(X, 4)
    with pytest.raises(TypeError, match="InterpolationMode or a corresponding Pillow"):
        T.Resize(3, interpolation="bilinear")
    with pytest.raises(ValueError, match="should be between"):
        T.ColorJitter(hue=0.7)
    with pytest.raises(TypeError, match="should be PIL Image or ndarray"):
        T.ToTensor()(X)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (0, 5, 3), (90, 70, 3)])
@pytest.mark.parametrize("default", [lg.float32, lg.float64, lg.bfloat16])
def test_bytes_small_and_large_have_the_same_floats(
    shape: tuple[int, ...], default: object
) -> None:
    bytes_ = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    lg.set_default_dtype(default)
    try:
        found = T.ToTensor()(bytes_[::-1])
    finally:
        lg.set_default_dtype(lg.float32)
    want = lg.tensor(np.atleast_3d(bytes_[::-1]).copy()).permute(2, 0, 1).to(default) / 255
    assert found.dtype == default
    assert found.is_contiguous()
    assert lg.equal(found, want)


def test_pillow_there_and_back() -> None:
    image = pytest.importorskip("PIL.Image")
    bytes_ = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    picture = image.fromarray(bytes_)
    found = T.ToTensor()(picture)
    assert found.dtype == lg.float32
    np.testing.assert_allclose(found.numpy(), bytes_.transpose(2, 0, 1) / 255.0, rtol=1e-6)
    assert T.ToPILImage()(found).tobytes() == picture.tobytes()
    assert T.PILToTensor()(picture).dtype == lg.uint8
    assert T.Compose([T.Resize(3), T.CenterCrop(2), T.ToTensor()])(picture).shape == (3, 2, 2)
    assert isinstance(v2.ToImage()(picture), tv.Image)
    assert v2.ToDtype(lg.float32, scale=True)(v2.ToImage()(picture)).max().item() <= 1
