"""Views of what requires a gradient later, or takes another shape in place: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute")

RESHAPED: dict[str, Callable[[Any], Any]] = {
    "as it was": lambda x: x,
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "t_ and unsqueeze_": lambda x: x.t_().unsqueeze_(0),
}
CUT: dict[str, Callable[[Any], Any]] = {
    **RESHAPED,
    "resize_": lambda x: x.resize_(2, 4),
    "resize_ and t_": lambda x: x.resize_(4, 2).t_(),
    "as_strided_": lambda x: x.as_strided_((2, 3), (3, 1), 1),
    "set_": lambda x: x.set_(x.t()),
}


def nothing(T: Any, x: Any, view: Any) -> None:
    pass


def write_whole(T: Any, x: Any, view: Any) -> None:
    with T.no_grad():
        x.mul_(2)


def write_view(T: Any, x: Any, view: Any) -> None:
    with T.no_grad():
        view.mul_(2)


THEN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "nothing": nothing,
    "the whole is written": write_whole,
    "a view is written": write_view,
    "it is written detached": lambda T, x, view: x.detach().mul_(2),
    "a view is written, recorded": lambda T, x, view: view.mul_(2),
    "it requires no gradient": lambda T, x, view: x.requires_grad_(False),
    "a view requires one": lambda T, x, view: view.requires_grad_(),
    "a view requires one, and none": lambda T, x, view: view.requires_grad_().requires_grad_(False),
    "a view requires none": lambda T, x, view: view.requires_grad_(False),
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("reshaped", CUT)
@pytest.mark.parametrize("made", ["before", "after", "as one of several"])
def test_views_of_what_requires_a_gradient_later(made: str, reshaped: str, then: str) -> None:
    found = []
    for T in (torch, lg):
        x = T.arange(9.0).reshape(3, 3) * 1
        early = x[0]
        CUT[reshaped](x)
        view = {"before": early, "as one of several": x.unbind(0)[0]}.get(made, x[0])
        x.requires_grad_()
        assert (view.grad_fn is None) is view.is_leaf  # PyTorch does not know before it is asked
        seen: list[Any] = []
        try:
            THEN[then](T, x, view)
            seen += [(y.requires_grad, y.is_leaf, y.tolist()) for y in (x, view)]
            (view * view).sum().backward()
        except RuntimeError:
            seen.append("refused")
        seen += [None if y.grad is None else y.grad.tolist() for y in (x, view)]
        found.append(seen)
    assert found[1] == found[0]


@pytest.mark.parametrize("flows", [True, False])
@pytest.mark.parametrize("made", ["unbind", "under no_grad", "select"])
def test_set_on_a_view(made: str, flows: bool) -> None:
    found = []
    for T in (torch, lg):
        x, source = T.ones(2), T.zeros((), requires_grad=flows)
        with T.set_grad_enabled(made != "under no_grad"):
            view = x.unbind(0)[0] if made == "unbind" else x[0]
        try:
            view.set_(source)
        except RuntimeError:
            found.append("refused")
        else:
            found.append(view.tolist())
    assert found[1] == found[0]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "all of a leaf": lambda x: x.squeeze(0),
    "a part of a leaf": lambda x: x[1:],
    "a part of what was computed": lambda x: (x * 1)[1:],
    "no view": lambda x: x * 1,
}


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("reshaped", RESHAPED)
@pytest.mark.parametrize("view", VIEWS)
def test_a_gradient_is_retained_in_the_shape_taken_in_place(
    view: str, reshaped: str, recorded: bool
) -> None:
    found = []
    for T in (torch, lg):
        leaf = T.ones(4, 3, requires_grad=True)
        x = VIEWS[view](leaf)
        x.retain_grad()
        before = x * 5
        seen: list[Any] = []
        with T.set_grad_enabled(recorded):
            try:
                RESHAPED[reshaped](x)
            except RuntimeError:
                seen.append("refused")
        for y in ((x * T.arange(x.numel()).reshape(x.shape)).sum(), before.sum()):
            try:
                y.backward(retain_graph=True)
            except RuntimeError:  # a shape that the gradient cannot be brought to
                seen.append("refused")
            seen += [None if y.grad is None else y.grad.tolist() for y in (x, leaf)]
        found.append(seen)
    assert found[1] == found[0]


@pytest.mark.parametrize("name", ["unsafe_chunk", "unsafe_split"])
@pytest.mark.parametrize("dim", [0, 1])
def test_unsafe_parts_share_memory(name: str, dim: int) -> None:
    def run(T: Any) -> Any:
        x = T.arange(24.0).reshape(4, 6)
        parts = getattr(x, name)(2, dim)
        for i, part in enumerate(parts):
            part.mul_(i + 2)
        return x.tolist(), [(p.stride(), p.storage_offset()) for p in parts], T.diag(x, 5).stride()

    assert run(lg) == run(torch)
