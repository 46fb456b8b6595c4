"""Saving and loading: safetensors with JSON, PyTorch files, sharded checkpoints.

| module | holds |
|---|---|
| `public` | `save`, `load` |
| `files`, `strict_json`, `errors` | mapped and replaced files, JSON with limits, `LoadError` |
| `layout` | the safetensors format |
| `document`, `structure`, `restore` | Python values as JSON beside the tensors, and back |
| `objects`, `instances`, `naming`, `finding` | modules and other objects, and back |
| `checkpoint`, `archive`, `machine`, `vocabulary`, `storages`, `plain` | reading PyTorch files |
| `torch_format` | writing them |
| `allowed` | what programs let files name |
| `sharded` | checkpoints of several files |
| `walk`, `tensors` | tensors on the way out, and in |
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import IO, Any, TypeAlias

from livegrad.device import Device
from livegrad.serialization.allowed import (
    add_safe_globals as add_safe_globals,
    clear_safe_globals as clear_safe_globals,
    get_safe_globals as get_safe_globals,
    safe_globals as safe_globals,
)
from livegrad.serialization.errors import LoadError as LoadError
from livegrad.serialization.public import (
    load as load,
    load_file as load_file,
    save as save,
    save_file as save_file,
)

# What `map_location` may be, for annotations.
MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | Device | str | dict[str, str] | None
DEFAULT_PROTOCOL = 2  # of pickle, in files that PyTorch reads
FileLike: TypeAlias = str | PathLike[str] | IO[bytes]
