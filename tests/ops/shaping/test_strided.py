"""Strided views, windows, copies of views, and shapes changed in place."""

from copy import deepcopy

import numpy as np
import pytest

import livegrad as lg

X = np.arange(24.0).reshape(4, 6)


def same(got, want):
    assert tuple(got.shape) == np.shape(want)
    np.testing.assert_array_equal(got.detach().numpy(), want)


def test_as_strided_shares_its_values():
    x = lg.tensor(X)
    view = x.as_strided((3, 2), (7, 1), 2)
    want = np.lib.stride_tricks.as_strided(X.ravel()[2:], (3, 2), (56, 8))
    same(view, want)
    view.mul_(-1)
    expected = X.copy()
    expected.ravel()[[2, 3, 9, 10, 16, 17]] *= -1
    same(x, expected)
    x.zero_()
    same(view, np.zeros((3, 2)))


def test_unfold_shares_its_values():
    x = lg.tensor(X)
    windows = x.unfold(1, 2, 3)
    same(windows, np.stack([X[:, 0:2], X[:, 3:5]], 1))
    windows[:, 1] = 0
    expected = X.copy()
    expected[:, 3:5] = 0
    same(x, expected)
    same(lg.tensor(X).unfold(0, 3, 1).sum(-1), X[0:2] + X[1:3] + X[2:4])


def test_windows_of_windows_of_a_transpose():
    x = lg.tensor(X)
    got = x.T.unfold(0, 3, 2).unfold(1, 2, 1)
    wide = np.lib.stride_tricks.sliding_window_view
    same(got, wide(wide(X.T, 3, 0)[::2], 2, 1))
    assert lg.autograd.gradcheck(
        lambda x: (x.T.unfold(0, 3, 2) ** 2).as_strided((2, 3), (4, 5), 1),
        (lg.tensor(X, requires_grad=True),),
    )


def test_out_of_bounds():
    x = lg.tensor(X)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((4, 6), (6, 2))
    with pytest.raises(RuntimeError, match="length of strides"):
        x.as_strided((4,), (6, 2))
    with pytest.raises(RuntimeError, match="maximum size"):
        x.unfold(0, 5, 1)
    with pytest.raises(RuntimeError, match="must be > 0"):
        x.unfold(0, 2, 0)


def test_scattering_into_views_leaves_the_original():
    x = lg.tensor(X)
    row = lg.zeros(6, dtype=lg.float64)
    for got, key in (
        (x.select_scatter(row, 0, 1), (1,)),
        (x.slice_scatter(row.expand(2, 6), 0, 1, None, 2), (slice(1, None, 2),)),
        (x.diagonal_scatter(row[:4], 1), (range(4), range(1, 5))),
    ):
        want = X.copy()
        want[key] = 0
        same(got, want)
    same(x, X)
    with pytest.raises(RuntimeError, match="size equal to the slice"):
        x.select_scatter(row[:3], 0, 1)


def test_copies_do_not_share():
    x = lg.tensor(X)
    for copy in (
        lg.select_copy(x, 0, 1),
        lg.transpose_copy(x, 0, 1),
        lg.unbind_copy(x)[0],
        lg.as_strided_copy(x, (2,), (1,)),
    ):
        copy.zero_()
    same(x, X)


def test_what_does_not_fit_is_not_written_to_overlapping_elements():
    x = lg.arange(4)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.unfold(0, 2, 1).sub_(lg.tensor([0.25, 2.0]))


def test_shapes_change_in_place_of_what_may_not_be_written():
    row = lg.ones(3).expand(2, 3)
    assert row.unsqueeze_(0).shape == (1, 2, 3)
    x = lg.ones(2, 1, requires_grad=True)
    y = x * 2
    with lg.no_grad():
        y.squeeze_()
    y[0] = 5.0
    y.sum().backward()
    assert x.grad.tolist() == [[0.0], [2.0]]


