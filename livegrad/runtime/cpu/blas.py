"""Matrix products through the OpenBLAS that NumPy brings along: no extra dependency.

The kernel of gemm.py calls cblas through a pointer in its argument block:

    1 cblas   2 A   3 B   4 C   5 M   6 N   7 K   8 lda   9 ldb   10 ldc   11 transA   12 transB
    13 rows per work item, or -columns per work item   14 chunks per batch entry
    15-17 byte strides of a batch entry of A, B, C   18 beta (double, 0 or 1)   19 alpha (double)

Work item w computes chunk w % chunks of batch entry w / chunks: some rows of C, or some columns.
The cut depends on the sizes alone, so the bits of a result do not depend on the number of
threads.

Note [BLAS threads]: our threads already share the work, so OpenBLAS has to stay on the thread
that calls it. There is one number of threads for the whole process. The driver therefore sets it
to 1 when a program with a matrix product starts and back when it ends, both inside the native
call (`thread_control`); NumPy is multithreaded again before Python continues. Steps that run NumPy
code do so on one thread too (`on_one_thread`), for the bits.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

NO_TRANS, TRANS = 111, 112
BLOCK_SLOTS = 20


class Library(NamedTuple):
    """Addresses in the OpenBLAS found; `ilp64` when its integers have 64 bits."""

    path: str
    sgemm: int
    dgemm: int
    setter: int
    getter: int
    ilp64: bool


@functools.cache
def library() -> Library | None:
    """NumPy's OpenBLAS, or None when NumPy was built on something else."""
    for path in _candidates():
        try:
            handle = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix, suffix in product(("scipy_", ""), ("64_", "")):
            found = _probe(handle, path, prefix, suffix)
            if found is not None:
                return found
    return None


def gemm_available() -> bool:
    """Whether `gemm_kernel` can be used; `np.matmul` is the way otherwise."""
    return library() is not None


def gemm_function(dtype: npt.DTypeLike) -> int:
    """Address of cblas_sgemm or cblas_dgemm, for slot 1 of the argument block."""
    found = _library()
    return {"f4": found.sgemm, "f8": found.dgemm}[np.dtype(dtype).str[1:]]


def has_wide_integers() -> bool:
    """Whether the integers of BLAS have 64 bits."""
    return _library().ilp64


def thread_control() -> tuple[int, int]:
    """What to pass as `blas_threads` to a Program with a gemm step: see Note [BLAS threads]."""
    found = _library()
    return found.getter, found.setter


def on_one_thread(compute: Callable[..., Result], *arguments: Any) -> Result:
    """`compute(*arguments)`, with BLAS called by NumPy or SciPy on the thread that calls it.

    How many threads share a product decides in which order its terms are added, and so the bits.
    """
    had_scipy = _SCIPY in sys.modules
    with _one_thread(had_scipy):
        result = compute(*arguments)
    if _SCIPY in sys.modules and not had_scipy:  # its BLAS came just now, with many threads
        return on_one_thread(compute, *arguments)
    return result


Result = TypeVar("Result")
_SCIPY = "scipy.linalg"


@contextmanager
def _one_thread(with_scipy: bool) -> Iterator[None]:
    changed = []
    for getter, setter in _thread_counts(with_scipy):
        count = getter()
        if count != 1:
            setter(1)
            changed.append((setter, count))
    try:
        yield
    finally:
        for setter, count in changed:
            setter(count)


ThreadCount = tuple[Callable[[], int], Callable[[int], None]]


@functools.cache
def _thread_counts(with_scipy: bool) -> list[ThreadCount]:
    """Functions that get and set the number of threads of NumPy's BLAS, and of SciPy's own."""
    found = [] if library() is None else [_thread_count(*thread_control())]
    for path in _bundled("scipy") if with_scipy else ():
        for prefix, suffix in product(("scipy_", ""), ("64_", "")):
            handle = ctypes.CDLL(path)
            getter = _address(handle, f"{prefix}openblas_get_num_threads{suffix}")
            setter = _address(handle, f"{prefix}openblas_set_num_threads{suffix}")
            if getter and setter:
                found.append(_thread_count(getter, setter))
    return found


def _thread_count(getter: int, setter: int) -> ThreadCount:
    get = ctypes.CFUNCTYPE(ctypes.c_int)(getter)
    return get, ctypes.CFUNCTYPE(None, ctypes.c_int)(setter)


