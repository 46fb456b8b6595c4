"""Classes of the user's own: subclasses of Tensor, `__torch_function__`, modes, other objects."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, overrides
from livegrad._C import DisableTorchFunction, DisableTorchFunctionSubclass


class Sub(lg.Tensor):
    """A subclass that changes nothing."""


class Child(Sub):
    """A subclass of a subclass."""


class Other(lg.Tensor):
    """A subclass that is no relative."""


class Unit(lg.Tensor):
    """A tensor with a unit, which results inherit."""

    @staticmethod
    def __new__(cls: Any, data: Any, unit: str = "1") -> Any:
        return super().__new__(cls, data)

    def __init__(self, data: Any, unit: str = "1") -> None:
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        units = [x.unit for x in args if isinstance(x, Unit)]
        if isinstance(result, Unit) and units and not hasattr(result, "unit"):
            result.unit = "*".join(units) if func is lg.Tensor.mul else units[0]
        return result


class Slotted(lg.Tensor):
    """A subclass whose objects are laid out differently."""

    __slots__ = ("note",)


def sub(*values: float, cls: Any = Sub) -> Any:
    return lg.tensor(values).as_subclass(cls)


# --------------------------------------------------------------------------------- propagation

RESULTS = {
    "operator": lambda x: x + 1,
    "reflected": lambda x: 1 - x,
    "with a tensor": lambda x: lg.ones(3) * x,
    "unary": lambda x: -x,
    "method": lambda x: x.exp(),
    "method with names": lambda x: x.sum(axis=0),
    "function": lambda x: lg.relu(x),
    "function with out": lambda x: lg.exp(x),
    "function of a list": lambda x: lg.cat([lg.ones(2), x]),
    "keyword": lambda x: lg.add(lg.ones(3), other=x),
    "index": lambda x: x[1:],
    "number as index": lambda x: x[0],
    "index with a tensor": lambda x: x[lg.tensor([0, 2])],
    "comparison": lambda x: x > 0,
    "property": lambda x: x.T,
    "data": lambda x: x.data,
    "in place": lambda x: x.add_(1),
    "in place by operator": lambda x: x.__iadd__(1),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "to": lambda x: x.to(lg.float64),
    "like": lambda x: lg.zeros_like(x),
    "new": lambda x: x.new_ones(2),
    "functional": lambda x: F.softmax(x, 0),
    "functional in place": lambda x: F.relu(x, inplace=True),
    "functional linear": lambda x: F.linear(x, lg.ones(2, 3)),
    "module": lambda x: nn.Linear(3, 2)(x),
    "modules": lambda x: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4))(x),
    "recurrent": lambda x: nn.LSTM(3, 2)(x.reshape(1, 1, 3))[0],
    "cell": lambda x: nn.GRUCell(3, 2)(x),
    "loss": lambda x: nn.MSELoss()(x, lg.zeros(3)),
    "linalg": lambda x: lg.linalg.norm(x),
    "einsum": lambda x: lg.einsum("i,i->", x, x),
    "where": lambda x: lg.where(lg.ones(3) > 0, x, lg.zeros(3)),
    "init": lambda x: nn.init.ones_(x),
    "iteration": lambda x: next(iter(x)),
    "tuple": lambda x: x.split(1)[1],
    "named tuple": lambda x: x.sort().values,
    "named tuple's indices": lambda x: x.max(0).indices,
}


@pytest.mark.parametrize("case", RESULTS)
def test_results_are_of_the_subclass(case):
    assert type(RESULTS[case](sub(3.0, 1.0, 2.0))) is Sub


def test_plain_tensors_stay_plain():
    x = lg.ones(3)
    for case in RESULTS.values():
        assert type(case(x)) is lg.Tensor
    p = nn.Parameter(lg.ones(2))
    assert type(p + 1) is lg.Tensor
    assert type(p * lg.ones(2)) is lg.Tensor
    assert type(p.data) is lg.Tensor


def test_values_and_gradients_are_those_of_tensors():
    values = np.array([0.5, -1.0, 2.0], np.float32)
    grads = []
    for cls in (lg.Tensor, Sub):
        x = lg.tensor(values).as_subclass(cls).requires_grad_()
        loss = (F.silu(x * 2 + 1) * x.tanh()).sum()
        assert type(loss) is cls
        loss.backward()
        assert type(x.grad) is lg.Tensor
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def test_autograd_grad_gives_the_subclass():
    x = sub(1.0, 2.0).requires_grad_()
    (g,) = lg.autograd.grad((x * x).sum(), x)
    assert type(g) is Sub
    assert g.tolist() == [2, 4]


def test_children_win_over_parents_and_strangers_do_not_mix():
    x, y, z = sub(1.0), sub(2.0, cls=Child), sub(3.0, cls=Other)
    assert type(x + y) is Child
    assert type(y + x) is Child
    assert type(lg.stack([x, y])) is Child
    with pytest.raises(TypeError, match="unsupported operand"):
        x + z
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'livegrad.add'"):
        lg.add(x, z)
    assert type(nn.Parameter(lg.ones(1)) + x) is Sub


def test_what_is_no_tensor_is_left_alone():
    x = sub(1.0, 2.0)
    assert type(x.shape) is lg.Size
    assert x.tolist() == [1, 2]
    assert type(x.sum().item()) is float
    assert type(x.numpy()) is np.ndarray
    assert repr(x) == "Sub([1., 2.])"
    assert type(lg.tensor(x)) is lg.Tensor
    assert lg.as_tensor(x) is x


def test_a_tensor_written_with_a_subclass_stays_itself():
    x = lg.ones(2)
    y = x.add_(sub(1.0, 2.0))
    assert type(x) is lg.Tensor
    assert type(y) is Sub
    y.zero_()
    assert x.tolist() == [0, 0]


def test_attributes_and_own_protocol():
    x = Unit([1.0, 2.0], "m")
    assert (x + 1).unit == "m"
    assert (x * x).unit == "m*m"
    assert not hasattr(lg.ones(2), "unit")


def test_a_subclass_with_slots():
    x = sub(1.0, 2.0, cls=Slotted)
    x.note = "kept"
    y = x * 2
    assert type(y) is Slotted
    assert y.tolist() == [2, 4]
    again = copy.deepcopy(x)
    assert (type(again), again.note, again.tolist()) == (Slotted, "kept", [1, 2])
    assert pickle.loads(pickle.dumps(x)).note == "kept"


# ------------------------------------------------------------------------------ making and copying


def test_as_subclass_of_a_part_has_its_strides():
    part = lg.arange(24).reshape(4, 6)[1:3, 2:4]
    found = part.as_subclass(Sub)
    assert found.stride() == (6, 1)
    assert found.numpy().tolist() == found.tolist() == [[8, 9], [14, 15]]


def test_as_subclass_shares_values_and_history():
    x = lg.ones(2, requires_grad=True)
    y = x.as_subclass(Sub)
    assert not y.is_leaf
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    z = lg.zeros(2)
    z.as_subclass(Sub).add_(1)
    assert z.tolist() == [1, 1]


def test_make_subclass_is_a_leaf_that_shares_values():
    x = lg.ones(2, requires_grad=True)
    y = lg.Tensor._make_subclass(Sub, x, True)
    assert type(y) is Sub
    assert y.is_leaf
    assert y.requires_grad
    with lg.no_grad():
        y.add_(1)
    assert x.tolist() == [2, 2]


def test_constructors():
    assert type(Sub(2, 3)) is Sub
    assert Sub([1, 2]).dtype is lg.float32
    x = lg.arange(3)
    assert type(Sub(x)) is Sub
    assert Sub(x).dtype is lg.int64
    Sub(x).add_(1)
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("way", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_keep_class_and_attributes(way):
    x = Unit([1.0, 2.0], "kg").requires_grad_()
    y = way(x)
    assert type(y) is Unit
    assert (y.unit, y.tolist(), y.requires_grad) == ("kg", [1, 2], True)
    assert y is not x


def test_copies_take_no_hooks():
    x = lg.ones(2, requires_grad=True)
    calls: list[str] = []
    x.register_hook(lambda g: calls.append("before"))
    x.register_post_accumulate_grad_hook(lambda p: calls.append("after"))
    view = x.detach()[:1]
    for way in (copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))):
        (way(x) * 2).sum().backward()
        assert calls == []
        assert way(view).tolist() == [1]
    (x * 2).sum().backward()
    assert calls == ["before", "after"]


def test_a_parameter_can_hold_a_subclass():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(Unit([[1.0, 0.0], [0.0, 1.0]], "m"))
    weight = layer.weight
    assert type(weight) is Unit
    assert isinstance(weight, nn.Parameter)
    assert not isinstance(Unit([1.0]), nn.Parameter)
    assert not isinstance(lg.ones(1), nn.Parameter)
    assert isinstance(layer.bias, nn.Parameter)
    assert dict(layer.named_parameters())["weight"] is weight
    assert type(layer.state_dict()["weight"]) is Unit
    layer(lg.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [1, 1]]
    lg.optim.SGD(layer.parameters(), lr=1.0).step()
    assert weight.tolist() == [[0, -1], [-1, 0]]
    again = copy.deepcopy(layer)
    assert isinstance(again.weight, nn.Parameter)
    assert type(again.weight) is Unit
    again.load_state_dict(nn.Linear(2, 2).state_dict())


def test_a_subclass_of_parameter_computes_tensors():
    class Mine(nn.Parameter):
        pass

    p = Mine(lg.ones(2))
    assert isinstance(p, nn.Parameter)
    assert type(p * 2) is lg.Tensor
    layer = nn.Module()
    layer.p = p
    assert list(layer.parameters()) == [p] or next(layer.parameters()) is p


def test_function_outputs_keep_their_class():
    class Double(lg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = Unit([1.0, 2.0], "m").requires_grad_()
    y = Double.apply(x)
    assert type(y) is Unit
    assert y.unit == "m"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert type(Double.apply(nn.Parameter(lg.ones(2)))) is lg.Tensor


# --------------------------------------------------------------------------------------- protocol


def logger() -> tuple[Any, list[str]]:
    seen: list[str] = []

    class Logged(lg.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(overrides.resolve_name(func))
            return super().__torch_function__(func, types, args, kwargs)

    return Logged, seen


def test_functions_are_reported_as_users_know_them():
    cls, seen = logger()
    x = lg.ones(2, 2).as_subclass(cls)
    x + 1
    lg.add(x, 1)
    x.add(1)
    F.relu(x)
    x @ x
    x[0]
    x.shape
    x += 1
    assert seen == [
        "livegrad.Tensor.add",
        "livegrad.add",
        "livegrad.Tensor.add",
        "livegrad.nn.functional.relu",
        "livegrad.Tensor.matmul",
        "livegrad.Tensor.__getitem__",
        "livegrad.Tensor.shape.__get__",
        "livegrad.Tensor.add_",
    ]


def test_one_call_is_reported_once_however_it_is_made():
    cls, seen = logger()
    x = lg.ones(2, 3).as_subclass(cls)
    F.multi_head_attention_forward
    nn.functional.layer_norm(x, (3,))
    lg.std_mean(x)
    x.backward(lg.ones(2, 3)) if x.requires_grad else None
    assert [name.rpartition(".")[2] for name in seen if "requires_grad" not in name] == [
        "layer_norm",
        "std_mean",
    ]


def test_handlers_in_a_table_by_function():
    table: dict[Any, Any] = {lg.mean: lambda x: "mean", lg.Tensor.mul: lambda x, y: "mul"}

    class Tabled(lg.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func in table:
                return table[func](*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    x = lg.ones(2).as_subclass(Tabled)
    assert lg.mean(x) == "mean"
    assert x * 2 == "mul"
    assert 2 * x == "mul"
    assert type(x.mean()) is Tabled


def test_not_implemented_is_left_to_the_next():
    class Shy(lg.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    x = lg.ones(2)
    y = lg.Tensor._make_subclass(Shy, x)
    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"):
        lg.exp(y)
    with pytest.raises(TypeError):
        y + 1

    class Bold(lg.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return "answered"

    assert lg.add(y, lg.Tensor._make_subclass(Bold, x)) == "answered"


def test_disabled():
    cls, seen = logger()
    x = lg.ones(2).as_subclass(cls)
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is lg.Tensor
        assert type(F.relu(x)) is lg.Tensor
    assert seen == []
    assert type(x + 1) is cls

    class Plain(lg.Tensor):
        __torch_function__ = lg._C._disabled_torch_function_impl

    assert type(lg.ones(2).as_subclass(Plain) + 1) is lg.Tensor


def test_each_thread_is_enabled_by_itself():
    x = sub(1.0)
    kinds = []
    with DisableTorchFunctionSubclass():
        thread = threading.Thread(target=lambda: kinds.append(type(x + 1)))
        thread.start()
        thread.join()
    assert kinds == [Sub]


# ------------------------------------------------------------------------------------------ modes


class Recorder(overrides.TorchFunctionMode):
    """Notes what is called."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_all_functions():
    with Recorder() as mode:
        x = lg.ones(2)
        y = x + 1
        F.relu(y)
    lg.zeros(1)
    assert mode.seen == ["ones", "add", "relu"]
    assert type(y) is lg.Tensor


