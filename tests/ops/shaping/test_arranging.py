"""Arranging, splitting, joining: special cases; the registry tests values and gradients."""

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F

X = np.arange(24.0).reshape(2, 3, 4)


def same(got, want):
    np.testing.assert_array_equal(got.detach().numpy(), want)
    assert tuple(got.shape) == np.shape(want)


def test_blocks_and_combinations():
    blocks = lg.block_diag(lg.ones(2, 3), lg.tensor([4.0, 5.0]), lg.tensor(6))
    want = np.zeros((4, 6))
    want[:2, :3], want[2, 3:5], want[3, 5] = 1, (4, 5), 6
    same(blocks, want)
    x = lg.tensor([1, 2, 3])
    assert lg.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert lg.combinations(x[:2], with_replacement=True).tolist() == [[1, 1], [1, 2], [2, 2]]
    assert lg.combinations(x, 4).shape == (0, 4)
    assert lg.cartesian_prod(x[:2], x[1:]).tolist() == [[1, 2], [1, 3], [2, 2], [2, 3]]


def test_grids():
    a, b = lg.arange(2), lg.arange(3)
    for mode in ("ij", "xy"):
        for got, want in zip(
            lg.meshgrid(a, b, indexing=mode),
            np.meshgrid(range(2), range(3), indexing=mode),
            strict=True,
        ):
            same(got, want)
    same(lg.tril_indices(3, 4, 1), np.stack(np.tril_indices(3, 1, 4)))
    assert lg.triu_indices(2, 2, dtype=lg.int32).dtype is lg.int32


def test_repeats():
    x = lg.tensor(X)
    times = lg.tensor([2, 0, 1])
    same(x.repeat_interleave(times, 1), np.repeat(X, [2, 0, 1], 1))
    same(lg.repeat_interleave(times), [0, 0, 2])
    with pytest.raises(RuntimeError, match="same size"):
        x.repeat_interleave(times, 0)
    with pytest.raises(RuntimeError, match="negative"):
        x.repeat_interleave(lg.tensor([1, -1]), 0)
    with pytest.raises(NotImplementedError, match="Float"):
        x.repeat_interleave(lg.ones(3), 1)


def test_splits():
    x = lg.tensor(X)
    for got, want in zip(lg.tensor_split(x, lg.tensor([1, 3]), 2), [1, 2, 1], strict=True):
        assert got.shape == (2, 3, want)
    assert [part.shape[2] for part in x.dsplit(2)] == [2, 2]
    assert [part.shape[1] for part in x.hsplit((1,))] == [1, 2]
    assert [part.shape[0] for part in x.vsplit(2)] == [1, 1]
    x.vsplit(2)[1].zero_()  # views
    assert x[1].sum().item() == 0
    with pytest.raises(RuntimeError, match="divisible"):
        x.hsplit(2)
    with pytest.raises(RuntimeError, match="at least 3"):
        x[0].dsplit(1)


def test_several_tensors_at_once():
    given = [lg.tensor(1.0), lg.ones(2), lg.ones(2, 3)]
    assert [y.shape for y in lg.atleast_2d(*given)] == [(1, 1), (1, 2), (2, 3)]
    assert [y.shape for y in lg.atleast_3d(given)] == [(1, 1, 1), (1, 2, 1), (2, 3, 1)]
    assert lg.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3)
    with pytest.raises(RuntimeError, match="must match"):
        lg.broadcast_shapes((2,), (3,))
    with pytest.raises(TypeError, match="tuple of Tensors"):
        lg.cat(given[2])


def test_fill_and_one_hot():
    x = lg.zeros(2, 2, requires_grad=True)
    v = lg.tensor(3.0, requires_grad=True)
    y = lg.fill(x, v)
    y.sum().backward()
    assert y.tolist() == [[3, 3], [3, 3]]
    assert v.grad.item() == 4
    assert x.grad.tolist() == [[0, 0], [0, 0]]
    assert lg.fill(lg.zeros(2, dtype=lg.uint8), -1).tolist() == [255, 255]
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(lg.tensor([0, 5]), 3).numpy()


def test_cut_and_padded_circularly():
    x = lg.tensor(np.arange(5.0)).reshape(1, 1, 5)
    assert F.pad(x, (-1, 2), "circular").tolist() == [[[1, 2, 3, 4, 1, 2]]]


def test_empty_tensors_with_strides():
    assert lg.empty_strided((2, 3), (1, 2)).shape == (2, 3)
    assert lg.zeros(1).new_empty_strided((2,), (1,)).dtype is lg.float32
    assert lg.empty_permuted((2, 3), (1, 0)).shape == (2, 3)
    with pytest.raises(RuntimeError, match="each dim once"):
        lg.empty_permuted((2, 3), (0, 0))
    with pytest.raises(TypeError, match="unexpected keyword"):
        lg.zeros(2, colour="red")


@pytest.mark.parametrize("requires_grad", [False, True])
def test_fill_diagonal_of_a_transposed_matrix_reaches_the_whole(requires_grad):
    a = lg.zeros(2, 3, requires_grad=requires_grad)
    d = a * 1
    d.t().fill_diagonal_(3)
    assert d.tolist() == [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]
    if requires_grad:
        d.sum().backward()
        assert a.grad.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]


def test_nothing_is_joined_with_anything_and_gets_a_gradient():
    nothing, some = lg.zeros(0, requires_grad=True), lg.ones(2, 3, requires_grad=True)
    joined = lg.cat([nothing, some, nothing], 1)
    joined.sum().backward()
    assert joined.shape == (2, 3)
    assert nothing.grad.shape == (0,)
    assert some.grad.tolist() == [[1.0] * 3] * 2
    assert lg.cat([nothing, nothing], 1).shape == (0,)  # along a dim that neither has
