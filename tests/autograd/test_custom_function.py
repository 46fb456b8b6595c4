"""autograd.Function: saved values, several outputs, orders, errors."""

import gc
import weakref

import numpy as np
import pytest

import livegrad as lg
from livegrad.autograd import Function, grad, gradcheck, gradgradcheck, once_differentiable
from livegrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from livegrad.graph.state import flush


def leaf(*values):
    return lg.tensor(list(values), requires_grad=True, dtype=lg.float64)


def close(tensor, expected):
    np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=1e-9)


class Exp(Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = (x * scale).exp()
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * ctx.scale, None


class MulAdd(Function):
    @staticmethod
    def forward(a, b, c):
        return a * b, a + c, 7

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, _ = inputs
        ctx.save_for_backward(a, None, b)
        ctx.count = len(output)

    @staticmethod
    def backward(ctx, g_product, g_sum, g_number):
        a, nothing, b = ctx.saved_tensors
        assert nothing is None
        assert g_number is None
        assert ctx.count == 3
        return g_product * b + g_sum, g_product * a, g_sum


def test_all_orders_through_a_saved_output():
    x = leaf(0.1, 0.2)
    y = Exp.apply(x, 3.0)
    (g1,) = grad(y.sum(), x, create_graph=True)
    (g2,) = grad(g1.sum(), x, create_graph=True)
    (g3,) = grad(g2.sum(), x)
    e = np.exp(3 * x.detach().numpy())
    for n, g in enumerate((y, g1, g2, g3)):
        close(g, 3**n * e)


def test_checks():
    a, b, c = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
    assert gradcheck(MulAdd.apply, (a, b, c))
    assert gradgradcheck(MulAdd.apply, (a, b, c))
    assert gradgradcheck(lambda x: Exp.apply(x, 2.0), (a,))


def test_backward_runs_once_for_all_outputs_and_zeros_stand_for_unused_ones():
    a, b, c = leaf(1.0), leaf(3.0), leaf(5.0)
    calls = []

    class Counted(MulAdd):
        @staticmethod
        def backward(ctx, *grads):
            calls.append([None if g is None else g.item() for g in grads])
            return MulAdd.backward(ctx, *grads)

    product, total, number = Counted.apply(a, b, c)
    assert number == 7
    (product * 2 + total * 5 + product).sum().backward()
    assert calls == [[3.0, 5.0, None]]
    close(a.grad, [3 * 3 + 5.0])
    product, total, _ = Counted.apply(a, b, c)
    total.sum().backward()
    assert calls[1:] == [[0.0, 1.0, None]]


def test_gradients_are_not_materialised_if_so_wished():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            assert h is None
            return g * 2

    x = leaf(1.0)
    Two.apply(x)[0].sum().backward()
    close(x.grad, [2.0])


def test_needs_input_grad_and_non_differentiable_outputs():
    class Split(Function):
        @staticmethod
        def forward(ctx, x, w, k):
            assert ctx.needs_input_grad == (True, False, False)
            y, n = x * w, x + w
            ctx.mark_non_differentiable(n)
            ctx.save_for_backward(w)
            return y, n

        @staticmethod
        def backward(ctx, g, zeros):
            assert zeros.item() == 0
            return g * ctx.saved_tensors[0], None, None

    x, w = leaf(2.0), lg.tensor([3.0], dtype=lg.float64)
    y, n = Split.apply(x, w, "text")
    assert y.requires_grad
    assert not n.requires_grad
    y.sum().backward()
    close(x.grad, [3.0])


def test_no_history_without_need():
    assert not Exp.apply(lg.ones(2), 1.0).requires_grad
    with lg.no_grad():
        assert not Exp.apply(leaf(1.0), 1.0).requires_grad


def test_outputs_lie_in_memory_as_forward_made_them():
    x = lg.ones(2, 3, requires_grad=True)
    assert Exp.apply(x.t(), 1.0).stride() == (1, 3)


def test_saved_value_survives_later_writes():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    h = x * 1
    y = Square.apply(h)
    h.mul_(100)
    y.mul_(2)
    y.sum().backward()
    close(x.grad, [12.0])


def test_dirty_input_is_returned_with_new_history():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(3.0)
    h = x * 1
    assert Double.apply(h) is h
    (h * h).sum().backward()
    close(x.grad, [24.0])
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        Double.apply(leaf(1.0))


def test_input_returned_as_it_is():
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(3.0)
    (Reverse.apply(x) * 2).sum().backward()
    close(x.grad, [-2.0])


def test_gradient_of_broadcast_shape_is_summed():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.save_for_backward(x, s)
            return x * s

        @staticmethod
        def backward(ctx, g):
            x, s = ctx.saved_tensors
            return g * s, g * x

    x, s = leaf(1.0, 2.0, 3.0), leaf(2.0)
    Scale.apply(x, s).sum().backward()
    close(s.grad, [6.0])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda g: (g, g), "incorrect number of gradients .expected 1, got 2"),
        (lambda g: (), "incorrect number of gradients"),
        (lambda g: lg.ones(5, dtype=lg.float64), "invalid gradient at index 0"),
    ],
)
def test_wrong_results_of_backward(result, message):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return result(g)

    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=message):
        Wrong.apply(x).sum().backward()
    assert x.grad is None


