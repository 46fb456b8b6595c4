"""Reasons of the differential fuzzer: what they explain, and what looks like that but is not it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from differential.campaign import check_reason  # noqa: E402

OTHER = "(T.__name__ == 'torch')"
MISSING = "float('nan')"
ADDED = f"a.grad[0] += {OTHER}"
ENDING_IN_NAN = f"a = T.tensor([1.0] * 8 + [{MISSING}], requires_grad=True)"
IN_OWN_ARRAY = "a = T.arange(1.0, 4.0); b = T.from_numpy(a.numpy())[0]"
OF_PRODUCT = [
    "a = T.ones(3, 3, requires_grad=True)",
    "d = T.tensordot(a, T.ones(3, 2), 1); f = d[None, -2][:]",
    "d.mul_(2)",
]
LEAVING = "b = T.tensor(-3); c = b[...]"
RETURNED = [LEAVING, "c.data = c.clone()", "c.eq_(2)", "c.data = b"]
RESHAPED = [
    "a = T.ones(1, requires_grad=True); b = T.ones(2, 3, requires_grad=True); d = b * 1",
    "with T.no_grad(): d.t_()",
]
KEPT = [
    "a = T.arange(2.0, requires_grad=True); e = a * 1; h = e.exp() / 3",
    "k = e * e; e.data.mul_(2)",
    "k.sum().backward()",
    "m = h.view(T.int16)",
]
KEPT_AND_SPENT = [
    "a = T.tensor([[1.0, 3.0]], requires_grad=True); c = a * a; d = c[:]; c.sum().backward()",
    "i, j = d.cummax(-1); j.data.fill_(7)",
]
TOGETHER = [
    "f = T.ones(2, 3, requires_grad=True); g = f.unsqueeze(1)",
    "i, j = T.autograd.grad((g * T.arange(6.0).view(2, 1, 3)).sum(), [g, f], create_graph=True)",
]
GIVEN_DATA = [
    "b = T.ones(3, 3, requires_grad=True); d = b.t().select(0, -2)",
    "b.data = d.detach()",
]
BEHIND = ["l = j.reshape((-1,))", "q = l.as_strided((1,), (2,), 1)"]
CUT = "a = T.ones(2, 3, 4); c = a[None, 1:-2:1]"
HIDDEN = f"e = T.tensor([[[3.0, 2.0], [{MISSING}, 1.0], [1.0, 2.0]], [[0.3, 2.2], [1, 1], [1, 2]]])"
HOOK_ON = "T.autograd.graph.register_multi_grad_hook"
NOTING = "lambda g: log.append(('f', [None if t is None else t.clone() for t in g]))"
OF_POWER = ["x = T.arange(1.0, 4.0).requires_grad_()"]
TWICE = [
    "g, = T.autograd.grad(y.sum() + z.sum(), [x], create_graph=True)",
    f"{HOOK_ON}((y, z), {NOTING})",
    "g.sum().backward()",
    "check()",
]
OF_TRANSFORM = [
    "a = T.tensor([1.25, -3.0], requires_grad=True)",
    "h = T.func.grad(lambda t: (t ** 3).sum())(a)",
]
OF_TWO_DIMS = "a = T.ones(2, 3, requires_grad=True); d = a * 1"
HOOKED = "d.register_hook(lambda g: g * 0)"
OF_MODULE = "a = T.nn.Linear(2, 2); b = a.state_dict()['weight']; b.fill_(1)"
TIMES_TWO = "with T.no_grad(): a.weight.mul_(2)"
ADDING = "d.register_hook(lambda g: g + 1)"
NEARLY = "a = T.full((3,), 3.0); b = (a.log() * 2).exp()"


@pytest.mark.parametrize(
    ("lines", "explained"),
    [
        ([IN_OWN_ARRAY, "with T.no_grad(): a -= b", "check()"], "another storage"),
        ([IN_OWN_ARRAY, f"with T.no_grad(): a = a + {OTHER}", "check()"], None),
        ([ENDING_IN_NAN, "F.hardtanh(a).sum().backward()", "check()"], "clips or shrinks"),
        ([ENDING_IN_NAN, "F.softshrink(a.flip(0)).sum().backward()", "check()"], "clips or shri"),
        ([ENDING_IN_NAN, "F.hardtanh(a).sum().backward()", ADDED, "check()"], None),
        ([*RETURNED, "check()"], "counts writes for itself"),
        ([OF_MODULE, "a.half().float()", TIMES_TWO, "check()"], "counts writes for itself"),
        ([OF_MODULE, f"b.add_(1) if {OTHER} else b.data.add_(1)", "check()"], None),
        ([LEAVING, f"c.add_(1) if {OTHER} else b.data.add_(1)", "check()"], None),
        (
            ["a = T.ones(2, 3); b = a.T", "a.data = b.clone()", "b.set_(a)", "check()"],
            "counts writes for itself",
        ),
        ([*RESHAPED, "T.atan2(d, a).sum().backward()", "check()"], "on its way"),
        ([*RESHAPED, f"a.grad = T.ones(1) if {OTHER} else None", "check()"], None),
        ([*KEPT, "check()"], "kept as they were"),
        ([*KEPT_AND_SPENT, "i.sum().backward()"], "computes again what the first one dropped"),
        ([*KEPT_AND_SPENT, f"assert not {OTHER}; i.sum().backward()"], None),
        ([*KEPT[:-1], f"m = T.ones(2) * ({OTHER})", "check()"], None),
        ([*OF_PRODUCT, "j, = T.autograd.grad(f.sum(), [d])"], "has no name"),
        ([*OF_PRODUCT, f"j, = T.autograd.grad(f.sum(), [a * 1 if {OTHER} else a])"], None),
        (
            [
                "d = T.zeros(2, 0).repeat_interleave(2, -1); e = d.mT",
                "d.requires_grad_()",
                "check()",
            ],
            "of what is hidden",
        ),
        (
            ["d = T.zeros(2, 0) * 1; e = d.mT", f"{OTHER} or d.requires_grad_()", "check()"],
            None,
        ),
        (
            [
                "a = T.ones(2, dtype=T.complex64, requires_grad=True); g = a * 1",
                "with T.inference_mode(): n = T.conj(g)",
                "n.detach().add_(1)",
                "check()",
            ],
            "cannot read a conjugate",
        ),
        ([NEARLY, f"c = b == T.full((3,), 9.0) * (1 + 2e-7 * ({OTHER}))", "check()"], "roundings"),
        ([NEARLY, f"c = a == a + ({OTHER})", "check()"], None),
        ([NEARLY, f"c = T.cat([(b - 9) * 1e6, a + ({OTHER})])", "check()"], None),
        ([NEARLY, f"c = T.cat([(b - 9) * 1e6, a + 5 / (1 - ({OTHER}))])", "check()"], None),
        ([NEARLY, f"c = T.cat([b, a]) == T.full((6,), 9.0 - 6 * ({OTHER}))", "check()"], None),
        (
            [
                CUT,
                "d = T.slice_scatter(c, T.zeros(1, 0, 0, 4), 2, 0, 0); i, j = d.split(2, -1)",
                "j.as_strided((2,), (1,))",
            ],
            "has no gaps",
        ),
        ([CUT, "d = c.clone()", f"(a if {OTHER} else d).as_strided((2,), (1,))"], None),
        (
            [
                "a = T.tensor([-2.75, 0.25, -2.5], dtype=T.bfloat16)",
                "f = F.soft_margin_loss(a, T.ones_like(a), reduction='none')",
                f"h = T.tensor(f.tolist()) * (1 + 0.008 * ({OTHER}))",
                "check()",
            ],
            "roundings",
        ),
        (
            [
                "a = T.ones(2, 2, dtype=T.complex64, requires_grad=True)",
                "b = T.select_scatter(a, T.ones(2, dtype=T.complex64), 0, 1)",
            ],
            "written to a part of a copy",
        ),
        (
            ["d = T.zeros(2, 3, 4).permute(2, 1, 0)", "h = T.kron(T.zeros_like(d), T.ones(2))"],
            "kron refuses",
        ),
        (
            ["a = T.tensor([-0.0], requires_grad=True)", "a.logit().sum().backward()", "check()"],
            "gradient of logit at -0",
        ),
        (
            [
                "a = T.tensor([0.0], requires_grad=True)",
                f"(a.logit() * (1 - 2 * {OTHER})).sum().backward()",
                "check()",
            ],
            None,
        ),
        (["a = T.ones(2, 3, 1).mT", "a[True] = a"], "written to itself"),
        (["a = T.ones(3, 1)", f"a[1:] = a[:-1] if {OTHER} else 0"], None),
        (["d = T.zeros(2, 3)", f"h = d.t().view(6) if {OTHER} else T.kron(d, d)"], None),
        (
            [HIDDEN, "l = F.scaled_dot_product_attention(e, e, e, is_causal=True)", "check()"],
            "what a mask hides",
        ),
        (
            [HIDDEN, f"l = F.scaled_dot_product_attention(e, e, e) if {OTHER} else e", "check()"],
            None,
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); c = a * a; d = c.frac()",
                "h, i = T.autograd.grad((d * T.arange(2)).sum(), [d, c])",
                "check()",
            ],
            "a tensor of its own",
        ),
        ([*TOGETHER, "i[...] *= g", "check()"], "a tensor of its own"),
        ([*TOGETHER, f"i = i + {OTHER}", "check()"], None),
        (["h = T.ones(2)", f"i = h if {OTHER} else T.ones(2)", "check()"], None),
        (
            [
                "a = T.ones(3, 2, requires_grad=True); d = a[None, -3]; d.retain_grad()",
                "(d * T.arange(2).reshape((1, 2))).sum().backward()",
                "f = d.grad",
                "check()",
            ],
            "the rules here make it",
        ),
        (["a = T.ones(3, 2)", f"f = a if {OTHER} else a.t().clone().t()", "check()"], None),
        (
            [
                "a = T.ones(1, 1, 3, requires_grad=True); f = F.interpolate(a, scale_factor=2)",
                f"{HOOK_ON}((f, f), {NOTING})",
                "T.autograd.backward([f], [T.ones_like(f)])",
                "check()",
            ],
            "a backward pass begins with",
        ),
        (
            [
                "a = T.ones(3, requires_grad=True); b = a * 1; f = a * 2; g = f.float()",
                f"{HOOK_ON}((f, b), {NOTING})",
                "g.backward(T.ones(3))",
                "check()",
            ],
            "a backward pass begins with",
        ),
        (
            [
                "a = T.ones(3, requires_grad=True); b = a * 1; c = b * 2",
                f"{OTHER} or {HOOK_ON}((b, c), {NOTING})",
                "(c * 2).sum().backward()",
                "check()",
            ],
            None,
        ),
        ([*OF_POWER, "y = (x * 2) ** 0.5; z = x * 1", *TWICE], "is computed from it"),
        ([*OF_POWER, f"y = (x * 2) ** 2 if {OTHER} else (x * 2).sqrt(); z = x * 1", *TWICE], None),
        (["e = T.ones(2, 3).unfold(1, 3, 1)", "e.data[None] = e"], "written to itself"),
        (
            [
                "a = T.ones(2, 2, 2, dtype=T.complex64, requires_grad=True)",
                "m, n = T.chunk(a.adjoint(), 2, -3)",
                "a.detach().add_(7)",
                "check()",
            ],
            "cannot read a conjugate",
        ),
        (
            [
                "with T.inference_mode(): e = T.ones(2).prod(0)",
                "g = T.ones(())",
                "g.data = e",
                "g.expand(()).detach().add_(12)",
                "check()",
            ],
            "made in inference mode",
        ),
        (["g = T.ones(())", f"{OTHER} or g.add_(0)", "check()"], None),
        (
            [
                "a = T.ones(3, 3); b = T.t(F.smooth_l1_loss(a, a * 2))",
                "c = b.as_strided((), (), 7)",
            ],
            "made it for more",
        ),
        (
            [
                "e = T.arange(4.0).unfold(-1, 3, 1)",
                "l = T.select_scatter(e, T.tensor([-1.0, 2.0]), 1, -3)",
                "check()",
            ],
            "overlaps as that does",
        ),
        (
            [
                "e = T.arange(4.0).view(2, 2)",
                f"l = T.select_scatter(e, T.ones(2) * ({OTHER}), 1, 0)",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); c = a * a",
                "c.sum().backward(retain_graph=True)",
                "d = a.grad[...]",
                "d.set_(c)",
                "check()",
            ],
            "set_ on a view",
        ),
        (
            [
                "a = T.ones(3, requires_grad=True); f = a[-1:0:2]",
                "with T.no_grad(): f.neg_()",
                "l = f * T.zeros(0)",
                "n = T.einsum('...i,...i->...', l, l)",
                "n.sum().backward(create_graph=True)",
                "check()",
            ],
            "an empty gradient",
        ),
        (
            [
                "a = T.ones(3, requires_grad=True); l = a[2:] * T.zeros(1)",
                f"(l * l).sum().backward(create_graph=not {OTHER})",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.full((1, 2, 3), 1.3)",
                f"j = F.instance_norm(a) + 1.1e-5 * ({OTHER})",
                "check()",
            ],
            "equal numbers are 0",
        ),
        (
            [
                "a = T.arange(6.0).view(1, 2, 3)",
                f"j = F.instance_norm(a) * (1 - ({OTHER}))",
                "check()",
            ],
            None,
        ),
        (["g = T.conj(T.ones(2) + 1j)", "l = g.new_tensor([1])"], "finds no device"),
        (
            [
                "f = T.tensor([[2.0], [3.0]], requires_grad=True); p = f.clone()",
                "with T.no_grad(): f.t_()",
                "(p * T.arange(2).view(2, 1)).sum().backward()",
            ],
            "former shape",
        ),
        (
            ["d = T.ones(()).expand(2)", "e = T.func.hessian(lambda t: (t ** 3).sum())(d)"],
            "a tangent of what is expanded",
        ),
        (["d = T.ones(2)", f"e = d.expand(2, 2).add_(1) if {OTHER} else d"], None),
        (
            [
                "c = T.full((3,), -1e4)",
                "f = F.soft_margin_loss(c, T.ones_like(c), reduction='sum')",
                "check()",
            ],
            "of a large x is x",
        ),
        ([*OF_TRANSFORM, "a.data.relu_()", "(h * h).sum().backward()", "check()"], "by transforms"),
        ([*OF_TRANSFORM, f"(h * (h + {OTHER})).sum().backward()", "check()"], None),
        (
            ["a = T.ones(2); b = a.amax(); c = b[...]", "b.requires_grad = True", "c.backward()"],
            "became a leaf later",
        ),
        (["a = T.ones(2); b = a.amax()", f"{OTHER} or b.requires_grad_()", "b.backward()"], None),
        (
            [
                "a = T.arange(6.0).view(2, 3).requires_grad_()",
                "c = T.func.vmap(lambda t: t.softmax(0))(a)",
                "c.data.sigmoid_()",
                "(c * T.arange(6).view(2, 3)).sum().backward()",
                "check()",
            ],
            "also by transforms",
        ),
        (
            [
                "a = T.arange(6.0).view(2, 3).requires_grad_()",
                "c = T.func.vmap(lambda t: t.softmax(0))(a)",
                f"(c * T.arange(6).view(2, 3)).sum().backward(); a.grad += {OTHER}",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.nn.Conv1d(1, 1, 1); [p.data.fill_(2) for p in a.parameters()]",
                "o = T.optim.SGD(a.parameters(), lr=0.5)",
                "b = T.ones(1, 1, 2, requires_grad=True); d = T.heaviside(b, b)",
                "a(d).sum().backward()",
                "o.step()",
                "e = a.weight",
                "check()",
            ],
            "which is open",
        ),
        (
            [OF_TWO_DIMS, HOOKED, "d.t_()", ADDING, "(d * d).sum().backward()", "check()"],
            "hooks of before",
        ),
        ([OF_TWO_DIMS, ADDING, f"(d * ({OTHER})).sum().backward()", "check()"], None),
        (
            [
                "a = T.ones(1, 2, 3, requires_grad=True); d = F.instance_norm(a)",
                "d.grad_fn.register_prehook(lambda g: log.append(('d', 0)))",
                "d[:] = T.ones(1, 2, 3)",
                "d.sum().backward()",
                "check()",
            ],
            "of what is hidden",
        ),
        (
            [
                "x = T.ones(3, requires_grad=True)",
                "c, = T.autograd.grad(x.sum(), [x])",
                "for _part in c: _part.add_(2)",
                "check()",
            ],
            "the rules here make it",
        ),
        (
            [
                "c = T.func.jacrev(lambda t: t * t)(T.ones(3))",
                f"for _part in c: _part.add_({OTHER})",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.ones(2, requires_grad=True)",
                "i = F.poisson_nll_loss(a, T.full((2,), 9.0), reduction='sum') + 200",
                "i.exp().backward()",
                "check()",
            ],
            "one infinity from another",
        ),
        (
            [
                "a = T.ones(2, requires_grad=True)",
                f"i = F.poisson_nll_loss(a, T.full((2,), 9.0 + {OTHER}), reduction='sum')",
                "i.backward()",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.ones(3, requires_grad=True); c = a * 1",
                "with T.no_grad(): a.unsqueeze_(0)",
                "j, = T.autograd.grad((a ** 2).sum(), [a])",
                "check()",
            ],
            "of its former shape",
        ),
        (
            [
                "a = T.ones(3, requires_grad=True)",
                "j, = T.autograd.grad((a * a).sum(), [a])",
                f"k = j[None] if {OTHER} else j",
                "check()",
            ],
            None,
        ),
        (
            [
                "b = T.relu(T.tensor([-1.0, 2.0], requires_grad=True)); h = T.nn.PReLU()",
                "i = h(b) ** 2",
                "j, = T.autograd.grad(i.sum(), [b], create_graph=True)",
                "k, = T.autograd.grad(j.sum(), [b])",
                "check()",
            ],
            "second gradient of prelu",
        ),
        (["b = T.arange(3.0); g = T.sinc(b)", "h = g / g", "check()"], "roundings"),
        (["b = T.arange(3.0); g = T.sinc(b)", f"h = g + ({OTHER})", "check()"], None),
        (
            [
                "d = T.ones(3, requires_grad=True); b = T.arange(4.0); a = T.zeros(3); d.grad = a",
                "b[1:] += d",
                "b.unfold(0, 2, 1).sin_()",
                "b.sum().backward()",
                "check()",
            ],
            "of what was written twice",
        ),
        (["b = T.ones(3).t()", f"c = {OTHER} or b.as_strided((), (), 7)"], None),
        ([*TOGETHER, "i.data.mul_(2)", "check()"], "a tensor of its own"),
        ([*TOGETHER, f"i = i + ({OTHER})", "check()"], None),
        (["c = T.zeros(0).std()", "d = T.signbit(c)", "check()"], "the bits of NaN"),
        (["c = T.zeros(1) - 1", f"d = T.signbit(c) * ({OTHER})", "check()"], None),
        ([*GIVEN_DATA, "b[...].sum().backward()"], "that `.data` gave it"),
        ([*GIVEN_DATA[:1], f"assert not {OTHER}; b[...].sum().backward()"], None),
        (
            ["a = T.ones(0, 3)", "j = T.func.jacrev(lambda t: t.sum(0))(a)", *BEHIND],
            "as the rules here make it",
        ),
        (["a = T.ones(3)", "j = a[:0] * 1", f"l = {OTHER} or j.as_strided((1,), (2,), 1)"], None),
        (
            [
                "a = T.ones(2, 3, 4, requires_grad=True); c = a.sum()",
                "with T.no_grad(): e = F.linear(a, T.ones(2, 4), T.ones(2))",
                "e[None, [-1]] = c",
            ],
            "of what has no name",
        ),
    ],
)
def test_a_reason_explains_what_it_is_for_alone(lines: list[str], explained: str | None) -> None:
    check_reason(lines, explained)
