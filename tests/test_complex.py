"""Complex tensors: dtypes, parts and views, arithmetic, gradients, what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import reference_mode
from livegrad.runtime.report import last_steps

A = np.array([[1 + 2j, -0.5j, 3.25], [-1 - 1j, 2.5 + 0.5j, 0.75j]])
B = np.array([[0.5 - 1j, 2 + 2j, -1j], [3 + 0.25j, -1.5, 1 + 1j]])


def tensors(*arrays: Any, requires_grad: bool = False) -> list[Any]:
    return [lg.tensor(x, requires_grad=requires_grad) for x in arrays]


# -------------------------------------------------------------------------------------- dtypes


def test_literals_and_numpy() -> None:
    assert lg.tensor(1j).dtype is lg.complex64
    assert lg.tensor([1, 2.0, 3j]).dtype is lg.complex64
    assert lg.tensor(A).dtype is lg.complex128
    assert lg.tensor([1.0, 2.0], dtype=lg.cfloat).dtype is lg.complex64
    np.testing.assert_array_equal(lg.tensor(A).numpy(), A)
    np.testing.assert_array_equal(np.asarray(lg.from_numpy(A)), A)
    np.testing.assert_array_equal(np.from_dlpack(lg.tensor(A)), A)
    assert lg.tensor(A).tolist() == A.tolist()
    assert lg.tensor(2 - 1j).item() == 2 - 1j
    assert complex(lg.tensor(2 - 1j)) == 2 - 1j
    assert lg.tensor(1j).to(complex).dtype is lg.complex128
    assert lg.complex64.is_complex
    assert not lg.complex64.is_floating_point
    assert lg.complex128.to_real() is lg.float64
    assert lg.tensor(A).is_complex()
    assert lg.is_complex(lg.tensor(A))


def test_default_complex_follows_the_default_float() -> None:
    lg.set_default_dtype(lg.float64)
    try:
        assert lg.tensor(1j).dtype is lg.complex128
        assert (lg.tensor([1, 2]) * 1j).dtype is lg.complex128
    finally:
        lg.set_default_dtype(lg.float32)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (lg.zeros(2), 1j, lg.complex64),
        (lg.zeros(2, dtype=lg.float64), 1j, lg.complex128),
        (lg.zeros(2, dtype=lg.int64), 1j, lg.complex64),
        (lg.zeros(2, dtype=lg.complex64), lg.zeros(2, dtype=lg.float64), lg.complex128),
        (lg.zeros(2, dtype=lg.complex64), lg.zeros((), dtype=lg.complex128), lg.complex64),
        (lg.zeros(2, dtype=lg.float32), lg.zeros((), dtype=lg.complex128), lg.complex64),
        (lg.zeros(2, dtype=lg.int8), lg.zeros((), dtype=lg.complex128), lg.complex128),
        (lg.zeros((), dtype=lg.float64), lg.zeros(2, dtype=lg.complex64), lg.complex64),
    ],
)
def test_promotion(left: Any, right: Any, result: Any) -> None:
    assert (left * right).dtype is result
    assert (right * left).dtype is result


def test_casts() -> None:
    x = lg.tensor([1.75 - 2j, 0j, 1j])
    assert x.to(lg.float32).tolist() == [1.75, 0.0, 0.0]
    assert x.int().tolist() == [1, 0, 0]
    assert x.bool().tolist() == [True, False, True]
    assert lg.tensor([True, False]).cdouble().tolist() == [1, 0]
    assert lg.tensor([1, 2]).chalf().dtype is lg.complex64  # there is no complex32
    with pytest.raises(RuntimeError, match="without overflow"):
        float(x[0])
    with pytest.raises(RuntimeError, match="can't be cast"):
        lg.zeros(3).mul_(1j)


def test_copies() -> None:
    x = lg.tensor(A)
    assert pickle.loads(pickle.dumps(x)).tolist() == A.tolist()
    assert copy.deepcopy(x).tolist() == A.tolist()


def test_printing_is_pytorchs() -> None:
    assert repr(lg.tensor([1 + 2j, 3.5 - 1j])) == "tensor([1.0000+2.j, 3.5000-1.j])"
    assert repr(lg.tensor(1.5 - 0.25j)) == "tensor(1.5000-0.2500j)"
    assert repr(lg.tensor([[1e6 + 1e-3j, 0], [complex(float("nan"), -1), 1]])) == (
        "tensor([[1.0000e+06+0.0010j, 0.0000e+00+0.0000j],\n"
        "        [       nan-1.0000j, 1.0000e+00+0.0000j]])"
    )
    assert repr(lg.tensor(A[0, :1])) == "tensor([1.+2.j], dtype=livegrad.complex128)"


# -------------------------------------------------------------------------- parts and views


def test_parts() -> None:
    (x,) = tensors(A)
    np.testing.assert_array_equal(x.real.numpy(), A.real)
    np.testing.assert_array_equal(x.imag.numpy(), A.imag)
    np.testing.assert_array_equal(lg.view_as_real(x).numpy()[..., 1], A.imag)
    np.testing.assert_array_equal(lg.complex(x.real, x.imag).numpy(), A)
    np.testing.assert_allclose(lg.polar(x.abs(), x.angle()).numpy(), A, rtol=1e-14)
    np.testing.assert_allclose(lg.angle(x).numpy(), np.angle(A), rtol=1e-14)
    np.testing.assert_array_equal(x.H.numpy(), A.conj().T)
    assert lg.isreal(x).tolist() == (A.imag == 0).tolist()
    assert lg.angle(lg.tensor([-2.0, 0.0, 3.0])).tolist() == pytest.approx([np.pi, 0, 0])
    y = lg.tensor([1.0])
    assert lg.real(y) is y
    assert y.conj() is y
    assert lg.resolve_conj(x) is x
    assert not x.is_conj()
    with pytest.raises(RuntimeError, match="imag is not implemented"):
        _ = y.imag


def test_a_resolved_conjugate_is_a_copy() -> None:
    x = lg.tensor([[1 + 2j, 3j], [1, 2]])
    shown = x[:, 1:].conj()
    assert shown.is_conj()
    assert shown.t().is_conj()
    assert not shown.conj().is_conj()
    assert not shown.imag.is_conj()
    assert not shown.clone().is_conj()
    resolved = shown.resolve_conj()
    assert resolved is not shown
    assert resolved.stride() == (1, 1)
    resolved.add_(1)
    assert x[:, 1].tolist() == [3j, 2]
    assert shown.conj().resolve_conj().tolist() == [[3j], [2]]


def test_parts_are_views() -> None:
    (x,) = tensors(A)
    x.real[0] = 7
    x.imag.mul_(2)
    want = A.copy()
    want.real[0] = 7
    want.imag *= 2
    np.testing.assert_array_equal(x.numpy(), want)
    x.conj()[1, 0] = 1j
    want[1, 0] = -1j
    x.T[2] += 1
    want.T[2] += 1
    np.testing.assert_array_equal(x.numpy(), want)
    pairs = lg.zeros(3, 2)
    lg.view_as_complex(pairs).add_(1 - 2j)
    assert pairs.tolist() == [[1, -2]] * 3


def test_view_errors() -> None:
    with pytest.raises(RuntimeError, match="last dimension of size 2"):
        lg.view_as_complex(lg.zeros(3))
    with pytest.raises(RuntimeError, match="only supported for complex"):
        lg.view_as_real(lg.zeros(3))
    with pytest.raises(RuntimeError, match="expected both inputs"):
        lg.complex(lg.tensor([1]), lg.tensor([2]))
    with pytest.raises(RuntimeError, match="float64 for second argument"):
        lg.complex(lg.zeros(2), lg.zeros(2, dtype=lg.float64))


def test_real_kernels_read_complex_memory() -> None:
    """Parts are strided reads of the complex value, and joining parts copies nothing twice."""
    (x,) = tensors(A)
    (x.real + 1).sum().item()  # whatever else was pending is computed
    y = lg.complex(x.imag * 2, x.real + 1)
    np.testing.assert_array_equal(y.numpy(), A.imag * 2 + 1j * (A.real + 1))
    assert "host" not in [step.kind for step in last_steps()]


# ---------------------------------------------------------------------------- computing

UNARY: list[tuple[str, Callable[..., Any]]] = [
    (name, getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
                        "acosh": "arccosh", "atanh": "arctanh"}.get(name, name)))
    for name in ("exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh square "
                 "reciprocal negative abs exp2 expm1 log2 log10 log1p conj angle").split()
]  # fmt: skip


@pytest.mark.parametrize(("name", "wanted"), UNARY)
def test_functions_and_their_gradients(name: str, wanted: Callable[..., Any]) -> None:
    f = getattr(lg, name)
    np.testing.assert_allclose(f(lg.tensor(A)).numpy(), wanted(A), rtol=1e-12, atol=1e-14)
    (x,) = tensors(A[0, :2], requires_grad=True)
    assert lg.autograd.gradcheck(f, (x,))
    assert lg.autograd.gradgradcheck(f, (x,))


@pytest.mark.parametrize("name", ["sigmoid", "rsqrt", "sgn"])
def test_gradients_of_functions_numpy_lacks(name: str) -> None:
    (x,) = tensors(A[1], requires_grad=True)
    assert lg.autograd.gradcheck(getattr(lg, name), (x,))
    assert lg.autograd.gradgradcheck(getattr(lg, name), (x,))


PAIRS: list[Callable[..., Any]] = [
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: a - 2j * b,
    lambda a, b: a**b,
    lambda a, b: a**2.5 + b**3 + 2**a,
    lambda a, b: a @ b.mH,
    lambda a, b: (a.mH @ b).sum(0),
    lambda a, b: lg.where(a.real > 0.1, a, b),
    lambda a, b: lg.lerp(a, b, 0.25 + 0.5j),
    lambda a, b: lg.addcmul(a, a, b, value=2j),
    lambda a, b: lg.addcdiv(a, a, b, value=0.5),
    lambda a, b: lg.cat([a, b]).prod(0),
    lambda a, b: lg.stack([a, b]).mean((0, 2)),
    lambda a, b: (a * b).var(1) + (a - b).std(1),
    lambda a, b: (a + b).norm(dim=0) * (a - b).abs().sum(),
    lambda a, b: lg.logaddexp(a, b),
    lambda a, b: lg.nn.functional.linear(a, b, b[:, 0]),
    lambda a, b: a[:, [2, 0]] * b.T[:2].T,
    lambda a, b: (a.real * b).sum() * b.imag,
]


@pytest.mark.parametrize("f", PAIRS)
def test_gradients_of_pairs(f: Callable[..., Any]) -> None:
    both = tensors(A, B, requires_grad=True)
    assert lg.autograd.gradcheck(f, both)
    assert lg.autograd.gradgradcheck(f, both)


def test_compiled_equals_reference() -> None:
    def program() -> Any:
        a, b = tensors(A, B, requires_grad=True)
        c = a @ b.mH + lg.tensor(2.0) * 1j
        d = (c.exp() * c.conj()).real.softmax(-1)
        loss = (d * c).abs().square().sum() + a.imag.sum()
        loss.backward()
        return loss.item(), a.grad.numpy(), b.grad.numpy()

    with reference_mode():
        wanted = program()
    for got, want in zip(program(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_real_leaves_get_real_gradients() -> None:
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    z = lg.tensor([1 + 2j, 3 - 1j])
    (x * z).abs().sum().backward()
    assert x.grad.dtype is lg.float32
    np.testing.assert_allclose(x.grad.numpy(), np.abs(z.numpy()), rtol=1e-6)


def test_the_gradient_is_the_conjugate_one() -> None:
    """Descent along -grad reduces a real loss: for |z|² the gradient is 2z."""
    z = lg.tensor([1 + 2j, -3j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, -6j]


def test_backward_wants_a_real_scalar() -> None:
    z = lg.tensor([1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        (z * 2).sum().backward()
    (z * 2).sum().backward(lg.tensor(1j))
    assert z.grad.tolist() == [2j]


def test_numbers_need_no_new_plan() -> None:
    x = lg.tensor(A)
    (x * 2j).numpy()
    before = lg.stats().plan_misses
    np.testing.assert_array_equal((x * (3 - 1j)).numpy(), A * (3 - 1j))
    assert lg.stats().plan_misses == before


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("reference", [True, False])
def test_optimizers_update_both_parts(name: str, reference: bool) -> None:
    """A complex parameter is updated like its two parts."""

    def train(start: Any, loss: Callable[[Any], Any]) -> Any:
        x = lg.tensor(start, requires_grad=True)
        optimizer = getattr(lg.optim, name)([x], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss(x).backward()
            optimizer.step()
        return x.detach().numpy()

    with reference_mode(reference):
        whole = train(A, lambda x: (x * B).abs().square().sum())
        pairs = np.stack([A.real, A.imag], -1)
        parts = train(pairs, lambda x: (lg.view_as_complex(x) * B).abs().square().sum())
    np.testing.assert_allclose(whole, parts[..., 0] + 1j * parts[..., 1], rtol=1e-12)


# ------------------------------------------------------------------------------- refusals

REFUSED: list[Callable[[Any], Any]] = [
    lambda x: x < 1,
    lambda x: x.floor(),
    lambda x: x.clamp(0, 1),
    lambda x: x.max(),
    lambda x: x.relu(),
    lambda x: x.sort(),
    lambda x: lg.sign(x),
    lambda x: lg.maximum(x, x),
    lambda x: x % 2,
    lambda x: x // 2,
    lambda x: lg.atan2(x, x),
    lambda x: lg.erf(x),
    lambda x: lg.nn.functional.gelu(x),
    lambda x: x.softmax(0),
    lambda x: x & x,
]


@pytest.mark.parametrize("f", REFUSED)
def test_what_complex_numbers_cannot_do_is_refused_at_once(f: Callable[[Any], Any]) -> None:
    with pytest.raises(RuntimeError):
        f(lg.tensor([1j, 2]))


def test_comparisons() -> None:
    a, b = tensors(A, B)
    assert (a == a).all()
    assert (a != b).all()
    assert 2.5 + 0.5j in a
    assert lg.allclose(a, a + 1e-12j)
    assert lg.isnan(lg.tensor([complex(0, float("nan")), 1j])).tolist() == [True, False]
    assert lg.isfinite(lg.tensor([complex(0, float("inf")), 1j])).tolist() == [False, True]
    assert lg.logical_not(lg.tensor([0j, 1j])).tolist() == [True, False]


def test_conjugates_are_not_seen_as_pairs_of_reals():
    x = lg.tensor([1 + 2j])
    with pytest.raises(RuntimeError, match="resolve_conj"):
        lg.view_as_real(x.conj())
    assert lg.view_as_real(x.conj().resolve_conj()).tolist() == [[1, -2]]
    assert (x.conj().real.item(), x.conj().imag.item()) == (1, -2)
