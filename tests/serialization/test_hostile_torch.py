"""Hostile and damaged PyTorch files are refused, and nothing in them ever runs."""

from __future__ import annotations

import io
import os
import pickle
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hostile import (
    call,
    name_of,
    number,
    pickled,
    plain,
    storage,
    tensor,
    text,
    torch_file,
    tuple_of,
)

import livegrad as lg
from livegrad.serialization import LoadError, checkpoint, machine, storages

FLOATS = {"0": struct.pack("<4f", 1, 2, 3, 4)}


class Ran:
    """Pickled, it asks the reader to make a directory."""

    path = ""

    def __reduce__(self) -> Any:
        return os.mkdir, (Ran.path,)


def refused(data: bytes, pattern: str) -> None:
    """Loading is refused with the one error, which names the file and is not long."""
    with pytest.raises(LoadError, match=f"(?s)^load: <BytesIO>: .*{pattern}") as caught:
        lg.load(io.BytesIO(data))
    assert len(str(caught.value)) < 1000


def test_the_file_the_cases_start_from() -> None:
    assert lg.load(io.BytesIO(torch_file(pickled(tensor()), FLOATS))).tolist() == [1, 2, 3, 4]
    strided = pickled(tensor(1, (2,), (2,)))
    assert lg.load(io.BytesIO(torch_file(strided, FLOATS))).tolist() == [2, 4]


# ---------------------------------------------------------------------------- code execution


@pytest.mark.parametrize("protocol", range(6))
def test_reduce_runs_nothing(tmp_path: Path, protocol: int) -> None:
    Ran.path = str(tmp_path / "ran")
    for value in (Ran(), {"model": [Ran()]}, {"state": (1, {"x": Ran()})}):
        data = pickle.dumps(value, protocol)
        refused(torch_file(data), "posix.mkdir|does not start with PROTO|opcode")
        refused(data, "it is a pickle|expected a safetensors or PyTorch file|truncated")
    assert not (tmp_path / "ran").exists()


