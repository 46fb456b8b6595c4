"""Grids, drawings, and pictures in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import livegrad as lg
from livegrad.vision import io, utils

pytest.importorskip("PIL")


def test_a_grid() -> None:
    x = lg.arange(5, dtype=lg.float32).reshape(5, 1, 1, 1).expand(5, 1, 2, 3)
    grid = utils.make_grid(x, nrow=2, padding=1, pad_value=9.0)
    assert grid.shape == (3, 10, 9)
    assert grid[0, 1:3, 1:4].unique().tolist() == [0.0]
    assert grid[2, 7:9, 1:4].unique().tolist() == [4.0]
    assert grid[0, 0].unique().tolist() == [9.0]
    scaled = utils.make_grid(x, normalize=True)
    assert (scaled.min().item(), scaled.max().item()) == (0.0, 1.0)
    clipped = utils.make_grid(x, normalize=True, value_range=(1, 3), padding=0)
    assert clipped[0, 0, ::3].tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert utils.make_grid(lg.ones(4, 5)).shape == (3, 4, 5)
    with pytest.raises(TypeError, match="list of tensors expected"):
        utils.make_grid([1, 2])  # type: ignore[list-item]


def test_images_in_files(tmp_path: Path) -> None:
    x = lg.tensor(np.random.default_rng(0).integers(0, 256, (3, 5, 7), dtype=np.uint8))
    utils.save_image(x.float() / 255, tmp_path / "a.png")
    assert (io.read_image(tmp_path / "a.png") == x).all()
    io.write_png(x, tmp_path / "b.png")
    assert (io.read_image(str(tmp_path / "b.png"), "RGB") == x).all()
    assert io.read_image(tmp_path / "b.png", io.ImageReadMode.GRAY).shape == (1, 5, 7)
    assert (io.decode_png(io.encode_png(x)) == x).all()
    assert (io.decode_image(io.read_file(tmp_path / "b.png")) == x).all()
    io.write_jpeg(x, tmp_path / "c.jpg", quality=95)
    assert io.read_image(tmp_path / "c.jpg").shape == (3, 5, 7)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png", "c.jpg"]
    (tmp_path / "bad.png").write_bytes(b"nothing")
    with pytest.raises(RuntimeError, match="no picture"):
        io.read_image(tmp_path / "bad.png")
    with pytest.raises(RuntimeError, match="No such file"):
        io.read_image(tmp_path / "none.png")
    with pytest.raises(RuntimeError, match="dtype should be uint8"):
        io.encode_png(x.float())


def test_drawn_boxes() -> None:
    image = lg.zeros(3, 20, 30, dtype=lg.uint8)
    boxes = lg.tensor([[2, 3, 10, 12], [12, 4, 25, 15]])
    found = utils.draw_bounding_boxes(image, boxes, ["a", None], ["red", (0, 255, 0)])
    assert found[:, 3, 2].tolist() == [255, 0, 0]
    assert found[:, 15, 20].tolist() == [0, 255, 0]
    assert found[:, 10, 20].tolist() == [0, 0, 0]
    filled = utils.draw_bounding_boxes(image.float(), boxes, colors="blue", fill=True)
    assert filled.dtype == lg.float32
    assert 0 < filled[2, 10, 20].item() < 1
    assert utils.draw_bounding_boxes(image, lg.zeros(0, 4)) is image
    with pytest.raises(ValueError, match="mismatch"):
        utils.draw_bounding_boxes(image, boxes, ["a"])
    with pytest.raises(ValueError, match="not batches"):
        utils.draw_bounding_boxes(image[None], boxes)


def test_drawn_masks_and_keypoints() -> None:
    image = lg.full((3, 8, 8), 100, dtype=lg.uint8)
    mask = lg.zeros(8, 8, dtype=lg.bool)
    mask[2:4, 2:4] = True
    found = utils.draw_segmentation_masks(image, mask, alpha=0.5, colors="red")
    assert found[:, 2, 2].tolist() == [177, 50, 50]
    assert found[:, 0, 0].tolist() == [100, 100, 100]
    with pytest.raises(ValueError, match="dtype bool"):
        utils.draw_segmentation_masks(image, mask.float())
    points = lg.tensor([[[1, 1], [6, 6]]])
    drawn = utils.draw_keypoints(image, points, [(0, 1)], "blue", radius=1, width=1)
    assert drawn[:, 1, 1].tolist() != [100, 100, 100]
    assert drawn[:, 3, 3].tolist() == [255, 255, 255]
    hidden = utils.draw_keypoints(image, points, visibility=lg.zeros(1, 2))
    assert (hidden == image).all()
