"""Indexing: every kind of key against NumPy, reading, writing and gradients."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL
from livegrad.ops.picking.masking import one_hot

X = np.arange(120.0).reshape(4, 5, 6)
ROWS = np.array([0, 3, -1])
GRID = np.array([[0, 1], [2, 3]])
MASK = (X * 7 % 5) > 2

# Keys that mean the same to NumPy and to us.
KEYS = [
    0,
    -1,
    (1, 2),
    (1, 2, 3),
    slice(1, 3),
    (slice(None), 2),
    slice(None, None, 2),
    (Ellipsis, 1),
    None,
    (None, 0, None),
    (0, Ellipsis, 1),
    slice(-2, None),
    (slice(None), slice(1, 100), slice(5, 2)),
    (slice(None, None, 3), slice(1, 4, 2)),
    Ellipsis,
    (),
    ROWS,
    (slice(None), ROWS),
    (GRID, GRID),
    (GRID, slice(None), GRID),
    (slice(None), GRID, GRID),
    [0, 1],
    ([0, 1], [2, 3]),
    MASK,
    np.array([True, False, True, False]),
    (1, MASK[0]),
    (ROWS[:1], ROWS),
    (slice(0, 0),),
    np.zeros(0, np.int64),
    slice(None, None, -1),
    (slice(3, 0, -2), Ellipsis, slice(None, None, -1)),
    (slice(None, None, -1), 2, slice(-2, None, -3)),
    (slice(0, 3, -1), slice(9, -9, -4)),
    (slice(2, 2, -1), None, slice(1, None, -1)),
    (slice(None, None, -2), ROWS),
    (ROWS, slice(None, None, -1), ROWS),
    (1, slice(None, None, -1), slice(None, None, np.int64(-1))),
]


def ours(key):
    """The key with tensors for arrays."""
    if isinstance(key, tuple):
        return tuple([ours(part) for part in key])
    return lg.tensor(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_read(key):
    got = lg.tensor(X)[ours(key)]
    np.testing.assert_array_equal(got.numpy(), X[key])
    assert tuple(got.shape) == X[key].shape


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_write(key):
    want, x = X.copy(), lg.tensor(X)
    want[key] = -1
    x[ours(key)] = -1
    np.testing.assert_array_equal(x.numpy(), want)
    values = np.arange(X[key].size, dtype=X.dtype).reshape(X[key].shape)
    want[key] = values
    x[ours(key)] = lg.tensor(values)
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_gradient(key):
    x = lg.tensor(X, requires_grad=True)
    (x[ours(key)] * 2).sum().backward()
    want = np.zeros_like(X)
    np.add.at(want, key, 2.0)
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_zero_dim_index_tensors_select():
    x = lg.tensor(X)
    two = lg.tensor(2)
    np.testing.assert_array_equal(x[two].numpy(), X[2])
    np.testing.assert_array_equal(x[two, :, ours(ROWS)].numpy(), X[2][:, ROWS])
    np.testing.assert_array_equal(x[two, two].numpy(), X[2, 2])
    np.testing.assert_array_equal(x[:two].numpy(), X[:2])


def test_bools_make_a_dim():
    x = lg.tensor(X)
    assert x[True].shape == (1, 4, 5, 6)
    assert x[False].shape == (0, 4, 5, 6)
    assert x[lg.tensor(True)].shape == (1, 4, 5, 6)


def test_written_values_are_broadcast_and_cast():
    x = lg.zeros(3, 4, dtype=lg.int64)
    x[1] = 2.7
    x[:, 0] = lg.tensor([1.5, 2.5, 3.5])
    x[0, 1:3] = lg.tensor([[9]])
    assert x.tolist() == [[1, 9, 9, 0], [2, 2, 2, 2], [3, 0, 0, 0]]


def test_a_negative_step_gives_a_view():
    x = lg.arange(6.0)
    back = x[::-2]
    back[0] = 10.0
    back += 1
    assert x.tolist() == [0, 2, 2, 4, 4, 11]
    x[1] = 7.0
    assert back.tolist() == [11, 4, 7]


def test_gradient_flows_into_written_values():
    base = lg.zeros(4, requires_grad=True)
    value = lg.tensor([1.0, 2.0], requires_grad=True)
    x = base * 1
    x[1:3] = value * 3
    (x * lg.arange(4.0)).sum().backward()
    assert value.grad.tolist() == [3, 6]
    assert base.grad.tolist() == [0, 0, 0, 3]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (4, IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
        ((0, -6), IndexError, "index -6 is out of bounds for dimension 1 with size 5"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        ([9], IndexError, "out of bounds"),
        (slice(None, None, 0), ValueError, "step cannot be zero"),
        ("a", TypeError, "valid indices"),
        (np.array([True, False]), IndexError, "mask"),
        (np.array([0.5]), IndexError, "must be long"),
        ((ROWS, GRID[:, :1].ravel()), IndexError, "broadcast"),
    ],
)
def test_errors(key, error, text):
    x = lg.tensor(X)
    with pytest.raises(error, match=text):
        x[ours(key)]
    assert x.sum().item() == X.sum()


def test_index_tensor_out_of_range_is_found_when_computed():
    x = lg.tensor(X)
    fine = x + 1
    with pytest.raises(IndexError):
        x[lg.tensor([0, 4])].sum().item()
    with pytest.raises(RuntimeError, match="index -1 is out of bounds"):
        lg.gather(x[0], 0, lg.tensor([[-1]])).item()
    assert fine.sum().item() == X.sum() + X.size


def test_nothing_is_in_range_of_what_is_empty():
    for index in (0, -1, 1):
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            lg.zeros(0)[lg.tensor([index])]
        with pytest.raises(IndexError, match=f"index {index} is out of bounds"):
            lg.zeros(0)[lg.tensor([index])] = 1


def test_a_part_takes_its_own_value_in_another_shape():
    x = lg.arange(6.0).view(2, 3)
    column = x[:, 1].view(1, 2)
    column[[-1, 0]] = column
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pytest.raises(RuntimeError, match="single memory location"):
        x[[0, 1]] = x


def test_index_put_counts_a_mask_without_dims():
    x = lg.ones(3)
    assert x.index_put((lg.tensor(True),), lg.tensor(2.0)).tolist() == [2.0] * 3
    with pytest.raises(IndexError, match=r"too many indices for tensor of dimension 0 \(got 1\)"):
        lg.ones(()).index_put_((lg.tensor(True),), lg.tensor(2.0))


def test_shape_mismatch_on_write():
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result"):
        lg.zeros(3)[:2] = lg.zeros(3)
    with pytest.raises(IndexError, match="0-dim tensor"):
        lg.tensor(1.0)[0]


@pytest.mark.parametrize("dtype", [lg.bfloat16, lg.float16, lg.float32, lg.complex64])
def test_a_negative_zero_is_zero(dtype):
    x = lg.tensor([-0.0, 0.0, 1.0], dtype=dtype)
    assert lg.nonzero(x).tolist() == [[2]]
    assert lg.nonzero(x, as_tuple=True)[0].tolist() == [2]
    assert lg.nonzero_static(x, size=2).tolist() == [[2], [-1]]
    assert x[0].nonzero().shape == (0, 0)


def test_masks():
    x, mask = lg.tensor(X), lg.tensor(MASK)
    np.testing.assert_array_equal(x.masked_fill(mask, -1).numpy(), np.where(MASK, -1, X))
    np.testing.assert_array_equal(x.masked_select(mask).numpy(), X[MASK])
    np.testing.assert_array_equal(lg.nonzero(mask).numpy(), np.argwhere(MASK))
    for got, want in zip(lg.where(mask), np.nonzero(MASK), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    square = lg.zeros(2, 2)
    square[lg.tensor([True, False])] = 1
    assert square.tolist() == [[1, 1], [0, 0]]
    assert lg.arange(3).masked_fill(lg.tensor([True, False, True]), 7.0).tolist() == [7, 1, 7]


def test_sort_and_topk():
    x = lg.tensor(np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 0.0]]), requires_grad=True)
    values, indices = x.sort(descending=True, stable=True)
    assert values.tolist() == [[3, 2, 1], [1, 1, 0]]
    assert indices.tolist() == [[0, 2, 1], [0, 1, 2]]
    top = x.topk(1)
    top.values.sum().backward()
    assert x.grad.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert x.detach().argsort(0).tolist() == [[1, 0, 1], [0, 1, 0]]
    with pytest.raises(RuntimeError, match="k out of range"):
        x.topk(4)


def test_scatter_and_friends():
    x = lg.zeros(3, 4)
    index = lg.tensor([[0, 2, 1, 0]])
    assert x.scatter(0, index, 5.0).tolist() == [[5, 0, 0, 5], [0, 0, 5, 0], [0, 5, 0, 0]]
    added = x.scatter_add(1, lg.tensor([[0, 0], [1, 1], [3, 0]]), lg.ones(3, 2))
    assert added.tolist() == [[2, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 1]]
    assert x.index_fill(1, lg.tensor([1]), 2.0).sum().item() == 6
    assert x.index_put((lg.tensor([0, 0]),), lg.ones(2, 4), accumulate=True)[0].tolist() == [2] * 4
    x.index_add_(0, lg.tensor([1, 1]), lg.ones(2, 4))
    assert x[1].tolist() == [2, 2, 2, 2]
    with pytest.raises(RuntimeError, match="int64 or int32"):
        lg.gather(x, 0, lg.zeros(1, 4))


def test_one_hot_take_diag_trace():
    assert one_hot(lg.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert one_hot(lg.tensor([0]), 2).tolist() == [[1, 0]]
    assert lg.take(lg.tensor(X), lg.tensor([0, -1])).tolist() == [0, 119]
    np.testing.assert_array_equal(lg.diag(lg.tensor([1.0, 2.0]), 1).numpy(), np.diag([1.0, 2.0], 1))
    assert lg.trace(lg.tensor(X[0])).item() == np.trace(X[0])
    windows = lg.tensor(X).unfold(2, 3, 2).numpy()
    np.testing.assert_array_equal(
        windows, np.lib.stride_tricks.sliding_window_view(X, 3, 2)[:, :, ::2]
    )


@pytest.mark.parametrize("shape", [(), (3,)])
def test_index_put_takes_no_more_indices_than_there_are_dims(shape):
    indices = [lg.tensor(True)] * (len(shape) + 1)
    with pytest.raises(IndexError, match="too many indices"):
        lg.zeros(shape).index_put_(indices, lg.tensor(1.0))


def test_a_tensor_is_not_written_to_a_part_of_itself_that_lies_otherwise():
    a = lg.tensor([[0.75, -2.75, 2.75]])
    with pytest.raises(RuntimeError, match="single memory location"):
        a[::3] = a
    a[:] = a
    a[0:1] = a
    assert a.tolist() == [[0.75, -2.75, 2.75]]


@pytest.mark.parametrize("dtype", [lg.bfloat16, lg.float32, lg.int32])
def test_a_mask_of_reals_is_not_filled_with_an_imaginary_part(dtype):
    x, mask = lg.zeros(2, dtype=dtype), lg.tensor([True, False])
    with pytest.raises(RuntimeError, match="without overflow"):
        x[mask] = lg.tensor(1 + 2j)
    assert x.tolist() == [0, 0]
    x[mask] = lg.tensor(3 + 0j)
    assert x.tolist() == [3, 0]


def test_strides_of_what_is_picked_are_those_of_a_walk_over_value_and_indices():
    x, i = lg.arange(24.0).reshape(2, 3, 4), lg.tensor([[0, 1], [1, 0], [1, 1]])
    assert x[i.t()].stride() == (12, 24, 4, 1)
    assert x[:, i.t()].stride() == (24, 4, 8, 1)
    assert x.permute(1, 2, 0)[None, [0, 1]].stride() == (16, 8, 1, 4)
    assert x.permute(0, 2, 1)[:, None, [0, 1]].stride() == (6, 6, 3, 1)


def test_strides_of_nothing_that_is_picked_are_those_of_the_walk_too():
    x = lg.empty(1, 0, 1, 3)
    assert x[[-1]].stride() == (0, 3, 0, 1)
    assert (x[[-1]] * x[[0]]).stride() == (3, 3, 3, 1)
    assert lg.empty(2, 3, 0).permute(0, 2, 1)[[0]].stride() == (0, 1, 0)
    assert lg.empty(1, 0, 1)[:, []].stride() == (1, 1, 1)


@pytest.mark.parametrize("index", [[0, 3, -1], [[1, 2], [-4, 3]]])
def test_one_tensor_of_indices_goes_a_short_way(index):
    x = lg.tensor(X, requires_grad=True)
    before = len(LOCAL.state.nodes)
    out = x[lg.tensor(index)]
    assert [node.op.name for node in LOCAL.state.nodes[before:]] == ["linear_index", "index_select"]
    assert out.tolist() == X[np.array(index)].tolist()


@pytest.mark.parametrize("index", [[4], [0, -5]])
def test_an_index_that_is_known_to_be_outside_is_refused_at_its_line(index):
    with pytest.raises(IndexError, match="is out of bounds for dimension 0 with size 4"):
        lg.tensor(X)[lg.tensor(index)]


def test_index_tensors_of_other_kinds():
    x = lg.tensor(X)
    with pytest.raises(IndexError, match="must be long, int, byte or bool"):
        x[lg.tensor([0.0, 1.0])]
    assert x[lg.tensor([0, 1], dtype=lg.int32)].shape == (2, 5, 6)
    assert x[lg.zeros(0, dtype=lg.int64)].shape == (0, 5, 6)
    assert x.transpose(0, 1)[lg.tensor([1, 0])].tolist() == X.swapaxes(0, 1)[[1, 0]].tolist()
