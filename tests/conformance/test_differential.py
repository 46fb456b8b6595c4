"""Random programs have PyTorch's values, gradients, dtypes, strides and errors."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from differential.campaign import Campaign  # noqa: E402
from differential.explained import KEPT  # noqa: E402
from differential.explained_states import OWN_STRIDES  # noqa: E402
from differential.generate import program  # noqa: E402
from differential.noise import OtherNans, OtherRoundings, hangs_on  # noqa: E402
from differential.processes import OWN_CRASH, campaigns, crashed  # noqa: E402
from differential.program import complete  # noqa: E402
from differential.run import quietly, run  # noqa: E402
from differential.shrink import Shrinker  # noqa: E402
from differential.sides import TorchSide  # noqa: E402

PROGRAMS, AT_ONCE = 300, 20


@pytest.fixture(autouse=True)
def one_thread():
    """PyTorch's results do not depend on how many threads there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_no_unexplained_difference(first):
    campaign = Campaign()
    for i in range(first, first + AT_ONCE):
        campaign.run(f"test:{i}")
    assert campaign.programs == AT_ONCE
    assert not campaign.findings, "\n\n".join(finding.text() for finding in campaign.findings)


# ------------------------------------------------------------------------------- the instrument


def difference(*lines, without=frozenset({"version"})):
    found = run(lines, without)
    return None if found is None else (found.kind, found.reason)


def test_an_error_keeps_nothing_alive_that_has_yet_to_fail():
    lines = "a = T.tensor([1, 0]) + 0", "b = (a // a).requires_grad_()", "c = (a + 1).tolist()"
    assert difference(*lines) is None


def test_equal_programs():
    assert difference("a = T.tensor([1.0, 2.0])", "b = a * 2", "check()") is None


GRADIENTS_OF_EACH_OTHER = "a = T.ones(2); b = a.view(2); a.grad = b; b.grad = a"


def test_gradients_of_gradients_of_themselves():
    assert difference(GRADIENTS_OF_EACH_OTHER, "check()") is None
    differing = "T.__name__ == 'torch' or b.data.add_(1)"
    assert difference(GRADIENTS_OF_EACH_OTHER, differing, "check()") == ("value", None)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("a = T.tensor([1.0, 2.0 if T.__name__ == 'torch' else 3.0])", "value"),
        ("a = T.tensor([float('nan') if T.__name__ == 'torch' else 3.0])", "value"),
        ("a = T.tensor([2**60 + (T.__name__ == 'torch')])", "value"),
        ("a = T.zeros(2, dtype=T.float32 if T.__name__ == 'torch' else T.float64)", "dtype"),
        ("a = T.zeros(2 if T.__name__ == 'torch' else 3)", "shape"),
        ("a = T.zeros(2, requires_grad=T.__name__ == 'torch')", "requires_grad"),
        ("a = 1 if T.__name__ == 'torch' else 1.0", "type"),
        ("a = [1, 2] if T.__name__ == 'torch' else [1]", "length"),
        ("log.append(('a', T.__name__ == 'torch'))", "log"),
        ("log += [('a', 1), ('b', 2)] if T.__name__ == 'torch' else [('b', 2)]", "log"),
        ("a = T.zeros(1); a.grad = T.ones(1) if T.__name__ == 'torch' else None", "grad"),
        ("a = T.zeros(1); a.grad = T.ones(1) * (T.__name__ == 'torch')", "grad value"),
        ("a = T.zeros(1); b = a if T.__name__ == 'torch' else a[:]", "identity"),
        ("1 / (T.__name__ != 'torch')", "ZeroDivisionError in torch, nothing here"),
        ("1 / (T.__name__ == 'torch')", "nothing in torch, ZeroDivisionError here"),
    ],
)
def test_what_differs_is_found(line, kind):
    assert difference(line, "check()") == (kind, None)


def test_a_meant_difference_has_a_reason():
    kind, reason = difference("a = T.arange(3)", "b = a[::-1]")
    assert kind == "ValueError in torch, nothing here"
    assert "negative steps" in reason


GRAD = ["a = T.ones(2, 3, requires_grad=True)", "g, = T.autograd.grad(a.sum(), [a])"]
# As processors with long vectors have it.
SPOILT_BY_TORCH = "T.__name__ == 'torch' and a.fill_(float('nan'))"


REFUSED_HERE = "T.__name__ == 'torch' or b.add_(1)"
ASKED_HERE = "T.__name__ == 'torch' or T.autograd.grad(d.sum(), [b])"
OF_TORCH_ALONE = "T.__name__ == 'torch'"
SET_WHOLE = "a = T.ones(3); b = a.view(3); c = T.ones(3); d = c.clone().requires_grad_(); a.set_(d)"
SET_PART = "b = T.ones(2, 3); j = b[1, None]; l = T.nn.Parameter(j); j.set_(l)"
LEFT_BEHIND = (
    "b = T.ones(2, 2); c = b.view(1, -1); d = c.detach(); c.data = c.clone(); b.requires_grad_()"
)
UNUSED = "g, = T.autograd.grad(e.sum(), [d], allow_unused=True)"
SPLIT = "a = T.ones(2, requires_grad=True); c, d = a.split(1)"
WRITTEN_BASE = "a = T.ones(1, requires_grad=True); b = T.ones(2, 1); c = b.view(2); b[0] = a"
REFUSED_FLAG = "T.__name__ == 'torch' or d.requires_grad_(False)"
FROM_INTEGERS = [
    "a = T.ones((), requires_grad=True); b = T.tensor([6, 2]); b[...] = a",
    "c = b / T.tensor([0.25])",
]
REFUSED_HOOK = "T.__name__ == 'torch' or T.ones(1).register_hook(lambda g: g)"
OF_PRODUCT = [
    "a = T.nn.Linear(3, 2)",
    "d = a(T.ones(2, 2, 3))",
    "d.squeeze(-2)[T.tensor([False, False])] = T.tensor(3.0)",
]
SAVED_PART = [
    "a = T.ones(2, 2, requires_grad=True); d = a * 1",
    "b = d.unbind()[0]; c = b ** 2",
    "d.mul_(2)",
]
SET_ONE_OF_TWO = [
    "a = T.ones(2, requires_grad=True); b = T.ones(4)",
    "c, d = b.tensor_split(2); e = b.view(2, 2)",
    "c.set_(a)",
]
SHORT = ["a = T.ones(2, 3, requires_grad=True)", "b = a * 1; c, d = b.split(1)"]
HALF = [
    "a = T.nn.Linear(2, 1); a.weight.data.fill_(1); a.bias.data.fill_(1)",
    "a.bias.register_post_accumulate_grad_hook(lambda p: log.append(('a', p.grad.clone())))",
    "b = T.ones(1, 2, requires_grad=True)",
]
DETACHED = [
    "a, c = (T.ones(2, requires_grad=True) for _ in 'ac')",
    "d = c - a; c.detach_()",
]
HOOKED = [
    "a = T.nn.Flatten(); a.register_full_backward_hook(lambda m, gi, go: None)",
    "b = T.ones(2, 3, requires_grad=True); o = T.optim.Adagrad([b], lr=0.25)",
    "e = T.cat([a(b), a(b)], 1)",
]
RESHAPED_PRODUCT = [
    "a = T.ones(1, 3, requires_grad=True); h = T.tensordot(a, T.ones(3, 2), 1)",
    "with T.no_grad(): h.squeeze_()",
]
REFUSED_SHAPE = [
    "b = a * 1",
    "with T.no_grad(): b.squeeze_()",
    "T.__name__ == 'torch' or b.backward(T.ones(3))",
]
ZEROS = [
    "a = T.ones(2, requires_grad=True)",
    "g, = T.autograd.grad(a.abs().sum(), [a], create_graph=True)",
]


