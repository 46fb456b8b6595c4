"""Text cut into words, as small programs do it; names as in torchtext."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Punctuation becomes words of its own, or goes, in this order.
_RULES = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"'", " '  "),
        (r'"', ""),
        (r"\.", " . "),
        (r"<br \/>", " "),
        (r",", " , "),
        (r"\(", " ( "),
        (r"\)", " ) "),
        (r"!", " ! "),
        (r"\?", " ? "),
        (r";", " "),
        (r":", " "),
        (r"\s+", " "),
    )
]


def basic_english(text: str) -> list[str]:
    """Lower-case words; marks of punctuation are words, too.

    >>> basic_english("Don't panic, (it's fine)!")
    ['don', "'", 't', 'panic', ',', '(', 'it', "'", 's', 'fine', ')', '!']
    """
    text = text.lower()
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.split()


def get_tokenizer(tokenizer: Any, language: str = "en") -> Callable[[str], list[str]]:
    """A function from text to words: None splits at white space, "basic_english" is ours."""
    if tokenizer is None:
        return str.split
    if tokenizer == "basic_english":
        if language != "en":
            raise ValueError("Basic normalization is only available for English(en)")
        return basic_english
    if callable(tokenizer):
        return tokenizer  # type: ignore[no-any-return]
    raise ValueError(
        f"Requested tokenizer {tokenizer}, valid choices are a callable that takes a single string"
        " as input, None for white space and 'basic_english'."
    )


def ngrams_iterator(token_list: Iterable[str], ngrams: int) -> Iterator[str]:
    """All tokens, then all pairs of neighbours, and so on up to `ngrams` of them.

    >>> list(ngrams_iterator(["here", "we", "are"], 2))
    ['here', 'we', 'are', 'here we', 'we are']
    """
    tokens = list(token_list)
    yield from tokens
    for n in range(2, ngrams + 1):
        for i in range(len(tokens) - n + 1):
            yield " ".join(tokens[i : i + n])
