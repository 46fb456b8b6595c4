"""Files: replaced as a whole or not at all, read only where they are used, and never written to."""

from __future__ import annotations

import json
import mmap
import os
import random
import re
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import pickled, storage, tensor, text

import livegrad as lg
from livegrad import nn
from livegrad.serialization import LoadError, files
from livegrad.serialization.archive import ArchiveWriter

FORMATS = ("safetensors", "torch")

# ------------------------------------------------------------------------------ atomic writes


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("calls", range(1, 12))
def test_an_error_at_any_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, calls: int
) -> None:
    path = tmp_path / "x"
    lg.save({"old": lg.ones(3)}, path, format=format)
    before = path.read_bytes()
    left = [calls]

    class Failing:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __getattr__(self, name: str) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt if calls % 2 else OSError("No space left on device")
            return getattr(self.file, name)

    plain = files._replacing

    def failing(target: Any) -> Any:
        manager = plain(target)

        class Wrapped:
            def __enter__(self) -> Any:
                return Failing(manager.__enter__())

            def __exit__(self, *error: Any) -> Any:
                return manager.__exit__(*error)

        return Wrapped()

    monkeypatch.setattr(files, "_replacing", failing)
    try:
        lg.save({"new": lg.zeros(5), "y": lg.ones(2)}, path, format=format)
    except (KeyboardInterrupt, OSError):
        assert path.read_bytes() == before
    else:
        assert left[0] > 0
        assert list(lg.load(path)) == ["new", "y"]
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_killed_writer_leaves_a_whole_file(
    tmp_path: Path, child_environment: Callable[..., dict[str, str]]
) -> None:
    path = tmp_path / "x.safetensors"
    source = f"""
import livegrad as lg
number = 0
while True:
    number += 1
    lg.save({{"n": number, "x": lg.full((300_000,), float(number))}}, {str(path)!r})
    print(number, flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", source], env=child_environment(), stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        for _ in range(5):
            child.stdout.readline()
        time.sleep(0.013)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    saved = lg.load(path)
    assert saved["n"] >= 5
    assert saved["x"].unique().tolist() == [saved["n"]]


def test_links_modes_and_special_files(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    lg.save(1, target)
    target.chmod(0o640)
    link.symlink_to(target)
    lg.save(2, link)
    assert link.is_symlink()
    assert lg.load(target) == 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    lg.save(3, "/dev/null")
    assert not os.path.isfile("/dev/null")
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        lg.save(1, tmp_path / "none" / "x")


def test_a_loaded_file_can_be_saved_over(tmp_path: Path) -> None:
    path = tmp_path / "x"
    lg.save({"x": lg.ones(1000)}, path)
    for _ in range(3):
        state = lg.load(path)
        lg.save({"x": state["x"] * 2}, path)
        assert state["x"].sum().item() == lg.load(path)["x"].sum().item() / 2


# ------------------------------------------------------------------------------- lazy reading

SIZE = 1 << 30


def sparse_safetensors(path: Path) -> None:
    """A file of a gigabyte that occupies one block, with two tensors."""
    half = SIZE // 2
    header = {
        "a": {"dtype": "F32", "shape": [half // 4], "data_offsets": [0, half]},
        "b": {"dtype": "F32", "shape": [2, half // 8], "data_offsets": [half, SIZE]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + SIZE)


def sparse_torch(path: Path) -> None:
    """The same as a PyTorch file, whose storage is a hole."""

    class Holes:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: Any) -> None:
            if len(data) == SIZE:
                self.file.seek(SIZE, os.SEEK_CUR)
            else:
                self.file.write(data)

    count = SIZE // 4
    held = tensor(0, (count,), (1,), storage(count=count))
    with path.open("wb") as file:
        archive = ArchiveWriter(Holes(file))  # type: ignore[arg-type]
        archive.add("archive/data.pkl", pickled(b"}" + text("a") + held + b"s"))
        hole = mmap.mmap(-1, SIZE)
        archive.add("archive/data/0", memoryview(hole))
        archive.finish()


def pages_read(address: int, length: int) -> int:
    """How many pages at an address this process has in memory."""
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(address // mmap.PAGESIZE * 8)
        entries = np.frombuffer(file.read(length // mmap.PAGESIZE * 8), np.uint64)
    return int((entries >> np.uint64(63)).sum())


@pytest.mark.skipif(not os.path.exists("/proc/self/pagemap"), reason="Linux")
@pytest.mark.parametrize("make", [sparse_safetensors, sparse_torch])
def test_only_what_is_used_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "large.any"
    make(path)
    assert path.stat().st_size > SIZE
    state = lg.load(path)
    x = state["a"]
    assert x.numel() * 4 >= SIZE // 2
    address = x._node.buffer.ptr
    # A mapped page is one the kernel brought in: the header, and what it read ahead.
    assert pages_read(address, SIZE // 2) < 100
    assert x._values("test")[:100].sum() == 0
    assert 0 < pages_read(address, SIZE // 2) < 1000


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="Linux")
def test_a_file_is_let_go_with_its_last_tensor(tmp_path: Path) -> None:
    def is_mapped() -> bool:
        return str(path) in Path("/proc/self/maps").read_text()

    for format in FORMATS:
        path = tmp_path / format
        lg.save({"a": lg.ones(9), "b": [lg.ones(9), nn.Parameter(lg.ones(3))]}, path, format=format)
        state = lg.load(path)
        last = state["b"][0]
        del state
        assert is_mapped()
        assert last.sum().item() == 9
        del last
        assert not is_mapped()


# ------------------------------------------------------------------------------ never written


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    """A file of one tensor, and its bytes."""
    path = tmp_path / "x.safetensors"
    lg.save({"x": lg.arange(1000).float()}, path)
    return path, path.read_bytes()


def test_tensors_stay_on_the_mapping(mapped: Any) -> None:
    path, _ = mapped
    assert lg.load(path)["x"]._node.buffer.home is None
    assert lg.load(path, mmap=False)["x"]._node.buffer.home is not None


def test_operations_in_place_copy_first(mapped: Any) -> None:
    path, before = mapped
    with lg.no_grad():
        for write in (
            lambda x: x.add_(1),
            lambda x: x.zero_(),
            lambda x: x.copy_(lg.ones(1000)),
            lambda x: x.__setitem__(slice(3, 5), 7.0),
            lambda x: x.view(10, 100)[3].mul_(2),
            lambda x: x.data.fill_(3),
            lambda x: lg.add(x, 1, out=x),
        ):
            x = lg.load(path)["x"]
            write(x)
            assert x.sum().item() != 499500
            assert path.read_bytes() == before
    assert lg.load(path)["x"].sum().item() == 499500


def test_arrays_of_loaded_tensors_do_not_write_to_the_file(mapped: Any) -> None:
    x = lg.load(mapped[0])["x"]
    np.asarray(x)[0] = 77
    assert x[0].item() == 77
    assert lg.load(mapped[0])["x"][0].item() != 77


TRAIN = """
import livegrad as lg
from livegrad import nn, optim

