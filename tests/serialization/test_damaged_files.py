"""Bytes of valid files changed at random: an equal object, other numbers in tensors, or one error.

Never another exception, a crash, a hang, or much memory.

    LIVEGRAD_FUZZ_EXAMPLES=20000 pytest tests/serialization/test_damaged_files.py     more of them
"""

from __future__ import annotations

import io
import json
import os
import resource
import struct
import zlib
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile import (
    call,
    entry,
    name_of,
    pickled,
    plain,
    safetensors_file,
    storage,
    tensor,
    torch_file,
)
from hypothesis import example, given, settings, strategies as st

import livegrad as lg
from livegrad import nn
from livegrad.serialization import LoadError
from livegrad.serialization.archive import read_archive, read_member
from livegrad.serialization.files import open_source

OBJECT: Any = {
    "model": OrderedDict(weight=lg.arange(12.0).reshape(3, 4), bias=lg.ones(3).bfloat16()),
    "step": 17,
    "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}],
    3: {"flag": lg.tensor([True, False]), "none": None, "c": lg.tensor(1 + 2j), "set": {1, "a"}},
    "parameter": nn.Parameter(lg.zeros(2)),
    "empty": lg.zeros(0, 3),
}


def saved(format: str) -> bytes:
    file = io.BytesIO()
    lg.save(OBJECT, file, format=format)
    return file.getvalue()


FILES = {format: saved(format) for format in ("safetensors", "torch")}
PLAIN = safetensors_file({"a": entry(), "b": entry("I64", [1], [8, 16])}, b"1234567887654321")


def outline(x: Any, values: bool) -> Any:
    """A value as something to compare: with the bytes of tensors, or only their place."""
    if isinstance(x, lg.Tensor):
        data = x._values("test").tobytes() if values else None
        return type(x).__name__, x.dtype.name, tuple(x.shape), x.requires_grad, data
    if isinstance(x, dict):
        return type(x).__name__, [(key, outline(value, values)) for key, value in x.items()]
    if isinstance(x, list | tuple):
        return type(x).__name__, [outline(item, values) for item in x]
    return type(x).__name__, x


changes = st.lists(
    st.tuples(
        st.sampled_from(["flip", "set", "insert", "delete", "copy", "swap"]),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1, exclude_max=True),
        st.one_of(st.integers(0, 255), st.sampled_from(list(b'"[]{},:0\xff\x7f\x80('))),
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, todo: Any) -> bytes:
    """`data` after a few changes."""
    out = bytearray(data)
    for kind, where, other, value in todo:
        at, to = int(where * len(out)), int(other * len(out))
        if kind == "flip":
            out[at] ^= 1 << (value % 8)
        elif kind == "set":
            out[at] = value
        elif kind == "insert":
            out[at:at] = bytes([value]) * (1 + value % 9)
        elif kind == "delete":
            del out[at : at + 1 + value % 9]
        elif kind == "copy":
            out[at : at + 8] = out[to : to + 8]
        else:
            out[at : at + 4], out[to : to + 4] = out[to : to + 4], out[at : at + 4]
    return bytes(out)


