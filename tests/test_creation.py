"""Creation functions."""

import numpy as np
import pytest

import livegrad as lg


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (3, "int64", 3),
        (2.5, "float32", 2.5),
        (True, "bool", True),
        ([1, 2.5], "float32", [1, 2.5]),
        ([1, True], "int64", [1, 1]),
        ([[1, 2], [3, 4]], "int64", [[1, 2], [3, 4]]),
        ([], "float32", []),
        (np.arange(2.0), "float64", [0, 1]),
        (np.float64(2), "float64", 2),
        ([np.arange(2.0), np.arange(2.0)], "float64", [[0, 1], [0, 1]]),
    ],
)
def test_tensor_infers_dtype(data, dtype, values):
    x = lg.tensor(data)
    assert x.dtype.name == dtype
    assert x.tolist() == values


def test_tensor_takes_tensors_and_dtypes():
    assert lg.tensor([lg.tensor(1.0), lg.tensor(2.0)]).tolist() == [1, 2]
    assert lg.tensor([1.7, -1.7], dtype=lg.int64).tolist() == [1, -1]
    assert lg.tensor([1, 2], dtype=float).dtype is lg.float64
    source = lg.ones(2)
    made = lg.tensor(source)
    made += 1
    assert source.tolist() == [1, 1]


def test_default_dtype():
    lg.set_default_dtype(lg.float64)
    try:
        assert lg.tensor([1.0]).dtype is lg.float64
        assert lg.zeros(1).dtype is lg.float64
        assert (lg.arange(2) / 2).dtype is lg.float64
    finally:
        lg.set_default_dtype(lg.float32)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: lg.tensor([[1, 2], [3]]), ValueError, "expected sequence of length 2 at dim 1"),
        (lambda: lg.tensor("a"), TypeError, "invalid data type 'str'"),
        (lambda: lg.tensor(["a"]), ValueError, "too many dimensions 'str'"),
        (lambda: lg.tensor(None), RuntimeError, "could not infer dtype of NoneType"),
        (lambda: lg.tensor([2**70]), ValueError, "Overflow"),
        (lambda: lg.tensor([1], requires_grad=True), RuntimeError, "floating point"),
        (lambda: lg.zeros(-1), RuntimeError, "negative dimension"),
        (lambda: lg.zeros(2.5), TypeError, "integers"),
        (lambda: lg.arange(1, 5, -1), RuntimeError, "inconsistent with step sign"),
        (lambda: lg.arange(1, 5, 0), RuntimeError, "nonzero"),
        (lambda: lg.arange(0, float("inf")), RuntimeError, "unsupported range"),
        (lambda: lg.linspace(0, 3, 1.0), TypeError, "steps"),
        (lambda: lg.linspace(lg.zeros(2), 3, 1), RuntimeError, "0-dimensional"),
        (lambda: lg.zeros(2, device="cuda"), AssertionError, "no device 'cuda'"),
        (lambda: lg.from_numpy([1]), TypeError, "expected np.ndarray"),
        (lambda: lg.tensor(np.zeros(2, np.longdouble)), TypeError, "numpy.float128"),
        (lambda: lg.zeros(2, dtype="nonsense"), TypeError, "dtype"),
    ],
)
def test_creation_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_from_numpy_does_not_see_later_writes():
    array = np.zeros(3)
    x = lg.from_numpy(array)
    y = x + 1
    array[:] = 5
    assert y.tolist() == [1, 1, 1]


def test_filled():
    assert lg.zeros(2, 3).shape == lg.zeros((2, 3)).shape == lg.zeros([2, 3]).shape
    assert lg.full((2,), 3).dtype is lg.int64
    assert lg.full((2,), 1.5).dtype is lg.float32
    assert lg.full((2,), True).tolist() == [True, True]
    assert lg.full((), 2.0, dtype=lg.float16).item() == 2
    like = lg.full_like(lg.ones(2, dtype=lg.int32), 7)
    assert like.dtype is lg.int32
    assert like.tolist() == [7, 7]
    assert lg.zeros_like(like, dtype=lg.bool).tolist() == [False, False]
    assert lg.ones(0, 3).shape == (0, 3)
    assert lg.ones(2, dtype=lg.float64).new_zeros(3).dtype is lg.float64


@pytest.mark.parametrize(
    "bounds",
    [(5,), (1, 4), (1, 2, 0.25), (5, 0, -2), (0.0, 3.0), (0,), (3, 3), (-2, 9, 3)],
)
def test_arange(bounds):
    want = np.arange(*bounds)
    got = lg.arange(*bounds)
    assert got.dtype is (lg.int64 if want.dtype.kind == "i" else lg.float32)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_arange_by_keyword():
    assert lg.arange(1, end=4).tolist() == [1, 2, 3]
    assert lg.arange(end=2).tolist() == [0, 1]


