"""Operations on little data that are run when they are recorded, each by itself.

    if d[i] > 5: …     a program that reads after every few operations pays for a flush each time;
    x[i] += 1          and a table that is filled cell by cell is another graph every time

Once that has been seen some times, what computes little from values that are there is run on the
spot, by the plan of the one operation, and is never pending: as if a flush came right after it, so
bits do not depend on it. What repeats in large flushes stays lazy, and is fused. Now and then the
program is looked at again.

    flushes of few nodes, or of new ones ──► on ──► operations run alone ──► off, to look again
"""

from __future__ import annotations

import sys
from array import array
from typing import Any

from livegrad.device import CPU
from livegrad.graph.events import RAN, RECORDED
from livegrad.graph.handle import COUNTS_ARE_KNOWN, leaf_node, wrap
from livegrad.graph.node import Node, Spec
from livegrad.graph.state import AT_ONCE, LOCAL, STATES
from livegrad.native.calls import (
    call_native,
    half_at,
    int_at,
    object_at,
    put_half,
    put_word,
    quotient,
    remainder,
    word_at,
)
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import FLOAT_VALUE, REFERENCES, SIZE, TUPLE_ITEMS
from livegrad.native.subset import Untranslatable
from livegrad.ops.making.generate import number_everywhere
from livegrad.runtime import plans
from livegrad.runtime.cpu import translations
from livegrad.runtime.liveness import may_overwrite
from livegrad.runtime.memory import Arena, Buffer, allocate_from, home_of
from livegrad.runtime.snapshot import Snapshot
from livegrad.runtime.values import bits_at

# Nodes of a flush that is taken for one of few, and flushes of that kind until operations are run
# alone; one of a new structure counts for several.
FEW, ENOUGH, NEW = 8, 32, 8
# Operations run alone until flushes are looked at again, which then decide sooner.
_BETWEEN_LOOKS = 1 << 15
_SOONER = 8
# How often an operation is seen until its plan is made (one on numbers is the same whatever it is
# about), and how many have one.
_SIGHTS, _SIGHTS_OF_NUMBERS = 16, 4
_MOST_WAYS = 1024
# Elements of a result, and of what is read if all of it may be.
_LITTLE, _LITTLE_READ = 64, 1024
# Bytes of memory that programs may need meanwhile.
_SCRATCH = 1 << 16
# Bytes of an element that is copied without a kernel.
_COPIED = (1, 4, 8)


@hot_slots
class _Evidence:
    """What speaks for running operations alone, and how many will be until it is looked for."""

    __slots__ = ("flushes", "left")

    def __init__(self) -> None:
        self.flushes = 0
        self.left = 0


_EVIDENCE = _Evidence()
_ARENA = Arena()


@hot_slots
class Way:
    """How an operation is run alone: under the name of an input, or by native code that reads a
    table (see `_run`). `home` is where memory for the result comes from."""

    __slots__ = ("alias", "executable", "home", "nbytes", "table", "table_at")

    alias: int  # which input's name, or -1
    executable: Any  # whose program it is
    home: Any
    nbytes: int
    table: array[int]
    table_at: int


NEVER = Way()
_WAYS: list[Spec] = []


def forget() -> None:
    """Lets go of what is known, for tests and whoever plans anew."""
    for spec in _WAYS:
        spec.alone = None
    _WAYS.clear()
    _EVIDENCE.flushes = 0
    AT_ONCE.is_on = False


@hot
def note_flush(count: int) -> None:
    """Notes a flush of so many nodes whose structure was known."""
    if AT_ONCE.is_on:
        return
    if count > FEW:
        _EVIDENCE.flushes = 0
        return
    _EVIDENCE.flushes += 1
    if _EVIDENCE.flushes > ENOUGH:
        turn_on()


def note_new(nodes: list[Node]) -> None:
    """Notes a flush of a structure that is new, if no gradient has to do with it."""
    last = nodes[-1] if nodes else None
    if AT_ONCE.is_on or last is None or last.grad_to is not None or last.meta.numel > _LITTLE:
        return
    if last.spec.op.kind in ("gradient", "gradient_of", "update"):
        return
    _EVIDENCE.flushes += NEW
    if _EVIDENCE.flushes > ENOUGH:
        turn_on()


def turn_on() -> None:
    """Has operations on little data run when they are recorded, where that is possible."""
    _EVIDENCE.left = _BETWEEN_LOOKS
    AT_ONCE.by = sys.modules[__name__]
    AT_ONCE.is_on = COUNTS_ARE_KNOWN and _is_there()


def _turn_off() -> None:
    """Lets flushes show once more what the program is like."""
    _EVIDENCE.flushes = ENOUGH - _SOONER
    AT_ONCE.is_on = False


@hot
def _may_be() -> bool:
    """Whether nothing is different from what it is most often."""
    state = LOCAL.state
    return not (
        RECORDED
        or RAN
        or len(STATES) > 1
        or state.reference
        or state.held
        or state.flusher is not None
        or state.most < 0
    )


