"""Devices: names of places for tensors, and what keeps and computes values there.

There are two, the CPU and "meta", where tensors have a shape and a dtype but no data. Others can be
registered with a backend (runtime/protocol.py); names without one can be spoken of, but nothing can
be made there.
"""

from __future__ import annotations

import re
import threading
from operator import index as as_index
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livegrad.runtime.protocol import Backend

_TYPES: tuple[str, ...] = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_NAMED = re.compile(r"([a-z]+)(?::(0|[1-9][0-9]*))?")


class Device:
    """Where a tensor's values live, like `torch.device`: "cpu", "cuda:1", ("cuda", 1).

    Within `with device(…):`, tensors are made there unless a call says otherwise.

    Args:
        *args: the kind and perhaps the number: "cpu", "cuda:1", ("cuda", 1), another device.
        **kwargs: the same as `type` and `index`.

    Example:
        >>> lg.zeros(2, device=lg.device("cpu")).device
        device(type='cpu')
        >>> with lg.device("meta"):  # shapes without data
        ...     lg.nn.Linear(10**6, 10**6).weight.shape
        livegrad.Size([1000000, 1000000])
    """

    __slots__ = ("_index", "_type")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind, number = _arguments(*args, **kwargs)
        self._type: str = kind
        self._index: int | None = number

    @property
    def type(self) -> str:
        """The kind of device, such as "cpu"."""
        return self._type

    @property
    def index(self) -> int | None:
        """Which one of its kind, if that was said."""
        return self._index

    def __enter__(self) -> Device:
        _Default.ever_set = True
        _default.stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _default.stack.pop()

    def __repr__(self) -> str:
        number = "" if self._index is None else f", index={self._index}"
        return f"device(type='{self._type}'{number})"

    def __str__(self) -> str:
        return self._type if self._index is None else f"{self._type}:{self._index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return False
        return self._type == other._type and self._index == other._index

    def __hash__(self) -> int:
        return hash((self._type, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self._type,) if self._index is None else (self._type, self._index)
        return (Device, given)


def _arguments(*args: Any, **kwargs: Any) -> tuple[str, int | None]:
    """Type and number from what `Device` was called with."""
    given = dict(zip(("type", "index"), args, strict=False))
    if len(args) > 2 or given.keys() & kwargs.keys() or set(kwargs) - {"type", "index", "device"}:
        raise _no_combination(args, kwargs)
    given.update(kwargs)
    whole = given.pop("device", None)
    if whole is not None:
        given["type"] = whole
    kind, number = given.get("type"), given.get("index")
    if isinstance(kind, Device) and number is None:
        return kind.type, kind.index
    if isinstance(kind, int) and not isinstance(kind, bool) and number is None:
        _check_number(kind)
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(kind, str):
        raise _no_combination(args, kwargs)
    name, named = _parsed(kind)
    if number is None:
        return name, named
    if named is not None:
        raise RuntimeError(
            "type (string) must not include an index because index was passed explicitly: " + kind
        )
    number = as_index(number)
    _check_number(number)
    return name, number


def _check_number(number: int) -> None:
    if number < 0:
        raise RuntimeError("Device index must not be negative")


def _parsed(text: str) -> tuple[str, int | None]:
    """Type and number of a device string."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    name = text.partition(":")[0]
    if name not in _TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(_TYPES)} device type at start of device string: {text}"
        )
    found = _NAMED.fullmatch(text)
    if found is None:
        raise RuntimeError(f"Invalid device string: '{text}'")
    return name, None if found[2] is None else int(found[2])


def _no_combination(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    kinds = [type(x).__name__ for x in args]
    kinds += [f"{name}={type(x).__name__}" for name, x in kwargs.items()]
    return TypeError(
        f"device() received an invalid combination of arguments - got ({', '.join(kinds)}), but "
        "expected (device), (str type) or (str type, int index)"
    )


CPU = Device("cpu")
META = Device("meta")
# Where sparse tensors are, as far as recording goes: operations on them are refused there. Their
# elements are ordinary tensors, and users see the device of those.
SPARSE = Device("cpu")
SPARSE._type = "sparse"


# ------------------------------------------------------------------------------- what is there


_devices = {"cpu": CPU, "meta": META}
_backends: dict[str, Backend] = {}
_NAMES = ("cpu", "meta")


def register(name: str, backend: Backend) -> Device:
    """Makes a device available: tensors can be made there and moved there."""
    if name not in _TYPES:
        _add_type(name)
    _backends[name] = backend
    return _devices.setdefault(name, Device(name))


def _add_type(name: str) -> None:
    global _TYPES
    if _NAMED.fullmatch(name) is None or ":" in name:
        raise RuntimeError(f"Invalid device string: '{name}'")
    _TYPES = (*_TYPES, name)


def backend_of(device: Device) -> Backend:
    """What computes on `device`, which is one of those that there are."""
    return _backends[device.type]


def home(device: Any) -> Device:
    """The device that is meant (None: the default), as metas have it; an error if it is not there.

    The CPU has no numbers, and of the others there is one each.
    """
    if device is CPU or (device is None and not _Default.ever_set):
        return CPU
    if type(device) is Device:
        kind = device._type
    else:  # most often the name of one
        is_named = type(device) is str and device in _NAMES
        kind = device if is_named else as_device(device).type
    if kind not in _backends:
        raise unavailable(kind)
    return _devices[kind]


# ---------------------------------------------------------------------------- the default device


class _Default(threading.local):
    """What `set_default_device` and, above it, `with device(…)` say, for each thread."""

    # Whether any thread has ever said anything: until then nobody need ask.
    ever_set = False

    def __init__(self) -> None:
        self.stack: list[Device] = []
        self.base: Device | None = None


_default = _Default()


def default_device() -> Device:
    """Where tensors are made when nothing else is said."""
    if _default.stack:
        return _default.stack[-1]
    return CPU if _default.base is None else _default.base


def set_default(device: Any) -> None:
    """Makes a device the default of this thread; None is the CPU again."""
    _Default.ever_set = True
    _default.base = None if device is None else as_device(device)


# --------------------------------------------------------------------------------- where to make


def as_device(value: Any) -> Device:
    """A Device from a Device, a string such as "cpu", a number, or None (the default device)."""
    if value is None:
        return default_device()
    if isinstance(value, Device):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        return Device(value)
    raise TypeError(f"device: got {type(value).__name__}; expected a device or a string")


def has_data(device: Any) -> bool:
    """Whether tensors made on `device` (None: the default) have data: everywhere but on "meta".

    Where there is no device, nothing can be made: an error says so.
    """
    return home(device) is not META


def unavailable(kind: str) -> Exception:
    """The error for the use of a device that is not there, of the class that PyTorch raises."""
    text = (
        f"livegrad has no device {kind!r}: it runs on the CPU. Ask first, for instance with "
        "cuda.is_available(), or say device='cpu'"
    )
    return AssertionError(text) if kind in ("cuda", "xpu") else NotImplementedError(text)
