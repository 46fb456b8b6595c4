"""Vocabularies: tokens and their numbers. Names as in torchtext."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from livegrad.nn import Module


class Vocab(Module):
    """Numbers of tokens; calling it gives those of a list of tokens.

    >>> words = vocab({"the": 5, "cat": 2, "sat": 1}, specials=["<unk>"], min_freq=2)
    >>> words.set_default_index(words["<unk>"])
    >>> words(["the", "cat", "sat"])
    [1, 2, 0]
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__()
        self.itos = list(tokens)
        self.stoi = {token: i for i, token in enumerate(self.itos)}
        if len(self.stoi) != len(self.itos):
            twice = [token for token, n in Counter(self.itos).items() if n > 1]
            raise RuntimeError(f"Duplicate token found in tokens list: {twice[0]}")
        self.default_index: int | None = None

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, token: object) -> bool:
        return token in self.stoi

    def __getitem__(self, token: str) -> int:
        found = self.stoi.get(token, self.default_index)
        if found is None:
            raise RuntimeError(
                f"Token {token} not found and default index is not set: see set_default_index"
            )
        return found

    def forward(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of tokens."""
        return [self[token] for token in tokens]

    def lookup_indices(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of tokens."""
        return self.forward(tokens)

    def lookup_token(self, index: int) -> str:
        """The token of a number."""
        if not 0 <= index < len(self.itos):
            raise RuntimeError(
                f"Specified index {index} is out of bounds for vocab of size {len(self)}"
            )
        return self.itos[index]

    def lookup_tokens(self, indices: Iterable[int]) -> list[str]:
        """The tokens of numbers."""
        return [self.lookup_token(int(index)) for index in indices]

    def set_default_index(self, index: int | None) -> None:
        """The number of tokens that are not there; None makes them errors."""
        self.default_index = index

    def get_default_index(self) -> int | None:
        """The number of tokens that are not there."""
        return self.default_index

    def insert_token(self, token: str, index: int) -> None:
        """Puts a token at a place; those behind it move on."""
        if not 0 <= index <= len(self):
            raise RuntimeError(
                f"Specified index {index} is out of bounds for vocab of size {len(self)}"
            )
        if token in self.stoi:
            raise RuntimeError(f"Token {token} already exists with index: {self.stoi[token]}")
        self.itos.insert(index, token)
        self.stoi = {token: i for i, token in enumerate(self.itos)}

    def append_token(self, token: str) -> None:
        """Puts a token at the end."""
        if token in self.stoi:
            raise RuntimeError(f"Token {token} already exists with index: {self.stoi[token]}")
        self.stoi[token] = len(self.itos)
        self.itos.append(token)

    def get_itos(self) -> list[str]:
        """All tokens, by number."""
        return list(self.itos)

    def get_stoi(self) -> dict[str, int]:
        """The number of each token."""
        return dict(self.stoi)

    def extra_repr(self) -> str:
        """How many tokens there are."""
        return f"{len(self)} tokens"


def vocab(
    ordered_dict: Mapping[str, int],
    min_freq: int = 1,
    specials: Sequence[str] | None = None,
    special_first: bool = True,
) -> Vocab:
    """The tokens of a dict with at least `min_freq`, in its order, and `specials`."""
    special = list(specials or [])
    tokens = [x for x, n in ordered_dict.items() if n >= min_freq and x not in set(special)]
    return Vocab(special + tokens if special_first else tokens + special)


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: Sequence[str] | None = None,
    special_first: bool = True,
    max_tokens: int | None = None,
) -> Vocab:
    """The tokens of lists of tokens, the most frequent first, equal ones in alphabetical order."""
    counts: Counter[str] = Counter()
    for tokens in iterator:
        counts.update(tokens)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if max_tokens is not None:
        room = max_tokens - len(specials or [])
        if room < 0:
            raise ValueError("len(specials) > max_tokens, so the vocab will be entirely special")
        ordered = ordered[:room]
    return vocab(dict(ordered), min_freq, specials, special_first)
