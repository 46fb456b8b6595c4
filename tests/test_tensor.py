"""Tensor: properties, reading values, operators, in-place forms, views, conversions."""

import copy
import pickle

import numpy as np
import pytest

import livegrad as lg


def test_properties():
    x = lg.zeros(2, 3, dtype=lg.float64)
    assert x.shape == (2, 3)
    assert x.shape.numel() == 6
    assert repr(x.shape) == "livegrad.Size([2, 3])"
    assert (x.ndim, x.dim(), x.numel(), x.size(-1), len(x)) == (2, 2, 6, 3, 2)
    assert (x.itemsize, x.nbytes, x.element_size()) == (8, 48, 8)
    assert x.stride() == (3, 1)
    assert x.is_contiguous()
    assert x.contiguous() is x
    assert x.device == lg.device("cpu")
    assert x.dtype is lg.float64
    assert isinstance(x.dtype, lg.dtype)


def test_item_needs_one_element():
    assert lg.tensor([[2.5]]).item() == 2.5
    assert lg.tensor(True).item() is True
    assert lg.tensor(1.5, dtype=lg.bfloat16).item() == 1.5
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted"):
        lg.zeros(2).item()


def test_python_protocols():
    x = lg.tensor([3, 1, 2])
    assert [int(v) for v in x] == [3, 1, 2]
    assert 2 in x
    assert 7 not in x
    assert ["a", "b", "c", "d"][x[0]] == "d"
    assert float(x[1]) == 1.0
    assert f"{lg.tensor(1.23456):.2f}" == "1.23"
    assert bool(lg.tensor(0.0)) is False
    assert len({x, x}) == 1


@pytest.mark.parametrize(
    ("read", "error", "text"),
    [
        (lambda: bool(lg.zeros(2)), RuntimeError, "more than one value is ambiguous"),
        (lambda: bool(lg.zeros(0)), RuntimeError, "no values is ambiguous"),
        (lambda: len(lg.tensor(1.0)), TypeError, "len\\(\\) of a 0-d tensor"),
        (lambda: iter(lg.tensor(1.0)), TypeError, "iteration over a 0-d tensor"),
        (lambda: [1, 2][lg.tensor(0.5)], TypeError, "only integer tensors"),
        (lambda: lg.ones(1, dtype=lg.bfloat16).numpy(), TypeError, "BFloat16"),
        (lambda: lg.ones(1, requires_grad=True).numpy(), RuntimeError, "Can't call numpy"),
        (lambda: np.asarray(lg.ones(1, requires_grad=True)), RuntimeError, "Can't call numpy"),
        (lambda: lg.ones(2) + "a", TypeError, "unsupported operand"),
    ],
)
def test_reading_errors(read, error, text):
    with pytest.raises(error, match=text):
        read()


def test_numpy_shares_memory():
    x = lg.arange(3)
    array = x.numpy()
    array[0] = 9
    assert x.tolist() == [9, 1, 2]
    np.asarray(x)[1] = 8
    assert (x + 0).tolist() == [9, 8, 2]
    np.array(x)[2] = 7
    assert x.tolist() == [9, 8, 2]
    assert np.asarray(x, dtype=np.float32).dtype == np.float32


def test_dlpack_both_ways():
    x = lg.arange(4)
    array = np.from_dlpack(x)
    assert array.tolist() == [0, 1, 2, 3]
    assert lg.from_dlpack(np.arange(3.0)).dtype is lg.float64
    assert x.__dlpack_device__() == (1, 0)


def test_operators_with_numbers_arrays_and_strangers():
    x = lg.tensor([1.0, 2.0])
    assert (3 - x).tolist() == [2, 1]
    assert (1 / x).tolist() == [1, 0.5]
    assert (2**x).tolist() == [2, 4]
    assert (x + np.array([1.0, 1.0])).dtype is lg.float64
    assert isinstance(np.array([1.0, 1.0]) + x, lg.Tensor)
    assert (x * np.float64(2)).dtype is lg.float32
    assert (x == None) is False  # noqa: E711

    class Stranger:
        def __radd__(self, other):
            return "mine"

    assert x + Stranger() == "mine"


