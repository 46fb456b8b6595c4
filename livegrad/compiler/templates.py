"""Code generation: rows and columns kernels from their signatures.

Argument block (int64 slots), see runtime/cpu/driver.py for the calling convention:

    0 work items    1 rank of the outer loops    2 inner size    3 middle size
    4 inner block   5 inner blocks               6 middle block  7 middle blocks
    8 scratch bytes per spilled row              9 rows
    10 … sizes of the outer loops, innermost last
    then per stream: address, bytes per inner step, per middle step, per step of each outer loop
    then numbers (bits), then per gather: bytes per step of its dim, size of its dim
    then per product: address of what multiplies, terms, bytes per term of its operands, the slot of
    what is told about windows, outer steps that an item takes, and how many there are, of how many
    items a band of rows is, and of how many columns are taken together

A work item is one block of one row range: (outer counters, middle block, inner block), the last of
which runs fastest; where there are products, the middle one does, in a band of rows after another.
Rows kernels vectorise the inner loop and fold over it; columns kernels vectorise the inner loop and
fold over the middle one.
"""

from __future__ import annotations

from collections.abc import Callable

from livegrad import dtypes
from livegrad.compiler.builder import Builder
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.folding import Reduction
from livegrad.compiler.reducers import REDUCERS
from livegrad.compiler.signature import BACKWARDS, EVERY_OTHER, Instr, Store, Stream
from livegrad.compiler.stages import Stages
from livegrad.compiler.values import Machine, Value
from livegrad.dtypes import DType
from livegrad.graph.op import REGISTRY, Op

HEADER = 10
RECORD = 3  # slots of a stream's record before its outer strides
PRODUCT = 9  # slots of a product

PARAMS = (("ptr", "args"), ("i64", "begin"), ("i64", "end"), ("ptr", "ctx"))


def kernel_builder(machine: Machine) -> Builder:
    """What a kernel is written with: the function `kernel`, called as the driver calls it."""
    return Builder("kernel", PARAMS, machine)


def _count(instrs: tuple[Instr, ...], what: str, place: int) -> int:
    """How many slots there are for instructions of one kind, whose payloads say which is theirs."""
    return 1 + max([i.payload[place] for i in instrs if i.what == what], default=-1)


