"""`torch.version` and `torch.torch_version`: the PyTorch whose names and meaning are followed."""

from __future__ import annotations

import re
from typing import Any

from livegrad.porting.names import VERSION


def _release(version: Any) -> tuple[int, ...]:
    """The numbers of a version: of "2.13.0+cpu", (2, 13, 0); of (2, 13), the same."""
    if isinstance(version, tuple | list):
        numbers = [int(x) for x in version if str(x).isdigit()]
    else:
        found = re.match(r"\d+(\.\d+)*", str(version))
        if found is None:
            raise ValueError(f"a version was expected, such as '2.1'; got {version!r}")
        numbers = [int(x) for x in found[0].split(".")]
    while numbers and not numbers[-1]:  # 2.13 is 2.13.0
        numbers.pop()
    return tuple(numbers)


class TorchVersion(str):
    """A text that compares by its numbers: "2.13.0" > "2.9", and >= (2, 5)."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _release(self) < _release(other)

    def __le__(self, other: Any) -> bool:
        return _release(self) <= _release(other)

    def __gt__(self, other: Any) -> bool:
        return _release(self) > _release(other)

    def __ge__(self, other: Any) -> bool:
        return _release(self) >= _release(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return _release(self) == _release(other)
        except ValueError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


__version__ = TorchVersion(f"{VERSION}+livegrad")
cuda: str | None = None  # built without CUDA, ROCm, SYCL
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
debug = False
git_version = "livegrad"