CODE: dict[str, tuple[bytes, str]] = {
    "os.system": (call("os", "system", text("true")), "refers to 'os.system'.*never runs"),
    "eval": (call("builtins", "eval", text("1")), "refers to 'builtins.eval'"),
    "eval by its old name": (call("__builtin__", "eval", text("1")), "'builtins.eval'"),
    "exec": (call("builtins", "exec", text("1")), "'builtins.exec'"),
    "getattr": (call("builtins", "getattr", text("a"), text("b")), "'builtins.getattr'"),
    "__import__": (call("builtins", "__import__", text("os")), "'builtins.__import__'"),
    "torch's own loader": (
        call("torch.storage", "_load_from_bytes", plain(b"")),
        "_load_from_bytes",
    ),
    "torch.load": (call("torch.serialization", "load", text("x")), "'torch.serialization.load'"),
    "hub": (call("torch.hub", "load", text("a/b"), text("c")), "'torch.hub.load'"),
    "a dotted name": (name_of("collections", "OrderedDict.__init__.__globals__"), "__globals__"),
    "numpy": (call("numpy.core.multiarray", "_reconstruct"), "Save NumPy values as tensors"),
    "a model": (name_of("torch.nn.modules.linear", "Linear"), r"save its state_dict\(\)"),
    "a name with spaces": (name_of("os ", "system"), "'os .system'"),
    "a name that looks alike": (name_of("tоrch", "Size"), r"t\\u043erch.Size"),
    "a name without end": (b"c" + b"x" * 1000, "a name without end"),
    "STACK_GLOBAL": (
        text("os") + text("system") + b"\x93" + tuple_of(text("ls")) + b"R",
        "os.system",
    ),
    "STACK_GLOBAL of numbers": (plain(1) + plain(2) + b"\x93", "something else than text"),
    "INST": (b"(" + text("ls") + b"ios\nsystem\n", "opcode INST"),
    "OBJ": (b"(" + name_of("collections", "OrderedDict") + b"o", "opcode OBJ"),
    "NEWOBJ": (name_of("collections", "OrderedDict") + b")\x81", "opcode NEWOBJ"),
    "NEWOBJ_EX": (name_of("collections", "OrderedDict") + b")}\x92", "opcode NEWOBJ_EX"),
    "EXT1": (b"\x82\x01", "opcode EXT1"),
    "EXT2": (b"\x83\x01\x00", "opcode EXT2"),
    "EXT4": (b"\x84\x01\x00\x00\x00", "opcode EXT4"),
    "PERSID": (b"P0\n", "opcode PERSID"),
    "BUILD of a dict": (b"}" + b"}b", "sets the state of dict"),
    "BUILD of a tensor": (tensor() + plain({"grad": 1}) + b"b", "sets the state of Tensor"),
    "BUILD that hides methods": (
        call("collections", "OrderedDict") + plain({"items": 1}) + b"b",
        "attributes other than _metadata",
    ),
    "BUILD of a class": (name_of("collections", "OrderedDict") + b"}b", "sets the state of Known"),
    "REDUCE of a dtype": (name_of("torch", "float32") + b")R", "calls DType"),
    "REDUCE of a class": (name_of("torch", "Tensor") + b")R", "calls torch.Tensor"),
    "REDUCE of text": (text("print") + b")R", "calls str"),
    "REDUCE with a list": (name_of("torch", "Size") + b"]R", "calls with a list"),
    "a callable set": (call("builtins", "set", name_of("os", "system")), "os.system"),
    "NEXT_BUFFER": (b"\x97", "opcode NEXT_BUFFER"),
    "READONLY_BUFFER": (b"N\x98", "opcode READONLY_BUFFER"),
    "protocol 0 numbers": (b"I1\n", "opcode INT"),
    "protocol 0 text": (b"S'x'\n", "opcode STRING"),
}


@pytest.mark.parametrize("case", CODE)
def test_code(case: str) -> None:
    refused(torch_file(pickled(CODE[case][0]), FLOATS), CODE[case][1])


# ------------------------------------------------------------------------- tensors that lie

