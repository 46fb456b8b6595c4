"""Hot functions become native while the program goes on, wherever they are referred to."""

import functools
import os
import signal
import time

import pytest

import livegrad as lg
from livegrad.graph import record
from livegrad.native import layout
from livegrad.runtime.speedup import Speedup, original_functions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know"),
]


@pytest.fixture
def python(python):
    """Another process, in which functions become native also if they do not in this one."""
    return functools.partial(python, LIVEGRAD_NATIVE="")


BEGIN = """
import gc, os, sys, time
import livegrad as lg
from livegrad.native import hot
from livegrad.runtime.speedup import FLUSHES_BEFORE, Speedup, go_on, speed_up

def flushes(count, until=lambda: False):
    for i in range(count):
        (lg.ones(3) + 1).tolist()
        if until():
            return i
        if i > 200:
            time.sleep(0.01)  # let the other process go on
    return count
"""


def test_a_new_machine_compiles_in_the_background(python, tmp_path):
    """Another process compiles the hot functions, and a later flush installs them."""
    out = python(
        BEGIN
        + """
from livegrad.runtime.cpu import background, jit
started = []
spawn = os.posix_spawn
def counted(*args, **options):
    started.append(counters.flushes)
    return spawn(*args, **options)
from livegrad.runtime.counters import counters
os.posix_spawn = counted
emitted = []
emit = jit.emit
def noted(ir, target, inline=False):
    small = "_follow" in ir or "list_nodes" in ir  # what the runtime itself cannot do without
    emitted.append(inline and not small)
    return emit(ir, target, inline)
jit.emit = noted
flushes(6000, lambda: Speedup.decided)
assert Speedup.made and Speedup.decided
assert len(started) == 1 and started[0] >= FLUSHES_BEFORE
assert counters.flushes > started[0], "the program went on"
assert True not in emitted
from livegrad.graph import record
assert type(record.append).__name__ == "builtin_function_or_method"
assert (lg.ones(2) * 3).tolist() == [3.0, 3.0]
print("done")
""",
        LIVEGRAD_CACHE_DIR=str(tmp_path),
        LIVEGRAD_MODE="whole",
    ).stdout
    assert out == "done\n"
    assert list(tmp_path.rglob("*.o"))


def test_without_a_disk_cache_too(python):
    source = BEGIN + "flushes(6000, lambda: Speedup.decided); print(len(Speedup.made) > 0)"
    assert python(source, LIVEGRAD_CACHE_DIR="off").stdout == "True\n"


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_program_that_ends_does_not_wait(python, tmp_path, is_stored):
    source = (
        BEGIN
        + """
from livegrad.runtime.cpu import background
background._SOURCE = "import time; time.sleep(600)"
background._polite = lambda source: background._SOURCE
started = []
spawn = os.posix_spawn
def noted(*args, **options):
    started.append(spawn(*args, **options))
    return started[0]
os.posix_spawn = noted
flushes(1000, lambda: started)
print(started[0])
"""
    )
    done = python(source, LIVEGRAD_CACHE_DIR=str(tmp_path) if is_stored else "off")
    assert done.stderr == ""
    os.kill(int(done.stdout), signal.SIGKILL)  # it is still there


@pytest.mark.parametrize(
    ("where", "looks_at"), [("off", "Compilation.result"), ("a disk", "Making.is_over")]
)
def test_an_interrupt_loses_no_process(python, tmp_path, where, looks_at):
    """Ctrl-C in the flush that looks whether it has finished: a later one waits for the same."""
    source = (
        BEGIN
        + f"""
from livegrad.runtime.cpu import background
started, looks = [], []
spawn, result = os.posix_spawn, background.{looks_at}
def noted(*args, **options):
    started.append(spawn(*args, **options))
    return started[-1]
def interrupted(self):
    looks.append(self)
    if len(looks) in (1, 3):
        raise KeyboardInterrupt
    return result(self)
os.posix_spawn, background.{looks_at} = noted, interrupted
caught = 0
while not Speedup.decided and len(looks) < 6000:
    try:
        flushes(6000, lambda: Speedup.decided)
    except KeyboardInterrupt:
        caught += 1
print(caught, len(started), len(Speedup.made) > 0, Speedup.making, Speedup.compilation)
"""
    )
    settings = {"LIVEGRAD_MODE": "whole", "PYTHONWARNINGS": "default"}
    directory = "off" if where == "off" else str(tmp_path)
    done = python(source, LIVEGRAD_CACHE_DIR=directory, **settings)
    assert (done.stdout, done.stderr) == ("2 1 True None None\n", "")


