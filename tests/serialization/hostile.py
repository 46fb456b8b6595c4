"""Files made by hand, so that every part of them can lie."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from typing import Any


def safetensors_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file: the header as text or as what becomes JSON, its length as claimed."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    """The description of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def torch_file(pickled: bytes, storages: dict[str, bytes] | None = None, **options: Any) -> bytes:
    """A PyTorch file with any pickle; `method` and `extra` files go to zipfile."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", options.get("method", zipfile.ZIP_STORED)) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for name, data in (storages or {}).items():
            archive.writestr(f"archive/data/{name}", data)
        for name, data in options.get("extra", {}).items():
            archive.writestr(name, data)
    return out.getvalue()


MAGIC = 0x1950A86A20F9469CFC6C


def legacy_file(
    pickled: bytes, storages: dict[str, tuple[int, bytes]] | None = None, **options: Any
) -> bytes:
    """A file as from before PyTorch 1.6 with any pickle, and storages with the counts claimed."""
    held = storages or {}
    head = (MAGIC, options.get("version", 1001), options.get("system", {"little_endian": True}))
    parts = [pickle.dumps(x, 2) for x in head]
    parts += [pickled, pickle.dumps(options.get("keys", sorted(held)), 2)]
    parts += [struct.pack("<q", count) + data for count, data in held.values()]
    return b"".join(parts)


# ------------------------------------------------------------------ pickles, opcode by opcode

PROTO, STOP = b"\x80\x02", b"."


def name_of(module: str, name: str) -> bytes:
    """GLOBAL."""
    return f"c{module}\n{name}\n".encode()


def text(x: str) -> bytes:
    """BINUNICODE."""
    raw = x.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(x: int) -> bytes:
    """LONG1, or LONG4 for large ones."""
    raw = x.to_bytes(x.bit_length() // 8 + 1, "little", signed=True)
    if len(raw) < 256:
        return b"\x8a" + bytes([len(raw)]) + raw
    return b"\x8b" + struct.pack("<I", len(raw)) + raw


def plain(x: Any) -> bytes:
    """Opcodes that push a plain value."""
    return pickle.dumps(x, 2)[2:-1]


def tuple_of(*parts: bytes) -> bytes:
    """MARK … TUPLE."""
    return b"(" + b"".join(parts) + b"t"


def call(module: str, name: str, *args: bytes) -> bytes:
    """GLOBAL, arguments, REDUCE."""
    return name_of(module, name) + tuple_of(*args) + b"R"


def storage(key: Any = "0", count: Any = 4, kind: str = "FloatStorage") -> bytes:
    """BINPERSID of a storage."""
    return (
        tuple_of(text("storage"), name_of("torch", kind), plain(key), text("cpu"), plain(count))
        + b"Q"
    )


def old_storage(
    key: Any = "0", count: Any = 4, kind: str = "FloatStorage", part: Any = None
) -> bytes:
    """BINPERSID of a storage in a file from before PyTorch 1.6."""
    parts = (text("storage"), name_of("torch", kind), plain(key), text("cpu"), plain(count))
    return tuple_of(*parts, plain(part)) + b"Q"


def tensor(
    offset: Any = 0, size: Any = (4,), stride: Any = (1,), held: bytes | None = None, *more: Any
) -> bytes:
    """A call of _rebuild_tensor_v2."""
    rest = more or (False, None)
    parts = [plain(x) for x in (offset, size, stride, *rest)]
    return call("torch._utils", "_rebuild_tensor_v2", held or storage(), *parts)


def pickled(*parts: bytes) -> bytes:
    """A whole pickle."""
    return PROTO + b"".join(parts) + STOP
