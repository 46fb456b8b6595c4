"""gradcheck, gradgradcheck, autograd.functional."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.autograd import Function, functional, gradcheck, gradgradcheck


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return lg.tensor(values, requires_grad=True)


def test_right_gradients_pass():
    x, w = leaf(2, 3), leaf(3, seed=1)

    def program(x, w):
        return (x * w).exp().sum(0), (x / w).tanh(), (x > 1)

    assert gradcheck(program, (x, w))
    assert gradgradcheck(program, (x, w))


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2.1 * ctx.saved_tensors[0] * g


def test_wrong_first_gradient_is_reported():
    with pytest.raises(RuntimeError, match=r"(?s)Jacobian mismatch.*Worst: d output.*numerical"):
        gradcheck(Wrong.apply, (leaf(3),))
    assert not gradcheck(Wrong.apply, (leaf(3),), raise_exception=False)


def test_wrong_second_gradient_is_found():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0].detach() * g

    assert gradcheck(Square.apply, (leaf(3),))
    assert not gradgradcheck(Square.apply, (leaf(3),), raise_exception=False)


def test_lost_gradient_is_found():
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradcheck(lambda x: x.detach() * 2, (leaf(2),))


def test_bad_calls():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, (lg.ones(2),))
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 2, (lg.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)


def test_function_may_write_to_its_arguments():
    def program(x):
        y = x * 1
        y.mul_(x)
        return y

    assert gradcheck(program, (leaf(3),))


def test_empty_and_zero_dims():
    assert gradcheck(lambda x: x * x, (leaf(),))
    assert gradcheck(lambda x: (x * x).sum(), (leaf(0),))


A = np.array([[2.0, 1.0], [0.5, 3.0]])


def test_jacobian_and_hessian():
    x, w = lg.tensor([1.0, 2.0]), lg.tensor([3.0, 4.0])
    jx, jw = functional.jacobian(lambda a, b: a * b, (x, w))
    np.testing.assert_allclose(jx.numpy(), np.diag([3.0, 4.0]))
    np.testing.assert_allclose(jw.numpy(), np.diag([1.0, 2.0]))
    h = functional.hessian(lambda a: (a * a * a).sum(), x)
    np.testing.assert_allclose(h.numpy(), np.diag([6.0, 12.0]))
    blocks = functional.hessian(lambda a, b: (a * b * b).sum(), (x, w))
    np.testing.assert_allclose(blocks[0][1].numpy(), np.diag([6.0, 8.0]))
    np.testing.assert_allclose(blocks[0][0].numpy(), np.zeros((2, 2)))


def test_vector_products_agree_with_jacobian():
    x, v = lg.tensor([1.0, 2.0]), lg.tensor([1.0, -1.0])

    def program(a):
        return (a * a).exp() * 1e-1 + a.sum()

    jacobian = functional.jacobian(program, x).numpy()
    out, row = functional.vjp(program, x, v)
    np.testing.assert_allclose(row.numpy(), v.numpy() @ jacobian, rtol=1e-5)
    np.testing.assert_allclose(out.numpy(), program(x).numpy())
    _, column = functional.jvp(program, x, v)
    np.testing.assert_allclose(column.numpy(), jacobian @ v.numpy(), rtol=1e-5)
    hessian = functional.hessian(lambda a: program(a).sum(), x).numpy()
    for product in (functional.vhp, functional.hvp):
        _, row = product(lambda a: program(a).sum(), x, v)
        np.testing.assert_allclose(row.numpy(), hessian @ v.numpy(), rtol=1e-5)


def test_strict_finds_independence():
    with pytest.raises(RuntimeError, match="independent"):
        functional.jacobian(lambda a: lg.ones(2) * a.detach(), lg.ones(2), strict=True)


def test_jacobian_with_graph():
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    functional.jacobian(lambda a: a * a * a, x, create_graph=True).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [6.0, 12.0])


@pytest.mark.parametrize("first", ["gradgradcheck", "GradcheckError", "gradcheck"])
def test_the_function_stays_a_function_whatever_is_used_first(python, first):
    python(f"import livegrad as lg; lg.autograd.{first}; assert callable(lg.autograd.gradcheck)")
