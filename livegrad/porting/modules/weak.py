"""`torch.utils.weak`: dicts whose keys are compared by identity, and are not kept alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Values by objects; an entry goes when its key does."""

    def __init__(self, given: Any = None, ref_type: Any = None) -> None:
        self._entries: dict[int, tuple[Any, Any]] = {}
        if given is not None:
            self.update(given)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._entries[id(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        place, entries = id(key), self._entries
        self._entries[place] = (weakref.ref(key, lambda _: entries.pop(place, None)), value)

    def __delitem__(self, key: Any) -> None:
        del self._entries[id(key)]

    def __iter__(self) -> Iterator[Any]:
        alive = [reference() for reference, _ in list(self._entries.values())]
        return iter([key for key in alive if key is not None])

    def __len__(self) -> int:
        return len(self._entries)


WeakTensorKeyDictionary = WeakIdKeyDictionary
__all__ = ["WeakIdKeyDictionary", "WeakTensorKeyDictionary"]
