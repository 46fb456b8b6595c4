"""Files from before PyTorch 1.6: read as safely as the newer ones, and written."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from hostile import (
    MAGIC,
    call,
    legacy_file,
    old_storage,
    pickled,
    plain,
    storage,
    tensor,
    text,
    tuple_of,
)
from test_hostile_torch import CODE, SHAPES, Ran, refused

import livegrad as lg
from livegrad import nn
from livegrad.serialization import LoadError

FLOATS = {"0": (4, struct.pack("<4f", 1, 2, 3, 4))}


def old(offset: Any = 0, size: Any = (4,), stride: Any = (1,), held: bytes | None = None) -> bytes:
    return tensor(offset, size, stride, held or old_storage())


def loaded(data: bytes) -> Any:
    return lg.load(io.BytesIO(data))


def test_the_file_the_cases_start_from() -> None:
    assert loaded(legacy_file(pickled(old()), FLOATS)).tolist() == [1, 2, 3, 4]
    assert loaded(legacy_file(pickled(old(1, (2,), (2,))), FLOATS)).tolist() == [2, 4]
    part = old(0, (2,), (1,), old_storage(part=("9", 1, 2)))
    assert loaded(legacy_file(pickled(part), FLOATS)).tolist() == [2, 3]


def test_text_of_python_2() -> None:
    short, long = b"U\x02hi", b"T\x03\0\0\0you"
    assert loaded(legacy_file(pickled(tuple_of(short, long)))) == ("hi", "you")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(protocol: int) -> None:
    parts = [pickle.dumps(x, protocol) for x in (MAGIC, 1001, {}, {"a": [1, "b"]}, [])]
    assert loaded(b"".join(parts)) == {"a": [1, "b"]}


def either(pattern: str) -> str:
    """The error of a newer file, or one that comes first: storages are named otherwise, and what
    follows a pickle without end is another one."""
    return f"({pattern}|is no storage|leaves other than one value)"


@pytest.mark.parametrize("case", CODE)
def test_code(case: str) -> None:
    refused(legacy_file(pickled(CODE[case][0])), either(CODE[case][1]))


@pytest.mark.parametrize("case", SHAPES)
def test_pickles(case: str) -> None:
    refused(legacy_file(SHAPES[case][0]), either(SHAPES[case][1]))


@pytest.mark.parametrize("protocol", range(2, 6))
def test_reduce_runs_nothing(tmp_path: Path, protocol: int) -> None:
    Ran.path = str(tmp_path / "ran")
    bad = pickle.dumps({"model": [Ran()]}, protocol)
    good = pickle.dumps({}, protocol)
    magic, version = pickle.dumps(MAGIC, protocol), pickle.dumps(1001, protocol)
    for parts in (
        [magic, version, good, bad, good],
        [magic, version, bad, good, good],
        [magic, bad, good, good, good],
        [magic, version, good, good, bad],
        [bad],
    ):
        refused(b"".join(parts), "mkdir|it is a pickle")
    assert not (tmp_path / "ran").exists()


BAD: dict[str, tuple[bytes, str]] = {
    "another version": (legacy_file(pickled(b"N"), version=7), "protocol version"),
    "a storage of a new file": (legacy_file(pickled(old(held=storage())), FLOATS), "no storage"),
    "no storage": (legacy_file(pickled(old())), "storage '0' is missing"),
    "one too many": (legacy_file(pickled(b"N"), FLOATS), "belongs to no tensor"),
    "the same twice": (
        legacy_file(pickled(old()), FLOATS, keys=["0", "0"]),
        "comes twice",
    ),
    "keys that are none": (legacy_file(pickled(old()), FLOATS, keys="0"), "list of keys"),
    "keys of numbers": (legacy_file(pickled(old()), FLOATS, keys=[0]), "list of keys"),
    "another count": (
        legacy_file(pickled(old()), {"0": (5, bytes(20))}),
        "has 5 elements; expected 4",
    ),
    "a negative count": (legacy_file(pickled(old()), {"0": (-4, bytes(16))}), "has -4 elements"),
    "too few bytes": (legacy_file(pickled(old()), {"0": (4, bytes(15))}), "truncated"),
    "a huge count": (
        legacy_file(pickled(old(held=old_storage(count=1 << 60))), {"0": (1 << 60, b"")}),
        "elements",
    ),
    "a count that is none": (
        legacy_file(pickled(old(held=old_storage(count="4"))), FLOATS),
        "has '4' elements",
    ),
    "a storage of two kinds": (
        legacy_file(pickled(tuple_of(old(), old(held=old_storage(kind="IntStorage")))), FLOATS),
        "in two ways",
    ),
    "a part beyond the end": (
        legacy_file(pickled(old(held=old_storage(part=("9", 3, 2)))), FLOATS),
        "beyond its 4 elements",
    ),
    "a part that starts before": (
        legacy_file(pickled(old(held=old_storage(part=("9", -1, 2)))), FLOATS),
        "beyond its 4 elements",
    ),
    "a part that is none": (
        legacy_file(pickled(old(held=old_storage(part=5))), FLOATS),
        "part of storage 0 wrongly",
    ),
    "a tensor beyond its part": (
        legacy_file(pickled(old(held=old_storage(part=("9", 1, 2)))), FLOATS),
        "needs elements 0 to 4",
    ),
    "a tensor beyond its storage": (legacy_file(pickled(old(2)), FLOATS), "needs elements 2 to 6"),
    "a terabyte": (
        legacy_file(pickled(old(0, (2**38,), (0,))), FLOATS),
        "far more memory than",
    ),
    "a module": (
        legacy_file(pickled(tuple_of(text("module"), b"N", b"N", b"N") + b"Q")),
        "no storage",
    ),
    "a gradient of integers": (
        legacy_file(
            pickled(
                call(
                    "torch._utils",
                    "_rebuild_tensor_v2",
                    old_storage(kind="IntStorage"),
                    *[plain(x) for x in (0, (4,), (1,), True, None)],
                )
            ),
            FLOATS,
        ),
        "requires_grad",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(case: str) -> None:
    refused(*BAD[case])


VALUES = {
    "a": lg.arange(5),
    "b": [lg.ones(2, 2), "text", lg.tensor(True)],
    "c": nn.Parameter(lg.ones(2)),
}


def saved(obj: Any) -> bytes:
    file = io.BytesIO()
    lg.save(obj, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    lg.save(VALUES, path, _use_new_zipfile_serialization=False)
    for back in (lg.load(path), lg.load(path, mmap=False), loaded(saved(VALUES))):
        assert back["a"].tolist() == [0, 1, 2, 3, 4]
        assert back["b"][0].tolist() == [[1, 1], [1, 1]]
        assert back["b"][2].item() is True
        assert isinstance(back["c"], nn.Parameter)
    assert path.read_bytes().startswith(pickle.dumps(MAGIC, 2))


def test_what_was_not_there_then() -> None:
    with pytest.raises(TypeError, match=r"obj\['x'\] is a tensor of uint16"):
        saved({"x": lg.ones(2).to(lg.uint16)})
    with pytest.raises(ValueError, match="about the format 'torch'"):
        lg.save({}, io.BytesIO(), _use_new_zipfile_serialization=False, format="safetensors")


def test_every_truncation_is_refused() -> None:
    whole = saved(VALUES)
    for length in range(len(whole)):
        with pytest.raises(LoadError, match="load: <BytesIO>: "):
            loaded(whole[:length])


def test_every_damaged_byte_is_refused_or_gives_plain_values() -> None:
    whole = saved(VALUES)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        try:
            loaded(bytes(damaged))
        except LoadError:
            continue
