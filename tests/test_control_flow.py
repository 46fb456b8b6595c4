"""`cond`, `while_loop`, `_foreach_*`, `swap_tensors`, `_check`, hooks on several gradients."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.autograd.graph import register_multi_grad_hook


def test_cond_takes_one_branch_with_its_gradient() -> None:
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    taken: list[str] = []

    def yes(x: Any) -> Any:
        taken.append("yes")
        return x.sin().sum()

    def no(x: Any) -> Any:
        taken.append("no")
        return (x * x).sum()

    lg.cond(x.sum() > 10, yes, no, (x,)).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]
    lg.cond(True, yes, no, [x])
    assert taken == ["no", "yes"]


def test_cond_refuses_as_pytorch_does() -> None:
    with pytest.raises(RuntimeError, match="pred to be bool or tensor, but got x"):
        lg.cond("x", abs, abs, (1,))
    with pytest.raises(RuntimeError, match="single-element"):
        lg.cond(lg.ones(2), abs, abs, (1,))
    assert lg.cond(2, abs, str, (-1,)) == 1


def test_while_loop_carries_values() -> None:
    count, power = lg.while_loop(
        lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (lg.tensor(0), lg.tensor(1.0))
    )
    assert (count.item(), power.item()) == (4, 16.0)
    assert lg.while_loop(lambda x: x < 3, lambda x: x + 1, (0,)) == (3,)


def test_foreach_goes_through_lists() -> None:
    xs = [lg.tensor([1.0, -2.0]), lg.tensor([3.0])]
    ys = [lg.tensor([1.0, 1.0]), lg.tensor([2.0])]
    assert [x.tolist() for x in lg._foreach_add(xs, ys, alpha=2)] == [[3.0, 0.0], [7.0]]
    assert [x.tolist() for x in lg._foreach_mul(xs, [2.0, 3.0])] == [[2.0, -4.0], [9.0]]
    assert [x.tolist() for x in lg._foreach_abs(xs)] == [[1.0, 2.0], [3.0]]
    assert [x.item() for x in lg._foreach_norm(xs, 1)] == [3.0, 3.0]
    assert lg._foreach_mul_(xs, 0.5) is None
    lg._foreach_addcdiv_(xs, ys, ys, value=1.0)
    lg._foreach_lerp_(xs, ys, 0.5)
    assert [x.tolist() for x in xs] == [[1.25, 0.5], [2.25]]
    lg._foreach_zero_(xs)
    lg._foreach_copy_(ys, xs)
    assert [y.tolist() for y in ys] == [[0.0, 0.0], [0.0]]


def test_foreach_refuses_lists_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 1 and 2"):
        lg._foreach_add([lg.ones(1)], [lg.ones(1), lg.ones(1)])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        lg._foreach_abs([])
    for name in ("_foreach_nothing", "_foreach_copy", "_foreach_zero"):
        assert not hasattr(lg, name)


def test_swapped_tensors_are_each_other_for_everybody() -> None:
    layer = nn.Linear(2, 1, bias=False)
    held, new = layer.weight, nn.Parameter(lg.tensor([[5.0, 6.0]]))
    held.note = "old"  # type: ignore[attr-defined]
    pending = held * 2
    lg.utils.swap_tensors(held, new)
    assert layer.weight is held
    assert held.tolist() == [[5.0, 6.0]]
    assert (new.note, hasattr(held, "note")) == ("old", False)  # type: ignore[attr-defined]
    assert pending.tolist() == (new * 2).tolist()
    layer(lg.ones(1, 2)).sum().backward()
    assert held.grad is not None
    assert held.grad.tolist() == [[1.0, 1.0]]


def test_views_follow_what_was_swapped() -> None:
    x, y = lg.zeros(2), lg.ones(3)
    view = x[:1]
    lg.utils.swap_tensors(x, y)
    y += 4
    assert (view.tolist(), x.tolist(), y.tolist()) == ([4.0], [1.0] * 3, [4.0, 4.0])


def test_swap_keeps_classes() -> None:
    x, y = lg.ones(2), nn.Parameter(lg.zeros(2))
    lg.utils.swap_tensors(x, y)
    assert isinstance(x, nn.Parameter)
    assert type(y) is lg.Tensor
    assert (x.requires_grad, y.requires_grad) == (True, False)
    with pytest.raises(RuntimeError, match="expected a tensor"):
        lg.utils.swap_tensors(x, 3)  # type: ignore[arg-type]


def test_checks_raise_what_their_names_say() -> None:
    for name, error in (
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
    ):
        getattr(lg, name)(True, lambda: "never")
        with pytest.raises(error, match="why"):
            getattr(lg, name)(False, lambda: "why")


def test_a_hook_on_several_gradients() -> None:
    x, y = (lg.ones(2, requires_grad=True) for _ in range(2))
    heard: list[Any] = []
    handle = register_multi_grad_hook(
        [x, y], lambda grads: heard.append([g.sum().item() for g in grads])
    )
    for _ in range(2):
        (x * 2 + y * 3).sum().backward()
    handle.remove()
    (x * 2 + y * 3).sum().backward()
    assert heard == [[4.0, 6.0], [4.0, 6.0]]
    first: list[float] = []
    register_multi_grad_hook([x, y], lambda g: first.append(g.sum().item()), mode="any")
    (x * 2 + y * 2).sum().backward()
    assert first == [4.0]


def test_variables() -> None:
    from livegrad.autograd import Variable

    x = lg.ones(2, requires_grad=True)
    assert isinstance(x, Variable)
    v = Variable(x * 2, requires_grad=True)
    assert (v.is_leaf, v.requires_grad, v.tolist()) == (True, True, [2.0, 2.0])
    assert not Variable(x).requires_grad
    with pytest.raises(TypeError, match="has to be a tensor, but got list"):
        Variable([1.0])
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(x, volatile=True)
