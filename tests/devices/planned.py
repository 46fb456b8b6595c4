"""A device that is given whole plans and follows them with NumPy: what a plan says is enough.

Memory is bytes of its own; an address is the number of a buffer and an offset in it. What is run is
put in a queue and done when somebody waits, as on a device that works on its own.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from livegrad.compiler.alone_slopes import generate_alone_slopes
from livegrad.compiler.channel_lanes import generate_channel_lanes
from livegrad.compiler.columns import generate_columns
from livegrad.compiler.few_rows import generate_product
from livegrad.compiler.image_lanes import generate_image_lanes
from livegrad.compiler.output_lanes import generate_output_lanes
from livegrad.compiler.plan import (
    ADD_INPUT,
    CLEAR_IF_SAME,
    SET_CONSTANT,
    SET_INPUT,
    SET_SCALAR,
    Block,
    Plan,
    Slot,
    Step,
)
from livegrad.compiler.signature import Instr
from livegrad.compiler.templates import HEADER, PRODUCT, RECORD
from livegrad.compiler.windows import ALL_DIMS, EACH_DIM, generate_conv
from livegrad.device import register
from livegrad.dtypes import DType, int64
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import REGISTRY
from livegrad.ops.reductions.sorting import stable_order
from livegrad.runtime.cpu.host_steps import host_reference
from livegrad.runtime.fault import Fault
from livegrad.runtime.protocol import Runnable
from livegrad.runtime.values import cast, from_compute, to_compute
from tests.devices.planned_layers import run_attention, run_panels, run_recurrent
from tests.devices.planned_products import Product

Array = np.ndarray[Any, Any]


class Bytes:
    """A buffer that nothing of the CPU's can read."""

    def __init__(self, nbytes: int) -> None:
        self.bytes = np.zeros(nbytes, np.uint8)


class Planned:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.queue: list[Callable[[], None]] = []
        self.plans: list[Plan] = []
        self.runs = 0

    def copy_in(self, values: Array, meta: Meta) -> Bytes:
        buffer = self.allocate(meta.nbytes)
        buffer.bytes[:] = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        return buffer

    def copy_out(self, buffer: Bytes, meta: Meta) -> Array:
        self.wait()
        values: Array = buffer.bytes.view(meta.dtype.storage).reshape(meta.shape)
        values.flags.writeable = False
        return values

    def allocate(self, nbytes: int) -> Bytes:
        return Bytes(nbytes)

    def assemble(self, plan: Plan) -> Follows:
        self.plans.append(plan)
        return Follows(self, plan)

    def wait(self) -> None:
        while self.queue:
            self.queue.pop(0)()


class Follows(Runnable):
    """A plan, to be followed step by step."""

    def __init__(self, backend: Planned, plan: Plan) -> None:
        self.backend, self.plan = backend, plan
        self.found: Fault | None = None

    def run(self, buffers: Sequence[Bytes], ints: list[int], floats: list[float]) -> None:
        self.backend.runs += 1
        self.found = None
        self.backend.queue.append(lambda: self._work(Memory(self.plan, buffers, ints, floats)))

    def _work(self, memory: Memory) -> None:
        for number, step in enumerate(self.plan.steps):
            try:
                with np.errstate(all="ignore"):
                    run_step(memory, step)
            except Refused as refused:
                self.found = Fault(number, code=refused.code, value=refused.value)
            except (IndexError, ValueError, RuntimeError) as error:
                self.found = Fault(number, type(error), str(error))
            if self.found is not None:
                return

    def fault(self) -> Fault | None:
        self.backend.wait()
        return self.found


class Refused(Exception):
    """An instruction has refused a value."""

    def __init__(self, code: int, value: int) -> None:
        self.code, self.value = code, value