def blas_num_threads() -> int:
    """How many threads a call into BLAS from NumPy would use now."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(_library().getter)())


def split(M: int, N: int, K: int) -> tuple[int, int]:
    """How to cut a product into work items: (slot 13, number of items), from the sizes alone.

    Every item packs the whole of the operand that is not cut, so the longer side of C is cut.
    """
    if N > M and not _is_narrow(M, N, K):
        columns = _piece(N, M * N * K)
        return -columns, -(-N // columns)
    rows = row_chunk(M, N, K)
    return rows, -(-M // rows)


def row_chunk(M: int, N: int, K: int) -> int:
    """Rows of C per work item when rows are cut, from the sizes alone."""
    if _is_narrow(M, N, K):
        return min(SMALL_PRODUCT // (N * K) // 16 * 16, -(-M // 32) * 16)
    return _piece(M, M * N * K)


# Measured on 2 cores of an Emerald Rapids Xeon. Below 1 MFLOP a product takes some 7 µs, which
# a sleeping worker would miss.
MIN_SPLIT_PRODUCT = 500_000
# OpenBLAS has faster kernels, without packing, for M * N * K up to this; narrow items use them.
SMALL_PRODUCT = 1_000_000
# The longer the items the less packing; the shorter the more threads find work.
ITEM, LONG_ITEM = 128, 256


def _is_narrow(M: int, N: int, K: int) -> bool:
    """Whether C has few columns and its rows can be cut into OpenBLAS's small products."""
    return N <= 128 and M * N * K >= MIN_SPLIT_PRODUCT and 32 * N * K <= SMALL_PRODUCT and M >= 32


def _piece(extent: int, product: int) -> int:
    """Length of the items along a side of `extent`: two items at least, an even number."""
    if product < MIN_SPLIT_PRODUCT or extent < 32:
        return max(extent, 1)
    item = ITEM if extent < 1024 else LONG_ITEM
    pairs = max(1, extent // (2 * item))
    # The micro-kernels' tiles have 16 elements or divisors of that.
    return -(-extent // (32 * pairs)) * 16


def gemm_block(
    dtype: npt.DTypeLike,
    sizes: tuple[int, int, int],
    leading: tuple[int, int, int],
    pointers: tuple[int, int, int] = (0, 0, 0),
    *,
    trans: tuple[bool, bool] = (False, False),
    batch: int = 1,
    batch_strides: tuple[int, int, int] = (0, 0, 0),
    accumulate: bool = False,
    alpha: float = 1.0,
) -> list[int]:
    """The argument block for C = alpha * A @ B, or C += ... if `accumulate`, row-major.

    `sizes` is (M, N, K), `leading` (lda, ldb, ldc) in elements, `batch_strides` in bytes.
    """
    M, N, K = sizes
    # Many batch entries are parallel enough.
    cut, chunks = split(M, N, K) if batch < 8 else (max(M, 1), 1)
    stored = ((K, M) if trans[0] else (M, K), (N, K) if trans[1] else (K, N), (M, N))
    leading_checked = [_leading(ld, *shape) for ld, shape in zip(leading, stored, strict=True)]
    transposes = [TRANS if t else NO_TRANS for t in trans]
    numbers = [_double_bits(float(accumulate)), _double_bits(alpha)]
    return [
        batch * chunks, gemm_function(dtype), *pointers, M, N, K, *leading_checked, *transposes,
        cut, max(chunks, 1), *batch_strides, *numbers,
    ]  # fmt: skip


def _leading(leading: int, rows: int, columns: int) -> int:
    """A leading dimension that cblas accepts: it prints a message and computes nothing if not."""
    if rows > 1 and columns > 0:
        assert leading >= columns, f"rows overlap: {leading=} {rows=} {columns=}"
    # The stride of a single row means nothing, and NumPy leaves anything there.
    return max(leading, columns, 1)


def _double_bits(number: float) -> int:
    return int(np.float64(number).view(np.int64))


def _library() -> Library:
    found = library()
    assert found is not None, "no BLAS: ask gemm_available() first"
    return found


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
        yield from sorted(glob.glob(os.path.join(glob.escape(folder), "*openblas*")))


def _probe(handle: ctypes.CDLL, path: str, prefix: str, suffix: str) -> Library | None:
    sgemm = _address(handle, f"{prefix}cblas_sgemm{suffix}")
    dgemm = _address(handle, f"{prefix}cblas_dgemm{suffix}")
    setter = _address(handle, f"{prefix}openblas_set_num_threads{suffix}")
    getter = _address(handle, f"{prefix}openblas_get_num_threads{suffix}")
    if not (sgemm and dgemm and setter and getter):
        return None
    return Library(path, sgemm, dgemm, setter, getter, suffix == "64_")


def _address(handle: ctypes.CDLL, name: str) -> int:
    try:
        function = getattr(handle, name)
    except AttributeError:
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
