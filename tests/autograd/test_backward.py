"""Reverse mode: values, orders, accumulation, in-place writes and views, errors."""

import gc

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.autograd import backward, grad
from livegrad.graph.node import describe_site, site_location


def leaf(*values, dtype=None):
    return lg.tensor(list(values), requires_grad=True, dtype=dtype or lg.float64)


def close(tensor, expected):
    np.testing.assert_allclose(tensor.detach().numpy(), expected, rtol=1e-6, atol=1e-12)


def test_first_order_against_formula():
    x, w = leaf(0.5, -1.0, 2.0), leaf(1.5, 0.25, -0.75)
    ((x * w).tanh() * x).sum().backward()
    a, b = x.detach().numpy(), w.detach().numpy()
    t = np.tanh(a * b)
    close(x.grad, t + a * b * (1 - t * t))
    close(w.grad, a * a * (1 - t * t))


def test_second_and_third_order():
    x = leaf(1.0, 2.0, 3.0)
    y = (x * x * x * x).sum()
    (g1,) = grad(y, x, create_graph=True)
    (g2,) = grad(g1.sum(), x, create_graph=True)
    (g3,) = grad(g2.sum(), x)
    a = x.detach().numpy()
    close(g1, 4 * a**3)
    close(g2, 12 * a**2)
    close(g3, 24 * a)
    assert g1.requires_grad
    assert not g3.requires_grad


def test_gradient_penalty_reaches_parameters_through_the_gradient():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (gx,) = grad((x * x * w).sum(), x, create_graph=True)
    (gx * gx).sum().backward()
    a, b = x.detach().numpy(), w.detach().numpy()
    close(w.grad, 8 * a * a * b)  # d/dw (2xw)^2
    close(x.grad, 8 * a * b * b)


def test_one_value_used_many_times():
    x = leaf(2.0)
    y = x
    for _ in range(10):
        y = y + y
    y.sum().backward()
    close(x.grad, [1024.0])


def test_same_tensor_on_both_sides():
    x = leaf(3.0, -2.0)
    (x * x).sum().backward()
    close(x.grad, [6.0, -4.0])


def test_broadcast_dims_are_summed():
    x = lg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    row, column, number = leaf(1.0, 2.0, 3.0), leaf(2.0, 3.0).reshape(2, 1), leaf(5.0)
    column.retain_grad()
    (x * row * column * number).sum().backward()
    a = np.arange(6.0).reshape(2, 3)
    close(row.grad, (a * [[2], [3]]).sum(0) * 5)
    close(column.grad, (a * [1, 2, 3]).sum(1, keepdims=True) * 5)
    close(number.grad, [(a * [1, 2, 3] * [[2], [3]]).sum()])
    assert row.grad.shape == (3,)
    assert number.grad.shape == (1,)


def test_leading_and_inner_broadcast_together():
    x = lg.tensor(np.ones((1, 3, 1)), requires_grad=True)
    y = lg.tensor(np.ones((2, 4, 3, 5)))
    (x * y).sum().backward()
    close(x.grad, np.full((1, 3, 1), 40.0))


def test_gradient_has_dtype_of_its_tensor():
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    w = leaf(3.0, 4.0)
    (x * w).sum().backward()
    assert x.grad.dtype is lg.float32
    assert w.grad.dtype is lg.float64


def test_numbers_on_either_side():
    x = leaf(2.0, 4.0)
    ((1 - x) * 3 + 8 / x).sum().backward()
    close(x.grad, [-3 - 8 / 4, -3 - 8 / 16])


def test_accumulation_is_seen_through_aliases_of_grad():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    alias = x.grad
    (x * 3).sum().backward()
    assert x.grad is alias
    close(alias, [5.0, 5.0])


def test_gradients_of_two_leaves_are_two_tensors():
    a, b = leaf(1.0), leaf(2.0)
    (a + b).sum().backward()
    a.grad.mul_(10)
    close(a.grad, [10.0])
    close(b.grad, [1.0])


def test_gradient_of_sum_can_be_written_to():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    x.grad.add_(1)
    x.sum().backward()
    close(x.grad, [3.0, 3.0])


def test_given_gradient_is_not_aliased():
    x = leaf(1.0, 2.0)
    v = lg.tensor([3.0, 4.0], dtype=lg.float64)
    x.backward(v)
    x.grad.mul_(0)
    close(v, [3.0, 4.0])


