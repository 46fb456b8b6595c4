"""What all tests share: a kernel cache of their own, counters as differences, other processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Before livegrad is imported. Workers of pytest-xdist inherit the directory of the run.
_directory: tempfile.TemporaryDirectory[str] | None = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    _directory = tempfile.TemporaryDirectory(prefix="livegrad-tests-", ignore_cleanup_errors=True)
    os.environ["LIVEGRAD_CACHE_DIR"] = _directory.name

# A run in the background of a shell script ignores Ctrl-C, and so would the processes it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples on every machine, however slow it is; new ones where their number is asked for.
settings.register_profile(
    "livegrad",
    derandomize="LIVEGRAD_FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)
settings.load_profile("livegrad")


def pytest_collectstart() -> None:
    """PyTorch's own test helpers, which some modules import, load a profile of theirs."""
    settings.load_profile("livegrad")


ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    from livegrad.compiler.verify import Verifier

    Verifier.enabled = True
    # What tests make on purpose is not to be looked into; tests of that switch it on.
    from livegrad.graph.watch import BLAMING

    BLAMING.enabled = "LIVEGRAD_BLAME" in os.environ and BLAMING.enabled
    # All tests run the translated functions; LIVEGRAD_NATIVE=off has them run the originals.
    import livegrad.nn
    import livegrad.optim  # with all hot functions there are
    from livegrad.runtime.cpu.known import Known
    from livegrad.runtime.cpu.pieces.desk import native
    from livegrad.runtime.sight import Policy
    from livegrad.runtime.speedup import Speedup, speed_up

    native(waits=True)  # another process would make it, some time
    # What a test does must not depend on how long it takes: no cost has anything planned.
    Policy.patience = 1 << 60
    Policy.seeks = False  # nor what other tests have stored
    # Nor on what other workers, or a test that changed the planner, have left on disk.
    Known.plans = False

    livegrad.ones(1).add(1).item()  # those of the CPU come with the first plan
    if not Speedup.decided:  # not in the background: every test is to run them
        speed_up()
    # Datasets of tests are local classes and closures, which other ways to start cannot send.
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork", force=True)


@pytest.fixture
def nodes_to_be_seen(monkeypatch):
    """Python's garbage collector sees all nodes: tests that count the living ask it."""
    from livegrad.graph.node import CYCLES

    monkeypatch.setattr(CYCLES, "are_possible", True)


def pytest_unconfigure() -> None:
    if _directory is not None:
        _directory.cleanup()


@pytest.fixture
def counted() -> Callable[[], Any]:
    """`with counted() as c:` gives, after the block, what each runtime counter rose by."""
    from livegrad.runtime.counters import counters

    @contextmanager
    def block() -> Iterator[SimpleNamespace]:
        rise = SimpleNamespace()
        before = asdict(counters)
        yield rise
        for name, value in asdict(counters).items():
            setattr(rise, name, value - before[name])

    return block


@pytest.fixture(autouse=True)
def only_new_objects() -> None:
    """The garbage collector sees what the test makes, not what thousands before it left behind.

    Plans that are kept are millions of objects, and many tests ask for a full collection.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def the_same_numbers() -> None:
    """Every test draws the same random numbers, whatever ran before it."""
    from livegrad.random import manual_seed

    manual_seed(0)


@pytest.fixture(autouse=True)
def lazy_at_first() -> None:
    """What earlier tests have read does not make this one's operations run when recorded."""
    from livegrad.runtime import alone

    alone.forget()


@pytest.fixture
def untranslated() -> Iterator[None]:
    """The hot functions as Python, for tests that change what they refer to."""
    from livegrad.runtime.speedup import original_functions

    with original_functions():
        yield


@pytest.fixture
def whole_plans() -> Iterator[None]:
    """Whatever is flushed is planned as a whole, also at first sight: for tests of plans."""
    from livegrad.graph.state import Runtime
    from livegrad.runtime.sight import Policy

    with pytest.MonkeyPatch.context() as patched:  # which a test's own undo() leaves alone
        patched.setattr(Policy, "whole", True)
        patched.setattr(Runtime, "by_pieces", False)
        yield


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs source text in a new interpreter, with changes to the environment as keywords."""

    def run(source: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", source],
            env=environment(**env),
            capture_output=True,
            text=True,
            timeout=120,
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return run


def environment(**changes: str) -> dict[str, str]:
    """The environment for a process that is to import this livegrad."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **changes}


@pytest.fixture
def child_environment() -> Callable[..., dict[str, str]]:
    """`environment`, for tests that start a process in their own way."""
    return environment
