"""PyTorch files (`torch.save`): an archive with a pickle and the bytes of the storages.

archive/data.pkl     the object; tensors are calls of _rebuild_tensor_v2 on storages
archive/data/0 …     storages
archive/byteorder    little or big
"""

from __future__ import annotations

from typing import Any

from livegrad.serialization.archive import Member, read_archive, read_member
from livegrad.serialization.errors import MOST_HEADER_BYTES
from livegrad.serialization.files import Source
from livegrad.serialization.machine import Machine
from livegrad.serialization.plain import check_plain
from livegrad.serialization.storages import Storages
from livegrad.serialization.strict_json import shown
from livegrad.serialization.tensors import must_swap
from livegrad.serialization.vocabulary import Vocabulary


def looks_like_archive(source: Source) -> bool:
    """Whether the file starts as an archive does."""
    return source.read(0, 4) == b"PK\3\4"


def read_checkpoint(source: Source) -> Any:
    """The object in a PyTorch file."""
    members = read_archive(source)
    prefix = _prefix(source, members)
    pickled = members[prefix + "data.pkl"]
    if pickled.size > MOST_HEADER_BYTES:
        raise source.error(
            f"its data.pkl has {pickled.size} bytes; expected at most {MOST_HEADER_BYTES}"
        )
    data = read_member(source, pickled, prefix + "data.pkl")
    storages = Storages(source, members, prefix, must_swap(_byteorder(source, members, prefix)))
    names = Vocabulary(source, storages)
    try:
        value = Machine(source, data, names.find, storages.storage).run()
    finally:
        names.table.clear()  # its functions refer to it: a cycle that would keep the file mapped
    check_plain(source, value)
    return value


def _byteorder(source: Source, members: dict[str, Member], prefix: str) -> str:
    member = members.get(prefix + "byteorder")
    if member is None:
        return "little"
    raw = b"" if member.size > 10 else read_member(source, member, prefix + "byteorder")
    if raw not in (b"little", b"big"):
        raise source.error(f"its byte order is {raw!r:.40}; expected little or big")
    return raw.decode("ascii")


def _prefix(source: Source, members: dict[str, Member]) -> str:
    """The directory that everything in the archive is in."""
    if any([name.endswith(".npy") for name in members]):
        raise source.error("it is a NumPy archive (.npz); expected a PyTorch file. Use numpy.load")
    tops = sorted({name.partition("/")[0] for name in members})
    if len(tops) != 1:
        listed = ", ".join([shown(top) for top in tops[:5]])
        raise source.error(
            f"the archive has {len(tops)} directories ({listed}); expected one, as from torch.save"
        )
    prefix = tops[0] + "/"
    if prefix + "constants.pkl" in members or any([f"{prefix}code/" in name for name in members]):
        raise source.error("it is a TorchScript archive, which holds code; expected torch.save")
    if prefix + "data.pkl" not in members:
        raise source.error("the archive has no data.pkl; it is no PyTorch file, or is corrupt")
    return prefix
