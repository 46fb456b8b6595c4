"""`save` and `load`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import IO, Any

from livegrad.device import CPU, Device, as_device, home
from livegrad.serialization.checkpoint import looks_like_archive, read_checkpoint
from livegrad.serialization.document import (
    placed,
    prepare_document,
    prepare_encoded,
    prepare_tensors,
    read_document,
    read_tensors,
    write_document,
)
from livegrad.serialization.files import Source, open_source, writing
from livegrad.serialization.layout import looks_like_layout, read_layout
from livegrad.serialization.legacy import (
    looks_legacy,
    prepare_legacy,
    read_legacy,
    write_legacy,
)
from livegrad.serialization.packed import ENDING, looks_packed, packing, unpacked
from livegrad.serialization.sharded import file_in, is_index, read_sharded
from livegrad.serialization.structure import Encoder
from livegrad.serialization.torch_format import prepare_torch, write_torch
from livegrad.serialization.walk import Refused
from livegrad.tensor import Tensor

_FORMATS = ("safetensors", "torch")
_TORCH_ENDINGS = (".pt", ".pth", ".bin", ".ckpt")
# What the very first versions of torch.save wrote.
_TAR = b"ustar"


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Saves tensors, modules, and Python values that hold them, to a path or an open file.

    `obj` may be a tensor, a state dict of a module, optimiser or scheduler, or any nesting of
    dicts, lists, tuples and sets of tensors, NumPy arrays, numbers, strings, bytes, None, dtypes.
    Tensors that share their values are saved once, and share them again after `load`.

    Whole modules, optimisers and objects of classes of your own are saved as the name of their
    class and their plain state, functions and classes as their names; `load` must find these.

    A path holds the old file or the new one, never part of one, whatever happens meanwhile. A path
    that ends in .gz holds a packed file, of the format that the name before that says: smaller, and
    read as a whole by `load`.

    Args:
        obj: what is saved.
        f: a path or an open file.
        format: "safetensors" (one safetensors file, with the rest as JSON in its metadata) or
            "torch" (what `torch.load(weights_only=True)` reads). By default "torch" if the name
            ends in .pt, .pth, .bin or .ckpt and there are no such objects, nor NumPy's, else
            "safetensors".
        pickle_module, pickle_protocol: accepted, and not used.
        _use_new_zipfile_serialization: False writes what torch.save did before version 1.6.

    Example:
        >>> import io
        >>> file = io.BytesIO()  # or a path, such as "model.safetensors"
        >>> lg.save({"weight": lg.ones(2), "epoch": 3}, file)
        >>> file.seek(0)
        0
        >>> lg.load(file)
        {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    name = os.fsdecode(f) if isinstance(f, str | os.PathLike) else ""
    packs = name.endswith(ENDING)
    if format is None:
        of_torch = name.removesuffix(ENDING).endswith(_TORCH_ENDINGS)
        of_torch = of_torch or not _use_new_zipfile_serialization
        wanted = "torch" if of_torch else "safetensors"
    else:
        wanted = format
    if wanted not in _FORMATS:
        raise ValueError(f"save: format must be one of {', '.join(_FORMATS)}; got {format!r}")
    if wanted == "safetensors" and not _use_new_zipfile_serialization:
        raise ValueError("save: _use_new_zipfile_serialization is about the format 'torch'")
    # All is computed and checked before the file is touched.
    write = _prepared(obj, wanted, not _use_new_zipfile_serialization, format is None)
    with writing(f) as file, packing(file) if packs else nullcontext(file) as inner:
        write(inner)


def _prepared(obj: Any, format: str, old: bool, either: bool) -> Callable[[IO[bytes]], None]:
    """What writes `obj`; `either` format if there are values that the wanted one cannot hold."""
    if format == "safetensors":
        document = prepare_document(obj)
        return lambda file: write_document(file, document)
    try:
        if old:
            legacy = prepare_legacy(obj)
            return lambda file: write_legacy(file, legacy)
        pickled = prepare_torch(obj)
        return lambda file: write_torch(file, pickled)
    except Refused:
        if not either:
            raise
        encoder = Encoder()
        instead = prepare_encoded(encoder, encoder.encode(obj))
        return lambda file: write_document(file, instead)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Loads what `save`, `torch.save` or safetensors wrote, from a path or an open file.

    Never runs code from the file, whatever `weights_only` says. A damaged or hostile file raises
    `livegrad.serialization.LoadError`. Modules and other objects, as `save` writes them, are made
    without calling a constructor, of classes that the program has imported or allowed; modules that
    PyTorch has pickled are refused.

    A file given by path is mapped into memory: the bytes of a tensor are read when it is used, and
    a tensor that is changed gets memory of its own, so the file never changes. A mapped file must
    not be cut short while its tensors are used; `save` replaces files and never does that.

    A directory, or an index ending in `.index.json`, is a checkpoint of several files as on the
    Hugging Face hub, and gives a dict of its tensors.

    Args:
        f: a path or an open file.
        map_location: the device for all tensors, which are loaded to the CPU without it; "meta"
            gives them no data.
        pickle_module, pickle_load_args: accepted, and not used.
        weights_only: False trusts the file to name any class or function that the program has
            imported and that is not Python's own; without it, those are modules, optimisers, enums
            and what `livegrad.serialization.add_safe_globals` allows.
        mmap: False copies all tensors at once.

    Example:
        >>> import io
        >>> file = io.BytesIO()  # or a path, such as "model.pt"
        >>> lg.save(nn.Linear(2, 1).state_dict(), file)
        >>> file.seek(0)
        0
        >>> nn.Linear(2, 1).load_state_dict(lg.load(file))
        <All keys matched successfully>
    """
    unknown = set(pickle_load_args) - {"encoding", "errors", "fix_imports"}
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument {min(unknown)!r}")
    device = _wanted_device(map_location)
    lazy = mmap is not False
    if isinstance(f, str | os.PathLike):
        path = os.fsdecode(f)
        if os.path.isdir(path):
            path = file_in(path)
        if is_index(path):
            tensors = read_sharded(path, lazy, lambda source: _read(source, CPU, True))
            return tensors if device is CPU else _placed(tensors, device, {})
        f = path
    return _read(open_source(f, lazy), device, weights_only is not False)


