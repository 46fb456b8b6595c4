"""Checkpoints of several files, as on the Hugging Face hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad.serialization import LoadError, save_file

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write_index(folder: Path, places: Any, name: str = INDEX) -> Path:
    text = json.dumps({"metadata": {"total_size": 40}, "weight_map": places})
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A directory with a checkpoint of two files."""
    save_file({"a.weight": lg.ones(4), "a.bias": lg.zeros(2)}, tmp_path / FIRST)
    save_file({"b.weight": lg.arange(3), "unused": lg.ones(1)}, tmp_path / SECOND)
    write_index(tmp_path, {"b.weight": SECOND, "a.weight": FIRST, "a.bias": FIRST})
    return tmp_path


def test_by_directory_and_by_index(sharded: Path) -> None:
    for path in (sharded, str(sharded), sharded / INDEX):
        for mmap in (None, False):
            state = lg.load(path, mmap=mmap)
            assert list(state) == ["b.weight", "a.weight", "a.bias"]
            assert state["b.weight"].tolist() == [0, 1, 2]
            mapped = state["a.weight"]._node.buffer.home is None
            assert mapped == (mmap is None)


def test_directories_with_one_file(tmp_path: Path) -> None:
    lg.save({"x": 1}, tmp_path / "weights.safetensors")
    assert lg.load(tmp_path) == {"x": 1}
    lg.save({"x": 2}, tmp_path / "model.safetensors")
    assert lg.load(tmp_path) == {"x": 2}


def test_other_names_and_formats(tmp_path: Path) -> None:
    lg.save({"w": lg.ones(2)}, tmp_path / "pytorch_model-1.bin")
    write_index(tmp_path, {"w": "pytorch_model-1.bin"}, "pytorch_model.bin.index.json")
    assert lg.load(tmp_path)["w"].tolist() == [1, 1]
    save_file({"w": lg.zeros(2)}, tmp_path / "unet-1.safetensors")
    save_file({}, tmp_path / "unet-2.safetensors")
    (tmp_path / "pytorch_model.bin.index.json").unlink()
    write_index(tmp_path, {"w": "unet-1.safetensors"}, "unet.safetensors.index.json")
    assert lg.load(tmp_path)["w"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("place", "pattern"),
    [
        ("../secret", "expected the name of a file in the same directory"),
        ("/etc/passwd", "expected the name of a file"),
        ("a/b.safetensors", "expected the name of a file"),
        ("..\\b", "expected the name of a file"),
        ("C:b", "expected the name of a file"),
        ("..", "expected the name of a file"),
        ("", "expected the name of a file"),
        ("x\0", "expected the name of a file"),
        ("x\u202e", "expected the name of a file"),
        (3, "expected the name of a file"),
        (["x"], "expected the name of a file"),
        ("missing.safetensors", "which is missing"),
        (FIRST, r"'b.weight' is in model-00001.* where it is not"),
        (INDEX, "model.safetensors.index.json: it starts with"),
    ],
)
def test_places_that_lie(sharded: Path, place: Any, pattern: str) -> None:
    write_index(sharded, {"a.weight": FIRST, "b.weight": place})
    with pytest.raises(LoadError, match=f"load: .*{pattern}"):
        lg.load(sharded)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "not valid JSON"),
        ("[]", "no weight_map"),
        ('{"weight_map": []}', "no weight_map"),
        ('{"weight_map": {}}', "no weight_map"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "'a' is there twice"),
        ('{"weight_map": NaN}', "NaN is not JSON"),
        ('{"a":' * 1000 + "1" + "}" * 1000, "nests more than"),
        ("\ud800", "not valid JSON"),
    ],
)
def test_indices_that_are_none(sharded: Path, text: str, pattern: str) -> None:
    (sharded / INDEX).write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(LoadError, match=f"index.json: .*{pattern}"):
        lg.load(sharded)


def test_a_damaged_file_is_named(sharded: Path) -> None:
    whole = (sharded / SECOND).read_bytes()
    (sharded / SECOND).write_bytes(whole[:-1])
    with pytest.raises(LoadError, match=f"load: .*{SECOND}: .*truncated"):
        lg.load(sharded)
    lg.save([1], sharded / SECOND)
    with pytest.raises(LoadError, match="holds a list; expected tensors"):
        lg.load(sharded)
