"""`torchtext.vocab`: vocabularies, and vectors of words from files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import livegrad
from livegrad import Tensor
from livegrad.text import (
    Vocab as Vocab,
    build_vocab_from_iterator as build_vocab_from_iterator,
    vocab as vocab,
)


class Vectors:
    """Vectors of words: `cache/name` has a word and its numbers in each line."""

    def __init__(
        self,
        name: str,
        cache: str | None = None,
        url: str | None = None,
        unk_init: Callable[[Tensor], Tensor] | None = None,
        max_vectors: int | None = None,
    ) -> None:
        cache = ".vector_cache" if cache is None else cache
        path = name if os.path.isfile(name) else os.path.join(cache, name)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{path} is not there, and livegrad downloads no vectors")
        self.unk_init = Tensor.zero_ if unk_init is None else unk_init
        self.itos, values = _read(path, max_vectors)
        self.stoi = {word: i for i, word in enumerate(self.itos)}
        self.vectors = livegrad.from_numpy(values)
        self.dim = values.shape[1]

    def __len__(self) -> int:
        return len(self.vectors)

    def __contains__(self, token: object) -> bool:
        return token in self.stoi

    def __getitem__(self, token: str) -> Tensor:
        if token in self.stoi:
            return self.vectors[self.stoi[token]]
        return self.unk_init(livegrad.empty(self.dim))

    def get_vecs_by_tokens(
        self, tokens: str | Sequence[str], lower_case_backup: bool = False
    ) -> Tensor:
        """The vector of a token, or those of several; in lower case if they are there only so."""
        if isinstance(tokens, str):
            return self[self._written(tokens, lower_case_backup)]
        return livegrad.stack([self[self._written(token, lower_case_backup)] for token in tokens])

    def _written(self, token: str, lower: bool) -> str:
        return token.lower() if lower and token not in self.stoi else token


def _read(path: str, most: int | None) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Words and their vectors; a first line with two numbers says how many there are."""
    words: list[str] = []
    rows: list[np.ndarray[Any, Any]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            word, *numbers = line.rstrip().split(" ")
            if len(numbers) > 1 and len(words) != most:
                words.append(word)
                rows.append(np.array(numbers, np.float32))
    return words, np.stack(rows)


class GloVe(Vectors):
    """`glove.{name}.{dim}d.txt` in the folder of vectors."""

    def __init__(self, name: str = "840B", dim: int = 300, **kwargs: Any) -> None:
        super().__init__(f"glove.{name}.{dim}d.txt", **kwargs)


class FastText(Vectors):
    """`wiki.{language}.vec` in the folder of vectors."""

    def __init__(self, language: str = "en", **kwargs: Any) -> None:
        super().__init__(f"wiki.{language}.vec", **kwargs)
