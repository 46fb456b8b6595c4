"""Small data files, in the formats that programs read."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from livegrad.datasets import digits

TRAIN, TEST = 400, 1000


def make(kind: str, place: Path) -> None:
    """Writes a data set where a program looks for it."""
    place.mkdir(parents=True, exist_ok=True)
    _MAKERS[kind](place)


def _mnist(place: Path, name: str = "MNIST") -> None:
    """Handwritten digits as files of MNIST: 8 by 8 pixels, enlarged."""
    images, labels = digits()
    images = np.asarray(images).reshape(-1, 8, 8)
    images = (images / images.max() * 255).astype(np.uint8)
    images = np.pad(images.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))
    labels = np.asarray(labels).astype(np.uint8)
    raw = place / name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part_name, part in (("train", slice(TRAIN)), ("t10k", slice(-TEST, None))):
        x, y = images[part], labels[part]
        head = struct.pack(">IIII", 2051, len(x), 28, 28)
        (raw / f"{part_name}-images-idx3-ubyte").write_bytes(head + x.tobytes())
        (raw / f"{part_name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 2049, len(y)) + y.tobytes()
        )


def _fashion(place: Path) -> None:
    """The same as files of Fashion-MNIST."""
    _mnist(place, "FashionMNIST")


def _sentences(count: int) -> str:
    """Lines of a small language."""
    random = np.random.RandomState(0)
    words = "the a cat dog tree house saw loved on under of red old and it was there then".split()
    lines = [" ".join(random.choice(words, random.randint(4, 12))) for _ in range(count)]
    return " \n ".join(lines) + " \n"


def _text(place: Path) -> None:
    for name in ("train", "valid", "test"):
        (place / f"{name}.txt").write_text(_sentences(300 if name == "train" else 60))


def _words(place: Path) -> None:
    (place / "train.txt").write_text(_sentences(400))


def _input(place: Path) -> None:
    (place / "input.txt").write_text("O God, O God!\n" + _sentences(800))  # what one begins with


def _cora(place: Path) -> None:
    """A graph in the files of Cora: as many papers, words and classes."""
    random = np.random.RandomState(0)
    papers, words = 2708, 1433
    names = np.arange(papers) + 31336
    classes = "Case_Based Genetic_Algorithms Neural_Networks Probabilistic_Methods "
    classes += "Reinforcement_Learning Rule_Learning Theory"
    has = random.rand(papers, words) < 0.01
    with (place / "cora.content").open("w") as file:
        for name, row in zip(names, has.astype(int), strict=True):
            print(name, *row, random.choice(classes.split()), sep="\t", file=file)
    with (place / "cora.cites").open("w") as file:
        for a, b in random.choice(names, (5429, 2)):
            print(a, b, sep="\t", file=file)


def _ett(place: Path) -> None:
    """Hours of seven series, in the file of the first transformer of ETT: a file of CSV."""
    random = np.random.RandomState(0)
    hours = np.arange(17420)
    waves = [np.sin(hours * (i + 1) * np.pi / 36) for i in range(7)]
    values = np.stack(waves, 1) + 0.3 * random.randn(len(hours), 7)
    begin = np.datetime64("2016-07-01T00:00:00")
    with (place / "ETTh1.csv").open("w") as file:
        print("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT", file=file)
        for hour, row in zip(hours, values, strict=True):
            date = str(begin + np.timedelta64(int(hour), "h")).replace("T", " ")
            print(date, *[f"{x:.4f}" for x in row], sep=",", file=file)


_MAKERS = {
    "mnist": _mnist,
    "fashion": _fashion,
    "text": _text,
    "words": _words,
    "input": _input,
    "cora": _cora,
    "ett": _ett,
}
