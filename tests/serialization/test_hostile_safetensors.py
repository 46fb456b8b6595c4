"""Hostile and damaged safetensors files are refused, each with an error that says what is wrong."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hostile import entry, safetensors_file as made

import livegrad as lg
from livegrad.serialization import LoadError, layout, strict_json

EIGHT = b"12345678"
DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
HUGE = 2**63

CASES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty or truncated"),
    "seven bytes": (b"1234567", "empty or truncated"),
    "length only": (struct.pack("<Q", 2), "empty or truncated"),
    "gigantic header": (struct.pack("<Q", 2**63) + b"{}", "header claims 9223372036854775808"),
    "header a little too large": (struct.pack("<Q", 100_000_001) + b"{}", "expected at most"),
    "header beyond the file": (struct.pack("<Q", 1000) + b"{}", "truncated.*1008 bytes; got 10"),
    "header is no JSON": (made(b"{not json}"), "not valid JSON"),
    "header cut": (made(b'{"a":{"dtype":"F32"'), "not valid JSON"),
    "header is no UTF-8": (made(b'{"\xff\xfe":1}'), "not UTF-8.*byte 10"),
    "utf-16 surrogates as UTF-8": (made(b'{"\xed\xa0\x80":1}'), "not UTF-8"),
    "two values": (made(b'{}{"a":1}'), "not valid JSON.*Extra data"),
    "NaN in the header": (made(b'{"a":NaN}'), "NaN is not JSON"),
    "Infinity in the header": (made(b'{"a":-Infinity}'), "-Infinity is not JSON"),
    "control characters": (made(b'{"a\n":1}'), "control character"),
    "deep lists": (made(DEEP), "nests more than"),
    "deep objects": (made(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), "nests more than"),
    "deep and unbalanced": (made(b'{"a":' + b"[" * 90_000), "nests more than"),
    "duplicate names": (
        made(b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2), EIGHT),
        "'a' is there twice",
    ),
    "duplicate names, escaped": (
        made(b'{"a":%s,"\\u0061":%s}' % ((json.dumps(entry()).encode(),) * 2), EIGHT),
        "'a' is there twice",
    ),
    "duplicate fields": (
        made(b'{"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,8]}}', EIGHT),
        "'dtype' is there twice",
    ),
    "a tensor is a list": (made({"a": [1]}), "described by list"),
    "a field too many": (made({"a": {**entry(), "x": 1}}, EIGHT), "expected dtype, shape and data"),
    "a field missing": (made({"a": {"dtype": "F32"}}), "expected dtype, shape and data_offsets"),
    "unknown dtype": (made({"a": entry("F128")}, EIGHT), "dtype 'F128'; expected one of BOOL"),
    "dtype of another case": (made({"a": entry("f32")}, EIGHT), "dtype 'f32'"),
    "dtype is a list": (made({"a": entry(["F32"])}, EIGHT), "dtype list"),
    "negative size": (made({"a": entry(shape=[-2])}, EIGHT), r"shape \[-2\]; expected sizes >= 0"),
    "sizes that cancel": (made({"a": entry(shape=[-1, -2])}, EIGHT), "expected sizes >= 0"),
    "size is a float": (made({"a": entry(shape=[2.0])}, EIGHT), r"shape \[2.0\]"),
    "size is a bool": (made({"a": entry(shape=[2, True])}, EIGHT), r"shape \[2, True\]"),
    "shape is a number": (made({"a": entry(shape=2)}, EIGHT), "shape 2; expected sizes"),
    "shape overflows": (made({"a": entry(shape=[2**32, 2**32])}, EIGHT), "overflows 64 bits"),
    "shape overflows beside 0": (
        made({"a": entry(shape=[0, 2**40, 2**40], offsets=[0, 0])}),
        "overflows 64 bits",
    ),
    "shape wraps to the size": (made({"a": entry(shape=[2**62, 2, 4])}, EIGHT), "overflows"),
    "many dims": (made({"a": entry(shape=[1] * 65)}, EIGHT), "65 dims"),
    "a million dims": (made({"a": entry(shape=[1] * 10**6)}, EIGHT), "1000000 dims"),
    "huge numbers": (made(b'{"a":' + b"9" * 5000 + b"}"), "5000 digits"),
    "offsets beyond the file": (
        made({"a": entry(offsets=[0, 16])}, EIGHT),
        "bytes 0 to 16 .* has 8",
    ),
    "offsets far beyond": (
        made({"a": entry(offsets=[HUGE - 8, HUGE])}, EIGHT),
        "truncated or corrupt",
    ),
    "negative offsets": (made({"a": entry(offsets=[-8, 0])}, EIGHT), "bytes -8 to 0"),
    "offsets the wrong way": (made({"a": entry(offsets=[8, 0])}, EIGHT), "bytes 8 to 0"),
    "three offsets": (made({"a": entry(offsets=[0, 4, 8])}, EIGHT), "expected two"),
    "offsets as text": (made({"a": entry(offsets=["0", "8"])}, EIGHT), "expected two"),
    "fewer bytes than the shape": (made({"a": entry(shape=[3])}, EIGHT), "8 bytes; expected 12"),
    "more bytes than the shape": (made({"a": entry(shape=[1])}, EIGHT), "8 bytes; expected 4"),
    "overlap": (
        made({"a": entry(), "b": entry(offsets=[4, 12])}, EIGHT + b"1234"),
        "'b' overlaps the one before it",
    ),
    "the same bytes twice": (made({"a": entry(), "b": entry()}, EIGHT), "overlaps the one before"),
    "a gap": (made({"a": entry(offsets=[4, 12])}, EIGHT + b"1234"), "leaves a gap"),
    "bytes after the last tensor": (made({"a": entry()}, EIGHT + b"!"), "1 bytes follow the last"),
    "metadata of numbers": (made({"__metadata__": {"a": 1}}), "object of strings"),
    "metadata is a list": (made({"__metadata__": []}), "object of strings"),
    "metadata too deep": (made(b'{"__metadata__":{"a":{"b":{"c":1}}}}'), "object of strings"),
}


def refused(data: bytes, path: Path, pattern: str) -> None:
    """Loading is refused from a path and from an open file, and the error names the file."""
    path.write_bytes(data)
    with pytest.raises(LoadError, match=f"(?s)load: .*{path.name}: .*{pattern}") as caught:
        lg.load(path)
    assert len(str(caught.value)) < 1000
    with pytest.raises(LoadError, match=pattern):
        lg.load(io.BytesIO(data))


@pytest.mark.parametrize("case", CASES)
def test_hostile_headers(tmp_path: Path, case: str) -> None:
    refused(CASES[case][0], tmp_path / "bad.safetensors", CASES[case][1])


def test_too_many_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_TENSORS", 1000)
    monkeypatch.setattr(strict_json, "MOST_OBJECTS", 1000)
    many = b",".join([b'"%d":{"data_offsets":0}' % i for i in range(1001)])
    refused(made(b"{" + many + b"}"), tmp_path / "x", "more than 1000 tensors")
    lists = b"[]," * 1001
    refused(made(b'{"a":[' + lists + b"1]}"), tmp_path / "x", "more than 1000 lists")


# --------------------------------------------------------------------- the structure in JSON


def document(structure: Any, check: str | None = None, **changes: Any) -> bytes:
    """A file of one tensor `t` with any structure, whose checksum is right."""
    table = "\nt F32 (2,)"
    inner = structure if isinstance(structure, str) else json.dumps({"version": 1, **structure})
    crc = f"{zlib.crc32((inner + table).encode()):08x}"
    metadata = {"livegrad": inner, "livegrad_crc32": crc if check is None else check, **changes}
    return made({"__metadata__": metadata, "t": entry()}, EIGHT)


def nested(depth: int, tag: str) -> Any:
    out: Any = 1
    for _ in range(depth):
        out = {tag: [out]}
    return out


STRUCTURES: dict[str, tuple[Any, str]] = {
    "no JSON": ("[", "structure of the saved object is not JSON"),
    "a list": ("[]", "not of the expected form"),
    "later version": ('{"version": 2, "object": 1}', "version 2 .*newer livegrad"),
    "missing tensor": ({"object": {"$tensor": "u"}}, "the tensor 'u' is missing"),
    "tensor by number": ({"object": {"$tensor": 3}}, "has the tensor 3"),
    "unknown kind": ({"object": {"$call": ["os.system", "ls"]}}, r"unknown kind '\$call'"),
    "two kinds": ({"object": {"$tuple": [], "$list": []}}, r"unknown kind '\$tuple'"),
    "a kind with more": ({"object": {"$tuple": [], "x": 1}}, r"has \$tuple with"),
    "tuple of a number": ({"object": {"$tuple": 3}}, "has a tuple made of 3"),
    "unhashable key": ({"object": {"$dict": [[[1], 2]]}}, "key or element that is of type list"),
    "tensor as key": ({"object": {"$dict": [[{"$tensor": "t"}, 2]]}}, "is of type Tensor"),
    "the same key twice": ({"object": {"$dict": [[1, 2], [1.0, 3]]}}, "the key 1.0 twice"),
    "keys whose hashes collide": (
        {"object": {"$dict": [[(2**61 - 1) * k, 0] for k in range(1, 4)]}},
        "beyond 61 bits",
    ),
    "no pairs": ({"object": {"$ordered": [[1, 2, 3]]}}, "not made of pairs"),
    "a set with a list": ({"object": {"$set": [[1]]}}, "is of type list"),
    "a set with doubles": ({"object": {"$set": [1, 1]}}, "same element twice"),
    "a factory to call": ({"object": {"$default": [], "factory": "eval"}}, "defaultdict of 'eval'"),
    "a number of any size": ({"object": {"$int": "0x" + "f" * 10_001}}, "has the integer"),
    "a number in words": ({"object": {"$int": "seven"}}, "has the integer 'seven'"),
    "a float in words": ({"object": {"$float": "__import__"}}, "has the number"),
    "a dtype of Python": ({"object": {"$dtype": "object"}}, "has the dtype 'object'"),
    "a NumPy object": (
        {"object": {"$scalar": ["object", "AAAA"]}},
        "NumPy number of dtype 'object'",
    ),
    "half a NumPy number": ({"object": {"$scalar": ["float64", "AAAA"]}}, "3 bytes; expected 8"),
    "no base64": ({"object": {"$bytes": "*"}}, "not base64"),
    "a range without end": ({"object": {"$range": [0, 1, 0]}}, "has a range of"),
    "negative size": ({"object": {"$size": [-1]}}, "has the size"),
    "complex without parts": ({"object": {"$complex": [1.0]}}, "without two parts"),
    "device": ({"object": {"$device": "gpu"}}, "has the device"),
    "strides for other dims": (
        {"object": {"$tensor": "t", "strides": [1, 1, 1]}},
        "has the strides",
    ),
    "strides with gaps": ({"object": {"$tensor": "t", "strides": [7]}}, "has the strides"),
    "strides as text": ({"object": {"$tensor": "t", "strides": ["1"]}}, "at the strides"),
    "negative strides": ({"object": {"$tensor": "t", "strides": [-1]}}, "at the strides"),
    "pairs that are none": ({"object": {"$tensor": "t", "dtype": "complex128"}}, "is not complex"),
    "a part without sizes": (
        {"object": {"$tensor": "t", "place": [0, [1]]}},
        "has a place made of",
    ),
    "a part of negative size": (
        {"object": {"$tensor": "t", "place": [0, [-1], [1]]}},
        "has a tensor at the place",
    ),
    "a part with steps missing": (
        {"object": {"$tensor": "t", "place": [0, [1, 1], [1]]}},
        "has a tensor at the place",
    ),
    "a part beyond": ({"object": {"$tensor": "t", "place": [1, [2], [1]]}}, "is beyond it"),
    "a part far too large": (
        {"object": {"$tensor": "t", "place": [0, [1 << 40], [0]]}},
        "or too large",
    ),
    "another dtype": ({"object": {"$tensor": "t", "dtype": "object"}}, "has the tensor"),
    "deep tuples": ({"object": nested(150, "$tuple")}, "nests"),
    "very deep tuples": ({"object": nested(450, "$tuple")}, "nests"),
}


@pytest.mark.parametrize("case", STRUCTURES)
def test_hostile_structures(tmp_path: Path, case: str) -> None:
    structure, pattern = STRUCTURES[case]
    refused(document(structure), tmp_path / "x", pattern)


def test_a_structure_that_was_tampered_with(tmp_path: Path) -> None:
    good = document({"object": {"$tensor": "t"}})
    assert lg.load(io.BytesIO(good)).shape == (2,)
    refused(
        document({"object": 1}, check="00000000"), tmp_path / "x", "does not match its checksum"
    )
    refused(good.replace(b'"F32"', b'"I32"'), tmp_path / "x", "does not match its checksum")
    (tmp_path / "x").write_bytes(document({"object": 1}, check="00000000"))
    assert list(lg.serialization.load_file(tmp_path / "x")) == ["t"]


def test_a_tensor_that_cannot_have_a_gradient(tmp_path: Path) -> None:
    file = io.BytesIO()
    lg.save({"t": lg.ones(2, dtype=lg.int32)}, file)
    layout = file.getvalue()
    assert lg.load(io.BytesIO(layout))["t"].dtype is lg.int32
    inner = json.dumps({"version": 1, "object": {"$tensor": "t", "requires_grad": True}})
    crc = f"{zlib.crc32((inner + chr(10) + 't I32 (2,)').encode()):08x}"
    metadata = {"livegrad": inner, "livegrad_crc32": crc}
    data = made({"__metadata__": metadata, "t": entry("I32")}, EIGHT)
    refused(data, tmp_path / "x", "requires a gradient")


# -------------------------------------------------------------------------------- truncation


def test_every_truncation_is_refused() -> None:
    file = io.BytesIO()
    lg.save({"a": lg.arange(5), "b": [lg.ones(2, 2), "text"], "c": lg.tensor(True)}, file)
    whole = file.getvalue()
    for length in range(len(whole)):
        with pytest.raises(LoadError, match="load: <BytesIO>: "):
            lg.load(io.BytesIO(whole[:length]))
    with pytest.raises(LoadError, match="1 bytes follow"):
        lg.load(io.BytesIO(whole + b"\0"))