@pytest.mark.parametrize(
    ("lines", "explained"),
    [
        (["a = T.clamp(T.ones(2).double(), 0, 1, out=T.empty(0))"], "clamp"),
        (
            [
                "a = T.ones(2, 3, dtype=T.complex64); i = T.zeros(0, dtype=T.int64)",
                "a.index_reduce_(0, i, T.zeros(0, 3, dtype=T.complex64), 'amax')",
            ],
            "complex",
        ),
        (["a = T.zeros(1).expand(2)", "a[[0, 1, 0]] = T.arange(3.0)", "check()"], "comes last"),
        (["a = T.ones(3).unfold(0, 2, 1)", "T.add(a, a, out=a)", "check()"], "comes last"),
        (
            ["a = T.arange(2.0); b = T.from_numpy(a.numpy())", "b[[-1, -1]] = a", "check()"],
            "another storage",
        ),
        (
            ["a = T.arange(2.0)", "a.expand(2, 2)[[0, 1], [1, 1]] = T.arange(2.0)", "check()"],
            "comes last",
        ),
        (
            ["a = T.arange(3.0); b = a[::2]", "b.data[[1, 1]] = b", "check()"],
            "without gaps",
        ),
        (["a = T.arange(3.0)", "a[:2] += T.__name__ == 'torch'", "check()"], None),
        (["a = T.ones(3)", "a.unfold(0, 2, 1).cumsum_(1)", "check()"], "comes last"),
        (["a = T.zeros(0, 3); b = T.ones(1).expand(3)", "T.sum(a, 0, out=b)"], "go on"),
        (
            [
                "a = T.ones(1, requires_grad=True); b = T.ones(6); c = b[...]; b.resize_(2)",
                "c += a",
                "c.sum().backward()",
            ],
            "smaller by now",
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); h = (a * T.arange(2.0)).sum()",
                "g, = T.autograd.grad(h, [a], retain_graph=True)",
                "d = g.view(2); g.data = T.ones(2)",
                "g.copy_(a)",
                "check()",
            ],
            "is no view any more",
        ),
        (
            ["a = T.arange(3.0)", "a.cumsum_(0)", "a += T.__name__ == 'torch'", "check()"],
            None,
        ),
        (
            [
                "a = T.zeros(0, requires_grad=True); b = T.cat([a, a])",
                "g, = T.autograd.grad((b * b).sum(), a, create_graph=True); g.sum().backward()",
            ],
            "as that of anything else",
        ),
        (
            [
                "a = T.zeros(2, requires_grad=True); b = a * a; twice = T.__name__ != 'torch'",
                "T.autograd.grad(b.sum(), a, create_graph=twice)[0].sum().backward()",
            ],
            None,
        ),
        (["a = T.ones(2, dtype=T.complex64)", "b = a.conj().numpy()"], "is a copy"),
        (
            [
                "a = T.tensor([2.5, 1.0, 2.75]); b = a[::2]; c = b.as_strided((), ())",
                "T.mul(b, c, out=b)",
                "check()",
            ],
            "without gaps",
        ),
        (
            [
                "a = T.nn.Linear(2, 2, bias=False); w = a.weight; w.data.fill_(1)",
                "b = T.ones(1, 2, requires_grad=True)",
                "(a(b // b) ** 2).mean().backward()",
                "check()",
            ],
            "on its way",
        ),
        (
            [
                "a = T.ones(2, 3, requires_grad=True); b, c = a[:0].cummax(0)",
                "d, = T.autograd.grad(b.sum(), [a], create_graph=True)",
                "check()",
            ],
            "of nothing",
        ),
        (["a = T.ones(2, dtype=T.complex64)", "b = a.conj().imag.numpy()"], "is a copy"),
        (
            [
                "a = T.ones(2, requires_grad=True); b = a * 2; c = b[:1]; c.set_(c)",
                "g, = T.autograd.grad(c.sum(), [b])",
            ],
            "set_ on a view",
        ),
        (
            ["a = T.tensor([1 + 1j]) / 0", "b = T.ones(1, dtype=T.complex64) + a", "check()"],
            "multiplying by 1",
        ),
        ([*GRAD, "g.add_(1)"], "autograd.grad"),
        (["a = T.ones(1).expand(2)", "T.__name__ == 'torch' and a.add_(1)"], None),
        (
            [
                "a = T.ones(2); b = a[:1]; a.set_(T.nn.Parameter(a))",
                "g, = T.autograd.grad(b.sum(), [a])",
            ],
            "keep the history",
        ),
        (
            [
                "a = T.ones(2, 2); b = a.movedim(1, -1); b.requires_grad_(); a.set_(b)",
                "c = b.squeeze()",
                "b.copy_(T.tensor(1.0))",
            ],
            "keep the history",
        ),
        (
            [
                "a = T.ones(2, dtype=T.uint8)",
                "a[T.tensor([False, True])] = T.tensor([-0.75])",
            ],
            "for a number",
        ),
        (["a = T.ones(2, 1, 3, 3).expand(2, 2, 3, 3)", "a.tril_()"], "three dims"),
        (["a = T.ones(1)", "a.expand((2, 3)).reshape((1, 2, 3, 1)).tril_()"], "three dims"),
        (
            ["a = T.ones(2, requires_grad=True); b = (a * 1).expand(2, 2)"]
            + ["b.copy_(b)", "g, = T.autograd.grad((b ** 2).sum(), a, create_graph=True)"],
            "written to an expanded tensor",
        ),
        (
            ["a = T.zeros(2, dtype=T.complex64); b = a.imag.requires_grad_(); c = b.view(2)"]
            + ["a[0] = 1j", "c.view(1, 2).zero_()"],
            "a fault of its own",
        ),
        (
            ["a = T.zeros(0, requires_grad=True); b = a.cummax(-1).values"]
            + ["g, = T.autograd.grad(b.sum(), a)", "g.retain_grad()"],
            "of nothing",
        ),
        (
            ["a = T.ones(2, dtype=T.complex64, requires_grad=True)"]
            + ["b = a.scatter_reduce(0, T.tensor([0]), a, 'sum')"],
            "folded in at indices",
        ),
        (["a = T.nn.Parameter(T.ones(2))", "a[T.tensor(0), T.tensor([0, 1])] = 1"], "said first"),
        (
            [
                "a = T.ones(4, requires_grad=True)",
                "b, = T.autograd.grad(a.sum(), [a])",
                "c = b[1:]",
                "check()",
            ],
            "the rules here make it",
        ),
        (["a = T.zeros(0).roll(1, 1)"], "nothing to roll"),
        ([*DETACHED, "c[...].copy_(a)", "d.sum().backward()"], "was a leaf"),
        ([*DETACHED, "(d if T.__name__ == 'torch' else a).sum().backward()", "d.is_leaf"], None),
        ([*HOOKED, "a(e).sum().backward(); o.step()", "e.sum().backward()"], "whether or not"),
        ([*SET_ONE_OF_TWO, "e.grad_fn; e.register_hook(print)"], "set_ on a view"),
        (
            [
                *SET_ONE_OF_TWO,
                "T.ones(2, requires_grad=T.__name__ == 'torch').register_hook(print)",
            ],
            None,
        ),
        (
            [
                "a = T.ones(0, requires_grad=True)",
                "b = T.logaddexp(a, a > 0)",
                "b.sum().backward()",
            ],
            "refuses of bools",
        ),
        (["a = T.ones(2) > 0", "T.__name__ == 'torch' and a - a"], None),
        (
            [*SHORT, "with T.no_grad(): b.mul_(2)", "F.batch_norm(c, None, None, training=True)"],
            "either may be said first",
        ),
        (
            [
                *SHORT,
                "T.__name__ == 'torch' or a.view(9)",
                "F.batch_norm(c, None, None, training=True)",
            ],
            None,
        ),
        (["a = T.ones(1, 2, 1, 3)", "b = a[T.tensor([[False, False]])] + 1", "check()"], None),
        (
            [
                "a = T.zeros(0, 2)",
                "b = a.as_strided((0, 2), (4 + (T.__name__ == 'torch'), 1))",
                "check()",
            ],
            None,
        ),
        ([*HALF, "a(b // b).sum().backward()", "check()"], "on its way"),
        (["a = T.tensor([1e38, 1.0])", "b = F.layer_norm(a, (2,))", "check()"], "are infinite"),
        (
            [
                "a = T.tensor([1e8, 1.0])",
                "b = F.layer_norm(a, (2,)) + (T.__name__ == 'torch')",
                "check()",
            ],
            None,
        ),
        (["a = 0 ** T.zeros(2, dtype=T.complex64)", "check()"], "log(0)"),
        (["a = (0 ** T.zeros(2)) + (T.__name__ == 'torch')", "check()"], None),
        ([*SAVED_PART, "c.sum().backward()"], "kept as they were"),
        ([*SAVED_PART, "T.__name__ == 'torch' and b.sum().backward()"], None),
        ([*ZEROS, "g.sum().backward()", "a.sum().backward()"], "cannot add another"),
        ([*ZEROS, "T.__name__ == 'torch' and T._efficientzerotensor(2).add_(1)"], None),
        (["a = T.ones(2).repeat_interleave(2)", "a.detach_()"], "has no name"),
        (["a = F.avg_pool1d(T.ones(1, 1, 4), 2)", "a.detach_()"], "has no name"),
        (["a = F.linear(T.ones(1, 0, 3, 1), T.ones(2, 1), T.ones(2))", "a.detach_()"], "no name"),
        (["a = T.ones(2)", "b = a[:1]; T.__name__ == 'torch' and b.detach_()"], None),
        (["a = T.zeros(2, 0)", "a.index_add_(0, T.tensor([-2]), T.zeros(1, 0))"], "name a place"),
        (
            ["a = T.zeros(2, 1)", "T.__name__ == 'torch' or a.index_add_(0, T.tensor([-2]), a)"],
            None,
        ),
        (
            [
                "a = T.zeros(2, 2, dtype=T.uint8).t()",
                "a[-1] = T.ones((), requires_grad=True); b = a.double()",
                "b.retain_grad()",
            ],
            "never require a gradient",
        ),
        (["a = T.tensor([2**60 + (T.__name__ == 'torch')])", "check()"], None),
        (["a = F.gelu(T.full((8,), float('inf')))", SPOILT_BY_TORCH, "check()"], "gelu"),
        (
            [
                "a = T.tensor([1.0], requires_grad=True); b = T.zeros(1); c = b.view(1)",
                "b.mul_(a)",
                "c.add_(1)",
            ],
            "takes a view for a leaf",
        ),
        (
            [
                "a = T.ones(2, 3, requires_grad=True); b, c = a.unbind(0)",
                "c.detach().as_strided((2, 3), (2, 1), 1)[...] *= a + b",
            ],
            "takes a view for a leaf",
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); b = a[2:]",
                "c, d = b.cummax(0)",
                "c.sum().backward(create_graph=True)",
                "check()",
            ],
            "of nothing is the tensor itself",
        ),
        (
            [
                "a = T.ones(0, requires_grad=True) * 1; b, = a.split(2); a.mul_(2)",
                "c = b.argmin()",
            ],
            "either may be said first",
        ),
        (
            ["a = T.ones(2, 0, dtype=T.int32)", "a[[1, -3]] *= T.ones(())"],
            "an index must name a place",
        ),
        (
            ["a = T.ones(2, 1, dtype=T.int32)", "a[[1, 5 - 4 * (T.__name__ == 'torch')]] *= 1.5"],
            None,
        ),
        (
            [
                "a = T.ones(2, 2, requires_grad=True); b = a.t()",
                "c, = T.autograd.grad((b * T.arange(4).reshape(2, 2)).sum(), [a])",
                "c.detach_()",
            ],
            "a gradient is a tensor like any other",
        ),
        (
            [
                "a = T.ones(2, 3, requires_grad=True); b = a.view(6)",
                "c, = T.autograd.grad((b * b).sum(), [a]); c.requires_grad = True",
                "d = c.ravel()",
                "d.detach().add_(1)",
                "check()",
            ],
            "a gradient is a tensor like any other",
        ),
        (
            [
                "a = T.ones(2, 3, requires_grad=True); b, c = list(a)",
                "d = b.detach().unsqueeze(0); d.data = d.clone()",
                "d.view(3).mul_(1.0)",
                "check()",
            ],
            "made to share another storage",
        ),
        (
            [
                "a = T.ones(3, 2, dtype=T.complex64).conj(); b = a.unfold(0, 1, 2)",
                "c = b * T.ones(2, 2, 1)",
                "check()",
            ],
            "PyTorch copies conjugates",
        ),
        (
            [
                "a = T.ones(3, 2, dtype=T.complex64).conj()",
                "b = (a * 1).t() if T.__name__ == 'torch' else (a * 1).reshape(2, 3)",
                "check()",
            ],
            None,
        ),
        (
            [
                "a = T.ones(2, requires_grad=True)",
                "b = T.dist(a, a)",
                "c, = T.autograd.grad(b, [a], create_graph=True)",
                "(c * a).sum().backward(); a.sum().backward()",
                "check()",
            ],
            "the second gradient of a length at 0",
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); d = T.ones(2); b = T.dist(d, d)",
                "c, = T.autograd.grad((a * a).sum(), [a], create_graph=True)",
                "a.grad = T.full((2,), float('nan') if T.__name__ == 'torch' else 1.0)",
                "check()",
            ],
            None,
        ),
        (["a = T.ones(2, 1, 3)[T.zeros(2, dtype=T.bool)]", "check()"], None),
        (
            [
                "a = T.ones(2).expand(2, 2)",
                "a.index_copy_(0, T.tensor([1, 0]), T.ones(3, 2))",
            ],
            "may be said first",
        ),
        (
            ["a = T.ones(2, 3).as_strided((2,), (0 if T.__name__ == 'torch' else 1,))", "check()"],
            None,
        ),
        (
            [
                "a = T.ones(2, requires_grad=True); b = a * 2; c = b.view(2)",
                "c.set_(c); b.sum().backward()",
            ],
            "set_ on a view",
        ),
        (["a = T.ones(2, 2, 3); b = T.ones(3).expand(2, 3)", "T.sum(a, 0, out=b)"], "go on"),
        (["a = T.ones(2); b = a.expand(2, 2)", f"T.sum(b, 0, out=a); {REFUSED_HERE}"], None),
        ([SET_WHOLE, "b.grad_fn; b.register_hook(lambda g: g)"], "keep the history"),
        ([SET_WHOLE, "T.__name__ == 'torch' or c.register_hook(lambda g: g)"], None),
        ([LEFT_BEHIND, "g, = T.autograd.grad(T.dist(c, d), [b], allow_unused=True)"], "is no view"),
        ([LEFT_BEHIND, f"g, = T.autograd.grad(b.sum(), [b]); {ASKED_HERE}"], None),
        ([SET_PART, "n, o = b.unbind(0)", "n.floor_()"], "set_ on a view"),
        ([SET_PART, "n, o = b.unbind(0); n.detach().add_(1)", "r = o[:]"], "set_ on a view"),
        ([SET_PART, "n, o = T.nn.Parameter(b).unbind(0)", f"{OF_TORCH_ALONE} and n.add_(1)"], None),
        ([SPLIT, "e = c // 2", UNUSED], "of another"),
        (
            [SPLIT, "b = T.zeros(1, dtype=T.int32)", "b[:] = a.sum(); b.resize_(())"],
            "never require",
        ),
        ([SPLIT, "b = a * 1", f"{OF_TORCH_ALONE} and b.resize_(())"], None),
        ([WRITTEN_BASE, "c.requires_grad = True"], "takes a view for a leaf"),
        ([WRITTEN_BASE, f"d = b * 1; {REFUSED_FLAG}"], None),
        ([*FROM_INTEGERS, "c.grad_fn; c.register_hook(lambda g: g)"], "never require"),
        ([*FROM_INTEGERS, "g, = T.autograd.grad(c.exp().sum(), [c])"], "never require"),
        ([FROM_INTEGERS[0], "d = a * 1", f"{REFUSED_HOOK}"], None),
        (["a = T.tensor(1j, requires_grad=True).cummax(0)"], "of one complex number"),
        ([*OF_PRODUCT, "d.detach_()"], "multiplies more than two dims"),
        ([*OF_PRODUCT, "e = (d * 1)[:1]", f"{OF_TORCH_ALONE} and e.detach_()"], None),
        ([SPLIT, "e = a // 2", f"{OF_TORCH_ALONE} and T.autograd.grad(e.sum(), [a])"], None),
        (["a = T.arange(6.0).view(2, 3)", "b = T.kron(a.t(), T.ones(2, 2))"], "kron refuses"),
        (["a = T.ones(2, 3); b = T.kron(a, a)", f"{OF_TORCH_ALONE} and a.t().view(6)"], None),
        ([*RESHAPED_PRODUCT, "h.backward(T.ones_like(h))"], "is a view"),
        ([RESHAPED_PRODUCT[0], *REFUSED_SHAPE], None),
        (
            [
                "a = T.ones(2, 3, requires_grad=True); b = a.view(6); i = T.tensor([1, 0])",
                "with T.no_grad(): T.index_select(T.ones(6), 0, i, out=a)",
                "b.sum().backward()",
            ],
            "smaller by now",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_reasons(lines, explained):
    found = difference(*lines)
    reason = None if found is None else found[1]
    assert reason is None if explained is None else explained in reason


OTHER_STRIDES = "b = T.ones(2, 3).as_strided((2,), (0 if T.__name__ == 'torch' else 1,))"
WRITTEN_BY_TORCH_ALONE = "T.__name__ == 'torch' and b.add_(0)"
ADAM_W = [
    "a = T.nn.Linear(2, 1, bias=False); a.weight.data.fill_(1); a(T.ones(1, 2)).sum().backward()",
    "o = T.optim.AdamW(a.parameters(), lr=0.1, weight_decay=0.1)",
]


LEAF = "a = T.ones(2, requires_grad=True)"
FOR_ONE_ALONE = "T.__name__ == 'torch' and b.requires_grad_()"
PARTS = "c = T.ones(4); d = c[:2]; h = c[2:]; c = 0"
SET = "c = T.ones(2); d = c.view(2)"
NO_GRADIENTS = "e = a[:0]; g, = T.autograd.grad(T.cat([e, e]).pow(3).sum(), e, create_graph=True)"
ANOTHER = "a += T.__name__ == 'torch'"
ZERO_IN_BYTES = "b = T.zeros(8, dtype=T.complex64); c = b.neg().view(T.uint8)"
IN_BYTES = "c += 128 * (T.__name__ == 'torch')"
NAN_ABOVE = "b = T.tensor([0x7FC00000 << 32]).view(T.float64)"
NEGATIVE = "T.__name__ == 'torch' and b.neg_()"
LENGTH = "n = T.dist(a, a); g, = T.autograd.grad((n ** 2).sum(), a, create_graph=True)"
SECOND = "h, = T.autograd.grad(g.sum(), a)"
BASE = "a = T.ones(3); b = a[:2]; b.requires_grad_(); c = b.view(2)"
LOST = "a.mul_(1); d = b * 2; (c.sum() + d.sum()).backward()"
POOLED = (
    "a = T.ones(1, 1, 4, requires_grad=True); d = F.max_pool1d(a * 1, 2)\n"
    "d.register_hook(lambda g: g * 2)"
)
WINDOWS = "b = a.repeat(2); c = b.unfold(0, 3, 1)"
OF_NOTHING = "a = T.zeros(0, requires_grad=True); y = a.cummax(0).values"
BY_LEFT = "c, d = a.split(1); d.data = d.clone()"
NANS = "a = T.full((1, 1, 2), float('nan'), requires_grad=True)"
AND_ONE_MORE = "a += T.__name__ == 'torch'"
UNSIGNED = ["b = T.tensor([3, 5], dtype=T.uint8)", "y = T.atan2(b, a)"]
SIGNED = ["b = T.tensor([3, 5], dtype=T.int32)", UNSIGNED[1]]
MORE = "a.grad += T.__name__ == 'torch'"
NEW_STRIDES = (
    "c = a.expand(3, 2).clone(); d = c[::2, 1]\n"
    "with T.no_grad(): d.mul_(2)\n"
    "d.data = d.detach().clone()"
)
NEW_NAN = "b = a.view(T.float32); b.copy_(T.maximum(b, b))"
FROM_NOTHING = ["e = T.zeros(3)[3:]; e.mul_(a.sum())", "(e * e).sum().backward(create_graph=True)"]
OWN_OF_NOTHING = [
    "e = (a * 1)[:0]; e.masked_fill_(e > 0, T.tensor(1.0)); "
    "f = type('Own', (T.autograd.Function,), {'forward': staticmethod(lambda ctx, x: "
    "(ctx.save_for_backward(x), x.clone())[1]), 'backward': staticmethod(lambda ctx, g: "
    "g * ctx.saved_tensors[0])}).apply(e)",
    "g, = T.autograd.grad((f * T.arange(0)).sum(), [a], create_graph=True)",
]
OF_TORCH = "T.__name__ == 'torch' and a.grad.requires_grad_()"
NOT_OF_TORCH = "T.__name__ == 'torch' and a.grad.detach_()"
CONV = (
    "a = T.nn.Conv1d(1, 1, 2); a.weight.data[0, 0, 1] = float('nan'); "
    "x = T.ones(1, 1, 3, requires_grad=True)"
)
HIDDEN_PRODUCT = "T.tensordot(a[:, None], T.ones(1, 2), 1)"
TWICE = "(d * d).sum().backward(create_graph=True)"
NO_LEAF_IN_TORCH = "b = b * 2 if T.__name__ == 'torch' else b.requires_grad_()"
PART = "a = T.ones(3); b = a[:2]"
SAME = "a = T.full((3,), float('nan'), requires_grad=True)"
NAN_IN_TORCH = "T.__name__ == 'torch' and a.grad.{}.fill_(float('nan'))"
NOT_THE_FIRST = "a.grad.copy_(T.tensor([0.0, 0, 1] if T.__name__ == 'torch' else [1.0, 0, 0]))"
INFINITE = "a = T.ones(1, dtype=T.complex64, requires_grad=True); (a.imag / 0 + a.real).backward()"
SCORES = "a = T.tensor([[[[float('nan'), 1.0]]]])"
THOSE = "b = b * (1.0 if T.__name__ == 'torch' else float('nan'))"
NORMED = "a = T.tensor([2.75, 0.25, 0.0], requires_grad=True); y = F.layer_norm(a, (3,))"
PARTS_OF_ONE = "a, b = T.ones(2).chunk(2)"
HOOKED_TWICE = (
    "b = a * 2; T.autograd.graph.register_multi_grad_hook((b, a), lambda g: log.append(('b', g)))"
)
SPOILT = "T.__name__ == 'torch' or x.grad.fill_(float('nan'))"
CHECKPOINT = [
    LEAF,
    "c = __import__('importlib').import_module(T.__name__ + '.utils.checkpoint').checkpoint("
    "T.tanh, a, use_reentrant=False)",
    "d, = T.autograd.grad((c * T.arange(2)).sum(), [a], create_graph=True)",
]
HOOKED_PAIR = (
    "T.autograd.graph.register_multi_grad_hook((c, d), lambda g: log.append("
    "('c', [None if t is None else t.clone() for t in g])))"
)
WRITTEN_PRODUCT = "f = T.einsum('...i,...i->...', a, a); g = f.expand_as(f); f.mul_(2)"
PREHOOK = "f.grad_fn.register_prehook(lambda g: log.append(('f', [t.clone() for t in g])))"


@pytest.mark.parametrize(
    ("lines", "explained"),
    [
        ([*GRAD, "check()"], "autograd.grad"),
        ([*GRAD, "h = g.detach()", "check()"], "autograd.grad"),
        ([*GRAD[:1], "T.autograd.grad(a.sum(), [a])", OTHER_STRIDES], None),
        ([*ADAM_W, "p = a.weight", "o.step()"], "AdamW"),
        ([*ADAM_W, "o.step()", "b = T.ones(2)", WRITTEN_BY_TORCH_ALONE], None),
        (["a = T.ones(2)", "b = a.view(2)", "b.data = T.ones(2)", "b.add_(1)"], "another storage"),
        (["a = T.ones(2)", "a.data = T.ones(2)", "b = T.ones(2)", WRITTEN_BY_TORCH_ALONE], None),
        ([LEAF, "b = T.ones(2)", "c = b[0]", "b.data = T.ones(2)", "c += a[0]"], "another storage"),
        ([LEAF, SET, "d.set_(a * 2)"], "set_ on a view"),
        ([LEAF, PARTS, "d.data = T.ones(2)", "d.mul_(a)"], "another storage"),
        ([LEAF, PARTS, "d.data = T.ones(2); b = T.ones(2)", FOR_ONE_ALONE], None),
        ([LEAF, SET, "d.set_(T.ones(2)); b = T.ones(2)", FOR_ONE_ALONE], None),
        ([LEAF, NO_GRADIENTS, "h = g * 2"], "empty gradient"),
        ([LEAF, NO_GRADIENTS, "del g; b = T.zeros(0)", FOR_ONE_ALONE], None),
        (["a = T.zeros(8, dtype=T.int64)", "a.view(T.complex64).neg_()"], "complex 0"),
        (["a = T.zeros(8, dtype=T.int64)", "a.view(T.complex64).neg_()", ANOTHER], None),
        ([ZERO_IN_BYTES], "complex 0"),
        ([ZERO_IN_BYTES.replace(".neg()", ""), IN_BYTES.replace("128", "64")], None),
        ([NAN_ABOVE, NEGATIVE], "bits of NaN"),
        ([NAN_ABOVE.replace("7FC", "7EC"), NEGATIVE], None),
        ([LEAF, LENGTH, SECOND], "second gradient of a length"),
        (
            [LEAF, LENGTH.replace("(a, a)", "(a, a - 1)"), SECOND, "h += T.__name__ == 'torch'"],
            None,
        ),
        ([PARTS_OF_ONE, "d = T.select_scatter(b, T.tensor(2.0), -1, 0)"], "has no gaps"),
        ([PARTS_OF_ONE, "d = b.clone()", OTHER_STRIDES], None),
        (
            ["a = T.ones(2, requires_grad=True)", "T.sgn(a).square().sum().backward()"],
            "cannot be read",
        ),
        ([LEAF, HOOKED_TWICE, "b.backward(T.ones_like(b))"], "that it does not reach"),
        ([LEAF, HOOKED_TWICE, "(b * 1).sum().backward()", "log.append(('c', T.__name__))"], None),
        ([BASE, LOST], "loses gradients"),
        ([BASE, "b.grad = a[:2]", LOST], "loses gradients"),
        ([BASE, "b.grad = a[:2]; a.mul_(1); e = a + (T.__name__ == 'torch')"], None),
        ([LEAF, WINDOWS, "c.mul_(2)", "b.sum().backward()"], "over another"),
        ([LEAF, WINDOWS, "c *= 2", "b.sum().backward()"], "over another"),
        ([LEAF, WINDOWS, "c = b[1:]; c.mul_(2)", "b.sum().backward()", MORE], None),
        ([BASE, "c.sum().backward(); b.grad += T.__name__ == 'torch'"], None),
        ([OF_NOTHING, "y.backward(T.ones(0), create_graph=True)"], "of cummin"),
        ([OF_NOTHING.replace("cummax(0).values", "exp()"), "y.sum().backward()", OF_TORCH], None),
        ([LEAF, BY_LEFT, "with T.no_grad(): d *= 2"], "another storage"),
        (["a = T.ones(2, 3, 4); b = a.unfold(-1, 2, 1)", "b.tril_()"], "written twice"),
        (["a = T.ones(2, 3, 4); b = a.view(1, 2, 3, 4)", "b.tril_()", AND_ONE_MORE], None),
        ([LEAF, *UNSIGNED, "y.sum().backward()"], "negates a uint8"),
        ([LEAF, *UNSIGNED, "del b", "y.sum().backward()"], "negates a uint8"),
        ([LEAF, *SIGNED, "y.sum().backward()", MORE], None),
        ([NANS, "y = F.max_pool1d(a, 2)", "y.sum().backward()"], "of several NaN"),
        ([NANS.replace("nan", "1"), "y = F.max_pool1d(a, 2)", "y.sum().backward()", MORE], None),
        (["a = T.ones(2)", "b = a[:1]", "b.data = b.clone()", "b.add_(1)", "del b"], "for itself"),
        (["a = T.ones(2)", "b = a[:1]", "b.data = b.clone()", "b.add_(1)", "b = a"], "for itself"),
        (["a = T.ones(2)", "b = a[:1]", "T.__name__ == 'torch' and b.add_(0)", "del b"], None),
        (["a = T.tensor(1j) + T.ones(2, dtype=T.float16)"], "half precisions"),
        ([POOLED, "with T.no_grad(): d.mul_(0.5)", "d.sum().backward()"], "of what is hidden"),
        ([POOLED.partition("\n")[0], "d.sum().backward()", MORE], None),
        ([LEAF, NEW_STRIDES, "d.sum().backward()"], "left its base"),
        ([LEAF, NEW_STRIDES, "a.sum().backward(); a.grad += T.__name__ == 'torch'"], None),
        (["a = T.tensor([-3], dtype=T.int32)", NEW_NAN], "bits of NaN"),
        (["a = T.tensor([-3], dtype=T.int32)", NEW_NAN, "a //= 1 + (T.__name__ == 'torch')"], None),
        ([*GRAD, "h = g[0, :2]; h.masked_fill_(T.tensor([True, False]), 3)"], "autograd.grad"),
        ([*GRAD, "g.fill_(2 + (T.__name__ == 'torch'))"], None),
        ([LEAF, *FROM_NOTHING], "empty gradient"),
        ([LEAF, *FROM_NOTHING, "(a * a).sum().backward(create_graph=True)", NOT_OF_TORCH], None),
        ([LEAF, *OWN_OF_NOTHING], "empty gradient"),
        ([LEAF, OWN_OF_NOTHING[0], "g = (a * a if T.__name__ != 'torch' else a.detach())"], None),
        ([PART, "b.mul_(2)", "b.requires_grad_()", "a.requires_grad_()"], "stays one"),
        ([PART, "b.requires_grad_()", NO_LEAF_IN_TORCH], None),
        ([LEAF, f"d = {HIDDEN_PRODUCT}; d.eq_(1)", TWICE], "of what is hidden"),
        ([LEAF, "d = a * 2; d.eq_(1)", TWICE, OF_TORCH], None),
        ([SAME, "y = a.topk(2).values", "y[0].backward()", NOT_THE_FIRST], "of equal numbers"),
        (
            ["a = T.arange(2.0).requires_grad_()", "y = a.topk(2).values", "y[0].backward()", MORE],
            None,
        ),
        ([INFINITE, NAN_IN_TORCH.format("real")], "multiplying by 1"),
        ([INFINITE, NAN_IN_TORCH.format("imag")], None),
        ([CONV, "a(x).sum().backward()"], "are padded"),
        ([NORMED, "y.backward(T.tensor([1.0, float('inf'), 2.0]))"], "subtracts infinities"),
        ([NORMED, "y.sum().backward()", MORE], None),
        ([SCORES, "b = F.scaled_dot_product_attention(a, a, a)"], "with scores that are NaN"),
        ([SCORES, "b = F.scaled_dot_product_attention(*[T.ones(1, 1, 1, 2)] * 3)", THOSE], None),
        ([CONV.replace("nan", "1"), "a(x).sum().backward()", SPOILT], None),
        ([*CHECKPOINT, HOOKED_PAIR, "(d * T.arange(2)).sum().backward()"], "computes again"),
        ([*CHECKPOINT, "c.retain_grad()", "(d * T.arange(2)).sum().backward()"], "computes again"),
        (
            [*CHECKPOINT, "c.retain_grad(); a.grad = T.ones(2) if T.__name__ == 'torch' else None"],
            None,
        ),
        ([LEAF, WRITTEN_PRODUCT, "i, = T.autograd.grad(g, [f], allow_unused=True)"], "is hidden"),
        ([LEAF, WRITTEN_PRODUCT, "i = None if T.__name__ == 'torch' else a"], None),
        (
            [
                LEAF,
                "f = T.einsum('...i,...i->...', a[:, None], a[:, None])",
                PREHOOK,
                "f[0] = -1",
                "f.sum().backward()",
            ],
            "is hidden",
        ),
        ([LEAF, "f = a * 1", PREHOOK, "f.sum().backward(); log.append(('f', T.__name__))"], None),
        ([LEAF, LENGTH.replace("T.dist(a, a)", "T.linalg.vector_norm(a - a)"), SECOND], "a length"),
    ],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.filterwarnings("ignore:Use of masked_fill_ on expanded")
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_reasons_are_for_the_tensors_they_are_about(lines, explained):
    """Not for whatever else differs in a program where they occur."""
    found = run([*lines, "check()"])
    assert found is not None
    assert found.reason is None if explained is None else explained in found.reason


@pytest.mark.parametrize("number", ["float('nan')", "float('inf')", "-1e30"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
def test_numbers_that_no_integer_stands_for(dtype, number):
    """livegrad has a rule for them, and must have kept to it."""
    lines = [f"a = T.tensor([1.0, {number}]).to(T.{dtype})", "a += 1", "check()"]
    campaign = Campaign(frozenset({"version"}))
    found = campaign.judged(lines)
    assert found is None or "as integers" in found.reason
    lines[-1:] = ["a[0] += T.__name__ == 'torch'", "check()"]
    assert campaign.judged(lines).reason is None


def test_sums_of_numbers_that_no_integer_stands_for():
    lines = [
        "a = T.tensor([[float('nan'), 1.0]]); b = T.zeros(1, dtype=T.int64)",
        "T.sum(a, -1, out=b)",
        "check()",
    ]
    assert "as integers" in Campaign().judged(lines).reason
    lines[-1:] = ["b += T.__name__ == 'torch'", "check()"]
    assert Campaign().judged(lines).reason is None


@pytest.mark.filterwarnings("ignore")
def test_values_that_backward_needs():
    """PyTorch raises; livegrad must give what it would give had it kept them."""
    lines = [
        "a = T.tensor([2.0], requires_grad=True)",
        "b = a * 1",
        "c = b * b",
        "b.mul_(3)",
        "c.backward()",
        "check()",
    ]
    campaign = Campaign(frozenset({"version"}))
    assert campaign.judged(lines).reason == KEPT
    lines[-1:] = ["a.grad *= 1 + (T.__name__ == 'torch')", "check()"]
    assert campaign.judged(lines).reason is None


@pytest.mark.filterwarnings("ignore")
def test_values_that_backward_needs_where_writes_are_counted_otherwise():
    lines = [
        "a = T.tensor([2.0], requires_grad=True); o = T.optim.AdamW([a])",
        "b = a * a",
        "a.data.neg_()",
        "b.backward(); o.step()",
        "check()",
    ]
    assert Campaign().judged(lines).reason == KEPT
    lines[-1:] = ["a.data.mul_(1 + (T.__name__ == 'torch'))", "check()"]
    assert Campaign().judged(lines).reason is None


def test_order_of_hooks_is_not_compared():
    line = "log += [('a', 1), ('b', 2)] if T.__name__ == 'torch' else [('b', 2), ('a', 1)]"
    assert difference(line, "check()") is None


def test_a_failed_write_leaves_no_part_written():
    """PyTorch may: of this index the first is in range, and the second is not."""
    side = TorchSide()
    side.run("a = T.zeros(3)")
    assert isinstance(side.run("a[[0, 3]] = 1"), IndexError)
    assert side.variables["a"].tolist() == [0, 0, 0]


def test_what_a_loop_has_written_stays():
    lines = ["a = T.tensor([3, 2])", "for _i in T.tensor([0, -4]): a[_i].mul_(-1)", "check()"]
    assert difference(*lines) is None
    side = TorchSide()
    side.run(lines[0])
    assert isinstance(side.run(lines[1]), IndexError)
    assert side.variables["a"].tolist() == [-3, 2]


def test_a_loop_that_is_refused_with_its_first_write_has_written_nothing():
    """PyTorch writes to a tensor of inference mode before it refuses to."""
    made = "with T.inference_mode(): a = T.ones(2)"
    assert difference(made, "for _part in a.split(1): _part += 1", "check()") is None
    assert difference(made, "for _i in range(2): a[_i] += 1", "check()") is None
    side = TorchSide()
    side.run(made)
    assert isinstance(side.run("for _i in range(2): a[_i] += 1"), RuntimeError)
    assert side.variables["a"].tolist() == [1, 1]


def test_roundings():
    """A floor of what should be an integer hangs on them; a sum does not, nor does a tie."""
    lines = ["a = T.tensor([0.1, 3.0])", "b = (T.log(T.exp(a)) / a).floor()", "c = a.sum()"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, lines, "c")
    assert not hangs_on(OtherRoundings, ["a = T.tensor([1.0, 1.0])", "b = a.argmax()"], "b")


def test_roundings_are_those_of_what_was_computed_not_of_where_it_is_stored():
    lines = ["a = T.arange(9); b = T.zeros(9, dtype=T.{})", "T.exp(a, out=b)"]
    for dtype, hangs in (("float64", True), ("float32", False)):
        assert hangs_on(OtherRoundings, [lines[0].format(dtype), lines[1]], "b") is hangs
    exact = ["a = T.arange(9.0, dtype=T.float64); b = T.zeros_like(a)", lines[1]]
    assert not hangs_on(OtherRoundings, exact, "b")


def test_roundings_of_numbers_that_are_hardly_0():
    lines = ["a = T.tensor([1e-45]); b = a.lerp(T.tensor([-2.5]), a)", "c = b.view(T.int32)"]
    assert hangs_on(OtherRoundings, lines, "c")
    assert not hangs_on(OtherRoundings, [lines[0].replace("e-45", "e-3"), "c = b > 0"], "c")
    assert not hangs_on(OtherRoundings, ["a = T.tensor([0.0]).lerp(T.zeros(1), 0.5)"], "a")


def test_roundings_of_a_loss_show_in_a_wider_dtype():
    lines = ["a = T.arange(8.0)", "b = F.soft_margin_loss(a, a + 1, reduction='none').double()"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, [lines[0], "b = F.relu(a).double()"], "b")


def test_roundings_of_an_argument():
    lines = ["a = T.sinc(T.tensor([-3.0] * 8))", "b = a > 0"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, [lines[0].replace("3.0", "2.5"), lines[1]], "b")


def test_sums_of_a_single_number():
    lines = ["a = T.tensor([-0.0])", "b = a.sum().reciprocal()", "c = a.prod().reciprocal()"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, lines, "c")
    two = ["a = T.tensor([-0.0, -0.0])", "b = a.sum().reciprocal()"]
    assert not hangs_on(OtherRoundings, two, "b")


def test_parts_that_cancel():
    lines = ["a = T.tensor([1.5 + 1j] * 8) / T.tensor([-1 + 1.5j] * 8)", "b = a.real == 0"]
    exact = ["a = T.tensor([1 + 1j] * 8) / T.tensor([1 + 0j] * 8)", lines[1]]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, exact, "b")


def test_the_least_of_both_zeros():
    lines = ["a = T.tensor([0.0, -0.0, 1.0])", "b = a.min().reciprocal()"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, ["a = T.tensor([0.0, 1.0])", *lines[1:]], "b")


def test_sums_that_cancel():
    lines = ["a = T.tensor([1.0, 1e-7, -1.0], dtype=T.float32)", "b = a.sum() > 0"]
    assert hangs_on(OtherRoundings, lines, "b")
    assert not hangs_on(OtherRoundings, [lines[0].replace("e-7", "e-3"), lines[1]], "b")


def test_bits_of_nan():
    lines = ["a = T.tensor([-1], dtype=T.int16).view(T.bfloat16)", "b = (a + 2).view(T.int16) + 9"]
    assert hangs_on(OtherNans, lines, "b")
    assert not hangs_on(OtherNans, [*lines, "c = (b > 99).sum() * 0", "d = b + 1"], "c")
    assert not hangs_on(OtherNans, ["a = T.tensor([float('nan'), 1.0])", "b = a.isnan()"], "b")
    kept = ["a = T.tensor([-1], dtype=T.int16)", "b = a.view(T.bfloat16)[:].view(T.int16) + 9"]
    assert not hangs_on(OtherNans, kept, "b")


TRANSPOSED = [
    "a = T.ones(2, 3, requires_grad=True); b = T.zeros(2, 3)",
    "g, = T.autograd.grad((T.hstack([b, a]) * T.arange(12.0).reshape(2, 6)).sum(), [a])",
    "g.reshape((1, -1))[...] += 1",
    "check()",
]


def test_where_gradients_lie():
    judged = Campaign().judged(TRANSPOSED)
    assert judged is not None
    assert judged.reason == OWN_STRIDES
    other = Campaign().judged([*TRANSPOSED[:3], "b += T.__name__ == 'torch'", "check()"])
    assert other is not None
    assert other.variable == "b"
    assert other.reason is None


def test_roundings_of_what_cancels():
    """A norm's sum may leave a rounding, or nothing; so may the slope of gelu, where it turns."""
    norm = "a = T.tensor([[1.5, 3.0], [1e4, 5.0]]); w = T.tensor([1.0, 2.0]); n = {} * w"
    lines = [norm, "b = F.batch_norm(a, None, None, w, n, True)", "c = b.nonzero()"]
    assert hangs_on(OtherRoundings, [norm.format(1), *lines[1:]], "c")
    assert not hangs_on(OtherRoundings, [norm.format(3), *lines[1:]], "c")
    lines = ["a = F.batch_norm(T.zeros(2, 1), None, None, training=True)", "b = 1 / a"]
    assert hangs_on(OtherRoundings, lines, "b")
    for x, hangs in ((-0.7517916, True), (0.5, False)):
        lines = [f"a = T.tensor([{x}], requires_grad=True)", "g, = T.autograd.grad(F.gelu(a), a)"]
        assert hangs_on(OtherRoundings, lines, "g") is hangs


def test_a_refused_resize_leaves_the_shape():
    """PyTorch gives a tensor its new shape before it finds that the storage cannot grow."""
    side = TorchSide()
    side.run("a = T.ones(2, 3); b = a[:1]; c = a.numpy()")
    assert isinstance(side.run("b.resize_(3, 3)"), RuntimeError)
    assert side.variables["b"].shape == (1, 3)
    assert side.writes()["b"] == 0


def test_a_refused_set_leaves_the_storage():
    """PyTorch gives a tensor of inference mode its new storage before it refuses to."""
    side = TorchSide()
    side.run("a = T.ones(1)")
    side.run("with T.inference_mode(): b = T.arange(6.0).reshape(2, 3).t()")
    assert isinstance(side.run("b.set_(a)"), RuntimeError)
    assert side.variables["b"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_refused_write_leaves_a_shape_that_was_given_before_it():
    lines = ["a = T.ones(3).expand(2, 3)", "a.t_().mul_(2)", "check()"]
    assert difference(*lines) is None
    side = TorchSide()
    side.run(lines[0])
    assert isinstance(side.run(lines[1]), RuntimeError)
    assert side.variables["a"].shape == (3, 2)


@pytest.mark.filterwarnings("ignore")
def test_roundings_after_what_backward_needs():
    lines = [
        "a = T.tensor([[-0.25, -2.0], [0.25, 2.5]], requires_grad=True); b = a * 1",
        "y = F.batch_norm(b, None, None, training=True); c = b * b",
        "b.detach().mul_(3)",
        "(c.sum() + y.exp().sum()).backward()",
        "a.grad *= 1 + {} * (T.__name__ == 'torch')",
        "check()",
    ]
    campaign = Campaign(frozenset({"version"}))
    assert campaign.judged([x.format(0) for x in lines]).reason == KEPT
    assert campaign.judged([x.format(1e-2) for x in lines]).reason is None


class Crashing(Campaign):
    """One whose second program ends the process."""

    def run(self, seed):
        if seed == "2":
            os._exit(3)
        self.programs += 1


def test_a_crash_is_a_finding_and_the_rest_goes_on():
    done = Campaign()
    for one in campaigns(["1", "2", "3"], Crashing(), jobs=1):
        done.add(one)
    assert done.programs == 3
    assert [(f.seed, f.difference.kind) for f in done.findings] == [("2", "crash")]


class Faulty(Campaign):
    """One that fails itself when it is to judge."""

    def judged(self, lines):
        raise RuntimeError("a view was given up")


def test_a_fault_of_the_fuzzer_is_a_finding_and_ends_no_process():
    campaign = Faulty()
    for i in range(2):
        campaign.run(f"test:{i}")
    assert campaign.programs == 2
    assert {f.difference.kind for f in campaign.findings} == {"a fault of the fuzzer"}


def fail_to_write(seed):
    raise RuntimeError("the storage has shrunk")


def test_a_fault_while_a_program_is_written_is_a_finding(monkeypatch):
    monkeypatch.setattr("differential.campaign.program", fail_to_write)
    campaign = Campaign()
    campaign.run("test:0")
    assert campaign.programs == 1
    assert [f.difference.kind for f in campaign.findings] == ["a fault of the fuzzer"]


@pytest.mark.parametrize(
    "line",
    [
        "e = F.layer_norm(T.ones(c.shape), (3,))",
        "e = 1 / T.ones(c.shape, dtype=T.complex64)",
        "e = T.atan2(T.ones(c.shape), T.ones(1))",
    ],
)
def test_what_is_promised_is_asked_of_views_that_were_given_up(line):
    assert difference(*SHORT, "with T.no_grad(): b.mul_(2)", line) is None


def end_the_process(seed):
    os._exit(3)


def test_a_crash_of_pytorch_alone_is_none_of_ours():
    mine, theirs = crashed("1", 3), crashed("1", 3, writing=end_the_process)
    assert mine.findings
    assert not mine.explained
    assert theirs.explained == {OWN_CRASH: 1}
    assert not theirs.findings


def test_programs_are_those_of_their_seeds():
    with quietly():
        assert program("0:7") == program("0:7") != program("0:8")


def test_shrinking_keeps_what_is_needed():
    lines = ["a = 1", "b = 2", "c = a + b", "d = c", "e = b"]
    assert Shrinker(lambda short: "c = a + b" in short).shrink(lines) == lines[:3]


def test_lines_without_their_variables_are_left_out():
    lines = ["a = 1", "b = a", "del a", "c = a", "d = [x for x in (b,)]", "e = lambda y: y + b"]
    assert complete(lines[1:]) == []
    assert complete(lines) == [*lines[:3], *lines[4:]]
    in_order = ["a = 1; b = [p for p in (a,)]", "for _x in (a, b): print(_x)", "a += 1"]
    assert complete(in_order) == in_order
    assert complete(in_order[1:]) == []
