"""`torch.utils.cpp_extension`: code written against PyTorch's C++ cannot be built here."""

from __future__ import annotations

from typing import Any, NoReturn

CUDA_HOME = CUDNN_HOME = ROCM_HOME = None
IS_HIP_EXTENSION = False


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"cpp_extension.{name}: livegrad runs in PyTorch's place, and has no C++ to build against. "
        "Write the operation in Python (torch.library.custom_op), or use the program's own "
        "fallback without extensions"
    )


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is nothing to build against."""
    _refuse("load")


def load_inline(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is nothing to build against."""
    _refuse("load_inline")


def CppExtension(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is nothing to build against."""
    _refuse("CppExtension")


def CUDAExtension(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is nothing to build against."""
    _refuse("CUDAExtension")


class BuildExtension:
    """What `setup.py` builds with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class itself: it refuses when it is used."""
        return cls


def include_paths(*args: Any, **kwargs: Any) -> list[str]:
    """None."""
    return []


def is_ninja_available() -> bool:
    """False."""
    return False


__all__ = [
    "CUDA_HOME", "BuildExtension", "CUDAExtension", "CppExtension", "include_paths",
    "is_ninja_available", "load", "load_inline",
]  # fmt: skip
