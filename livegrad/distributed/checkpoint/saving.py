"""Checkpoints of a program of several processes: a directory, with one file for each.

The file is livegrad's own kind, so loading runs nothing. What PyTorch writes in such a directory is
a pickle, and is refused.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from livegrad.autograd import no_grad
from livegrad.distributed import groups
from livegrad.distributed.checkpoint.stateful import Stateful
from livegrad.distributed.tensor.placed import DTensor
from livegrad.serialization import load as read, load_file, save as write, save_file
from livegrad.tensor import Tensor

_FILE = "0.safetensors"  # of the process of rank 0
_PUBLISHED = "model.safetensors"
_THEIRS = ".metadata"


class CheckpointException(Exception):
    """What went wrong, by rank."""

    def __init__(self, msg: str, failures: dict[int, Any]) -> None:
        super().__init__(msg, failures)
        self.failures = failures


class _Place:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoint_id = path


class FileSystemWriter(_Place):
    """Writes to a directory."""

    def __init__(self, path: str | os.PathLike[str], *args: Any, **options: Any) -> None:
        super().__init__(path)
        self.overwrite = bool(options.get("overwrite", True))


class FileSystemReader(_Place):
    """Reads from a directory."""

    def __init__(self, path: str | os.PathLike[str], *args: Any, **options: Any) -> None:
        super().__init__(path)


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes one safetensors file, as models of Hugging Face are published."""


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the safetensors files of a directory."""


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Writes a state dict to a directory; of objects with a state, that is written."""
    _check_group(process_group, no_dist)
    folder = _place(checkpoint_id, storage_writer)
    folder.mkdir(parents=True, exist_ok=True)
    if storage_writer is not None and not storage_writer.overwrite and (folder / _FILE).exists():
        raise RuntimeError(f"a checkpoint already exists in {folder} and overwrite=False")
    if isinstance(storage_writer, HuggingFaceStorageWriter):
        save_file(_state_of(state_dict), folder / _PUBLISHED)
    else:
        write(_state_of(state_dict), folder / _FILE)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fills a state dict with what a directory has: tensors in place, other values anew.

    What is to be loaded is what `state_dict` has; objects with a state take theirs.
    """
    _check_group(process_group, no_dist)
    folder = _place(checkpoint_id, storage_reader)
    if isinstance(storage_reader, HuggingFaceStorageReader):
        _fill(state_dict, _published(folder), "")
        return
    file = folder / _FILE
    if not file.exists():
        if (folder / _THEIRS).exists():
            raise RuntimeError(
                f"{folder} was written by PyTorch, as pickles, which livegrad does not run. "
                "Convert it there: torch.distributed.checkpoint.format_utils.dcp_to_torch_save"
            )
        raise FileNotFoundError(f"there is no checkpoint in {folder}")
    _fill(state_dict, read(file), "")


def _published(folder: Path) -> dict[str, Any]:
    """All tensors of the safetensors files of a directory."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"there are no safetensors files in {folder}")
    return {name: x for file in files for name, x in load_file(file).items()}


def async_save(state_dict: dict[str, Any], **options: Any) -> Future[None]:
    """`save`, of the values that tensors have now; the future is done when it is written."""
    options.pop("async_checkpointer_type", None)
    options.pop("async_stager", None)
    done: Future[None] = Future()
    try:
        save(state_dict, **options)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)
    return done


def save_state_dict(
    state_dict: dict[str, Any], storage_writer: FileSystemWriter, *args: Any, **options: Any
) -> None:
    """The old name of `save`."""
    warnings.warn("save_state_dict is deprecated: use save", FutureWarning, stacklevel=2)
    save(state_dict, storage_writer=storage_writer, no_dist=True)


def load_state_dict(
    state_dict: dict[str, Any], storage_reader: FileSystemReader, *args: Any, **options: Any
) -> None:
    """The old name of `load`."""
    warnings.warn("load_state_dict is deprecated: use load", FutureWarning, stacklevel=2)
    load(state_dict, storage_reader=storage_reader, no_dist=True)


def _check_group(group: Any, no_dist: bool) -> None:
    if groups.is_initialized() and not no_dist:
        groups.group_of(group)


def _place(checkpoint_id: Any, place: _Place | None) -> Path:
    if checkpoint_id is None and place is None:
        raise RuntimeError(
            "`checkpoint_id` must be specified if storage_writer or storage_reader is None."
        )
    return Path(checkpoint_id) if checkpoint_id is not None else place.path  # type: ignore[union-attr]


def _state_of(value: Any) -> Any:
    """A value as it is written: objects by their state, DTensors as ordinary tensors."""
    if isinstance(value, Tensor):
        return value.full_tensor().detach() if isinstance(value, DTensor) else value.detach()
    if isinstance(value, dict):
        return {key: _state_of(x) for key, x in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_state_of(x) for x in value)
    if isinstance(value, Stateful):
        return _state_of(value.state_dict())
    return value


def _is_alike(wanted: Any, value: Any) -> bool:
    """Whether both are dicts, or both lists."""
    return any(isinstance(wanted, kind) and isinstance(value, kind) for kind in (dict, list))


def _fill(state: Any, found: Any, path: str) -> None:
    """Puts what was found in the places of a dict or a list."""
    keys = list(state) if isinstance(state, dict) else list(range(len(state)))
    for key in keys:
        where = f"{path}.{key}" if path else str(key)
        if (key not in found) if isinstance(found, dict) else not 0 <= key < len(found):
            raise CheckpointException(
                "CheckpointException ranks:dict_keys([0])",
                {0: RuntimeError(f"Missing key in checkpoint state_dict: {where}.")},
            )
        wanted, value = state[key], found[key]
        if isinstance(wanted, Tensor):
            _copy(wanted, value, where)
        elif _is_alike(wanted, value):
            _fill(wanted, value, where)
        elif isinstance(wanted, Stateful) and not isinstance(wanted, dict | list):
            wanted.load_state_dict(value)
        else:
            state[key] = value


def _copy(wanted: Any, value: Any, where: str) -> None:
    if not isinstance(value, Tensor) or value.shape != wanted.shape:
        got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(
            f"Size mismatch between saved {got} and current: {tuple(wanted.shape)} for {where}"
        )
    with no_grad():
        wanted.detach().copy_(value)