def _wanted_device(map_location: Any) -> Device:
    """Where tensors are wanted; RuntimeError for a device that is not there."""
    if not isinstance(map_location, str | Device):
        return CPU
    device = as_device(map_location)
    try:
        return home(device)
    except (AssertionError, NotImplementedError):
        raise RuntimeError(
            f"load: got map_location {str(device)!r}, but there is no such device; use "
            "map_location='cpu'"
        ) from None


def _placed(x: Any, device: Device, done: dict[int, Any]) -> Any:
    """`x` with tensors on another device in place of its own."""
    if isinstance(x, Tensor):
        if id(x) not in done:
            done[id(x)] = placed(x, device)
        return done[id(x)]
    if isinstance(x, dict):
        for key in x:
            x[key] = _placed(x[key], device, done)
    elif isinstance(x, list):
        x[:] = [_placed(item, device, done) for item in x]
    elif type(x) is tuple:
        return tuple([_placed(item, device, done) for item in x])
    return x


def _read(source: Source, device: Device, weights_only: bool) -> Any:
    """What a single file holds; its first bytes tell the format."""
    if looks_packed(source):
        source = unpacked(source)
    if looks_like_layout(source):
        return read_document(source, read_layout(source), device, weights_only)
    value = _read_pickled(source)
    return value if device is CPU else _placed(value, device, {})


def _read_pickled(source: Source) -> Any:
    if looks_like_archive(source):
        return read_checkpoint(source)
    if looks_legacy(source):
        return read_legacy(source)
    start = source.read(0, 512)
    if start[257:262] == _TAR:
        raise source.error(
            "it is in a format that torch.save wrote before version 0.2. Load and save it again "
            "with a newer torch"
        )
    if start.startswith(b"\x80"):
        raise source.error("it is a pickle, which could run code; expected what save writes")
    if len(start) < 9:
        raise source.error(f"the file is empty or truncated: it has {source.size} bytes")
    raise source.error(f"it starts with {start[:16]!r}; expected a safetensors or PyTorch file")


def save_file(
    tensors: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a plain safetensors file, as `safetensors.torch.save_file` does."""
    prepared = prepare_tensors(tensors, metadata)
    with writing(filename) as file:
        write_document(file, prepared)


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Any]:
    """The tensors of a safetensors file by name, whatever structure was saved with them."""
    place = home(device)
    source = open_source(filename, True)
    if looks_packed(source):
        source = unpacked(source)
    return read_tensors(source, read_layout(source), place)
