"""Subclasses, `__torch_function__` and modes: the same program in PyTorch and in livegrad."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.overrides

torch = pytest.importorskip("torch")

Program = Callable[[Any], list[Any]]


def short(m: Any, func: Any) -> str:
    name = m.overrides.resolve_name(func) or func.__name__
    return name.replace("livegrad.", "").replace("torch.", "").replace("functional.", "")


def logging_class(m: Any) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    class Logging(m.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((short(m, func), len(args)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logging, seen


# With x (2, 2) of a logging class, i the same of integers, t a plain tensor, m the module.
CALLS = """
    x + 1 | 1 + x | x - x | x * 2 | 2 * x | x / 2 | x // 2 | x % 2 | x ** 2 | x @ x
    1 - x | 1 / x | 2 // x | 5 % x | 2 ** x | -x | abs(x) | +x | t + x | t * x | t @ x | t - x
    i & i | i | i ^ i | i << 1 | i >> 1 | 1 & i | ~i | x == 1 | x != 1 | x < 1 | x <= 1 | x > 1
    x >= 1 | 1 < x | x[0] | x[0, 1] | x[:, None] | x[x > 0] | x.exp() | x.sum() | x.mean(0)
    x.max() | x.max(0) | x.sort() | x.clone() | x.detach() | x.data | x.T | x.mT | x.real
    x.to(m.float64) | x.double() | x.view(4) | x.reshape(4) | x.t() | x.unsqueeze(0) | x.flatten()
    x.add_(1) | x.mul_(x) | x.zero_() | x.copy_(t) | t.clone().add_(x) | t.clone().copy_(x)
    x.new_zeros(2) | x.new_tensor([1.0]) | m.zeros_like(x) | m.ones_like(x) | m.full_like(x, 2)
    m.add(x, 1) | m.add(t, x) | m.exp(x) | m.relu(x) | m.sum(x) | m.cat([t, x]) | m.stack([x, x])
    m.where(x > 0, x, t) | m.clamp(x, 0) | m.matmul(x, t) | m.einsum('ij,jk', x, x) | m.var_mean(x)
    m.linalg.norm(x) | m.linalg.inv(x) | m.fft.fft(x) | m.special.expit(x)
    m.broadcast_tensors(t, x)
    F.relu(x) | F.gelu(x) | F.linear(t, x) | F.mse_loss(x, t) | F.dropout(x) | F.layer_norm(x, (2,))
    F.one_hot(i) | F.normalize(x) | F.pad(x, (1, 1)) | F.embedding(i % 2, t)
    x.shape | x.dtype | x.ndim | x.requires_grad | x.is_leaf | x.grad_fn | x.device | x.dim()
    x.numel() | x.tolist() | x.numpy() | x[0, 0].item() | len(x) | bool(x[0, 0]) | float(x[0, 0])
    int(i[0, 0]) | m.numel(x) | m.is_floating_point(x) | m.is_tensor(x) | m.tensor(x.tolist())
    m.as_tensor(x) | m.equal(x, x) | m.allclose(x, x) | x.equal(t) | x.stride() | x.cpu()
    x.type_as(i) | x.expand(3, 2, 2) | x.repeat(2, 1) | x.split(1) | x.chunk(2) | x.unbind()
    x.softmax(0) | x.cumsum(0) | x.masked_fill(x > 0, 1.0) | x.gather(0, i * 0) | x.tril()
    m.nn.Linear(2, 3)(x) | m.nn.ReLU()(x) | m.nn.Flatten()(x) | m.nn.init.ones_(x)
    m.nn.Sequential(m.nn.Linear(2, 2), m.nn.Tanh())(x) | m.nn.Parameter(x) | x.as_subclass(C)
    next(iter(x)) | list(reversed(x))[0] | x.requires_grad_() | 1 in x