def _each_twice(half: int, lanes: int) -> list[int]:
    """Half of the lanes, each of them twice."""
    return [half * lanes // 2 + i // 2 for i in range(lanes)]


class Template:
    """What rows and columns kernels have in common: addressing, stages, evaluation."""

    def __init__(
        self,
        b: Builder,
        streams: tuple[Stream, ...],
        instrs: tuple[Instr, ...],
        outputs: tuple[Store, ...],
    ) -> None:
        self.b = b
        self.args, self.begin, self.end, self.ctx = self.b.params
        self.streams = streams
        self.instrs = instrs
        self.outputs = outputs
        stages = Stages(instrs, outputs)
        self.stage, self.passes, self.spills = stages.stage, stages.passes, stages.spills
        self.kept: dict[int, Value] = {}  # values that do not change along the folded loop
        self.emitters: dict[DType, Emitter] = {}
        self.active: Value | None = None  # the lanes that hold elements, if not all do
        self.current: Instr | None = None  # what is being computed, to be named by its faults

    def e(self, dtype: DType) -> Emitter:
        """The emitter that computes in `dtype`."""
        found = self.emitters.get(dtype)
        if found is None:
            found = self.emitters[dtype] = Emitter(self.b, dtype)
            found.on_fault = self.report_fault
        return found

    # --------------------------------------------------------------------------- arguments

    def arg(self, slot: int | Value, type: str = "i64") -> Value:
        """What is in a slot of the argument block."""
        return self.b.load(type, self.b.gep(self.args, "i64", slot))

    def read_header(self) -> None:
        """Loads the header and works out where the records lie."""
        b = self.b
        self.rank, self.inner, self.middle = self.arg(1), self.arg(2), self.arg(3)
        self.inner_block, self.inner_blocks = self.arg(4), self.arg(5)
        self.middle_block, self.middle_blocks = self.arg(6), self.arg(7)
        self.record = b.add(self.rank, RECORD)
        self.records = b.add(self.rank, HEADER)
        numbers = b.add(self.records, b.mul(self.record, len(self.streams)))
        self.numbers = numbers
        self.bases = [self._record(k, 0, "ptr") for k in range(len(self.streams))]
        self.steps = [self._record(k, 1, "i64") for k in range(len(self.streams))]
        self.middle_steps = [self._record(k, 2, "i64") for k in range(len(self.streams))]
        for i, instr in enumerate(self.instrs):
            if instr.what == "number":
                self.kept[i] = self._load_number(*instr.payload)
            elif instr.fixed:
                self.kept[i] = self._fixed_value(instr)

    def _fixed_value(self, instr: Instr) -> Value:
        """A value that is the same for all work items."""
        if instr.what == "load":
            return self.e(instr.dtype).load_scalar(instr.dtype, self.bases[instr.payload])
        return self.compute(instr, self.kept_operands(instr))

    def _record(self, stream: int, field: int, type: str) -> Value:
        b = self.b
        slot = b.add(self.records, b.add(b.mul(self.record, stream), field))
        if type == "ptr" and self.streams[stream].kind == "position":
            type = "i64"
        return self.arg(slot, type)

    def _load_number(self, slot: int, kind: str) -> Value:
        return self.arg(self.b.add(self.numbers, slot), "double" if kind == "f" else "i64")

    def gather_arg(self, slot: int, field: int) -> Value:
        """Bytes per step (field 0) or size (field 1) of a gathered dim."""
        numbers = _count(self.instrs, "number", 0)
        return self.arg(self.b.add(self.numbers, numbers + 2 * slot + field))

    def product_arg(self, number: int, field: int, type: str = "i64") -> Value:
        """What is told about a product."""
        before = _count(self.instrs, "number", 0) + 2 * _count(self.instrs, "gather", 1)
        return self.arg(self.b.add(self.numbers, before + PRODUCT * number + field), type)

    # -------------------------------------------------------------------------- addressing

    def move(self, base: Value, distance: Value) -> Value:
        """An address (or position) moved by a distance in bytes (or elements)."""
        if base.type == "ptr":
            return self.b.gep(base, "i8", distance)
        return self.b.add(base, distance)

    def outer_bases(self, outer: Value) -> list[Value]:
        """Stream addresses at outer counter `outer`, taken apart into the outer loops' counters."""
        b = self.b
        with b.loop(0, self.rank, 1, [outer, *self.bases]) as loop:
            rest, *bases = loop.carried
            d = b.sub(b.sub(self.rank, 1), loop.index)
            size = self.arg(b.add(d, HEADER))
            counter = b.urem(rest, size)
            moved = []
            for k, base in enumerate(bases):
                slot = b.add(b.add(self.records, b.mul(self.record, k)), b.add(d, RECORD))
                moved.append(self.move(base, b.mul(counter, self.arg(slot))))
            loop.update(b.udiv(rest, size), *moved)
        return list(loop.results[1:])

    # ------------------------------------------------- a vector of a stream, from `at` on

    def lane_index(self, at: Value) -> Value:
        """The numbers of the elements."""
        return self.b.add(self.b.splat(at), self.b.iota())

    def _strided(self, stream: int, at: Value) -> Value:
        b = self.b
        step = b.sdiv(self.steps[stream], self.streams[stream].dtype.itemsize)
        return b.mul(self.lane_index(at), b.splat(step))

    def positions(self, stream: int, base: Value, at: Value) -> Value:
        """Where the elements are in their node, counted in row-major order."""
        b = self.b
        lanes = b.mul(self.lane_index(at), b.splat(self.steps[stream]))
        return b.add(b.splat(base), lanes)

    def load(self, stream: int, base: Value, at: Value, mask: Value | None) -> Value:
        """The elements; one for all if the stream stays where it is."""
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        e = self.e(dtype)
        if step == 1:
            return e.load(dtype, self.b.gep(base, memory_element(dtype), at), mask)
        if step == 0:
            return e.load_scalar(dtype, base)
        if step == BACKWARDS:
            return self._backwards(dtype, base, at, mask)
        if step == EVERY_OTHER:
            places = self._every_other(dtype, base, at, mask)
            low, high = [e.load(dtype, place, there) for place, there in places]
            return self.b.shuffle(low, range(0, 2 * self.b.lanes, 2), high)
        return e.gather(dtype, base, self._strided(stream, at), mask)

    def _backwards(self, dtype: DType, base: Value, at: Value, mask: Value | None) -> Value:
        """The elements before one another, loaded at once and turned round."""
        b, turned = self.b, range(self.b.lanes - 1, -1, -1)
        first = b.neg(b.add(at, b.lanes - 1))
        there = None if mask is None else b.shuffle(mask, turned)
        place = b.gep(base, memory_element(dtype), first)
        return b.shuffle(self.e(dtype).load(dtype, place, there), turned)

    def _every_other(
        self, dtype: DType, base: Value, at: Value, mask: Value | None
    ) -> list[tuple[Value, Value]]:
        """Where two vectors are that hold every other element, and a mask of these: others may
        belong to somebody else."""
        b, lanes = self.b, self.b.lanes
        place = b.gep(base, memory_element(dtype), b.mul(at, 2))
        there = b.icmp("eq", b.and_(b.iota("i32"), 1), 0)
        found = []
        for half in range(2):
            own = there
            if mask is not None:
                own = b.and_(own, b.shuffle(mask, _each_twice(half, lanes)))
            found.append((b.gep(place, memory_element(dtype), half * lanes), own))
        return found

    def gather(
        self, instr: Instr, where: Value, base: Value, at: Value, mask: Value | None
    ) -> Value:
        """The elements at positions of a dim that an index gives."""
        b = self.b
        stream, slot = instr.payload
        good = self.position_ok(instr, b.sext(where, "i64"), mask)
        distance = self.gather_arg(slot, 0)
        if good.type == "i64":
            return self.load(stream, self.move(base, b.mul(good, distance)), at, mask)
        place = b.mul(good, b.splat(b.sdiv(distance, instr.dtype.itemsize)))
        if self.streams[stream].step:
            place = b.add(place, self._strided(stream, at))
        return self.e(instr.dtype).gather(instr.dtype, base, place, mask)

    def store(self, stream: int, value: Value, base: Value, at: Value, mask: Value | None) -> None:
        """Writes the elements."""
        dtype, step = self.streams[stream].dtype, self.streams[stream].step
        e = self.e(dtype)
        if step == 1:
            e.store(dtype, value, self.b.gep(base, memory_element(dtype), at), mask)
        elif step == EVERY_OTHER:
            halves = self._every_other(dtype, base, at, mask)
            for half, (place, there) in enumerate(halves):
                spread = self.b.shuffle(self.wide(value), _each_twice(half, self.b.lanes))
                e.store(dtype, spread, place, there)
        else:
            e.scatter(dtype, value, base, self._strided(stream, at), mask)

    # -------------------------------------------------------------------------- evaluation

    def keep(self, stage: int) -> None:
        """Computes the values that became available at `stage`, and do not change along a fold."""
        for i, instr in enumerate(self.instrs):
            later = instr.full or instr.tail or instr.what == "reduce"
            if not later and self.stage[i] == stage and i not in self.kept:
                self.kept[i] = self.kept_value(instr)

    def kept_value(self, instr: Instr) -> Value:
        """The value of an instruction that does not change along a fold."""
        raise NotImplementedError

    def kept_operands(self, instr: Instr) -> list[Value]:
        """The operands of such an instruction."""
        return [self.kept[i] for i in instr.operands if i >= 0]

    def elements(
        self,
        instr: Instr,
        operands: list[Value],
        base: Callable[[int], Value],
        at: Value,
        mask: Value | None,
    ) -> Value:
        """The values of an instruction from `at` on; `base` says where its streams are."""
        if instr.what == "load":
            return self.load(instr.payload, base(instr.payload), at, mask)
        if instr.what == "position":
            return self.positions(instr.payload, base(instr.payload), at)
        if instr.what == "gather":
            return self.gather(instr, operands[0], base(instr.payload[0]), at, mask)
        return self.compute(instr, operands)

    def compute(self, instr: Instr, operands: list[Value]) -> Value:
        """The value of an op or generate instruction."""
        op = REGISTRY[instr.payload[0] if instr.what == "op" else instr.payload]
        assert op.emit is not None
        if instr.what == "generate":
            return self._generated(op, instr, operands)
        compute = instr.payload[1]
        self.current = instr
        e = self.e(compute)
        values = []
        for position, (x, i) in enumerate(zip(operands, instr.operands, strict=True)):
            source = self.instrs[i]
            # A number may keep the precision that half precisions are computed in.
            keeps = source.what == "number" and not op.narrows
            target = compute.compute if keeps else compute
            values.append(e.convert(x, source.dtype, target) if op.converts(position) else x)
        result = op.emit(e, *values)
        made = dtypes.bool_ if op.result == "bool" else compute
        # Half precisions are computed in float32: rounded here, whether stored or not.
        return e.round_to(e.convert(result, made, instr.dtype), instr.dtype)

    def _generated(self, op: Op, instr: Instr, operands: list[Value]) -> Value:
        """A value made from numbers and, unless it is the same everywhere, the position."""
        e = self.e(instr.dtype)
        position = operands.pop(0) if instr.operands[0] >= 0 else None
        kinds = [self.instrs[i].dtype for i in instr.operands[1:]]
        # Integers that go with a position (seeds, offsets) keep their 64 bits.
        numbers = [
            x if position is not None and k is dtypes.int64 else e.convert(x, k, instr.dtype)
            for x, k in zip(operands, kinds, strict=True)
        ]
        assert op.emit is not None
        value: Value = op.emit(e, position, *numbers)
        return e.round_to(value, instr.dtype)

    def wide(self, value: Value) -> Value:
        """A vector of a value that may be one for all."""
        return value if value.type.startswith("<") else self.b.splat(value)

    # ------------------------------------------------------------------------------- folding

    def reductions_of(self, reduces: list[int]) -> list[Reduction]:
        """The reductions of a pass: their reducers, with the emitters of their values."""
        instrs = [self.instrs[i] for i in reduces]
        emitters = [self.e(self.instrs[instr.operands[0]].dtype) for instr in instrs]
        reducers = [REDUCERS[instr.payload] for instr in instrs]
        return list(zip(reducers, emitters, strict=True))

    def folded_values(self, reduces: list[int], value: Callable[[int], Value]) -> list[Value]:
        """What the reductions of a pass fold in one round; `value` gives that of an instruction."""
        return [value(self.instrs[i].operands[0]) for i in reduces]

    def keep_folds(self, reduces: list[int], values: list[Value]) -> None:
        """Keeps what the reductions of a pass came to."""
        for i, (reducer, e), value in zip(
            reduces, self.reductions_of(reduces), values, strict=True
        ):
            self.kept[i] = e.convert(value, reducer.output(e.dtype), self.instrs[i].dtype)

    def position_ok(self, instr: Instr, where: Value, mask: Value | None) -> Value:
        """Where a gather reads, if that is inside its dim, else 0 with a fault reported."""
        b = self.b
        size = self.gather_arg(instr.payload[1], 1)
        self.current = instr
        vectorised = where.type != "i64"
        limit = b.splat(size) if vectorised else size
        good = b.icmp("ult", where, limit)
        bad = b.not_(good)
        if mask is not None and vectorised:
            bad = b.and_(bad, mask)
        self.report_fault(bad, where)
        return b.select(good, where, b.const(where.type, 0))

    def report_fault(self, bad: Value, value: Value | None = None) -> None:
        """If any of `bad`, notes whose fault it is and one of the integers that caused it."""
        b = self.b
        assert self.current is not None
        code = 1 + self.instrs.index(self.current)
        vectorised = bad.type.startswith("<")
        if vectorised and self.active is not None:
            bad = b.and_(bad, self.active)
        with b.if_(b.any_lane(bad) if vectorised else bad):
            b.store(b.const("i64", code), self.ctx)
            if value is None:
                return
            wide = b.sext(value, "i64")
            if vectorised:
                wide = b.reduce_lanes(b.select(bad, wide, b.const(wide.type, -(1 << 63))), b.smax)
            b.store(wide, b.gep(self.ctx, "i64", 1))
