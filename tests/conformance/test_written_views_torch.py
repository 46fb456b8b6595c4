"""Hooks on views, and gradients they retain, when a view is written afterwards: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda T, x: x.mul_(3),
    "add_": lambda T, x: x.add_(1),
    "fill_": lambda T, x: x.fill_(3),
    "copy_": lambda T, x: x.copy_(T.ones(2)),
    "an element": lambda T, x: x.__setitem__(0, 1.0),
}


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("through", ["the view", "a view of it"])
@pytest.mark.parametrize("watched", ["hook", "retain_grad"])
def test_the_gradient_of_a_write_does_not_pass_by_the_view(
    watched: str, through: str, write: str
) -> None:
    found = []
    for T in (torch, lg):
        seen: list[Any] = []
        leaf = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        whole = leaf * 2
        view = whole.t()
        written = view if through == "the view" else view.view(1, 2, 2)
        if watched == "hook":
            view.register_hook(lambda g, seen=seen: seen.append(g.tolist()))
        else:
            view.retain_grad()
        before = view * 5
        WRITES[write](T, written)
        for y in ((whole * T.arange(4).reshape(2, 2)).sum(), before.sum() + view.sum()):
            y.backward(retain_graph=True)
            grads = [None if x.grad is None else x.grad.tolist() for x in (leaf, view)]
            seen.append(grads)
        found.append(seen)
    assert found[1] == found[0]