def test_trailing_none_is_allowed():
    class Extra(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    x = leaf(1.0)
    Extra.apply(x).sum().backward()
    close(x.grad, [2.0])


def test_once_differentiable():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x = leaf(3.0)
    w = leaf(1.0)
    (g,) = grad((Square.apply(x) * w).sum(), x, create_graph=True)
    close(g, [6.0])
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad(g.sum(), w)


def test_missing_backward():
    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="You must implement"):
        Forward.apply(leaf(1.0)).sum().backward()


def test_call_is_freed_without_the_collector():
    x = leaf(1.0)
    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(x, 2.0)
        node = weakref.ref(y._node)
        y.sum().backward()
        del y
        flush("test")
        assert node() is None
    finally:
        gc.enable()


def test_checkpoint_runs_backward_inside_backward():
    class Checkpoint(Function):
        @staticmethod
        def forward(ctx, function, x):
            ctx.function = function
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, g):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with lg.enable_grad():
                y = ctx.function(x)
            y.backward(g)
            return None, x.grad

    x, w = leaf(0.5), leaf(2.0)
    Checkpoint.apply(lambda a: (a * w).exp(), x).sum().backward()
    close(x.grad, [2 * np.exp(1.0)])
    close(w.grad, [0.5 * np.exp(1.0)])


class Pushes(Function):
    """exp(x) * y and x + y, of which only `jvp` is told; what it keeps is gone after one use."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.slope = x.exp()
        ctx.save_for_backward(x)
        ctx.save_for_forward(x.exp() * y)
        return x.exp() * y, x + y

    @staticmethod
    def jvp(ctx, gx, gy):
        (product,) = ctx.saved_tensors
        slope = ctx.slope
        del ctx.slope
        return gx * product + gy * slope, gx + gy


def test_forward_mode_asks_jvp_once():
    x, y = leaf(0.5, 1.0), leaf(2.0, 3.0)
    with dual_level():
        both = Pushes.apply(make_dual(x, lg.ones_like(x)), make_dual(y, 2 * lg.ones_like(y)))
        tangents = [unpack_dual(z).tangent for z in (both[0].sin(), *both)]
    e, value = np.exp([0.5, 1.0]), np.exp([0.5, 1.0]) * [2.0, 3.0]
    close(tangents[1], value + 2 * e)
    close(tangents[0], np.cos(value) * (value + 2 * e))
    close(tangents[2], [3.0, 3.0])
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        both[0].sum().backward()


class Squares(Function):
    """x squared, whose `backward` cannot be differentiated."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):
        return 2 * ctx.saved_tensors[0] * t


class WrongTangent(Squares):
    @staticmethod
    def jvp(ctx, t):
        return 5 * ctx.saved_tensors[0] * t


def test_gradcheck_looks_at_forward_mode():
    assert gradcheck(Squares.apply, (leaf(0.5, 2.0),), check_forward_ad=True)
    assert gradcheck(WrongTangent.apply, (leaf(0.5, 2.0),))
    with pytest.raises(RuntimeError, match="computed with forward mode"):
        gradcheck(WrongTangent.apply, (leaf(0.5, 2.0),), check_forward_ad=True)


def test_gradcheck_of_forward_mode_alone():
    args = (leaf(0.5), leaf(2.0))
    assert gradcheck(Pushes.apply, args, check_forward_ad=True, check_backward_ad=False)


class Triples(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def vjp(ctx, g):
        return g * 3


class Twice(Triples):
    @staticmethod
    def backward(ctx, g):
        return g * 3


def test_vjp_is_another_name_for_backward():
    x = leaf(1.0, 2.0)
    close(grad(Triples.apply(x).sum(), x)[0], [3.0, 3.0])
    with pytest.raises(RuntimeError, match="both 'backward' and 'vjp'"):
        grad(Twice.apply(x).sum(), x)
