"""More short programs that once differed from PyTorch, with their relatives."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from differential.run import quietly, run  # noqa: E402

PROGRAMS: dict[str, tuple[str, ...]] = {}

for order in itertools.permutations(range(3)):
    PROGRAMS[f"strides of what is picked beside new dims, of dims in the order {order}"] = (
        f"a = T.arange(24.0).reshape(2, 3, 4).permute({order})",
        "b = a[None, [0, 1]]; c = a[:, None, [0, 1]]; d = a[None, :, None, [0, 1]]",
        "e = a[None, [[0, 1]]]; f = a[None, [[0], [1]]]; g = a[None, [0, 1], None, [0, 1]]",
        "h = a[None, [0, 1], [[0, 1]]]; i = a[:, T.ones(a.shape[1], dtype=T.bool), None]",
        "check()",
    )
    PROGRAMS[f"strides of what transposed indices pick, of dims in the order {order}"] = (
        f"a = T.arange(24.0).reshape(2, 3, 4).permute({order})",
        "i = T.tensor([[0, 1], [1, 0], [1, 1]]); j = i.t(); k = i[:2, :1]",
        "b = a[j]; c = a[:, j]; d = a[j, j]; e = a[j, k]; f = a[k, j]; g = a[j, :, j]",
        "h = a[:, i[:1].expand(3, 2).t()]; l = a[None, j, None]",
        "check()",
    )
for order in itertools.permutations(range(4)):
    PROGRAMS[f"strides of nothing that is picked, of dims in the order {order}"] = (
        f"a = T.empty(1, 0, 1, 3).permute({order}); i = T.tensor([0]); j = T.tensor([[0, 0]])",
        *[
            line
            for at in range(4)
            for key in ("i", "j", "[]")
            for line in (f"b = a[{':, ' * at}{key}]; c = b * 1; d = b + T.ones(1)", "check()")
        ],
    )
PROGRAMS["views of the storage of a detached tensor are views of that"] = (
    "b = T.arange(8.0).reshape(2, 2, 2); c = (b * 1).detach(); d = c.permute(0, 1, 2)",
    "g = d[-1::2, 1].as_strided((2, 3), (1, 2), 1); h = b[1].detach()[0].as_strided((5,), (1,), 2)",
    "c.requires_grad = True; e = g._base is c, h._base is b",
    "check()",
    "i = b.data; j = i[0].as_strided((3,), (2,), 1); i.requires_grad = True",
    "k = (j * 2).requires_grad",
    "check()",
)
PROGRAMS["a value that is gone keeps its place when it is written through another tensor"] = (
    "a = T.tensor([1.5, 2.0], requires_grad=True); c = a.clone()",
    "with T.no_grad(): c.type_as(c).mul_(-1.5)",
    "d = c * 3; h = T.nn.Parameter(c); log.append(('c', c))",
    "check()",
    "h.detach().mul_(-1); e = c * c",
    "g, = T.autograd.grad((d ** 2).sum() + e.sum(), c, create_graph=True)",
    "(g ** 2).sum().backward()",
    "check()",
)
for read in ("", "; log.append(('f', f.tolist()))"):
    PROGRAMS[f"a gradient that does not fit keeps none from others{read}"] = (
        "a = T.nn.Linear(3, 2); [p.data.fill_(0.5) for p in a.parameters()]; h = a.weight",
        f"f = a(T.arange(12.0).reshape(2, 2, 3)){read}",
        "h.data = T.ones(2, 2, 2); j = a.bias",
        "f.sum().backward()",
        "check()",
    )
PROGRAMS["the gradient of a mean is a new tensor, whose order shows"] = (
    "f = T.arange(6.0).reshape(2, 3).mT",
    "t = T.func.grad(lambda t: (t * t).mean() + t.sum())(f); x = f.detach().requires_grad_()",
    "u, = T.autograd.grad((x.exp() * 2).mean() + x.sum(), x); v = u.reshape(-1)",
    "w, = T.autograd.grad((x.exp() * 2).mean(0).sum() + x.mean(1, keepdim=True).sum(), x)",
    "check()",
)
PROGRAMS["a view that was written is shown anew, also of what counts its writes for itself"] = (
    "a = T.tensor([-1.75, 0.5], requires_grad=True); a.data = a.clone(); d = a.select(0, 0)",
    "d.register_hook(lambda g: g * 2)",
    "with T.no_grad(): d.square_()",
    "g, = T.autograd.grad(d ** 2, d); (d * d).backward()",
    "check()",
)
PROGRAMS["what data counts for itself is no write to its views"] = (
    "b = T.arange(6.0).reshape(2, 3); c = b.squeeze().data; e = c.view(c.shape); f = c[0]",
    "b.add_(1); T.mul(e, 2, out=b)",
    "c.requires_grad = True",
    "check()",
    "g = b.data; h = g[0]; g.add_(1)",
    "g.requires_grad = True",
    "check()",
)
PROGRAMS["what a Function gave back as it is can be written after its graph is spent"] = (
    "a = T.nn.LayerNorm(3); d = T.arange(6.0).reshape(2, 3).requires_grad_()",
    "a.register_full_backward_hook(lambda m, gi, go: log.append(('a', go[0].clone())))",
    "c = T.optim.SGD(a.parameters(), lr=0.25); e = a(d)",
    "(a(e) ** 2).mean().backward(); c.step()",
    "e.detach().add_(5)",
    "check()",
)
for reduce in ("amax", "amin"):
    PROGRAMS[f"gradients of {reduce} at an index where it is NaN"] = (
        "n = float('nan'); a = T.tensor([1.0, n, 3.0, n, 5.0], requires_grad=True)",
        "s = T.tensor([n, 2.0, 3.0, 1.0], requires_grad=True); i = T.tensor([0, 1, 2, 2])",
        f"b = a.scatter_reduce(0, i, s, '{reduce}'); c = a.index_reduce(0, i, s, '{reduce}')",
        "d, e = T.autograd.grad((b * T.arange(5)).sum(), [a, s])",
        "(c * T.arange(5)).sum().backward()",
        "check()",
    )
PROGRAMS["conjugates as values of their own have no gaps"] = (
    "a = T.arange(8.0).reshape(2, 4) + 1j; b = a[:, :1]; c = a.t()[::2]; d = a[0].expand(2, 4)",
    "e = T.conj_physical(b); f = T.conj_physical(c); g = T.conj_physical(d); h = b.conj_physical()",
    "i = T.conj_physical(c.conj()); j = T.conj_physical(a.real); which = j is not None",
    "check()",
)

KINDS = (
    "d = T.tensor(1.0, dtype=T.float64); i = T.tensor(2, dtype=T.int32); h = T.tensor(1.0).half()"
    "; t = T.tensor(True); z = T.tensor(1j); f = T.bfloat16; np = __import__('numpy')"
    "; u = T.ones(1); v = T.ones(1, 1, dtype=T.int16); w = T.ones(2)"
)
for data in (
    "[d, 2] | [2, d] | [i] | [t] | [h, i] | [h, 1.5] | [i, 1.5] | [t, 2] | [[d], [1]]"
    " | [np.float64(1)] | [np.float64(1), 2.5] | [2.5, np.float64(1)] | [np.int16(2), 1]"
    " | [np.float16(1), np.int64(2)] | [True, np.float32(2)] | (np.float64(1.0),) | [d.to(f), i]"
    " | [u, u] | [u, 2] | [[v], [u]] | [w] | [w, w] | [T.zeros(0)] | [[1, 2], w] | [w, [1, 2]]"
    " | [np.ones(2), w] | [np.ones(2, dtype=np.float32), [1, 2]] | [[]] | [] | [1, [2]]"
    " | [[1], 2] | [1, 'a'] | ['a'] | [2**63] | [1, 2.5, 3j] | [[1.5, 2], [True, 1]]"
).split(" | "):
    PROGRAMS[f"a tensor of {data}"] = (
        KINDS,
        f"a = T.tensor({data}); b = T.as_tensor({data}); c = T.ones(1).new_tensor({data})",
        f"e = T.tensor({data}, dtype=T.float64)",
        "check()",
    )
for made in ("np.sin(a)", "np.greater(a, 2)", "np.add(np.ones(6), a)", "np.sqrt(T.arange(3))"):
    PROGRAMS[f"NumPy's functions of tensors give tensors: {made}"] = (
        "np = __import__('numpy'); a = T.arange(6.0)",
        f"b = {made}; which = type(b).__name__",
        "b += 1",
        "check()",
    )
for made in ("a", "a[1::2]", "a.view(2, 3).t()"):
    PROGRAMS[f"memory shared by DLPack: {made}"] = (
        f"a = T.arange(6.0); b = {made}; c = T.from_dlpack(b); same = c is b",
        "d = T.utils.dlpack.from_dlpack(T.utils.dlpack.to_dlpack(b))",
        "c.mul_(2)",
        "check()",
        "d[0] += 1; b.add_(1)",
        "check()",
    )
PROGRAMS["what requires a gradient is not shared by DLPack"] = (
    "a = T.ones(2, requires_grad=True)",
    "b = T.from_dlpack(a)",
    "c = a.__dlpack__()",
    "d = T.from_dlpack(a.detach())",
    "d.add_(1)",
    "check()",
)

for rank, images in ((1, "a[:, 0, 0]"), (2, "a[:, 0]"), (3, "a")):
    for size in (1, 2):
        PROGRAMS[f"gradients of means over {size} bins of {rank} dims, and their strides"] = (
            "a = T.arange(72.0).reshape(1, 3, 4, 2, 3).requires_grad_()",
            f"b = F.adaptive_avg_pool{rank}d({images}, {size})",
            "(b * T.arange(b.numel()).reshape(b.shape)).sum().backward(create_graph=True)",
            "check()",
            f"c = F.adaptive_avg_pool{rank}d({images}.transpose(1, -1), 1)",
            "check()",
        )

for call in (
    "F.margin_ranking_loss(a, z, o, reduction='none') | F.margin_ranking_loss(z, a, o, reduction="
    "'none') | F.hinge_embedding_loss(a, -o, margin=0.5, reduction='none') | F.relu(a) | T.sinc(a)"
    " | F.hinge_embedding_loss(a, o, reduction='none') | F.hardswish(a * 4) | F.hardsigmoid(a * 4)"
    " | F.huber_loss(a, z, reduction='none') | F.threshold(a, 0.1, 2.0) | a.clamp(-0.5, 0.5)"
).split(" | "):
    PROGRAMS[f"gradients that end stay 0 where what comes is NaN: {call}"] = (
        "a = T.tensor([-2.0, -0.3, 0.0, 0.3, 0.5, 2.0], requires_grad=True)",
        f"z = T.zeros(6); o = T.ones(6); b = {call}",
        "b.backward(T.full((6,), float('nan')), retain_graph=True)",
        "check()",
        "a.grad = None",
        "b.backward(T.full((6,), float('inf')))",
        "check()",
    )

for hook in ("g.double()", "g[0]", "g.int()", "3", "g * 2", "None"):
    PROGRAMS[f"what a hook may make of a gradient: {hook}"] = (
        "a = T.arange(6.0).reshape(2, 3).requires_grad_(); b = a * 1",
        f"b.register_hook(lambda g: {hook})",
        "b.sum().backward()",
        "check()",
    )
for hook in ("p.grad.mul_(2)", "log.append(('p', p.grad.clone()))"):
    PROGRAMS[f"what a hook may return after a gradient has come: {hook}"] = (
        "a = T.ones(2, requires_grad=True)",
        f"a.register_post_accumulate_grad_hook(lambda p: {hook})",
        "(a * 2).sum().backward()",
        "check()",
    )
for made in ("a * 2", "a.exp()", "F.rms_norm(a, (3,))", "a.t().permute(1, 0)"):
    PROGRAMS[f"hooks of the step where a collected gradient ends: {made}"] = (
        f"a = T.arange(6.0).reshape(2, 3).requires_grad_(); b = {made}; c = b * 2",
        "b.grad_fn.register_prehook(lambda g: log.append(('before', [t.clone() for t in g])))",
        "b.grad_fn.register_hook(lambda g, h: log.append(('after', list(g)[:1])))",
        "T.autograd.backward([c.sum()], inputs=[b])",
        "T.autograd.grad((b * 3).sum(), [b])",
        "check()",
    )
TWO = (
    "forward = staticmethod(lambda ctx, x, y: (x * 2, y * 3))",
    "backward = staticmethod(lambda ctx, g, h: log.append(('run', [g, h])) or (g * 2, h * 3))",
    "Own = type('Own', (T.autograd.Function,), {'forward': forward, 'backward': backward})",
    "a = T.ones(2, requires_grad=True); b = T.ones(2, requires_grad=True); c, d = Own.apply(a, b)",
    "c.grad_fn.register_prehook(lambda g: log.append(('before', list(g))))",
    "c.grad_fn.register_hook(lambda g, h: log.append(('after', [*g, *h])))",
)
for inputs in ("[c]", "[d]", "[c, d]", "[a]", "[c, b]", "None"):
    PROGRAMS[f"the backward of a Function, and its hooks, where {inputs} collect"] = (
        *TWO,
        f"d.sum().backward(inputs={inputs}, retain_graph=True)",
        f"(c + d).sum().backward(inputs={inputs}, retain_graph=True)",
        f"(c + 1).sum().backward(inputs={inputs})",
        "check()",
    )
PROGRAMS["the backward of a Function is not run where its gradient is asked for"] = (
    *TWO,
    "T.autograd.grad((c + d).sum(), [c])",
    "check()",
)
for made in ("T.floor_divide(a, 7.0)", "T.unique(a)", "T.histogram(a, 3)[0]", "Own.apply(a)"):
    PROGRAMS[f"a refused step where a collected gradient ends: {made}"] = (
        "backward = staticmethod(lambda ctx, g: g.no_such_name)",
        "body = {'forward': staticmethod(lambda ctx, x: x * 2), 'backward': backward}",
        f"Own = type('Own', (T.autograd.Function,), body); a = T.arange(3.0); w = {made}",
        f"a.requires_grad_(); c = {made}",
        "T.autograd.grad(c.sum(), [c])",
        "c.sum().backward(inputs=[c])",
        "check()",
    )
for inputs in ("[a, c]", "[c]", "[c, a]", "[c, b]"):
    PROGRAMS[f"hooks and gradients that are asked for, of {inputs}"] = (
        "a = T.arange(3.0).requires_grad_(); b = a * 2; c = b * 1; d = c.exp(); v = T.arange(3)",
        "c.retain_grad(); c.register_hook(lambda g: g * 3)",
        f"f = [g.clone() for g in T.autograd.grad((d * v).sum(), {inputs}, retain_graph=True)]",
        "c.register_hook(lambda g: log.append(('c', g.clone())))",
        f"e = [g.clone() for g in T.autograd.grad((c * T.arange(3)).sum(), {inputs})]",
        "check()",
    )
for write in ("scatter_add_(0, i, v)", "scatter_(0, i, 2.0)", "index_add_(0, i.view(-1), v[:0])"):
    PROGRAMS[f"nothing has places to write to: {write}"] = (
        "a = T.zeros(0, 3, requires_grad=True); b = a * 1; c = b[:, :1]; d = c[:]",
        "i = T.tensor([0, 0]).reshape(2, 1); v = T.ones(2, 1)",
        f"with T.no_grad(): c.{write}",
        "k, = T.autograd.grad((d ** 2).sum(), c, create_graph=True)",
        "T.autograd.grad(k.sum(), c)",
        "check()",
    )
for made in ("a.nansum(1)", "a.nanmean(1)", "a.nanmean(0)", "a.nansum()", "a.double().nanmean(1)"):
    PROGRAMS[f"gradients to NaN that is left out are 0 times what comes: {made}"] = (
        "n = float('nan'); a = T.tensor([[n, 1.0], [n, n]], requires_grad=True)",
        f"b = {made}; which = b.grad_fn.name()",
        "b.sum().backward(retain_graph=True)",
        "check()",
        "b.backward(T.full_like(b, float('inf')))",
        "check()",
    )
for order in ("2", "3", "0.5", "1", "float('inf')", "0"):
    PROGRAMS[f"the norm of one number is its size: {order}"] = (
        "a = T.tensor([[1e30], [-1e-30], [0.0], [3.0]], requires_grad=True)",
        f"b = T.linalg.vector_norm(a, {order}, dim=1); c = a[:1].norm({order})",
        f"d = F.normalize(a, p={order}, dim=1); e = T.linalg.vector_norm(a, {order}, dim=0)",
        "b.sum().backward()",
        "check()",
    )
for made in (
    "F.pairwise_distance(x, w)",
    "F.pairwise_distance(x, w, 3.0, keepdim=True)",
    "x ** 2",
    "T.dist(x, w)",
    "T.linalg.vector_norm(x, 3)",
):
    PROGRAMS[f"second gradients that reach the result: {made}"] = (
        "x = (T.arange(9).view(3, 3) / 8).double().requires_grad_(); w = T.ones(3, 3).triu()",
        f"y = {made}; v = T.arange(1.0, 1 + y.numel()).view(y.shape)",
        "g, = T.autograd.grad((y * v).sum(), [x], create_graph=True)",
        "h = [t if t is None else t + 0 for t in T.autograd.grad((g * g).sum(), [y, x], "
        "allow_unused=True)]",
        "check()",
    )
for dtype in ("float32", "float64", "int64", "complex64", "complex128"):
    PROGRAMS[f"float_power_ needs room for double precision: {dtype}"] = (
        f"a = T.ones(2, dtype=T.{dtype})",
        "a.float_power_(2)",
        "check()",
    )
for made in ("jacobian(lambda t: t * t, a)", "hessian(lambda t: (t * t).sum(), a)"):
    PROGRAMS[f"what is returned without a graph is no view: {made}"] = (
        f"a = T.arange(3.0); b = T.autograd.functional.{made}",
        "b.detach_()",
        "check()",
    )
for shape, moved in itertools.product(
    ((2, 1), (1, 2), (3, 4), (2, 1, 3), (2, 3, 1, 4)),
    ("a", "a.mT", "a[..., ::2]", "a.movedim(1, -1)"),
):
    PROGRAMS[f"strides of rms_norm of {moved} of {shape}"] = (
        f"a = T.ones({shape}); b = {moved}; c = F.rms_norm(b, b.shape[-1:])",
        "d = F.rms_norm(b, b.shape); e = F.rms_norm(b, b.shape[-1:], T.ones(b.shape[-1]))",
        "check()",
    )
PROGRAMS["nobody looks at the shape of a gradient that goes nowhere"] = (
    "a = T.zeros(3); b = a.expand(2, 3); a.requires_grad = True",
    "forward = staticmethod(lambda ctx, x: x.sum()); backward = staticmethod(lambda ctx, g: g * 3)",
    "c = type('Own', (T.autograd.Function,), {'forward': forward, 'backward': backward}).apply(b)",
    "c.backward()",
    "check()",
)
for write in ("f.add_(1)", "f[0] = 2", "f[T.tensor([0])] += 2", "f.view(-1).mul_(2)"):
    PROGRAMS[f"writing to what was given more room without gradients: {write}"] = (
        "a = T.ones(3, 3, requires_grad=True); f = (a * 2).sum(0)",
        "with T.no_grad(): T.sigmoid(T.ones(2, 3, 2), out=f)",
        write,
        "b = f.detach() * 1",
        "f.sum().backward()",
        "c = b * 1",
        "f = 0",
        "check()",
    )
for rank, kind in itertools.product((1, 2, 3), ("conv", "conv_transpose")):
    PROGRAMS[f"what the gradient of a bias is a function of: {kind}{rank}d"] = (
        f"x = T.ones((1, 2) + (3,) * {rank}).requires_grad_(); b = T.ones(2).requires_grad_()",
        f"w = T.ones((2, 2) + (2,) * {rank}, requires_grad=True); y = F.{kind}{rank}d(x, w, b)",
        "g, h, i = T.autograd.grad(y.sum(), [x, w, b], create_graph=True)",
        "which = y.grad_fn.name()",
        "check()",
    )
for made in (
    "c.index_put((i,), T.tensor(2.5))",
    "c.index_copy(0, i, T.ones(1))",
    "T.cat([c[:2], c[:1]])",
    "c * 1; k[0] = 2",
    "c * 1; k[:1].mul_(2)",
):
    PROGRAMS[f"gradients of what was given more room without gradients: {made}"] = (
        f"a = T.arange(3.0).requires_grad_(); c = a * 3; i = T.tensor([2]); k = {made}",
        "with T.no_grad(): T.neg(T.ones(3, 3), out=k)",
        "(k * T.arange(9).reshape(3, 3)).sum().backward()",
        "check()",
    )
for count in (
    "a.norm(0)",
    "T.linalg.vector_norm(a, 0)",
    "T.dist(a, b.detach(), 0)",
    "T.norm(a, 0, dim=0).sum()",
):
    PROGRAMS[f"how many are not 0 brings no gradient: {count}"] = (
        f"a = T.arange(3.0).requires_grad_(); b = T.ones(3, requires_grad=True); c = {count}",
        "c.backward(retain_graph=True)",
        "d, = T.autograd.grad(c + (b * b).sum(), [b])",
        "e = T.func.grad(lambda t: t.norm(0) * 2)(a.detach())",
        "check()",
    )

VALUES = (
    "x = T.arange(12.0).reshape(3, 4); v = T.arange(3.0); s = T.eye(3) * 4; i = T.tensor([0, 2])"
    "; k = T.zeros(3, 4, dtype=T.int64); c = x + 1j"
)
WITH_OUT = """
    add(x, x | exp(x | clamp(x, 0, 1 | where(x > 0, x, x | lerp(x, x, 0.5 | conj_physical(c |
    gcd(k, k | lcm(k, k | complex(x, x | polar(x, x | round(x, decimals=1 | isposinf(x | diff(x |
    heaviside(x, x | sum(x, 1 | mean(x, 1 | amax(x, 1 | std(x, 1 | argmax(x, 1 | logsumexp(x, 1 |
    nanmean(x, 1 | linalg.vector_norm(x, dim=1 | cumsum(x, 1 | renorm(x, 2, 0, 1 |
    quantile(x, 0.5, 1 | cat([x, x] | stack([x, x] | hstack([v, v] | mm(x, x.t() | addmm(s, s, s |
    addmv(v, s, v | baddbmm(s[None], s[None], s[None] | addbmm(s, s[None], s[None] |
    addr(s, v, v | outer(v, v | chain_matmul(s, s, s | kron(v, v | index_select(x, 0, i |
    gather(x, 0, k | take(x, i | masked_select(x, x > 3 | nonzero(x | tril(x | diag(v |
    softmax(x, 1 | index_add(x, 0, i, x[:2] | index_copy(x, 0, i, x[:2] | scatter(x, 0, k, x |
    scatter_add(x, 0, k, x | scatter_reduce(x, 0, k, x, 'sum' | zeros(3 | eye(3 | arange(5 |
    bucketize(x, v | isin(x, v
"""
OF_DTYPE = {
    "int64": ("argmax", "nonzero", "gcd", "lcm", "bucketize"),
    "complex64": ("complex(", "polar", "conj_physical"),
    "bool": ("isposinf", "isin"),
}
ROOMS = {
    "expanded": "T.zeros(1, dtype=d).expand(5, 7)",
    "windows": "T.zeros(9, dtype=d).unfold(0, 5, 1)",
}


@pytest.mark.parametrize("call", [call.strip() for call in WITH_OUT.split("|")])
@pytest.mark.parametrize("room", ROOMS)
def test_out_that_gets_another_shape(call: str, room: str) -> None:
    """PyTorch refuses an expanded one where it looks at it before it gives it that shape."""
    dtype = next((d for d, names in OF_DTYPE.items() if call.startswith(names)), "float32")
    lines = VALUES, f"d = T.{dtype}; b = {ROOMS[room]}", f"T.{call}, out=b)", "check()"
    with quietly():
        found = run(lines, frozenset({"version"}))
    assert found is None, found


ROOMIER = {
    "a": "T.floor(T.ones(2, 3), out=a)",
    "b": "b.resize_(5); b.copy_(T.arange(5.0))",
    "c": "c.resize_(2, 3); c.fill_(2.0)",
    "d": "d.resize_(4); d.zero_()",
}
WRITTEN = (
    "a.add_(1) | b.mul_(2) | c.add_(1) | d.add_(1) | b.data.zero_() | a.data[0] = 5"
    " | c.as_strided((2, 2), (1, 1)).mul_(2) | n = a.numpy(); b.zero_(); c.fill_(4)"
    " | n = c.numpy(); n += 1; del n; d.add_(1) | n = b.numpy(); n[0] = 3; d.mul_(2)"
    " | n = c.numpy(); n[0] = 4; d.data[1] = 7; del n; b.data[0] = 3"
).split(" | ")
for grown, write in itertools.product(ROOMIER, WRITTEN):
    PROGRAMS[f"more room for {grown}, which others share: {write}"] = (
        "a = T.tensor([0.75, 1.75, 1.75, 2.0]); b = a[1:]; c = a.data; d = b.detach()",
        ROOMIER[grown],
        "check()",
        *[
            line
            for other in ("b.mul_(2)", "n = a.numpy(); n *= 3; c.add_(1)", "d.data.add_(1)")
            for line in (write, "check()", other, "check()")
        ],
    )

KEPT_BY = ("n = 0", "n = b.numpy()", "g = T.from_numpy(b.numpy())")
LEAVES = (
    "k = T.nn.Parameter(b)",
    "k = b.data; k.requires_grad = True",
    "k = (b * 1).requires_grad_()",
)
for moved, kept, made in itertools.product(("t()", "expand(4, 3, 2)", "mul(2)"), KEPT_BY, LEAVES):
    PROGRAMS[f"parts of the storage of a leaf: {moved}, {kept}, {made}"] = (
        f"b = T.arange(6.0).reshape(3, 2).{moved}; {kept}; {made}",
        "l = k.as_strided((1, 2), (1, 1), 0); m = k.t() if k.ndim < 3 else k[0]",
        "with T.no_grad(): o = k.as_strided((2, 2), (1, 1)); p = k[0]",
        "check()",
        "(l * l).sum().backward(); (m * 2).sum().backward()",
        "check()",
        "(o * p[0].sum()).sum().backward()",
        "check()",
        "with T.no_grad(): k.add_(1)" if moved != "expand(4, 3, 2)" else "l.data.add_(1)",
        "check()",
    )
for kind in ("float16", "bfloat16", "float32", "float64"):
    PROGRAMS[f"powers that are roots, at -0 and -inf: {kind}"] = (
        f"a = T.tensor([-float('inf'), -0.0, 0.0, 4.0, -2.0], dtype=T.{kind}).requires_grad_()",
        "b = a ** 0.5; c = a.pow(-0.5); d = a.detach().clone().pow_(0.5); e = 1 / b; f = 1 / d",
        "(b * T.arange(5)).sum().backward()",
        "check()",
    )
for key in ("()", "0", "T.tensor([0])", "T.tensor([[0, -1]])", "...", "None", "True"):
    PROGRAMS[f"an element of a part is written: {key}"] = (
        "a = T.arange(6.0).reshape(2, 3); b = a[1]; c = b[1]",
        f"a[0][1][{key}] = 7; b[2][{key}] = 8",
        f"c[{key}] = 9",
        "check()",
    )

NO_INDEX = "i = T.zeros(0, dtype=T.int64); j = T.zeros(0, 4, dtype=T.int64)"
PROGRAMS["limits on gradients that nobody has computed"] = (
    "a = T.ones(3, requires_grad=True); n = T.nn.utils",
    "n.clip_grad_value_([a], 0.5)",
    "n.clip_grad_value_([], 0.5)",
    "b = n.clip_grad_norm_([a], 0.5)",
    "n.clip_grads_with_norm_([a], 1, 3.0)",
    "check()",
)
PROGRAMS["limits on gradients: what is counted, and what is refused"] = (
    "a = T.ones(3, requires_grad=True); a.grad = T.arange(3.0); g = a.grad; n = T.nn.utils",
    "n.clip_grad_value_(a, 1.5)",
    "check()",
    "b = n.get_total_norm([a, a * 2]); c = n.get_total_norm(a, 'inf')",
    "n.get_total_norm(a, 'fro')",
    "n.clip_grads_with_norm_(a, 1.0, 3.0)",
    "n.clip_grads_with_norm_(a, 1.0, T.tensor([3.0]))",
    "n.clip_grads_with_norm_(a, 1.0, T.tensor(3.0))",
    "check()",
)
PROGRAMS["writes to what layers collect while they train"] = (
    "m = T.nn.BatchNorm1d(2); s = list(m.state_dict().values()); x = T.arange(6.0).view(3, 2)",
    "a, b, c = s[2:]; v = a[:1]",
    "y = m(x)",
    "check()",
    "d = T.zeros(2); e = d.view(2); y = F.batch_norm(x, d, T.ones(2), training=True)",
    "check()",
    "y = F.instance_norm(T.arange(12.0).view(3, 2, 2), d, T.ones(2))",
    "check()",
)
for training in (False, True):
    PROGRAMS[f"statistics that require a gradient, training: {training}"] = (
        "a = T.zeros(2, requires_grad=True); b = a * 1; c = T.ones(2)",
        f"d = F.batch_norm(T.arange(6.0).view(3, 2), a, c, training={training})",
        f"d = F.batch_norm(T.arange(6.0).view(3, 2), c, b, training={training})",
        f"d = F.instance_norm(T.ones(3, 2, 2), a, c, use_input_stats={training})",
        f"with T.no_grad(): e = F.batch_norm(T.arange(6.0).view(3, 2), a, c, training={training})",
        "check()",
    )
PROGRAMS["folds at no indices, as functions"] = (
    NO_INDEX,
    "a = T.arange(1.0, 4.0, requires_grad=True); b = T.ones(3); s = T.zeros(0, requires_grad=True)",
    "c = [b.scatter_reduce(0, i, s, k) for k in ('sum', 'prod', 'mean', 'amax', 'amin')]",
    "d = [b.scatter_add(0, i, s), b.scatter(0, i, s), T.ones(()).scatter_reduce(0, i, s, 'prod')]",
    "e = a.scatter_reduce(0, i, s, 'prod')",
    "f = a.scatter_reduce(0, i, s, 'prod', include_self=False)",
    "g, h = T.autograd.grad(e.sum(), [a, s], create_graph=True)",
    "k, = T.autograd.grad(f.sum(), a, create_graph=True)",
    "l, m = T.autograd.grad(a.scatter_reduce(0, i, s, 'amax').sum(), [a, s])",
    "n = T.ones(3, 2, requires_grad=True); o = T.zeros(0, 4, requires_grad=True)",
    "p, q = T.autograd.grad((n.scatter_add(0, j, o) * T.arange(6.0).view(3, 2)).sum(), [n, o])",
    "b.scatter(0, i, T.zeros(0, dtype=T.int64))",
    "check()",
)
for dtype in ("float32", "complex64", "int64"):
    PROGRAMS[f"strides of {dtype} and complex numbers"] = (
        f"a = T.ones(1, 3, dtype=T.{dtype}).t(); b = T.ones(3, 1, dtype=T.{dtype})",
        "c = [y for x in (a, b) for y in (1j / x, 1j - x, x / 1j)]",
        "d = [y for x in (a, b) for y in (1j**x, x**2j)]",
        "e = T.div(1j, a); z = a.cfloat(); f = T.addcmul(z, z, z, value=1j); g = T.lerp(z, z, 1j)",
        "check()",
    )
ZEROS = "T.tensor([0.0, -0.0, 2.0, float('inf'), -float('inf'), float('nan')])"
PROGRAMS["numbers divided by zeros and infinities, with complex ones among them"] = (
    f"a = {ZEROS}; b = T.complex(a[:, None], a)",
    "c = 1j / a; d = (1 - 2j) / a; e = b.reciprocal(); f = 2 / b; g = 1j / b; h = T.sgn(b)",
    "i = T.signbit(c.real); j = T.signbit(c.imag); k = T.signbit(d.real); l = T.signbit(d.imag)",
    "check()",
)
PROGRAMS["signs of losses that are 0"] = (
    "a = T.tensor([[0.75, -0.0, 0.0], [1.5, 3.0, -0.0]]); b = T.tensor([1, 2]); w = T.ones(3)",
    "r = ('none', 'sum', 'mean'); x = T.tensor([[100.0, -100.0, 0.0], [0.0, 0.0, 200.0]])",
    "c = [F.nll_loss(a, b, reduction=k).signbit() for k in r]",
    "d = [F.nll_loss(-a, b, w, reduction=k).signbit() for k in r]",
    "e = [F.nll_loss(a, T.tensor([1, -100]), reduction=k).signbit() for k in r]",
    "f = [F.cross_entropy(x, T.tensor([0, 2]), reduction=k).signbit() for k in r]",
    "g = [F.cross_entropy(x, T.tensor([0, -100]), w, reduction=k).signbit() for k in r]",
    "h = [F.cross_entropy(T.ones(2, 0), T.tensor([-100, -100]), reduction=k) for k in r]",
    "i = F.nll_loss(a, b, reduction='none').rsqrt()",
    "p = T.tensor([0.0, 1.0, 0.0]); t = T.tensor([0.0, 1.0, 1.0])",
    "j = F.binary_cross_entropy(p, t, reduction='none').signbit()",
    "l = [F.binary_cross_entropy(p[1:2], t[1:2], reduction=k).signbit() for k in r]",
    "check()",
)
for dtype in ("float32", "bfloat16", "float64"):
    PROGRAMS[f"signs of sums of one {dtype}"] = (
        f"a = T.tensor([-0.0], dtype=T.{dtype}); b = a * 1; c = T.tensor(-0.0, dtype=T.{dtype})",
        "d = [x.signbit() for x in (a.sum(), b.mean(), (b * 2).sum(), c.sum(), a.nansum())]",
        "e = [x.signbit() for x in (T.stack([a, a]).sum(1), a[None].sum(0), a[None].mean((0, 1)))]",
        "check()",
    )
PROGRAMS["singular vectors, seen from outside"] = (
    "m = T.nn.Linear(2, 2, bias=False); m.weight.data.copy_(T.tensor([[1.0, 2.0], [3.0, 4.0]]))",
    "T.nn.utils.parametrizations.spectral_norm(m); p = m.parametrizations.weight[0]",
    "p._u.copy_(T.tensor([1.0, 0.0])); p._v.copy_(T.tensor([0.0, 1.0]))",
    "a = m.state_dict()['parametrizations.weight.0._u']; b = p._v",
    "c = m(T.ones(1, 2))",
    "check()",
)
for write, given in itertools.product(("", "i[...] = i"), ("T.ones(8, 8)", "T.ones(3, 5)")):
    PROGRAMS[f"gradients of the former shape, of a value that was dropped: {write} {given}"] = (
        "a = T.tensor([2.0, -0.25, 2.5]); b = T.sgn(a)",
        "g = T.arange(4.0, requires_grad=True); i = T.kron(g, T.ones(2))",
        f"{write or 'pass'}",
        "i.grad_fn.register_prehook(lambda g: log.append(('i', [t.clone() for t in g])))",
        f"with T.no_grad(): T.clamp({given}, min=0, out=i)",
        "check()",
        "(i * T.arange(i.numel()).view(i.shape)).sum().backward(retain_graph=True)",
        "check()",
    )
PROGRAMS["what is made like a view that was given up, and what it shows, are there"] = (
    "e = T.ones(3, 2, requires_grad=True) * 1; f, g, h = e.unbind()",
    "with T.no_grad(): f.mul_(2)",
    "i = T.zeros_like(h); j = T.ones_like(h); k = T.full_like(h, 2); l = h.data; m = h.detach()",
    "n = T.randint_like(h, 1); o = T.zeros_like(h, memory_format=T.contiguous_format)",
    "check()",
    "l.mul_(3)",
    "check()",
    "h * 1",
)
for update in ("SGD", "SGD, momentum=0.5", "Adam", "RMSprop", "Adagrad", "Adadelta"):
    optimizer, _, option = update.partition(", ")
    for before, after in (((1,), ()), ((2, 3), (3,)), ((3,), (2, 3))):
        for steps in ("", "o.step()"):
            PROGRAMS[f"{update} of {after} that was {before}{', and stepped' if steps else ''}"] = (
                f"w = T.ones({before}).requires_grad_(); v = T.ones(2, requires_grad=True)",
                f"o = T.optim.{optimizer}([v, w], 0.25{', ' + option if option else ''})",
                "(w.sum() + v.sum()).backward()",
                *([steps] if steps else []),
                "w.requires_grad_(False)",
                f"w.resize_({after}).fill_(1)",
                "w.requires_grad_()",
                "o.step()",
                "w = v = None" if len(before) >= len(after) else "check()",
                "check()",
            )
for x in ("x[0]", "x", "x[0, :1]", "x[0, 0]", "x[0, :0]", "x[:, :0]", "x.mT.contiguous().mT"):
    sizes = ((), (4,), (3,), (1, 4), (2, 4), (4, 1), (1, 1), (2, 1), (3, 4), (0, 4), (1, 1, 4))
    PROGRAMS[f"linear adds to {x} biases of any shape that fits"] = (
        f"x = T.arange(12.0).reshape(2, 2, 3); x = ({x}).requires_grad_()",
        *[
            line
            for n, shape in itertools.product((12, 3), (*sizes, (2, 1, 4), (2, 2, 4), (5, 2, 1, 4)))
            for line in (
                f"w = T.arange({n}.0).reshape(-1, 3); y = x * 1",
                f"b = T.ones({shape}, requires_grad=True); y = F.linear(x, w, b)",
                "(y * 0.1).sin().sum().backward()",
                "check()",
            )
        ],
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    with quietly():
        found = run(PROGRAMS[name])
    assert found is None, found


MODULES = (
    *("GroupNorm(2, 4)", "LocalResponseNorm(2)", "PixelShuffle(2)", "PixelUnshuffle(2)"),
    *("ChannelShuffle(2)", "BatchNorm2d(4)", "InstanceNorm2d(4)", "CircularPad2d(1)"),
)
LAYOUTS = (
    "x",
    "x.transpose(0, 1).contiguous().transpose(0, 1)",
    "x.mT.contiguous().mT",
    "x.contiguous(memory_format=T.channels_last)",
    "T.stack([x, x], -1)[..., 0]",
    "x[:1].expand(2, 4, 6, 6)",
)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_of_what_modules_give(module: str, layout: str) -> None:
    lines = (
        f"x = T.arange(288.0).reshape(2, 4, 6, 6); y = {layout}; m = T.nn.{module}",
        "z = m(y)",
        "check()",
    )
    with quietly():
        found = run(lines, frozenset({"version"}))
    assert found is None, found


CALLS = {
    "nn.LSTM(2, 3)": "(x)",
    "nn.LSTM(2, 3, 2, batch_first=True)": "(x)",
    "nn.LSTM(2, 3, bidirectional=True)": "(x)",
    "nn.LSTM(2, 3, proj_size=2)": "(x)",
    "nn.GRU(2, 3)": "(x)",
    "nn.LSTMCell(2, 3)": "(x[0])",
    "nn.GRUCell(2, 3)": "(x[0])",
    "nn.utils.rnn": ".pad_sequence([x[0], x[1, :1]], padding_side='left')",
}

PROGRAMS["sizes and dims one after the other"] = (
    "a = T.arange(6.0).reshape(1, 6, 1); b = a.squeeze(0, 2); c = a.clone().squeeze_(0, -1)",
    "d = a.broadcast_to(2, 6, 3); e = a.count_nonzero(0, 1); f = a[0].t().hsplit(2, 4)",
    "g = a[0].vsplit(1, 2); h = a.expand(1, 6, 3).dsplit(1, 2); i = a.squeeze(); j = a.squeeze(0)",
    "check()",
)
PROGRAMS["what a hook gets of a sum and of what was padded"] = (
    "a = T.ones(1, 2, requires_grad=True)",
    "b = a * 1; b.register_hook(lambda g: log.append(('b', g))); b.sum().backward()",
    "c = a * 1; c.register_hook(lambda g: log.append(('c', g))); c.sum(0).sum().backward()",
    "d = a * 1; d.register_hook(lambda g: log.append(('d', g))); d.sum(1, True).sum().backward()",
    "e = a * 1; e.register_hook(lambda g: g.mul_(2)); F.pad(e, (1, 1)).sum().backward()",
    "f = a * 1; f.register_hook(lambda g: log.append(('f', g))); F.pad(f, (0, 2)).sum().backward()",
    "check()",
)


@pytest.mark.parametrize("made", CALLS)
def test_strides_of_sequences(made: str) -> None:
    lines = (
        f"x = T.arange(24.0).reshape(4, 3, 2) / 9; m = T.{made}",
        "[p.data.fill_(0.25) for p in getattr(m, 'parameters', list)()]",
        f"y = m{CALLS[made]}",
        "check()",
    )
    with quietly():
        found = run(lines, frozenset({"version"}))
    assert found is None, found