class Memory:
    """What a plan runs on: the memory that addresses mean, and numbers."""

    def __init__(
        self, plan: Plan, buffers: Sequence[Bytes], ints: list[int], floats: list[float]
    ) -> None:
        self.bytes = [np.zeros(plan.arena, np.uint8), *[b.bytes for b in buffers]]
        self.inputs = [(i + 1) << 40 for i in range(len(self.bytes))] + ints
        self.ints, self.floats = ints, floats

    def view(self, address: int, dtype: DType, shape: Any, strides: Any = None) -> Array:
        if 0 in shape:
            return np.zeros(shape, dtype.storage)
        memory, offset = self.bytes[(address >> 40) - 1], address & ((1 << 40) - 1)
        return np.ndarray(shape, dtype.storage, memory.data, offset, strides)

    def number(self, arg: Any) -> Any:
        """A number, or the one that a run has brought along."""
        if not isinstance(arg, Slot):
            return arg
        return (self.floats if arg.is_float else self.ints)[arg.number]

    def slots(self, block: Block) -> list[int]:
        """An argument block with its patches made."""
        slots = list(block.slots)
        for kind, at, source, value in block.patches:
            if kind == SET_INPUT:
                slots[at] = self.inputs[source] + value
            elif kind == ADD_INPUT:
                slots[at] += self.inputs[source] * value
            elif kind == SET_SCALAR:
                (slots[at],) = struct.unpack("<q", struct.pack("<d", self.floats[source]))
            elif kind == CLEAR_IF_SAME:
                slots[at] *= self.inputs[source] != self.inputs[value]
            else:
                assert kind == SET_CONSTANT
                slots[at] = value
        return slots


def run_step(memory: Memory, step: Step) -> None:
    if step.host is not None:
        run_host(memory, step.host)
    else:
        for block in step.blocks:
            slots = memory.slots(block)
            if step.signature[0] is generate_alone_slopes:
                run_alone_slopes(memory, slots, step.signature)
            elif step.kind in KINDS:
                KINDS[step.kind](memory, slots, step.signature)
            else:
                Loops(memory, slots, step.signature, [x for _, x in step.calls]).run()


def run_host(memory: Memory, call: Any) -> None:
    metas = [meta_of(*each) for each in zip(call.shapes, call.dtypes, strict=True)]
    views = [
        memory.view(memory.inputs[where.slot] + where.offset, meta.dtype, meta.shape)
        for where, meta in zip(call.wheres, metas, strict=True)
    ]
    numbers = [memory.number(a) for a in call.args]
    inputs = [SimpleNamespace(meta=meta) for meta in metas[1:]]
    n = SimpleNamespace(attrs=call.attrs, args=tuple(numbers), inputs=inputs, meta=metas[0])
    arrays = [to_compute(x, meta.dtype) for x, meta in zip(views[1:], metas[1:], strict=True)]
    result = host_reference(REGISTRY[call.op])(n, *arrays)
    views[0][...] = from_compute(result, metas[0].dtype).reshape(metas[0].shape)


def run_move(memory: Memory, slots: list[int], signature: Any) -> None:
    target, source = [memory.view(address, signature[1], (slots[3],)) for address in slots[1:3]]
    if slots[0]:
        target[...] = source


