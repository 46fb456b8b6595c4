"""What is refused leaves nothing behind: other values and later work are as without it."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.graph.op import REGISTRY


def later_work() -> None:
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_gradient_rule_that_refuses_raises_at_backward() -> None:
    x, w = lg.rand(3, 3, requires_grad=True), lg.ones(3, requires_grad=True)
    other = lg.ones(2) * 3
    loss = (lg.linalg.qr(x, mode="r").R.sum() * w).sum()
    with pytest.raises(RuntimeError, match="derivative of linalg.qr depends on Q"):
        loss.backward()
    assert other.tolist() == [3.0, 3.0]
    assert x.grad is None
    later_work()


def test_gradient_rule_that_fails_while_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(g: lg.Tensor, y: lg.Tensor, x: lg.Tensor) -> lg.Tensor:
        raise RuntimeError("no derivative today")

    monkeypatch.setattr(REGISTRY["erf"], "grads", (rule,))
    x, w = lg.rand(3, 7, requires_grad=True), lg.ones(7, requires_grad=True)
    before = lg.ones(2) * 3
    loss = (lg.erf(x) * w).sum()
    loss.backward()
    after = lg.ones(2) * 4
    with pytest.raises(RuntimeError, match="no derivative today"):
        x.grad.tolist()
    with pytest.raises(RuntimeError, match="no derivative today"):  # it stays refused,
        x.grad.tolist()
    assert before.tolist() == [3.0, 3.0]  # and nobody else is
    assert after.tolist() == [4.0, 4.0]
    assert loss.item() == pytest.approx(lg.erf(x.detach()).sum().item(), rel=1e-5)
    later_work()


def test_values_that_refuse() -> None:
    x = lg.rand(3, 4)
    before = lg.ones(2) * 3
    wrong = lg.gather(x, 0, lg.tensor([[7]]) * 1)  # not known yet: the flush finds out
    for _ in range(2):
        with pytest.raises(RuntimeError, match="index 7 is out of bounds"):
            wrong.tolist()
        assert before.tolist() == [3.0, 3.0]
    later_work()


def test_refused_write_leaves_nothing_pending() -> None:
    leaf = lg.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.index_put_((lg.tensor([50]),), lg.tensor(1.0))
    assert (lg.ones(2) * 3).tolist() == [3.0, 3.0]  # not the index out of range
    assert leaf.tolist() == [0.0, 0.0, 0.0]
    later_work()


def test_what_nobody_sees_is_not_computed() -> None:
    def program() -> None:
        x = lg.ones(3, 3, requires_grad=True)
        y = lg.where(x * 2 > 1, x, 0.0)
        y.tolist()
        y.sum().backward()  # needs the condition, which the flush did not keep
        lg.linalg.inv(lg.ones(3, 3))

    program()
    assert (lg.ones(2) * 3).tolist() == [3.0, 3.0]  # no matrix that is singular


def test_logdet_of_a_singular_matrix_has_a_gradient() -> None:
    x = lg.ones(3, 3, requires_grad=True)
    y = lg.logdet(x)
    assert y.item() == -float("inf")
    y.backward()
    assert not lg.isfinite(x.grad).all()
