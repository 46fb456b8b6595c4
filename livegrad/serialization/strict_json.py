"""JSON from files nobody vouches for: no duplicate keys, no NaN, no depth or size without limit."""

from __future__ import annotations

import json
import re
from typing import Any

from livegrad.serialization.errors import MOST_OBJECTS

# The longest number that fits into 64 bits is -9223372036854775808.
_MOST_DIGITS = 20
# Strings, and what else is no bracket. `++` keeps no way back, which would cost memory.
_OTHERS = re.compile(r'(?:"[^"]*"|[^][{}"]+)++')


def parse(text: str, depth: int) -> Any:
    """The value of a JSON text whose brackets nest at most `depth` deep; ValueError otherwise."""
    _check_nesting(text, depth)
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_int=_limited_int,
        )
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _check_nesting(text: str, depth: int) -> None:
    """Counts brackets before anything recurses: each round takes away the innermost ones."""
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    brackets = _OTHERS.sub("", unescaped)
    if len(brackets) > 2 * MOST_OBJECTS:
        raise ValueError(f"it has more than {MOST_OBJECTS} lists and objects")
    for _ in range(depth):
        shorter = brackets.replace("[]", "").replace("{}", "")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    # What is left does not match; the parser says where, if there is little of it.
    if len(brackets) > depth:
        raise ValueError(f"it nests more than {depth} deep")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shown(key)} is there twice")
            seen.add(key)
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _limited_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; expected at most {_MOST_DIGITS}")
    return int(digits)


def shown(value: Any) -> str:
    """A value from a file for a message: quoted, escaped, and not long."""
    text = ascii(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 80 else text[:77] + "..."
