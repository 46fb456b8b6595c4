"""Programs that end in every way while their loaders work: no process is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest
from leftovers import processes

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, sys, time
import numpy as np
import livegrad as lg
from livegrad.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(SLEEP)
        return np.full(50_000, i, np.float32)

if __name__ == "__main__":
    loader = DataLoader(Rows(), 2, num_workers=2, persistent_workers=PERSISTENT,
                        multiprocessing_context="METHOD")
    iterator = iter(loader)
    assert next(iterator)[1][0].item() == 1
    print("ready", flush=True)
    END
"""


class Program:
    """A program in a session of its own, told to end in a certain way."""

    def __init__(self, tmp_path, environment, end, sleep=0.001, persistent=False, method="fork"):
        path = tmp_path / "program.py"
        text = PROGRAM.replace("END", end).replace("SLEEP", str(sleep))
        path.write_text(text.replace("PERSISTENT", str(persistent)).replace("METHOD", method))
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout.readline() == "ready\n", self.process.communicate()[1]

    def finish(self, seconds=20):
        """Exit code and errors, after all processes of the session are gone."""
        errors = self.process.communicate(timeout=60)[1]
        deadline = time.monotonic() + seconds
        while processes(6, self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = processes(6, self.process.pid)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left
        return self.process.returncode, errors


@pytest.fixture
def program(tmp_path, child_environment):
    return lambda *arguments, **options: Program(tmp_path, child_environment, *arguments, **options)


@pytest.mark.parametrize("persistent", [False, True])
def test_the_program_ends(program, persistent):
    assert program("pass", persistent=persistent).finish() == (0, "")


def test_the_program_ends_while_samples_are_slow(program):
    code, errors = program(
        "slow = DataLoader([0] * 9, num_workers=2, collate_fn=lambda rows: time.sleep(60),"
        " multiprocessing_context='fork');"
        "it = iter(slow); time.sleep(0.2)"
    ).finish()
    assert (code, errors) == (0, "")


def test_an_error_in_the_loop(program):
    code, errors = program("for batch in iterator: raise OSError('mine')").finish()
    assert code == 1
    assert "OSError: mine" in errors
    assert errors.count("Traceback") == 1


@pytest.mark.parametrize("where", ["for batch in iterator: pass", "time.sleep(60)"])
def test_ctrl_c(program, where):
    running = program(where, sleep=0.01, persistent=True)
    os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does: to every process
    code, errors = running.finish()
    assert code == -signal.SIGINT
    assert errors.count("KeyboardInterrupt") == 1
    assert errors.count("Traceback") == 1


def test_ctrl_c_while_waiting_for_a_batch(program):
    running = program("list(DataLoader(Rows(), 1000, num_workers=1))", sleep=0.05)
    time.sleep(0.3)
    os.killpg(running.process.pid, signal.SIGINT)
    code, errors = running.finish()
    assert code == -signal.SIGINT
    assert errors.count("Traceback") == 1


def test_ctrl_c_that_is_caught_and_another_epoch(program):
    end = """
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except KeyboardInterrupt:
        pass
    assert next(iterator)[1][0].item() == 3
    assert next(iter(loader))[1][0].item() == 1
"""
    code, errors = program(end).finish()
    assert (code, errors) == (0, "")


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_program_is_killed(program, signum, method):
    running = program("time.sleep(60)", method=method)
    os.kill(running.process.pid, signum)
    code, errors = running.finish()
    assert code == -signum
    assert "Traceback" not in errors


def test_exit_without_cleaning_up(program):
    assert program("os._exit(3)").finish() == (3, "")
