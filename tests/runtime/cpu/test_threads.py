"""The pool: right results for any number of threads, and a quiet life and death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from livegrad.runtime.cpu import jit, threads
from livegrad.runtime.cpu.driver import Program, Step

INCREMENT = """
define void @increment(ptr %args, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %data.p = getelementptr i64, ptr %args, i64 1
  %data = load ptr, ptr %data.p
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %i.next, %head ]
  %at = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %end
  br i1 %more, label %head, label %leave
leave:
  ret void
}
"""


def incrementing(data: np.ndarray, repeat: int = 1) -> Program:
    """A program of so many steps, each of which adds 1 to all elements."""
    step = Step(jit.compile_kernel(INCREMENT, "increment"), 0, grain=1)
    return Program([], [data.size, data.ctypes.data], [step] * repeat)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("livegrad-")]


@pytest.fixture(autouse=True)
def restore_number():
    before = threads.pool.num_threads
    yield
    threads.pool.resize(before)


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_every_item_once_for_any_number_of_threads(number: int) -> None:
    threads.pool.resize(number)
    data = np.zeros(1013, np.int64)
    incrementing(data, repeat=300).run([])
    assert (data == 300).all()
    assert threads.pool.num_threads == number
    assert len(workers()) == number - 1


def test_changing_sizes_pauses_and_numbers() -> None:
    random = np.random.default_rng(0)
    data = np.zeros(3000, np.int64)
    expected = np.zeros_like(data)
    address = jit.compile_kernel(INCREMENT, "increment")
    for turn in range(60):
        sizes = random.integers(1, data.size, 50)
        blocks = [number for size in sizes for number in (int(size), data.ctypes.data)]
        grains = random.integers(1, 50, 50)
        steps = [Step(address, 2 * i, grain=int(grain)) for i, grain in enumerate(grains)]
        Program([], blocks, steps).run([])
        for size in sizes:
            expected[:size] += 1
        if turn % 10 == 0:
            time.sleep(0.002)  # long enough for the workers to fall asleep
        if turn % 20 == 0:
            threads.pool.resize(int(random.integers(1, 5)))
    assert (data == expected).all()


def test_small_programs_start_no_threads() -> None:
    threads.pool.resize(2)
    data = np.zeros(10, np.int64)
    step = Step(jit.compile_kernel(INCREMENT, "increment"), 0, grain=100)
    program = Program([], [data.size, data.ctypes.data], [step])
    program.run([])
    assert not program.wants_threads
    assert not workers()


@pytest.mark.parametrize("number", [0, -1, 10**6])
def test_bad_number(number: int) -> None:
    with pytest.raises(RuntimeError, match="set_num_threads"):
        threads.pool.resize(number)


def test_number_from_environment(monkeypatch) -> None:
    monkeypatch.setenv("LIVEGRAD_NUM_THREADS", "3")
    assert threads.default_num_threads() == 3
    monkeypatch.setenv("LIVEGRAD_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="LIVEGRAD_NUM_THREADS"):
        threads.default_num_threads()
    monkeypatch.delenv("LIVEGRAD_NUM_THREADS")
    if hasattr(os, "sched_getaffinity"):
        assert threads.default_num_threads() == len(os.sched_getaffinity(0))


PRELUDE = f'''
import os, signal, sys, threading, time
import numpy as np
from livegrad.runtime.cpu import jit, threads
from livegrad.runtime.cpu.driver import Program, Step
threads.pool.resize(3)
address = jit.compile_kernel("""{INCREMENT}""", "increment")
data = np.zeros(1000, np.int64)
program = Program([], [data.size, data.ctypes.data], [Step(address, 0, repeat=100)])
program.run([])
'''


def script(body: str) -> subprocess.CompletedProcess[str]:
    """Run `body` after PRELUDE in a process of its own; a hang fails by the time limit."""
    code = PRELUDE + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_exit_is_quiet() -> None:
    done = script("print(len(threading.enumerate()))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_exit_by_exception_does_not_hang() -> None:
    done = script("raise KeyError('out')")
    assert done.returncode == 1
    assert "KeyError" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_does_not_hang_and_the_run_counts_as_completed() -> None:
    done = script("""
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                program.run([])
        except KeyboardInterrupt:
            print(program.completed)
            raise
    """)
    assert done.returncode in (1, 130, -signal.SIGINT)
    assert done.stdout == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_gives_the_child_a_pool_of_its_own() -> None:
    done = script("""
        import warnings
        warnings.simplefilter("ignore")
        child = os.fork()
        data[:] = 0
        program.run([])
        right = bool((data == 100).all()) and len(threading.enumerate()) == 3
        if child == 0:
            sys.exit(0 if right else 5)
        print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert (done.stdout, done.stderr) == ("True 0\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_another_thread_runs_programs() -> None:
    done = script("""
        stop = threading.Event()
        def busy():
            mine = np.zeros(100000, np.int64)
            other = Program([], [mine.size, mine.ctypes.data], [Step(address, 0, repeat=20)])
            while not stop.is_set():
                other.run([])
        threading.Thread(target=busy).start()
        codes = []
        for _ in range(10):
            time.sleep(0.003)
            child = os.fork()
            if child == 0:
                data[:] = 0
                program.run([])
                os._exit(0 if (data == 100).all() else 5)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        stop.set()
        print(set(codes))
    """)
    assert done.stdout == "{0}\n", done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux")
def test_workers_keep_their_affinity_mask() -> None:
    threads.pool.resize(3)
    data = np.zeros(1000, np.int64)
    program = incrementing(data, repeat=100)
    for _ in range(20):
        program.run([])
        time.sleep(0.001)
    everywhere = os.sched_getaffinity(0)
    time.sleep(0.05)
    assert all(os.sched_getaffinity(worker.native_id) == everywhere for worker in workers())