EXAMPLES = int(os.environ.get("LIVEGRAD_FUZZ_EXAMPLES", "0"))
fuzzed = settings(max_examples=EXAMPLES or 300, deadline=60_000)  # none takes for ever


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Any:
    """All of it together takes little memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def loaded(data: bytes, path: Path | None) -> Any:
    if path is None:
        return lg.load(io.BytesIO(data))
    path.write_bytes(data)
    return lg.load(path)


@fuzzed
@given(st.sampled_from(sorted(FILES)), st.booleans(), changes)
def test_damaged_files(tmp_path: Path, format: str, mapped: bool, todo: Any) -> None:
    data = damaged(FILES[format], todo)
    try:
        back = loaded(data, tmp_path / "x" if mapped else None)
    except LoadError:
        return
    # PyTorch files have checksums, which are checked when all is read.
    exact = format == "torch" and not mapped
    assert outline(back, exact) == outline(OBJECT, exact)
    outline(back, True)


@fuzzed
@given(changes)
def test_damaged_files_of_others(todo: Any) -> None:
    try:
        back = lg.load(io.BytesIO(damaged(PLAIN, todo)))
    except LoadError:
        return
    assert type(back) is dict
    assert all([type(x) is lg.Tensor for x in back.values()])
    outline(back, True)


# ---------------------------------------------------- past the checksums, into the machines


def is_plain(x: Any) -> bool:
    if isinstance(x, dict):
        return is_plain(list(x.keys())) and is_plain(list(x.values()))
    if isinstance(x, list | tuple | set | frozenset):
        return all([is_plain(item) for item in x])
    ours = (lg.Tensor, lg.dtype, lg.device, np.ndarray, np.generic)
    kinds = (str, bytes, bytearray, int, float, complex, range, slice, *ours)
    return x is None or isinstance(x, kinds)


def check_pickle(data: bytes) -> None:
    storages = {"0": bytes(range(48)), "1": b"\1\0\2", "2": b""}
    try:
        back = lg.load(io.BytesIO(torch_file(data, storages)))
    except LoadError:
        return
    assert is_plain(back)
    outline(back, True)


def inner_pickle() -> bytes:
    file = io.BytesIO(FILES["torch"])
    source = open_source(file, False)
    return read_member(source, read_archive(source)["archive/data.pkl"], "data.pkl")


@fuzzed
@given(changes)
def test_damaged_pickles(todo: Any) -> None:
    check_pickle(damaged(inner_pickle(), todo))


WORDS = [
    *[bytes([code]) for code in b"(.N]})ateusRbQ\x85\x86\x87\x88\x89\x8f\x90\x91\x94\x93o\x81"],
    *[b"h" + bytes([k]) for k in range(4)],
    *[b"q" + bytes([k]) for k in range(4)],
    *[plain(x) for x in (0, 1, -1, 4, 2**40, 2**70, 1.5, "0", "storage", (1,), (2, 2), b"x")],
    *[name_of("torch", x) for x in ("FloatStorage", "BoolStorage", "Size", "float32", "Tensor")],
    *[name_of("torch._utils", f"_rebuild_{x}") for x in ("tensor_v2", "tensor_v3", "parameter")],
    *[name_of("collections", x) for x in ("OrderedDict", "Counter")],
    *[name_of("builtins", x) for x in ("set", "complex", "bytearray", "frozenset")],
    storage("0", 12),
    storage("1", 3, "BoolStorage"),
    tensor(0, (2, 3), (3, 1), storage("0", 12)),
    tensor(0, (3,), (1,), storage("1", 3, "BoolStorage")),
    call("collections", "OrderedDict"),
]


@fuzzed
@given(st.lists(st.sampled_from(WORDS), max_size=30))
@example([b"]", b"q\0", b"h\0", b"a"])
def test_pickles_of_random_words(words: list[bytes]) -> None:
    check_pickle(pickled(*words))


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False),
    st.sampled_from(["t", "float32", "nan", "0x1f", "AAAA", "list", "cpu", "$tuple", ""]),
)  # fmt: skip
tags = st.sampled_from(
    "tensor parameter array int float complex bytes bytearray scalar dtype device range slice "
    "tuple size set frozenset dict ordered counter default call".split()
).map(lambda name: f"${name}")
jsons = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(tags, st.sampled_from(["dtype", "factory", "x"])), inner, max_size=2
        ),
        st.tuples(tags, st.lists(st.lists(inner, min_size=2, max_size=2), max_size=2)).map(
            lambda pair: {pair[0]: pair[1]}
        ),
    ),
    max_leaves=10,
)


@fuzzed
@given(jsons)
def test_random_structures(structure: Any) -> None:
    inner = json.dumps({"version": 1, "object": structure})
    crc = f"{zlib.crc32((inner + chr(10) + 't F32 (2,)').encode()):08x}"
    metadata = {"livegrad": inner, "livegrad_crc32": crc}
    data = safetensors_file({"__metadata__": metadata, "t": entry()}, b"12345678")
    with suppress(LoadError):
        assert is_plain(lg.load(io.BytesIO(data)))


def test_every_bit_of_a_small_file() -> None:
    """Not at random: each bit of the parts that describe, in both formats."""
    for format, data in FILES.items():
        end = 8 + struct.unpack("<Q", data[:8])[0] if format == "safetensors" else len(data)
        step = 1 if format == "safetensors" else 3
        for at in range(0, end, step):
            broken = bytearray(data)
            broken[at] ^= 1 << (at % 8)
            try:
                back = lg.load(io.BytesIO(broken))
            except LoadError:
                continue
            assert outline(back, True) == outline(OBJECT, True), at
