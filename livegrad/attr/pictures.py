"""Attributions of an image as a picture; needs matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad import Tensor

Array = np.ndarray[Any, Any]
METHODS = ("heat_map", "blended_heat_map", "original_image", "masked_image", "alpha_scaling")
SIGNS = ("positive", "absolute_value", "negative", "all")
COLOURS = {"all": "RdYlGn", "positive": "Greens", "negative": "Reds", "absolute_value": "Blues"}


def image_of(x: Any) -> Array:
    """(height, width, channels): an array of that shape, or a tensor with channels first."""
    if not isinstance(x, Tensor):
        return np.asarray(x)
    array: Array = x.detach().squeeze(0).numpy() if x.ndim == 4 else x.detach().numpy()
    return array.transpose(1, 2, 0) if array.ndim == 3 else array[..., None]


def normalized(attr: Array, sign: str, outlier_perc: float) -> Array:
    """Attributions of places, from -1 or 0 to 1; the largest `outlier_perc` of them all count 1."""
    if sign not in SIGNS:
        raise ValueError(f"sign {sign!r} is not one of {', '.join(SIGNS)}")
    total = attr.sum(2)
    signed = {"positive": total * (total > 0), "negative": -total * (total < 0)}
    shown = signed.get(sign, np.abs(total))
    scale = _threshold(shown, outlier_perc)
    scaled: Array = np.clip((total if sign == "all" else shown) / scale, -1, 1)
    return scaled


def _threshold(values: Array, outlier_perc: float) -> float:
    """The value above which lie `outlier_perc` percent of the sum."""
    if not 0 <= outlier_perc <= 100:
        raise ValueError(f"outlier_perc is a percentage, not {outlier_perc}")
    ordered = np.sort(values.ravel())
    sums = np.cumsum(ordered)
    place = np.searchsorted(sums, sums[-1] * (100 - outlier_perc) / 100)
    return float(ordered[min(int(place), ordered.size - 1)]) or 1.0


def visualize_image_attr(
    attr: Any,
    original_image: Any = None,
    method: str = "heat_map",
    sign: str = "absolute_value",
    plt_fig_axis: tuple[Any, Any] | None = None,
    outlier_perc: float = 2,
    cmap: Any = None,
    alpha_overlay: float = 0.5,
    show_colorbar: bool = False,
    title: str | None = None,
    fig_size: tuple[int, int] = (6, 6),
    use_pyplot: bool = True,
) -> tuple[Any, Any]:
    """Draws attributions of an image: matplotlib's figure and axis.

    Images and attributions are arrays (height, width, channels), or tensors with channels first.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    if original_image is None and method != "heat_map":
        raise ValueError(f"method {method!r} shows the image, too: original_image is missing")
    figure, axis = plt_fig_axis or _figure(fig_size, use_pyplot)
    image = None if original_image is None else _shown(image_of(original_image))
    drawn = None
    if method == "original_image":
        axis.imshow(image, cmap="gray" if image is not None and image.ndim == 2 else None)
    else:
        values = normalized(image_of(attr), sign, outlier_perc)
        drawn = _draw(axis, method, sign, values, image, cmap or COLOURS[sign], alpha_overlay)
    axis.set_axis_off()
    if title:
        axis.set_title(title)
    if show_colorbar and drawn is not None:
        figure.colorbar(drawn, ax=axis, orientation="horizontal", pad=0.02)
    return figure, axis


def _draw(
    axis: Any, method: str, sign: str, values: Array, image: Any, cmap: Any, alpha: float
) -> Any:
    lowest = -1 if sign == "all" else 0
    if method == "heat_map":
        return axis.imshow(values, cmap=cmap, vmin=lowest, vmax=1)
    if method == "blended_heat_map":
        axis.imshow(image if image.ndim == 2 else image.mean(2), cmap="gray")
        return axis.imshow(values, cmap=cmap, vmin=lowest, vmax=1, alpha=alpha)
    if sign == "all":
        raise ValueError(f"method {method!r} cannot show both signs: choose one")
    if method == "masked_image":
        masked = image * (values if image.ndim == 2 else values[..., None])
        axis.imshow(np.clip(masked, 0, 1), cmap="gray")
    else:
        colours = np.repeat(image[..., None], 3, 2) if image.ndim == 2 else image
        axis.imshow(np.concatenate([colours, values[..., None]], 2))
    return None


def _shown(image: Array) -> Array:
    """Values from 0 to 1; one channel as none."""
    values = image.astype(float)
    if values.max(initial=0) > 1:
        values = values / 255
    return values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _figure(size: tuple[int, int], use_pyplot: bool) -> tuple[Any, Any]:
    try:
        from matplotlib import pyplot
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from None
    if use_pyplot:
        figure, axis = pyplot.subplots(figsize=size)
        return figure, axis
    figure = Figure(figsize=size)
    return figure, figure.subplots()