def test_in_place_forms_check_shape_and_dtype():
    x = lg.zeros(3)
    assert x.add_(1) is x
    x *= 4
    x -= lg.ones(3)
    assert x.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        lg.zeros(3).add_(lg.zeros(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        lg.arange(3).add_(1.5)
    assert lg.ones(2, dtype=lg.float16).add_(lg.ones(2, dtype=lg.float64)).dtype is lg.float16


def test_fill_zero_copy():
    x = lg.arange(4.0)
    assert x.fill_(3).tolist() == [3] * 4
    assert x.copy_(lg.tensor(5)).tolist() == [5] * 4
    assert x.zero_().tolist() == [0] * 4
    source = lg.ones(4, requires_grad=True)
    x.copy_(source)
    x.sum().backward()
    assert source.grad.tolist() == [1] * 4


def test_a_copy_of_itself_is_a_write():
    x = lg.ones(2)
    x.copy_(x)
    assert x._version == 1
    w = lg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        w.copy_(w)


def test_only_a_leaf_is_told_to_require_a_gradient():
    x = lg.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y
    part = lg.ones(4).view(2, 2).requires_grad_().chunk(2)[0]
    assert part.requires_grad


def test_views_share_values_both_ways():
    x = lg.zeros(2, 3)
    row, flat, turned = x[0], x.view(6), x.T
    row += 1
    assert flat.tolist() == [1, 1, 1, 0, 0, 0]
    flat[5] = 7
    assert turned.tolist() == [[1, 0], [1, 0], [1, 7]]
    turned[0].fill_(9)
    assert x.tolist() == [[9, 1, 1], [9, 0, 7]]


def test_data_and_detach_write_to_a_leaf():
    w = lg.ones(2, requires_grad=True)
    w.data.add_(1)
    w.detach().mul_(3)
    assert w.tolist() == [6, 6]
    assert w.requires_grad
    assert w.is_leaf
    (w * w).sum().backward()
    assert w.grad.tolist() == [12, 12]
    w.data = lg.zeros(2)
    assert w.tolist() == [0, 0]


def test_writing_to_a_leaf_is_an_error():
    w = lg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        w[0] = 1
    with lg.no_grad():
        w.add_(1)
    assert w.tolist() == [2, 2]


def test_requires_grad_flags():
    x = lg.ones(2)
    assert (x.requires_grad, x.is_leaf, x.grad_fn) == (False, True, None)
    x.requires_grad = True
    y = x * 2
    assert (y.requires_grad, y.is_leaf) == (True, False)
    assert y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].name().endswith("AccumulateGrad")
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point"):
        lg.arange(3).requires_grad_()
    assert not y.detach().requires_grad


def test_conversions():
    x = lg.tensor([1.9, -1.9, 0.0])
    assert x.long().tolist() == [1, -1, 0]
    assert x.bool().tolist() == [True, True, False]
    assert x.to(lg.float32) is x
    assert x.to("cpu") is x
    assert x.to(dtype=lg.float16).dtype is lg.float16
    assert x.type_as(lg.arange(2)).dtype is lg.int64
    assert x.to(lg.arange(2)).dtype is lg.int64
    names = ["half", "bfloat16", "float", "double", "char", "short", "int", "byte"]
    kinds = [getattr(x.abs(), name)().dtype.name for name in names]
    assert kinds == [
        "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "uint8",
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="no device 'cuda'"):
        x.to("cuda")


def test_pickle_and_deepcopy():
    x = lg.tensor([1.0, 2.0], dtype=lg.bfloat16).requires_grad_()
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert made.tolist() == [1, 2]
        assert made.dtype is lg.bfloat16
        assert made.requires_grad
        assert made.is_leaf
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_import_is_light():
    import subprocess
    import sys

    heavy = ("llvmlite", "rich", "click", "safetensors", "numpy.random", "tempfile")
    # Environments may load some of them for every program.
    code = "import sys\nbefore = set(sys.modules)\nimport livegrad\n"
    code += f"print([m for m in {heavy} if m in sys.modules and m not in before])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
