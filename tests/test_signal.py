"""Windows against SciPy's, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.signal.windows as sw

import livegrad as lg

windows = lg.signal.windows
SAME: dict[str, dict[str, Any]] = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0},
    "gaussian": {"std": 1.5}, "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_hamming": {"alpha": 0.6}, "hamming": {}, "hann": {}, "kaiser": {"beta": 5.0},
    "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", SAME)
def test_like_scipy(name: str, sym: bool) -> None:
    options = SAME[name]
    for length in (0, 1, 2, 5, 12):
        got = getattr(windows, name)(length, sym=sym, dtype=lg.float64, **options)
        want = getattr(sw, name)(length, sym=sym, **options)
        np.testing.assert_allclose(np.asarray(got), want, atol=1e-14)


def test_periodic_by_default() -> None:
    for name in ("bartlett", "blackman", "hamming", "hann"):
        got = getattr(lg, f"{name}_window")(8, dtype=lg.float64)
        want = getattr(windows, name)(8, sym=False, dtype=lg.float64)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want))
    got = lg.kaiser_window(8, False, 5.0)
    np.testing.assert_allclose(np.asarray(got), sw.kaiser(8, 5.0), rtol=1e-6)
    assert lg.hann_window(4, dtype=lg.float16).dtype is lg.float16
    assert lg.hann_window(4, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: windows.hann(-1)),
        (ValueError, lambda: windows.hann(3, dtype=lg.int64)),
        (ValueError, lambda: windows.hann(3, dtype=lg.float16)),
        (ValueError, lambda: windows.hann(3, layout="sparse_coo")),
        (ValueError, lambda: windows.exponential(3, tau=-1.0)),
        (ValueError, lambda: windows.exponential(3, center=1.0)),
        (ValueError, lambda: windows.gaussian(3, std=0.0)),
        (ValueError, lambda: windows.kaiser(3, beta=-1.0)),
        (TypeError, lambda: windows.general_cosine(3, a=None)),
        (ValueError, lambda: windows.general_cosine(3, a=[])),
        (RuntimeError, lambda: lg.hann_window(-1)),
        (RuntimeError, lambda: lg.hann_window(3, dtype=lg.int64)),
        (TypeError, lambda: lg.hann_window(2.5)),
    ],
)
def test_refused(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call()
