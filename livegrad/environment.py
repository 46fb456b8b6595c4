"""Settings that come from environment variables: words, of which unknown ones are an error."""

from __future__ import annotations

import os


def words(name: str, known: str) -> frozenset[str]:
    """The words that the variable `name` lists, separated by commas; each must be `known`."""
    found = [word.strip() for word in os.environ.get(name, "").split(",")]
    for word in filter(None, found):
        if word not in known.split():
            import difflib  # for this message only

            near = difflib.get_close_matches(word, known.split(), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(known.split())
            raise ValueError(f"{name}: got {word!r}; expected one of: {listed}.{hint}")
    return frozenset(filter(None, found))
