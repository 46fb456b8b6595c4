"""Matrix products through the OpenBLAS that NumPy brings along: no extra dependency.

`gemm_kernel` has the kernel ABI and calls cblas through a pointer in its argument block:

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

from livegrad.runtime.cpu import jit

NO_TRANS, TRANS = 111, 112
BLOCK_SLOTS = 20

_GEMM_IR = """
define void @livegrad_gemm(ptr %args, i64 %first, i64 %last, ptr %ctx) {
entry:
  %fn.p = getelementptr i64, ptr %args, i64 1
  %fn = load ptr, ptr %fn.p, align 8
  %a.p = getelementptr i64, ptr %args, i64 2
  %a = load ptr, ptr %a.p, align 8
  %b.p = getelementptr i64, ptr %args, i64 3
  %b = load ptr, ptr %b.p, align 8
  %c.p = getelementptr i64, ptr %args, i64 4
  %c = load ptr, ptr %c.p, align 8
  %m.p = getelementptr i64, ptr %args, i64 5
  %m = load i64, ptr %m.p, align 8
  %n.p = getelementptr i64, ptr %args, i64 6
  %n = load i64, ptr %n.p, align 8
  %k.p = getelementptr i64, ptr %args, i64 7
  %k = load i64, ptr %k.p, align 8
  %lda.p = getelementptr i64, ptr %args, i64 8
  %lda = load i64, ptr %lda.p, align 8
  %ldb.p = getelementptr i64, ptr %args, i64 9
  %ldb = load i64, ptr %ldb.p, align 8
  %ldc.p = getelementptr i64, ptr %args, i64 10
  %ldc = load i64, ptr %ldc.p, align 8
  %ta.p = getelementptr i64, ptr %args, i64 11
  %ta = load i64, ptr %ta.p, align 8
  %tb.p = getelementptr i64, ptr %args, i64 12
  %tb = load i64, ptr %tb.p, align 8
  %cut.p = getelementptr i64, ptr %args, i64 13
  %cut = load i64, ptr %cut.p, align 8
  %chunks.p = getelementptr i64, ptr %args, i64 14
  %chunks = load i64, ptr %chunks.p, align 8
  %batch.a.p = getelementptr i64, ptr %args, i64 15
  %batch.a = load i64, ptr %batch.a.p, align 8
  %batch.b.p = getelementptr i64, ptr %args, i64 16
  %batch.b = load i64, ptr %batch.b.p, align 8
  %batch.c.p = getelementptr i64, ptr %args, i64 17
  %batch.c = load i64, ptr %batch.c.p, align 8
  %beta.p = getelementptr i64, ptr %args, i64 18
  %beta.wide = load double, ptr %beta.p, align 8
  %alpha.p = getelementptr i64, ptr %args, i64 19
  %alpha.wide = load double, ptr %alpha.p, align 8
  %beta = FROM_DOUBLE
  %alpha = FROM_DOUBLE_ALPHA
  %ta.enum = trunc i64 %ta to i32
  %tb.enum = trunc i64 %tb to i32
  %k.int = CAST i64 %k to INT
  %lda.int = CAST i64 %lda to INT
  %ldb.int = CAST i64 %ldb to INT
  %ldc.int = CAST i64 %ldc to INT
  ; A transposed matrix holds its rows as columns: neighbours are one element apart.
  %plain.a = icmp eq i64 %ta, 111
  %row.a = select i1 %plain.a, i64 %lda, i64 1
  %plain.b = icmp eq i64 %tb, 111
  %column.b = select i1 %plain.b, i64 1, i64 %ldb
  %by.rows = icmp sgt i64 %cut, 0
  %size = call i64 @llvm.abs.i64(i64 %cut, i1 false)
  %extent = select i1 %by.rows, i64 %m, i64 %n
  %other = select i1 %by.rows, i64 %n, i64 %m
  %step.a = select i1 %by.rows, i64 %row.a, i64 0
  %step.b = select i1 %by.rows, i64 0, i64 %column.b
  %step.c = select i1 %by.rows, i64 %ldc, i64 1
  %other.empty = icmp eq i64 %other, 0
  %no.inner = icmp eq i64 %k, 0
  br label %head
head:
  %w = phi i64 [ %first, %entry ], [ %w.next, %next ]
  %more = icmp ult i64 %w, %last
  br i1 %more, label %body, label %leave
body:
  %entry.batch = udiv i64 %w, %chunks
  %chunk = urem i64 %w, %chunks
  %begin = mul i64 %chunk, %size
  %left = sub i64 %extent, %begin
  %part = call i64 @llvm.smin.i64(i64 %left, i64 %size)
  %part.empty = icmp sle i64 %part, 0
  %nothing = or i1 %part.empty, %other.empty
  br i1 %nothing, label %next, label %place
place:
  %height = select i1 %by.rows, i64 %part, i64 %m
  %width = select i1 %by.rows, i64 %n, i64 %part
  %at.a = mul i64 %entry.batch, %batch.a
  %at.b = mul i64 %entry.batch, %batch.b
  %at.c = mul i64 %entry.batch, %batch.c
  %a.entry = getelementptr i8, ptr %a, i64 %at.a
  %b.entry = getelementptr i8, ptr %b, i64 %at.b
  %c.entry = getelementptr i8, ptr %c, i64 %at.c
  %skip.a = mul i64 %begin, %step.a
  %skip.b = mul i64 %begin, %step.b
  %skip.c = mul i64 %begin, %step.c
  %a.part = getelementptr TYPE, ptr %a.entry, i64 %skip.a
  %b.part = getelementptr TYPE, ptr %b.entry, i64 %skip.b
  %c.part = getelementptr TYPE, ptr %c.entry, i64 %skip.c
  br i1 %no.inner, label %empty, label %multiply
multiply:
  %height.int = CAST i64 %height to INT
  %width.int = CAST i64 %width to INT
  call void %fn(i32 101, i32 %ta.enum, i32 %tb.enum, INT %height.int, INT %width.int, INT %k.int,
                TYPE %alpha, ptr %a.part, INT %lda.int, ptr %b.part, INT %ldb.int,
                TYPE %beta, ptr %c.part, INT %ldc.int)
  br label %next
empty:
  ; An empty sum is zero, whatever cblas thinks of a leading dimension of 0.
  %keep = fcmp one double %beta.wide, 0.0
  br i1 %keep, label %next, label %zero
zero:
  %r = phi i64 [ 0, %empty ], [ %r.next, %zero ]
  %r.at = mul i64 %r, %ldc
  %r.p = getelementptr TYPE, ptr %c.part, i64 %r.at
  %bytes = mul i64 %width, SIZE
  call void @llvm.memset.p0.i64(ptr %r.p, i8 0, i64 %bytes, i1 false)
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %height
  br i1 %r.more, label %zero, label %next
next:
  %w.next = add i64 %w, 1
  br label %head
leave:
  ret void
}
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


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


@functools.cache
def gemm_kernel(dtype: npt.DTypeLike) -> tuple[int, bool]:
    """Address of the kernel for float32 or float64, and whether BLAS has 64-bit integers."""
    ilp64 = _library().ilp64
    return jit.compile_kernel(_gemm_ir(np.dtype(dtype).itemsize, ilp64), "livegrad_gemm"), ilp64


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


def _gemm_ir(itemsize: int, ilp64: bool) -> str:
    single = itemsize == 4
    beta = "fptrunc double %beta.wide to float" if single else "fadd double %beta.wide, -0.0"
    words = {
        "FROM_DOUBLE_ALPHA": beta.replace("beta", "alpha"),
        "FROM_DOUBLE": beta,
        "TYPE": "float" if single else "double",
        "SIZE": str(itemsize),
        "CAST": "bitcast" if ilp64 else "trunc",
        "INT": "i64" if ilp64 else "i32",
    }
    ir = _GEMM_IR
    for word, text in words.items():
        ir = ir.replace(word, text)
    return ir
