"""Native code made of Python functions, from the disk cache where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import FunctionType
from typing import Any

from livegrad.native import layout
from livegrad.native.collector import lasting
from livegrad.native.hot import CLASSES
from livegrad.native.install import addresses_of, know_places, link
from livegrad.native.stored import Store, key_of
from livegrad.native.watch import Watch
from livegrad.runtime.cpu import jit

_STORE = Store(jit.stored_bytes, jit.store_bytes)
_ENTRY = "livegrad_native"
HOT = "hot"


def words(functions: list[Any], kind: str) -> dict[Any, int]:
    """The addresses of functions of words (native/words.py), which are known as `kind` on disk."""
    key = key_of(functions, kind)
    stored = _STORE.look_up(key, {})
    if stored is not None and jit.is_usable(stored.code):
        objects, code = stored.objects, stored.code
    else:
        # Imported when needed: the translator takes longer to import than to load what it made.
        from livegrad.native.words import translate_words

        made = translate_words(functions)
        objects, code = made.objects, jit.object_code(made.ir, inline=True)
        # Nobody watches the constants of these.
        _STORE.keep(key, made._replace(constants=[]), [], {}, code)
    found = addresses_of(functions, objects, jit.load_object(code, _ENTRY))
    return dict(zip(functions, found, strict=True))


def hot_functions(
    functions: list[FunctionType],
    before: dict[FunctionType, Any],
    originals: dict[int, FunctionType],
    compiled: Callable[[str], Generator[bool, None, bytes]],
) -> Generator[bool, None, tuple[dict[FunctionType, Any], Watch]]:
    """Hot functions as native ones, and what they took for constants; in slices.

    Some have been made `before`; `originals` are the functions of all that were, by their ids.
    """
    if not layout.is_known():
        raise RuntimeError("this interpreter is not known")
    key = _key_of_hot(functions)
    with lasting():
        stored = _STORE.look_up(key, originals)
    if stored is not None and jit.is_usable(stored.code):
        objects, constants, code = stored.objects, stored.constants, stored.code
        know_places(stored.places)
    else:
        know_places({})
        from livegrad.native.translate import translate_in_slices

        natives = {native: function for function, native in before.items()}
        unit = yield from translate_in_slices(layout.slots_of(CLASSES), functions, natives)
        objects, constants = unit.objects, unit.constants
        code = jit.stored_object_code(unit.ir) or (yield from compiled(unit.ir))
        _STORE.keep(key, unit, functions, originals, code)
    made = link(functions, objects, jit.load_object(code, _ENTRY))
    originals.update({id(native): function for function, native in made.items()})
    return made, Watch(constants, originals)


def are_stored(functions: list[FunctionType], kind: str = HOT) -> bool:
    """Whether functions are on disk as native ones."""
    key = _key_of_hot(functions) if kind == HOT else key_of(functions, kind)
    return layout.is_known() and _STORE.has(key)


def _key_of_hot(functions: list[FunctionType]) -> str:
    """Native code refers to classes whose slots it reads, too: `nn.Parameter`, if it is there."""
    classes = sorted([f"{cls.__module__}.{cls.__qualname__}" for cls in CLASSES])
    return key_of(functions, " ".join([HOT, *classes]))


def can_store() -> bool:
    """Whether there is a disk cache."""
    return jit.disk_cache().directory is not None