"""
TEXTS = [text.strip() for line in CALLS.strip().split("\n") for text in line.split(" | ")]


def kinds(value: Any) -> Any:
    """The classes in a result, and its values."""
    if isinstance(value, tuple | list) and not hasattr(value, "numel"):
        return [kinds(x) for x in value]
    if hasattr(value, "detach"):
        return type(value).__name__, np.asarray(value.detach().tolist(), np.complex128)
    return type(value).__name__.lower().removeprefix("d")


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) or isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return bool(a[0] == b[0] and np.allclose(a[1], b[1], rtol=1e-4, atol=1e-5))
    return bool(a == b)


def called(m: Any, text: str) -> Any:
    cls, seen = logging_class(m)
    values = [[1.5, 2.5], [0.5, 3.5]]
    x = m.tensor(values).as_subclass(cls)
    i = m.tensor([[1, 2], [0, 3]]).as_subclass(cls)
    t = m.tensor([[1.0, 0.0], [2.0, 1.0]])
    seen.clear()
    m.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = eval(text, {"m": m, "F": m.nn.functional, "x": x, "i": i, "t": t, "C": cls})
    names = [name for name, _ in seen]
    return result, names


# PyTorch asks about its modules' inputs on the way, in other words than we do.
RANDOM = ("dropout", "Linear(")
INSIDE = ("m.nn.", "reversed", "iter(", "1 in x")


@pytest.mark.parametrize("text", TEXTS)
def test_calls_are_reported_and_wrapped_alike(text):
    ours, names = called(lg, text)
    theirs, wanted = called(torch, text)
    if any(word in text for word in RANDOM):
        assert type(ours).__name__ == type(theirs).__name__
    else:
        assert same(kinds(ours), kinds(theirs)), (kinds(ours), kinds(theirs))
    if not any(word in text for word in INSIDE):
        assert names == wanted


# ---------------------------------------------------------------------------------- whole programs


def propagation(m: Any) -> list[Any]:
    class A(m.Tensor):
        pass

    class B(A):
        pass

    class C(m.Tensor):
        pass

    t = m.ones(2)
    a, b, c = t.as_subclass(A), t.as_subclass(B), t.as_subclass(C)
    p = m.nn.Parameter(m.ones(2))
    found: list[Any] = [type(x).__name__ for x in (a + 1, a + b, b + a, a + p, p + a, p + 1, p * t)]
    for bad in (lambda: a + c, lambda: m.add(a, c), lambda: m.stack([c, a]), lambda: a.mul(c)):
        try:
            bad()
        except TypeError:
            found.append("TypeError")
    u = m.zeros(2)
    v = u.add_(a)
    found += [type(u).__name__, type(v).__name__]
    u += a
    found.append(type(u).__name__)
    found += [type(m.nn.Parameter(a)).__name__, isinstance(m.nn.Parameter(a), m.nn.Parameter)]
    found += [isinstance(a, m.nn.Parameter), repr(a), repr(b + 1)]
    return found


def gradients(m: Any) -> list[Any]:
    class Sub(m.Tensor):
        pass

    x = m.tensor([0.5, -1.0, 2.0]).as_subclass(Sub).requires_grad_()
    loss = (m.nn.functional.silu(x * 2 + 1) * x.tanh()).sum()
    (g,) = m.autograd.grad(loss, x, create_graph=True)
    second = m.autograd.grad((g * g).sum(), x, retain_graph=True)[0]
    loss.backward()
    found = [type(y).__name__ for y in (loss, g, x.grad, second)]
    return [*found, x.is_leaf, *np.round([*x.grad.tolist(), *second.tolist()], 4).tolist()]


def sharing(m: Any) -> list[Any]:
    class Sub(m.Tensor):
        pass

    x = m.zeros(3, requires_grad=True)
    y = x.as_subclass(Sub)
    z = m.Tensor._make_subclass(Sub, x, True)
    found = [y.is_leaf, type(y).__name__, y.grad_fn.name(), z.is_leaf, z.requires_grad]
    with m.no_grad():
        z.add_(1)
    found += [x.tolist(), y.tolist()]
    (y * 2).sum().backward()
    found += [x.grad.tolist(), z.grad is None]
    w = Sub([1.0, 2.0])
    found += [type(w).__name__, w.tolist(), type(Sub(2, 3)).__name__, tuple(Sub(2, 3).shape)]
    base = m.arange(3)
    alias = Sub(base)
    alias[0] = 7
    return [*found, base.tolist(), type(alias).__name__, str(alias.dtype).partition(".")[2]]


def copies(m: Any) -> list[Any]:
    class Unit(m.Tensor):
        @staticmethod
        def __new__(cls: Any, data: Any, unit: str = "1") -> Any:
            return m.Tensor.__new__(cls, data)

        def __init__(self, data: Any, unit: str = "1") -> None:
            self.unit = unit

    x = Unit([1.0, 2.0], "kg")
    y = copy.copy(x)  # PyTorch's deepcopy refuses subclasses that do not override new_empty
    found: list[Any] = [type(y).__name__, y.unit, y.tolist(), y is x]
    layer = m.nn.Linear(2, 1)
    layer.weight = m.nn.Parameter(Unit([[1.0, 2.0]], "m"))
    found += [type(layer.state_dict()["weight"]).__name__]
    found += [[n for n, _ in layer.named_parameters()], (x + 1).__dict__.get("unit")]
    return found


def units(m: Any) -> list[Any]:
    class Unit(m.Tensor):
        unit = "1"

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = super().__torch_function__(func, types, args, kwargs or {})
            units = [a.unit for a in args if isinstance(a, Unit)]
            if isinstance(result, Unit):
                if func in (m.mul, m.Tensor.mul):
                    result.unit = "*".join(units)
                elif func in (m.add, m.Tensor.add) and len(set(units)) > 1:
                    raise ValueError("units differ")
                elif units:
                    result.unit = units[0]
            return result

    x, y = m.ones(2).as_subclass(Unit), m.ones(2).as_subclass(Unit)
    x.unit, y.unit = "m", "s"
    found = [(x * y).unit, m.mul(x, y).unit, (x + x).unit, x.sum().unit, x[0].unit]
    try:
        x + y
    except ValueError as error:
        found.append(str(error))
    return found


def ducks(m: Any) -> list[Any]:
    handled: dict[Any, Any] = {}

    def implements(function: Any) -> Any:
        def decorate(handler: Any) -> Any:
            handled[function] = functools.update_wrapper(handler, function)
            return handler

        return decorate

    class Diagonal:
        def __init__(self, n: int, value: float) -> None:
            self.n, self.value = n, value

        def tensor(self) -> Any:
            return self.value * m.eye(self.n)

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            known = all(issubclass(t, m.Tensor | Diagonal) for t in types)
            if func not in handled or not known:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    def dense(x: Any) -> Any:
        return x.tensor() if isinstance(x, Diagonal) else x

    @implements(m.mean)
    def mean(input: Any) -> Any:
        return input.value / input.n

    @implements(m.add)
    def add(input: Any, other: Any) -> Any:
        if isinstance(input, Diagonal) and isinstance(other, Diagonal):
            return Diagonal(input.n, input.value + other.value)
        return m.add(dense(input), dense(other))

    @implements(m.nn.functional.relu)
    def relu(input: Any, inplace: bool = False) -> Any:
        return Diagonal(input.n, max(input.value, 0))

    @implements(m.Tensor.mul)
    def mul(input: Any, other: Any) -> Any:
        return dense(input) * dense(other)

    @implements(m.cat)
    def cat(tensors: Any, dim: int = 0) -> Any:
        return m.cat([dense(x) for x in tensors], dim)

    d, two = Diagonal(2, 3.0), m.full((2, 2), 2.0)
    found = [m.mean(d), m.add(d, d).value, m.add(two, d).tolist(), m.add(d, two).tolist()]
    found += [m.nn.functional.relu(Diagonal(2, -1.0)).value, (two * d).tolist()]
    found += [m.cat([two, d], dim=1).tolist(), m.overrides.is_tensor_like(d)]
    for bad in (lambda: m.exp(d), lambda: two - d, lambda: m.nn.functional.gelu(d)):
        try:
            bad()
        except TypeError as error:
            found.append(type(error).__name__)
    return found


def metadata(m: Any) -> list[Any]:
    class Metadata:
        def __init__(self, data: Any, metadata: Any = None, **kwargs: Any) -> None:
            self._t = m.as_tensor(data, **kwargs)
            self._metadata = metadata

        def __repr__(self) -> str:
            return f"Metadata:\n{self._metadata}\n\ndata:\n{self._t}"

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
            args = [getattr(a, "_t", a) for a in args]
            assert metadatas
            return Metadata(func(*args, **(kwargs or {})), metadata=metadatas[0])

    x = Metadata([[1.0, 2.0], [3.0, 4.0]], metadata={"owner": "me"})
    t = m.ones(2, 2)
    return [repr(m.add(x, t)), repr(m.mul(x, x)), repr(t + x), repr(m.nn.functional.relu(x))]


def modes(m: Any) -> list[Any]:
    seen: list[Any] = []

    class Noting(m.overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((self.name, func.__name__, [t.__name__ for t in types]))
            return func(*args, **(kwargs or {}))

    class Sub(m.Tensor):
        pass

    x = m.ones(2).as_subclass(Sub)
    with Noting("outer"):
        m.zeros(1)
        with Noting("inner"):
            y = m.exp(x) + 1
        m.nn.functional.relu(x)
        z = x.add(1)
    m.ones(1)
    return [seen, type(y).__name__, type(z).__name__]


def disabled(m: Any) -> list[Any]:
    cls, seen = logging_class(m)
    x = m.ones(2).as_subclass(cls)
    seen.clear()
    with m._C.DisableTorchFunctionSubclass():
        found = [
            type(x + 1).__name__,
            type(m.exp(x)).__name__,
            type(x.as_subclass(m.Tensor)).__name__,
        ]

    class Plain(m.Tensor):
        __torch_function__ = m._C._disabled_torch_function_impl

    p = m.ones(2).as_subclass(Plain)
    found += [type(x.as_subclass(m.Tensor)).__name__, seen]
    return [*found, type(p + 1).__name__, type(m.nn.functional.relu(p)).__name__]


def own_functions(m: Any) -> list[Any]:
    def scale(x: Any, by: float = 2.0) -> Any:
        if m.overrides.has_torch_function((x,)):
            return m.overrides.handle_torch_function(scale, (x,), x, by=by)
        return x * by

    class Sub(m.Tensor):
        pass

    class Answer:
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return [func is scale, [t.__name__ for t in types], len(args), kwargs]

    found: list[Any] = [scale(m.ones(1)).tolist(), type(scale(m.ones(1).as_subclass(Sub))).__name__]
    o = m.overrides
    found += [scale(Answer(), by=3.0), o.handle_torch_function(scale, (m.ones(1), Answer()), 1)]
    found += [o.has_torch_function((m.ones(1), Answer()))]
    found += [o.has_torch_function((m.ones(1), 1)), o.has_torch_function_unary(Answer())]
    found += [o.has_torch_function_variadic(1, Answer())]
    found += [o.is_tensor_like(m.ones(1)), o.is_tensor_like(Answer()), o.is_tensor_like(1)]
    found += [o.is_tensor_method_or_property(m.Tensor.add)]
    found += [o.is_tensor_method_or_property(m.Tensor.shape.__get__)]
    found += [o.is_tensor_method_or_property(m.add)]
    overridable = o.get_overridable_functions()
    found += [m.add in overridable[m], m.Tensor.add in overridable[m.Tensor]]
    found += [m.zeros in o.get_ignored_functions(), m.add in o.get_testing_overrides()]
    return found


def functions_with_subclasses(m: Any) -> list[Any]:
    class Sub(m.Tensor):
        pass

    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = m.ones(2).as_subclass(Sub).requires_grad_()
    y = Double.apply(x)
    y.sum().backward()
    return [type(y).__name__, type(x.grad).__name__, x.grad.tolist()]


PROGRAMS: list[Program] = [
    propagation, gradients, sharing, copies, units, ducks, metadata, modes, disabled, own_functions,
    functions_with_subclasses,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_program_gives_the_same(program):
    assert program(lg) == program(torch)


def test_pickles_keep_the_class():
    x = lg.ones(2).as_subclass(Kept)
    x.note = "n"
    y = pickle.loads(pickle.dumps(x))
    assert (type(y), y.note, y.tolist()) == (Kept, "n", [1, 1])


class Kept(lg.Tensor):
    """Found by pickle."""


@pytest.mark.parametrize(
    "call",
    [lambda a, b: b + a, lambda a, b: a + b, lambda a, b: torch.add(a, b), lambda a, b: b.mul(a)],
)
def test_tensors_of_both_are_refused(call):
    """PyTorch asks our tensors about its functions, which they know nothing about."""
    with pytest.raises(TypeError):
        call(torch.ones(2), lg.ones(2))


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept:DeprecationWarning")
def test_tensors_of_torch_are_converted():
    """Asked about a function of ours, they call it: it does what it does."""
    t = torch.arange(6).reshape(2, 3)
    y = lg.ones(2, 3, dtype=lg.int64)
    made = [lg.from_dlpack(t), lg.as_tensor(t), lg.tensor(t), lg.asarray(t), y.new_tensor(t)]
    made += [lg.tensor([t[0], t[1]]), y.clone().copy_(t), lg.as_tensor(torch.nn.Buffer(t))]
    for x in made:
        assert type(x) is lg.Tensor
        assert x.tolist() == t.tolist()
    with pytest.raises(TypeError, match="must be Tensor or number, not torch.Tensor. Convert it"):
        lg.add(y, t)
