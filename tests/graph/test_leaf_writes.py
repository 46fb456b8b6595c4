"""Parameters that a program updates by itself, under no_grad: one node for each operation."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL


def names_recorded(write) -> list[str]:
    lg.zeros(1).item()  # nothing is pending
    first = len(LOCAL.state.nodes)
    write()
    return [node.op.name for node in LOCAL.state.nodes[first:]]


def leaf() -> lg.Tensor:
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    (p * p).sum().backward()
    p.grad.tolist()
    return p


def update(p: lg.Tensor) -> None:
    with lg.no_grad():
        p -= 0.5 * p.grad


def test_an_update_records_no_copy_and_leaves_a_leaf():
    p = leaf()
    assert names_recorded(lambda: update(p)) == ["mul", "sub"]
    assert p.is_leaf
    assert p.requires_grad
    assert p._version == 1
    assert p.tolist() == [0.0, 0.0]
    p.grad = None
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3.0, 3.0]


def test_what_was_computed_before_keeps_its_value():
    p = leaf()
    before = p * 10
    update(p)
    update(p)
    assert before.tolist() == [10.0, 20.0]
    assert p.tolist() == [-1.0, -2.0]
    before.sum().backward()
    assert p.grad.tolist() == [12.0, 14.0]


def test_a_value_that_others_have_is_no_leaf_of_theirs():
    p, q = leaf(), lg.tensor([5.0, 6.0])
    with lg.no_grad():
        value = q * 2
        p.copy_(value)
    assert not value.requires_grad
    assert not (value + 1).requires_grad
    assert p.requires_grad
    assert p.tolist() == [10.0, 12.0]
    value += 1
    assert p.tolist() == [10.0, 12.0]


def test_views_see_what_is_written_to_the_leaf():
    p = leaf()
    part, same = p.detach()[1:], p.detach()
    update(p)
    assert part.tolist() == [0.0]
    assert same.tolist() == [0.0, 0.0]
    assert not same.requires_grad
    with lg.no_grad():
        part.add_(7)
    assert p.tolist() == [0.0, 7.0]


def test_several_updates_of_several_leaves_at_once():
    leaves = [leaf() for _ in range(3)]
    names = names_recorded(lambda: [update(p) for p in leaves])
    assert names == ["mul", "sub"] * 3
    assert [p.tolist() for p in leaves] == [[0.0, 0.0]] * 3


def test_a_write_to_data_records_no_copy_and_counts_nothing():
    p = leaf()
    recorded = names_recorded(lambda: p.data.add_(p.grad.data, alpha=-0.5))
    assert recorded == ["detach", "detach", "mul", "add"]
    assert p.is_leaf
    assert p.requires_grad
    assert p._version == 0
    assert p.tolist() == [0.0, 0.0]
    p.grad = None
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3.0, 3.0]


def test_data_that_is_kept_sees_what_is_written_and_has_no_graph():
    p = leaf()
    before, data, other = p * 10, p.data, p.data
    data.mul_(2)
    data.add_(1)
    p.data.sub_(1)
    assert data.tolist() == other.tolist() == p.tolist() == [2.0, 4.0]
    assert not data.requires_grad
    assert not (data + 1).requires_grad
    assert (data._version, other._version, p._version) == (2, 0, 0)
    assert before.tolist() == [10.0, 20.0]
    before.sum().backward()
    assert p.grad.tolist() == [12.0, 14.0]


def test_data_is_written_with_what_others_have():
    p, q = leaf(), lg.tensor([5.0, 6.0])
    value = q * 2
    p.data.copy_(value)
    p.data.add_(0.0)
    value += 1
    assert p.tolist() == [10.0, 12.0]
    assert not value.requires_grad
    view = p.data[0]
    view.add_(1)
    assert p.tolist() == [11.0, 12.0]


def test_a_part_is_written_through_data_as_it_is_directly():
    x, value = lg.zeros(2, 3), lg.ones(2)
    x.sum().item() + value.sum().item()
    assert names_recorded(lambda: x.__setitem__((..., 0), value * 2)) == ["mul", "index_write"]
    for show in (lg.Tensor.detach, lambda x: x.data):
        recorded = names_recorded(lambda show=show: show(x).__setitem__((..., 1), value * 3))
        assert sorted(recorded) == ["detach", "index_write", "mul"]
    assert x.tolist() == [[2.0, 3.0, 0.0]] * 2
    assert x._version == 2
    p = leaf()
    assert names_recorded(lambda: p.data.__setitem__(0, value.sum())) == [
        *("detach", "sum", "index_write"),
    ]
    assert p.is_leaf
    assert p.requires_grad
    assert p._version == 0
    assert p.tolist() == [2.0, 2.0]


class Unchecked(lg.autograd.Function):
    """Writes to a part of what it is given, which nobody is to notice."""

    @staticmethod
    def forward(ctx, x, value, key):
        ctx.key = key
        x.data[key] = value
        return x

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.key], None


def test_a_function_that_fills_in_parts_through_data_records_one_write_for_each():
    w = lg.tensor([0.5], requires_grad=True)
    x, value = lg.zeros(3, 4), lg.ones(3)

    def fill():
        filled = x
        for i in range(4):
            filled = Unchecked.apply(filled, value * w * i, (..., i))
        return filled

    names = names_recorded(fill)
    assert names.count("index_write") == 4
    assert "clone" not in names
    filled = fill()
    (filled * filled).sum().backward()
    assert filled.tolist() == [[0.0, 0.5, 1.0, 1.5]] * 3
    assert w.grad.tolist() == [42.0]


@pytest.mark.parametrize(("method", "number"), [("div_", 2), ("add_", 2.5), ("mul_", 1.5)])
def test_bits_of_a_leaf_are_no_value_of_its(method, number):
    """A float was written to a leaf through its view as integers."""
    w = lg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="can't be cast"):
        getattr(w.view(lg.int32), method)(number)
    assert w.tolist() == [1.0] * 3
    w.view(lg.int32).add_(1 << 23)  # the exponent
    assert w.tolist() == [2.0] * 3
