"""Programs: patches, steps, faults, timing, completion."""

from __future__ import annotations

import itertools
import struct
import threading

import numpy as np
import pytest

from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import driver, jit, threads
from livegrad.runtime.cpu.driver import MAY_FAULT, SERIAL, Patch, Program, Step

# args: count, pointer to int64, addend. Item i: data[i] += addend.
ADD = """
define void @add(ptr %args, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %data.p = getelementptr i64, ptr %args, i64 1
  %data = load ptr, ptr %data.p
  %addend.p = getelementptr i64, ptr %args, i64 2
  %addend = load i64, ptr %addend.p
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %head ]
  %at = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, %addend
  store i64 %new, ptr %at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %head, label %leave
leave:
  ret void
}
"""

# args: count, pointer, limit. A work item with data[i] >= limit is fault 7 with that value.
CHECK = """
define void @check(ptr %args, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %data.p = getelementptr i64, ptr %args, i64 1
  %data = load ptr, ptr %data.p
  %limit.p = getelementptr i64, ptr %args, i64 2
  %limit = load i64, ptr %limit.p
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %next ]
  %at = getelementptr i64, ptr %data, i64 %i
  %value = load i64, ptr %at
  %bad = icmp sge i64 %value, %limit
  br i1 %bad, label %fault, label %next
fault:
  store i64 7, ptr %ctx
  %value.p = getelementptr i64, ptr %ctx, i64 1
  store i64 %value, ptr %value.p
  br label %next
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %head, label %leave
leave:
  ret void
}
"""

# args: count, pointer. Item i: data[4 i ...] = begin, end, thread, scratch bytes; touches scratch.
TRACE = """
define void @trace(ptr %args, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %data.p = getelementptr i64, ptr %args, i64 1
  %data = load ptr, ptr %data.p
  %thread.p = getelementptr i64, ptr %ctx, i64 2
  %thread = load i64, ptr %thread.p
  %scratch.p = getelementptr i64, ptr %ctx, i64 3
  %scratch = load ptr, ptr %scratch.p
  %bytes.p = getelementptr i64, ptr %ctx, i64 4
  %bytes = load i64, ptr %bytes.p
  %last = sub i64 %bytes, 1
  %last.p = getelementptr i8, ptr %scratch, i64 %last
  store i8 1, ptr %last.p
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %head ]
  %row = shl i64 %i, 2
  %at = getelementptr i64, ptr %data, i64 %row
  store i64 %begin, ptr %at
  %at1 = getelementptr i64, ptr %at, i64 1
  store i64 %end, ptr %at1
  %at2 = getelementptr i64, ptr %at, i64 2
  store i64 %thread, ptr %at2
  %at3 = getelementptr i64, ptr %at, i64 3
  store i64 %bytes, ptr %at3
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %head, label %leave
leave:
  ret void
}
"""


def kernel(ir: str, name: str) -> int:
    return jit.compile_kernel(ir, name)


@pytest.fixture(autouse=True)
def number_of_threads():
    before = threads.pool.num_threads
    threads.pool.resize(2)
    yield
    threads.pool.resize(before)


def test_patches_of_every_kind() -> None:
    patches = [
        Patch(driver.SET_INPUT, dst=0, src=1, value=5),
        Patch(driver.ADD_INPUT, dst=1, src=0, value=-3),
        Patch(driver.SET_SCALAR, dst=2, src=1),
        Patch(driver.SET_CONSTANT, dst=3, src=0, value=-9),
        Patch(driver.ADD_INPUT, dst=0, src=0, value=2),
    ]
    program = Program(patches, [0, 1000, 0, 0, 77], [])
    assert program.run([10, 20], [0.5, -1.25]) == 0
    bits = struct.unpack("q", struct.pack("d", -1.25))[0]
    assert program.blocks.tolist() == [20 + 5 + 20, 1000 - 30, bits, -9, 77]


def test_wrong_number_of_inputs_is_an_error() -> None:
    program = Program([Patch(driver.SET_INPUT, 0, 2)], [0], [])
    with pytest.raises(struct.error, match="3 items"):
        program.run([1, 2])


def test_steps_in_order_with_repeat_and_stride() -> None:
    data = np.zeros(10, np.int64)
    at = data.ctypes.data
    blocks = [4, at, 1, -1, 6, at, 10, -1, 10, at, 100, -1]
    steps = [Step(kernel(ADD, "add"), 0, repeat=3, stride=4, grain=100)]
    program = Program([], blocks, steps)
    assert program.run([]) == 0
    assert data.tolist() == [111] * 4 + [110] * 2 + [100] * 4
    assert program.completed


def test_no_work_items_no_call() -> None:
    program = Program([], [0, 0, 1], [Step(kernel(ADD, "add"), 0)])
    assert program.run([]) == 0