def test_short_programs_have_it_made_for_later_ones(python, tmp_path):
    """One that ends before all is done has not done any of it in vain."""
    source = (
        BEGIN
        + """
flushes(FLUSHES_BEFORE + 2)
print(Speedup.making._process)
"""
    )
    settings = {"LIVEGRAD_MODE": "whole", "LIVEGRAD_CACHE_DIR": str(tmp_path)}
    process = python(source, **settings).stdout
    for _ in range(600):
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    source = BEGIN + "flushes(2); print(len(Speedup.made) > 0)"
    assert python(source, **settings).stdout == "True\n"


def test_what_is_there_is_loaded_before_the_first_step(python, tmp_path):
    """With nn, for whose parameters the code is; other code serves programs without it."""
    cache = {"LIVEGRAD_CACHE_DIR": str(tmp_path)}
    python(BEGIN + "import livegrad.nn; speed_up()", **cache)
    source = (
        BEGIN
        + """
from livegrad.runtime.counters import counters
before = len(Speedup.made), len(hot.FUNCTIONS)
import livegrad.nn, livegrad.optim
print(before[0], len(Speedup.made) == len(hot.FUNCTIONS) == before[1], counters.flushes)
"""
    )
    assert python(source, **cache).stdout == "0 True 0\n"
    assert python(BEGIN + "flushes(2); print(len(Speedup.made))", **cache).stdout == "0\n"


