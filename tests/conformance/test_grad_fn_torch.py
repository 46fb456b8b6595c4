"""`grad_fn` of the same program in PyTorch and in livegrad: names, edges, what is saved, hooks."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

# With x, y (3, 3), v (3,), b (2, 3, 3), i (1, 2, 4, 4), k (2, 2, 2, 2).
PROGRAMS = """
    x + y | x + 1 | 1 + x | x - y | x - 1 | 1 - x | x * y | x * 2 | x / y | x / 2 | 2 / x | x % 2
    x ** 2 | x ** 2.5 | x ** y | 2 ** x | -x | abs(x) | x.exp() | x.log() | x.log1p() | x.sqrt()
    x.rsqrt() | x.sin() | x.cos() | x.tan() | x.tanh() | x.sigmoid() | x.relu() | F.relu(x)
    F.relu6(x) | F.gelu(x) | F.silu(x) | F.elu(x) | F.leaky_relu(x) | F.softplus(x) | F.hardtanh(x)
    F.hardswish(x) | F.mish(x) | F.logsigmoid(x) | F.hardsigmoid(x) | F.softshrink(x)
    x.square() | x.reciprocal() | x.erf() | x.expm1() | x.log2() | x.lgamma() | x.clamp(0, 1)
    x.clamp(min=0) | x.floor() | x.round() | x.sign() | m.maximum(x, y) | m.minimum(x, y)
    m.where(x > 0, x, y) | m.lerp(x, y, 0.5) | m.addcmul(x, x, y) | m.atan2(x, y) | x.hypot(y)
    m.logaddexp(x, y) | x.sum() | x.sum(0) | x.mean() | x.mean(1) | x.prod() | x.prod(0) | x.var()
    x.var(0) | x.std() | x.norm() | x.max() | x.min() | x.max(0)[0] | x.min(0)[0] | x.amax(0)
    x.logsumexp(0) | x.softmax(0) | F.softmax(x, 1) | x.log_softmax(0) | x.cumsum(0) | x.cumprod(0)
    x.sort()[0] | x.topk(2)[0] | x.median() | x.t() | b.transpose(1, 2) | b.permute(2, 0, 1)
    x.view(9) | x.reshape(9) | x.flatten() | x.view_as(y) | x.unsqueeze(0)
    x.unsqueeze(0).squeeze(0) | x.expand(2, 3, 3) | x.repeat(2, 1) | x.clone() | x[0] | x[1:]
    x[:, 0] | x[0, 0] | x[1:, 0] | x[m.tensor([0, 1])] | x[x > 0] | x.narrow(0, 0, 2)
    x.select(0, 1) | x.flip(0) | x.diagonal() | x.tril() | x.triu()
    x.gather(0, m.zeros(1, 3, dtype=m.int64)) | x.index_select(0, m.tensor([0]))
    x.masked_fill(x > 0, 0.0) | m.cat([x, y]) | m.stack([x, y]) | m.hstack([x, y]) | x @ y | x @ v
    v @ v | m.bmm(b, b) | F.linear(x, y) | F.linear(x, y, v) | F.linear(b, y, v) | F.conv2d(i, k)
    F.max_pool2d(i, 2) | F.avg_pool2d(i, 2) | F.layer_norm(x, (3,)) | F.layer_norm(x, (3,), v, v)
    F.batch_norm(x, None, None, training=True) | F.group_norm(i, 1) | F.dropout(x, 0.5)
    F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y)
    F.cross_entropy(x, m.tensor([0, 1, 2])) | F.nll_loss(x, m.tensor([0, 1, 2]))
    F.binary_cross_entropy_with_logits(x, y) | F.pad(i, (1, 1)) | F.glu(b[..., :2])
    x.to(m.float64) | x.half() | x.clone().add_(1) | x.clone().mul_(y) | x.clone().zero_()
    x.clone().relu_() | x.unfold(0, 2, 1)
    m.linalg.inv(x + 3 * m.eye(3)) | m.linalg.det(x) | m.complex(x, y) | x.as_subclass(m.Tensor)
    F.embedding(m.tensor([0, 1]), p) | F.embedding(m.tensor([[0, 1]]), p) | v.expand(3, 3)
    x * m.ones(3, 3) | m.ones(3, 3) * x | m.ones(3, 3) @ x | x @ m.ones(3, 3) | x / m.ones(3, 3)
