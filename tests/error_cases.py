"""Wrong uses of the public API, written for livegrad and PyTorch alike: `T` is the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """A wrong call, the exception PyTorch raises, and what the message must mention."""

    call: Callable[[Any], Any]
    error: type[Exception]
    mentions: tuple[str, ...]


F = lambda T: T.nn.functional
leaf = lambda T: T.ones(3, requires_grad=True)
ints = lambda T, *values: T.tensor(list(values))

# fmt: off
CASES: dict[str, Case] = {
    # shapes
    "add of shapes": Case(lambda T: T.ones(3) + T.ones(4), RuntimeError, ("3", "4")),
    "mul of shapes": Case(lambda T: T.ones(2, 3) * T.ones(2), RuntimeError, ("3", "2")),
    "in-place shape": Case(lambda T: T.ones(3).add_(T.ones(2, 3)), RuntimeError, ("[3]", "[2, 3]")),
    "matmul": Case(lambda T: T.ones(2, 3) @ T.ones(4, 5), RuntimeError, ("2", "3", "4", "5")),
    "matmul of vectors": Case(lambda T: T.ones(3) @ T.ones(4), RuntimeError, ("3", "4")),
    "matmul of a scalar": Case(lambda T: T.ones(()) @ T.ones(3), RuntimeError, ("matmul",)),
    "batched matmul": Case(lambda T: T.ones(2, 3, 4) @ T.ones(5, 4, 3), RuntimeError, ("2", "5")),
    "linear": Case(lambda T: F(T).linear(T.ones(2, 3), T.ones(5, 4)), RuntimeError, ("3", "4")),
    "view": Case(lambda T: T.ones(6).view(4), RuntimeError, ("4", "6")),
    "reshape": Case(lambda T: T.ones(2, 3).reshape(4, -1), RuntimeError, ("4", "6")),
    "reshape twice unknown": Case(lambda T: T.ones(6).reshape(-1, -1), RuntimeError, ("inferred|-1",)),
    "expand": Case(lambda T: T.ones(3).expand(2, 4), RuntimeError, ("3", "4")),
    "cat": Case(lambda T: T.cat([T.ones(2, 3), T.ones(2, 4)]), RuntimeError, ("3", "4")),
    "stack": Case(lambda T: T.stack([T.ones(2), T.ones(3)]), RuntimeError, ("2", "3")),
    "cat of nothing": Case(lambda T: T.cat([]), ValueError, ("non-empty",)),
    "split sizes": Case(lambda T: T.ones(5).split([2, 2]), RuntimeError, ("5",)),
    "hypot of a number": Case(lambda T: T.hypot(T.ones(3), True), TypeError, ("hypot", "bool")),
    "logaddexp of a number": Case(lambda T: T.logaddexp(T.ones(3), 2.0), TypeError, ("float",)),
    "where": Case(lambda T: T.where(T.ones(3) > 0, T.ones(2), T.ones(3)), RuntimeError, ("2", "3")),
    "layer_norm": Case(lambda T: F(T).layer_norm(T.ones(2, 3), (4,)), RuntimeError, ("4", "3")),
    "cross_entropy": Case(lambda T: F(T).cross_entropy(T.ones(2, 3), ints(T, 1, 2, 0)), ValueError, ("2", "3")),
    "module input": Case(lambda T: T.nn.Linear(3, 4)(T.ones(2, 5)), RuntimeError, ("5", "3")),
    "write of a shape": Case(lambda T: T.ones(3).__setitem__(slice(0, 2), T.ones(3)), RuntimeError, ("3", "2")),
    "negative size": Case(lambda T: T.ones(-1), RuntimeError, ("-1",)),
    # dims
    "sum dim": Case(lambda T: T.ones(2, 3).sum(2), IndexError, ("2",)),
    "softmax dim": Case(lambda T: T.ones(2, 3).softmax(-3), IndexError, ("-3",)),
    "transpose dim": Case(lambda T: T.ones(2, 3).transpose(0, 5), IndexError, ("5",)),
    "permute twice": Case(lambda T: T.ones(2, 3).permute(0, 0), RuntimeError, ("permute",)),
    "permute count": Case(lambda T: T.ones(2, 3).permute(0), RuntimeError, ("permute",)),
    "unsqueeze dim": Case(lambda T: T.ones(2).unsqueeze(3), IndexError, ("3",)),
    "cat dim": Case(lambda T: T.cat([T.ones(2), T.ones(2)], 1), IndexError, ("1",)),
    "scatter_reduce dim of complex numbers": Case(lambda T: T.ones(2, 3, dtype=T.complex64).scatter_reduce_(2, T.zeros(2, 3, dtype=T.int64), T.ones(2, 3, dtype=T.complex64), "amax"), IndexError, ("2",)),
    "index_reduce dim of complex numbers": Case(lambda T: T.ones(2, 3, dtype=T.complex64).index_reduce_(2, ints(T, 0), T.ones(1, 3, dtype=T.complex64), "amin"), IndexError, ("2",)),
    "nansum dim of complex numbers": Case(lambda T: T.ones(2, 3, dtype=T.complex64).nansum(2), IndexError, ("2",)),
    "quantile dim of integers": Case(lambda T: T.ones(2, 3, dtype=T.int64).quantile(0.5, 2), RuntimeError, ("int64|dtype",)),
    "max of nothing": Case(lambda T: T.ones(0).max(), RuntimeError, ("max",)),
    "argmin of no complex numbers": Case(lambda T: T.ones(0, dtype=T.complex64).argmin(), RuntimeError, ("argmin",)),
    "argmax of no bools": Case(lambda T: T.ones(0, dtype=T.bool).argmax(), RuntimeError, ("argmax", "bool")),
    "mode of no complex numbers": Case(lambda T: T.ones(0, dtype=T.complex64).mode(), IndexError, ("mode", "0")),
    "median of no complex numbers": Case(lambda T: T.ones(0, dtype=T.complex64).median(0), IndexError, ("median", "0")),
    "aminmax of no complex numbers": Case(lambda T: T.ones(0, dtype=T.complex64).aminmax(dim=0), IndexError, ("aminmax", "0")),
    "size dim": Case(lambda T: T.ones(2).size(4), IndexError, ("4",)),
    # indices
    "index": Case(lambda T: T.ones(3)[3], IndexError, ("3",)),
    "negative index": Case(lambda T: T.ones(3)[-4], IndexError, ("-4", "3")),
    "too many indices": Case(lambda T: T.ones(3)[0, 0], IndexError, ("too many", "1")),
    "index of a scalar": Case(lambda T: T.ones(())[0], IndexError, ("0-dim",)),
    "float index": Case(lambda T: T.ones(3)[1.5], IndexError, ("int",)),
    "str index": Case(lambda T: T.ones(3)["a"], (TypeError, IndexError), ()),
    "step of zero": Case(lambda T: T.ones(3)[::0], ValueError, ("step",)),
    "write out of range": Case(lambda T: T.ones(3).__setitem__(5, 1.0), IndexError, ("5", "3")),
    "tensor index": Case(lambda T: T.ones(3)[ints(T, 0, 7)], IndexError, ("7", "3")),
    "two tensor indices": Case(lambda T: T.ones(3, 4)[ints(T, 0), ints(T, 4)], IndexError, ("4",)),
    "write at a tensor index": Case(lambda T: T.ones(3).__setitem__(ints(T, 5), 1.0), IndexError, ("5", "3")),
    "gather index": Case(lambda T: T.ones(3).gather(0, ints(T, 4)), RuntimeError, ("4",)),
    "negative gather index": Case(lambda T: T.ones(3).gather(0, ints(T, -1)), RuntimeError, ("-1",)),
    "index_select index": Case(lambda T: T.ones(3, 2).index_select(0, ints(T, 5)), (RuntimeError, IndexError), ("5|range",)),
    "indices of a number": Case(lambda T: T.ones(()).index_select(0, ints(T, -1, 0)), RuntimeError, ("scalar", "2")),
    "vector added to a number": Case(lambda T: T.ones(()).index_add(0, ints(T, 0), T.ones(1)), RuntimeError, ("shape",)),
    "number added to a vector": Case(lambda T: T.ones(3).index_add(0, ints(T, 0), T.ones(())), RuntimeError, ("shape",)),
    "embedding index": Case(lambda T: F(T).embedding(ints(T, 9), T.ones(3, 4)), IndexError, ("9|range",)),
    "cross_entropy target": Case(lambda T: F(T).cross_entropy(T.ones(2, 3), ints(T, 1, 3)), IndexError, ("3",)),
    "nll_loss target": Case(lambda T: F(T).nll_loss(T.ones(2, 3), ints(T, 1, -1)), IndexError, ("-1",)),
    "take index": Case(lambda T: T.ones(3).take(ints(T, -4)), IndexError, ("-4",)),
    "put index": Case(lambda T: T.ones(3).put_(ints(T, 3), T.ones(1)), IndexError, ("3",)),
    "index_put index": Case(lambda T: T.ones(3).index_put_((ints(T, 4),), T.ones(1)), IndexError, ("4",)),
    "index_add index": Case(lambda T: T.ones(3).index_add_(0, ints(T, 3), T.ones(1)), (IndexError, RuntimeError), ("3|range",)),
    "index_copy index": Case(lambda T: T.ones(3).index_copy_(0, ints(T, 3), T.ones(1)), (IndexError, RuntimeError), ("3",)),
    "index_fill index": Case(lambda T: T.ones(3).index_fill_(0, ints(T, -4), 1.0), IndexError, ("-4",)),
    "scatter index": Case(lambda T: T.ones(3).scatter_(0, ints(T, 3), 1.0), RuntimeError, ("3",)),
    "scatter_add index": Case(lambda T: T.ones(3).scatter_add_(0, ints(T, 3), T.ones(1)), RuntimeError, ("3",)),
    "one_hot class": Case(lambda T: F(T).one_hot(ints(T, 3), 3), RuntimeError, ("num_classes",)),
    "integer division by zero": Case(lambda T: ints(T, 1) // 0, RuntimeError, ("ZeroDivisionError",)),
    "integer modulo zero": Case(lambda T: ints(T, 1) % ints(T, 0), RuntimeError, ("ZeroDivisionError",)),
    "mask shape": Case(lambda T: T.ones(3)[T.ones(4) > 0], IndexError, ("4", "3")),
    # dtypes
    "where condition": Case(lambda T: T.where(T.ones(2), T.ones(2), T.ones(2)), RuntimeError, ("where",)),
    "bitwise of floats": Case(lambda T: T.ones(2) & T.ones(2), (RuntimeError, NotImplementedError), ("float",)),
    "minus of bools": Case(lambda T: -(T.ones(2) > 0), RuntimeError, ("bool",)),
    "difference of bools": Case(lambda T: (T.ones(2) > 0) - (T.ones(2) > 0), RuntimeError, ("bool",)),
    "mean of ints": Case(lambda T: ints(T, 1, 2).mean(), RuntimeError, ("mean",)),
    "float into int": Case(lambda T: ints(T, 1, 2).add_(0.5), RuntimeError, ("float", "long|int64")),
    "float embedding index": Case(lambda T: F(T).embedding(T.ones(2), T.ones(3, 4)), RuntimeError, ("float",)),
    "matmul of dtypes": Case(lambda T: T.ones(2, 2) @ T.ones(2, 2, dtype=T.float64), RuntimeError, ("float", "double|float64")),
    "unknown dtype": Case(lambda T: T.ones(2, dtype="float33"), TypeError, ("float33|str",)),
    "gather index dtype": Case(lambda T: T.ones(3).gather(0, T.ones(1)), RuntimeError, ("gather|int64",)),
    # devices
    "unknown device": Case(lambda T: T.ones(2, device="nonsense"), RuntimeError, ("nonsense",)),
    "device type": Case(lambda T: T.ones(2).to("abacus"), RuntimeError, ("abacus",)),
    # values
    "item of many": Case(lambda T: T.ones(3).item(), RuntimeError, ("3",)),
    "float of many": Case(lambda T: float(T.ones(3)), ValueError, ("element",)),
    "bool of many": Case(lambda T: bool(T.ones(3)), RuntimeError, ("more than one value",)),
    "bool of none": Case(lambda T: bool(T.ones(0)), RuntimeError, ("no values",)),
    "len of a scalar": Case(lambda T: len(T.ones(())), TypeError, ("0-d",)),
    "iterate a scalar": Case(lambda T: list(T.ones(())), TypeError, ("0-d",)),
    "numpy of a graph": Case(lambda T: leaf(T).numpy(), RuntimeError, ("detach",)),
    # data
    "ragged list": Case(lambda T: T.tensor([[1, 2], [3]]), ValueError, ("2", "1")),
    "list of strings": Case(lambda T: T.tensor(["a"]), (ValueError, TypeError), ("str",)),
    "tensor of None": Case(lambda T: T.tensor(None), (RuntimeError, TypeError), ("None",)),
    "tensor of object": Case(lambda T: T.tensor(object()), (RuntimeError, TypeError), ("object",)),
    # other types
    "add None": Case(lambda T: T.ones(2) + None, TypeError, ("None",)),
    "add str": Case(lambda T: T.ones(2) + "1", TypeError, ("str",)),
    "function of None": Case(lambda T: T.exp(None), TypeError, ("exp", "Tensor")),
    "function of a float": Case(lambda T: T.exp(1.0), TypeError, ("exp", "float")),
    "function of a list": Case(lambda T: T.add([1.0], [2.0]), TypeError, ("add", "list")),
    "cat of None": Case(lambda T: T.cat([T.ones(2), None]), TypeError, ("cat", "None")),
    "unknown argument": Case(lambda T: T.ones(2).sum(dimension=0), TypeError, ("dimension",)),
    "missing attribute": Case(lambda T: T.ones(2).no_such_method(), AttributeError, ("no_such_method",)),
    # gradients
    "backward of many": Case(lambda T: (leaf(T) * 2).backward(), RuntimeError, ("scalar",)),
    "backward without grad": Case(lambda T: T.ones(()).backward(), RuntimeError, ("does not require grad",)),
    "gradient of a shape": Case(lambda T: (leaf(T) * 2).backward(T.ones(4)), RuntimeError, ("4", "3")),
    "int requires grad": Case(lambda T: T.tensor([1], requires_grad=True), RuntimeError, ("floating",)),
    "int requires grad later": Case(lambda T: ints(T, 1).requires_grad_(), RuntimeError, ("floating",)),
    "in-place on a leaf": Case(lambda T: leaf(T).add_(1), RuntimeError, ("leaf", "in-place")),
    "write to a leaf": Case(lambda T: leaf(T).__setitem__(0, 1.0), RuntimeError, ("leaf", "in-place")),
    "grad of unused": Case(lambda T: T.autograd.grad(leaf(T).sum(), leaf(T)), RuntimeError, ("unused|used",)),
    "grad of no leaf": Case(lambda T: T.autograd.grad(leaf(T).sum(), T.ones(2)), RuntimeError, ("require",)),
    "flag of a result": Case(lambda T: (leaf(T) * 2).requires_grad_(False), RuntimeError, ("leaf",)),
    "deepcopy of a result": Case(lambda T: __import__("copy").deepcopy(leaf(T) * 2), RuntimeError, ("leaves|leaf",)),
    # nn and optim
    "optimizer of nothing": Case(lambda T: T.optim.SGD([], lr=0.1), ValueError, ("empty",)),
    "optimizer of a tensor": Case(lambda T: T.optim.SGD(leaf(T), lr=0.1), TypeError, ("iterable",)),
    "optimizer of a result": Case(lambda T: T.optim.SGD([leaf(T) * 2], lr=0.1), ValueError, ("leaf",)),
    "negative rate": Case(lambda T: T.optim.Adam([leaf(T)], lr=-1.0), ValueError, ("-1.0",)),
    "dropout probability": Case(lambda T: T.nn.Dropout(1.5), ValueError, ("1.5",)),
    "missing state": Case(lambda T: T.nn.Linear(2, 3).load_state_dict({}), RuntimeError, ("weight",)),
    "soft_margin_loss target": Case(lambda T: F(T).soft_margin_loss(T.ones(2, 1), T.ones(2, 3)), RuntimeError, ("2, 1", "2, 3")),
    "unknown reduction": Case(lambda T: F(T).mse_loss(T.ones(2), T.ones(2), reduction="most"), ValueError, ("most",)),
    "Module without init": Case(lambda T: T.nn.Sequential(3), TypeError, ("int", "Module")),
    # random
    "randint bounds": Case(lambda T: T.randint(5, 5, (2,)), RuntimeError, ("5",)),
    "bernoulli of 2": Case(lambda T: T.empty(2).bernoulli_(2.0), RuntimeError, ("2",)),
}
# fmt: on

# Faults that only the values show; PyTorch's class, and the op's name. `late` are not computed yet.
late = lambda T, *values: T.tensor(list(values)) + 0
# fmt: off
LATE: dict[str, Case] = {
    "tensor index": Case(lambda T: T.ones(3)[late(T, 0, 7)], IndexError, ("7", "3")),
    "gather": Case(lambda T: T.ones(3).gather(0, late(T, 4)), RuntimeError, ("4",)),
    "index_select": Case(lambda T: T.ones(3, 2).index_select(0, late(T, 5)), (RuntimeError, IndexError), ("5|range",)),
    "embedding": Case(lambda T: F(T).embedding(late(T, 9), T.ones(3, 4)), IndexError, ("9|range",)),
    "cross_entropy target": Case(lambda T: F(T).cross_entropy(T.ones(2, 3), late(T, 1, 3)), IndexError, ("3",)),
    "nll_loss target": Case(lambda T: F(T).nll_loss(T.ones(2, 3), late(T, 1, -1)), IndexError, ("-1",)),
    "take": Case(lambda T: T.ones(3).take(late(T, 3)), IndexError, ("3",)),
    "put": Case(lambda T: T.ones(3).put(late(T, 3), T.ones(1)), IndexError, ("3",)),
    "index_put": Case(lambda T: T.ones(3).index_put((late(T, 4),), T.ones(1)), IndexError, ("4",)),
    "index_add": Case(lambda T: T.ones(3).index_add(0, late(T, 3), T.ones(1)), (IndexError, RuntimeError), ("3|range",)),
    "index_copy": Case(lambda T: T.ones(3).index_copy(0, late(T, 3), T.ones(1)), (IndexError, RuntimeError), ("3",)),
    "index_fill": Case(lambda T: T.ones(3).index_fill(0, late(T, 3), 1.0), IndexError, ("3",)),
    "scatter": Case(lambda T: T.ones(3).scatter(0, late(T, 3), 1.0), RuntimeError, ("3",)),
    "scatter_add": Case(lambda T: T.ones(3).scatter_add(0, late(T, 3), T.ones(1)), RuntimeError, ("3",)),
    "one_hot": Case(lambda T: F(T).one_hot(late(T, 3), 3), RuntimeError, ("num_classes",)),
    "division": Case(lambda T: late(T, 1) // late(T, 0), RuntimeError, ("ZeroDivisionError",)),
    "remainder": Case(lambda T: late(T, 1) % late(T, 0), RuntimeError, ("ZeroDivisionError",)),
    "bernoulli": Case(lambda T: T.bernoulli(T.full((3,), 2.0) + 0), RuntimeError, ("p_in",)),
    "bernoulli of NaN": Case(lambda T: T.bernoulli(T.full((3,), 0.5) + float("nan")), RuntimeError, ("p_in",)),
    "bernoulli_": Case(lambda T: T.zeros(2).bernoulli_(T.tensor([0.5, -1.0])), RuntimeError, ("p_in",)),
    "std": Case(lambda T: T.normal(T.zeros(2), T.tensor([1.0, -1.0])), RuntimeError, ("std",)),
    "binary_cross_entropy input": Case(lambda T: F(T).binary_cross_entropy(T.ones(2) * 1.5, T.ones(2)), RuntimeError, ("input", "between 0 and 1")),
    "binary_cross_entropy target": Case(lambda T: F(T).binary_cross_entropy(T.ones(2), T.ones(2) * -0.5), RuntimeError, ("target", "between 0 and 1")),
    "gaussian_nll_loss": Case(lambda T: F(T).gaussian_nll_loss(T.ones(2), T.ones(2), T.ones(2) * -1), ValueError, ("negative",)),
}
# fmt: on
