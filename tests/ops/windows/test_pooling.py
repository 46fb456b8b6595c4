"""Pooling of every kind against PyTorch: values, places, gradients."""

import itertools

import numpy as np
import pytest
from against_torch import agree, agree_with_gradients, both

import livegrad as lg
import livegrad.nn.functional as F

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
SHAPES = {1: (2, 3, 9), 2: (2, 6, 7), 3: (1, 2, 4, 5, 6)}


def pair(name):
    return getattr(F, name), getattr(torch.nn.functional, name)


@pytest.mark.parametrize("rank", SHAPES)
def test_average(rank):
    ours, theirs = pair(f"avg_pool{rank}d")
    for ceil, padded in itertools.product((False, True), repeat=2):
        mine, yours = both(*SHAPES[rank])
        arguments = (3, 2, 1, ceil, padded)
        agree_with_gradients(ours(mine, *arguments), theirs(yours, *arguments), [mine], [yours])
    whole = RNG.integers(-9, 9, SHAPES[rank])
    agree(ours(lg.tensor(whole), 2), theirs(torch.tensor(whole), 2))


def test_a_divisor_of_ones_own():
    mine, yours = both(2, 6, 7)
    ours, theirs = pair("avg_pool2d")
    agree(ours(mine, 2, divisor_override=3), theirs(yours, 2, divisor_override=3))


@pytest.mark.parametrize("rank", SHAPES)
def test_maximum(rank):
    ours, theirs = pair(f"max_pool{rank}d")
    for ceil, dilation in itertools.product((False, True), (1, 2)):
        mine, yours = both(*SHAPES[rank])
        arguments = (3, 2, 1, dilation, ceil, True)
        (values, places), (wanted, where) = ours(mine, *arguments), theirs(yours, *arguments)
        agree_with_gradients(values, wanted, [mine], [yours])
        agree(places, where)


