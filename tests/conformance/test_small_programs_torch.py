"""Short programs that once differed from PyTorch: what the differential fuzzer found, shrunk."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from differential.run import quietly, run  # noqa: E402

LINEAR = "m = T.nn.Linear(3, 3, bias=False); m.weight.data.copy_(T.eye(3))"
CONV = "m = T.nn.Conv1d(2, 2, 2); [p.data.copy_(T.arange(p.numel()).reshape(p.shape)) for p in m.parameters()]"  # noqa: E501
PROGRAMS = {
    "strides of signs and magnitudes of complex numbers": (
        "a = T.ones(2, 3, 4, dtype=T.complex64)",
        "b = T.sgn(a.permute(2, 0, 1))",
        "c = T.abs(a[..., 1:1])",
        "d = T.abs(a.permute(2, 0, 1))",
        "check()",
    ),
    "a view of .data follows what is written to that, history included": (
        "a = T.tensor([[2.0, 1.0], [2.5, 1.5]], requires_grad=True)",
        "b = (a * 2).data",
        "c = b.t()",
        "b *= a",
        "check()",
        "c.sum().backward()",
        "check()",
    ),
    "a view, made before what it shows was made a leaf, of memory that NumPy sees": (
        "a = T.ones(2, 3)",
        "b = a.view(3, 2)",
        "c = a.numpy()",
        "d = b.expand((2, 3, 2))",
        "a.requires_grad_()",
        "check()",
        "del c",
        "e = d * 2",
        "f = d[0] + 1",
        "check()",
    ),
    "nothing overlaps with what is empty": (
        "a = T.ones(3, 1, 2)",
        "b = a[:, 1:1]",
        "T.mul(b, a, out=b)",
        "b.add_(a)",
    ),
    "no gradient flows to integers that are copied to": (
        "a = T.tensor(2.25, requires_grad=True)",
        "b = T.tensor([[6], [2]])",
        "c, d = b.split([0, 2])",
        "d[0].copy_(a)",
        "with T.no_grad(): e = b[:]",
        "e.copy_(a)",
        "e.fill_(a)",
        "check()",
    ),
    "a mask without dims is read before what it shares memory with is written": (
        "a = T.tensor([True, False])",
        "b = a[0]",
        "a[b] = T.tensor([False, True])",
        "check()",
        "c = T.tensor(False)",
        "d = c.reshape(1)",
        "d[c] *= T.tensor(True)",
        "d[..., c] = c",
    ),
    "a view of other elements than the storage has room for": (
        "a = T.tensor([[1.75, 1.25, 2.25]])",
        "b = a.as_strided((1, 2), (0, 1), 0)",
        "b.view(T.complex64)[T.tensor([0])] *= T.tensor([[-1.5]])",
        "check()",
        "b.view(T.float64).zero_()",
        "check()",
    ),
    "what a convolution without a batch returns is a view": (
        CONV,
        "x = T.tensor([[-3.0, 1.0, -3.0], [-1.0, -0.5, -1.0]], requires_grad=True)",
        "y = m(x)",
        "z = T.conv_transpose1d(x, m.weight)",
        "y.register_hook(lambda g: g * 2)",
        "z.register_hook(lambda g: g * 2)",
        "y.div_(T.tensor([2.5]))",
        "z.mul_(3)",
        "(y.sum() + z.sum()).backward()",
        "check()",
    ),
    "a value written again after its graph is gone": (
        LINEAR,
        "x = T.arange(9.0).reshape(3, 3)",
        "o = T.optim.SGD(m.parameters(), lr=0.25)",
        "y = m(x)",
        "y.data.sign_()",
        "y.sum().backward()",
        "y.detach().neg_()",
        "o.zero_grad(); m(x).sum().backward(); o.step()",
        "y.detach().add_(6)",
        "check()",
    ),
    "a value whose history was taken away after its graph is gone": (
        LINEAR,
        "x = T.arange(9.0).reshape(3, 3)",
        "o = T.optim.SGD(m.parameters(), lr=0.25)",
        "y = m(x); v = y.unflatten(1, (1, 3)); y.detach_()",
        "z = m(x); w = z[0]; z.detach_(); del z",
        "(v.sum() + w.sum()).backward(); o.step()",
        "check()",
        "with T.no_grad(): w.mul_(2)",
        "s = w.as_strided((9,), (1,), 0)",
        "check()",
    ),
    "views of what took another shape in place, and became a leaf": (
        "a = T.arange(6.0).reshape(2, 3) * 1; a.t_(); b = a[0]; c = a[1]; c.mul_(2)",
        "d = T.arange(6.0); d.resize_(2, 2); e = d[0]",
        "a.requires_grad = True; d.requires_grad_()",
        "assert b.requires_grad and c.requires_grad and e.requires_grad",
        "check()",
        "with T.no_grad(): a.mul_(3); e.add_(1)",
        "check()",
        "e.add_(1)",
        "(c * c).sum().backward()",
        "check()",
    ),
    "views of what took another shape in place, and was written": (
        "w = T.ones(1, requires_grad=True)",
        "a = T.arange(6.0).reshape(2, 3) * 1; a.t_(); b = a[0]; c = a[1]",
        "a.mul_(w); b.grad_fn; b.mul_(2)",
        "(a.sum() + (b * c).sum()).backward()",
        "check()",
    ),
    "histories of what has a storage that grew through detach()": (
        LINEAR,
        "w = T.ones(3, requires_grad=True); a = w.detach(); a.resize_(5)",
        "y = w * 2; v = y[:2]; b = y.detach(); b.resize_(5)",
        "assert w.requires_grad and w.is_leaf and y.grad_fn is not None and v.requires_grad",
        "with T.no_grad(): a[0] = 7; a[3:] = 1; b[1] = 3; b[3:] = 1",
        "check()",
        "((w * w).sum() + (y * y).sum() + v.sum()).backward()",
        "check()",
        "x = T.arange(9.0).reshape(3, 3)",
        "o = T.optim.SGD(m.parameters(), lr=0.25)",
        "z = m(x); c = z.detach(); c.resize_(4, 3); c[3] = 1",
        "z.sum().backward(); o.step()",
        "check()",
    ),
    "one of several views of .data, made to show what they are views of": (
        "a = T.ones(2, 3, requires_grad=True)",
        "b = a.data",
        "c, d = b.unbind(0)",
        "c.data = b",
        "d.data = a",
        "check()",
        "c.add_(1)",
        "check()",
    ),
    "hooks on a view made before its base required a gradient": (
        "a = T.ones(4)",
        "b = a[:2]",
        "a.requires_grad_()",
        "c = b * 2",
        "b.register_hook(lambda g: log.append(('b', g.clone())))",
        "b.register_post_accumulate_grad_hook(lambda x: log.append(('after', 1)))",
        "c.sum().backward()",
        "check()",
    ),
    "a view made before its base required a gradient, when NumPy writes to both": (
        "a = T.ones(4)",
        "b = a[:2]",
        "a.requires_grad_()",
        "check()",
        "c = a.detach().numpy()",
        "c.fill(3)",
        "d = b * 2",
        "e = b[:1]",
        "f = e.squeeze()",
        "check()",
    ),
    "views of bits, and detached tensors, of inference mode": (
        "a = T.ones(4)",
        "with T.inference_mode(): b = a * 2; c = b.detach(); d = a.view(T.int32); e = b.data",
        "f = b.view(T.int32); g = f[:2]; h = b.detach(); i = h.detach(); j = h[:2]; k = h.data",
        "made = [x.is_inference() for x in (b, c, d, e, f, g, h, i, j, k)]",
        "check()",
        *(f"{x}.add_(1)" for x in "abcdefghijk"),
        "check()",
        *(f"{x}.detach().add_(1)" for x in "abcdefghijk"),
        "check()",
    ),
    "a parameter is copied without its gradient": (
        LINEAR,
        "m(T.ones(1, 3)).sum().backward()",
        "p = T.nn.Parameter(T.ones(2)); p.note = 3; p.sum().backward()",
        "import copy; q = copy.deepcopy(p); w, v = copy.deepcopy([m.weight, m.weight])",
        "x = T.ones(2, requires_grad=True); x.sum().backward(); y = copy.deepcopy(x)",
        "n = copy.deepcopy(m).weight; noted = hasattr(q, 'note'); same = w is v",
        "check()",
    ),
}

LEAF = "a = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)"
for mode in ("T.no_grad()", "T.enable_grad()"):
    PROGRAMS |= {
        f"a view with a hook, reshaped in place, {mode}": (
            LEAF,
            "y = (a * 2).t()",
            "y.register_hook(lambda g: g * 2)",
            f"with {mode}: y.unsqueeze_(0)",
            "(y * T.arange(4.0).reshape(2, 2)).sum().backward()",
            "check()",
        ),
        f"a view with a hook, of what is reshaped in place, {mode}": (
            LEAF,
            "b = a * 2",
            "y = b.t()",
            "y.register_hook(lambda g: g * 2)",
            f"with {mode}: b.unsqueeze_(0)",
            "(y * T.arange(4.0).reshape(2, 2)).sum().backward()",
            "check()",
        ),
    }
for name, made in {"a view": "a[:]", "a sum": "a + 1", "a product": "a * 2"}.items():
    PROGRAMS[f"{name} of a leaf that is reshaped in place"] = (
        LEAF,
        f"y = {made}",
        "with T.no_grad(): a.unsqueeze_(0)",
        "y.sum().backward()",
        "check()",
    )
for written in (
    "y[:] = b",
    "y.copy_(b)",
    "y.fill_(b[0])",
    "y.eq_(b)",
    "y[:1] = b[:1]",
    "y.mul_(b)",
):
    PROGRAMS[f"a view with a hook, then {written}"] = (
        LEAF,
        "b = T.tensor([5.0, 6.0], requires_grad=True)",
        "y = (a * 2)[:, 1]",
        "y.register_hook(lambda g: log.append(('y', g.clone())))",
        written,
        "(y * T.arange(2.0)).sum().backward()",
        "check()",
    )
for made in (
    "g = e.data; h = g.detach()",
    "g = e.detach(); h = g[:1].detach()",
    "g = e.detach(); h = g.data; del e",
    "g = e.detach(); h = g.unsqueeze_(0)",
    "g = e.view(T.float32); h = g[:1]",
    "g = e[:].view(T.int32); h = g.detach()",
    "g = e.view(T.int32).view(T.float32); h = g.view(2)",
    "with T.inference_mode(): g = e.detach(); h = g.data",
    "with T.inference_mode(): g = e.view(T.int32); h = g.view(T.float32)",
    "with T.inference_mode(): g = b.view(T.int32); h = b.view(T.float32)",
    "with T.inference_mode(): g = b.detach(); h = b[:]",
):
    for written in ("g", "h"):
        PROGRAMS[f"{made}: {written} is written"] = (
            "b = T.tensor([1.0, 2.0])",
            "with T.inference_mode(): e = b * 2",
            made,
            f"{written}.add_(1)",
            "which = [x.is_inference() for x in (b, g, h)]",
            "check()",
        )
PROGRAMS["one of several views that is given the values of a leaf"] = (
    LEAF,
    "b = T.ones(2, 2) * 3",
    "c, d = b.unbind()",
    "c.data = a",
    "requires = c.requires_grad, c.is_leaf",
    "check()",
)
for offset in (0, 3):
    PROGRAMS[f"the storage of one of several views, from {offset} on"] = (
        "b = T.arange(6.0).reshape(2, 3) + 0",
        "c, d = b.unbind()",
        f"e = c.as_strided((2,), (1,), {offset})",
        "c.mul_(2)",
        "b.requires_grad_()",
        "e.is_leaf",
    )
PROGRAMS["copies of leaves and of parameters"] = (
    LEAF,
    "p = T.nn.Parameter(a.detach().clone()); p.note = 1",
    "(a * 2).sum().backward(); (p * 3).sum().backward()",
    "b, q = __import__('copy').deepcopy([a, p])",
    "noted = hasattr(q, 'note')",
    "check()",
)
for name, shared in {"data": "c.data = a", "set_": "with T.no_grad(): c.set_(a)"}.items():
    PROGRAMS[f"a leaf whose storage {name} has given to what was reshaped in place"] = (
        LEAF,
        "c = a * 1",
        shared,
        "c.unsqueeze_(0)",
        "e = a.reshape(4)",
        "with T.no_grad(): e.relu_()",
        "check()",
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    with quietly():
        found = run(PROGRAMS[name])
    assert found is None, found
