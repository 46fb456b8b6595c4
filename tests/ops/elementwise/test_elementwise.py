"""Special cases of elementwise ops; values and gradients in general: test_registry.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.handle import node_of
from livegrad.graph.state import reference_mode
from livegrad.ops.elementwise import (
    arithmetic as E,
    comparison as C,
    division,
    pointwise_math as M,
    power as P,
)
from livegrad.ops.layers import activation as A

NAN, INF = math.nan, math.inf


def values(x: Any) -> list[Any]:
    return np.asarray(x.detach()).tolist()  # type: ignore[no-any-return]


def slope(function: Any, *points: list[float]) -> list[list[float]]:
    """Gradients of the sum of `function` at `points`, one list per operand."""
    xs = [lg.tensor(p, dtype=lg.float64).requires_grad_() for p in points]
    function(*xs).sum().backward()
    return [values(x.grad) for x in xs]


def test_rounding_modes() -> None:
    a, b = lg.tensor([-7, 7]), lg.tensor([2, 2])
    assert values(E.div(a, b)) == [-3.5, 3.5]
    assert values(division.divide(a, b, rounding_mode="trunc")) == [-3, 3]
    assert values(division.divide(a, b, rounding_mode="floor")) == [-4, 3]
    with pytest.raises(RuntimeError, match="rounding_mode"):
        division.divide(a, b, rounding_mode="up")


def test_bools_add_and_multiply_as_or_and_and() -> None:
    a, b = lg.tensor([True, True, False]), lg.tensor([True, False, False])
    assert values(E.add(a, b)) == [True, True, False]
    assert values(E.mul(a, b)) == [True, False, False]


@pytest.mark.parametrize(
    ("exponent", "name"),
    [(2, "square"), (3, "cube"), (0.5, "sqrt"), (-0.5, "rsqrt"), (-1, "reciprocal"), (4, "pow")],
)
def test_number_exponents_take_cheaper_ops(exponent: float, name: str) -> None:
    x = lg.tensor([0.5, 2.0])
    y = P.pow(x, exponent)
    assert node_of(y).op.name == name
    np.testing.assert_allclose(values(y), np.array([0.5, 2.0]) ** exponent, rtol=1e-6)


def test_integer_powers() -> None:
    base, exponent = lg.tensor([2, -1, 1, 0, -3]), lg.tensor([-1, -3, -2, -1, 3])
    assert values(P.pow(base, exponent)) == [0, -1, 1, 0, -27]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        P.pow(lg.tensor([2]), -1)


def test_power_gradients_at_zero() -> None:
    base, exponent = slope(P.pow, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0])
    assert base == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(exponent, [0.0, 0.0, math.log(2)])


@pytest.mark.parametrize("function", [C.maximum, C.minimum])
def test_ties_share_the_gradient(function: Any) -> None:
    a, b = slope(function, [1.0], [1.0])
    assert a == b == [0.5]


def test_kinks_have_pytorchs_gradients() -> None:
    assert slope(A.relu, [0.0]) == [[0.0]]
    assert slope(E.abs, [0.0]) == [[0.0]]
    assert slope(A.hardswish, [-3.0, 3.0]) == [[0.0, 1.0]]
    assert slope(lambda x: C.clamp(x, 0, 1), [0.0, 1.0, 2.0]) == [[1.0, 1.0, 0.0]]
    assert slope(M.floor, [1.5]) == [[0.0]]


def test_nan_passes_or_loses() -> None:
    x, y = lg.tensor([NAN, 1.0]), lg.tensor([2.0, NAN])
    assert np.isnan(values(C.maximum(x, y))).all()
    assert values(C.fmax(x, y)) == [2.0, 1.0]
    assert np.isnan(values(A.relu(x))[0])
    assert np.isnan(values(C.clamp(x, 0, 1))[0])
    assert values(E.sign(x)) == [0.0, 1.0]


def test_no_overflow_on_the_way() -> None:
    x = lg.tensor([-1000.0, 1000.0])
    assert values(M.sigmoid(x)) == [0.0, 1.0]
    assert values(A.softplus(x)) == [0.0, 1000.0]
    assert values(A.logsigmoid(x)) == [-1000.0, 0.0]
    assert values(A.mish(x)) == [0.0, 1000.0]
    np.testing.assert_allclose(values(M.hypot(x * 1e35, x * 1e35)), [math.sqrt(2) * 1e38] * 2)
    assert values(M.logaddexp(lg.tensor([-INF]), lg.tensor([-INF]))) == [-INF]


def test_far_shifts() -> None:
    x, by = lg.tensor([5, -5, 5]), lg.tensor([64, 64, -1])
    assert values(C.bitwise_left_shift(x, by)) == [0, 0, 0]
    assert values(C.bitwise_right_shift(x, by)) == [0, -1, 0]


def test_isclose() -> None:
    x, y = lg.tensor([1.0, NAN, INF]), lg.tensor([1.0 + 1e-7, NAN, INF])
    assert values(C.isclose(x, y)) == [True, False, True]
    assert values(C.isclose(x, y, equal_nan=True)) == [True, True, True]
    with pytest.raises(RuntimeError, match="did not match"):
        C.isclose(x, lg.tensor([1, 2, 3]))


def test_casts() -> None:
    x = lg.tensor([-1.5, 0.0, 2.9, 300.0])
    assert values(E.cast(x, lg.int32)) == [-1, 0, 2, 300]
    assert values(E.cast(x, lg.bool)) == [True, False, True, True]
    assert values(E.cast(lg.tensor([300, -1]), lg.uint8)) == [44, 255]
    assert values(E.cast(E.cast(lg.tensor([1.001]), lg.bfloat16), lg.float32)) == [1.0]
    assert E.cast(x, lg.float32) is x


def test_integers_give_the_default_float() -> None:
    assert M.exp(lg.tensor([1])).dtype is lg.float32
    assert E.div(lg.tensor([1]), 2).dtype is lg.float32
    assert M.floor(lg.tensor([1])).dtype is lg.int64


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RuntimeError, lambda: E.neg(lg.tensor([True]))),
        (RuntimeError, lambda: E.sub(lg.tensor([True]), lg.tensor([True]))),
        (RuntimeError, lambda: E.sub(1, lg.tensor([True]))),
        (RuntimeError, lambda: E.positive(lg.tensor([True]))),
        (NotImplementedError, lambda: E.abs(lg.tensor([True]))),
        (NotImplementedError, lambda: C.bitwise_and(lg.tensor([1.0]), 1)),
        (NotImplementedError, lambda: C.bitwise_left_shift(lg.tensor([True]), lg.tensor([True]))),
        (NotImplementedError, lambda: A.gelu(lg.tensor([1]))),
        (NotImplementedError, lambda: A.elu(lg.tensor([1]))),
        (NotImplementedError, lambda: M.frac(lg.tensor([1]))),
        (RuntimeError, lambda: A.gelu(lg.tensor([1.0]), approximate="fast")),
        (RuntimeError, lambda: A.prelu(lg.ones(2, 3), lg.ones(2))),
        (RuntimeError, lambda: C.clamp(lg.tensor([1.0]))),
        (RuntimeError, lambda: E.where(lg.tensor([1]), 1.0, 2.0)),
        (RuntimeError, lambda: E.add(lg.tensor([1]), lg.tensor([1]), alpha=0.5)),
        (RuntimeError, lambda: E.add(lg.ones(2), lg.ones(3))),
        (RuntimeError, lambda: C.isclose(lg.ones(2), lg.ones(2), rtol=-1.0)),
        (TypeError, lambda: C.maximum(lg.ones(2), 1.0)),
        (TypeError, lambda: C.eq(1.0, lg.ones(2))),
        (TypeError, lambda: lg.fmod(1.0, lg.ones(2))),
    ],
)
def test_wrong_operands(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call()


def test_numbers_are_not_structure() -> None:
    x = lg.tensor([-1.0, 2.0])
    first, second = A.leaky_relu(x, 0.1), A.leaky_relu(x, 0.2)
    assert node_of(first).spec is node_of(second).spec


def test_numbers_outside_a_small_integer_type_wrap():
    x = lg.tensor([1, 200], dtype=lg.uint8)
    for mode in (True, False):
        with reference_mode(mode):
            assert (x * -1).tolist() == [255, 56]
            assert (x + 300).tolist() == [45, 244]


@pytest.mark.parametrize(
    "function",
    [
        lg.relu,
        lambda x: x.clamp(min=0),
        lambda x: x.clamp(0, 1),
        lambda x: x.clamp(max=0),
        lambda x: lg.maximum(x, -x),
        lambda x: lg.minimum(x, -x),
        lambda x: lg.fmax(x, -x),
    ],
)
def test_of_two_zeros_the_first_is_taken(function):
    assert function(lg.tensor([-0.0] * 9)).signbit().all()


@pytest.mark.parametrize("exponent", [0, 0.0, lg.tensor(0.0)])
def test_no_gradient_comes_through_a_power_of_0(exponent):
    a = lg.tensor([2.0], requires_grad=True)
    (a**exponent).sub(1).sqrt().backward()  # whose slope there is infinite
    assert a.grad.tolist() == [0.0]


SIGNALLING = {lg.float16: 0x7D01, lg.bfloat16: 0x7F81, lg.float32: 0x7FA00001}


@pytest.mark.parametrize("dtype", SIGNALLING)
@pytest.mark.parametrize(
    "choose",
    [
        lambda x, mask: lg.where(mask, x, 1),
        lambda x, mask: x.masked_fill(~mask, 0),
        lambda x, mask: x.tril(),
        lambda x, mask: lg.relu(x),
    ],
)
def test_what_is_chosen_keeps_its_bits(dtype, choose):
    integer = lg.int32 if dtype is lg.float32 else lg.int16
    bits = lg.tensor([[SIGNALLING[dtype]] * 20] * 20, dtype=integer)
    chosen = choose(bits.view(dtype), lg.ones(20, 20) > 0).view(integer)
    assert chosen[19].tolist() == [SIGNALLING[dtype]] * 20
