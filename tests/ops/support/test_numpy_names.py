"""`axis` and `keepdims` in place of `dim` and `keepdim`, as PyTorch has them."""

from __future__ import annotations

import copy
import inspect
import pickle
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.methods import Methods


def has_names(method: Any) -> bool:
    marked = isinstance(method, FunctionType) and "out" in vars(method)
    return marked and bool({"dim", "keepdim"} & set(inspect.signature(method).parameters))


NAMED = sorted(name for name, method in vars(Methods).items() if has_names(method))
X = lg.tensor(np.arange(12.0).reshape(3, 4))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "argmin", "std", "all", "logsumexp"])
def test_functions_and_methods(name: str) -> None:
    wanted = getattr(X, name)(dim=1, keepdim=True)
    for got in (
        getattr(X, name)(axis=1, keepdims=True),
        getattr(lg, name)(X, axis=1, keepdims=True),
        getattr(X, name)(1, keepdims=True),
    ):
        assert lg.equal(got, wanted)


METHODS = {"chunk": (2,), "kthvalue": (1,), "quantile": (0.5,), "nanquantile": (0.5,), "topk": (1,)}


@pytest.mark.parametrize("name", NAMED)
def test_every_method(name: str) -> None:
    """Either the result is that for `dim`, or what is wrong is not the name."""

    def outcome(**options: Any) -> Any:
        try:
            return str(getattr(lg.ones(3, 3), name)(*METHODS.get(name, ()), **options))
        except (TypeError, NotImplementedError) as error:
            return str(error)

    assert outcome(axis=1) == outcome(dim=1)
    assert "unexpected keyword argument 'ax'" in outcome(ax=1)


def test_required_arguments() -> None:
    assert lg.equal(X.cumsum(axis=0), X.cumsum(0))
    assert lg.equal(X.softmax(axis=-1, dtype=lg.float32), X.softmax(-1, lg.float32))
    assert X.unsqueeze(axis=0).shape == lg.unsqueeze(X, axis=0).shape == (1, 3, 4)
    assert lg.equal(X.gather(axis=0, index=lg.tensor([[1]])), lg.tensor([[4.0]]).double())
    assert lg.cat([X, X], axis=1).shape == (3, 8)
    assert X.max(axis=1).indices.tolist() == [3, 3, 3]
    assert lg.equal(lg.linalg.vector_norm(X, axis=1), lg.linalg.vector_norm(X, dim=1))


def test_out() -> None:
    out = lg.empty(3, dtype=lg.float64)
    assert lg.sum(X, axis=1, out=out) is out
    assert lg.equal(out, X.sum(1))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: X.sum(0, axis=1), "got both dim and axis"),
        (lambda: X.sum(ax=1), "sum() got an unexpected keyword argument 'ax'"),
        (lambda: lg.sum(X, ax=1), "sum() got an unexpected keyword argument 'ax'"),
        (lambda: X.argmin(axes=1), "argmin() got an unexpected keyword argument 'axes'"),
        (lambda: X.softmax(), "missing 1 required positional argument: 'dim'"),
        (lambda: X.gather(0), "missing 1 required positional argument: 'index'"),
        (lambda: X.gather(index=lg.tensor([[1]])), "'dim'"),
        (lambda: X.cumsum(keepdims=True), "unexpected keyword argument 'keepdims'"),
    ],
)
def test_wrong_names(call: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert words in str(caught.value)


def test_wrappers_look_like_their_functions() -> None:
    for name in NAMED:
        method = getattr(lg.Tensor, name)
        assert pickle.loads(pickle.dumps(method)) is method
        assert {"dim", "keepdim"} & set(inspect.signature(method).parameters), name
    assert pickle.loads(pickle.dumps(lg.unsqueeze)) is lg.unsqueeze is copy.deepcopy(lg.unsqueeze)


def test_gradients_and_sites() -> None:
    x = X.clone().requires_grad_()
    (x * x).sum(axis=1).sum().backward()
    assert lg.equal(x.grad, 2 * X)
    with pytest.raises(IndexError) as caught:
        X.sum(axis=5)
    assert "sum" in str(caught.value)


STRANGER = """
import livegrad as lg
class Stranger:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, args[1:], kwargs or {{}}
x = Stranger()
print({call})
"""


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("lg.sum(x, axis=1)", "('sum', (), {'axis': 1})"),
        ("lg.sum(x, 1, keepdims=True)", "('sum', (1,), {'keepdims': True})"),
        ("lg.gather(x, axis=0, index=2)", "('gather', (), {'index': 2, 'axis': 0})"),
        ("lg.exp(x)", "('exp', (), {})"),
        ("lg.add(x, 1, out=2)", "('add', (1,), {'out': 2})"),
        ("lg.squeeze_copy(x, axis=1)", "('squeeze_copy', (), {'axis': 1})"),
    ],
)
def test_what_answers_for_functions_sees_what_was_given(python: Any, call: str, answer: str):
    # In a process of its own: functions have not learnt to ask yet.
    assert python(STRANGER.format(call=call)).stdout == f"{answer}\n"
