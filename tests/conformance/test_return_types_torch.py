"""Results with names: what their classes are called, and how they are shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import livegrad as lg  # noqa: E402

CALLS = """
    max(x, 1) | min(x, 1) | sort(x) | topk(x, 1) | kthvalue(x, 1) | median(x, 1) | mode(x) |
    nanmedian(x, 1) | cummax(x, 1) | cummin(x, 1) | aminmax(x) | frexp(x) | histogram(x, 3) |
    linalg.qr(x) | linalg.svd(x) | linalg.eigh(y) | linalg.eig(y) | linalg.slogdet(y) |
    linalg.lu(y) | linalg.lu_factor(y) | linalg.inv_ex(y) | linalg.cholesky_ex(y) |
    linalg.solve_ex(y, x) | linalg.lstsq(y, x) | linalg.ldl_factor(y) | svd(y) | geqrf(y)
"""


@pytest.mark.parametrize("call", [call.strip() for call in CALLS.split("|")])
def test_results_have_names(call: str) -> None:
    def result(m: Any) -> Any:
        x, y = m.tensor([[1.0, 3.0], [2.0, 4.0]]), m.tensor([[4.0, 1.0], [1.0, 2.0]])
        return eval(f"m.{call}", {"m": m, "x": x, "y": y})

    ours, theirs = result(lg), result(torch)
    assert type(ours).__name__ == type(theirs).__name__
    assert type(ours) is getattr(lg.return_types, type(ours).__name__)
    names = [line.partition("=")[0] for line in repr(theirs).splitlines() if "=" in line]
    assert [line.partition("=")[0] for line in repr(ours).splitlines() if "=" in line] == names
    assert type(pickle.loads(pickle.dumps(ours))) is type(ours)


def test_results_are_shown_as_in_torch() -> None:
    x = [[1.0, 3.0], [2.0, 4.0]]
    shown = repr(torch.max(torch.tensor(x), 1)).replace("torch.", "livegrad.")
    assert repr(lg.max(lg.tensor(x), 1)) == shown
