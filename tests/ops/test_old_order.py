"""Factors in front of what they multiply, as PyTorch's first years had it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

A, B, C = lg.tensor([[1.0, 2.0], [3.0, 4.0]]), lg.ones(2, 2), lg.tensor([[2.0, 0.0], [1.0, 3.0]])
V, W = lg.tensor([1.0, 2.0]), lg.tensor([3.0, 5.0])

CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "add": (lambda: lg.add(A, 2, C), lambda: A + 2 * C),
    "add_": (lambda: A.clone().add_(2, C), lambda: A + 2 * C),
    "sub": (lambda: A.sub(2, C), lambda: A - 2 * C),
    "sub_": (lambda: A.clone().sub_(0.5, C), lambda: A - 0.5 * C),
    "addcmul_": (lambda: A.clone().addcmul_(2, B, C), lambda: A + 2 * B * C),
    "addcmul": (lambda: lg.addcmul(A, 2, B, C), lambda: A + 2 * B * C),
    "addcdiv_": (lambda: C.clone().addcdiv_(-2, B, A), lambda: C - 2 * B / A),
    "addmm": (lambda: lg.addmm(2, A, 3, B, C), lambda: 2 * A + 3 * (B @ C)),
    "addmm, one": (lambda: lg.addmm(2, A, B, C), lambda: 2 * A + B @ C),
    "addmm_": (lambda: A.clone().addmm_(2, 3, B, C), lambda: 2 * A + 3 * (B @ C)),
    "addmv": (lambda: lg.addmv(2, V, 3, A, W), lambda: 2 * V + 3 * (A @ W)),
    "addr_": (lambda: A.clone().addr_(2, V, W), lambda: 2 * A + lg.outer(V, W)),
    "baddbmm": (
        lambda: lg.baddbmm(2, A[None], 3, B[None], C[None]),
        lambda: (2 * A + 3 * (B @ C))[None],
    ),
    "addbmm": (lambda: A.addbmm(2, 3, B[None], C[None]), lambda: 2 * A + 3 * (B @ C)),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_old_order_means_the_same(name: str) -> None:
    old, new = CALLS[name]
    with pytest.warns(UserWarning, match="is deprecated"):
        found = old()
    assert found.tolist() == new().tolist()


def test_what_is_in_no_order_is_refused() -> None:
    for call in (lambda: lg.add(A, B, C), lambda: A.add_("2", B), lambda: lg.addmm(1, 2, 3, A, B)):
        with pytest.raises(TypeError):
            call()


def test_a_size_is_the_shape_of_a_new_tensor() -> None:
    assert lg.Tensor(lg.ones(2, 3).size()).shape == (2, 3)
