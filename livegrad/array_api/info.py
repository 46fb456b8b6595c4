"""What this implementation of the standard has: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

import livegrad as lg
from livegrad.array_api.dtype_functions import DTYPES, isdtype
from livegrad.dtypes import DType


class Info:
    """Answers of `__array_namespace_info__()`."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional behaviour is there."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Where arrays are made unless told otherwise."""
        return lg.device("cpu")

    def devices(self) -> list[Any]:
        """Where arrays can be."""
        return [lg.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Types of arrays that are made without naming one."""
        real = lg.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": lg.int64,
            "indexing": lg.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """All types, or those of a kind."""
        return {n: d for n, d in DTYPES.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> Info:  # noqa: N807 - the name is the standard's
    """What this implementation has."""
    return Info()
