"""Native code made of Python functions, from the disk cache where that is possible."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from livegrad.native.stored import Store, key_of
from livegrad.runtime.cpu import jit

STORE = Store(jit.stored_bytes, jit.store_bytes)


def words(functions: list[Any], kind: str) -> dict[Any, int]:
    """The addresses of functions of words (native/words.py), which are known as `kind` on disk."""
    from livegrad.native.install import addresses_of

    key = key_of(functions, kind)
    stored = STORE.look_up(key, {})
    if stored is not None:
        objects, _, code = stored
    else:
        # Imported when needed: the translator takes longer to import than to load what it made.
        from livegrad.native.words import translate_words

        made = translate_words(functions)
        objects, code = made.objects, jit.object_code(made.ir, inline=True)
        STORE.keep(key, made, {}, code)
    found = addresses_of(functions, objects, jit.load_object(code, "livegrad_native"))
    return dict(zip(functions, found, strict=True))


def is_stored(functions: list[FunctionType], kind: str) -> bool:
    """Whether a translation of functions is on disk."""
    return jit.stored_bytes(key_of(functions, kind)) is not None