def run_scan(memory: Memory, slots: list[int], signature: Any) -> None:
    _, kind, operands, result, _ = signature
    shape = (slots[0] // slots[7], slots[4], slots[5])
    out = memory.view(slots[1], result, shape)[:, :: slots[9]]
    columns = [
        to_compute(memory.view(slots[2 + i], dtype, shape), dtype)[:, :: slots[9]]
        for i, dtype in enumerate(operands)
    ]
    for outer, inner in np.ndindex(shape[0], shape[2]):
        scanned = SCANS[kind](*[x[outer, :, inner] for x in columns])
        out[outer, :, inner] = from_compute(scanned, result)


def recurrence(x: Array, factor: Array) -> list[float]:
    found, total = [], 0.0
    for value, by in zip(x.tolist(), factor.tolist(), strict=True):
        total = value + by * total
        found.append(total)
    return found


def last_extreme(better: Callable[[float, float], bool], x: Array) -> list[int]:
    """Where the extreme of what was seen so far was seen last."""
    found: list[int] = []
    for i, value in enumerate(x.tolist()):
        found.append(i if not found or better(value, x[found[-1]]) else found[-1])
    return found


def wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "f" else x.astype(np.int64)


SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": lambda x: np.cumsum(wide(x)),
    "cumprod": lambda x: np.cumprod(wide(x)),
    "logcumsumexp": lambda x: np.logaddexp.accumulate(wide(x)),
    "recurrence": recurrence,
    "cummax": partial(last_extreme, operator.ge),
    "cummin": partial(last_extreme, operator.le),
}
MEETS: dict[str, Callable[..., Any]] = {
    "add": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum,
    "put": lambda old, new: new,
}  # fmt: skip


def run_scatter(memory: Memory, slots: list[int], signature: Any) -> None:
    _, per_value, fold, dtype, index_dtype = signature
    outer, (size, count, inner) = slots[0] // slots[9], slots[5:8]
    out = memory.view(slots[1], dtype, (outer, size, inner))
    out[...] = memory.view(slots[2], dtype, (outer, size, inner))
    values = memory.view(slots[4], dtype, (outer, count, inner))
    shape = values.shape if per_value else (1, count, 1)
    index = np.broadcast_to(memory.view(slots[3], index_dtype, shape), values.shape)
    for o, i, column in np.ndindex(values.shape):
        row = int(index[o, i, column])
        if not 0 <= row < size:
            raise Refused(1, row)
        out[o, row, column] = MEETS[fold](out[o, row, column], values[o, i, column])


def run_sort(memory: Memory, slots: list[int], signature: Any) -> None:
    _, dtype, descending, _ = signature
    columns, result, address, size, inner, wanted = slots
    outer = columns // max(inner, 1)
    x = to_compute(memory.view(address, dtype, (outer, size, inner)), dtype)
    found = memory.view(result, int64, (outer, wanted, inner))
    found[...] = stable_order(x, 1, descending)[:, :wanted]


def run_sparse(memory: Memory, slots: list[int], signature: Any) -> None:
    dtype = signature[1]
    result, begins, at, given, matrix, rows, count, size, width = slots[1:10]
    out = memory.view(result, dtype, (rows, width))
    offsets = memory.view(begins, int64, (rows + 1,))
    columns, values = memory.view(at, int64, (count,)), memory.view(given, dtype, (count,))
    dense = memory.view(matrix, dtype, (size, width))
    for row in range(rows):
        part = slice(offsets[row], offsets[row + 1])
        for column in columns[part].tolist():
            if not 0 <= column < size:
                raise Refused(1, column)
        out[row] = values[part] @ dense[columns[part]]


def run_alone_slopes(memory: Memory, slots: list[int], signature: Any) -> None:
    """Gradients of weights of channels by themselves: see compiler/alone_slopes.py."""
    _, taps, _, dtype = signature
    _, result, gradients, images, parts, each, channels, *told = slots
    sizes, counts, *lie = zip(told[:5], told[5:], strict=True)
    g = memory.view(gradients, dtype, (parts, each, channels, *counts))
    x = memory.view(images, dtype, (parts, each, channels, *sizes))
    out = memory.view(result, dtype, (parts, channels, *taps))
    for tap in np.ndindex(*taps):
        at = [np.arange(counts[d]) * lie[0][d] + tap[d] * lie[1][d] - lie[2][d] for d in range(2)]
        there = [(where >= 0) & (where < size) for where, size in zip(at, sizes, strict=True)]
        seen = x[..., at[0].clip(0, sizes[0] - 1)[:, None], at[1].clip(0, sizes[1] - 1)]
        out[:, :, *tap] = (g * seen * (there[0][:, None] & there[1])).sum((1, 3, 4))