def train(model, steps):
    optimizer = optim.{optimizer}(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(lg.ones(3, 64)).square().sum().backward()
        optimizer.step()
    return optimizer

path = {path!r}
class Model(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight
    def forward(self, x):
        return x @ self.weight

train(Model(nn.Parameter(lg.ones(64, 64))), {before})   # the step is known before the file comes
for way in range(3):
    saved = lg.load(path)
    if way == 0:
        model = Model(saved["weight"])
        assert model.weight._node.buffer.home is None
    else:
        model = Model(nn.Parameter(lg.zeros(64, 64)))
        model.load_state_dict({{"weight": saved["weight"].detach()}}, assign=way == 2)
    del saved
    optimizer = train(model, 3)
    assert model.weight._node.buffer.home is not None
    assert model.weight.sum().item() != 4096
    state = lg.load(path)["weight"]
    assert state.sum().item() == 4096
    # The optimiser's own state may be mapped too.
    lg.save(optimizer.state_dict(), path + ".optimizer")
    optimizer.load_state_dict(lg.load(path + ".optimizer"))
    optimizer.step()
"""


@pytest.mark.parametrize("before", [0, 2, 50])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_copies_first(
    tmp_path: Path, python: Callable[..., Any], before: int, optimizer: str
) -> None:
    """In a process of its own: to write to a mapping is to crash."""
    path = tmp_path / "x.safetensors"
    lg.save({"weight": nn.Parameter(lg.ones(64, 64))}, path)
    content = path.read_bytes()
    python(TRAIN.format(path=str(path), before=before, optimizer=optimizer))
    assert path.read_bytes() == content


# --------------------------------------------------------------------- alignment, byte order


def test_misaligned_tensors_are_copied(tmp_path: Path) -> None:
    """Headers of old writers are not padded."""
    values = np.arange(6, dtype=np.float32)
    for padding in range(8):
        text = b'{"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' + b" " * padding
        path = tmp_path / "x"
        path.write_bytes(struct.pack("<Q", len(text)) + text + values.tobytes())
        x = lg.load(path)["x"]
        assert (x._node.buffer.home is None) == ((8 + len(text)) % 4 == 0)
        assert (x + 1).sum().item() == 21


def test_bytes_of_bools_are_made_bools(tmp_path: Path) -> None:
    text = b'{"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + bytes([0, 1, 2, 255]))
    x = lg.load(tmp_path / "x")["x"]
    assert x.tolist() == [False, True, True, True]
    assert x.sum().item() == 3
    assert lg.arange(4)[x].tolist() == [1, 2, 3]


def test_archives_of_the_other_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    values = {"f": lg.tensor([1.5, -2.0]), "c": lg.tensor([1 + 2j]), "h": lg.ones(3).bfloat16()}
    lg.save(values, path)
    from livegrad.serialization.archive import read_archive, read_member

    source = files.open_source(path, True)
    with (tmp_path / "big.pt").open("wb") as file:
        archive = ArchiveWriter(file)
        for name, member in read_archive(source).items():
            data = read_member(source, member, name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                kind = values["fch"[int(name[-1])]].dtype.storage
                data = np.frombuffer(data, kind).byteswap().tobytes()
            archive.add(name, data)
        archive.finish()
    back = lg.load(tmp_path / "big.pt")
    assert all([lg.equal(back[name], values[name]) for name in values])


def test_checksums_are_checked_when_all_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    lg.save(lg.ones(1000), path)
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<f", 1) * 100)
    data[at] ^= 1
    path.write_bytes(data)
    assert lg.load(path).sum().item() != 1000.5
    with pytest.raises(LoadError, match="checksum"):
        lg.load(path, mmap=False)


SAVERS = {
    "save": lambda x, path: lg.save(x, path / "x.pt"),
    "safetensors": lambda x, path: lg.save(x, path / "x.safetensors"),
}


@pytest.mark.parametrize("way", SAVERS)
def test_the_next_save_clears_what_killed_ones_left(
    tmp_path: Path, child_environment: Callable[..., dict[str, str]], way: str
) -> None:
    source = f"""
import os, signal
from livegrad.serialization.files import writing
with writing({str(tmp_path / "x.pt")!r}) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", source], env=child_environment(), check=False)
    (left,) = tmp_path.iterdir()
    alive = tmp_path / left.name.replace(re.findall(r"-(\d+)-", left.name)[0], str(os.getppid()))
    elsewhere = tmp_path / re.sub(r"\.[0-9a-f]{8}-", ".00000000-", left.name)
    notes = tmp_path / ".notes.txt.4194300-0badc0de.tmp"
    for path in (alive, elsewhere, notes):
        path.write_bytes(b"somebody else's")
    SAVERS[way]({"x": lg.ones(3)}, tmp_path)
    assert not left.exists()
    assert all(path.exists() for path in (alive, elsewhere, notes))


def test_arrays_of_numpy_in_files_with_pytorchs_endings(tmp_path: Path) -> None:
    """States of generators, which trainers save beside those of ours."""
    state = {
        "numpy": np.random.RandomState(3).get_state(),
        "python": random.getstate(),
        "x": lg.ones(2),
    }
    path = tmp_path / "rng_state.pth"
    lg.save(state, path)
    found = lg.load(path)
    assert found["python"] == state["python"]
    assert found["numpy"][0] == state["numpy"][0]
    assert (found["numpy"][1] == state["numpy"][1]).all()
    np.random.RandomState().set_state(found["numpy"])
    with pytest.raises(TypeError, match="ndarray"):
        lg.save(state, path, format="torch")
    lg.save({"x": lg.ones(2)}, path)
    assert path.read_bytes()[:2] == b"PK"
