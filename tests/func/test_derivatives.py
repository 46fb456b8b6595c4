"""grad, vjp, jvp, Jacobians and Hessians: against formulas, and of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.func import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)


def vector(*values: float) -> Any:
    return lg.tensor(values, dtype=lg.float64)


X = (0.3, -1.2, 2.0)


def close(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(got.detach()), np.asarray(wanted), rtol=1e-10, atol=1e-12)


def cubes(x: Any) -> Any:
    return (x**3).sum()


# ---------------------------------------------------------------------------------------- grad


def test_grad_of_a_scalar_function() -> None:
    x = vector(*X)
    g = grad(cubes)(x)
    close(g, 3 * np.square(X))
    assert not g.requires_grad
    assert not x.requires_grad


def test_several_arguments_nested_arguments_and_aux() -> None:
    def f(p: Any, x: Any, scale: float = 1.0) -> Any:
        return (p["w"] * x + p["b"]).sum() * scale, x + 1

    p = {"w": vector(*X), "b": vector(1.0, 2.0, 3.0)}
    x = vector(2.0, 3.0, 4.0)
    (gp, gx), aux = grad(f, argnums=(0, 1), has_aux=True)(p, x, scale=2.0)
    close(gp["w"], 2 * np.array([2.0, 3.0, 4.0]))
    close(gp["b"], [2.0, 2.0, 2.0])
    close(gx, 2 * np.array(X))
    close(aux, [3.0, 4.0, 5.0])
    g, value = grad_and_value(cubes)(x)
    again, g2 = value_and_grad(cubes)(x)
    close(value, again)
    close(g, g2)
    close(grad(cubes, argnums=-1)(x), g)


def test_an_argument_that_takes_no_part_has_gradient_zero() -> None:
    g = grad(lambda x, y: (x * 2).sum(), argnums=(0, 1))(vector(*X), vector(1.0))
    close(g[1], [0.0])


def test_gradients_of_gradients() -> None:
    t = lg.tensor(0.7, dtype=lg.float64)
    close(grad(grad(lg.sin))(t), -np.sin(0.7))
    close(grad(grad(grad(lg.sin)))(t), -np.cos(0.7))


def test_variables_of_two_transforms_are_not_confused() -> None:
    def inner(x: Any) -> Any:
        # The derivative of y -> x * y is x, whatever y is.
        return x * grad(lambda y: x * y)(lg.tensor(2.0))

    assert grad(inner)(lg.tensor(3.0)).item() == 6.0


def test_what_lies_outside_stays_differentiable() -> None:
    w = vector(*X).requires_grad_()
    g = grad(lambda x: (w * x * x).sum())(vector(1.0, 2.0, 3.0))
    assert g.requires_grad
    g.sum().backward()
    close(w.grad, [2.0, 4.0, 6.0])
    x = vector(*X).requires_grad_()
    grad(cubes)(x).sum().backward()
    close(x.grad, 6 * np.array(X))


def test_gradient_modes() -> None:
    x = vector(*X)
    with lg.no_grad():
        close(grad(cubes)(x), 3 * np.square(X))  # a transform asks for gradients of its own

    def f(x: Any) -> Any:
        with lg.no_grad():
            shift = x**2
        return (x**3 - shift).sum()

    close(grad(f)(x), 3 * np.square(X))
    close(grad(lambda x: (x.detach() * x).sum())(x), X)


def test_a_function_may_read_values_and_write_in_place() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y[0] = 0
        y.mul_(x)
        return y.sum() if y.sum().item() > 0 else -y.sum()

    close(grad(f)(vector(*X)), [0.0, -4.8, 8.0])


def test_errors_of_grad() -> None:
    with pytest.raises(RuntimeError, match="scalar Tensor, got tensor with 1 dims"):
        grad(lambda x: x)(vector(*X))
    with pytest.raises(RuntimeError, match="to return a Tensor"):
        grad(lambda x: 1.0)(vector(*X))
    with pytest.raises(RuntimeError, match="only 1 positional"):
        grad(cubes, argnums=1)(vector(*X))
    with pytest.raises(RuntimeError, match="unique"):
        grad(cubes, argnums=(0, 0))(vector(*X))
    with pytest.raises(RuntimeError, match="tuple"):
        grad(cubes, has_aux=True)(vector(*X))
    with pytest.raises(ValueError, match="must be Tensor"):
        grad(cubes)(1.0)


# ----------------------------------------------------------------------------------- vjp, jvp


def test_vjp_can_be_called_again_and_after_values_were_read() -> None:
    x, y = vector(*X), vector(1.0, 2.0, 3.0)
    out, pull = vjp(lambda x, y: {"sum": x + y, "product": x * y}, x, y)
    assert not out["sum"].requires_grad
    close(out["product"], np.array(X) * [1, 2, 3])
    for factor in (1.0, 5.0):
        weight = vector(1.0, 1.0, 1.0) * factor
        gx, gy = pull({"sum": weight, "product": weight})
        close(gx, factor * np.array([2.0, 3.0, 4.0]))
        close(gy, factor * (1 + np.array(X)))
    with pytest.raises(RuntimeError, match="pytree structure"):
        pull(x)
    with pytest.raises(RuntimeError, match="floating-point"):
        vjp(lambda x: x > 0, x)
    _, _, aux = vjp(lambda x: (x, "more"), x, has_aux=True)
    assert aux == "more"


def test_jvp() -> None:
    x, t = vector(*X), vector(1.0, 0.0, -2.0)
    out, product = jvp(lambda x: (x.sin(), x * x, x > 0), (x,), (t,))
    close(out[0], np.sin(X))
    close(product[0], np.cos(X) * [1, 0, -2])
    close(product[1], 2 * np.array(X) * [1, 0, -2])
    assert not product[2].any()
    with pytest.raises(RuntimeError, match="tuple"):
        jvp(lg.sin, x, t)
    with pytest.raises(RuntimeError, match="same python structure"):
        jvp(lg.sin, (x,), (t, t))
    with pytest.raises(RuntimeError, match="independent"):
        jvp(lambda x: vector(1.0), (x,), (t,), strict=True)


def test_linearize() -> None:
    x = vector(*X)
    out, push = linearize(lambda x: (x**2).sum(), x)
    close(out, np.square(X).sum())
    for t in ([1.0, 0, 0], [0, 1.0, 2.0]):
        close(push(vector(*t)), 2 * np.dot(X, t))


# ------------------------------------------------------------------------- Jacobians, Hessians


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians(jacobian: Any) -> None:
    x = vector(*X)
    close(jacobian(lg.sin)(x), np.diag(np.cos(X)))
    matrix = lg.tensor(np.arange(6.0).reshape(2, 3))
    both = jacobian(lambda a, b: {"y": a @ b, "z": b.sum()}, argnums=(0, 1))(matrix, x)
    close(both["y"][1], matrix.numpy())
    assert both["y"][0].shape == (2, 2, 3)
    assert both["z"][0].shape == (2, 3)
    close(both["z"][1], np.ones(3))
    found, aux = jacobian(lambda x: (x * 2, x), has_aux=True)(x)
    close(found, 2 * np.eye(3))
    close(aux, X)
    assert jacobian(lambda x: x[:0])(x).shape == (0, 3)


def test_jacobian_in_chunks() -> None:
    x = vector(*X)
    for size in (1, 2, 5):
        close(jacrev(lg.sin, chunk_size=size)(x), np.diag(np.cos(X)))
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(lg.sin, chunk_size=0)


def test_hessians() -> None:
    x = vector(*X)
    close(hessian(cubes)(x), 6 * np.diag(X))
    close(jacrev(jacfwd(cubes))(x), 6 * np.diag(X))
    found = hessian(lambda p: p["a"] @ p["a"] * p["b"].sum())({"a": x, "b": vector(2.0, 3.0)})
    close(found["a"]["a"], 10 * np.eye(3))
    close(found["a"]["b"], 2 * np.stack([X, X], 1))
    assert found["b"]["b"].shape == (2, 2)


def test_hessian_vector_product_by_composition() -> None:
    x, v = vector(*X), vector(1.0, 2.0, 3.0)
    _, forward_over_reverse = jvp(grad(cubes), (x,), (v,))
    _, pull = vjp(grad(cubes), x)
    wanted = 6 * np.array(X) * [1, 2, 3]
    close(forward_over_reverse, wanted)
    close(pull(v)[0], wanted)
    batch = vmap(lambda v: jvp(grad(cubes), (x,), (v,))[1])(lg.stack([v, 2 * v]))
    close(batch, [wanted, 2 * wanted])


# --------------------------------------------------------------------------- the older spellings


def test_autograd_functional() -> None:
    functional = lg.autograd.functional
    x = vector(*X)
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        close(functional.jacobian(lg.sin, x, **options), np.diag(np.cos(X)))
    close(functional.hessian(cubes, x, vectorize=True), 6 * np.diag(X))
    outer = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    close(functional.hessian(cubes, x, **outer), 6 * np.diag(X))
    with pytest.raises(NotImplementedError, match="vectorize=True"):
        functional.jacobian(lg.sin, x, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="strict=True and vectorize=True"):
        functional.jacobian(lg.sin, x, strict=True, vectorize=True)


def test_forward_ad() -> None:
    from livegrad.autograd import forward_ad

    x, t = vector(*X), vector(1.0, 2.0, 3.0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        value, tangent = forward_ad.unpack_dual(dual.sin() * 2)
        close(value, 2 * np.sin(X))
        close(tangent, 2 * np.cos(X) * [1, 2, 3])
        close(forward_ad.unpack_dual(dual).tangent, t.numpy())
        assert forward_ad.unpack_dual(dual).tangent is t
        assert forward_ad.unpack_dual(x).tangent is None
        with pytest.raises(RuntimeError, match="Nested"):
            forward_ad.enter_dual_level()
        dual = forward_ad.make_dual(x, t.float())  # a tangent of another precision is cast
        tangent = forward_ad.unpack_dual(dual.sin()).tangent
        close(tangent, np.cos(X) * [1, 2, 3])
        assert tangent.dtype == lg.float64
        with pytest.raises(RuntimeError, match="shape of the tensor"):
            forward_ad.make_dual(x, t[:2])
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, t)


def test_batched_gradients_of_autograd_grad() -> None:
    x = vector(*X).requires_grad_()
    weights = lg.eye(3, dtype=lg.float64)
    (rows,) = lg.autograd.grad(x.sin(), x, weights, is_grads_batched=True)
    close(rows, np.diag(np.cos(X)))
