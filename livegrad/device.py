"""Devices. Only the CPU exists so far; the name is checked so that a typo is an error."""

from __future__ import annotations

from typing import Any


class Device:
    """Where a tensor's values live, like `torch.device`."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: str | Device = "cpu", index: int | None = None) -> None:
        if isinstance(type, Device):
            index, type = type.index, type.type
        name, _, number = type.partition(":")
        if name != "cpu":
            raise RuntimeError(f"device: got {type!r}; expected 'cpu', the only device available")
        self.type = name
        self.index = int(number) if number else index

    def __enter__(self) -> Device:
        return self  # what is made within it is made on the CPU, as everywhere

    def __exit__(self, *exception: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"device(type='{self.type}')"

    def __str__(self) -> str:
        return self.type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.type == other.type

    def __hash__(self) -> int:
        return hash(self.type)


CPU = Device("cpu")


def as_device(value: Any) -> Device:
    """A Device from a Device, a string such as "cpu", or None (the default device)."""
    if value is None:
        return CPU
    if isinstance(value, Device):
        return value
    if isinstance(value, str):
        return Device(value)
    raise TypeError(f"device: got {type(value).__name__}; expected a device or a string")