def test_modes_are_nested():
    class Negated(overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            return -result if func is lg.exp else result

    with Recorder() as outer, Negated():
        y = lg.exp(lg.zeros(1))
    assert y.item() == -1
    assert outer.seen == ["zeros", "exp", "neg"]


def test_what_a_flush_runs_is_not_seen():
    x = lg.randn(3, 3, requires_grad=True)
    with Recorder() as mode:
        loss = F.layer_norm(x, (3,)).pow(2).sum()
        loss.backward()
        x.grad.tolist()
    assert mode.seen == ["layer_norm", "pow", "sum", "backward", "tolist"]


def test_disabling_all_hides_modes():
    with Recorder() as mode, DisableTorchFunction():
        lg.ones(1)
    assert mode.seen == []


def test_a_mode_that_raises_is_left_behind():
    with pytest.raises(ZeroDivisionError), Recorder():
        1 / 0
    assert not overrides.has_torch_function((lg.ones(1),))


# ------------------------------------------------------------------------- other objects

DUCK = """
import functools
import livegrad as lg

HANDLED = {}

def implements(function):
    def decorate(handler):
        functools.update_wrapper(handler, function)
        HANDLED[function] = handler
        return handler
    return decorate

class ScalarTensor:
    def __init__(self, n, value):
        self.n, self.value = n, value

    def tensor(self):
        return self.value * lg.eye(self.n)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (lg.Tensor, ScalarTensor)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))

def dense(x):
    return x.tensor() if isinstance(x, ScalarTensor) else x

@implements(lg.mean)
def mean(input):
    return input.value / input.n

for name in ("add", "matmul", "cat"):
    def run(first, *others, name=name):
        first = [dense(x) for x in first] if isinstance(first, list) else dense(first)
        return getattr(lg, name)(first, *[dense(x) for x in others])
    implements(getattr(lg, name))(run)

@implements(lg.Tensor.mul)
def mul(input, other):
    return dense(input) * dense(other)

@implements(lg.Tensor.sub_)
def sub_(input, other):
    return input.sub_(dense(other))

@implements(lg.Tensor.sum)
def sum(input, dim):
    return input.sum(dense(dim))

two = lg.full((2, 2), 2.0)
lg.exp(two), two + two, two.sum()  # functions that were called before anybody overrode them
d = ScalarTensor(2, 3.0)
import sys
assert "livegrad.overrides" not in sys.modules
"""
CASES = {
    "lg.mean(d)": 1.5,
    "lg.add(d, d)": [[6, 0], [0, 6]],
    "lg.add(two, d)": [[5, 2], [2, 5]],
    "lg.add(two, other=d)": [[5, 2], [2, 5]],
    "lg.matmul(two, d)": [[6, 6], [6, 6]],
    "lg.cat([two, d])": [[2, 2], [2, 2], [3, 0], [0, 3]],
    "two * d": [[6, 0], [0, 6]],
    "two.sub_(d)": [[-1, 2], [2, -1]],
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_object_of_another_class_is_noticed(case):
    program = f"{DUCK}\nresult = {case}\nprint(getattr(result, 'tolist', lambda: result)())"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert eval(out) == CASES[case]


def test_functions_that_cannot_notice_say_what_to_do():
    program = f"""{DUCK}
try:
    lg.relu(d)
except TypeError as error:
    assert "livegrad.overrides" in str(error), error
import livegrad.overrides
HANDLED[lg.relu] = lambda x: "asked"
assert lg.relu(d) == "asked"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


class Metadata:
    """A tensor with something beside it, from PyTorch's documentation."""

    def __init__(self, data: Any, metadata: Any = None) -> None:
        self._t = lg.as_tensor(data)
        self._metadata = metadata

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
        plain = [getattr(a, "_t", a) for a in args]
        return Metadata(func(*plain, **(kwargs or {})), metadata=metadatas[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: lg.add(x, lg.ones(2)),
        lambda x: F.relu(x),
        lambda x: lg.reshape(x, (2,)),
        lambda x: lg.ones(2).add(x),
        lambda x: F.linear(x, lg.ones(2, 2)),
        lambda x: nn.ReLU()(x),
        lambda x: lg.ones(2) + x,
        lambda x: lg.linalg.norm(x),
    ],
)
def test_any_function_asks_other_classes(call):
    y = call(Metadata([1.0, 2.0], "kept"))
    assert type(y) is Metadata
    assert y._metadata == "kept"


# --------------------------------------------------------------------- livegrad.overrides


def test_functions_of_the_users_own():
    def scale(x: Any, by: float = 2.0) -> Any:
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(scale, (x,), x, by=by)
        return x * by

    assert scale(lg.ones(1)).item() == 2
    assert type(scale(sub(1.0), by=3.0)) is Sub
    y = scale(Metadata([1.0], "m"))
    assert (y._t.item(), y._metadata) == (2, "m")

    @overrides.wrap_torch_function(lambda x: (x,))
    def half(x: Any) -> Any:
        return x / 2

    assert half(Metadata([1.0], "m"))._metadata == "m"


def test_is_tensor_like():
    assert overrides.is_tensor_like(lg.ones(1))
    assert overrides.is_tensor_like(Metadata(1))
    assert not overrides.is_tensor_like(np.ones(1))
    assert not overrides.is_tensor_like(1.0)


def test_the_catalogue():
    found = overrides.get_overridable_functions()
    assert lg.add in found[lg]
    assert lg.Tensor.add in found[lg.Tensor]
    assert F.relu in found[F]
    assert lg.Tensor.shape.__get__ in found[lg.Tensor]
    assert lg.ones not in found[lg]
    assert lg.ones in overrides.get_ignored_functions()
    assert lg.exp in overrides.get_testing_overrides()
    assert overrides.get_testing_overrides()[lg.exp](1) == -1
    assert overrides.resolve_name(lg.linalg.norm) == "livegrad.linalg.norm"
    assert overrides.resolve_name(len) is None
    assert overrides.is_tensor_method_or_property(lg.Tensor.add)
    assert overrides.is_tensor_method_or_property(lg.Tensor.shape.__get__)
    assert not overrides.is_tensor_method_or_property(lg.add)
    assert all(len(functions) > 5 for cls, functions in found.items() if cls in (lg, F, lg.Tensor))


def test_functions_are_the_same_objects_before_and_after():
    program = """
import inspect, pickle
import livegrad as lg, livegrad.nn.functional as F
before = [lg.add, lg.relu, lg.exp, lg.Tensor.add, lg.Tensor.sum, F.linear, lg.zeros, F.relu]
assert lg.relu is not lg.Tensor.relu
codes = [f.__code__ for f in before]
signatures = [str(inspect.signature(f)) for f in before]
class Sub(lg.Tensor): pass
after = [lg.add, lg.relu, lg.exp, lg.Tensor.add, lg.Tensor.sum, F.linear, lg.zeros, F.relu]
assert all(a is b for a, b in zip(before, after))
assert all(f.__code__ is not code for f, code in zip(after, codes))
assert [str(inspect.signature(f)) for f in after] == signatures
assert all(pickle.loads(pickle.dumps(f)) is f for f in after)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_changes_without_a_subclass():
    """Ours do not count, nor do errors and other programs that need nothing of this."""
    program = """
import sys
import livegrad as lg
from livegrad import nn, optim
code = lg.add.__code__
layer = nn.LazyLinear(2)
loss = layer(lg.ones(1, 3)).sum()
loss.backward()
optim.SGD(layer.parameters(), lr=0.1).step()
for wrong in (lambda: lg.ones(2) + object(), lambda: lg.exp("x"), lambda: lg.ones(2).add_([])):
    try:
        wrong()
    except TypeError:
        pass
    else:
        raise AssertionError
assert "livegrad.overrides" not in sys.modules
assert lg.Tensor.relu.__code__ is lg.relu.__code__
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_errors_name_the_function_and_its_argument():
    with pytest.raises(TypeError, match=r"add\(\): argument 'other' \(position 2\)"):
        lg.add(sub(1.0), "x")
    with pytest.raises(RuntimeError, match="sizes of the tensors must match"):
        sub(1.0, 2.0) + lg.ones(3)


def test_signatures_stay():
    assert list(inspect.signature(F.cross_entropy).parameters)[:2] == ["input", "target"]
    assert functools.wraps(lg.mean)(lambda: None).__name__ == "mean"


USERS = {
    "distribution": lambda x: lg.distributions.Normal(x, x).rsample(),
    "its entropy": lambda x: lg.distributions.Categorical(logits=x).entropy(),
    "divergence": lambda x: lg.distributions.kl_divergence(
        lg.distributions.Normal(x, x), lg.distributions.Normal(x, 1.0)
    ),
    "batch": lambda x: lg.utils.data.default_collate([x, x]),
    "vector": lambda x: nn.utils.parameters_to_vector([x, x]),
    "spectral norm": lambda x: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))(x),
    "padded": lambda x: nn.utils.rnn.pad_sequence([x, x[:2]]),
    "transformer": lambda x: nn.TransformerEncoderLayer(3, 1, 4)(x.reshape(1, 1, 3)),
    "attention": lambda x: nn.MultiheadAttention(3, 1)(*[x.reshape(1, 1, 3)] * 3)[0],
    "with a backward hook": lambda x: hooked(nn.Linear(3, 2))(x.requires_grad_()),
}


def hooked(module: Any) -> Any:
    module.register_full_backward_hook(lambda m, inputs, outputs: None)
    return module


@pytest.mark.parametrize("case", USERS)
def test_what_is_built_on_functions_keeps_the_subclass(case):
    assert type(USERS[case](sub(3.0, 1.0, 2.0))) is Sub
    assert type(USERS[case](lg.tensor([3.0, 1.0, 2.0]))) is lg.Tensor


def test_packages_imported_later_keep_the_subclass():
    program = """
import livegrad as lg
class Sub(lg.Tensor): pass
x = lg.ones(2).as_subclass(Sub)
assert type(lg.distributions.Normal(x, x).entropy()) is Sub
assert type(lg.nn.utils.parameters_to_vector([x])) is Sub
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_strides_of_a_view_stay_with_its_class() -> None:
    class Named(lg.Tensor):
        pass

    column = lg.arange(12.0).reshape(3, 4)[:, 1:3].as_subclass(Named)
    assert column.stride() == (4, 1)
    assert column[1:].numpy().tolist() == [[5, 6], [9, 10]]