KINDS = {
    "sort": run_sort, "sparse": run_sparse,
    "scan": run_scan, "scatter": run_scatter, "move": run_move, "panels": run_panels,
    "recurrent": run_recurrent, "attention": run_attention,
}  # fmt: skip


# ------------------------------------------------------------------------------- fused loops


FOLDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum, "wide_sum": np.sum, "prod": np.prod, "wide_prod": np.prod, "max": np.max,
    "min": np.min, "any": np.any, "all": np.all, "argmax": np.argmax, "argmin": np.argmin,
    "wide_squares": lambda x, **options: np.sum(x * x, **options),
}  # fmt: skip


def folded(combine: str, x: Array, axis: int | None) -> Array:
    """A fold in twice the precision, as kernels make them."""
    if x.dtype.kind == "f" and not combine.startswith("arg"):
        x = x.astype(np.float64)
    return np.asarray(FOLDS[combine](x, axis=axis, keepdims=True))


class Loops:
    """The loops of a rows or columns kernel, all rounds at once: arrays of (…outer, middle, inner).

    Values are arrays as they would be stored; what does not change along a loop has size 1 there.
    """

    def __init__(self, memory: Memory, slots: list[int], signature: Any, calls: list[Any]) -> None:
        self.multipliers = calls
        generate, self.streams, self.instrs, self.outputs = signature
        self.memory, self.slots = memory, slots
        self.folded_axis = -2 if generate is generate_columns else -1
        self.rank = slots[1]
        self.shape = (*slots[HEADER : HEADER + self.rank], slots[3], slots[2])
        self.record = RECORD + self.rank
        self.numbers = HEADER + self.rank + len(self.streams) * self.record
        count = 1 + max([i.payload[0] for i in self.instrs if i.what == "number"], default=-1)
        self.gathers = self.numbers + count
        gathered = 1 + max([i.payload[1] for i in self.instrs if i.what == "gather"], default=-1)
        self.products = self.gathers + 2 * gathered
        self.values: dict[int, Any] = {}

    def run(self) -> None:
        for tail in (False, True):
            for number, instr in enumerate(self.instrs):
                if instr.tail == tail:
                    self.values[number] = self.value(number, instr)
            for value, stream, full, in_tail in self.outputs:
                if in_tail == tail:
                    target = self.view(stream, self.streams[stream].dtype, full, in_tail)
                    target[...] = self.values[value]

    def place(self, stream: int) -> tuple[int, tuple[int, ...]]:
        at = HEADER + self.rank + stream * self.record
        base, inner, middle, *outer = self.slots[at : at + self.record]
        return base, (*outer, middle, inner)

    def view(self, stream: int, dtype: DType, full: bool, tail: bool) -> Array:
        """What a stream walks over: one element where it stays along the folded loop."""
        base, strides = self.place(stream)
        return self.memory.view(base, dtype, self.extent(full, tail), strides)

    def extent(self, full: bool, tail: bool = False) -> list[int]:
        """The shape of a value."""
        shape = [1] * len(self.shape) if tail else list(self.shape)
        if not full:
            shape[self.folded_axis] = 1
        return shape

    def value(self, number: int, instr: Instr) -> Any:
        made: Any = getattr(self, f"of_{instr.what}")(number, instr)
        return made

    def of_number(self, _: int, instr: Instr) -> float:
        slot, kind = instr.payload
        word = self.slots[self.numbers + slot]
        return struct.unpack("<d", struct.pack("<q", word))[0] if kind == "f" else word

    def of_load(self, _: int, instr: Instr) -> Array:
        return self.view(instr.payload, instr.dtype, instr.full, instr.tail).copy()

    def of_position(self, _: int, instr: Instr) -> Array:
        base, strides = self.place(instr.payload)
        return base + self.distances(strides, instr)

    def distances(self, strides: Sequence[int], instr: Instr) -> Array:
        total = np.zeros([1] * len(self.shape), np.int64)
        shape = self.extent(instr.full, instr.tail)
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            along = [1] * len(self.shape)
            along[axis] = size
            total = total + (np.arange(size) * stride).reshape(along)
        return total

    def of_gather(self, number: int, instr: Instr) -> Array:
        stream, slot = instr.payload
        step, size = self.slots[self.gathers + 2 * slot : self.gathers + 2 * slot + 2]
        index = np.asarray(self.values[instr.operands[0]])
        for at in index[(index < 0) | (index >= size)].ravel():
            raise Refused(1 + number, int(at))
        base, strides = self.place(stream)
        where = base + index * step + self.distances(strides, instr)
        memory = self.memory.bytes[(base >> 40) - 1]
        flat = memory[: len(memory) // instr.dtype.itemsize * instr.dtype.itemsize]
        elements: Array = flat.view(instr.dtype.storage)
        picked: Array = elements[(where & ((1 << 40) - 1)) // instr.dtype.itemsize]
        return picked

    def of_product(self, _: int, instr: Instr) -> Array:
        number, *streams = instr.payload
        at = self.products + PRODUCT * number
        told = self.slots[at : at + PRODUCT]
        places = [self.place(stream) for stream in streams]
        generate, *kind = self.multipliers[number]
        quads = kind[-1] if isinstance(kind[-1], str) else ""
        # Operands of half precision are multiplied as float32.
        dtype = kind[2] if generate is generate_product else instr.dtype
        work = Product(self.memory, dtype, self.shape, told, places, quads)
        if generate is generate_product:
            return work.plain()
        end = told[4] + len(ALL_DIMS) + kind[0] * len(EACH_DIM)
        geometry = self.slots[told[4] : end]
        if generate is generate_channel_lanes:
            return work.alone(geometry)
        by_columns = generate in (generate_conv, generate_image_lanes, generate_output_lanes)
        return work.conv(geometry) if by_columns else work.slopes(geometry)

    def of_op(self, _: int, instr: Instr) -> Array:
        name, compute = instr.payload
        op = REGISTRY[name]
        assert op.ref is not None
        operands = []
        for position, i in enumerate(instr.operands):
            x, source = self.values[i], self.instrs[i]
            if source.what == "number":
                operands.append(np.asarray(x).astype(compute.compute.storage)[()])
            else:
                operands.append(cast(x, source.dtype, compute) if op.converts(position) else x)
        return from_compute(op.ref(*operands), instr.dtype)

    def of_generate(self, _: int, instr: Instr) -> Array:
        numbers = tuple([self.values[i] for i in instr.operands[1:]])
        if instr.operands[0] < 0:
            return from_compute(np.full([1] * len(self.shape), numbers[0]), instr.dtype)
        positions = self.values[instr.operands[0]]
        count = int(positions.max(initial=-1)) + 1
        meta = meta_of((count,), instr.dtype)
        n = SimpleNamespace(args=numbers, attrs=(instr.dtype,), meta=meta, inputs=[])
        made: Any = REGISTRY[instr.payload].ref
        return from_compute(made(n), instr.dtype)[positions]

    def of_reduce(self, _: int, instr: Instr) -> Array:
        source = self.instrs[instr.operands[0]]
        x = to_compute(self.values[instr.operands[0]], source.dtype)
        whole = np.broadcast_to(x, self.shape)
        return from_compute(folded(instr.payload, whole, self.folded_axis), instr.dtype)

    def of_fold(self, _: int, instr: Instr) -> Array:
        combine, stream = instr.payload
        dtype = self.streams[stream].dtype
        rows = self.memory.view(self.place(stream)[0], dtype, (self.slots[9],))
        total = folded(combine, to_compute(rows, dtype), None)
        return from_compute(total, instr.dtype).reshape([1] * len(self.shape))


BACKEND = Planned()
DEVICE = register("planned", BACKEND)
