r"""Patterns of tokenisers, with classes of Unicode: `\p{L}` is a letter, `\p{N}` a number.

Python's `re` has no such classes, so they are written out as ranges of characters.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache

# What Unicode calls white space; Python's own \s has the separators of ASCII, \x1c to \x1f, too.
WHITE_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # parts of words


@cache
def _ranges() -> dict[str, str]:
    """The characters of each category ("Lu") and group of categories ("L"), as ranges."""
    found: dict[str, list[list[int]]] = {}
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        for name in (category, category[0]):
            spans = found.setdefault(name, [])
            if spans and spans[-1][1] == code - 1:
                spans[-1][1] = code
            else:
                spans.append([code, code])
    return {
        name: "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)
        for name, spans in found.items()
    }


_PART = re.compile(
    r"(?P<escaped>\\p\{(?P<long>\w+)\}|\\p(?P<short>\w)|\\s|\\S)|(?P<open>\[\^?)|(?P<close>\])|\\.|.",
    re.DOTALL,
)


@lru_cache(maxsize=32)
def compiled(pattern: str) -> re.Pattern[str]:
    r"""The pattern for Python's `re`, with classes of Unicode (`\p{L}`) written out."""
    text, inside = [], False
    for match in _PART.finditer(pattern):
        part = match.group()
        if match["escaped"]:
            text.append(_written_out(match, inside))
            continue
        inside = (inside or bool(match["open"])) and not match["close"]
        text.append(part)
    return re.compile("".join(text))


def _written_out(match: re.Match[str], inside: bool) -> str:
    part = match.group()
    if part in ("\\s", "\\S"):
        others = part == "\\S"
        if inside and others:
            raise ValueError(f"{match.string!r}: \\S inside of brackets is not supported")
        return WHITE_SPACE if inside else f"[{'^' * others}{WHITE_SPACE}]"
    name = match["long"] or match["short"]
    if name not in _ranges():
        raise ValueError(f"{match.string!r}: no class of characters is called {name!r}")
    return _ranges()[name] if inside else f"[{_ranges()[name]}]"
