"""Checkpoints in several files, as on the Hugging Face hub: an index says which file has what.

model.safetensors.index.json    {"weight_map": {"layer.weight": "model-00001-of-00002.safetensors"}}
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from livegrad.serialization.errors import MOST_HEADER_BYTES
from livegrad.serialization.files import Source, open_source
from livegrad.serialization.strict_json import parse, shown

_INDEX = ".index.json"
# In a directory, the first of these that is there.
_USUAL = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# Index, map, and what tools add to the metadata.
_DEPTH = 10


def is_index(path: str) -> bool:
    """Whether a path is called like an index."""
    return path.endswith(_INDEX)


def file_in(directory: str) -> str:
    """The checkpoint in a directory: the usual names first, then a single file of its kind."""
    for name in _USUAL:
        if os.path.isfile(os.path.join(directory, name)):
            return os.path.join(directory, name)
    names = sorted(os.listdir(directory))
    for ending in (".safetensors" + _INDEX, ".safetensors"):
        found = [name for name in names if name.endswith(ending)]
        if len(found) == 1:
            return os.path.join(directory, found[0])
    raise FileNotFoundError(
        f"load: {directory}: no checkpoint in this directory; expected {_USUAL[0]} or "
        f"{_USUAL[1]}, or a single .safetensors file"
    )


def read_sharded(path: str, lazy: bool, read: Callable[[Source], Any]) -> dict[str, Any]:
    """The tensors of all files that an index names, in the order of the index."""
    source = open_source(path, True)
    places = _weight_map(source)
    folder = os.path.dirname(path)
    files: dict[str, Any] = {}
    out = {}
    for name, place in places.items():
        if place not in files:
            files[place] = _read_shard(source, folder, place, lazy, read)
        if name not in files[place]:
            raise source.error(f"it says that {shown(name)} is in {place}, where it is not")
        out[name] = files[place][name]
    return out


def _weight_map(source: Source) -> dict[str, str]:
    if source.size > MOST_HEADER_BYTES:
        raise source.error(f"the index has {source.size} bytes; expected {MOST_HEADER_BYTES}")
    try:
        index = parse(source.read(0, source.size).decode("utf-8"), _DEPTH)
    except ValueError as error:  # what is not UTF-8 too
        raise source.error(f"the index is not valid JSON: {error}") from error
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places:
        raise source.error("the index has no weight_map; expected names of tensors and of files")
    for name, place in places.items():
        if type(place) is not str or not _is_plain(place):
            raise source.error(
                f"it says that {shown(name)} is in {shown(place)}; expected the name of a file in "
                "the same directory"
            )
    return places


def _is_plain(place: str) -> bool:
    """Whether a name leads to a file in the same directory, and nowhere else."""
    return place.strip(". ") != "" and not set(place) & set("/\\:\0") and place.isprintable()


def _read_shard(
    source: Source, folder: str, place: str, lazy: bool, read: Callable[[Source], Any]
) -> dict[str, Any]:
    path = os.path.join(folder, place)
    if not os.path.isfile(path):
        raise source.error(f"it names the file {shown(place)}, which is missing")
    found = read(open_source(path, lazy))
    if not isinstance(found, dict):
        raise source.error(f"{shown(place)} holds a {type(found).__name__}; expected tensors")
    return found
