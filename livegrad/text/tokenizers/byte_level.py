"""Bytes as tokens: every text has ids, and there are only 256 of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from livegrad.text.tokenizers.base import Tokenizer


@cache
def byte_characters() -> dict[int, str]:
    """A visible character for each byte, as GPT-2's vocabularies write them.

    Bytes that are printable in Latin-1 stand for themselves, the others for characters from 256 on.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + n) for n, byte in enumerate(hidden)
    }


@cache
def character_bytes() -> dict[str, int]:
    """The byte of each character of `byte_characters`."""
    return {character: byte for byte, character in byte_characters().items()}


def as_characters(text: str) -> str:
    """The bytes of a text, each as its character."""
    characters = byte_characters()
    return "".join([characters[byte] for byte in text.encode("utf-8", "surrogatepass")])


def as_text(characters: str) -> str:
    """The text whose bytes these are; what is no text becomes U+FFFD."""
    known = character_bytes()
    raw = bytearray()
    for character in characters:
        byte = known.get(character)
        raw += character.encode() if byte is None else bytes([byte])
    return raw.decode("utf-8", "replace")


class ByteTokenizer(Tokenizer):
    """One token per byte of UTF-8.

    >>> ByteTokenizer().encode("hé")
    [104, 195, 169]
    """

    def __init__(self, special_tokens: Iterable[str] = ()) -> None:
        tokens = {character: byte for byte, character in byte_characters().items()}
        super().__init__(tokens, special_tokens)

    def cut(self, text: str) -> list[str]:
        return list(as_characters(text))

    def join(self, tokens: Sequence[str]) -> str:
        return "".join([run if special else as_text(run) for run, special in self._runs(tokens)])