def test_shapes_change_in_place():
    x = lg.tensor(X)
    row = x[1]
    assert x.t_() is x
    same(x, X.T)
    x.unsqueeze_(0).squeeze_().swapaxes_(0, 1)
    same(x, X)
    x.t_()
    x[0] = -1  # the column of what it was, seen by the view made before
    same(row, [-1, *X[1, 1:]])
    leaf = lg.zeros(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.t_()
    with lg.no_grad():
        leaf.t_()
    (leaf * 2).sum().backward()
    assert leaf.is_leaf
    assert leaf.grad.shape == (3, 2)


def test_resize():
    x = lg.tensor(X)
    same(x.resize_(2, 3), X.ravel()[:6].reshape(2, 3))
    same(x.resize_((8,)), X.ravel()[:8])
    assert x.resize_as_(lg.zeros(2, 2)).shape == (2, 2)
    with pytest.raises(RuntimeError, match="require grad"):
        lg.zeros(2, requires_grad=True).resize_(3)


def test_reinterpreting_bytes():
    x = lg.tensor([1.0, -2.0])
    assert x.view(lg.int32).tolist() == np.array([1, -2], np.float32).view(np.int32).tolist()
    assert x.view(lg.int16).shape == (4,)
    same(x.view(lg.int64).view(lg.float32), [1, -2])
    with pytest.raises(RuntimeError, match="divisible"):
        lg.zeros(3).view(lg.int64)


def test_what_was_no_view_stays_none():
    x = lg.ones(2)
    assert not x.resize_(1)._is_view()
    x.detach_()
    view = lg.ones(3).expand(2, 3)
    view.data = view
    with pytest.raises(RuntimeError, match="Can't detach views"):
        view.detach_()


def test_other_data_lies_as_it_lies():
    view = (lg.ones(3, requires_grad=True) * 2).expand(2, 3)
    view.data = lg.zeros(2, 3)
    assert view.stride() == (3, 1)


def test_shapes_of_data_change_uncounted():
    x = lg.ones(2, 3)
    assert x.data.t_().shape == (3, 2)
    assert (x.shape, x._version) == ((2, 3), 0)
    data = x[:0].data
    part = data.as_strided((1,), (1,))
    data.add_(1)
    assert part._version == 1


def test_set_has_no_derivative():
    leaf = lg.tensor(2.0, requires_grad=True)
    x = lg.tensor(1.0)
    x.set_(leaf)
    assert x.requires_grad
    assert not x.is_leaf
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        (x * 2).backward()
    with lg.no_grad():
        assert not lg.tensor(1.0).set_(leaf).requires_grad


def test_elements_that_overlap_are_computed_at_once_in_another_dtype():
    x = lg.tensor([1.0, 2.0, 3.0])
    x.unfold(0, 2, 1).mul_(lg.tensor([2.0, 10.0], dtype=lg.float64))
    assert x.tolist() == [2.0, 4.0, 30.0]  # 20 was written to the second place, and then 2 * 2
    x = lg.tensor([1.0, 2.0, 3.0])
    x.unfold(0, 2, 1).mul_(lg.tensor([2.0, 10.0]))
    assert x.tolist() == [2.0, 40.0, 30.0]


def test_an_expanded_tensor_may_be_copied_to_where_it_is():
    x = lg.tensor([1.0, 2.0, 3.0]).as_strided((3, 2), (0, 2))
    x.expand_as(x).swapaxes(0, -2).copy_(x)
    assert x.tolist() == [[1.0, 3.0]] * 3
    with pytest.raises(RuntimeError, match="more than one element"):
        x.copy_(lg.ones(3, 2))


def test_a_deep_copy_of_bits_lies_as_they_do():
    bits = lg.zeros(2, 3, dtype=lg.bfloat16).view(lg.int16)[:, 2:]
    copied = deepcopy(bits)
    assert (copied.stride(), copied.storage_offset()) == ((3, 1), 2)
    assert copied.dtype is lg.int16


def test_gradient_of_windows_that_were_written():
    """The middle is squared twice, and a window is a view of what that left."""
    a = lg.tensor([2.0, 3.0, 4.0], dtype=lg.float64, requires_grad=True)
    whole = a * 1
    windows = whole.unfold(0, 2, 1)
    windows.pow_(2)
    loss = (windows * lg.tensor([[1.0, 10.0], [100.0, 1000.0]])).sum()
    to_whole, to_leaf = lg.autograd.grad(loss, [whole, a])
    assert to_whole.tolist() == [1, 110, 1000]
    assert to_leaf.tolist() == [2 * 2, 110 * 4 * 3**3, 1000 * 2 * 4]
