"""Masked tensors: values, masks, gradients and text as in PyTorch, where it has them."""

from __future__ import annotations

import copy
import io
import math
import pickle
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import livegrad as lg  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
DATA = np.array([[1.0, 2.0, 3.0], [4.0, -5.0, 6.0]], np.float32)
MASK = np.array([[True, False, True], [False, False, True]])


class World:
    def __init__(self, t: Any) -> None:
        self.t = t
        self.d, self.m = t.tensor(DATA), t.tensor(MASK)
        self.x = t.masked.masked_tensor(self.d, self.m, requires_grad=True)
        self.y = t.masked.masked_tensor(self.d * 2, self.m)
        self.z = t.masked.masked_tensor(self.d, ~self.m)
        self.n = t.masked.masked_tensor(t.tensor([1, 2, 3]), t.tensor([True, False, True]))


PROGRAMS: dict[str, Any] = {
    "itself": lambda w: w.x,
    "exp": lambda w: w.x.exp(),
    "sqrt": lambda w: w.t.sqrt(w.x),
    "pair": lambda w: w.x * w.y,
    "number": lambda w: w.x / 3 - 2,
    "dense": lambda w: w.x * w.d,
    "dense first": lambda w: w.d * w.x,
    "compared": lambda w: w.x > 2,
    "other masks": lambda w: w.x + w.z,
    "power": lambda w: w.x**2,
    "clamp": lambda w: w.y.clamp(2.0, 5.0),
    "sum": lambda w: w.x.sum(),
    "sum 0": lambda w: w.x.sum(0),
    "sum kept": lambda w: w.x.sum(1, keepdim=True),
    "mean": lambda w: w.x.mean(1),
    "mean of all": lambda w: w.x.mean(),
    "amax": lambda w: w.x.amax(0),
    "amin": lambda w: w.x.amin(1),
    "prod": lambda w: w.x.prod(0),
    "argmax": lambda w: w.y.argmax(1),
    "all": lambda w: w.y.all(0),
    "var": lambda w: w.y.var(1),
    "std": lambda w: w.y.std(0),
    "softmax": lambda w: w.x.softmax(-1),
    "t": lambda w: w.x.t(),
    "reshape": lambda w: w.x.reshape(3, 2),
    "row": lambda w: w.x[0],
    "element": lambda w: w.x[0, 1],
    "columns": lambda w: w.x[:, 1:],
    "unsqueeze": lambda w: w.y.unsqueeze(0),
    "cat": lambda w: w.t.cat([w.x, w.y]),
    "stack": lambda w: w.t.stack([w.x, w.y]),
    "where": lambda w: w.t.where(w.m, w.x, w.y),
    "double": lambda w: w.x.to(w.t.float64),
    "ints": lambda w: w.n + 1,
    "ints summed": lambda w: w.n.sum(),
    "max": lambda w: w.x.max(),
    "filled": lambda w: w.x.masked_fill(w.m, 1.0),
    "no mask": lambda w: w.t.masked.masked_tensor(w.d, w.d),
    "another mask": lambda w: w.t.masked.masked_tensor(w.d, w.m[0]),
    "masked twice": lambda w: w.t.masked.masked_tensor(w.y, w.m),
    "a number": lambda w: w.t.masked.masked_tensor(w.t.tensor(3.0), w.t.tensor(False)),
}


def run(t: Any, program: Any) -> tuple[Any, ...]:
    w = World(t)
    try:
        y = program(w)
    except Exception as error:
        return (type(error),)
    grad = None
    if y.requires_grad:
        y.sum().backward()
        grad = w.x.grad.to_tensor(0.0).numpy()
    values = y.to_tensor(-1).detach().numpy()
    return repr(y.detach()), values, y.get_mask().numpy(), grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    theirs, ours = run(torch, PROGRAMS[name]), run(lg, PROGRAMS[name])
    assert len(theirs) == len(ours), f"{theirs} and {ours}"
    assert theirs[0] == ours[0]
    for a, b in zip(theirs[1:], ours[1:], strict=True):
        if a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(b, a, 1e-5, 1e-6)


def test_gradients_where_there_is_nothing() -> None:
    """What PyTorch documents masked tensors for: no NaN comes from what is masked."""
    x = lg.tensor([-1.0, 4.0], requires_grad=True)
    y = lg.masked.as_masked_tensor(x, x > 0)
    y.sqrt().sum().backward()
    assert x.grad.tolist() == [0, 0.25]
    assert math.isnan(x.sqrt().tolist()[0])


def test_copies_and_files() -> None:
    x = World(lg).y
    file = io.BytesIO()
    lg.save([x], file)
    file.seek(0)
    for same in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x)), lg.load(file)[0]):
        assert repr(same) == repr(x)
        assert type(same) is lg.masked.MaskedTensor


def test_what_is_refused() -> None:
    x = World(lg).x
    with pytest.raises(RuntimeError, match="use to_tensor"):
        x.tolist()
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError, match="returned NotImplemented"):
        lg.linalg.inv(x)
    assert lg.masked.is_masked_tensor(x)
    assert isinstance(x, lg.Tensor)


def test_gradients_of_ordinary_tensors_come_from_what_is_there() -> None:
    """0 times NaN is NaN; what is not there has no part in it."""
    for t in (torch, lg):
        a = t.tensor([1.0, 2.0, math.nan])
        b = t.tensor(1.0, requires_grad=True)
        w = t.tensor([[2.0], [1.0]], requires_grad=True)
        masked = t.masked.masked_tensor(a, ~t.isnan(a))
        (found,) = t.autograd.grad(t.sum(masked * b), b, retain_graph=True)
        assert float(_plain(found)) == 3.0
        if t is lg:  # PyTorch does not broadcast masks
            (found,) = t.autograd.grad((masked * w).sum(), w)
            assert found.tolist() == [[3.0], [3.0]]


def test_autograd_grad_masks_as_grad_does() -> None:
    for t in (torch, lg):
        x = t.masked.masked_tensor(t.tensor(DATA), t.tensor(MASK), requires_grad=True)
        (found,) = t.autograd.grad((x * x).sum(), x)
        assert np.array_equal(found.get_mask().numpy(), MASK)
        assert np.array_equal(found.to_tensor(0).detach().numpy(), np.where(MASK, 2 * DATA, 0))


def _plain(x: Any) -> Any:
    return x.get_data() if hasattr(x, "get_data") else x
