"""register_hook, retain_grad, register_post_accumulate_grad_hook."""

import gc
import weakref

import pytest

import livegrad as lg
from livegrad.autograd import grad
from livegrad.graph.state import flush


def leaf(*values):
    return lg.tensor(list(values), requires_grad=True)


def test_hook_on_a_leaf_sees_the_complete_gradient_once():
    x = leaf(1.0)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [5.0]
    assert x.grad.item() == 5.0


def test_hooks_replace_gradients_in_order():
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 10)
    (h * 3).sum().backward()
    assert x.grad.item() == (3 + 1) * 10 * 2


def test_hook_runs_for_grad_too_and_stays_differentiable():
    x = leaf(3.0)
    h = x * x
    h.register_hook(lambda g: g * h.detach())
    (g,) = grad(h.sum(), x, create_graph=True)
    assert g.item() == 54.0
    assert g.requires_grad


def test_removed_hook_does_not_run():
    x = leaf(1.0)
    h = x * 2
    handles = [x.register_hook(lambda g: g * 100), h.register_hook(lambda g: g * 100)]
    for handle in handles:
        handle.remove()
        handle.remove()
    with h.register_hook(lambda g: g * 100):
        pass
    h.sum().backward()
    assert x.grad.item() == 2.0


def test_hook_stays_with_the_value_at_registration():
    x = leaf(1.0)
    h = x * 1
    seen = []
    h.register_hook(lambda g: seen.append(g.item()))
    h.mul_(5)
    h.sum().backward()
    assert seen == [5.0]


def test_kept_gradient_is_not_changed_by_accumulation():
    x = leaf(1.0)
    kept = []
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert [g.item() for g in kept] == [2.0, 2.0]
    assert x.grad.item() == 4.0


def test_hook_errors():
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        lg.ones(2).register_hook(print)
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="changed the size of value"):
        x.sum().backward()


def test_hook_that_refers_to_its_tensor_is_collected():
    def program():
        h = leaf(1.0) * 2
        h.register_hook(lambda g: g * h.shape[0])
        return weakref.ref(h._node)

    node = program()
    flush("test")
    gc.collect()
    assert node() is None


def test_retain_grad():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    h.retain_grad()
    assert h.retains_grad
    assert not x.retains_grad
    (h * 3).sum().backward(retain_graph=True)
    assert h.grad.item() == 3.0
    (h * 3).sum().backward()
    assert h.grad.item() == 6.0
    assert x.grad.item() == 12.0


def test_retain_grad_sees_what_hooks_made_of_it():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 10)
    h.sum().backward()
    assert h.grad.item() == 10.0


def test_retain_grad_needs_a_gradient():
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        lg.ones(2).retain_grad()
    x = leaf(1.0)
    x.retain_grad()  # a leaf has it anyway
    assert not x.retains_grad


def test_interior_tensor_with_hooks_is_no_leaf():
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: None)
    assert not h.is_leaf
    assert h.requires_grad
    assert h.grad_fn is not None


def test_post_accumulate_hook():
    x = leaf(1.0)
    seen = []

    def take(p):
        seen.append(p.grad.item())
        p.grad = None

    handle = x.register_post_accumulate_grad_hook(take)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [2.0, 3.0]
    assert x.grad is None
    handle.remove()
    x.sum().backward()
    assert x.grad.item() == 1.0
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(take)


def test_a_hook_stays_with_a_view_that_is_written_uncounted():
    a = lg.ones(2, 2, requires_grad=True)
    c = a[0]
    seen = []
    c.register_hook(lambda g: seen.append(g.tolist()))
    c.data.add_(1)
    (c * c).sum().backward()
    assert seen == [[4.0, 4.0]]
    assert a.grad.tolist() == [[4.0, 4.0], [0.0, 0.0]]
    a.detach().add_(1)  # which counts
    (c * c).sum().backward()
    assert len(seen) == 1


def test_what_arrived_before_an_error_is_delivered():
    a = leaf(1.0)
    b = a // 2  # has no derivative
    b.retain_grad()
    with pytest.raises(RuntimeError, match="not implemented"):
        (b * 3).sum().backward()
    assert b.grad.tolist() == [3.0]
    assert a.grad is None


def test_a_gradient_is_retained_when_the_shape_changes():
    a = lg.ones(2, requires_grad=True)
    b = a * 2
    b.retain_grad()
    with lg.no_grad():
        b.unsqueeze_(0)
    assert b.retains_grad
    b.sum().backward()
    assert b.grad.flatten().tolist() == [1.0, 1.0]


def test_what_is_asked_for_is_not_walked_through():
    a = leaf(1.0)
    b = a * 2
    b.register_hook(lambda g: None)
    b.set_(b.detach().clone())  # which has no derivative
    assert grad(b * 3, b)[0].tolist() == [3.0]


def test_a_gradient_is_retained_when_the_values_are_shared():
    c = leaf(1.0) * 2
    c.retain_grad()
    lg.nn.Parameter(c)
    assert c.retains_grad


def test_a_gradient_is_retained_after_a_step():
    p = lg.nn.Parameter(lg.ones(2))
    y = p.exp()
    y.retain_grad()
    y.sum().backward()
    lg.optim.SGD([p], lr=0.1).step()
    assert y.retains_grad
    assert y.grad.tolist() == [1.0, 1.0]


def test_hooks_of_an_output_run_also_where_nothing_goes_on():
    a, b = leaf(1.0), leaf(2.0)
    seen = []
    c = a * 2
    c.register_hook(lambda g: seen.append("c"))
    d = c * 3
    d.register_hook(lambda g: seen.append("d"))
    d.retain_grad()
    assert lg.autograd.grad(d, b, allow_unused=True) == (None,)
    assert seen == ["d"]
    assert d.grad.tolist() == [1.0]
    d.backward(inputs=[b])
    assert seen == ["d", "d"]


