"""Gradients at NaN, infinities and ties, where finite differences say nothing: as PyTorch's are."""

from __future__ import annotations

import math

import pytest

import livegrad as lg
import livegrad.nn.functional as F

NAN, INF = math.nan, math.inf


def slopes(function, *points):
    xs = [lg.tensor(p, requires_grad=True) for p in points]
    function(*xs).sum().backward()
    return [x.grad.tolist() for x in xs]


def same(got, want):
    return all(g == w or (math.isnan(g) and math.isnan(w)) for g, w in zip(got, want, strict=True))


@pytest.mark.parametrize(
    ("function", "want"),
    [
        # at NaN, -inf, inf, -1, 1, 0.5
        (lambda x: x.clamp(-1, 1), [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
        (lambda x: x.clamp(min=-1), [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        (lambda x: x.clamp(max=1), [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]),
        (F.hardtanh, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
        (F.relu6, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
        (F.softshrink, [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        (F.hardshrink, [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        (lambda x: x.copysign(lg.ones(6)), [NAN, NAN, NAN, -1.0, 1.0, 1.0]),
        (lambda x: x.logit(0.25), [NAN, 0.0, 0.0, 0.0, 0.0, 4.0]),
        (lambda x: 0.0**x, [NAN, -INF, 0.0, -INF, 0.0, 0.0]),
    ],
)
def test_one_operand(function, want):
    (got,) = slopes(function, [NAN, -INF, INF, -1.0, 1.0, 0.5])
    assert same(got, want)


def test_elu_lets_a_gradient_through_nan():
    assert slopes(F.elu, [NAN, 1.0])[0] == [1.0, 1.0]


def test_extremes():
    assert slopes(lg.fmax, [NAN, NAN, 1.0, 2.0], [NAN, 1.0, NAN, 2.0]) == [
        [1.0, 0.0, 1.0, 1.0],
        [0.0, 1.0, 0.0, 0.0],
    ]
    (got,) = slopes(lambda x: x.amax(1), [[NAN, 1.0], [2.0, 2.0]])
    assert all(math.isnan(g) for g in got[0])
    assert got[1] == [0.5, 0.5]
    for extreme in (lg.amax, lg.amin):  # what is multiplied by 0 is not finite
        (got,) = slopes(lambda x, f=extreme: f(x, 0) * math.inf, [1.0, 2.0])
        assert sorted(map(str, got)) == ["inf", "nan"]


@pytest.mark.parametrize("p", [0.5, 1.5, 2, 3])
def test_the_norm_of_one_number_has_the_gradient_of_any_norm(p):
    for point in (NAN, INF, -INF):
        (got,) = slopes(lambda x: lg.linalg.vector_norm(x, p), point)
        assert math.isnan(got)
    assert slopes(lambda x: lg.linalg.vector_norm(x, p), 0.0) == [0.0]
    assert slopes(lambda x: lg.linalg.vector_norm(x, p), -1.0) == [-1.0]


def test_the_gradient_of_a_length_of_0_is_0_times_what_comes():
    for p, wanted in ((0.5, NAN), (1.5, 0.0), (2, NAN), (3, 0.0)):
        (got,) = slopes(lambda x, p=p: lg.linalg.vector_norm(x, p) * NAN, [0.0, 0.0])
        assert same(got, [wanted] * 2)
    assert slopes(lambda x: lg.dist(x, x.detach()) * 2, [1.0, 2.0]) == [[0.0, 0.0]]


def test_the_largest_of_a_vector_with_nan_is_nan_which_has_no_sign():
    assert slopes(lambda x: lg.linalg.vector_norm(x, INF), [NAN, 1.0]) == [[0.0, 0.0]]


def test_the_angle_of_the_origin():
    assert slopes(lg.atan2, [0.0, 1.0], [0.0, 0.0]) == [[0.0, 0.0], [0.0, -1.0]]


def test_smooth_l1_at_nan():
    (got,) = slopes(lambda x: F.smooth_l1_loss(x, lg.zeros(2)), [NAN, 4.0])
    assert math.isnan(got[0])
    assert got[1] == 0.5


def test_the_slope_of_huber_loss_does_not_grow_at_delta():
    x = lg.tensor([0.5, -1.0, 1.0, 2.0], requires_grad=True)
    (slope,) = lg.autograd.grad(F.huber_loss(x, lg.zeros(4), "sum"), x, create_graph=True)
    assert slope.tolist() == [0.5, -1.0, 1.0, 1.0]
    (second,) = lg.autograd.grad(slope.sum(), x)
    assert second.tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("g", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_spoils_all_that_share_an_extreme(g):
    x = lg.tensor([1.0, 2.0, 2.0], requires_grad=True)
    x.amax(0).backward(lg.tensor(g))
    assert math.isnan(x.grad[0].item())
    assert not math.isfinite(x.grad[1].item())
    alone = lg.tensor(math.nan, requires_grad=True)
    alone.amin().backward()
    assert math.isnan(alone.grad.item())


def test_the_gradient_of_what_was_no_number_is_multiplied_by_0():
    (got,) = slopes(lambda x: x.nan_to_num() * INF, [NAN, INF, 1.0])
    assert same(got, [NAN, NAN, INF])


def test_variance_of_all_of_too_few_values_has_a_gradient_that_is_no_function_of_them() -> None:
    x = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (slope,) = lg.autograd.grad(x.var(correction=3), x, create_graph=True)
    assert repr(slope.tolist()) == "[inf, nan, inf]"
    assert not slope.requires_grad


def test_gradients_that_end_stay_0_where_what_comes_is_nan():
    x = lg.tensor([-2.0, -0.3, 0.0, 0.3, 2.0], requires_grad=True)
    zeros, ones, nan = lg.zeros(5), lg.ones(5), lg.full((5,), float("nan"))
    for y, ended in (
        (F.margin_ranking_loss(x, zeros, ones, reduction="none"), [0, 0, 0, 1, 1]),
        (F.hinge_embedding_loss(x, -ones, reduction="none"), [0, 0, 0, 0, 1]),
        (F.hardswish(x * 2), [1, 0, 0, 0, 0]),
        (lg.sinc(x), [0, 0, 1, 0, 0]),
    ):
        (g,) = lg.autograd.grad(y, x, nan)
        assert g.isnan().logical_not().int().tolist() == ended
        assert g.nan_to_num().tolist() == [0] * 5
