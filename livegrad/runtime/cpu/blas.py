"""The BLAS that NumPy and SciPy call: kept on one thread, for the bits.

How many threads share a product decides in which order its terms are added. Matrix products of ours
do without it (compiler/products.py); steps that run NumPy code, and reference mode, do not.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, TypeVar

Result = TypeVar("Result")
ThreadCount = tuple[Callable[[], int], Callable[[int], None]]
_SCIPY = "scipy.linalg"


def on_one_thread(compute: Callable[..., Result], *arguments: Any) -> Result:
    """`compute(*arguments)`, with BLAS called by NumPy or SciPy on the thread that calls it."""
    had_scipy = _SCIPY in sys.modules
    changed = []
    for getter, setter in thread_counts(had_scipy):
        count = getter()
        if count != 1:
            setter(1)
            changed.append((setter, count))
    try:
        result = compute(*arguments)
    finally:
        for setter, count in changed:
            setter(count)
    if _SCIPY in sys.modules and not had_scipy:  # its BLAS came just now, with many threads
        return on_one_thread(compute, *arguments)
    return result


@functools.cache
def thread_counts(with_scipy: bool) -> list[ThreadCount]:
    """Functions that get and set the number of threads of NumPy's BLAS, and of SciPy's own."""
    found = next(filter(None, map(_thread_count, _candidates())), None)
    counts = [] if found is None else [found]
    own = map(_thread_count, _bundled("scipy")) if with_scipy else ()
    return counts + [count for count in own if count is not None]


def _thread_count(path: str) -> ThreadCount | None:
    """Those of an OpenBLAS, whatever its functions are called there."""
    try:
        handle = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix, suffix in product(("scipy_", ""), ("64_", "")):
        getter = _function(handle, f"{prefix}openblas_get_num_threads{suffix}", ctypes.c_int)
        setter = _function(handle, f"{prefix}openblas_set_num_threads{suffix}", None, ctypes.c_int)
        if getter and setter:
            return getter, setter
    return None


def _function(handle: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(handle, name, None)
    address = found and ctypes.cast(found, ctypes.c_void_p).value
    return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None


def _candidates() -> Iterator[str]:
    """Libraries next to NumPy, then whatever BLAS the process has loaded."""
    yield from _bundled("numpy")
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "blas" in line}
    except OSError:
        return
    yield from sorted(path for path in paths if ".so" in path)


def _bundled(name: str) -> Iterator[str]:
    """The OpenBLAS that a package brings along."""
    package = os.path.dirname(str(sys.modules[name].__file__))
    for folder in (package + ".libs", os.path.join(package, ".dylibs")):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        yield from sorted([os.path.join(folder, name) for name in names if "openblas" in name])