@pytest.mark.parametrize("value", [0.0, -np.inf])
def test_of_equal_elements_the_first_is_greatest(value):
    x = np.full((1, 2, 5, 6), value)
    ours, theirs = pair("max_pool2d")
    mine, yours = lg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    (values, places), (wanted, where) = [
        f(t, 3, 2, 1, return_indices=True) for f, t in ((ours, mine), (theirs, yours))
    ]
    agree(places, where)
    values.sum().backward()
    wanted.sum().backward()
    agree(mine.grad, yours.grad)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_maxima_of_windows_that_overlap_or_leave_gaps(kernel):
    ours, theirs = pair("max_pool2d")
    for stride, padding, sizes in itertools.product(
        (1, 2, 3, 4), range(kernel // 2 + 1), ((5, 9), (16, 7))
    ):
        mine, yours = both(2, 3, *sizes)
        arguments = ((kernel, 3), stride, (padding, 1))
        agree_with_gradients(ours(mine, *arguments), theirs(yours, *arguments), [mine], [yours])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_maxima_of_other_dtypes(dtype):
    x = RNG.permutation(2 * 7 * 9).reshape(2, 7, 9) - 60
    ours, theirs = pair("max_pool2d")
    mine, yours = [T.tensor(x, dtype=getattr(T, dtype)) for T in (lg, torch)]
    (values, places), (wanted, where) = [
        f(t, 3, 2, 1, return_indices=True) for f, t in ((ours, mine), (theirs, yours))
    ]
    assert (values.numpy() == wanted.numpy()).all()
    agree(places, where)


def test_the_first_nan_of_a_window_is_its_maximum():
    x = RNG.standard_normal((1, 1, 6, 6))
    x[0, 0, 2, 2] = x[0, 0, 2, 3] = np.nan
    leaf = lg.tensor(x, requires_grad=True)
    values, places = F.max_pool2d(leaf, 3, 1, return_indices=True)
    values.backward(lg.ones(1, 1, 4, 4))
    inside = np.isnan(values.detach().numpy())
    assert inside.sum() == 12  # windows that have one of both
    assert set(places.numpy()[inside]) == {14, 15}
    assert leaf.grad[0, 0, 2, 2].item() == 9  # all windows that have it, with the other or without
    assert leaf.grad[0, 0, 2, 3].item() == 3


def test_maxima_of_small_windows_are_loops_and_so_is_their_gradient():
    x = lg.randn(4, 8, 16, 16, requires_grad=True)
    for _ in range(12):  # until there is a plan
        x.grad = None
        F.max_pool2d(x.relu(), 3, 2, 1).sum().backward()
        x.grad.sum().item()
    text = str(lg.explain())
    assert "scatter" not in text
    assert "argmax" not in text


@pytest.mark.parametrize(("rank", "kind"), list(itertools.product(SHAPES, ("avg", "max"))))
def test_adaptive(rank, kind):
    ours, theirs = pair(f"adaptive_{kind}_pool{rank}d")
    for size in (1, 3, 4, 12):
        mine, yours = both(*SHAPES[rank])
        agree_with_gradients(ours(mine, size), theirs(yours, size), [mine], [yours])
        if kind == "max":
            agree(ours(mine, size, True)[1], theirs(yours, size, True)[1])


@pytest.mark.parametrize("rank", SHAPES)
def test_unpooling_puts_values_back(rank):
    mine, yours = both(*SHAPES[rank])
    pool, wanted = pair(f"max_pool{rank}d")
    unpool, expected = pair(f"max_unpool{rank}d")
    ours = unpool(*pool(mine, 2, return_indices=True), 2, output_size=SHAPES[rank][-rank:])
    theirs = expected(*wanted(yours, 2, return_indices=True), 2, output_size=SHAPES[rank][-rank:])
    agree_with_gradients(ours, theirs, [mine], [yours])


@pytest.mark.parametrize(("rank", "shape"), [(2, (2, 3, 9, 11)), (3, (3, 7, 8, 9))])
def test_fractional(rank, shape):
    ours, theirs = pair(f"fractional_max_pool{rank}d")
    mine, yours = both(*shape)
    draws = RNG.random((2 if len(shape) == rank + 2 else 1, 3, rank))
    size = (4, 5, 3)[:rank]
    values, places = ours(mine, 2, size, None, True, lg.tensor(draws))
    wanted, where = theirs(yours, 2, size, None, True, torch.tensor(draws))
    agree_with_gradients(values, wanted, [mine], [yours])
    agree(places, where)
    halves = (0.5,) * rank
    assert ours(mine, 2, output_ratio=halves).shape == theirs(yours, 2, output_ratio=halves).shape


def test_norms_over_windows():
    x = RNG.uniform(0.2, 1, (2, 3, 6, 7))
    mine, yours = lg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    ours, theirs = pair("lp_pool2d")
    agree_with_gradients(ours(mine, 3.0, (2, 3)), theirs(yours, 3.0, (2, 3)), [mine], [yours])


WRONG = [
    (lambda T, f: f.max_pool2d(T.ones(1, 1, 4), 2), RuntimeError, "too small"),
    (lambda T, f: f.max_pool1d(T.ones(1, 2, 4), 2, padding=2), RuntimeError, "half"),
    (lambda T, f: f.avg_pool1d(T.ones(1, 2, 4), 2, 0), RuntimeError, "stride"),
    (lambda T, f: f.avg_pool2d(T.ones(1, 2, 4, 4), 2, divisor_override=0), RuntimeError, "zero"),
    (lambda T, f: f.max_pool2d(T.ones(1, 2, 4, 4) > 0, 2), NotImplementedError, "bool"),
    (lambda T, f: f.adaptive_avg_pool2d(T.ones(2, 2), (2, 2)), ValueError, "at least 3"),
    (lambda T, f: f.adaptive_avg_pool1d(T.ones(1, 2, 3), -1), RuntimeError, "greater"),
    (
        lambda T, f: f.max_unpool1d(
            T.ones(1, 2, 3), T.zeros(1, 2, 3).to(T.int64), 2, output_size=(9,)
        ),
        ValueError,
        "output_size",
    ),
]


@pytest.mark.parametrize(("call", "error", "mentions"), WRONG)
def test_errors(call, error, mentions):
    with pytest.raises(error):
        call(torch, torch.nn.functional)
    with pytest.raises(error, match=mentions):
        call(lg, F)


def test_signals_with_gradients_are_laid_out_as_images():
    x = lg.zeros(2, 4, 3, requires_grad=True).transpose(1, 2)
    assert F.max_pool1d(x, 2).stride() == (6, 1, 3)
    assert F.max_pool1d(x.detach(), 2).stride() == (6, 2, 1)
