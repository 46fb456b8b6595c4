"""Attributions as pictures."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.attr import visualize_image_attr
from livegrad.attr.pictures import METHODS, SIGNS, image_of, normalized


def test_values_from_0_to_1() -> None:
    attr = np.array([[[1.0], [-2.0]], [[4.0], [0.0]]])
    assert normalized(attr, "positive", 0).tolist() == [[0.25, 0], [1, 0]]
    assert normalized(attr, "negative", 0).tolist() == [[0, 1], [0, 0]]
    assert normalized(attr, "absolute_value", 0).tolist() == [[0.25, 0.5], [1, 0]]
    assert normalized(attr, "all", 0).tolist() == [[0.25, -0.5], [1, 0]]
    assert normalized(attr, "positive", 90).tolist() == [[1, 0], [1, 0]]
    assert normalized(attr * 0, "positive", 2).max() == 0
    with pytest.raises(ValueError, match="sign 'both'"):
        normalized(attr, "both", 0)


def test_tensors_have_channels_first() -> None:
    assert image_of(lg.zeros(1, 3, 4, 5)).shape == image_of(lg.zeros(3, 4, 5)).shape == (4, 5, 3)
    assert image_of(lg.zeros(4, 5)).shape == (4, 5, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sign", SIGNS)
def test_drawing(method: str, sign: str) -> None:
    pytest.importorskip("matplotlib")
    attr, image = np.random.default_rng(0).normal(size=(4, 5, 3)), np.ones((4, 5, 3))
    draw = lambda: visualize_image_attr(
        attr, image, method, sign, show_colorbar=True, title="what", use_pyplot=False
    )
    if sign == "all" and method in ("masked_image", "alpha_scaling"):
        with pytest.raises(ValueError, match="both signs"):
            draw()
        return
    figure, axis = draw()
    assert axis.get_title() == "what"
    assert axis.images
    figure.canvas.draw()


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="original_image is missing"):
        visualize_image_attr(np.ones((2, 2, 1)), method="masked_image")
    with pytest.raises(ValueError, match="method 'dots'"):
        visualize_image_attr(np.ones((2, 2, 1)), method="dots")
