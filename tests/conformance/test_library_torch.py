"""The same operation, defined by the same lines, in both libraries."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import livegrad as lg


def define(m: Any, seen: list[Any]) -> Any:
    """An operation with arguments of every sort, from the calls that both libraries have."""

    def scaled(x, others, power: int, *, scale: float = 1.0):
        total = x.numpy() ** power * scale + sum([y.numpy() for y in others])
        return m.from_numpy(total), m.from_numpy(np.sign(total).astype(np.int64))

    scaled.__annotations__ = {
        "x": m.Tensor,
        "others": list[m.Tensor],
        "power": int,
        "scale": float,
        "return": tuple[m.Tensor, m.Tensor],
    }
    op = m.library.custom_op("conformance::scaled", scaled, mutates_args=())

    @m.library.register_fake("conformance::scaled")
    def _(x, others, power, *, scale=1.0):
        return m.empty_like(x), m.empty(x.shape, dtype=m.int64, device=x.device)

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        x, others, power = inputs
        seen.append((len(others), power, keyword_only_inputs, ctx.needs_input_grad))
        ctx.save_for_backward(x)
        ctx.power, ctx.scale, ctx.count = power, keyword_only_inputs["scale"], len(others)

    def backward(ctx, g, signs):
        (x,) = ctx.saved_tensors
        return g * ctx.power * ctx.scale * x ** (ctx.power - 1), [g] * ctx.count, None

    m.library.register_autograd("conformance::scaled", backward, setup_context=setup_context)
    return op


def outcome(m: Any) -> Any:
    seen: list[Any] = []
    op = define(m, seen)
    x = m.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = m.tensor([5.0, 5.0, -50.0], requires_grad=True)
    values, signs = op(x, [y * 1, y * 2], 2, scale=0.5)
    values.sum().backward()
    return (
        values.tolist(), signs.tolist(), str(signs.dtype).split(".")[-1], values.requires_grad,
        signs.requires_grad, x.grad.tolist(), y.grad.tolist(), [s[:3] for s in seen],
    )  # fmt: skip


def test_custom_op() -> None:
    assert outcome(lg) == outcome(torch)


@pytest.mark.parametrize("m", [lg, torch], ids=["livegrad", "torch"])
def test_no_gradient_was_registered(m: Any) -> None:
    def twice(x):
        return m.from_numpy(x.numpy() * 2)

    twice.__annotations__ = {"x": m.Tensor, "return": m.Tensor}
    op = m.library.custom_op("conformance::twice", twice, mutates_args=())
    op.register_fake(m.empty_like)
    y = op(m.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


# ----------------------------------------------------------------- functions that write to tensors


class Writers:
    """Operations that write to their arguments, in one of the libraries."""

    def __init__(self, m: Any) -> None:
        self.m = m
        tensor, several, maybe = m.Tensor, list[m.Tensor], m.Tensor | None
        self.fill = self.define("fill", _fill, ("x",), x=tensor, value=float)
        self.number = self.define("number", _write_array, ("x",), x=tensor)
        self.copy = self.define("copy", _copy, ("x",), x=tensor, y=tensor)
        self.both = self.define("both", _add_and_multiply, ("x", "y"), x=tensor, y=tensor)
        self.lists = self.define("lists", _add_to_all, ("xs", "more"), xs=several, more=maybe)
        self.result = self.define("result", _add_and_double, ("x",), tensor, x=tensor, y=tensor)
        self.any = self.define("any", _fill, "unknown", x=tensor, value=float)
        self.itself = self.define("itself", _returned, ("x",), tensor, x=tensor)
        self.broken = self.define("broken", _broken, ("x",), x=tensor)

    def define(
        self, name: str, function: Any, written: Any, result: Any = None, **kinds: Any
    ) -> Any:
        def call(*args):
            return function(*args)

        parameters = [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
            for n, kind in kinds.items()
        ]
        call.__signature__ = inspect.Signature(parameters, return_annotation=result)
        call.__annotations__ = {**kinds, "return": result}
        return self.m.library.custom_op(f"writers::{name}", call, mutates_args=written)


def _fill(x, value):
    x.fill_(value)


def _write_array(x):
    x.numpy()[:] = 5


def _copy(x, y):
    x.copy_(y)


def _add_and_multiply(x, y):
    x.add_(1)
    y.mul_(2)


def _add_to_all(xs, more):
    for x in [*xs, *([] if more is None else [more])]:
        x.add_(1)


def _add_and_double(x, y):
    x.add_(1)
    return y * 2


def _returned(x):
    x.add_(1)
    return x


def _broken(x):
    x.add_(1)
    raise ValueError("no")


def _written(m, w):
    x = m.zeros(3)
    assert w.fill(x, 2.0) is None
    return x.tolist(), x._version


def _array(m, w):
    x = m.zeros(2)
    w.number(x)
    return x.tolist(), x._version


def _views(m, w):
    x = m.zeros(2, 3)
    row = x[0]
    w.fill(x[1], 4.0)
    w.fill(x.t()[0], 7.0)
    return x.tolist(), x._version, row.tolist(), row._version


def _leaf(m, w):
    x = m.zeros(3, requires_grad=True)
    w.fill(x, 2.0)
    return x.tolist(), x.requires_grad, x.is_leaf, x._version


def _interior(m, w):
    leaf = m.ones(3, requires_grad=True)
    x = leaf * 2
    w.fill(x, 2.0)
    (x * leaf).sum().backward()
    return x.tolist(), x.grad_fn.name(), leaf.grad.tolist()


def _no_gradient_flows_in(m, w):
    x = m.zeros(3)
    w.copy(x, m.ones(3, requires_grad=True))
    return x.tolist(), x.requires_grad


def _result(m, w):
    x, y = m.zeros(2), m.ones(2, requires_grad=True)
    z = w.result(x, y)
    found = z.tolist(), z.requires_grad, x.requires_grad, x.tolist(), x._version
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        z.sum().backward()
    return found


def _all_of_them(m, w):
    a, b = m.zeros(2), m.zeros(1)
    w.lists([a, b], None)
    w.lists([a], b)
    return a.tolist(), b.tolist(), a._version, b._version


def _twice_the_same(m, w):
    x = m.ones(2)
    w.both(x, x)
    return x.tolist(), x._version


def _unknown(m, w):
    x = m.zeros(2)
    w.any(x, 3.0)
    return x.tolist(), x._version


def _itself(m, w):
    w.itself(m.zeros(2))


def _failed(m, w):
    x = m.zeros(2)
    with pytest.raises(ValueError, match="no"):
        w.broken(x)
    return x.tolist(), x._version


def _expanded(m, w):
    x = m.zeros(1).expand(3)
    w.fill(x, 2.0)
    return x.tolist()


def _inference(m, w):
    with m.inference_mode():
        x = m.zeros(2)
    w.fill(x, 1.0)


def _registered(m, w):
    w.fill.register_autograd(lambda ctx, g: (None, None))


def _no_such_name(m, w):
    w.define("nobody", _fill, ("y",), x=m.Tensor, value=float)


def _no_tensor(m, w):
    w.define("value", _fill, ("value",), x=m.Tensor, value=float)


def _a_word(m, w):
    w.define("word", _fill, "x", x=m.Tensor, value=float)


PROGRAMS = [
    _written, _array, _views, _leaf, _interior, _no_gradient_flows_in, _result, _all_of_them,
    _twice_the_same, _unknown, _itself, _failed, _expanded, _inference, _registered,
    _no_such_name, _no_tensor, _a_word,
]  # fmt: skip


@pytest.fixture(scope="module")
def writers() -> dict[Any, Writers]:
    return {m: Writers(m) for m in (lg, torch)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_functions_that_write(program: Any, writers: dict[Any, Writers]) -> None:
    def outcome(m: Any) -> Any:
        try:
            return program(m, writers[m])
        except (RuntimeError, ValueError) as error:
            return type(error)

    assert outcome(lg) == outcome(torch)


# ------------------------------------------------------------------- operations with a schema


def declared(m: Any, ops: Any) -> list[Any]:
    """What a library of operations returns, defined by the same lines."""
    library = m.library.Library("declared", "DEF")
    library.define("mixed(Tensor a, Tensor b, float c=1, *, int[2] k=3) -> (Tensor, Tensor)")
    library.impl(
        "mixed", lambda a, b, c=1.0, k=(3, 3): (a * b + c, a + sum(k)), "CompositeImplicitAutograd"
    )
    library.define("square(Tensor x) -> Tensor")
    library.impl("square", lambda x: m.from_numpy(x.detach().numpy() ** 2), "CPU")
    m.library.register_fake("declared::square", m.empty_like)
    m.library.register_autograd(
        "declared::square",
        lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    m.library.define("declared::add.Tensor", "(Tensor x, Tensor y) -> Tensor")
    m.library.define("declared::add.Scalar", "(Tensor x, Scalar y) -> Tensor")
    m.library.impl("declared::add.Tensor", "cpu", lambda x, y: x + y)
    m.library.impl("declared::add.Scalar", "default")(lambda x, y: x + 10 * y)
    x = m.tensor([3.0, 4.0], requires_grad=True)
    first, second = ops.declared.mixed(x, x, 2, k=[1, 2])
    squared = ops.declared.square(x)
    (first + second + squared).sum().backward()
    added = [ops.declared.add(x, x), ops.declared.add(x, 2), ops.declared.add.Scalar(x, 3)]
    found = [first, second, ops.declared.mixed.default(x, x)[1], squared, x.grad, *added]
    return [y.tolist() for y in found]


def test_declared_operations() -> None:
    from livegrad.porting.modules import ops

    assert declared(lg, ops) == declared(torch, torch.ops)
