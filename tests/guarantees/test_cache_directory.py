"""The kernel cache may only save time: broken, full, foreign or absent, everything works."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.packs import remove_packs

pytestmark = pytest.mark.slow

PROGRAM = """
import json, warnings
caught = []
warnings.showwarning = lambda message, *rest: caught.append(str(message))
warnings.simplefilter("always")
import numpy as np, livegrad as lg, livegrad.nn.functional as F
x = lg.tensor(np.arange(12, dtype=np.float32).reshape(3, 4), requires_grad=True)
loss = (F.softmax(x / 10, -1) * x).sum()
loss.backward()
(lg.arange(10) + 1).tolist(), x.grad.sum(0).tolist(), (x.detach() @ x.detach().T).tolist()
s = lg.stats()
print(json.dumps([loss.item().hex(), s.kernels_compiled, s.kernels_loaded, caught]))
"""


@pytest.fixture(scope="module")
def run(python):
    def run(directory, source=PROGRAM):
        return json.loads(
            python(source, LIVEGRAD_CACHE_DIR=str(directory), LIVEGRAD_MODE="whole").stdout
        )

    return run


@pytest.fixture(scope="module")
def first_run(run, tmp_path_factory):
    """A cache that the program has filled, and what it printed."""
    directory = tmp_path_factory.mktemp("first") / "cache"
    return directory, run(directory)


def _is_code(beginning):
    """Whether a file has code: as LLVM wrote it, or laid out for memory."""
    return b"\x7fELF" in beginning or b"LVGIMG" in beginning


@pytest.fixture
def filled(first_run, tmp_path):
    """A copy of a cache with entries, and what the program printed."""
    original, (value, compiled, loaded, warned) = first_run
    directory = shutil.copytree(original, tmp_path / "cache")
    remove_packs(directory)
    assert compiled > 0
    assert warned == []
    # Besides kernels there are plans, and what the processor is.
    files = [path for path in directory.rglob("*.o") if _is_code(path.read_bytes()[:48])]
    assert len(files) == compiled
    return directory, files, value, compiled + loaded


def test_intact(run, filled):
    directory, _, value, kernels = filled
    assert run(directory) == [value, 0, kernels, []]


def truncated(data):
    return data[: len(data) // 2]


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def garbage(data):
    return b"\x7fELF" + b"\x00" * len(data)


def nothing(data):
    return b""


@pytest.mark.parametrize("damage", [truncated, flipped, garbage, nothing])
def test_damaged_entries_are_replaced(run, filled, damage):
    directory, files, value, kernels = filled
    for path in directory.rglob("*.o"):
        path.write_bytes(damage(path.read_bytes()))
    again = run(directory)
    assert again[0] == value
    assert again[1] == len(files)
    assert again[3] == []
    assert run(directory) == [value, 0, kernels, []]


def test_one_damaged_entry(run, filled):
    directory, files, value, kernels = filled
    files[0].write_bytes(truncated(files[0].read_bytes()))
    assert run(directory)[:2] == [value, 1]
    assert run(directory) == [value, 0, kernels, []]


def test_directories_in_place_of_entries(run, filled):
    directory, files, value, _ = filled
    for path in files:
        path.unlink()
        path.mkdir()
    got = run(directory)
    assert got[0] == value
    assert len(got[3]) == 1


def test_a_file_in_place_of_the_directory(run, filled, tmp_path):
    path = tmp_path / "file"
    path.write_text("not a directory")
    value, compiled, _, warned = run(path)
    assert value == filled[2]
    assert compiled > 0
    assert len(warned) == 1
    assert "LIVEGRAD_CACHE_DIR" in warned[0]
    assert path.read_text() == "not a directory"


@pytest.mark.parametrize("name", ["off", ""])
def test_switched_off(run, filled, tmp_path, name, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    value, compiled, loaded, warned = run(name)
    assert value == filled[2]
    assert (compiled >= len(filled[1]), loaded, warned) == (True, 0, [])
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory(run, filled):
    directory, _, value, kernels = filled
    other = PROGRAM.replace("x / 10", "x.tanh() / 10")
    for path in (directory, *[p for p in directory.iterdir() if p.is_dir()]):
        path.chmod(0o500)
    try:
        assert run(directory) == [value, 0, kernels, []]
        assert len(run(directory, other)[3]) == 1
    finally:
        for path in (directory, *directory.iterdir()):
            path.chmod(0o700)


REFUSED = """
import os
def refuse(*args, **kwargs):
    raise PermissionError(13, "Permission denied")
os.replace = refuse
"""


def test_writing_is_refused(run, filled, tmp_path):
    value, compiled, _, warned = run(tmp_path / "new", REFUSED + PROGRAM)
    assert value == filled[2]
    assert compiled > 1
    assert len(warned) == 1
    assert "Permission denied" in warned[0]


def test_full_disk(run, filled, tmp_path):
    full = REFUSED.replace("PermissionError(13", "OSError(28")
    value, _, _, warned = run(tmp_path / "new", full + PROGRAM)
    assert value == filled[2]
    assert len(warned) == 1


def test_two_processes_at_once(filled, tmp_path, child_environment):
    import subprocess
    import sys

    env = child_environment(LIVEGRAD_CACHE_DIR=str(tmp_path / "shared"), LIVEGRAD_MODE="whole")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in running:
        out, _ = process.communicate(timeout=100)
        value, _, _, warned = json.loads(out)
        assert (value, warned) == (filled[2], [])
