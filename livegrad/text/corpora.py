"""Data sets of texts: labelled ones, and pairs of a text and its translation."""

from __future__ import annotations

import csv
import gettext
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from livegrad.utils.data import Dataset

Pair = tuple[str, str]


class LabelledTexts(Dataset[tuple[str, int]]):
    """Texts and the number of each one's class; `classes` are the names of these."""

    def __init__(self, texts: Sequence[str], labels: Sequence[Any]) -> None:
        if len(texts) != len(labels):
            raise ValueError(f"there are {len(texts)} texts and {len(labels)} labels")
        self.texts = list(texts)
        self.classes = sorted(set(labels))
        numbers = {name: i for i, name in enumerate(self.classes)}
        self.labels = [numbers[label] for label in labels]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self.texts[index], self.labels[index]

    @classmethod
    def from_folder(cls, root: Any, pattern: str = "*.txt") -> LabelledTexts:
        """A file per text, in a folder per class: `root/positive/1.txt`."""
        files = sorted(Path(root).glob(f"*/{pattern}"))
        if not files:
            raise FileNotFoundError(f"{root} has no folders with files such as {pattern}")
        texts = [file.read_text(encoding="utf-8") for file in files]
        return cls(texts, [file.parent.name for file in files])

    @classmethod
    def from_csv(
        cls, path: Any, text: int | str = 1, label: int | str = 0, delimiter: str = ","
    ) -> LabelledTexts:
        """Columns of a file, by number, or by name if its first line has names."""
        rows = list(_columns(path, (text, label), delimiter))
        return cls([row[0] for row in rows], [row[1] for row in rows])


class ParallelCorpus(Dataset[Pair]):
    """Pairs of a text and its translation."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.pairs = [(source, target) for source, target in pairs]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Pair:
        return self.pairs[index]

    def filter(self, keep: Callable[[str, str], bool]) -> ParallelCorpus:
        """The pairs that a function says yes to."""
        return ParallelCorpus([pair for pair in self.pairs if keep(*pair)])

    def lengths(self, tokenize: Callable[[str], Sequence[Any]] = str.split) -> list[int]:
        """The longer of both lengths of each pair, for a `LengthBucketSampler`."""
        return [max(len(tokenize(source)), len(tokenize(target))) for source, target in self.pairs]

    @classmethod
    def from_csv(
        cls, path: Any, source: int | str = 0, target: int | str = 1, delimiter: str = "\t"
    ) -> ParallelCorpus:
        """Two columns of a file, by number, or by name if its first line has names."""
        return cls([(row[0], row[1]) for row in _columns(path, (source, target), delimiter)])

    @classmethod
    def from_files(cls, source: Any, target: Any) -> ParallelCorpus:
        """Two files with the same number of lines."""
        left, right = [Path(x).read_text(encoding="utf-8").splitlines() for x in (source, target)]
        if len(left) != len(right):
            raise ValueError(f"{source} has {len(left)} lines, {target} has {len(right)}")
        return cls(zip(left, right, strict=True))

    @classmethod
    def from_catalogs(cls, root: Any, language: str) -> ParallelCorpus:
        """The translations of programs: all `language/LC_MESSAGES/*.mo` below a folder."""
        files = sorted(Path(root).glob(f"**/{language}/LC_MESSAGES/*.mo"))
        if not files:
            raise FileNotFoundError(f"{root} has no catalogs of {language}")
        found: dict[str, str] = {}
        for file in files:
            for source, target in _messages(file):
                found.setdefault(source, target)
        return cls(found.items())


# What catalogs have beside words: keys that open a menu, and places where values go.
_ACCELERATOR = re.compile(r"[_&~](?=\w)")
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:\(\w+\))?[a-zA-Z]|%\d|\{\w*\}|\$\w+|<[^>]+>")


def _messages(file: Path) -> Iterator[Pair]:
    with file.open("rb") as opened:
        catalog = vars(gettext.GNUTranslations(opened))["_catalog"]
    for source, target in catalog.items():
        if isinstance(source, str) and source and target:
            pair = _cleaned(source.split("\x04")[-1]), _cleaned(target)
            if all(pair):
                yield pair


def _cleaned(text: str) -> str:
    text = _ACCELERATOR.sub("", text)
    return "" if _FORMAT.search(text) else " ".join(text.split())


def _columns(path: Any, wanted: Sequence[int | str], delimiter: str) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        quoted = delimiter != "\t"
        rows = csv.reader(
            file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        )
        names = next(rows, []) if any([isinstance(x, str) for x in wanted]) else []
        for name in wanted:
            if isinstance(name, str) and name not in names:
                raise ValueError(f"{path} has no column {name!r}: there are {names}")
        places = [names.index(x) if isinstance(x, str) else x for x in wanted]
        for number, row in enumerate(rows, start=2 if names else 1):
            if row:
                if max(places) >= len(row):
                    raise ValueError(f"{path}, row {number}: there are only {len(row)} columns")
                yield [row[place] for place in places]
