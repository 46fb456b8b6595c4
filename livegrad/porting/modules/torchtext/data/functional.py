"""`torchtext.data.functional`: lines of text on their way to numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from livegrad.utils.data import Dataset


class _Listed(Dataset[Any]):
    """What an iterable gives, by number."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._data = list(items)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        return self._data[index]


def to_map_style_dataset(iter_data: Iterable[Any]) -> Dataset[Any]:
    """A data set with a length, whose items have numbers.

    >>> to_map_style_dataset(iter("abc"))[1]
    'b'
    """
    return _Listed(iter_data)


def simple_space_split(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each line."""
    for line in iterator:
        yield line.split()


def custom_replace(
    replace_pattern: Iterable[tuple[str, str]],
) -> Callable[[Iterable[str]], Iterator[str]]:
    """A function from lines to lines, in which patterns are replaced one after the other."""
    rules = [(re.compile(pattern), text) for pattern, text in replace_pattern]

    def replaced(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            for pattern, text in rules:
                line = pattern.sub(text, line)
            yield line

    return replaced


def numericalize_tokens_from_iterator(
    vocab: Mapping[str, int],
    iterator: Iterable[Iterable[str]],
    removed_tokens: Iterable[str] | None = None,
) -> Iterator[Iterator[int]]:
    """The numbers of the tokens of each line, but for `removed_tokens`."""
    removed = frozenset(removed_tokens or ())
    for tokens in iterator:
        yield iter([vocab[token] for token in tokens if token not in removed])
