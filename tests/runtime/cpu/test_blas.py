"""NumPy's BLAS stays on one thread for as long as it is asked to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from livegrad.runtime.cpu import blas

# The wheels of NumPy bring one, and we must know how to call it.
brought = list((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*"))
known = bool(blas.thread_counts(False) or brought)
pytestmark = pytest.mark.skipif(not known, reason="NumPy without OpenBLAS")


def test_threads_are_back_after_a_call() -> None:
    ((count, set_count),) = blas.thread_counts(False)
    before = count()
    set_count(2)
    try:
        assert blas.on_one_thread(count) == 1
        with pytest.raises(KeyError):
            blas.on_one_thread({}.pop, "missing")
        assert count() == 2
    finally:
        set_count(before)


def test_without_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "thread_counts", lambda with_scipy: [])
    assert blas.on_one_thread(max, 1, 2) == 2
