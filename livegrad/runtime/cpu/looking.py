"""Looking for values that are not finite, of any number and sizes: a program for each dtype.

It is the kernel with which updates ask in a plan (compiler/finite.py), and its argument blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.dtypes import DType
from livegrad.graph.meta import Meta
from livegrad.graph.written import written_call
from livegrad.runtime.cpu.assemble import kernel_for
from livegrad.runtime.cpu.driver import MAY_FAULT, SERIAL, SET_INPUT, Program
from livegrad.runtime.memory import Buffer

_GENERATOR = "livegrad.compiler.finite:generate_finite"
_AT_ONCE = 8
_SLOTS = 4

# A value: its dtype and sizes, and where it is.
Values = Sequence[tuple[Meta, Buffer]]


class _Program:
    """Looks at several values of a dtype in one call."""

    def __init__(self, dtype: DType) -> None:
        self.kernel = kernel_for(written_call(_GENERATOR, dtype))
        patches = [
            (SET_INPUT, _SLOTS * block + slot, 3 * block + told, 0)
            for block in range(_AT_ONCE)
            for slot, told in ((0, 0), (1, 1), (2, 2), (3, 2))
        ]
        step = (self.kernel.address, 0, _AT_ONCE, _SLOTS, 1, MAY_FAULT | SERIAL)
        self.program = Program(patches, [0] * (_SLOTS * _AT_ONCE), [step])

    def finds_none(self, values: Values) -> bool:
        for first in range(0, len(values), _AT_ONCE):
            told = []
            for meta, buffer in values[first : first + _AT_ONCE]:
                numel = meta.numel * (2 if meta.dtype.is_complex else 1)
                told += [int(numel > 0), buffer.ptr, numel]
            told += [0] * (3 * _AT_ONCE - len(told))
            if self.program.run(told):
                return False
        return True


_programs: dict[DType, _Program] = {}


def are_finite(values: Values) -> bool:
    """Whether no element of these is NaN or infinite; complex ones are pairs of reals."""
    kinds: dict[DType, list[tuple[Meta, Buffer]]] = {}
    for value in values:
        kinds.setdefault(value[0].dtype.to_real(), []).append(value)
    for dtype, members in kinds.items():
        program = _programs.get(dtype)
        if program is None:
            program = _programs[dtype] = _Program(dtype)
        if not program.finds_none(members):
            return False
    return True


__all__ = ["are_finite"]