@hot
def run_alone(spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Buffer | None:
    """The result of an operation, if its inputs are computed and it is known how to run it."""
    way = spec.alone
    if way is NEVER:
        return None
    for x in inputs:
        if x.buffer is None:
            return None
    if not _may_be():
        return None
    if type(way) is not Way:
        way = _seen(spec, inputs, args)
        if way is None:
            return None
    if way.alias >= 0:
        made: Buffer = inputs[way.alias].buffer
    else:
        made = allocate_from(way.home, way.nbytes)
        if call_native(_CODE.address, way.table_at, id(inputs), id(args), id(made)) == 0:
            return None
    _EVIDENCE.left -= 1
    if _EVIDENCE.left < 0:
        _turn_off()
    return made


@hot
def _seen(spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Way | None:
    """Counts the wish to run an operation alone; its way, once there have been enough."""
    sights = spec.alone
    if sights is None:
        way = _noted(spec, _way_to_pick(spec, inputs))
        if way is not None:
            return way
        sights = 0
    if sights < (_SIGHTS if spec.meta.shape else _SIGHTS_OF_NUMBERS):
        spec.alone = sights + 1
        return None
    spec.alone = NEVER  # unless one is found now
    return _noted(spec, _way_by_plan(spec, inputs, args))


def _noted(spec: Spec, way: Way | None) -> Way | None:
    """Notes the way of an operation, if there is room for it."""
    if way is not None and len(_WAYS) < _MOST_WAYS:
        spec.alone = way
        _WAYS.append(spec)
        return way
    return None


def _way_to_pick(spec: Spec, inputs: tuple[Node, ...]) -> Way | None:
    shape = inputs[0].meta.shape if spec.op.picks else ()
    if not shape or spec.meta.dtype.itemsize not in _COPIED:
        return None
    items = spec.attrs[0]
    if len(items) != len(shape) or any([item[0] != "int" for item in items]):
        return None
    size = spec.meta.dtype.itemsize
    return _way(size, [_PICK, 1, len(shape), size, *[0] * (_KINDS - 4), *shape])


def _way(nbytes: int, table: list[int], executable: Any = None) -> Way:
    way = Way()
    way.alias, way.executable, way.nbytes = -1, executable, nbytes
    way.home = home_of(nbytes)
    way.table = array("q", table)
    way.table_at = way.table.buffer_info()[0]
    return way


def _way_by_plan(spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Way | None:
    if not _is_little(spec, inputs):
        return None
    node = Node()
    node.spec, node.meta, node.args = spec, spec.meta, args
    node.inputs = tuple([leaf_node(x.meta, x.buffer) for x in inputs])
    node.grad_to = node.buffer = node.cut = node.walked = node.site = None
    node.index, node.spent = 0, False
    if number_everywhere(node) is not None:
        return None  # who writes to it makes it: runtime/at_once.py
    snapshot = Snapshot([node], [wrap(node)], 0, (node,))
    return _way_of(plans.find(snapshot) or plans.make(snapshot), node)


def _is_little(spec: Spec, inputs: tuple[Node, ...]) -> bool:
    if spec.meta.numel > _LITTLE or spec.meta.device is not CPU:
        return False
    kind = spec.op.kind
    if kind in ("gradient", "gradient_of", "update", "host", "leaf"):
        return False
    return kind == "movement" or all([x.meta.numel <= _LITTLE_READ for x in inputs])


def _way_of(executable: Any, node: Node) -> Way | None:
    """A way by the program of a plan; None if it has more to it than a program."""
    plan, leaves = executable.plan, len(node.inputs)
    special = executable.specialised or executable.writes
    if special or executable.may_fault or len(executable.results) != 1 or plan.leaves != leaves:
        return None
    ((_, _, leaf),) = executable.results
    if leaf >= 0:
        way = _way(0, [], executable)
        way.alias = leaf
        return way
    if executable.follower is None or len(executable.fresh) != 1 or plan.arena > _SCRATCH:
        return None
    program = executable.runnable.segments[0].program
    words, scalars = program.memory
    put_word(words, _ARENA.reserve(_SCRATCH))
    kinds = [node.spec.floats or type(a) is float for a in node.args]
    told = [_PROGRAM, leaves, len(kinds), words, scalars, words + 8 * plan.first_int]
    return _way(executable.fresh[0], [*told, *program.entry, *kinds], executable)


# ------------------------------------------------------------------------------------- running
#
# table   0 kind   1 inputs   2 numbers, or dims   3 words, or bytes of an element   4 scalars
#         5 integers   6 native code   7 program   8 … which numbers are floats, or sizes

_PROGRAM, _PICK = 0, 1
_KINDS = 8


def _run(table: int, inputs: int, args: int, made: Buffer) -> int:
    """Runs an operation; 0 if that is not possible. A function of words (native/words.py)."""
    target = int_at(id(made.ptr))
    if word_at(table) == _PICK:
        source: Node = object_at(inputs + TUPLE_ITEMS)
        whole: Buffer = source.buffer
        if type(whole) is not Buffer:
            return 0
        return _copy_element(table, int_at(id(whole.ptr)), args, target)
    words = word_at(table + 24)
    for i in range(word_at(table + 8)):
        node: Node = object_at(inputs + TUPLE_ITEMS + 8 * i)
        buffer: Buffer = node.buffer
        if type(buffer) is not Buffer:
            return 0
        words += 8
        put_word(words, int_at(id(buffer.ptr)))
    put_word(words + 8, target)
    if not _set_numbers(table, args):
        return 0
    status = call_native(
        word_at(table + 48), word_at(table + 56), word_at(table + 24), word_at(table + 32)
    )
    if status != 0:
        return 0
    return 1


def _copy_element(table: int, address: int, args: int, target: int) -> int:
    """Copies the element that an index for each dim tells."""
    place = 0
    for d in range(word_at(table + 16)):
        index = int_at(word_at(args + TUPLE_ITEMS + 8 * d))
        place = place * word_at(table + 8 * _KINDS + 8 * d) + index
    size = word_at(table + 24)
    at = address + place * size
    if size == 8:
        put_word(target, word_at(at))
    elif size == 4:
        put_half(target, half_at(at))
    else:
        beside = remainder(at, 4)
        bits = half_at(at - beside)
        for _ in range(beside):
            bits = quotient(bits, 256)
        put_word(target, remainder(bits, 256))
    return 1


def _set_numbers(table: int, args: int) -> bool:
    """Sets the numbers of a program, if they are of the kinds that it was made for."""
    floats, ints = word_at(table + 32), word_at(table + 40)
    count = word_at(table + 16)
    if word_at(args + SIZE) != count:
        return False
    for i in range(count):
        x = object_at(args + TUPLE_ITEMS + 8 * i)
        if word_at(table + 8 * _KINDS + 8 * i) != 0:
            if type(x) is not float:
                return False
            put_word(floats, word_at(id(x) + FLOAT_VALUE))
            floats += 8
        elif type(x) is int or type(x) is bool:
            put_word(ints, int_at(id(x)))
            ints += 8
        else:
            return False
    return True


_FUNCTIONS: list[Any] = [_run, _copy_element, _set_numbers]


@hot_slots
class _Code:
    """The address of `_run`, once it is known."""

    __slots__ = ("address",)

    def __init__(self) -> None:
        self.address = 0


_CODE = _Code()


def _is_there() -> bool:
    """Whether there is native code to run operations with: there may be no source files."""
    if not _CODE.address:
        try:
            _CODE.address = translations.words(_FUNCTIONS, "alone")[_run]
        except (Untranslatable, OSError):
            return False
    return True


# ------------------------------------------------------------------------------------- writing


@hot
def _place_of(shape: tuple[int, ...], args: tuple[int, ...]) -> int:
    """Where an element is that has an index for each dim."""
    place = 0
    for d in range(len(shape)):
        place = place * shape[d] + args[d]
    return place


@hot
def put_element(
    holder: Any, referrers: int, items: tuple[Any, ...], args: tuple[int, ...], value: Node
) -> bool:
    """Writes an element of what a tensor or a cell holds where it lies, if nobody can tell.

    `referrers` are those to the node that see what is written: the holder, and perhaps others.
    """
    node: Node = holder._node
    buffer, source = node.buffer, value.buffer
    meta = node.meta
    shape, size = meta.shape, meta.dtype.itemsize
    if type(buffer) is not Buffer or type(source) is not Buffer or size not in _COPIED:
        return False
    if len(items) != len(shape) or value.meta.dtype is not meta.dtype or value.meta.numel != 1:
        return False
    for item in items:
        if item[0] != "int":
            return False
    if not _may_be():
        return False
    # Ours besides, and the node's.
    others = half_at(id(node) + REFERENCES) - referrers - 1
    others_of_buffer = half_at(id(buffer) + REFERENCES) - 2
    if not may_overwrite(others, buffer, others_of_buffer):
        return False
    address = buffer.ptr + _place_of(shape, args) * size
    bits = bits_at(source.ptr, size)
    if size == 8:
        put_word(address, bits)
    elif size == 4:
        put_half(address, bits)
    else:
        _put_byte(address, bits)
    return True


@hot
def _put_byte(address: int, byte: int) -> None:
    """Stores 8 bits, as a part of the 32 that they are among."""
    beside = remainder(address, 4)
    bits, unit = half_at(address - beside), 1
    for _ in range(beside):
        unit = unit * 256
    before = remainder(quotient(bits, unit), 256)
    put_half(address - beside, bits + (byte - before) * unit)
