"""Files that gzip has packed: the same values from fewer bytes, and no memory filled by a few."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.serialization import LoadError, load_file, packed
from tests.serialization.hostile import entry, safetensors_file


@pytest.mark.parametrize("name", ["x.safetensors.gz", "x.pt.gz", "x.gz"])
def test_what_is_saved_is_loaded(tmp_path: Path, name: str) -> None:
    lg.manual_seed(0)
    saved = {"w": lg.randn(5, 7), "step": 3, "rows": lg.arange(9).view(3, 3).t()}
    lg.save(saved, tmp_path / name)
    inner = gzip.decompress((tmp_path / name).read_bytes())
    assert inner.startswith(b"PK") == (".pt" in name)
    for f in (tmp_path / name, io.BytesIO((tmp_path / name).read_bytes()), io.BytesIO(inner)):
        back = lg.load(f)
        assert back["step"] == 3
        assert lg.equal(back["w"], saved["w"])
        assert lg.equal(back["rows"], saved["rows"])


def test_a_whole_module(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    lg.save(layer, tmp_path / "layer.safetensors.gz")
    back = lg.load(tmp_path / "layer.safetensors.gz")
    assert lg.equal(back(lg.ones(1, 3)), layer(lg.ones(1, 3)))
    assert set(load_file(tmp_path / "layer.safetensors.gz")) == {"weight", "bias"}


def test_equal_objects_make_equal_files(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        lg.save({"x": lg.ones(3)}, tmp_path / name)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def packed_zeros(count: int) -> bytes:
    """A file of a tensor of so many zeros, a thousandth as large."""
    data = safetensors_file({"x": entry("U8", (count,), (0, count))}, bytes(count))
    return gzip.compress(data)


def test_a_small_file_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lg.load(io.BytesIO(packed_zeros(1 << 20)))["x"].shape == (1 << 20,)
    monkeypatch.setattr(packed, "_ALWAYS", 1 << 16)
    with pytest.raises(LoadError, match=r"more than \d+ when it is unpacked.*gunzip"):
        lg.load(io.BytesIO(packed_zeros(1 << 20)))


def good() -> bytes:
    file = io.BytesIO()
    lg.save({"x": lg.tensor(np.random.default_rng(0).normal(size=50))}, file)
    return gzip.compress(file.getvalue())


def test_every_truncation_is_refused() -> None:
    data = good()
    for end in range(2, len(data)):
        with pytest.raises(LoadError):
            lg.load(io.BytesIO(data[:end]))


def test_damage_is_noticed() -> None:
    data = good()
    changes: list[Any] = []
    for place in range(10, len(data)):  # before that: a time, a system, a name
        damaged = bytearray(data)
        damaged[place] ^= 1
        try:
            lg.load(io.BytesIO(bytes(damaged)))
        except LoadError:
            continue
        changes.append(place)
    assert not changes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (good() + b"more", "4 bytes follow what is packed in it"),
        (gzip.compress(good()), "it starts with"),  # packed twice
        (gzip.compress(b""), "empty or truncated"),
        (b"\x1f\x8b\x08", "does not end"),
    ],
    ids=["more", "twice", "empty", "start"],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        lg.load(io.BytesIO(data))


def test_a_header_of_35615_bytes_is_not_taken_for_a_packed_file() -> None:
    text = b'{"x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'
    header = text + b" " * (35614 - len(text)) + b"}"
    data = safetensors_file(header, b"\x07")
    assert data.startswith(b"\x1f\x8b")
    assert lg.load(io.BytesIO(data))["x"].item() == 7
