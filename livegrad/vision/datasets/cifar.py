"""CIFAR-10 and CIFAR-100: images of 32×32 in colour."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from livegrad.datasets import get
from livegrad.vision.datasets.vision import Transform, VisionDataset
from livegrad.vision.pictures import pillow


class _Plain(pickle.Unpickler):
    """Reads dicts, lists, bytes and arrays of numbers, and nothing that runs code."""

    _allowed = frozenset(
        [
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        ]
    )

    def find_class(self, module: str, name: str) -> Any:
        """Parts of arrays; an error for everything else."""
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a data set")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _unpickled(path: Path) -> dict[str, Any]:
    found = _Plain(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    return dict(found)


class CIFAR10(VisionDataset):
    """Animals and vehicles. `data` is an array (N, 32, 32, 3), `targets` a list.

    Files are those of the Python version (root/cifar-10-batches-py) or of the binary one.
    """

    base_folder = "cifar-10-batches-py"
    binary_folder = "cifar-10-batches-bin"
    source: str | None = "cifar10"
    train_list: ClassVar[list[str]] = [f"data_batch_{i}" for i in range(1, 6)]
    test_list: ClassVar[list[str]] = ["test_batch"]
    meta = "batches.meta"
    label_bytes = 1
    _label_key, _names_key = "labels", "label_names"

    def __init__(
        self,
        root: str | os.PathLike[str],
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        directory = self._found()
        if directory is None and download:
            directory = self._fetched()
        if directory is None:
            advice = "You can use download=True to download it" if self.source else "Put it there"
            raise RuntimeError(
                "Dataset not found or corrupted: there is no "
                f"{os.path.join(self.root, self.base_folder)}. {advice}"
            )
        self._read(directory)

    def _found(self) -> Path | None:
        for folder in (self.base_folder, self.binary_folder):
            directory = self.directory / folder
            if all(_batch(directory, name) is not None for name in self._names()):
                return directory
        return None

    def _fetched(self) -> Path:
        if self.source is None:
            raise RuntimeError(
                f"livegrad has no source for {type(self).__name__}: put its directory "
                f"{self.base_folder} into {self.root}"
            )
        return get(self.source)

    def _names(self) -> list[str]:
        return self.train_list if self.train else self.test_list

    def _read(self, directory: Path) -> None:
        images, labels = [], []
        for name in self._names():
            path = _batch(directory, name)
            assert path is not None
            pixels, found = self._batch(path)
            images.append(pixels)
            labels += found
        pixels = np.concatenate(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.data = np.ascontiguousarray(pixels)
        self.targets: list[int] = labels
        self.classes = self._class_names(directory)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _batch(self, path: Path) -> tuple[np.ndarray, list[int]]:
        if path.suffix == ".bin":
            size = 3072 + self.label_bytes
            rows = np.fromfile(path, dtype=np.uint8)
            if len(rows) % size:
                raise RuntimeError(f"{path} has {len(rows)} bytes, no multiple of {size}")
            rows = rows.reshape(-1, size)
            return rows[:, -3072:], rows[:, self.label_bytes - 1].tolist()
        entry = _unpickled(path)
        return entry["data"], list(entry[self._label_key])

    def _class_names(self, directory: Path) -> list[str]:
        meta = directory / self.meta
        if meta.exists():
            return list(_unpickled(meta)[self._names_key])
        text = next((x for x in sorted(directory.glob("*.txt")) if "coarse" not in x.name), None)
        return text.read_text().split() if text else []

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._both(pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Which part it is."""
        return f"Split: {'Train' if self.train is True else 'Test'}"


def _batch(directory: Path, name: str) -> Path | None:
    for path in (directory / name, directory / f"{name}.bin"):
        if path.exists():
            return path
    return None


class CIFAR100(CIFAR10):
    """A hundred classes."""

    base_folder = "cifar-100-python"
    binary_folder = "cifar-100-binary"
    source = None
    train_list: ClassVar[list[str]] = ["train"]
    test_list: ClassVar[list[str]] = ["test"]
    meta = "meta"
    label_bytes = 2  # the coarse one, then the fine one
    _label_key, _names_key = "fine_labels", "fine_label_names"
