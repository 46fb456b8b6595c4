"""Words in pieces, as BERT has them: the longest piece that the vocabulary has comes first."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from livegrad.text.tokenizers import files
from livegrad.text.tokenizers.base import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # longer ones are unknown

# Where characters are words of their own: the blocks of Chinese characters.
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieceTokenizer(Tokenizer):
    """Words cut into pieces, of which all but the first begin with `##`.

    `lowercase` also takes accents away. `from_file` reads a `vocab.txt`.
    """

    def __init__(
        self,
        tokens: dict[str, int],
        lowercase: bool = True,
        special_tokens: Iterable[str] = SPECIAL,
        unk_token: str = "[UNK]",
    ) -> None:
        super().__init__(tokens, special_tokens)
        self.lowercase = lowercase
        self.unk_token = unk_token

    @classmethod
    def from_file(cls, path: Any, **options: Any) -> WordPieceTokenizer:
        """From BERT's `vocab.txt`: a token per line."""
        return cls(files.read_vocab_txt(path), **options)

    def save(self, path: Any) -> None:
        """Writes a `vocab.txt`."""
        files.write_vocab_txt(path, self.token_to_id)

    def cut(self, text: str) -> list[str]:
        return [piece for word in words(text, self.lowercase) for piece in self._pieces(word)]

    def _pieces(self, word: str) -> list[str]:
        if len(word) > LONGEST_WORD:
            return [self.unk_token]
        pieces, begin = list[str](), 0
        while begin < len(word):
            mark = "##" if begin else ""
            for end in range(len(word), begin, -1):
                if mark + word[begin:end] in self.token_to_id:
                    break
            else:
                return [self.unk_token]
            pieces.append(mark + word[begin:end])
            begin = end
        return pieces

    def encode_pair(self, text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
        """`[CLS] text [SEP] pair [SEP]` as ids, and whether each belongs to the second (1)."""
        start, end = self.token_to_id["[CLS]"], self.token_to_id["[SEP]"]
        first = [start, *self.encode(text), end]
        second = [] if pair is None else [*self.encode(pair), end]
        return first + second, [0] * len(first) + [1] * len(second)

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens).replace(" ##", "")


def words(text: str, lowercase: bool) -> list[str]:
    """Words and marks of punctuation."""
    text = "".join([_spaced(character) for character in text])
    if lowercase:
        decomposed = unicodedata.normalize("NFD", text.lower())
        text = "".join([c for c in decomposed if unicodedata.category(c) != "Mn"])
    return "".join([f" {c} " if _is_punctuation(c) else c for c in text]).split()


def _spaced(character: str) -> str:
    """The character as it is cut: controls go, spaces are one kind, Chinese is kept apart."""
    code = ord(character)
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if code in (0, 0xFFFD) or unicodedata.category(character).startswith("C"):
        return ""
    if any([first <= code <= last for first, last in _CHINESE]):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    """Also of ASCII what Unicode calls symbols, such as ^ and $."""
    code = ord(character)
    if code < 128:
        return 33 <= code <= 126 and not character.isalnum()
    return unicodedata.category(character).startswith("P")
