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


UNBOUND_WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the base": lambda T, base, view: base.mul_(3),
    "a part of the base": lambda T, base, view: base[1].fill_(3),
    "the view": lambda T, base, view: view.add_(1),
    "both": lambda T, base, view: (base.mul_(2), view.add_(1)),
}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("write", UNBOUND_WRITES)
@pytest.mark.parametrize("read", ["nobody", "detach", "tolist", "numpy"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_one_of_several_views_retains_its_gradient_where_it_was_made(
    create_graph: bool, read: str, write: str
) -> None:
    # Its history cannot follow what is written, so it is still the one that it had.
    reads = {
        "nobody": lambda x: None,
        "detach": lambda x: (x.detach() * 2).tolist(),
        "tolist": lambda x: x.tolist(),
        "numpy": lambda x: x.detach().numpy(),
    }
    found = []
    for T in (torch, lg):
        base = T.ones(3, 2, requires_grad=True)
        view = base.unbind(0)[1]
        before = view.exp()
        view.retain_grad()
        with T.no_grad():
            UNBOUND_WRITES[write](T, base, view)
        reads[read](view)
        before.sum().backward(create_graph=create_graph)
        assert view.retains_grad
        found.append((view.grad.tolist(), base.grad.tolist(), view.detach().tolist()))
    assert found[1] == found[0]