def test_linspace_reaches_both_ends():
    for start, end, count in [(0, 1, 7), (-3, 5, 10), (2, 2, 1), (0, 1, 0), (5, -1, 4)]:
        got = lg.linspace(start, end, count).numpy()
        np.testing.assert_allclose(got, np.linspace(start, end, count), rtol=1e-6, atol=1e-7)
        if count > 1:
            assert (got[0], got[-1]) == (start, end)
    np.testing.assert_allclose(lg.logspace(0, 3, 4).numpy(), [1, 10, 100, 1000], rtol=1e-5)


def test_spaced_integers_are_cut_off_after_their_bounds():
    assert lg.linspace(0, 4, 7, dtype=lg.int64).tolist() == [0, 0, 1, 2, 2, 3, 4]
    assert lg.linspace(-2.9, 0, 3, dtype=lg.int64).tolist() == [-2, -1, 0]
    assert lg.logspace(0, 4, 5, base=5.0, dtype=lg.int64).tolist() == [1, 5, 25, 125, 625]


def test_eye_and_meshgrid():
    np.testing.assert_array_equal(lg.eye(3, 4).numpy(), np.eye(3, 4))
    for indexing in ("ij", "xy"):
        got = lg.meshgrid(lg.arange(2), lg.arange(3), indexing=indexing)
        want = np.meshgrid(np.arange(2), np.arange(3), indexing=indexing)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


def test_created_leaves_collect_gradients():
    for make in (lg.zeros, lg.ones, lg.rand, lg.randn):
        x = make(3, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers(name):
    high = np.iinfo(name).max
    values = np.array([1, high, high // 2 + 1, 7], name)
    x, y = lg.tensor(values), lg.tensor(values.tolist(), dtype=getattr(lg, name))
    assert x.dtype is y.dtype is getattr(lg, name)
    assert x.tolist() == y.tolist() == values.tolist()
    two = np.array(2, name)
    assert (x // lg.tensor(two)).tolist() == (values // two).tolist()
    assert (x > lg.tensor(two)).tolist() == (values > two).tolist()
    assert x.amax().item() == high
    assert x.double().tolist() == values.astype("d").tolist()
    assert lg.promote_types(lg.uint8, lg.int8) is lg.int16
    assert lg.promote_types(lg.uint32, lg.int8) is lg.int64


def test_numbers_of_arrays_and_tensors_in_a_list_bring_their_dtypes():
    assert lg.tensor([np.float64(1), 2.5]).dtype is lg.float64
    assert lg.tensor([2.5, np.float32(1)]).dtype is lg.float32
    assert lg.tensor([lg.tensor(1, dtype=lg.int32)]).dtype is lg.int32
    assert lg.tensor([lg.tensor(1.0).half(), lg.tensor(1)]).dtype is lg.float16
    assert lg.tensor([np.ones(2, np.float32), [1, 2]]).dtype is lg.float32


def test_a_tensor_in_a_list_is_the_number_that_it_holds():
    assert lg.tensor([lg.ones(1), lg.full((1, 1), 2.0)]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="only one element tensors"):
        lg.tensor([lg.ones(2), lg.ones(2)])
    assert lg.tensor([[1, 2], lg.ones(2)]).tolist() == [[1, 2], [1, 1]]


def test_dlpack_shares_between_tensors_and_through_capsules():
    x = lg.arange(4.0)
    y, z = lg.from_dlpack(x[1:]), lg.utils.dlpack.from_dlpack(lg.utils.dlpack.to_dlpack(x))
    y[0] = 9
    z[3] = 7
    assert x.tolist() == [0, 9, 2, 7]
    with pytest.raises(BufferError, match="require gradient"):
        lg.from_dlpack(x.requires_grad_())


def test_functions_of_numpy_give_tensors() -> None:
    x = lg.arange(4.0)
    roots = np.sqrt(x)
    assert isinstance(roots, lg.Tensor)
    assert roots.tolist() == np.sqrt(np.arange(4, dtype=np.float32)).tolist()
    assert np.sqrt(lg.tensor(4.0)).shape == ()
    assert isinstance(np.sqrt(lg.tensor(4.0)), lg.Tensor)
    assert np.isnan(x).dtype is lg.uint8
    assert isinstance(np.concatenate([x, x]), np.ndarray)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sqrt(x.requires_grad_())


def test_asarray_copies_as_it_is_told() -> None:
    array = np.zeros(2)
    lg.asarray(array, copy=False).add_(1)
    assert array.tolist() == [1, 1]
    lg.asarray(array, copy=True).add_(1)
    assert array.tolist() == [1, 1]
    for wrong in ([1, 2], array.astype("f4"), 3.0):
        with pytest.raises(ValueError, match="without a copy"):
            lg.asarray(wrong, dtype=lg.float64, copy=False)
    x = lg.ones(2)
    assert lg.asarray(x, copy=False) is x


def test_asarray_shares_the_bytes_of_a_buffer() -> None:
    memory = bytearray(8)
    lg.asarray(memory, dtype=lg.int32)[1] = 258
    assert list(memory) == [0, 0, 0, 0, 2, 1, 0, 0]
    assert lg.asarray(memory).dtype is lg.float32
    assert lg.asarray(b"ab", dtype=lg.uint8).tolist() == [97, 98]
