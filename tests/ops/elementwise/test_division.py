"""Integer division by zero raises where PyTorch raises, and nothing else does."""

from __future__ import annotations

import contextlib
import operator

import pytest

import livegrad as lg
from livegrad.graph.state import reference_mode

DIVISIONS = {
    "//": operator.floordiv,
    "%": operator.mod,
    "floor_divide": lambda a, b: lg.floor_divide(a, b),
    "remainder": lambda a, b: lg.remainder(a, b),
    "fmod": lambda a, b: lg.fmod(a, b),
    "floor": lambda a, b: lg.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: lg.div(a, b, rounding_mode="trunc"),
    "floor_divide_": lambda a, b: a.clone().floor_divide_(b),
    "remainder_": lambda a, b: a.clone().remainder_(b),
    "fmod_": lambda a, b: a.clone().fmod_(b),
    "div_": lambda a, b: a.clone().div_(b, rounding_mode="trunc"),
    "//=": lambda a, b: operator.ifloordiv(a.clone(), b),
    "%=": lambda a, b: operator.imod(a.clone(), b),
}
INTEGERS = [lg.uint8, lg.int8, lg.int16, lg.int32, lg.int64]


def pending(x):
    """The same values, not computed yet."""
    return x + lg.zeros((), dtype=x.dtype)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(lg.floor_divide, [-4, 3, -3]), (lg.remainder, [1, 1, -1]), (lg.fmod, [-1, 1, 1])],
)
def test_integers_are_rounded(function, expected):
    assert function(lg.tensor([-7, 7, 5]), lg.tensor([2, 2, -2])).tolist() == expected


@pytest.mark.parametrize("how", [contextlib.nullcontext, reference_mode])
def test_a_remainder_of_zero_has_the_sign_of_the_number(how):
    x = lg.tensor([-2.0, 2.0, -0.0, 0.0, -3.0, 3.0])
    with how():
        assert [str(r) for r in (x % 2).tolist()] == ["-0.0", "0.0", "-0.0", "0.0", "1.0", "1.0"]
        assert [str(r) for r in (x % -1).tolist()] == ["-0.0", "0.0"] * 3
        ours = x.__array_namespace__().remainder(x, lg.full((6,), 2.0))  # as the standard wants
        assert [str(r) for r in ours.tolist()] == ["0.0"] * 4 + ["1.0"] * 2


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_zero_that_is_known_raises_at_the_line(name):
    a = lg.tensor([4, 5])
    for zero in (0, lg.tensor([2, 0]), lg.tensor(0)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            DIVISIONS[name](a, zero)
    assert a.tolist() == [4, 5]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", DIVISIONS)
def test_a_zero_that_is_computed_raises_when_it_is(name, dtype):
    a = lg.arange(19).to(dtype)
    result = DIVISIONS[name](a, pending(lg.tensor([3] * 18 + [0], dtype=dtype)))
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError.*test_division\.py"):
        result.tolist()


@pytest.mark.parametrize("count", [1, 15, 16, 17, 33])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_lanes_without_an_element_divide_nothing(count, dtype):
    a, b = pending(lg.full((3, count), 7, dtype=dtype)), pending(lg.full((count,), 2, dtype=dtype))
    assert (a // b).tolist() == [[3] * count] * 3
    assert (a % b).sum().item() == 3 * count
    assert (a.T % b[:1]).sum(0).tolist() == [count] * 3


@pytest.mark.parametrize("fold", [lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(1)])
def test_inside_a_fold(fold):
    b = pending(lg.tensor([[1, 2, 3], [4, 0, 6]]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fold(12 // b).tolist()
    assert fold(12 // (b + 1)).sum().item() == 6 + 4 + 3 + 2 + 12 + 1


def test_nobody_raises_for_what_nobody_needs():
    a = lg.arange(3)
    dead = a // pending(lg.tensor([1, 0, 1]))
    del dead
    assert (a + 1).tolist() == [1, 2, 3]


def test_nothing_divided_by_zero_is_nothing():
    assert (lg.zeros(0, dtype=lg.int64) // 0).tolist() == []
    assert (lg.zeros(0, 3, dtype=lg.int64) % pending(lg.zeros(3, dtype=lg.int64))).tolist() == []


def test_floats_divide_by_zero():
    x = lg.tensor([1.0, -1.0])
    assert (x // 0).tolist() == [float("inf"), float("-inf")]
    assert (lg.tensor([1, 2]) // 0.0).tolist() == [float("inf")] * 2


@pytest.mark.parametrize("dtype", INTEGERS[1:])
def test_the_least_integer_by_minus_one_wraps(dtype):
    least = lg.iinfo(dtype).min
    a, b = lg.tensor([least, 6], dtype=dtype), pending(lg.tensor([-1, -1], dtype=dtype))
    assert (a // b).tolist() == [least, -6]
    assert lg.div(a, b, rounding_mode="trunc").tolist() == [least, -6]
    assert ((a % b).tolist(), lg.fmod(a, b).tolist()) == ([0, 0], [0, 0])
    assert (a // -1).tolist() == [least, -6]


@pytest.mark.parametrize("name", DIVISIONS)
def test_reference_mode_raises_as_well(name):
    with reference_mode():
        a, b = lg.tensor([4, 5]), lg.tensor([2, 0])
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            DIVISIONS[name](a, b)
        assert DIVISIONS[name](a, b + 1) is not None


@pytest.mark.parametrize(
    ("divided", "name"),
    [
        (lambda a: a // 2, "floor_divide"),
        (lambda a: 5.0 // a, "floor_divide"),
        (lambda a: a // lg.tensor([2.0, 3.0]), "floor_divide"),
        (lambda a: 5.0 % a, "remainder"),
    ],
)
def test_quotients_without_a_derivative(divided, name):
    a = lg.tensor([1.5, -0.25], requires_grad=True)
    y = divided(a).sum()
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
        y.backward()


@pytest.mark.parametrize(
    ("divided", "gradient"),
    [
        (lambda a: lg.div(a, 2, rounding_mode="floor"), [0.0, 0.0]),
        (lambda a: lg.div(2, a, rounding_mode="floor"), [0.0, 0.0]),
        (lambda a: a % 2, [1.0, 1.0]),
        (lambda a: lg.tensor([2.0, 3.0]) % a, [-1.0, 12.0]),
        (lambda a: lg.fmod(lg.tensor(5.0), a), [-3.0, 20.0]),
    ],
)
def test_quotients_with_a_derivative(divided, gradient):
    a = lg.tensor([1.5, -0.25], requires_grad=True)
    divided(a).sum().backward()
    assert a.grad.tolist() == gradient
