"""Looking for values that are not finite, of any number and sizes: a program for each dtype.

It is the kernel with which updates ask in a plan (compiler/finite.py), and its argument blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.dtypes import DType
from livegrad.graph.meta import Meta
from livegrad.graph.written import written_call
from livegrad.native.calls import put_word
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.cpu.assemble import kernel_for
from livegrad.runtime.cpu.driver import MAY_FAULT, SERIAL, SET_INPUT, Program
from livegrad.runtime.memory import Buffer

_GENERATOR = "livegrad.compiler.finite:generate_finite"
_AT_ONCE = 8
_SLOTS = 4
_TOLD = 3

# A value: its dtype and sizes, and where it is.
Values = Sequence[tuple[Meta, Buffer]]


@hot_slots
class _Program:
    """Looks at several values of a dtype in one call; complex ones are two `numbers` each."""

    __slots__ = ("kernel", "numbers", "program")

    def __init__(self, dtype: DType) -> None:
        self.numbers = 2 if dtype.is_complex else 1
        self.kernel = kernel_for(written_call(_GENERATOR, dtype.to_real()))
        patches = [
            (SET_INPUT, _SLOTS * block + slot, _TOLD * block + told, 0)
            for block in range(_AT_ONCE)
            for slot, told in ((0, 0), (1, 1), (2, 2), (3, 2))
        ]
        step = (self.kernel.address, 0, _AT_ONCE, _SLOTS, 1, MAY_FAULT | SERIAL)
        self.program = Program(patches, [0] * (_SLOTS * _AT_ONCE), [step])


_programs: dict[DType, _Program] = {}


@hot
def are_finite(values: Values) -> bool:
    """Whether no element of these is NaN or infinite."""
    looked: list[DType] = []
    for meta, _ in values:
        if meta.dtype not in looked:
            looked.append(meta.dtype)
            if not _finds_none(meta.dtype, values):
                return False
    return True


@hot
def _finds_none(dtype: DType, values: Values) -> bool:
    """Whether all values of a dtype are finite."""
    found = _programs.get(dtype)
    if found is None:
        found = _programs[dtype] = _Program(dtype)
    program = found.program
    place = 0
    for meta, buffer in values:
        if meta.dtype is dtype:
            told = program.input_address + 8 * _TOLD * place
            _tell(told, buffer.ptr, meta.numel * found.numbers)
            place += 1
            if place == _AT_ONCE:
                if program.run_prepared():
                    return False
                place = 0
    if not place:
        return True
    while place < _AT_ONCE:
        _tell(program.input_address + 8 * _TOLD * place, 0, 0)
        place += 1
    return not program.run_prepared()


@hot
def _tell(address: int, values: int, numel: int) -> None:
    """Where values lie that a kernel looks at, and how many there are."""
    put_word(address, 1 if numel > 0 else 0)
    put_word(address + 8, values)
    put_word(address + 16, numel)


__all__ = ["are_finite"]
