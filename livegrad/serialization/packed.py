"""Files packed by gzip: smaller on disk, and read as a whole. For what is sent, or kept.

Weights are nearly random bytes, of which an int8 model leaves a twelfth. What is unpacked may be
much larger than the file, so that is limited: a small file must not fill the memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np

from livegrad.serialization.files import Source

ENDING = ".gz"
_START = b"\x1f\x8b"
# Zeros shrink a thousand times. Weights of which most are zero stay below the first of these.
_MOST_TIMES = 100
_ALWAYS = 1 << 26
_WITH_GZIPS_HEADER = 31


@contextmanager
def packing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """A file whose bytes are packed into `file`: the same for the same bytes, whatever the time."""
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        yield cast(Any, packed)


def looks_packed(source: Source) -> bool:
    """Whether the file starts as gzip's do; a header of 35,615 bytes begins with the same two."""
    return source.read(0, 2) == _START and source.read(8, 1) != b"{"


def unpacked(source: Source) -> Source:
    """What a packed file holds, in memory."""
    most = max(_ALWAYS, _MOST_TIMES * source.size)
    machine = zlib.decompressobj(_WITH_GZIPS_HEADER)
    try:
        data = machine.decompress(source.array.data, most + 1)
    except zlib.error as error:
        raise source.error(f"it cannot be unpacked: {error}; the file is corrupt") from error
    if len(data) > most:
        raise source.error(
            f"it has {source.size} bytes, and more than {most} when it is unpacked; expected at "
            "most so many. If you trust it, unpack it with gunzip first"
        )
    if not machine.eof:
        raise source.error("the file is truncated: what is packed in it does not end")
    if machine.unused_data:
        raise source.error(f"{len(machine.unused_data)} bytes follow what is packed in it")
    return Source(source.name, np.frombuffer(data, np.uint8), False)