def test_vector_products():
    x = leaf(1.0, 2.0, 3.0)
    (x * x).backward(lg.tensor([1.0, 0.0, 2.0], dtype=lg.float64))
    close(x.grad, [2.0, 0.0, 12.0])


def test_several_outputs():
    x = leaf(1.0, 2.0)
    backward([(x * x).sum(), (3 * x).sum()])
    close(x.grad, [5.0, 7.0])
    (g,) = grad([x * 2, x * 3], [x], [lg.tensor([1.0, 0.0]), lg.tensor([0.0, 1.0])])
    close(g, [2.0, 3.0])


def test_backward_into_given_inputs_only():
    x, w = leaf(1.0), leaf(2.0)
    h = x * w
    (h * h).sum().backward(inputs=[w])
    assert x.grad is None
    close(w.grad, [4.0])


def test_grad_for_interior_tensor_and_for_what_is_before_it():
    x = leaf(3.0)
    h = x * 2
    y = (h * h).sum()
    gh, gx = grad(y, [h, x])
    close(gh, [12.0])
    close(gx, [24.0])


def test_grad_leaves_leaves_alone():
    x, w = leaf(1.0), leaf(2.0)
    grad((x * w).sum(), x)
    assert x.grad is None
    assert w.grad is None


def test_unused_inputs():
    x, w = leaf(1.0), leaf(2.0)
    assert grad(x.sum(), [x, w], allow_unused=True)[1] is None
    close(grad(x.sum(), [x, w], materialize_grads=True)[1], [0.0])
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(x.sum(), [x, w])


def test_leaf_and_interior():
    x = leaf(1.0)
    y = x * 2
    assert x.is_leaf
    assert not y.is_leaf
    assert y.requires_grad
    assert y.detach().is_leaf
    assert not y.detach().requires_grad
    (y * y.detach()).sum().backward()
    close(x.grad, [4.0])


def test_in_place_writes_use_the_value_that_was_there():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y
    y.mul_(10)
    (z + y).sum().backward()
    close(x.grad, [12.0, 14.0])


def test_write_through_a_view():
    x = lg.tensor(np.arange(6.0), requires_grad=True)
    y = x * 1
    v = y.reshape(2, 3)
    v.mul_(3)
    (y * y).sum().backward()
    close(x.grad, 18 * np.arange(6.0))


@pytest.mark.parametrize("shaped", [lambda y: y, lambda y: y.unsqueeze(-1), lambda y: y[:]])
@pytest.mark.parametrize(
    "write",
    [
        lambda v: v.copy_(lg.tensor(2.5)),
        lambda v: v.fill_(3),
        lambda v: v.lt_(0.5),
        lambda v: v.zero_(),
    ],
)
def test_all_of_it_overwritten_through_a_view(shaped, write):
    x = leaf(1.0, 2.0)
    y = x * 3
    write(shaped(y))
    (y * 2).sum().backward()
    close(x.grad, [0.0, 0.0])


def test_compared_in_place_with_what_requires_a_gradient():
    x = leaf(1.0, 2.0)
    y = lg.zeros(3, 2, dtype=lg.float64).lt_(x)
    assert y.tolist() == [[1.0, 1.0]] * 3
    y.sum().backward()
    close(x.grad, [0.0, 0.0])


def test_what_is_written_to_a_part_of_a_detached_tensor():
    x = leaf(1.0, 2.0, 3.0)
    base = lg.ones(3, dtype=lg.float64)
    y = base.detach()
    whole = y.view(3, 1)
    y[:2] = x[:2]
    assert y.requires_grad
    assert not base.requires_grad
    assert base.tolist() == [1.0, 2.0, 1.0]
    (y * 3).sum().backward(retain_graph=True)
    close(x.grad, [3.0, 3.0, 0.0])
    y[0] = 7.0
    x.grad = None
    (y + whole[:, 0]).sum().backward(retain_graph=True)
    close(x.grad, [0.0, 2.0, 0.0])
    whole.mul_(x.view(3, 1))
    x.grad = None
    y.sum().backward()
    close(x.grad, [7.0, 4.0, 1.0])


