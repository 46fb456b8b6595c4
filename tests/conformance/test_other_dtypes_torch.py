"""Tensors that are given values of another dtype, or divide by less than nothing, as in PyTorch."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from differential.run import quietly, run  # noqa: E402

PROGRAMS: dict[str, tuple[str, ...]] = {}
DTYPES = ("float64", "bfloat16")

for dtype, first in itertools.product(DTYPES, ("", "(d * 2).sum().backward()")):
    PROGRAMS[f"a leaf becomes {dtype} before a gradient is added {first}"] = (
        "m = T.nn.Module(); m.d = d = T.nn.Parameter(T.arange(3.0))",
        first or "pass",
        "e = (d * d).sum()",
        f"m.to(T.{dtype})",
        "e.backward()",
        "check()",
    )
for dtype in DTYPES:
    PROGRAMS[f"a gradient comes to {dtype}, in a place whose value is gone"] = (
        "a = T.nn.Linear(3, 3); [p.data.fill_(0.25) for p in a.parameters()]",
        "b = T.arange(6.0).reshape(2, 3); c = T.optim.SGD(a.parameters(), lr=0.25)",
        "f = a(b)",
        f"f.data = f.to(T.{dtype})",
        "a(b).sum().backward(); c.step()",
        "g = T.nn.Parameter(f)",
        "(f * T.arange(6).reshape(2, 3)).sum().backward()",
        "check()",
    )
    PROGRAMS[f"a bias of {dtype} is added to a product of what has gaps"] = (
        "w = T.arange(6.0).reshape(2, 3).requires_grad_()",
        f"b = T.ones(2, dtype=T.{dtype}, requires_grad=True); x = T.arange(18.0).reshape(3, 2, 3)",
        "c = F.linear(x.transpose(0, 1), w, b); d = F.linear(x[:, :1].expand(3, 2, 3), w, b)",
        "e = F.linear(x[0, :, 0].expand(3, 2).t()[0], w, b)",
        "(c.sum() + d.sum() + e.sum()).backward()",
        "check()",
        "F.linear(x, w, b)",
        "F.linear(x[0].t().contiguous().t(), w, b)",
        "F.linear(x[0, 0], w, b)",
    )
for name, correction in itertools.product(("var", "std"), (1, 2, 2.5, 3, 4)):
    PROGRAMS[f"the gradient of {name} of fewer values than {correction}"] = (
        "a = T.tensor([[1.0, 2.5, -3.0], [0.25, 1.0, 4.0]], dtype=T.float64, requires_grad=True)",
        f"b = a.{name}(-1, correction={correction}); c = a.{name}(correction={correction} + 3)",
        f"d = a.{name}((0,), correction={correction}, keepdim=True)",
        *[f"{y}_a, = T.autograd.grad({y}.sum(), [a], retain_graph=True)" for y in "bcd"],
        "check()",
    )
PROGRAMS["fill_diagonal_ writes to a view"] = (
    "with T.inference_mode(): e = T.ones(3, 3) * 2",
    "e.detach().fill_diagonal_(-1)",
    "e.detach().add_(1)",
    "check()",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    with quietly():
        found = run(PROGRAMS[name])
    assert found is None, found
