"""Movement and joining: special cases (values and gradients are tested by the registry)."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.ops.shaping.joining import pad

X = np.arange(24.0).reshape(2, 3, 4)


def same(got, want):
    np.testing.assert_array_equal(got.detach().numpy(), want)
    assert tuple(got.shape) == np.shape(want)


def test_what_adds_nothing_is_joined_along_any_dim():
    assert lg.cat([lg.ones(0), lg.ones(0)], 5).shape == (0,)
    assert lg.cat([lg.ones(0), lg.ones(1, 2)], 1).shape == (1, 2)


def test_reshape_forms():
    x = lg.tensor(X)
    for got in (x.reshape(6, 4), x.reshape((6, -1)), lg.reshape(x, shape=(6, 4)), x.view(-1, 4)):
        same(got, X.reshape(6, 4))
    same(x.flatten(1), X.reshape(2, 12))
    same(x.unflatten(2, (2, -1)), X.reshape(2, 3, 2, 2))
    same(x.unsqueeze(-1).squeeze(), X)
    assert lg.tensor(1.0).flatten().shape == (1,)


def test_permutations():
    x = lg.tensor(X)
    same(x.permute(2, 0, 1), X.transpose(2, 0, 1))
    same(lg.movedim(x, (0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0)))
    same(x.T, X.T)
    same(x.mT, X.swapaxes(1, 2))
    same(x[0].t(), X[0].T)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8", "u1", "?"])
def test_rows_are_read_backwards(dtype):
    """Sixteen elements at a time, the last ones by a mask: none before the first row is touched."""
    for shape in ((17,), (5, 9), (3, 100), (4, 4, 3, 3), (2, 32), (1, 1)):
        values = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
        x, last = lg.tensor(values), tuple(range(len(shape)))[-2:]
        same(x.flip(*last), np.flip(values, last))
        same(x.flip(-1)[..., 1:] == x[..., 1:], np.flip(values, -1)[..., 1:] == values[..., 1:])


def test_repeat_tile_roll_flip():
    x = lg.tensor(X)
    same(x.repeat(2, 1, 1, 2), np.tile(X, (2, 1, 1, 2)))
    same(x.tile(2), np.tile(X, 2))
    same(x.repeat_interleave(2, 1), np.repeat(X, 2, 1))
    same(x.roll((1, -1), (0, 2)), np.roll(X, (1, -1), (0, 2)))
    same(x.roll(5), np.roll(X, 5))
    same(x.flip(0, -1), np.flip(X, (0, 2)))
    same(x[0].rot90(), np.rot90(X[0]))


def test_copies_are_not_views():
    x = lg.zeros(2, 2)
    for copied in (x.flip(0), x.repeat(1, 1), x.roll(1, 0), lg.cat([x]), pad(x, (0, 0)), x.tril()):
        copied.add_(1)
    assert x.tolist() == [[0, 0], [0, 0]]


def test_cat_and_stack():
    x = lg.tensor(X)
    same(lg.cat([x, x[:, :1]], 1), np.concatenate([X, X[:, :1]], 1))
    same(lg.stack([x, x], -1), np.stack([X, X], -1))
    same(lg.hstack([x[0, 0], x[0, 0]]), np.hstack([X[0, 0], X[0, 0]]))
    same(lg.vstack([x[0, 0], x[0, 0]]), np.vstack([X[0, 0], X[0, 0]]))
    same(lg.cat([lg.zeros(0, dtype=lg.float64), x]), X)
    assert lg.cat([lg.arange(2), lg.ones(2)]).dtype is lg.float32


def test_split_family_gives_views():
    x = lg.tensor(X)
    assert [p.shape[2] for p in x.split(3, 2)] == [3, 1]
    assert [p.shape[2] for p in x.chunk(3, 2)] == [2, 2]
    assert [p.shape[1] for p in x.tensor_split(2, 1)] == [2, 1]
    assert len(x.unbind(1)) == 3
    x.split([1, 2], 1)[0].zero_()
    assert x[:, 0].sum().item() == 0
    assert len(lg.split(tensor=lg.arange(4), split_size_or_sections=2)) == 2  # PyTorch's names


@pytest.mark.parametrize(
    ("amounts", "mode", "numpy_mode"),
    [((1, 2), "reflect", "reflect"), ((2, 3), "replicate", "edge"), ((3, 1), "circular", "wrap")],
)
def test_pad_modes(amounts, mode, numpy_mode):
    same(pad(lg.tensor(X), amounts, mode), np.pad(X, [(0, 0), (0, 0), amounts], numpy_mode))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padded_by_nothing_is_a_copy(mode):
    x = lg.ones(1, 2)
    y = lg.nn.functional.pad(x, (0, 0), mode=mode)
    y.zero_()
    assert x.tolist() == [[1.0, 1.0]]


def test_pad_constant_and_negative():
    x = lg.tensor(X)
    want = np.pad(X, [(0, 0), (2, 0), (0, 1)], constant_values=9.0)
    same(pad(x, (0, 1, 2, 0), value=9.0), want)
    same(pad(x, (-1, 2)), np.pad(X[:, :, 1:], [(0, 0), (0, 0), (0, 2)]))


def test_diagonal_is_a_view():
    x = lg.zeros(3, 3)
    x.diagonal().fill_(1)
    x.diagonal(1).copy_(lg.tensor([5.0, 6.0]))
    assert x.tolist() == [[1, 5, 0], [0, 1, 6], [0, 0, 1]]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.reshape(7, -1), RuntimeError, "invalid for input of size 24"),
        (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
        (lambda x: x.permute(0, 0, 1), RuntimeError, "permute"),
        (lambda x: x.transpose(0, 3), IndexError, "Dimension out of range"),
        (lambda x: x.expand(3, 3, 4), RuntimeError, "must match the existing size"),
        (lambda x: x.split([1, 1], 1), RuntimeError, "sum exactly"),
        (lambda x: x.narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
        (lambda x: lg.cat([x, x[:, :1]]), RuntimeError, "sizes of tensors must match"),
        (lambda x: lg.cat([x.sum(), x]), RuntimeError, "zero-dimensional"),
        (lambda x: lg.cat([]), ValueError, "non-empty"),
        (lambda x: lg.stack([x, x[0]]), RuntimeError, "equal size"),
        (lambda x: x.t(), RuntimeError, "<= 2 dimensions"),
        (lambda x: x.expand(2, 2, 3, 4).add_(1), RuntimeError, "single memory location"),
        (lambda x: pad(x, (4, 0), "reflect"), RuntimeError, "padding size"),
        (lambda x: x[0, 0].tril(), RuntimeError, "at least 2"),
        (lambda x: x.sum().unflatten(0, (1, 1)), RuntimeError, "no dimensions"),
        (lambda x: x.sum().unflatten(1, (1, 1)), IndexError, "Dimension out of range"),
        (lambda x: x[:0].index_fill(0, lg.tensor([0]), 1), RuntimeError, "size 0"),
        (lambda x: lg.dist(x, 1), TypeError, "must be Tensor"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(lg.tensor(X))
