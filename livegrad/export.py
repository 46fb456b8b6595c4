"""`torch.export`: names that programs import. There is no export yet; a call says so."""

from __future__ import annotations

from typing import Any, NoReturn

_NOT_YET = (
    "livegrad exports no programs yet. The model itself runs compiled, without a decorator; save "
    "its weights with save(model.state_dict(), path)"
)


class ExportedProgram:
    """What an export would make; there are none yet."""


class Dim:
    """The name of a size that may vary, for an export."""

    AUTO = STATIC = DYNAMIC = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__, self.min, self.max = name, min, max


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several sizes that may vary."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def export(*args: Any, **options: Any) -> NoReturn:
    """RuntimeError: says what to use."""
    raise RuntimeError(_NOT_YET)


export_for_training = draft_export = save = load = export


def register_dataclass(cls: Any, **options: Any) -> None:
    """Nothing: it would be used by an export."""