def test_where_no_process_can_be_started_it_is_done_here(python, tmp_path):
    source = (
        BEGIN
        + """
sys.executable = "/opt/bin/editor"
flushes(300, lambda: Speedup.decided)
print(len(Speedup.made) > 0)
"""
    )
    assert python(source, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout == "True\n"


def test_a_failure_over_there_leaves_everything_as_it_is(python, tmp_path):
    source = (
        BEGIN
        + """
from livegrad.runtime.cpu import background
background._SOURCE = "raise SystemExit(1)"
background._polite = lambda source: background._SOURCE
flushes(3000, lambda: Speedup.decided)
print(Speedup.decided, Speedup.made, (lg.ones(2) + 1).tolist())
"""
    )
    assert python(source, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout == "True {} [2.0, 2.0]\n"


def test_a_forked_child_does_not_wait_for_what_its_parent_has_begun(python, tmp_path):
    source = (
        BEGIN
        + """
flushes(FLUSHES_BEFORE + 2)
assert Speedup.work is not None
child = os.fork()
if not child:
    flushes(6000, lambda: Speedup.decided)
    os._exit(0 if Speedup.made else 1)
assert os.waitpid(child, 0)[1] == 0
print("done")
"""
    )
    assert python(source, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout == "done\n"


def test_nobody_keeps_the_originals(python):
    """Functions that were called before, and wrappers made at run time, call native code too."""
    source = (
        BEGIN
        + """
import types
x = lg.ones(3)
called = 0
for name in dir(lg):
    function = getattr(lg, name)
    usual = isinstance(function, types.FunctionType) and name != "explain"
    for args in ((x,), (x, x)) if usual else ():
        try:
            function(*args)
            called += 1
        except Exception:
            pass
assert called > 200, called
speed_up()
assert Speedup.made
known = [Speedup.made, Speedup.originals, hot.FUNCTIONS]

def strangers():
    functions = list(Speedup.made)
    for place in range(len(functions)):
        for owner in gc.get_referrers(functions[place]):
            if owner is not functions and all(owner is not k for k in known):
                yield functions[place].__qualname__, type(owner), str(owner)[:200]

from livegrad.native.watch import Constant
found = [x for x in strangers() if x[1] not in (types.FrameType, Constant)]
assert not found, found
print("done")
"""
    )
    # The second process has not looked for them itself: where they are was on disk.
    assert [python(source).stdout for _ in range(2)] == ["done\n"] * 2


def test_sizes_that_are_forgotten_are_given_back(python):
    """The collector does not look at them as long as they may be found again, as specs."""
    source = (
        BEGIN
        + """
from livegrad.graph import meta
speed_up()
sizes = []
for n in range(2000, 2100):
    found = meta.meta_of((n, 3), lg.float32)
    sizes.append(found.size)
native = type(meta.meta_of).__name__ == "builtin_function_or_method"
assert gc.is_tracked(found) != native
del found
gc.collect()
assert {sys.getrefcount(x) for x in sizes} == {4}  # its Meta, the list, the loop, the call
meta._forget()
gc.collect()
assert {sys.getrefcount(x) for x in sizes} == {3}
assert (lg.ones(2000, 3) + 1).sum().item() == 12000
print("done")
"""
    )
    assert python(source).stdout == "done\n"


def test_modules_imported_later_have_no_hot_functions_of_their_own(python):
    """All programs have the same ones, so that the code on disk is for all of them."""
    source = (
        BEGIN
        + """
speed_up()
from livegrad import nn, optim
net = nn.Linear(3, 2)
optimizer = optim.Adam(net.parameters(), lr=0.1)
for i in range(3):
    net(lg.ones(4, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert len(Speedup.made) == len(hot.FUNCTIONS) > 100
from livegrad.autograd import pending
from livegrad.graph import record
for module in (pending, record):
    for name, value in vars(module).items():
        assert value not in hot.FUNCTIONS, (module, name)
assert (lg.ones(2) * 3).tolist() == [3.0, 3.0]
print("done")
"""
    )
    assert python(source).stdout == "done\n"


native_only = pytest.mark.skipif(
    os.environ.get("LIVEGRAD_NATIVE") == "off", reason="LIVEGRAD_NATIVE=off"
)


def is_native() -> bool:
    return type(record.wrap).__name__ == "builtin_function_or_method"


@native_only
def test_a_patched_function_is_called(monkeypatch):
    recorded = []
    append = record.append

    def noted(spec, *rest):
        recorded.append(spec.op.name)
        return append(spec, *rest)

    x = lg.ones(3)
    with monkeypatch.context() as patch:
        patch.setattr(record, "append", noted)
        assert not is_native()
        (x + 1).tolist()
    assert recorded == ["add"]
    assert is_native()
    assert record.append is append
    (x + 1).tolist()
    assert recorded == ["add"]


@native_only
def test_a_patched_constant_is_seen(monkeypatch):
    wrapped = []
    x = lg.zeros(1, dtype=lg.int64)
    with monkeypatch.context() as patch:
        patch.setattr(record, "INTS_END", 5)
        patch.setattr(record, "wrapped", lambda n: wrapped.append(n) or n)
        assert not is_native()
        assert (x + 6).tolist() == [6]
    assert wrapped == [6]
    assert is_native()


@native_only
def test_a_patch_while_the_originals_are_wanted(monkeypatch):
    with original_functions():
        monkeypatch.setattr(record, "INTS_END", 5)
    assert not is_native()
    monkeypatch.undo()
    assert is_native()


@native_only
def test_native_functions_have_the_names_of_their_originals():
    for function, native in Speedup.made.items():
        assert native.__qualname__ == function.__qualname__
        owner = getattr(native, "__objclass__", native)
        assert owner.__module__ == function.__module__


@pytest.mark.slow
@pytest.mark.parametrize("watches", ["settrace", "setprofile"])
def test_nothing_is_exchanged_under_a_tracer_or_profiler(python, watches):
    source = (
        BEGIN
        + f"""
from livegrad.graph import record
sys.{watches}(lambda *_: None)
speed_up()
assert not Speedup.made
flushes(300)
assert not Speedup.made and not Speedup.decided
sys.{watches}(None)
flushes(6000, lambda: Speedup.decided)
assert Speedup.made
print(type(record.append).__name__)
"""
    )
    assert python(source).stdout == "builtin_function_or_method\n"