def test_its_own_data_changes_nothing():
    x = leaf(1.0, 2.0)
    y = x * 2
    row = y.view(1, 2)
    row.data = row
    y[0] = 5.0
    row.sum().backward()
    close(x.grad, [0.0, 2.0])


def test_nothing_written_has_a_history():
    x = lg.tensor(2.0, requires_grad=True)
    y = lg.zeros(2, 2)
    y.as_strided((2, 1), (2, 0))[0, :0].copy_(x)
    assert y.requires_grad
    y.sum().backward()
    close(x.grad, 0.0)
    empty = lg.zeros(0, requires_grad=True)
    assert empty.diag().requires_grad
    assert empty.diag(2).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    matrix = lg.ones(2, 1)
    matrix.diagonal(1).add_(7)
    assert matrix.tolist() == [[1.0], [1.0]]


def test_write_to_a_slice():
    x = lg.tensor(np.arange(5.0), requires_grad=True)
    y = x * 1
    y[1:3] *= 2
    (y * y).sum().backward()
    close(x.grad, [0.0, 8.0, 16.0, 6.0, 8.0])


def test_slice_overwritten_by_another_tensor():
    x = lg.tensor(np.arange(1.0, 5.0), requires_grad=True)
    v = leaf(7.0, 8.0)
    y = x * 1
    y[1:3] = v
    (y * y).sum().backward()
    close(x.grad, [2.0, 0.0, 0.0, 8.0])
    close(v.grad, [14.0, 16.0])


def test_gradient_through_views():
    x = lg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    (x.permute(1, 0).reshape(6) * lg.tensor(np.arange(6.0))).sum().backward()
    close(x.grad, np.arange(6.0).reshape(3, 2).T)


def test_control_flow_on_values():
    x = leaf(0.6)
    y, steps = x, 0
    while float(y.sum().detach()) < 10:
        y, steps = y * 2, steps + 1
    y.sum().backward()
    close(x.grad, [2.0**steps])


def test_leaf_written_under_no_grad_keeps_both_graphs_apart():
    x = leaf(3.0)
    before = (x * x).sum()
    with lg.no_grad():
        x.mul_(2)
    after = (x * x).sum()
    seen = []
    x.register_hook(lambda g: seen.append(g))
    (before + after).backward()
    close(x.grad, [6.0 + 12.0])
    assert len(seen) == 1


def test_composite_is_differentiated_through_its_expansion_at_every_order():
    from livegrad.graph.op import REGISTRY, Op
    from livegrad.graph.record import record

    op = Op(
        "test_cube_times",
        "composite",
        infer=lambda metas, attrs, shape: metas[0],
        expand=lambda n, a, b: a * a * a * b * n.args[0],
    )
    try:
        x, w = leaf(2.0, 3.0), leaf(5.0, 7.0)
        h = x * w  # one input depends on the other
        y = record(op, (x, h), (), (2.0,))
        gx, gw = grad(y.sum(), [x, w], create_graph=True)  # y = 2 x^4 w
        a, b = x.detach().numpy(), w.detach().numpy()
        close(gx, 8 * a**3 * b)
        close(gw, 2 * a**4)
        (gxx, gxw) = grad(gx.sum(), [x, w])
        close(gxx, 24 * a**2 * b)
        close(gxw, 8 * a**3)
        (same,) = grad(record(op, (x, x), (), (1.0,)).sum(), x)
        close(same, 4 * a**3)
    finally:
        del REGISTRY["test_cube_times"]


def test_backward_nodes_are_blamed_on_the_forward_line():
    x = leaf(1.0)
    y = x.exp()  # the line that made it
    line = site_location(y._node.site)[1]
    (g,) = grad(y.sum(), x, create_graph=True)
    assert site_location(g._node.site)[1] == line
    assert describe_site(g._node.site).startswith("test_backward.py")