EMPTY_TENSOR = ("torch._utils", "_rebuild_meta_tensor_no_storage")
DTYPE = name_of("torch", "float32")
TENSORS: dict[str, tuple[bytes, str]] = {
    "offset beyond the storage": (tensor(5), "elements 5 to 9 .* the storage has 4"),
    "offset and size beyond": (tensor(1), "elements 1 to 5"),
    "size beyond the storage": (tensor(0, (5,)), "elements 0 to 5"),
    "stride beyond the storage": (tensor(0, (2,), (4,)), "elements 0 to 5"),
    "gigantic size": (tensor(0, (2**62,)), "overflows 64 bits"),
    "size that wraps around": (tensor(0, (2**32, 2**32), (0, 0)), "overflows 64 bits"),
    "gigantic offset": (tensor(2**64), "the storage has 4"),
    "an empty tensor far outside": (tensor(10**6, (0,)), "elements 1000000 to 1000000"),
    "negative offset": (tensor(-1), "offset -1"),
    "negative size": (tensor(0, (-4,)), "numbers >= 0"),
    "negative stride": (tensor(3, (4,), (-1,)), "numbers >= 0"),
    "fewer strides than sizes": (tensor(0, (2, 2), (1,)), r"size \(2, 2\), stride \(1,\)"),
    "size of floats": (tensor(0, (4.0,)), "numbers >= 0"),
    "size of bools": (tensor(0, (True,)), "numbers >= 0"),
    "size is a list": (tensor(0, [4]), "numbers >= 0"),
    "size is a number": (tensor(0, 4, 1), "numbers >= 0"),
    "offset is text": (tensor("0"), "offset '0'"),
    "many dims": (tensor(0, (1,) * 65, (1,) * 65), "at most 64"),
    "requires_grad is a number": (tensor(0, (4,), (1,), None, 1, None), "requires_grad 1"),
    "a gradient of integers": (
        tensor(0, (4,), (1,), storage(kind="IntStorage"), True, None),
        "int32 has requires_grad True",
    ),
    "metadata that are unknown": (
        tensor(0, (4,), (1,), None, False, None, {"x": 1}),
        "metadata other than conj and neg",
    ),
    "no storage": (tensor(held=plain("0")), "_rebuild_tensor_v2 is called with other arguments"),
    "too few arguments": (call("torch._utils", "_rebuild_tensor_v2", storage()), "other arguments"),
    "missing storage": (tensor(held=storage("7")), "data/'7' is missing"),
    "a storage elsewhere": (tensor(held=storage("../data.pkl")), "is missing"),
    "a storage that is a path": (tensor(held=storage("/etc/passwd")), "is missing"),
    "a storage by number": (tensor(held=storage(0)), "describes storage 0 wrongly"),
    "a storage that claims more": (tensor(held=storage(count=2**60)), "16 bytes; expected"),
    "a storage that claims less": (tensor(held=storage(count=3)), "16 bytes; expected 3"),
    "a storage of negative size": (tensor(held=storage(count=-4)), "expected -4 elements"),
    "a storage of text": (tensor(held=storage(count="4")), "expected '4' elements"),
    "an unknown storage": (tensor(held=storage(kind="EvilStorage")), "torch.EvilStorage"),
    "a quantised storage": (tensor(held=storage(kind="QInt8Storage")), "no tensors of this type"),
    "a persistent id of text": (text("x") + b"Q", "persistent id that is no storage"),
    "a persistent id of tensors": (
        tuple_of(*[tensor()] * 5) + b"Q",
        "persistent id that is no storage",
    ),
    "a persistent id for a module": (
        tuple_of(text("module"), plain(1), plain(1), plain(1), plain(1)) + b"Q",
        "describes storage 1 wrongly",
    ),
    "a bare storage": (storage(), "bare Storage"),
    "a bare function": (name_of("torch._utils", "_rebuild_tensor_v2"), "bare torch._utils"),
    "a parameter of a number": (
        call("torch._utils", "_rebuild_parameter", plain(1), plain(True), plain(None)),
        "_rebuild_parameter is called with other arguments",
    ),
    "a class that is none": (
        call(
            "torch._tensor",
            "_rebuild_from_type_v2",
            name_of("collections", "OrderedDict"),
            name_of("torch", "Tensor"),
            plain(()),
            plain(None),
        ),
        "_rebuild_from_type_v2 is called with other",
    ),
    "a quantised tensor": (call("torch._utils", "_rebuild_qtensor"), "save them dense"),
    "no sparse tensor": (call("torch._utils", "_rebuild_sparse_tensor"), "other arguments"),
    "a sparse tensor of numbers": (
        call("torch._utils", "_rebuild_sparse_tensor", text("sparse_coo"), plain((1, 2, (3,)))),
        "other arguments",
    ),
    "no layout": (call("torch.serialization", "_get_layout", plain(1)), "other arguments"),
    "no meta tensor": (call(*EMPTY_TENSOR), "other arguments"),
    "a meta tensor of text": (
        call(*EMPTY_TENSOR, DTYPE, text("ab"), plain((1,)), plain(False)),
        "numbers >= 0",
    ),
    "a meta tensor of another dtype": (
        call(*EMPTY_TENSOR, text("float"), plain((1,)), plain((1,)), plain(False)),
        "other arguments",
    ),
    "a meta tensor that cannot be": (
        call(*EMPTY_TENSOR, DTYPE, plain((1 << 40, 1 << 40)), plain((1, 1)), plain(False)),
        "overflowed",
    ),
    "a meta tensor of learned integers": (
        call(*EMPTY_TENSOR, name_of("torch", "int64"), plain((1,)), plain((1,)), plain(True)),
        "other arguments",
    ),
    "a device that cannot be": (call("torch", "device", text("gpu")), "a device is wrong"),
    "a device of a list": (call("torch", "device", text("cpu"), b"]"), "other arguments"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_tensors(case: str) -> None:
    refused(torch_file(pickled(TENSORS[case][0]), FLOATS), TENSORS[case][1])


def test_views_cannot_fill_the_memory() -> None:
    """Expanded to a terabyte, or a large storage in many orders."""
    expanded = pickled(tensor(0, (2**38,), (0,)))
    refused(torch_file(expanded, FLOATS), "far more memory than")
    large = {"0": bytes(4 << 20)}
    held = storage(count=1 << 20)
    turned = [tensor(k, (1 << 10, 1023), (1, 1 << 10), held) for k in range(40)]
    parts = b"](" + b"".join(turned) + b"e"
    refused(torch_file(pickled(parts), large), "far more memory than")
    plain_views = [tensor(k, ((1 << 20) - 40,), (1,), held) for k in range(40)]
    refused(torch_file(pickled(b"](" + b"".join(plain_views) + b"e"), large), "far more memory")


# ------------------------------------------------------------------------ shape of the pickle


def laughs(depth: int) -> bytes:
    """A list that holds a list twice, which holds a list twice …"""
    out = b"]q\x00"
    for k in range(depth):
        out += b"](" + b"h" + bytes([k]) + b"h" + bytes([k]) + b"eq" + bytes([k + 1])
    return out


def tuple_laughs(depth: int, width: int) -> bytes:
    out = plain(1) + b"q\x00"
    for k in range(depth):
        out += b"(" + (b"h" + bytes([k])) * width + b"tq" + bytes([k + 1])
    return out


SHAPES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "does not start with PROTO"),
    "no STOP": (b"\x80\x02]", "ends without STOP"),
    "an empty stack": (b"\x80\x02.", "leaves other than one value"),
    "two values": (b"\x80\x02NN.", "leaves other than one value"),
    "an open mark": (b"\x80\x02(N.", "leaves other than one value"),
    "no mark": (b"\x80\x02Nt.", "looks for a MARK"),
    "takes too much": (b"\x80\x02a.", "empty stack"),
    "protocol 0": (b"(lp0\n.", "does not start with PROTO"),
    "protocol 99": (b"\x80\x63N.", "protocol 99; expected 2 to 5"),
    "an unknown opcode": (pickled(b"\xff"), "opcode 0xff"),
    "text beyond the end": (b"\x80\x02X\xff\xff\xff\xff.", "needs 4294967295 more bytes"),
    "bytes of any size": (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "more bytes; got"),
    "a frame that does not fit": (
        b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
        "a frame that does not fit",
    ),
    "text that is none": (pickled(b"X\x01\x00\x00\x00\xff"), "not UTF-8"),
    "a huge integer": (pickled(number(1 << 10_000)), "integer of 1251 bytes"),
    "an integer that claims more": (pickled(b"\x8b\xff\xff\xff\x7f"), "integer of 2147483647"),
    "a memo that is not there": (pickled(b"h\x05"), "asks for value number 5"),
    "a memo of any number": (pickled(b"Nr\xff\xff\xff\xff"), "as number 4294967295"),
    "a list within itself": (pickled(b"]q\x00h\x00a"), "contains itself"),
    "a dict within itself": (pickled(b"}q\x00" + text("x") + b"h\x00s"), "contains itself"),
    "a longer cycle": (pickled(b"]q\x00]q\x01h\x00aa"), "contains itself"),
    "deep lists": (pickled(b"]" * 50_000 + b"a" * 49_999), "nests deeper than 100"),
    "deep tuples": (pickled(b")" + b"\x85" * 50_000), "nests deeper than 100"),
    "laughs": (pickled(b"](" + laughs(60) + b"e"), "more than 5000000 values"),
    "a key that laughs": (
        pickled(b"](" + tuple_laughs(60, 2) + b"}h\x3cNse"),
        "tuple that nests deeper than 4, or one of too many",
    ),
    "a wide key that laughs": (
        pickled(b"](" + tuple_laughs(4, 1000) + b"}h\x04Nse"),
        "tuple that nests deeper than 4, or one of too many",
    ),
    "a set that laughs": (
        pickled(call("builtins", "set", b"](" + tuple_laughs(60, 2) + b"e")),
        "tuple that nests deeper than 4, or one of too many",
    ),
    "a list as key": (pickled(b"}]Ns"), "is of type list"),
    "a tensor as key": (pickled(b"}" + tensor() + b"Ns"), "is of type Tensor"),
    "keys whose hashes collide": (
        pickled(b"}" + number((2**61 - 1) * 3) + b"Ns"),
        "beyond 61 bits",
    ),
    "a key without value": (pickled(b"}(Nu"), "a key without a value"),
    "items of a list": (pickled(b"]NNs"), "sets items of list"),
    "append to a dict": (pickled(b"}Na"), "appends to dict"),
    "append to a tuple": (pickled(b")Na"), "appends to tuple"),
    "metadata that are no dict": (
        pickled(call("collections", "OrderedDict") + plain({"_metadata": 3}) + b"b"),
        "metadata that are no dict",
    ),
    "bytes from a number": (
        pickled(call("builtins", "bytearray", plain(10**12))),
        "other arguments",
    ),
    "bytes from text": (pickled(call("_codecs", "encode", text("☃"), text("latin1"))), "no bytes"),
    "another codec": (
        pickled(call("_codecs", "encode", text("x"), text("hex"))),
        "other arguments",
    ),
    "a tensor as codec": (
        pickled(call("_codecs", "encode", text("x"), tensor())),
        "other arguments",
    ),
    "many tuples as keys": (
        pickled(b"}(" + b"".join([plain((k, k)) + b"N" for k in range(10_001)]) + b"u"),
        "one of too many",
    ),
    "complex from text": (pickled(call("builtins", "complex", text("1"), text("2"))), "other arg"),
    "a Counter of text": (pickled(call("collections", "Counter", text("abc"))), "other arguments"),
    "a Size of text": (pickled(call("torch", "Size", text("abc"))), "numbers >= 0"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_pickles(case: str) -> None:
    before = time.perf_counter()
    refused(torch_file(SHAPES[case][0], FLOATS), SHAPES[case][1])
    assert time.perf_counter() - before < 60  # seconds: not for ever


def test_endless_pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(torch_file(pickled(b"]0" * 3)), "opcode POP")
    monkeypatch.setattr(machine, "MOST_OBJECTS", 1000)
    refused(torch_file(pickled(b"N" * 1001)), "more than 1000 opcodes")
    monkeypatch.setattr(storages, "MOST_TENSORS", 10)
    many = b"".join([tensor(0, (1,) * n, (1,) * n) for n in range(12)])
    refused(torch_file(pickled(b"](" + many + b"e"), FLOATS), "more than 10 tensors")
    monkeypatch.setattr(checkpoint, "MOST_HEADER_BYTES", 100)
    refused(torch_file(pickled(text("x" * 100))), "expected at most 100")


# ------------------------------------------------------------------------------- the archive

GOOD = torch_file(pickled(tensor()), FLOATS)


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", method) as archive,
        pytest.warns() if len({name for name, _ in files}) < len(files) else open(os.devnull),
    ):
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


def changed(data: bytes, old: bytes, new: bytes, which: int = 0) -> bytes:
    """`data` with one occurrence of `old` replaced, at its place."""
    at = -1
    for _ in range(which + 1):
        at = data.index(old, at + 1)
    return data[:at] + new + data[at + len(new) :]


def field(data: bytes, signature: bytes, offset: int, raw: bytes, which: int = 0) -> bytes:
    """`data` with the bytes at an offset from a signature replaced."""
    at = -1
    for _ in range(which + 1):
        at = data.index(signature, at + 1)
    return data[: at + offset] + raw + data[at + offset + len(raw) :]


CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"
EMPTY = pickled(b"N")
ARCHIVES: dict[str, tuple[Any, str]] = {
    "compressed (a bomb by ratio)": (
        lambda: torch_file(pickled(tensor()), {"0": bytes(10**7)}, method=zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "a bomb by size": (
        lambda: field(
            field(GOOD, CENTRAL, 20, b"\xfe\xff\xff\xff" * 2, 1),
            LOCAL,
            18,
            b"\xfe\xff\xff\xff" * 2,
            1,
        ),
        "4294967294 bytes from byte .*truncated or corrupt",
    ),
    "a bomb by 64-bit size": (lambda: wide_bomb(), "9223372036854775807 bytes"),
    "a bomb by overlap": (
        lambda: field(GOOD, CENTRAL, 42, GOOD[GOOD.index(CENTRAL) + 42 :][:4], 1),
        "contradicts the archive's directory",
    ),
    "files within files": (lambda: quine(), "overlaps"),
    "duplicate entries": (
        lambda: zipped(("a/data.pkl", EMPTY), ("a/data.pkl", pickled(b"]"))),
        "two files called 'a/data.pkl'",
    ),
    "path out of the directory": (
        lambda: zipped(("a/data.pkl", EMPTY), ("a/../../etc/passwd", b"")),
        "expected a plain path",
    ),
    "absolute path": (lambda: zipped(("/a/data.pkl", EMPTY)), "expected a plain path"),
    "a drive": (lambda: zipped(("C:/data.pkl", EMPTY)), "expected a plain path"),
    "backslashes": (
        lambda: zipped(("a/data.pkl", EMPTY), ("a\\..\\b", b"")),
        "expected a plain path",
    ),
    "an empty part": (lambda: zipped(("a//data.pkl", EMPTY)), "expected a plain path"),
    "a directory": (lambda: zipped(("a/", b""), ("a/data.pkl", EMPTY)), "expected a plain path"),
    "two directories": (lambda: zipped(("a/data.pkl", EMPTY), ("b/x", b"")), "2 directories"),
    "no data.pkl": (lambda: zipped(("a/data", EMPTY)), "no data.pkl"),
    "no files": (lambda: b"PK\3\4" + zipped(), "ends before|is truncated|expected it to end"),
    "TorchScript": (lambda: zipped(("a/data.pkl", EMPTY), ("a/constants.pkl", b"")), "TorchScript"),
    "TorchScript code": (
        lambda: zipped(("a/data.pkl", EMPTY), ("a/code/m.py", b"")),
        "TorchScript",
    ),
    "NumPy": (lambda: zipped(("x.npy", b"")), "NumPy archive"),
    "an odd byte order": (
        lambda: torch_file(EMPTY, extra={"archive/byteorder": b"middle"}),
        "byte order is b'middle'",
    ),
    "a long byte order": (
        lambda: torch_file(EMPTY, extra={"archive/byteorder": b"x" * 99}),
        "order",
    ),
    "encrypted": (lambda: field(GOOD, CENTRAL, 8, b"\x01\x00"), "is encrypted"),
    "another name in the header": (lambda: changed(GOOD, b"data.pkl", b"DATA.pkl"), "contradicts"),
    "another method in the header": (lambda: field(GOOD, LOCAL, 8, b"\x08\x00"), "contradicts"),
    "another size in the header": (lambda: field(GOOD, LOCAL, 22, b"\x01\x00"), "contradicts"),
    "another checksum": (
        lambda: field(field(GOOD, CENTRAL, 16, b"\0\0\0\0"), LOCAL, 14, b"\0\0\0\0"),
        "does not match its checksum",
    ),
    "sizes that differ": (lambda: field(GOOD, CENTRAL, 20, b"\x01\0\0\0"), "that claim to be"),
    "a header elsewhere": (lambda: field(GOOD, CENTRAL, 42, b"\x05\0\0\0"), "is not at byte 5"),
    "a header beyond the end": (
        lambda: field(GOOD, CENTRAL, 42, b"\xf0\xff\xff\xff"),
        "not at byte",
    ),
    "a name that is no text": (lambda: field(GOOD, CENTRAL, 46, b"\xff\xff"), "not UTF-8"),
    "a gigantic name": (lambda: field(GOOD, CENTRAL, 28, b"\xff\xff"), "directory is damaged"),
    "a damaged directory": (lambda: field(GOOD, CENTRAL, 0, b"PK\1\3"), "directory is damaged"),
    "more files than there are": (
        lambda: field(GOOD, END, 8, b"\x09\0\x09\0"),
        "ends before its 9",
    ),
    "fewer files than there are": (lambda: field(GOOD, END, 8, b"\x01\0\x01\0"), "bytes too many"),
    "several disks": (lambda: field(GOOD, END, 4, b"\x01\0"), "several parts"),
    "a comment": (
        lambda: field(GOOD, END, 20, b"\x04\0") + b"text",
        "end of the archive is missing",
    ),
    "a directory elsewhere": (lambda: field(GOOD, END, 16, b"\0\0\0\0"), "expected it to end at"),
    "something in front": (lambda: b"PK\3\4MZ" + GOOD, "expected it to end at byte"),
    "something behind": (lambda: GOOD + b"\0", "end of the archive is missing"),
    "tar": (lambda: b"\0" * 257 + b"ustar\0" + b"\0" * 300, "before version 0.2"),
    "pickle": (lambda: pickle.dumps({"a": 1}), "it is a pickle"),
    "HTML": (lambda: b"<!DOCTYPE html><html>", "starts with b'<!DOCTYPE html><'"),
    "a pointer of git": (
        lambda: b"version https://git-lfs.github.com/spec/v1",
        "starts with b'version",
    ),
}


def wide_bomb() -> bytes:
    """A file whose 64-bit size is as large as can be."""
    from livegrad.serialization import archive as module

    out = io.BytesIO()
    writer = module.ArchiveWriter(out)
    writer.add("a/data.pkl", EMPTY)
    name, most = b"a/data/0", 2**63 - 1
    fixed = (0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name))
    extra = struct.pack("<HHQQ", 1, 16, most, most)
    at = writer.at
    writer._write(module._LOCAL.pack(LOCAL, 45, *fixed, len(extra)) + name + extra)
    head = module._CENTRAL.pack(CENTRAL, 45, 45, *fixed, len(extra), 0, 0, 0, 0, at)
    writer.directory.append(head + name + extra)
    writer.finish()
    return out.getvalue()


def quine() -> bytes:
    """A file whose bytes contain the header and bytes of another."""
    inner = zipped(("a/data/1", b"x" * 50))
    hidden = inner[: inner.index(CENTRAL)]
    whole = zipped(("a/data.pkl", EMPTY), ("a/data/0", hidden), ("a/data/1", b"x" * 50))
    place = whole.index(hidden)
    return field(whole, CENTRAL, 42, struct.pack("<I", place), 2)


@pytest.mark.parametrize("case", ARCHIVES)
def test_archives(case: str) -> None:
    make, pattern = ARCHIVES[case]
    refused(make(), pattern)


def test_every_truncation_is_refused() -> None:
    file = io.BytesIO()
    lg.save({"a": lg.arange(5), "b": [lg.ones(2, 2), "text"]}, file, format="torch")
    whole = file.getvalue()
    for length in range(len(whole)):
        with pytest.raises(LoadError, match="load: <BytesIO>: "):
            lg.load(io.BytesIO(whole[:length]))
