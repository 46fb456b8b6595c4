"""Data sets that are directories: one of files per class."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from livegrad.vision.datasets.vision import Transform, VisionDataset
from livegrad.vision.pictures import pillow

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | Sequence[str]) -> bool:
    """Whether a file's name ends with one of these."""
    allowed = extensions if isinstance(extensions, str) else tuple(extensions)
    return filename.lower().endswith(allowed)


def is_image_file(filename: str) -> bool:
    """Whether a file's name is that of a picture."""
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """The directories in a directory, and a number for each."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike[str],
    class_to_idx: dict[str, int] | None = None,
    extensions: str | Sequence[str] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """Paths, and the number of the class of each; in order."""
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    if (extensions is None) == (is_valid_file is None):
        raise ValueError(
            "Both extensions and is_valid_file cannot be None or not None at the same time"
        )
    allowed = extensions
    valid = is_valid_file or (lambda name: has_file_allowed_extension(name, allowed or ()))
    found: list[tuple[str, int]] = []
    empty = []
    for name in sorted(class_to_idx):
        top, before = os.path.join(directory, name), len(found)
        for folder, _, files in sorted(os.walk(top, followlinks=True)):
            paths = (os.path.join(folder, file) for file in sorted(files))
            found += [(path, class_to_idx[name]) for path in paths if valid(path)]
        if len(found) == before:
            empty.append(name)
    if empty and not allow_empty:
        supported = (
            "" if extensions is None else f" Supported extensions are: {_listed(extensions)}"
        )
        raise FileNotFoundError(
            f"Found no valid file for the classes {', '.join(empty)}.{supported}"
        )
    return found


def _listed(extensions: str | Sequence[str]) -> str:
    return extensions if isinstance(extensions, str) else ", ".join(extensions)


class DatasetFolder(VisionDataset):
    """root/class/…/file, read by `loader`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        loader: Callable[[str], Any],
        extensions: Sequence[str] | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(
            self.root, self.class_to_idx, extensions, is_valid_file, allow_empty
        )
        self.loader, self.extensions = loader, extensions
        self.targets = [target for _, target in self.samples]

    @staticmethod
    def make_dataset(
        directory: str | os.PathLike[str],
        class_to_idx: dict[str, int],
        extensions: Sequence[str] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> list[tuple[str, int]]:
        """Paths and classes; a class of your own may find them otherwise."""
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """The names of classes, and a number for each."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._both(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str | Path) -> Any:
    """A picture in colour."""
    with pillow().open(path) as image:
        return image.convert("RGB")


default_loader = pil_loader


class ImageFolder(DatasetFolder):
    """root/class/…/picture."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(
            root,
            loader,
            IMG_EXTENSIONS if is_valid_file is None else None,
            transform,
            target_transform,
            is_valid_file,
            allow_empty,
        )
        self.imgs = self.samples