"""
CASES = [text.strip() for line in PROGRAMS.strip().split("\n") for text in line.split(" | ")]


def variables(m: Any) -> dict[str, Any]:
    def leaf(*shape: int) -> Any:
        values = np.arange(1, 1 + math.prod(shape), dtype=np.float32).reshape(shape) / 7
        return m.tensor(values, requires_grad=True)

    return {
        "m": m, "F": m.nn.functional, "x": leaf(3, 3), "y": leaf(3, 3), "v": leaf(3),
        "b": leaf(2, 3, 3), "i": leaf(1, 2, 4, 4), "k": leaf(2, 2, 2, 2),
        "p": m.nn.Parameter(m.ones(3, 3)),
    }  # fmt: skip


def made(m: Any, program: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(program, variables(m))


def described(fn: Any, depth: int = 2) -> Any:
    if fn is None:
        return None
    ours = type(fn).__name__, fn.name().rpartition("::")[2]
    if not depth:
        return ours
    return ours, [(described(f, depth - 1), place) for f, place in fn.next_functions]


@pytest.mark.parametrize("program", CASES)
def test_names_and_edges(program):
    y, wanted = made(lg, program), made(torch, program)
    assert described(y.grad_fn) == described(wanted.grad_fn)


@pytest.mark.parametrize("program", CASES)
def test_saved_tensors_have_the_same_values(program):
    if program.startswith("F.dropout"):
        pytest.skip("random values")
    y, wanted = made(lg, program), made(torch, program)
    fn, its = y.grad_fn, wanted.grad_fn
    for name in [name for name in dir(fn) if name.startswith("_saved_")]:
        ours, theirs = getattr(fn, name), getattr(its, name)
        if theirs is None or ours is None:
            assert (ours is None) == (theirs is None), name
        elif isinstance(theirs, torch.Tensor):
            assert isinstance(ours, lg.Tensor), name
            found, expected = np.asarray(ours.detach()), theirs.detach().numpy()
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6, err_msg=name)
            assert ours.requires_grad == theirs.requires_grad, name
        elif isinstance(theirs, int) and theirs > 2**32:  # a negative number in C++
            assert ours >= 0
        else:
            assert ours == theirs, name


COMMON = ["x * y", "x / y", "x ** 2", "x.exp()", "x.sin()", "x @ y", "x.softmax(0)", "x.relu()"]


@pytest.mark.parametrize("program", COMMON)
def test_common_functions_save_what_pytorch_saves(program):
    def saved(fn: Any) -> set[str]:
        found = {name for name in dir(fn) if name.startswith("_saved_")}
        return {name for name in found if "strides" not in name and "sizes" not in name}

    assert saved(made(lg, program).grad_fn) == saved(made(torch, program).grad_fn)


def hooks(m: Any) -> list[Any]:
    found: list[Any] = []

    def note(name: str) -> Any:
        def hook(*grads: Any) -> None:
            found.append((name, [[None if g is None else g.tolist() for g in gs] for gs in grads]))

        return hook

    x = m.tensor([1.0, 2.0], requires_grad=True)
    w = m.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    y.grad_fn.register_hook(note("after"))
    y.grad_fn.register_prehook(note("before"))
    accumulate = y.grad_fn.next_functions[0][0]
    accumulate.register_hook(note("accumulated"))
    accumulate.register_prehook(note("arrived"))
    y.grad_fn.metadata["a"] = 1
    found.append(y.grad_fn.metadata)
    (y * 2).sum().backward()
    found += [x.grad.tolist(), w.grad.tolist()]
    return found


def replacing(m: Any) -> list[Any]:
    x = m.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, None))
    y.sum().backward()
    return [x.grad.tolist()]


def functions(m: Any) -> list[Any]:
    class Both(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, k: float, c: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.k = k
            return x * k, x + k

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return g * ctx.k + h, None, None

    x = m.tensor([1.0, 2.0], requires_grad=True)
    a, b = Both.apply(x, 3.0, m.ones(1))
    fn = a.grad_fn
    found: list[Any] = [described(fn), described((b * 2).grad_fn), a.output_nr, b.output_nr]
    found += [fn is b.grad_fn, fn is a.grad_fn, fn.k, fn.saved_tensors[0] is x]
    found += [fn.needs_input_grad, type(fn).__name__]
    fn.register_prehook(lambda outputs: (outputs[0] * 2, outputs[1]))
    fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, None))
    (a + b).sum().backward()
    return [*found, x.grad.tolist()]


def identity(m: Any) -> list[Any]:
    x = m.ones(2, requires_grad=True)
    y = x.exp()
    a, b = y + 1, y * 2
    accumulate = (x + 1).grad_fn.next_functions[0][0]
    return [
        y.grad_fn is y.grad_fn,
        a.grad_fn.next_functions[0][0] is b.grad_fn.next_functions[0][0],
        a.grad_fn.next_functions[0][0] is y.grad_fn,
        accumulate is (x * 2).grad_fn.next_functions[0][0],
        accumulate.variable is x,
        y.grad_fn._saved_result is y,
        x.sin().grad_fn._saved_self is x,
        a.grad_fn.next_functions[1],
        accumulate.name(),
    ]


def freed(m: Any) -> list[Any]:
    x = m.ones(2, requires_grad=True)
    y = x * x
    y.sum().backward()
    try:
        y.grad_fn._saved_self
    except RuntimeError as error:
        return [str(error)]
    return []


def shown(m: Any) -> list[Any]:
    x = m.ones(1, requires_grad=True)
    return [
        repr(x * 2),
        repr(x.relu()),
        repr(m.nn.functional.linear(x.reshape(1, 1), m.ones(1, 1))),
    ]


@pytest.mark.parametrize("program", [hooks, replacing, functions, identity, freed, shown])
def test_the_same_program_says_the_same(program):
    assert program(lg) == program(torch)


NAMED = """
    m.linalg.cholesky(s) | m.linalg.qr(s)[0] | m.linalg.qr(s)[1] | m.linalg.eigh(s)[0] |
    m.linalg.eigh(s)[1] | m.linalg.svd(s)[0] | m.linalg.svd(s)[1] | m.linalg.svdvals(s) |
    m.linalg.lu_factor(s)[0] | m.linalg.eig(s)[0] | m.linalg.eig(s)[1] | m.linalg.lstsq(s, s)[0] |
    m.linalg.solve(s, s) | m.linalg.matrix_exp(s) | m.linalg.slogdet(s)[1] | m.cdist(s, s + 1) |
    m.nn.functional.pdist(s) | m.special.erfcx(s) | m.special.ndtri(s) | m.special.log_ndtr(s) |
    m.special.i0e(s) | m.special.i1(s) | m.special.i1e(s) | m.special.entr(s) | m.rad2deg(s) |
    m.special.xlog1py(s, s) | m.deg2rad(s) | m.special.polygamma(1, s) | m.fmod(s, 2.0) |
    m.fmod(s, s + 1) | m.remainder(s, 2.0) | m.remainder(s, s + 1) | m.fft.rfft(s) |
    m.nn.functional.gelu(s, approximate='tanh') | m.nn.functional.softsign(s) | m.diag_embed(s) |
    m.nn.functional.normalize(s) | m.nn.functional.cosine_similarity(s, s) | s.t().contiguous() |
    m.nn.functional.pairwise_distance(s, s + 1) | m.nn.functional.tanhshrink(s) | s.nansum() |
    m.nn.functional.rms_norm(s, (3,)) | s.scatter_reduce(0, i, s.detach(), 'amax')
"""


@pytest.mark.parametrize("program", [program.strip() for program in NAMED.split("|")])
def test_names(program: str) -> None:
    def name(m: Any) -> str:
        s = m.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]).requires_grad_() * 1
        y = eval(program, {"m": m, "s": s, "i": m.tensor([[0, 2, 1]])})
        return str(y.grad_fn.name())

    assert name(lg) == name(torch)
