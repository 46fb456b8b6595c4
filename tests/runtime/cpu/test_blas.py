"""The gemm kernel against NumPy, and its manners towards NumPy's own threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from livegrad.runtime.cpu import blas, threads
from livegrad.runtime.cpu.assemble import gemm_kernel
from livegrad.runtime.cpu.driver import Program, Step

# The wheels of NumPy bring one, and we must know how to call it.
brought = list((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*"))
known = blas.gemm_available() or bool(brought)
pytestmark = pytest.mark.skipif(not known, reason="NumPy without OpenBLAS")

SIZES = [
    (1, 1, 1), (3, 5, 7), (1, 64, 300), (64, 1, 300), (32, 32, 32), (64, 256, 784), (64, 784, 256),
    (784, 256, 64), (128, 128, 128), (300, 17, 200), (1030, 60, 50), (33, 1100, 40),
]  # fmt: skip


@pytest.fixture(autouse=True)
def number_of_threads():
    before = threads.pool.num_threads
    threads.pool.resize(2)
    yield
    threads.pool.resize(before)


def operand(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return random.standard_normal(shape).astype(dtype)


def program_for(block: list[int], dtype: str) -> Program:
    address = gemm_kernel(dtype)
    step = Step(address, 0, grain=1)
    return Program([], block, [step], blas_threads=blas.thread_control())


def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, trans=(False, False), **options) -> None:
    """c = a' @ b' where a' and b' are the operands, transposed if `trans` says so."""
    (M, N), K = c.shape[-2:], a.shape[-2 if trans[0] else -1]
    dtype = a.dtype.str
    batch = c.shape[0] if c.ndim == 3 else 1
    strides = tuple(x.strides[0] if x.ndim == 3 else 0 for x in (a, b, c))
    block = blas.gemm_block(
        dtype,
        (M, N, K),
        tuple(x.strides[-2] // x.itemsize for x in (a, b, c)),
        tuple(x.ctypes.data for x in (a, b, c)),
        trans=trans,
        batch=batch,
        batch_strides=strides,
        **options,
    )
    assert len(block) == blas.BLOCK_SLOTS
    assert program_for(block, dtype).run([]) == 0


def tolerance(dtype: str, K: int) -> float:
    return float(np.finfo(dtype).eps) * 8 * (K + 8) ** 0.5 * 4


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("sizes", SIZES)
def test_against_numpy(dtype: str, sizes: tuple[int, int, int]) -> None:
    M, N, K = sizes
    random = np.random.default_rng(0)
    a, b = operand(random, (M, K), dtype), operand(random, (K, N), dtype)
    for trans in [(False, False), (True, False), (False, True), (True, True)]:
        left = np.ascontiguousarray(a.T) if trans[0] else a
        right = np.ascontiguousarray(b.T) if trans[1] else b
        c = np.full((M, N), np.nan, dtype)
        multiply(left, right, c, trans)
        np.testing.assert_allclose(c, a @ b, rtol=0, atol=tolerance(dtype, K))


@pytest.mark.parametrize("sizes", SIZES)
def test_same_bits_for_any_number_of_threads(sizes: tuple[int, int, int]) -> None:
    M, N, K = sizes
    random = np.random.default_rng(1)
    a, b = operand(random, (M, K), "<f4"), operand(random, (K, N), "<f4")
    results = []
    for number in (1, 2, 3, 5):
        threads.pool.resize(number)
        for _ in range(3):
            c = np.empty((M, N), "<f4")
            multiply(a, b, c)
            results.append(c.tobytes())
    assert len(set(results)) == 1


def test_accumulate_alpha_and_leading_dimensions() -> None:
    random = np.random.default_rng(2)
    a = operand(random, (300, 90), "<f8")[:, :40]
    b = operand(random, (40, 500), "<f8")[:, :200]
    whole = operand(random, (300, 220), "<f8")
    before = whole.copy()
    multiply(a, b, whole[:, :200], accumulate=True, alpha=-0.5)
    np.testing.assert_allclose(whole[:, :200], before[:, :200] - 0.5 * (a @ b), atol=1e-12)
    assert (whole[:, 200:] == before[:, 200:]).all()


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_batch_with_a_shared_operand(batch: int) -> None:
    random = np.random.default_rng(3)
    a, b = operand(random, (batch, 70, 90), "<f4"), operand(random, (90, 110), "<f4")
    c = np.empty((batch, 70, 110), "<f4")
    multiply(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=0, atol=tolerance("<f4", 90))


@pytest.mark.parametrize("sizes", [(0, 5, 3), (5, 0, 3), (4, 6, 0), (0, 0, 0)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_empty_sizes(sizes: tuple[int, int, int], accumulate: bool) -> None:
    M, N, K = sizes
    c = np.ones((M, N), "<f4")
    multiply(np.ones((M, K), "<f4"), np.ones((K, N), "<f4"), c, accumulate=accumulate)
    assert (c == float(accumulate)).all()


def test_cut_by_columns_of_an_empty_sum() -> None:
    c = np.full((3, 40), np.nan, "<f8")
    block = blas.gemm_block("<f8", (3, 40, 0), (0, 40, 40), (0, 0, c.ctypes.data))
    block[0], block[13], block[14] = 3, -16, 3
    program_for(block, "<f8").run([])
    assert (c == 0).all()


@pytest.mark.parametrize("sizes", [*SIZES, (0, 4, 4), (4, 0, 4), (4, 4, 0), (5000, 5000, 2)])
def test_split_covers_the_result(sizes: tuple[int, int, int]) -> None:
    M, N, _ = sizes
    cut, chunks = blas.split(*sizes)
    extent = M if cut > 0 else N
    assert (chunks - 1) * abs(cut) < max(extent, 1) <= max(chunks, 1) * abs(cut)
    assert blas.row_chunk(*sizes) >= 1


def test_numpy_keeps_its_threads() -> None:
    before = blas.blas_num_threads()
    a = np.ones((256, 256), "<f4")
    multiply(a, a, np.empty_like(a))
    assert blas.blas_num_threads() == before


def test_concurrent_calls_do_not_change_the_bits() -> None:
    """One gemm, alone and while another Python thread keeps NumPy's BLAS busy."""
    random = np.random.default_rng(4)
    a, b = operand(random, (200, 300), "<f4"), operand(random, (300, 250), "<f4")
    c = np.empty((200, 250), "<f4")
    multiply(a, b, c)
    alone = c.tobytes()
    stop = threading.Event()

    def disturb() -> None:
        x = np.ones((150, 150), "<f4")
        while not stop.is_set():
            x @ x

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(30):
            multiply(a, b, c)
            assert c.tobytes() == alone
    finally:
        stop.set()
        other.join()


def test_without_blas(monkeypatch) -> None:
    monkeypatch.setattr(blas, "library", lambda: None)
    assert not blas.gemm_available()
    with pytest.raises(AssertionError, match="gemm_available"):
        blas.thread_control()