@pytest.mark.slow
def test_chain_of_100_000_operations():
    x = lg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y
    gc.collect()


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (lambda x: (x * 2).backward(), RuntimeError, "only for scalar outputs"),
        (
            lambda x: x.detach().sum().backward(),
            RuntimeError,
            "element 0 of tensors does not",
        ),
        (lambda x: (x * 2).backward(lg.ones(3)), RuntimeError, "Mismatch in shape"),
        (
            lambda x: grad(x.sum(), x, is_grads_batched=True),
            RuntimeError,
            "is_grads_batched",
        ),
        (lambda x: grad(x.sum(), lg.ones(2)), RuntimeError, "does not require grad"),
        (
            lambda x: backward([x.sum()], [1.0]),
            TypeError,
            "either Tensors or None",
        ),
        (lambda x: x.sum().backward(inputs=[]), RuntimeError, "cannot be empty"),
        (lambda x: lg.tensor([1, 2], requires_grad=True), RuntimeError, "floating point"),
        (lambda x: x.mul_(2), RuntimeError, "a leaf Variable that requires grad"),
    ],
)
def test_errors(program, error, message):
    x = leaf(1.0, 2.0)
    with pytest.raises(error, match=message):
        program(x)
    assert x.grad is None
    x.sum().backward()  # usable afterwards
    close(x.grad, [1.0, 1.0])


def test_failing_rule_leaves_state_and_gradients_intact():
    x = leaf(1.0)
    y = x * 2

    def fail(g):
        raise ValueError("no")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="no"):
        (y * x).sum().backward()
    assert x.grad is None
    assert lg.is_grad_enabled()
    z = x * 3
    assert site_location(z._node.site)[0] == __file__


def test_rules_see_integer_operands_as_the_computation_did():
    flags = lg.tensor([True, False, True])
    x = lg.tensor([0.5, 1.0, 2.0], dtype=lg.float64, requires_grad=True)
    lg.logaddexp(flags, x).sum().backward()
    wanted = 1 / (1 + np.exp(np.array([1.0, 0.0, 1.0]) - np.array([0.5, 1.0, 2.0])))
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def test_gradients_that_nothing_depends_on_have_no_graph():
    a = lg.tensor([1.5, -2.0], requires_grad=True)
    for y in (a.amin(), a.max(), a.clamp(0, 1).sum(), lg.maximum(a, lg.zeros(2)).sum()):
        (g,) = lg.autograd.grad(y, a, create_graph=True)
        assert not g.requires_grad


def test_gradients_of_prelu_and_max_pool_can_be_differentiated_to_zeros():
    a = lg.tensor([1.5, -2.0], requires_grad=True)
    pooled = lg.nn.functional.max_pool1d(a[None], 2)
    bent = lg.nn.functional.prelu(a, lg.tensor([0.2]))
    learnt = lg.nn.functional.prelu(a, lg.tensor([0.2], requires_grad=True))
    for y in (pooled, bent, learnt):
        (g,) = lg.autograd.grad(y.sum(), a, create_graph=True)
        (second,) = lg.autograd.grad(g.sum(), a)
        assert second.tolist() == [0.0, 0.0]


def test_retained_gradients_are_replaced_and_dense():
    a = lg.tensor([1.5, -0.25], requires_grad=True)
    d = a.reshape(2, 1)
    d.retain_grad()
    d.sum().backward()
    first = d.grad
    assert first.is_contiguous()
    d.sum().backward(retain_graph=True)
    assert d.grad.tolist() == [[2.0], [2.0]]
    assert first.tolist() == [[1.0], [1.0]]


