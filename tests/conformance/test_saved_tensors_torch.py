"""`saved_tensors_hooks` sees what PyTorch's sees, for the commonest operations."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import livegrad as lg  # noqa: E402

PROGRAMS: dict[str, Any] = {
    "add": lambda t, x, y: x + y,
    "mul": lambda t, x, y: x * y,
    "mul by a constant": lambda t, x, y: x * y.detach(),
    "mul by a number": lambda t, x, y: x * 3,
    "exp": lambda t, x, y: x.exp(),
    "sin": lambda t, x, y: x.sin(),
    "relu": lambda t, x, y: x.relu(),
    "tanh": lambda t, x, y: x.tanh(),
    "sigmoid": lambda t, x, y: x.sigmoid(),
    "softmax": lambda t, x, y: x.softmax(-1),
    "matmul": lambda t, x, y: x @ y,
    "sum": lambda t, x, y: x.sum(),
    "views": lambda t, x, y: x.t().reshape(-1)[1:],
    "chain": lambda t, x, y: (x * y).exp() + x,
    "nothing wanted": lambda t, x, y: x.detach() * 2,
}


def seen(t: Any, program: Any) -> tuple[list[Any], int]:
    x, y = [t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) for _ in range(2)]
    packed, unpacked = [], []
    with t.autograd.graph.saved_tensors_hooks(
        lambda v: packed.append((tuple(v.shape), v.requires_grad, v.grad_fn is None)) or v,
        lambda v: unpacked.append(1) or v,
    ):
        z = program(t, x, y)
    if z.requires_grad:
        z.sum().backward()
    return sorted(packed), len(unpacked)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_packed(name: str) -> None:
    assert seen(torch, PROGRAMS[name]) == seen(lg, PROGRAMS[name])
