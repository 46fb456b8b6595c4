"""What `func` returns may repeat elements: they lie in memory once, as PyTorch's do."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from differential.run import quietly, run  # noqa: E402

RESULTS = {
    "a Jacobian of sums": "T.func.jacrev(lambda t: t.sum(0))(x)",
    "a gradient of a sum": "T.func.grad(lambda t: t.sum())(x)",
    "what vjp gives": "T.func.vjp(lambda t: t.sum(0), x)[1](T.arange(3.0))[0]",
    "expanded examples": "T.func.vmap(lambda r: r.sum().expand(3))(x)",
    "what is the same for all examples": "T.func.vmap(lambda r: T.arange(3.0))(x)",
    "what can be differentiated": "T.func.vmap(lambda r: r.sum().expand(3))(w)",
}
USES = {
    "nothing": "pass",
    "detach": "f = e.detach()",
    "a part is written": "f = e.detach(); f[0, 0] = 7; g = e * 1",
    "an element is added to": "f = e.detach()[None, 1]; f += 3",
    "all of it is written": "e.add_(1)",
    "it is written by index": "e.detach().index_put_((T.tensor([0]),), T.tensor(5.0))",
    "it is copied to": "e.detach().copy_(e + 1)",
    "set_": "f = e.detach(); f.set_(e.detach())",
    "its storage": "n = e.untyped_storage().nbytes(); f = e.storage_offset()",
    "its places": "f = e.detach(); p = [y.data_ptr() - e.data_ptr() for y in (f, f[1])]",
    "as_strided": "f = e.detach().as_strided((1,), (1,)); f += 1",
    "a storage is shared": "f = T.empty(0).set_(e.detach().untyped_storage())",
    "copies": "f = e.reshape(-1); g = e.contiguous(); h = e.clone()",
    "a row is viewed": "f = e.detach()[1]; g = f.mT if f.ndim > 1 else f.view(-1); g.zero_()",
    "a view": "f = e._is_view()",
    "made a leaf": "f = e.detach().requires_grad_(); (f * 2).sum().backward()",
    "it is saved": "f = __import__('copy').deepcopy(e.detach())",
    "a gradient of what was written": "e[0].mul_(2); k = e.sum(); k.requires_grad and k.backward()",
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("use", USES)
def test_as_in_torch(result: str, use: str) -> None:
    lines = (
        "x = T.tensor([[-1.0, 1.5, 0.5], [-0.75, 1.5, -2.0]]); w = x.clone().requires_grad_()",
        f"e = {RESULTS[result]}",
        *USES[use].split("; "),
        "check()",
    )
    with quietly():
        found = run(lines)
    assert found is None, found


CONSTANTS = (
    *("lambda r: T.zeros_like(r)", "lambda r: T.ones_like(r) * 3", "lambda r: r.new_full((2,), 3)"),
    *("T.func.grad(lambda r: r.sum())", "T.func.grad(lambda r: (r * T.arange(3.0)).sum())"),
    *("T.func.jacrev(lambda r: r * 2)", "T.func.jacfwd(lambda r: r * 2)"),
    *("T.func.hessian(lambda r: (r * r).sum())", "lambda r: T.arange(3.0)", "lambda r: x[0]"),
)


@pytest.mark.parametrize("function", CONSTANTS)
def test_what_is_made_for_each_example(function: str) -> None:
    """It can be written if it was made like an example, and not if it was made like nothing."""
    lines = (
        "x = T.tensor([[-1.0, 1.5, 0.5], [-0.75, 1.5, -2.0]])",
        f"e = T.func.vmap({function})(x * 2)",
        "e.mul_(2)",
        "f = e.detach(); f[0, 0] = 7",
        "check()",
    )
    with quietly():
        found = run(lines)
    assert found is None, found


VIEWS = {
    "itself": "lambda r: r",
    "a part": "lambda r: r[1:]",
    "an element": "lambda r: r[0, 1]",
    "transposed": "lambda r: r.t()",
    "reshaped": "lambda r: r.reshape(-1)",
    "reshaped, which copies": "lambda r: r.t().reshape(-1)",
    "detached": "lambda r: r.detach()",
    "an alias": "lambda r: r.view_as(r)",
    "a diagonal": "lambda r: r.diagonal()",
    "several": "lambda r: r.unbind(0)[1]",
    "windows": "lambda r: r.unfold(0, 2, 1)",
    "repeated": "lambda r: r.unsqueeze(0).expand(2, 3, 4)",
    "of examples of examples": "T.func.vmap(lambda r: r[1:])",
    "turned, which copies": "lambda r: r.flip(0)",
}


@pytest.mark.parametrize("dims", ["", "in_dims=1", "out_dims=1", "in_dims=1, out_dims=1"])
@pytest.mark.parametrize("how", VIEWS)
@pytest.mark.parametrize("source", ["x", "w", "w * 1"])
def test_views_of_arguments(how: str, dims: str, source: str) -> None:
    """Examples one after the other are shown as each of them is."""
    if "element" in how or "of examples" in how:
        dims = dims.replace("out_dims=1", "out_dims=0")
    lines = (
        "x = T.arange(36.0).reshape(3, 3, 4); w = x.clone().requires_grad_()",
        f"c = {source}; y = T.func.vmap({VIEWS[how]}, {dims})(c)",
        "check()",
        "with T.no_grad(): c.mul_(2)",
        "check()",
        "y.detach()[0] = 5",
        "check()",
        "z = (y * y).sum(); z.requires_grad and z.backward()",
        "check()",
    )
    with quietly():
        found = run(lines)
    assert found is None, found


NEW = ("t.mean()", "t.mean(0)", "t.mean(-1, keepdim=True)", "t.repeat(2, 1)", "t[0] * 1")


@pytest.mark.parametrize("function", NEW)
@pytest.mark.parametrize("way", ["jacrev", "jacrev(T.func.grad", "vmap"])
def test_what_does_not_repeat_can_be_written(function: str, way: str) -> None:
    """PyTorch's rules make a new tensor here, each element of which has a place of its own."""
    body = f"({function}).sum()" if "grad" in way else function
    lines = (
        "x = T.tensor([[[-1.0, 1.5, 0.5], [-0.75, 1.5, -2.0]]] * 2)[0 if 'jac' in way else ...]",
        f"e = T.func.{way}(lambda t: {body}){')' * way.count('(')}(x)",
        "e.detach().mul_(2)",
        "check()",
    )
    with quietly():
        found = run((f"way = {way!r}", *lines), frozenset({"stride", "is_contiguous"}))
    assert found is None, found
