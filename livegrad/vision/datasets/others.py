"""Noise for tests, and SVHN."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import livegrad as lg
from livegrad.vision.datasets.vision import Transform, VisionDataset
from livegrad.vision.pictures import pillow
from livegrad.vision.transforms.conversions import to_pil_image


class FakeData(VisionDataset):
    """Random images and labels: the same for the same index."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, ...] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform = None,
        target_transform: Transform = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes = size, image_size, num_classes
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        source = lg.Generator().manual_seed(index + self.random_offset)
        image = lg.randn(*self.image_size, generator=source)
        target = lg.randint(0, self.num_classes, (1,), generator=source)
        return self._both(to_pil_image(image), int(target))

    def __len__(self) -> int:
        return self.size


class SVHN(VisionDataset):
    """House numbers, 32×32: root/train_32x32.mat, test_32x32.mat or extra_32x32.mat."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        if split not in ("train", "test", "extra"):
            raise ValueError(f"Unknown value '{split}' for argument split.")
        self.split = split
        path = Path(self.root) / f"{split}_32x32.mat"
        if not path.exists():
            raise RuntimeError(
                f"Dataset not found: there is no {path}, and livegrad has no source for it; "
                "put the file there"
            )
        from scipy.io import loadmat

        values = loadmat(path)
        self.labels = values["y"].astype(np.int64).squeeze(1)
        self.labels[self.labels == 10] = 0  # the file calls a zero 10
        self.data = np.transpose(values["X"], (3, 2, 0, 1))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        picture = np.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self._both(pillow().fromarray(picture), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Which part it is."""
        return f"Split: {self.split.capitalize()}"
