"""Reasons of the differential fuzzer that are told by a line, or by what it was given."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from differential.campaign import check_reason  # noqa: E402

OTHER = "(T.__name__ == 'torch')"
ENDLESS = "a = T.tensor([[[1.0, 2.0], [3.0, float('inf')]], [[0.3, 2.2], [1.0, 1.0]]])"
CAUSAL = "F.scaled_dot_product_attention(a, a, a, is_causal=True)"
OF_NOTHING = [
    "g = T.ones(0, 3, requires_grad=True); h, i = g.cummax(0)",
    "j, = T.autograd.grad(h.sum(), [g], create_graph=True)",
]
EXPANDED = "a = T.tensor([-2.75, -3.0, 0.5, 3.0]); b = a.expand(2, 4)"
INTO = "out=(T.empty(0), T.empty(0, dtype=T.int64))"
CHECKPOINT = "__import__('importlib').import_module(T.__name__ + '.utils.checkpoint').checkpoint"
HOOK = "T.autograd.graph.register_multi_grad_hook"
NOTING = "lambda g: log.append(('m', [None if t is None else t.clone() for t in g]))"
AGAIN = [
    f"{HOOK}((m, m), {NOTING})",
    "o, = T.autograd.grad((m * T.arange(3)).sum(), [c], create_graph=True)",
    "o.sum().backward(retain_graph=True)",
]
DETACHED = [
    "a = T.arange(3.0, requires_grad=True); e = a * 2; g = e.erf()",
    "e.detach_()",
    "g.sum().backward()",
]
NORMALISED = "a = T.tensor([[-1.25, -1.75, 2.0], [2.0, -1.75, 1.0]])"
WITHOUT = "with T.inference_mode(): h = F.batch_norm(a, None, None, training=True)"
LARGE = [
    "a = T.tensor([[3.0, 1.25, -2.25], [0.0, 2.25, 1.25]]); m = T.nn.LayerNorm(3)",
    "a.view(T.uint8).t_().mul_(2)",
]
HOOKED = [
    "m = T.nn.LayerNorm(3); b = T.arange(6.0).view(2, 3).requires_grad_()",
    "b.register_post_accumulate_grad_hook(lambda g: log.append(('b', g.grad.clone())))",
    "h, = T.autograd.grad(m(b).sum(), [m.bias], create_graph=True)",
]
LINEAR = [
    "m = T.nn.Linear(3, 2); b = T.ones(2, 2, 3, requires_grad=True); g = m(b)",
    "g.sign_()",
]
OF_TRANSFORM = "b = T.func.jacrev(lambda t: t.clone().mul_(3))(T.ones(3)); f, g, h = b.chunk(3, 1)"
UNBOUND = "b = T.ones(2, 3); d, e, f = b.unbind(-1)"
GIVEN = "e.data = f"
OF_CHECKPOINT = [
    "c = T.arange(3.0, requires_grad=True)",
    f"m = {CHECKPOINT}(lambda t: (t * 3).relu(), c, use_reentrant=False)",
]
NOTED_BEFORE = "m.grad_fn.register_prehook(lambda g: log.append(('m', g[0].clone())))"
CONVERTED = ["b = T.ones(2, 3, requires_grad=True); e = b.sum(0)", "b.data = b.double()"]
EMPTY_PART = [
    "a = T.ones((), requires_grad=True); d = a + T.zeros(0, 3); e = d[:0, :-1:2]",
    "d.retain_grad()",
    "e.square_()",
    "f, = T.autograd.grad(e.abs().sum(), [d], create_graph=True)",
]
GATHERED = [
    "a = T.nn.Linear(2, 2); [p.data.fill_(2) for p in a.parameters()]",
    "e = T.nn.utils.parameters_to_vector(a.parameters())",
    "(e ** 2).sum().backward()",
]
RESHAPED = [
    "a = T.ones(6, requires_grad=True); d = a * 1; f = d.reshape_as(d).unfold(0, 1, 1)",
    "d.data = f.detach()",
    "with T.no_grad(): f.mul_(2)",
]
LEARNT = ["b = T.ones(3, requires_grad=True); o = T.optim.SGD([b], 0.5)", "b.sum().backward()"]
OF_OTHER_SHAPE = [
    "e = T.ones(3, requires_grad=True); f = e[...]",
    "e.data = T.arange(6.0).reshape(2, 3)",
]
OF_EACH = [
    "d = T.ones(2, 3, requires_grad=True)",
    "e = T.func.vmap(T.func.grad(lambda t: (t ** 3).sum()))(d.unsqueeze(-1))",
]
OF_CALL = [
    "m = T.nn.Linear(2, 2); [p.data.fill_(0.5) for p in m.parameters()]",
    "a = m(T.func.functional_call(m, m.state_dict(), (T.ones(3, 2),))); h = [r for r in a]",
]
BYTES = "b = T.ones((), dtype=T.uint8); d = T.tensor([-0.5, 0.75])"
PARTS_OF_LEAF = ["b = T.ones(2, 3, requires_grad=True); d = b[0]; e = b[1]"]


@pytest.mark.parametrize(
    ("lines", "explained"),
    [
        ([ENDLESS, f"d = {CAUSAL}", "check()"], "infinite score"),
        ([ENDLESS, f"d = {CAUSAL}", "a.zero_()", "check()"], "infinite score"),
        ([ENDLESS, f"d = {CAUSAL}.nan_to_num(0.5) + {OTHER}", "check()"], None),
        ([ENDLESS, f"d = {CAUSAL}[1] * (1 - {OTHER} * float('inf'))", "check()"], None),
        ([*OF_NOTHING, "m, = T.autograd.grad(h.sum(), [j], allow_unused=True)"], "of nothing"),
        (
            [*OF_NOTHING, f"T.autograd.grad(h.sum() + T.ones(()), [g if {OTHER} else g * 1 + i])"],
            None,
        ),
        ([EXPANDED, f"d, e = T.median(b, dim=0, {INTO})", "check()"], "sorts where they lie"),
        ([EXPANDED, f"d = T.median(a, dim=0)[0] + {OTHER}", "check()"], None),
        (
            [
                "c = T.arange(3.0, requires_grad=True)",
                f"m = {CHECKPOINT}(lambda t: (t * 3).relu(), c, use_reentrant=False)",
                *AGAIN,
                "check()",
            ],
            "computes again",
        ),
        (
            [
                "c = T.arange(3.0, requires_grad=True); m = c * 2",
                *AGAIN,
                f"log.append(('m', 1)) if {OTHER} else None",
                "check()",
            ],
            None,
        ),
        (DETACHED, "kept as they were"),
        ([DETACHED[0], f"(g * (1 + {OTHER})).sum().backward()", "check()"], None),
        ([NORMALISED, WITHOUT, "j = h.masked_fill(h < 0, -1)", "check()"], "roundings"),
        (["a = T.arange(6.0).view(2, 3)", WITHOUT, f"j = h * (1 + {OTHER})", "check()"], None),
        (
            [
                "e = T.tensor([-18.5, -21.5])",
                "f = F.binary_cross_entropy_with_logits(e, T.sigmoid(e))",
                "check()",
            ],
            "roundings",
        ),
        (
            [
                "e = T.tensor([-0.5, 1.5])",
                f"f = F.binary_cross_entropy_with_logits(e, T.sigmoid(e)) + 1e-4 * {OTHER}",
                "check()",
            ],
            None,
        ),
        ([*LARGE, "d = m(a)", "check()"], "squares are infinite"),
        ([LARGE[0], f"d = m(a) + {OTHER}", "check()"], None),
        (
            [
                "a = T.tensor([[-1.5, 0.0]], requires_grad=True)",
                "c = a.prod(0)",
                "c.sum().backward(create_graph=True)",
                "check()",
            ],
            "a product of one number",
        ),
        (
            [
                "a = T.tensor([[-1.5, 0.0]], requires_grad=True); c = a * a",
                f"c.sum().backward(create_graph=not {OTHER})",
                "check()",
            ],
            None,
        ),
        (
            [
                "c = T.ones(2, 3, requires_grad=True); d = c * 1; g = d.view(6); d.set_(T.ones(3))",
                "j, = T.autograd.grad(g.sum(), [d], allow_unused=True)",
                "check()",
            ],
            "keep the history that they had",
        ),
        (
            [
                "c = T.ones(2, 3, requires_grad=True); d = c * 1; g = d.view(6)",
                f"j, = T.autograd.grad(g.sum(), [d if {OTHER} else c * 1], allow_unused=True)",
                "check()",
            ],
            None,
        ),
        (
            [
                "c = T.ones(4, requires_grad=True); d = c * 1; f, g = d.tensor_split(2, 0)",
                "f.data = f.data[:1]",
                "h = f.swapaxes(0, -1)",
                "g.expand_as(g).transpose_(0, 0)",
                "h.sum().backward()",
            ],
            "by its new strides",
        ),
        (["a = T.zeros(2).view(T.int16) - 2000", f"b = a - 1 * {OTHER}", "check()"], None),
        ([*LEARNT, "b.data = T.ones(2, 3)", "o.step()"], "that a parameter had"),
        ([*LEARNT, f"(o if {OTHER} else T.optim.SGD([b], -1.0)).step()"], None),
        ([*OF_CHECKPOINT, NOTED_BEFORE, *AGAIN[1:], "check()"], "computes again"),
        (
            [*OF_CHECKPOINT, NOTED_BEFORE, f"(m * (2 - {OTHER})).sum().backward()", "check()"],
            None,
        ),
        (
            [*CONVERTED, "j, = T.autograd.grad(e.sum(), [b], allow_unused=True)", "check()"],
            "another dtype",
        ),
        ([*CONVERTED, "j, = T.autograd.grad(e.sum(), [b])"], "another dtype"),
        ([*CONVERTED, "j, = T.autograd.grad(e.sum() + b.sum(), [b])", "check()"], "another dtype"),
        ([*CONVERTED, f"j = e.detach() if {OTHER} else None", "check()"], None),
        (
            [
                *CONVERTED,
                f"j, = T.autograd.grad((b * (1 + {OTHER})).sum(), [b])",
                "e = 0",
                "check()",
            ],
            None,
        ),
        ([*EMPTY_PART, "check()"], "an empty gradient"),
        (
            [
                "a = T.ones(3, requires_grad=True); d = a * a; e = d[1:]",
                "d.retain_grad()",
                f"f, = T.autograd.grad(e.square().sum(), [d], create_graph=not {OTHER})",
                "check()",
            ],
            None,
        ),
        ([*GATHERED, "o = [p.grad for p in a.parameters()]", "check()"], "as the rules here make"),
        ([*GATHERED, f"o = e[{OTHER} * 1:][:2].detach()", "check()"], None),
        ([*RESHAPED, "(f * 2).sum().backward()", "check()"], "of its former shape"),
        ([RESHAPED[0], f"(f * 2).sum().backward(T.ones(1) if {OTHER} else None)"], None),
        (
            [
                "b = T.ones(2, 3, dtype=T.int64)",
                "b[1:, :0].detach()[T.tensor([1, 0])] *= T.tensor(0.25)",
            ],
            "an index must name a place",
        ),
        (
            [
                "b = T.ones(2, 3, dtype=T.int64)",
                f"b[1:].detach()[T.tensor([0 if {OTHER} else 1, 0])] *= T.tensor(0.25)",
            ],
            None,
        ),
        (
            [
                "b = T.tensor([4.125, -2.375], dtype=T.bfloat16)",
                "j = b.log_softmax(-1).float().sqrt()",
                "check()",
            ],
            "roundings",
        ),
        (
            [
                "b = T.tensor([4.125, -2.375], dtype=T.bfloat16)",
                f"j = b.log_softmax(-1) * (1 + {OTHER})",
                "check()",
            ],
            None,
        ),
        ([*HOOKED, "h.sum().backward()"], "that none has reached"),
        ([*HOOKED, f"(None.clone() if {OTHER} else b).sum().backward()"], "that none has reached"),
        (
            [
                "a = T.tensor([1.25], dtype=T.float64, requires_grad=True); d = a.view(T.int64)",
                "e = T.atan2(a, d)",
                "e.sum().backward()",
                "check()",
            ],
            "squares integers",
        ),
        (
            [
                "a = T.tensor([1.25], requires_grad=True); d = T.tensor([3])",
                f"e = T.atan2(a, d) * (1 + {OTHER})",
                "e.sum().backward()",
                "check()",
            ],
            None,
        ),
        (["b = T.zeros(0) > 0", "k = b.roll(1, -2).requires_grad_()"], "nothing to roll"),
        (
            [
                "p = T.zeros((), dtype=T.float64)",
                "T.logsumexp(T.tensor([True, True]), -1, out=p)",
                "check()",
            ],
            "roundings",
        ),
        (
            [
                *LINEAR,
                "k = T.autograd.grad((g ** 2).sum(), b, create_graph=True)[0]",
                "l = T.autograd.grad(k.sum(), b)",
            ],
            None,
        ),
        (
            [
                *LINEAR,
                "T.autograd.grad(T.autograd.grad((g * g).sum(), b, create_graph=True)[0].sum(), b)",
            ],
            "the result is a view",
        ),
        ([OF_TRANSFORM, "b.requires_grad = True", "T.prod(f, 1, out=T.empty(0))"], "made without"),
        (
            [
                "b = T.ones(3, requires_grad=True)",
                f"T.prod(b.detach() if {OTHER} else b, 0, out=T.empty(0))",
            ],
            None,
        ),
        ([UNBOUND, GIVEN, "b.requires_grad = True", "check()"], "no view any more"),
        (["a = T.nn.GroupNorm(1, 3)(2)"], "what is no tensor is refused as such"),
        ([f"a = T.nn.GroupNorm(1, 3)(2 if {OTHER} else None)"], None),
        ([*PARTS_OF_LEAF, "d.data = b.detach()", "d.t().mul_(2)"], "no view any more"),
        ([*PARTS_OF_LEAF, "d.data = b.detach()", f"(e if {OTHER} else 1 * e).mul_(2)"], None),
        (
            [
                "a = T.tensor([[-1.75, 0.75, 0.75], [-1.25, -0.5, 0.75]])",
                "b = F.batch_norm(a, None, None, training=True)",
                "h = b != 0",
                "check()",
            ],
            "roundings",
        ),
        (
            [
                "g = F.batch_norm(T.arange(6.0).view(2, 3), None, None, training=True).unique()",
                "h = g + T.ones(6)",
            ],
            "roundings",
        ),
        (["g = T.arange(6.0).unique()", f"h = g + T.ones(6 - {OTHER})"], None),
        (
            [
                "a = T.full((3,), -float('inf'), requires_grad=True)",
                "F.soft_margin_loss(a, T.ones_like(a)).backward()",
                "check()",
            ],
            "of a large x is x",
        ),
        (
            [
                "a = T.arange(6.0).view(2, 3).requires_grad_(); d, e = T.var_mean(a * 1, -1)",
                "e.pow_(2)",
                "e.retain_grad()",
                "n, = T.autograd.grad(e.sum(), [d], allow_unused=True)",
                "check()",
            ],
            "one of several outputs",
        ),
        (
            [
                "c = T.ones(1, 2, 3).requires_grad_(); d = c.view(3, 2)",
                "with T.no_grad(): c.squeeze_()",
                "d.sum().backward()",
            ],
            "former shape",
        ),
        ([UNBOUND, f"f.requires_grad_() if {OTHER} else None", "check()"], None),
        ([*OF_OTHER_SHAPE, "(e * e).sum().backward()", "check()"], "to the shape of then"),
        ([*OF_OTHER_SHAPE, f"(e * (1 + {OTHER})).sum().backward()", "check()"], None),
        ([*OF_EACH, "d.data.mul_(2)", "e.sum().backward()", "check()"], "also by transforms"),
        ([*OF_EACH, f"(e * (1 + {OTHER})).sum().backward()", "check()"], None),
        ([*OF_CALL, "a.data = T.ones(1, 2)", "a.add_(6)", "check()"], "no view any more"),
        ([*OF_CALL, f"a.add_(6) if {OTHER} else a.data.add_(6)", "check()"], None),
        ([BYTES, "T.any(d, 0, out=b)", "check()"], "of bytes"),
        ([BYTES, "T.all(d, dim=0, out=b)", "check()"], "of bytes"),
        ([BYTES, f"T.any(d * 4, 0, out=b).mul_(1 + {OTHER})", "check()"], None),
    ],
)
def test_a_reason_explains_what_it_is_for_alone(lines: list[str], explained: str | None) -> None:
    check_reason(lines, explained)
