"""Scattering and writing by slices: native, in one order, with errors that name the line."""

import numpy as np
import pytest

import livegrad as lg

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 30)).astype(np.float32)
VALUES = RNG.uniform(-1, 1, (500, 30)).astype(np.float32)
ROWS = RNG.integers(0, 40, 500)
PLACES = RNG.integers(0, 40, (500, 30))

# Results for many repeated indices, of which the last one written must stay.
CALLS = {
    "scatter": lambda x, v: x.scatter(0, lg.tensor(PLACES), v),
    "scatter_add": lambda x, v: x.scatter_add(0, lg.tensor(PLACES), v),
    "scatter prod": lambda x, v: x.scatter_reduce(0, lg.tensor(PLACES), v, "prod"),
    "scatter mean": lambda x, v: x.scatter_reduce(
        0, lg.tensor(PLACES), v, "mean", include_self=False
    ),
    "index_add": lambda x, v: x.index_add(0, lg.tensor(ROWS), v),
    "index_copy": lambda x, v: x.index_copy(0, lg.tensor(ROWS), v),
    "index_reduce": lambda x, v: x.index_reduce(0, lg.tensor(ROWS), v, "amax"),
    "index_put": lambda x, v: x.index_put((lg.tensor(ROWS),), v),
    "index_put added": lambda x, v: x.index_put((lg.tensor(ROWS),), v, accumulate=True),
    "put": lambda x, v: x.put(lg.tensor(PLACES), v),
}


@pytest.mark.parametrize("name", CALLS)
def test_native_and_the_same_bits_for_any_number_of_threads(name, counted):
    found = []
    before = lg.get_num_threads()
    try:
        for threads in (1, 2):
            lg.set_num_threads(threads)
            with counted() as c:
                found.append(CALLS[name](lg.tensor(X), lg.tensor(VALUES)).numpy())
            assert c.host_steps == 0
    finally:
        lg.set_num_threads(before)
    assert found[0].tobytes() == found[1].tobytes()


def test_the_last_write_stays():
    want = X.copy()
    for row, value in zip(ROWS, VALUES, strict=True):
        want[row] = value
    np.testing.assert_array_equal(CALLS["index_copy"](lg.tensor(X), lg.tensor(VALUES)), want)
    written = lg.tensor(X)
    written[lg.tensor(ROWS)] = lg.tensor(VALUES)
    np.testing.assert_array_equal(written, want)


def test_an_index_smaller_than_the_tensor_leaves_the_rest():
    x = lg.zeros(3, 4, requires_grad=True)
    y = x.scatter(1, lg.tensor([[3, 0], [1, 2]]), lg.tensor([[1.0, 2.0, 9.0], [3.0, 4.0, 9.0]]))
    assert y.tolist() == [[2, 0, 0, 1], [0, 3, 4, 0], [0, 0, 0, 0]]
    y.sum().backward()
    assert x.grad.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_reductions_of_integers(reduce, include_self):
    x = lg.tensor([5, -6, 7])
    got = x.scatter_reduce(
        0, lg.tensor([0, 0, 1]), lg.tensor([3, -4, 9]), reduce, include_self=include_self
    )
    groups = [[3, -4], [9], []]
    whole = {"sum": sum, "prod": np.prod, "amax": max, "amin": min}
    want = []
    for start, group in zip([5, -6, 7], groups, strict=True):
        values = group + [start] * (include_self or not group)
        folded = sum(values) // len(values) if reduce == "mean" else whole[reduce](values)
        want.append(int(folded))
    assert got.tolist() == want


def test_zeros_among_factors_have_gradients():
    x = lg.tensor([2.0, 3.0], dtype=lg.float64, requires_grad=True)
    v = lg.tensor([0.0, 5.0, 0.0, 0.0], dtype=lg.float64, requires_grad=True)
    index = lg.tensor([0, 0, 1, 1])
    assert lg.autograd.gradcheck(lambda x, v: x.scatter_reduce(0, index, v, "prod"), (x, v))


def late(index):
    """An index that is not computed yet."""
    return lg.tensor([index]) + 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.scatter(0, late([9]), 1.0), RuntimeError),
        (lambda x: x.index_add(0, late(9), lg.ones(1, 4)), IndexError),
        (lambda x: x.index_copy(0, late(9), lg.ones(1, 4)), IndexError),
        (lambda x: x.index_fill(0, late(9), 1.0), IndexError),
        (lambda x: x.index_reduce(0, late(9), lg.ones(1, 4), "amax"), IndexError),
        (lambda x: x.put(late(99), lg.ones(1)), IndexError),
        (lambda x: x.index_put((late(0), late(-9)), lg.ones(1)), IndexError),
        (lambda x: x[late(0), late(9)], IndexError),
    ],
)
def test_out_of_range_names_index_size_and_line(call, error):
    with pytest.raises(error, match=r"index -?\d+ is out of bounds .* size \d+ .*test_scattering"):
        call(lg.zeros(3, 4)).numpy()


def test_no_index_of_nothing_is_right_and_that_is_said_at_once():
    with pytest.raises(IndexError, match="index 0 is out of bounds .* size 0"):
        lg.zeros(0, 4).index_add(0, late(0), lg.ones(1, 4))


def test_the_dim_that_is_wrong_is_named():
    x = lg.zeros(3, 4)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 1 with size 4"):
        x[lg.tensor([0, 2]), lg.tensor([1, 5])].numpy()
    assert x[lg.arange(3), lg.arange(3)].tolist() == [0, 0, 0]


def test_masked_scatter_wants_enough_elements():
    x, mask = lg.zeros(4), lg.tensor([True, False, True, True])
    assert x.masked_scatter(mask, lg.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [1, 0, 2, 3]
    with pytest.raises(RuntimeError, match="source"):
        x.masked_scatter(mask, lg.ones(2)).numpy()
    assert x.masked_scatter(lg.zeros(4, dtype=lg.bool), lg.ones(0)).tolist() == [0, 0, 0, 0]