def test_output_of_a_function_retains_its_gradient():
    class Own(lg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    a = lg.tensor(1.0, requires_grad=True)
    y = Own.apply(a)
    y.retain_grad()
    y.backward(retain_graph=True)
    assert y.grad.item() == 1.0
    assert a.grad.item() == 3.0


@pytest.mark.parametrize(
    "kink", [nn.ReLU, nn.LeakyReLU, nn.Hardtanh, nn.Hardsigmoid, nn.Softshrink]
)
def test_a_penalty_on_gradients_reaches_biases_before_kinks(kink):
    """As in PyTorch, with zeros: nobody has to say allow_unused."""
    net = nn.Sequential(nn.Linear(3, 5), kink(), nn.Linear(5, 1))
    x = lg.ones(2, 3, requires_grad=True)
    (slope,) = lg.autograd.grad(net(x).sum(), x, create_graph=True)
    _, bias, outer, _ = net.parameters()
    of_bias, of_outer = lg.autograd.grad(((slope.norm(2, dim=1) - 1) ** 2).mean(), [bias, outer])
    assert of_bias.tolist() == [0.0] * 5
    assert of_outer.shape == outer.shape


# --------------------------------------------------------- flags that change between two passes


def test_what_was_computed_before_a_leaf_required_a_gradient_gives_it_none():
    a, b = leaf(2.0), lg.tensor([3.0])
    y = (a * b).sum()
    b.requires_grad_()
    y.backward()
    assert a.grad.tolist() == [3.0]
    assert b.grad is None


@pytest.mark.parametrize("read", [False, True])
def test_a_leaf_that_was_frozen_collects_nothing(read):
    w = leaf(2.0)
    optimiser = lg.optim.SGD([w], lr=0.5)
    before = w * 3
    (w * w).sum().backward()
    optimiser.step()
    w.requires_grad_(False)
    if read:
        before.tolist()
    before.sum().backward()
    assert w.grad.tolist() == [4.0]


@pytest.mark.parametrize("read", [False, True])
def test_a_leaf_that_was_frozen_for_a_while_collects_again(read):
    w = leaf(2.0)
    before = w * w
    w.requires_grad_(False)
    meanwhile = w * 5
    w.requires_grad_(True)
    if read:
        before.tolist()
    assert not meanwhile.requires_grad
    before.sum().backward()
    assert w.grad.tolist() == [4.0]


def test_a_leaf_behind_a_failed_derivative_got_nothing_of_its_gradient():
    a = leaf(1.0, 2.0)
    f = (a * 3).set_(a)
    y = lg.stack([a, f])
    with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
        y.sum().backward()
    assert a.grad is None


def test_a_computed_tensor_that_shows_another_shape_keeps_its_place():
    a = leaf(1.0, 2.0)
    y = (a * 2)[:, None]
    y.data = lg.ones(2, 3)
    assert y.requires_grad
    assert not y.is_leaf
    y.backward(lg.ones(2, 3))
    assert a.grad.tolist() == [6.0, 6.0]


def test_a_view_that_was_a_leaf_follows_the_history_of_its_base():
    a, base = leaf(3.0), lg.tensor([2.0])
    view = base.view(1, 1).requires_grad_()
    base.mul_(a)
    assert not view.is_leaf
    view.sum().backward()
    assert a.grad.tolist() == [2.0]
    assert view.grad is None


def test_one_of_several_views_is_given_up_also_when_its_base_was_frozen():
    w = leaf(1.0, 2.0)
    first, second = w.chunk(2)
    w.requires_grad_(False)
    second.detach().add_(7)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        first.is_leaf


def test_a_view_that_was_given_up_can_be_looked_at():
    first, second = (leaf(1.0, 2.0) * 1).chunk(2)
    with lg.no_grad():
        first.mul_(3)
    assert lg.zeros_like(second).tolist() == [0.0]
    assert lg.rand_like(second).shape == (1,)
    assert second.data.tolist() == [2.0]
    with pytest.raises(RuntimeError, match="returns multiple views"):
        second * 1


@pytest.mark.parametrize("written", [False, True])
def test_one_of_several_views_that_shows_something_else_is_given_up_only_if_it_was(written):
    w = leaf(1.0, 2.0)
    first, second = w.chunk(2)
    if written:
        with lg.no_grad():
            w.neg_()
    first.data = second.detach().clone()
    for _ in range(2):  # also after it was read
        first.tolist()
        if written:
            with pytest.raises(RuntimeError, match="returns multiple views"):
                first.is_leaf
        else:
            assert not first.is_leaf


def test_what_was_complete_before_a_derivative_failed_arrives():
    a, bias = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with pytest.raises(RuntimeError, match="heaviside is not implemented"):
        (lg.heaviside(a, lg.ones_like(a)) + bias).sum().backward()
    assert bias.grad.tolist() == [1.0, 1.0]
    assert a.grad is None


def test_a_computed_tensor_that_shows_a_shape_without_a_sum_has_no_gradient():
    a = leaf(1.0, 2.0)
    y = (a * 2)[:, None, None]
    y.data = lg.ones(2, 3)
    with pytest.raises(RuntimeError, match="another shape"):
        y.sum().backward()


@pytest.mark.parametrize("inputs", [[], ()])
def test_gradients_of_nothing_are_refused(inputs):
    x = lg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        lg.autograd.grad(x.sum(), inputs)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        lg.autograd.backward(x.sum(), inputs=inputs)
