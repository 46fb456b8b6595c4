"""Products of bytes: exact, with or without an instruction for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.ops.products.quads import MOST_TERMS, byte_quads, quad_product
from livegrad.runtime.cpu import assemble, jit, machine
from livegrad.runtime.cpu.diskcache import DiskCache
from livegrad.runtime.plans import forget_plans

Array = np.ndarray[Any, Any]


@pytest.fixture
def texts(monkeypatch: Any) -> Any:
    """The IR of kernels that are made during a test, none of which was known before."""
    forget_plans()
    found: list[str] = []
    make = assemble._ir

    def noting(*args: Any) -> str:
        found.append(make(*args))
        return found[-1]

    monkeypatch.setattr(assemble, "_ir", noting)
    monkeypatch.setattr(assemble, "_kernels", {})
    before = jit.disk_cache()
    jit.use_disk_cache(DiskCache(None))
    yield found
    jit.use_disk_cache(before)
    forget_plans()


def extremes(rows: int, size: int, low: int, high: int) -> Array:
    """Bytes of which many are the least or the greatest."""
    rng = np.random.default_rng([rows, size])
    x = rng.integers(low, high + 1, (rows, size))
    return np.where(rng.random((rows, size)) < 0.4, rng.choice([low, high], (rows, size)), x)


def check(rows: int, size: int, columns: int) -> None:
    x = extremes(rows, size, 0, 255).astype(np.uint8)
    w = extremes(columns, size, -128, 127).astype(np.int8)
    found = quad_product(byte_quads(lg.tensor(x)), byte_quads(lg.tensor(w)))
    np.testing.assert_array_equal(found.numpy(), x.astype(np.int64) @ w.T.astype(np.int64))


SIZES = [(1, 4, 1), (1, 400, 33), (3, 4, 20), (40, 1100, 70), (5, 8, 1)]


def test_without_an_instruction(texts: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(machine, "MACHINE", machine.MACHINE._replace(byte_dots=0))
    for sizes in SIZES:
        check(*sizes)
    assert any("sext <16 x i16>" in text for text in texts)
    assert not any("vpdpbusd" in text for text in texts)


@pytest.mark.skipif(machine.MACHINE.byte_dots < 64, reason="a CPU without AVX-512 VNNI")
@pytest.mark.parametrize("width", [64, 32])
def test_with_an_instruction(width: int, texts: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(machine, "MACHINE", machine.MACHINE._replace(byte_dots=width))
    for sizes in SIZES:
        check(*sizes)
    assert any(f"vpdpbusd.{width * 8}" in text for text in texts)


def test_the_longest_row_fits() -> None:
    x = lg.full((1, MOST_TERMS), 255, dtype=lg.uint8)
    w = lg.full((1, MOST_TERMS), -128, dtype=lg.int8)
    found = quad_product(byte_quads(x), byte_quads(w)).item()
    assert found == -255 * 128 * MOST_TERMS
