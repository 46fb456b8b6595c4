"""MNIST and its relatives: images of 28×28 in IDX files."""

from __future__ import annotations

import gzip
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import livegrad as lg
from livegrad import Tensor
from livegrad.datasets import get
from livegrad.vision.datasets.vision import Transform, VisionDataset
from livegrad.vision.pictures import pillow

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: Path) -> Tensor:
    """The values of an IDX file, packed or not."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        data = stream.read()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise RuntimeError(f"{path} is no IDX file")
    rank, dtype = data[3], np.dtype(_TYPES[data[2]])
    shape = np.frombuffer(data, ">u4", rank, 4).astype(int)
    start, count = 4 + 4 * rank, int(np.prod(shape))
    if len(data) != start + count * dtype.itemsize:
        raise RuntimeError(f"{path} has {len(data)} bytes, not {start + count * dtype.itemsize}")
    values = np.frombuffer(data, dtype, count, start).reshape(shape)
    return lg.tensor(values.astype(dtype.newbyteorder("=")))


def _once(old: str, name: str) -> property:
    """What is called `name` now, by its old name."""

    def get(self: VisionDataset) -> Any:
        warnings.warn(f"{old} has been renamed {name}", stacklevel=2)
        return getattr(self, name)

    return property(get)


class MNIST(VisionDataset):
    """Handwritten digits. `data` (N, 28, 28) and `targets` (N,) are tensors.

    Files are looked for in root/MNIST/raw, as they are found everywhere, packed or not.
    """

    source: str | None = "mnist"
    classes: Sequence[str] = (
        "0 - zero",
        "1 - one",
        "2 - two",
        "3 - three",
        "4 - four",
        "5 - five",
        "6 - six",
        "7 - seven",
        "8 - eight",
        "9 - nine",
    )

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
        self._copied: Any = None
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError(
                f"Dataset not found: there are no {self._stem('images')} in {self.raw_folder}. "
                f"{self._advice()}"
            )
        self.data, self.targets = self._load_data()

    def _advice(self) -> str:
        if self.source is None:
            return "Put the files of the data set there"
        return "You can use download=True to download it"

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Numbers by the names of classes."""
        return {name: i for i, name in enumerate(self.classes)}

    train_data, test_data = _once("train_data", "data"), _once("test_data", "data")
    train_labels = _once("train_labels", "targets")
    test_labels = _once("test_labels", "targets")

    def _stem(self, kind: str) -> str:
        rank = {"images": 3, "labels": 1}[kind]
        return f"{'train' if self.train else 't10k'}-{kind}-idx{rank}-ubyte"

    def _file(self, kind: str) -> Path | None:
        for suffix in ("", ".gz"):
            path = Path(self.raw_folder) / (self._stem(kind) + suffix)
            if path.exists():
                return path
        return None

    def _check_exists(self) -> bool:
        return None not in (self._file("images"), self._file("labels"))

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = self._file("images"), self._file("labels")
        assert images is not None
        assert labels is not None
        data, targets = read_idx(images), read_idx(labels).long()
        if len(data) != len(targets):
            raise RuntimeError(f"{images} has {len(data)} images, {labels} {len(targets)} labels")
        return data, targets

    def download(self) -> None:
        """Copies the files from where `livegrad data get` keeps them, which fetches them."""
        if self._check_exists():
            return
        if self.source is None:
            raise RuntimeError(
                f"livegrad has no source for {type(self).__name__}: put its files "
                f"({self._stem('images')}.gz, …) into {self.raw_folder}"
            )
        found = get(self.source)
        os.makedirs(self.raw_folder, exist_ok=True)
        for path in found.glob("*-ubyte"):
            part = Path(self.raw_folder) / f".{path.name}"
            shutil.copyfile(path, part)
            os.replace(part, Path(self.raw_folder) / path.name)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        images, labels = self._copies()
        return self._both(pillow().fromarray(images[index]), int(labels[index]))

    def _copies(self) -> tuple[np.ndarray, np.ndarray]:
        """`data` and `targets` as arrays: to ask a tensor for one image at a time takes longer."""
        state = [(id(x), getattr(x, "_version", 0)) for x in (self.data, self.targets)]
        if self._copied is None or self._copied[0] != state:  # programs choose among them
            self._copied = (state, *(np.array(x) for x in (self.data, self.targets)))
        return self._copied[1:]

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        """Which part it is."""
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """Clothes."""

    source = "fashion-mnist"
    classes = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )


class KMNIST(MNIST):
    """Handwritten Kuzushiji, as old Japanese books have them."""

    source = None
    classes = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")


_LETTERS = [chr(x) for x in range(ord("a"), ord("z") + 1)]
_DIGITS = [str(x) for x in range(10)]
_MERGED = set("cijklmopsuvwxyz")  # whose small and capital letters look alike
_CAPITALS = [x.upper() for x in _LETTERS]


class EMNIST(MNIST):
    """Handwritten letters and digits, in one of six splits."""

    source = None
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict: ClassVar[dict[str, list[str]]] = {
        "byclass": sorted(_DIGITS + _LETTERS + _CAPITALS),
        "bymerge": sorted({*_DIGITS, *_LETTERS, *_CAPITALS} - _MERGED),
        "balanced": sorted({*_DIGITS, *_LETTERS, *_CAPITALS} - _MERGED),
        "letters": ["N/A", *_LETTERS],
        "digits": _DIGITS,
        "mnist": _DIGITS,
    }

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        if split not in self.splits:
            raise ValueError(
                f"Unknown value '{split}' for argument split. Valid values are {self.splits}."
            )
        self.split = split
        self.classes = self.classes_split_dict[split]
        super().__init__(root, **kwargs)

    def _stem(self, kind: str) -> str:
        rank = {"images": 3, "labels": 1}[kind]
        part = "train" if self.train else "test"
        return f"emnist-{self.split}-{part}-{kind}-idx{rank}-ubyte"


class QMNIST(MNIST):
    """MNIST with 60,000 images for testing: `what` is "train", "test", "test10k", "test50k"."""

    source = None

    def __init__(
        self,
        root: str | os.PathLike[str],
        what: str | None = None,
        compat: bool = True,
        train: bool = True,
        **kwargs: Any,
    ) -> None:
        self.what = what or ("train" if train else "test")
        if self.what not in ("train", "test", "test10k", "test50k"):
            raise ValueError(f"what should be train, test, test10k or test50k; got {self.what!r}")
        self.compat = compat
        super().__init__(root, self.what == "train", **kwargs)

    def _stem(self, kind: str) -> str:
        part = "train" if self.what == "train" else "test"
        return f"qmnist-{part}-{'images-idx3-ubyte' if kind == 'images' else 'labels-idx2-int'}"

    def _load_data(self) -> tuple[Tensor, Tensor]:
        data, targets = super()._load_data()
        part = {"test10k": slice(0, 10_000), "test50k": slice(10_000, None)}.get(self.what)
        return (data, targets) if part is None else (data[part], targets[part])

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        images, labels = self._copies()
        target = int(labels[index][0]) if self.compat else lg.tensor(labels[index])
        return self._both(pillow().fromarray(images[index]), target)
