"""Interpolation, grid sampling and shuffles against PyTorch."""

import itertools

import numpy as np
import pytest
from against_torch import agree, agree_with_gradients, both

import livegrad as lg
import livegrad.nn.functional as F

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
SHAPES = {1: (2, 2, 5), 2: (1, 2, 5, 4), 3: (1, 1, 3, 4, 2)}
RANKS = {"linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,)}


@pytest.mark.parametrize(
    "mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area"]
)
def test_interpolate(mode):
    for rank in RANKS.get(mode, SHAPES):
        for align in (True, False) if mode in RANKS else (None,):
            for sizes in ({"size": 7}, {"size": 2}, {"scale_factor": 1.7}):
                mine, yours = both(*SHAPES[rank])
                ours = F.interpolate(mine, mode=mode, align_corners=align, **sizes)
                theirs = torch.nn.functional.interpolate(
                    yours, mode=mode, align_corners=align, **sizes
                )
                agree_with_gradients(ours, theirs, [mine], [yours])


def test_interpolate_options():
    for mode, size in itertools.product(("bilinear", "bicubic"), (3, 9)):
        mine, yours = both(1, 2, 8, 7)
        ours = F.interpolate(mine, size, mode=mode, antialias=True)
        theirs = torch.nn.functional.interpolate(yours, size, mode=mode, antialias=True)
        agree_with_gradients(ours, theirs, [mine], [yours])
    mine, yours = both(1, 2, 5, 4)
    for again in (True, False):
        options = {"scale_factor": 2.3, "mode": "bilinear", "recompute_scale_factor": again}
        agree(F.interpolate(mine, **options), torch.nn.functional.interpolate(yours, **options))


@pytest.mark.parametrize(
    ("mode", "padding"),
    list(itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"))),
)
def test_grid_sample(mode, padding):
    for align in (True, False):
        for x, grid in (((2, 3, 5, 4), (2, 3, 2, 2)), ((1, 2, 3, 4, 5), (1, 2, 1, 3, 3))):
            if mode == "bicubic" and len(x) == 5:
                continue
            mine, yours = both(*x)
            places = RNG.uniform(-1.7, 1.7, grid)
            at, there = [T.tensor(places, requires_grad=True) for T in (lg, torch)]
            ours = F.grid_sample(mine, at, mode, padding, align)
            theirs = torch.nn.functional.grid_sample(yours, there, mode, padding, align)
            agree(ours, theirs)
            ours.sum().backward()
            theirs.sum().backward()
            agree(mine.grad, yours.grad)
            agree(at.grad, there.grad)


def test_a_grid_may_hold_anything():
    x = lg.tensor(RNG.normal(size=(1, 1, 3, 3)))
    grid = lg.tensor([[[[np.nan, 0.0], [np.inf, 0.5], [-1e30, 1e30], [0.0, 0.0]]]]).double()
    for mode, padding in itertools.product(
        ("bilinear", "nearest"), ("zeros", "border", "reflection")
    ):
        out = F.grid_sample(x, grid, mode, padding, True).numpy()
        assert out[..., 3] == x.numpy()[0, 0, 1, 1]


def test_affine_grid():
    for size, align in itertools.product(((2, 1, 3, 4), (2, 1, 2, 3, 2)), (True, False)):
        rank = len(size) - 2
        mine, yours = both(2, rank, rank + 1)
        ours = F.affine_grid(mine, size, align)
        theirs = torch.nn.functional.affine_grid(yours, size, align)
        agree_with_gradients(ours, theirs, [mine], [yours])


def test_shuffles():
    x = RNG.normal(size=(2, 8, 4, 6))
    for name, number in (("pixel_shuffle", 2), ("pixel_unshuffle", 2), ("channel_shuffle", 4)):
        theirs = getattr(torch.nn.functional, name)(torch.tensor(x), number)
        agree(getattr(F, name)(lg.tensor(x), number), theirs)
    agree(F.pixel_unshuffle(F.pixel_shuffle(lg.tensor(x), 2), 2), torch.tensor(x))


WRONG = [
    (lambda T, f: f.interpolate(T.ones(1, 1, 4)), ValueError, "size or scale_factor"),
    (lambda T, f: f.interpolate(T.ones(1, 1, 4), size=(2, 2)), ValueError, "spatial"),
    (
        lambda T, f: f.interpolate(T.ones(1, 1, 4), 2, align_corners=True),
        ValueError,
        "align_corners",
    ),
    (lambda T, f: f.interpolate(T.ones(1, 1, 4), 2, mode="bilinear"), NotImplementedError, "3D"),
    (
        lambda T, f: f.grid_sample(T.ones(1, 1, 2, 2), T.ones(2, 1, 1, 2), align_corners=True),
        RuntimeError,
        "batch",
    ),
    (lambda T, f: f.pixel_shuffle(T.ones(1, 6, 2, 2), 2), RuntimeError, "divides"),
]


@pytest.mark.parametrize(("call", "error", "mentions"), WRONG)
def test_errors(call, error, mentions):
    with pytest.raises(error):
        call(torch, torch.nn.functional)
    with pytest.raises(error, match=mentions):
        call(lg, F)


SIZES = list(itertools.product((1, 2, 5, 10, 33), (1, 2, 3, 7, 40)))


@pytest.mark.parametrize(("size", "count"), SIZES)
def test_gradients_of_all_sizes(size, count):
    """Bins that overlap, elements that no result reads, and results that share one."""
    calls = [
        lambda f, x: f.adaptive_avg_pool1d(x, count),
        lambda f, x: f.interpolate(x, count, mode="linear"),
        lambda f, x: f.interpolate(x, count, mode="linear", align_corners=True),
    ]
    for call in calls:
        mine, yours = both(2, 3, size)
        agree_with_gradients(call(F, mine), call(torch.nn.functional, yours), [mine], [yours])
    for antialias in (False, True):
        mine, yours = both(1, 2, size, 4)
        options = {"size": (count, 4), "mode": "bicubic", "antialias": antialias}
        ours, wanted = (
            F.interpolate(mine, **options),
            torch.nn.functional.interpolate(yours, **options),
        )
        agree_with_gradients(ours, wanted, [mine], [yours])


def test_elements_of_no_bin_are_not_read():
    """A bin that is shorter than others has nothing of what comes after it."""
    values = np.arange(5.0)
    values[2] = np.inf
    found = F.adaptive_avg_pool1d(lg.tensor(values[None, None]), 3)
    wanted = torch.nn.functional.adaptive_avg_pool1d(torch.tensor(values[None, None]), 3)
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    x = lg.zeros(1, 1, 5, dtype=lg.float64, requires_grad=True)
    g = np.array([1.0, 2.0, np.inf])
    (slope,) = lg.autograd.grad(F.adaptive_avg_pool1d(x, 3), x, lg.tensor(g[None, None]))
    assert np.isfinite(slope.numpy()[0, 0, :3]).all()
    assert np.isinf(slope.numpy()[0, 0, 3:]).all()


def test_gradients_are_loops():
    """Nothing is added by index, so that threads share the work."""
    x = lg.ones(2, 3, 10, 11, requires_grad=True)
    for call in (
        lambda: F.adaptive_avg_pool2d(x, 3),
        lambda: F.interpolate(x, scale_factor=2, mode="bilinear"),
    ):
        seen = []
        with lg.events.listen("ran", lambda e, seen=seen: seen.extend([s.ops for s in e.steps])):
            for _ in range(3):
                (slope,) = lg.autograd.grad(call().sum(), x)
                slope.sum().item()
        assert "gather" in str(seen) or "index_select" in str(seen), seen
        assert "index_add" not in str(seen), seen