def test_inputs_of_backward_retain_their_gradients():
    a = leaf(1.0, 2.0)
    b = a * 2
    c = b * 3
    c.retain_grad()
    c.sum().backward(inputs=[b, c], retain_graph=True)
    assert (b.grad.tolist(), c.grad.tolist(), a.grad) == ([3.0, 3.0], [1.0, 1.0], None)
    assert b.retains_grad
    c.sum().backward()
    assert (b.grad.tolist(), a.grad.tolist()) == ([6.0, 6.0], [6.0, 6.0])


def test_a_view_that_was_written_is_a_view_of_the_whole():
    a = leaf(1.0, 2.0)
    b = a * 1
    j = b.reshape(1, 2)
    j.add_(1)
    seen = []
    j.register_hook(lambda g: seen.append(g.tolist()))
    j.retain_grad()
    (b * 3).sum().backward(retain_graph=True)
    assert not seen
    assert j.grad is None
    (j * 4).sum().backward()
    assert seen == [[[4.0, 4.0]]]
    assert j.grad.tolist() == [[4.0, 4.0]]
    assert a.grad.tolist() == [7.0, 7.0]


def test_a_view_that_retains_its_gradient_is_a_view_of_the_whole_when_it_is_written():
    a = leaf(1.0, 2.0)
    b = a * 1
    j = b.reshape(1, 2)
    j.retain_grad()
    j.mul_(2)
    (b * 3).sum().backward(retain_graph=True)
    assert j.grad is None
    (j * 4).sum().backward()
    assert j.grad.tolist() == [[4.0, 4.0]]
    assert a.grad.tolist() == [14.0, 14.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_hooks_after_accumulation_record_only_for_a_graph_of_gradients(create_graph):
    x = lg.tensor(3.0, requires_grad=True)
    (x * x).backward(create_graph=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad * 2))
    (x * x).backward(create_graph=create_graph)
    assert seen[0].item() == 24
    assert seen[0].requires_grad is create_graph


def test_the_flag_of_a_computed_tensor_cannot_be_set():
    y = lg.ones(2, requires_grad=True) * 2
    assert y.requires_grad_() is y
    for flag in (True, False):
        with pytest.raises(RuntimeError, match="flags of leaf variables"):
            y.requires_grad = flag


def test_a_written_output_retains_its_gradient_where_nothing_was_asked_for():
    a = lg.tensor([1.0, 2.0], requires_grad=True)
    y = (a * a).sum()
    z = y * y
    with lg.no_grad():
        y.mul_(2)
    y.retain_grad()
    assert lg.autograd.grad(y, [z], allow_unused=True) == (None,)
    assert y.grad.item() == 1


def test_what_retains_its_gradient_gets_that_before_an_error_of_grad():
    class Refusing(lg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("refused")

    a = leaf(1.0, 2.0)
    y = Refusing.apply(a)
    y.retain_grad()
    with pytest.raises(RuntimeError, match="refused"):
        grad(y * 3, a)
    assert y.grad.item() == 3.0


@pytest.mark.parametrize("through", [lambda x: x.t(), lambda x: x[0], lambda x: x.view(-1)])
def test_a_whole_written_through_a_view_retains_the_gradient_of_its_new_value(through):
    a = lg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = a * 2
    y.retain_grad()
    view = through(y)
    view.mul_(3)
    (view * 5).sum().backward()
    reached = through(y.grad)
    assert (reached == 5).all()
    assert y.grad.sum() == reached.sum()


def test_hooks_of_a_leaf_run_although_it_is_gone():
    seen = []
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: seen.append(g.tolist()))
    with lg.no_grad():
        x.mul_(2)  # another value, the same leaf
    y = x * x
    del x
    y.sum().backward()
    assert seen == [[4.0, 8.0]]


def test_hooks_after_accumulation_see_a_leaf_that_nobody_else_holds():
    seen = []
    x = leaf(1.0, 2.0)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (x * 1).sum().backward()
    y = x * x
    known = weakref.ref(x)
    del x
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0], [3.0, 5.0]]
    del y
    gc.collect()
    assert known() is None


def test_hooks_after_accumulation_run_for_a_leaf_that_was_frozen_meanwhile():
    seen = []
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad))
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert seen == [None]


def test_hooks_stay_with_a_leaf_that_was_frozen():
    seen = []
    x = lg.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.requires_grad_(False).requires_grad_(True)
    (x * 3).sum().backward()
    assert seen == [[3.0]]


def test_a_hook_must_not_change_the_dtype():
    x = lg.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g.double())
    with pytest.raises(RuntimeError, match="changed the type of value .was torch.FloatTensor got"):
        y.sum().backward()


def test_a_hook_after_the_gradient_has_come_returns_nothing():
    x = lg.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: p.grad)
    with pytest.raises(RuntimeError, match="should return None"):
        x.sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("part", [lambda d: d.view(2), lambda d: d[0], lambda d: d])
def test_a_hook_on_what_is_written_with_itself_sees_the_operand(part):
    """What is written is a part of the whole from then on; as an operand it is what it was."""
    x = lg.tensor([[1.0, 2.0]], requires_grad=True)
    f = part(x.square())
    seen = []
    f.register_hook(lambda g: seen.append(g.flatten().tolist()) or g + 1)
    f.add_(f, alpha=3)
    (f.flatten() * lg.arange(2)).sum().backward()
    assert seen == [[0.0, 3.0] if f._is_view() else [0.0, 4.0]]
    assert x.grad.tolist() == [[2.0, 20.0]]
