"""The same operation, defined by the same lines, in both libraries."""

from __future__ import annotations

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