def test_arrays_as_tables() -> None:
    data = np.zeros(3, np.int64)
    patches = np.array([[driver.SET_INPUT, 1, 0, 8]])
    steps = np.array([[kernel(ADD, "add"), 0, 1, 0, 1, SERIAL]])
    program = Program(patches, np.array([2, 0, 5]), steps)
    program.run([data.ctypes.data])
    assert data.tolist() == [0, 5, 5]
    assert not program.wants_threads


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1001])
@pytest.mark.parametrize("grain", [1, 3, 100])
def test_split_covers_every_item_once(count: int, grain: int) -> None:
    data = np.full((count, 4), -1, np.int64)
    program = Program([], [count, data.ctypes.data], [Step(kernel(TRACE, "trace"), 0, grain=grain)])
    program.run([])
    assert program.wants_threads == (count >= 2 * grain)
    ranges = sorted({(begin, end) for begin, end, _, _ in data.tolist()})
    assert ranges[0][0] == 0
    assert ranges[-1][1] == count
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    if count < 2 * grain:
        assert ranges == [(0, count)]
    assert all(end - begin >= grain for begin, end in ranges[:-1])
    assert set(data[:, 2].tolist()) <= {0, 1}


@pytest.mark.parametrize("counts", [(0, 5, 1, 300, 7), (2, 0), (0, 0), (1, 1, 1)])
@pytest.mark.parametrize("grain", [1, 3, 100])
def test_threads_share_the_items_of_all_blocks(counts: tuple[int, ...], grain: int) -> None:
    data = [np.zeros(max(count, 1), np.int64) for count in counts]
    blocks = [n for count, x in zip(counts, data, strict=True) for n in (count, x.ctypes.data, 1)]
    steps = [Step(kernel(ADD, "add"), 0, repeat=len(counts), stride=3, grain=grain)]
    program = Program([], blocks, steps)
    assert program.run([]) == 0
    assert program.wants_threads == (sum(counts) >= 2 * grain)
    for count, x in zip(counts, data, strict=True):
        assert x.tolist() == ([1] * count or [0])


def test_serial_step_is_never_split() -> None:
    data = np.zeros((1000, 4), np.int64)
    block = [1000, data.ctypes.data]
    program = Program([], block, [Step(kernel(TRACE, "trace"), 0, flags=SERIAL)])
    program.run([])
    assert {tuple(row[:3]) for row in data.tolist()} == {(0, 1000, 0)}


def test_scratch_grows_for_every_thread() -> None:
    data = np.zeros((1000, 4), np.int64)
    block = [1000, data.ctypes.data]
    steps = [Step(kernel(TRACE, "trace"), 0)]
    program = Program([], block, steps, scratch_bytes=3_000_000)
    program.run([])
    assert data[:, 3].min() >= 3_000_000


@pytest.mark.parametrize("grain", [1, 10**6])
def test_fault_stops_the_program(grain: int) -> None:
    data = np.zeros(1000, np.int64)
    block = [1000, data.ctypes.data, 1]
    steps = [
        Step(kernel(CHECK, "check"), 0, grain=grain, flags=MAY_FAULT),
        Step(kernel(ADD, "add"), 0, grain=grain),
        Step(kernel(CHECK, "check"), 0, grain=grain, flags=MAY_FAULT),
        Step(kernel(ADD, "add"), 0, grain=grain),
    ]
    program = Program([], block, steps)
    assert program.run([]) == 3
    assert not program.completed
    assert program.fault() == (7, 1)
    assert (data == 1).all()
    # The fault is cleared: without its cause the same program runs through.
    data[:] = -1
    assert program.run([]) == 0
    assert program.completed
    assert (data == 1).all()


def test_step_times() -> None:
    data = np.zeros(1 << 16, np.int64)
    block = [data.size, data.ctypes.data, 1, 1, data.ctypes.data, 1]
    add = kernel(ADD, "add")
    program = Program([], block, [Step(add, 0, flags=SERIAL), Step(add, 3, flags=SERIAL)])
    with pytest.raises(RuntimeError, match="time_steps"):
        program.step_times()
    program.time_steps()
    program.run([])
    long, short = program.step_times()
    assert long > short >= 0
    program.time_steps(False)
    program.run([])
    assert program.step_times() == [long, short]


def test_counters() -> None:
    program = Program([], [0], [Step(kernel(ADD, "add"), 0)] * 3)
    before = counters.plans_run, counters.kernels_run
    program.run([])
    assert (counters.plans_run, counters.kernels_run) == (before[0] + 1, before[1] + 3)


def test_programs_on_several_python_threads_take_turns() -> None:
    failures: list[str] = []

    def work() -> None:
        data = np.zeros(5000, np.int64)
        block = [data.size, data.ctypes.data, 1]
        program = Program([], block, [Step(kernel(ADD, "add"), 0, grain=10)] * 5)
        for _ in range(100):
            program.run([])
        if not (data == 500).all():
            failures.append("lost or doubled work")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_times_of_threads() -> None:
    data = np.zeros(1 << 20, np.int64)
    block = [data.size, data.ctypes.data, 1]
    add = kernel(ADD, "add")
    before = threads.pool.num_threads
    threads.pool.resize(3)
    try:
        program = Program([], block, [Step(add, 0, flags=SERIAL), Step(add, 0, grain=64)])
        program.time_steps()
        # Workers may be asleep at first, and on a busy machine do everything before the caller can.
        for runs in range(1, 101):
            program.run([])
            alone, together = program.stamps().tolist()
            began, ended, *parts = together
            if runs >= 3 and parts[0]:
                break
    finally:
        threads.pool.resize(before)
    assert alone[2::2] == [0] * 3
    assert alone[1] <= began
    pairs = [pair for pair in zip(parts[::2], parts[1::2], strict=True) if pair[0]]
    assert parts[0]  # the caller takes part
    for first, last in pairs:
        assert began <= first <= last <= ended
    assert (data == 2 * runs).all()
