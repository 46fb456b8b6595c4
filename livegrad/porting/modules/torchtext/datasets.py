"""`torchtext.datasets`, from the files that torchtext keeps in its folder.

`AG_NEWS(root, "train")` reads `root/datasets/AG_NEWS/train.csv`: what is not there is not
downloaded, and the error says where it should be.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from livegrad.utils.data import IterableDataset

ROOT = "~/.torchtext/cache"

Reader = Callable[[Path], Iterator[Any]]


class TextDataset(IterableDataset[Any]):
    """What a function reads from a file, anew each time."""

    def __init__(self, path: Path, read: Reader) -> None:
        self._path, self._read = path, read

    def __iter__(self) -> Iterator[Any]:
        return self._read(self._path)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def _classes(path: Path) -> Iterator[tuple[int, str]]:
    """Tables with the number of a class, and texts."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            yield int(row[0]), " ".join(row[1:])


def _reviews(path: Path) -> Iterator[tuple[int, str]]:
    """Files in two folders: reviews that say no, and that say yes."""
    for number, name in enumerate(("neg", "pos"), 1):
        for file in sorted((path / name).glob("*.txt")):
            yield number, file.read_text(encoding="utf-8")


def _sentiments(path: Path) -> Iterator[tuple[str, int]]:
    """A table of a sentence and its class, with a head."""
    for line in list(_lines(path))[1:]:
        text, number = line.rstrip("\n").split("\t")
        yield text.strip(), int(number)


def _made(
    name: str, files: dict[str, str], read: Reader
) -> Callable[[str, str | Sequence[str]], Any]:
    """The function that finds the parts of a data set."""

    def dataset(root: str = ROOT, split: str | Sequence[str] = tuple(files)) -> Any:
        if not isinstance(split, str):
            return tuple(dataset(root, part) for part in split)
        return TextDataset(_file(root, name, files, split), read)

    dataset.__name__ = dataset.__qualname__ = name
    dataset.__doc__ = f"{name}, from its files below `root/datasets/{name}`."
    return dataset


def _file(root: str, name: str, files: dict[str, str], split: str) -> Path:
    if split not in files:
        raise ValueError(f"{name}: split {split!r} is none of {', '.join(files)}")
    path = Path(root).expanduser() / "datasets" / name / files[split]
    if not path.exists():
        raise FileNotFoundError(
            f"{name}: {path} is not there, and livegrad downloads no data sets. "
            "Put torchtext's file there, or give another root"
        )
    return path


def _three(pattern: str) -> dict[str, str]:
    return {split: pattern.format(split) for split in ("train", "valid", "test")}


_TABLES = {"train": "train.csv", "test": "test.csv"}

AG_NEWS = _made("AG_NEWS", _TABLES, _classes)
AmazonReviewFull = _made("AmazonReviewFull", _TABLES, _classes)
AmazonReviewPolarity = _made("AmazonReviewPolarity", _TABLES, _classes)
DBpedia = _made("DBpedia", _TABLES, _classes)
SogouNews = _made("SogouNews", _TABLES, _classes)
YahooAnswers = _made("YahooAnswers", _TABLES, _classes)
YelpReviewFull = _made("YelpReviewFull", _TABLES, _classes)
YelpReviewPolarity = _made("YelpReviewPolarity", _TABLES, _classes)
IMDB = _made("IMDB", {"train": "aclImdb/train", "test": "aclImdb/test"}, _reviews)
SST2 = _made("SST2", {"train": "SST-2/train.tsv", "dev": "SST-2/dev.tsv"}, _sentiments)
PennTreebank = _made("PennTreebank", _three("ptb.{}.txt"), _lines)
WikiText2 = _made("WikiText2", _three("wikitext-2/wiki.{}.tokens"), _lines)
WikiText103 = _made("WikiText103", _three("wikitext-103/wiki.{}.tokens"), _lines)


def Multi30k(  # torchtext's name
    root: str = ROOT,
    split: str | Sequence[str] = ("train", "valid", "test"),
    language_pair: Sequence[str] = ("de", "en"),
) -> Any:
    """Pairs of sentences in two languages, from `root/datasets/Multi30k/train.de` and such."""
    if not isinstance(split, str):
        return tuple(Multi30k(root, part, language_pair) for part in split)
    names = {"train": "train", "valid": "val", "test": "test"}
    left, right = (
        _file(root, "Multi30k", {k: f"{v}.{end}" for k, v in names.items()}, split)
        for end in language_pair
    )
    return TextDataset(left, lambda path: _pairs(path, right))


def _pairs(left: Path, right: Path) -> Iterator[tuple[str, str]]:
    for source, target in zip(_lines(left), _lines(right), strict=True):
        yield source.rstrip("\n"), target.rstrip("\n")
