"""What all tokenisers do: text to numbers, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

Ids = Sequence[int]


class Tokenizer:
    """Text to ids and back; each kind of tokeniser says how plain text is cut, and put together.

    `token_to_id` has an id for each token. Special tokens (`<|endoftext|>`) are found in a text as
    they are, before anything is cut.
    """

    def __init__(self, tokens: dict[str, int], special_tokens: Iterable[str] = ()) -> None:
        self.token_to_id = dict(tokens)
        self.special_tokens: list[str] = []
        self.add_special_tokens(special_tokens)

    def add_special_tokens(self, tokens: Iterable[str]) -> int:
        """Makes tokens special, with new ids for those that had none; how many these are."""
        before = len(self.token_to_id)
        for token in tokens:
            if not token:
                raise ValueError("a special token is a text that is not empty")
            if token not in self.special_tokens:
                self.special_tokens.append(token)
            self.token_to_id.setdefault(token, max(self.token_to_id.values(), default=-1) + 1)
        for name in ("id_to_token", "_special"):
            self.__dict__.pop(name, None)
        return len(self.token_to_id) - before

    @cached_property
    def id_to_token(self) -> dict[int, str]:
        """The token of each id."""
        return {number: token for token, number in self.token_to_id.items()}

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __len__(self) -> int:
        return len(self.token_to_id)

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self)

    # ------------------------------------------------------------------------------ text to ids

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text."""
        return [token for part, special in self._parts(text) for token in self._cut(part, special)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ids = self.token_to_id
        return [ids[token] for token in self.tokenize(text)]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    __call__ = encode

    def _cut(self, part: str, special: bool) -> list[str]:
        return [part] if special else self.cut(part)

    def _parts(self, text: str) -> Iterator[tuple[str, bool]]:
        """The text in parts, and whether each of them is a special token."""
        at = 0
        for match in self._special.finditer(text) if self._special else ():
            if match.start() > at:
                yield text[at : match.start()], False
            yield match.group(), True
            at = match.end()
        if at < len(text):
            yield text[at:], False

    def cut(self, text: str) -> list[str]:
        """The tokens of a text in which no special token is; all of them have ids."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ ids to text

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """The text of ids, as far as tokens tell it."""
        tokens = [self._token(int(number)) for number in ids]
        if skip_special_tokens:
            special = set(self.special_tokens)
            tokens = [token for token in tokens if token not in special]
        return self.join(tokens)

    def _token(self, number: int) -> str:
        try:
            return self.id_to_token[number]
        except KeyError:
            raise IndexError(f"there is no token {number} among {len(self)}") from None

    def join(self, tokens: Sequence[str]) -> str:
        """The text of tokens."""
        raise NotImplementedError

    def _runs(self, tokens: Sequence[str]) -> Iterator[tuple[str, bool]]:
        """Tokens with neighbours joined, but for special ones, and whether each is one of these.

        A character may be the bytes of several tokens.
        """
        special, joined = set(self.special_tokens), ""
        for token in tokens:
            if token not in special:
                joined += token
                continue
            if joined:
                yield joined, False
            yield token, True
            joined = ""
        if joined:
            yield joined, False
