"""Data sets from files of the standard formats, made here."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

import livegrad as lg
from livegrad.datasets.sources import write_idx
from livegrad.utils.data import DataLoader
from livegrad.vision import datasets, transforms as T
from livegrad.vision.datasets.mnist import read_idx

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)


def write_mnist(raw: Path, prefix: str = "train", packed: bool = False) -> np.ndarray:
    raw.mkdir(parents=True, exist_ok=True)
    images = RNG.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    for name, values in (
        (f"{prefix}-images-idx3-ubyte", images),
        (f"{prefix}-labels-idx1-ubyte", np.arange(5, dtype=np.uint8)),
    ):
        write_idx(raw / name, values)
        if packed:
            (raw / f"{name}.gz").write_bytes(gzip.compress((raw / name).read_bytes()))
            (raw / name).unlink()
    return images


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_mnist_and_relatives(tmp_path: Path, name: str, packed: bool) -> None:
    images = write_mnist(tmp_path / name / "raw", packed=packed)
    kind = getattr(datasets, name)
    found = kind(tmp_path, transform=T.ToTensor(), target_transform=lambda y: y + 1)
    assert len(found) == 5
    assert found.data.dtype == lg.uint8
    assert found.targets.tolist() == [0, 1, 2, 3, 4]
    image, label = found[3]
    np.testing.assert_allclose(image.numpy()[0], images[3] / 255.0, rtol=1e-6)
    assert label == 4
    assert "Split: Train" in repr(found)
    batch, labels = next(iter(DataLoader(found, batch_size=4)))
    assert batch.shape == (4, 1, 28, 28)
    assert labels.tolist() == [1, 2, 3, 4]
    keep = found.targets > 2  # programs choose among the images
    found.data, found.targets = found.data[keep], found.targets[keep]
    assert len(found) == 2
    assert found[0][1] == 4
    with pytest.raises(RuntimeError, match="Dataset not found"):
        kind(tmp_path, train=False)


def test_old_names_of_mnist(tmp_path: Path) -> None:
    write_mnist(tmp_path / "MNIST" / "raw")
    found = datasets.MNIST(tmp_path)
    for old, name in (("data", "data"), ("labels", "targets")):
        for part in ("train", "test"):
            with pytest.warns(UserWarning, match=f"{part}_{old} has been renamed {name}"):
                assert getattr(found, f"{part}_{old}") is getattr(found, name)


def test_a_data_set_without_source_says_where_files_go(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no source for KMNIST: put its files .*KMNIST/raw"):
        datasets.KMNIST(tmp_path, download=True)
    with pytest.raises(RuntimeError, match=r"no source for CIFAR100: put its directory"):
        datasets.CIFAR100(tmp_path, download=True)


def test_emnist_has_splits(tmp_path: Path) -> None:
    write_mnist(tmp_path / "EMNIST" / "raw", "emnist-letters-train")
    found = datasets.EMNIST(tmp_path, "letters")
    assert found.classes[1] == "a"
    assert len(datasets.EMNIST.classes_split_dict["balanced"]) == 47
    with pytest.raises(ValueError, match="Unknown value 'nothing'"):
        datasets.EMNIST(tmp_path, "nothing")


def test_broken_files_are_refused(tmp_path: Path) -> None:
    raw = tmp_path / "MNIST" / "raw"
    write_mnist(raw)
    path = raw / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(RuntimeError, match=r"has 3929 bytes, not 3936"):
        datasets.MNIST(tmp_path)
    path.write_bytes(b"hello")
    with pytest.raises(RuntimeError, match="is no IDX file"):
        read_idx(path)


def write_cifar(directory: Path, name: str, labels: str, count: int = 3) -> np.ndarray:
    directory.mkdir(parents=True, exist_ok=True)
    data = RNG.integers(0, 256, (count, 3072), dtype=np.uint8)
    (directory / name).write_bytes(pickle.dumps({"data": data, labels: list(range(count))}))
    return data


def test_cifar10_of_both_formats(tmp_path: Path) -> None:
    directory = tmp_path / "cifar-10-batches-py"
    batches = [write_cifar(directory, f"data_batch_{i}", "labels") for i in range(1, 6)]
    meta = {"label_names": ["plane", "car"]}
    (directory / "batches.meta").write_bytes(pickle.dumps(meta))
    found = datasets.CIFAR10(tmp_path)
    assert found.data.shape == (15, 32, 32, 3)
    assert found.classes == ["plane", "car"]
    picture, label = found[4]
    assert label == 1
    expected = batches[1][1].reshape(3, 32, 32).transpose(1, 2, 0)
    np.testing.assert_array_equal(np.asarray(picture), expected)
    binary = tmp_path / "b" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    rows = np.concatenate([np.arange(3, dtype=np.uint8)[:, None], batches[0]], 1)
    (binary / "test_batch.bin").write_bytes(rows.tobytes())
    other = datasets.CIFAR10(tmp_path / "b", train=False)
    np.testing.assert_array_equal(other.data[:3], found.data[:3])
    assert other.targets == [0, 1, 2]


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    write_cifar(tmp_path / "cifar-100-python", "train", "fine_labels")
    assert datasets.CIFAR100(tmp_path).targets == [0, 1, 2]


def test_pickles_run_no_code(tmp_path: Path) -> None:
    directory = tmp_path / "cifar-100-python"
    directory.mkdir()

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("run",)

    (directory / "train").write_bytes(pickle.dumps({"data": Bad()}))
    with pytest.raises(pickle.UnpicklingError, match="no part of a data set"):
        datasets.CIFAR100(tmp_path)


def test_folders_of_pictures(tmp_path: Path) -> None:
    for name, shade in (("cat", 10), ("dog/small", 20)):
        (tmp_path / name).mkdir(parents=True)
        Image.new("L", (4, 3), shade).save(tmp_path / name / "a.png")
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    found = datasets.ImageFolder(tmp_path, transform=T.PILToTensor())
    assert (found.classes, found.targets) == (["cat", "dog"], [0, 1])
    image, label = found[1]
    assert (tuple(image.shape), label) == ((3, 3, 4), 1)
    assert image.unique().tolist() == [20]
    words = datasets.DatasetFolder(tmp_path, str, is_valid_file=lambda x: x.endswith(".png"))
    assert words[0][0].endswith("a.png")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes empty"):
        datasets.ImageFolder(tmp_path)
    assert len(datasets.ImageFolder(tmp_path, allow_empty=True)) == 2
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        datasets.ImageFolder(tmp_path / "empty")


def test_fake_data_is_the_same_each_time() -> None:
    found = datasets.FakeData(4, (3, 8, 8), 5, transform=T.ToTensor())
    (a, la), (b, lb) = found[2], found[2]
    assert (a == b).all()
    assert la == lb < 5
    assert len({found[i][0].sum().item() for i in range(4)}) == 4
    with pytest.raises(IndexError):
        found[4]
