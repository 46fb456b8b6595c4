"""A second backward, graphs cut by updates, memory of `total += loss`."""

import gc

import pytest

import livegrad as lg
from livegrad.autograd import grad
from livegrad.graph import spent
from livegrad.graph.node import Node
from livegrad.graph.site import user_site
from livegrad.graph.state import flush
from livegrad.runtime import sight

pytestmark = pytest.mark.usefixtures("nodes_to_be_seen")


def leaf(*values):
    return lg.tensor(list(values), requires_grad=True)


@pytest.fixture(autouse=True)
def nothing_spent():
    spent.cut(None)
    yield
    flush("test")  # what is pending walks over graphs
    spent.cut(None)


def live_nodes():
    flush("test")
    gc.collect()
    return sum(type(x) is Node for x in gc.get_objects())


def compute(*tensors):
    for x in tensors:
        x.detach().tolist()


def update():
    """What the runtime does when an update overwrites parameters."""
    spent.cut(user_site())


def test_backward_twice_works_while_the_values_exist():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_second_backward_after_an_update_names_both_lines():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    compute(y)
    y.backward()  # the first backward
    compute(x.grad)
    spent.cut(user_site())  # the update
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
        y.backward()
    assert "y.backward()  # the first backward" in str(error.value)
    assert "# the update" in str(error.value)
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("options", [{"retain_graph": True}, {"create_graph": True}])
def test_retained_graph_is_not_cut(options):
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(**options)
    compute(y, x.grad)
    update()
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    x.grad = None


def test_grad_spends_only_what_it_walked():
    x, w = leaf(1.0), leaf(2.0)
    a, b = x * x, w * w
    y = (a * b).sum()
    grad(y, x)
    compute(a, b, y)
    update()
    b.sum().backward()
    assert w.grad.tolist() == [4.0]
    with pytest.raises(RuntimeError, match="second time"):
        a.sum().backward()


def test_cut_node_keeps_its_value_and_leaves_stay_usable():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    compute(y)
    update()
    assert y.item() == 5.0
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_spent_graphs_are_held_weakly():
    x = leaf(1.0)
    before = live_nodes()
    for _ in range(100):
        (x * 2).exp().sum().backward()
        x.grad = None
    assert live_nodes() < before + 30


@pytest.mark.parametrize("before_backward", [True, False])
@pytest.mark.usefixtures("whole_plans")
def test_total_of_losses_keeps_nothing_alive(before_backward):
    w = leaf(1.0, 2.0)
    total = 0
    counts = []
    for step in range(1000):
        loss = (w * w).sum()
        if before_backward:
            total = total + loss
        loss.backward()
        if not before_backward:
            total += loss
        compute(total)
        w.grad = None
        update()
        spent.propagate(total._node)
        if step in (50, 999):
            counts.append(live_nodes())
    assert counts[1] <= counts[0] + 10
    assert total.item() == 5000.0


@pytest.mark.usefixtures("whole_plans")
def test_list_of_losses_keeps_only_their_values():
    w = leaf(1.0, 2.0)
    losses = []
    counts = []
    for step in range(200):
        loss = ((w * 2).exp() * w).sum()
        loss.backward()
        losses.append(loss)
        compute(loss)
        w.grad = None
        update()
        if step in (100, 199):
            counts.append(live_nodes())
    assert counts[1] - counts[0] <= 99 * 1 + 10


def test_oldest_graphs_are_cut_beyond_the_limit(monkeypatch, untranslated):
    monkeypatch.setattr(spent, "MOST_SPENT_NODES", 50)
    monkeypatch.setattr(spent, "_FIRST_SWEEP", 10)
    spent._local.spent.sweep_at = 10
    x = leaf(1.0)
    results = []
    for _ in range(40):
        y = (x * 2).exp().sum()
        compute(y)
        y.backward()
        results.append(y)
    with pytest.raises(RuntimeError, match="too many spent graphs"):
        results[0].backward()
    results[-1].backward()


def test_function_lets_go_of_what_it_saved():
    from livegrad.autograd import Function

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 1)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x = leaf(3.0)
    counts, results = [], []
    for _ in range(3):  # the first one also makes a plan
        y = Square.apply(x)
        y.sum().backward()
        compute(y, x.grad)
        update()
        results.append(y)
        counts.append(live_nodes())
    assert counts[2] - counts[1] == 1
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_a_graph_whose_rules_read_nothing_outlives_an_update():
    b, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    opt = lg.optim.SGD([w], lr=0.1)
    e = b.reshape(2, 1) + 0.25
    (e * w).sum().backward()
    opt.step()
    b.grad = None
    (e * 5).sum().backward()
    assert b.grad.tolist() == [5.0, 5.0]


def test_a_graph_whose_rules_read_nothing_leads_to_the_updated_parameter():
    w = leaf(3.0, 4.0)
    opt = lg.optim.SGD([w], lr=1.0)
    e = w + 1
    for _ in range(3):
        opt.zero_grad()
        (e * lg.tensor([1.0, 2.0])).sum().backward()
        opt.step()
    assert w.tolist() == [0.0, -2.0]
    assert e.tolist() == [4.0, 5.0]


def test_a_rule_that_reads_nothing_above_one_that_reads_is_cut():
    w = leaf(3.0, 4.0)
    opt = lg.optim.SGD([w], lr=1.0)
    e = w * w
    f = (e + 1) + e
    f.sum().backward()
    opt.step()
    with pytest.raises(RuntimeError, match="second time"):
        f.sum().backward()
    assert not f._node.inputs


def test_a_function_of_the_users_is_cut():
    class Double(lg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = leaf(3.0, 4.0)
    opt = lg.optim.SGD([w], lr=1.0)
    y = Double.apply(w)
    y.sum().backward()
    opt.step()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_a_gradient_ends_where_it_is_wanted_before_a_cut_graph():
    w = leaf(3.0, 4.0)
    opt = lg.optim.SGD([w], lr=1.0)
    d = w * w
    d.sum().backward()
    opt.step()
    (g,) = grad((d * d).sum(), d)
    assert g.tolist() == [18.0, 32.0]
    with pytest.raises(RuntimeError, match="second time"):
        grad((d * d).sum(), [d, w])
    with pytest.raises(RuntimeError, match="second time"):
        grad((d * d).sum(), w, allow_unused=True)


@pytest.mark.parametrize("path", [lambda y: y.view(6), lambda y: y.detach(), lambda y: y[1:, ::2]])
def test_views_of_what_is_gone_can_be_written(path):
    """The whole was dropped with its graph; what two views of it show is enough."""
    w = lg.nn.Parameter(lg.ones(2, 3))
    y = lg.eye(2) @ w
    shown, other = path(y), y[1]
    (y * y).sum().backward()
    del y
    optimizer = lg.optim.SGD([w], lr=0.5)
    optimizer.step()
    before, beside = lg.tensor(shown.tolist()), lg.tensor(other.tolist())
    shown.detach().add_(1)
    assert shown.tolist() == (before + 1).tolist()
    changed = path(lg.arange(6.0).view(2, 3)).reshape(-1).tolist()
    expected = [beside[i].item() + ((3 + i) in changed) for i in range(3)]
    assert other.tolist() == expected
    if shown.requires_grad:
        with pytest.raises(RuntimeError, match="spent by backward|second time"):
            shown.sum().backward()


# ------------------------------------------------------------------- views, and where a walk ends


def step(*parameters):
    lg.optim.SGD(parameters, lr=0.5).step()


def part_of_a_dead_whole(w):
    v = (w * w)[0]
    v.sum().backward()
    return v


def part_read_before_backward(w):
    v = (w * w)[0]
    compute(v)
    v.sum().backward()
    return v


def part_of_a_detached_whole(w):
    a = w * w
    v = a.detach()[0]
    a.sum().backward()
    return v


def one_of_several_parts(w):
    a = w * w
    v, _ = a.unbind()
    a.sum().backward()
    return v


def part_of_a_whole_written_later(w):
    a = w * w
    v = a[0]
    compute(v)
    a.add_(0)
    a.sum().backward()
    return v


@pytest.mark.parametrize(
    "part",
    [
        part_of_a_dead_whole,
        part_read_before_backward,
        part_of_a_detached_whole,
        one_of_several_parts,
        part_of_a_whole_written_later,
    ],
)
def test_what_a_part_is_written_to_outlives_the_update(part):
    w = lg.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
    v = part(w)
    step(w)
    v.detach().add_(1)
    assert v.tolist() == [5.0, 10.0]


def test_a_whole_of_detached_values_is_not_kept():
    w = leaf(1.0, 2.0)
    state = w.detach()
    before = live_nodes()
    for _ in range(20):
        state = (state * w).detach()
        compute(state)
    assert live_nodes() <= before + 6


def test_a_graph_is_kept_behind_what_a_gradient_was_asked_for():
    w = leaf(1.0, 2.0)
    y = w * w
    grad((y * y).sum(), y)
    w.sum().backward()
    step(w)
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 5.0]


@pytest.mark.parametrize(
    ("function", "spared"),
    [
        (lambda x, y: x % y, True),
        (lambda x, y: x % 3, True),
        (lambda x, y: lg.fmod(x, y), True),
        (lambda x, y: lg.addcmul(x, y, y), True),
        (lambda x, y: lg.addcmul(y, x, y), False),
        (lambda x, y: lg.lerp(x, y, 0.5), True),
        (lambda x, y: lg.lerp(y, x, 0.5), True),
        (lambda x, y: lg.lerp(y, y, x), False),
        (lambda x, y: lg.lerp(x, y, y), False),
        (lambda x, y: x * 2, True),
        (lambda x, y: 2 / x, False),
        (lambda x, y: lg.sub(y, x, alpha=2), True),
        (lambda x, y: lg.nn.functional.linear(lg.ones(2, 2), lg.ones(2, 2), x), True),
        (lambda x, y: lg.nn.functional.linear(x, lg.ones(2, 2), y), False),
        (lambda x, y: x.index_add(0, lg.tensor([1]), y[:1]), True),
        (lambda x, y: y % x, False),
        (lambda x, y: x % (x + y), False),
    ],
)
def test_a_gradient_whose_rule_reads_no_values_outlives_an_update(function, spared):
    x, y = leaf(1.0, 5.0), lg.tensor([2.0, 3.0])
    z = function(x, y)
    (z * z).sum().backward()
    compute(x.grad)
    update()
    if spared:
        z.sum().backward()
    else:
        with pytest.raises(RuntimeError, match="second time"):
            z.sum().backward()


def test_a_gradient_may_be_asked_for_in_front_of_a_graph_that_is_gone():
    w = leaf(1.0, 2.0)
    y = w * w
    y.sum().backward()
    step(w)
    z = y * 3
    (g,) = grad((z * z).sum(), z)
    assert g.tolist() == [6.0, 24.0]
    with pytest.raises(RuntimeError, match="a second time"):
        grad((z * z).sum(), w)


def test_a_diagonal_needs_no_values():
    w = leaf(1.0, 2.0)
    y = lg.diag_embed(w)
    (y * y).sum().backward()
    step(w)
    y.sum().backward()
    assert w.grad.tolist() == [3.0, 5.0]


def test_hooks_in_front_of_a_graph_that_is_gone_run():
    w = lg.tensor([1.0, 2.0], requires_grad=True)
    y = w * w
    handle = y.register_hook(lambda g: g + 1)
    y.sum().backward()
    lg.optim.SGD([w], lr=0.5).step()
    assert lg.autograd.grad((y * 3).sum(), y)[0].tolist() == [4.0, 4.0]
    handle.remove()
    assert lg.autograd.grad((y * 3).sum(), y)[0].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("read", [False, True])
def test_what_was_written_past_its_history_can_be_written_after_the_graph_is_gone(again, read):
    layer = lg.nn.Linear(3, 1, bias=False)
    layer.weight.data.fill_(0.5)
    optimizer = lg.optim.SGD(layer.parameters(), lr=0.25)
    x = lg.ones(2, 3)
    y = layer(x)
    y.data.neg_()
    y.sum().backward()
    if again:
        y.detach().mul_(2)
    optimizer.zero_grad()
    layer(x).sum().backward()
    optimizer.step()
    want = -3.0 if again else -1.5
    if read:
        assert y.tolist() == [[want], [want]]
    y.detach().add_(6)
    assert y.tolist() == [[want + 6], [want + 6]]
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_what_was_written_past_its_history_retains_its_gradient_when_the_graph_is_gone():
    w = leaf(1.0, 2.0)
    y = w * w
    y.retain_grad()
    y.data.neg_()
    y.sum().backward()
    step(w)
    assert y.retains_grad
    assert grad((y * 3).sum(), y)[0].tolist() == [3.0, 3.0]
    assert y.grad.tolist() == [4.0, 4.0]


def test_a_node_that_is_cut_may_be_cut_again():
    x = leaf(1.0, 5.0)
    z = lg.nn.functional.prelu(x, leaf(0.25))
    (z * z).sum().backward()
    grad((z * 2).sum(), z)
    update()
    update()
    with pytest.raises(RuntimeError, match="second time"):
        z.sum().backward()


def test_gradients_with_a_graph_are_added_to_after_updates() -> None:
    """A gradient that was differentiated has a place in a graph whose value nobody has."""
    b = lg.tensor([1.0, 2.0], requires_grad=True)
    w = lg.nn.Parameter(lg.tensor([3.0, 4.0]))
    optimizer = lg.optim.SGD([w], lr=0.5)
    (gradient,) = lg.autograd.grad((b**2).sum(), b, create_graph=True)
    (gradient**2).sum().backward()
    ((b * w) ** 2).sum().backward(create_graph=True)
    for loss in (lambda: ((b * w) ** 2).mean(), lambda: (b**2).mean()):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert b.grad.tolist() == [36.0, 114.0]


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("reads_before", [False, True])
def test_what_an_update_leaves_of_a_graph_that_was_run_piece_by_piece(
    monkeypatch, passes, reads_before
):
    monkeypatch.setattr(sight.Policy, "pieces", True)
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    optimiser = lg.optim.SGD([w], lr=0.1)
    hidden = (w * v).tanh()
    other = hidden + v
    if reads_before:
        compute(hidden)
    for _ in range(passes):  # one graph that waits, or two
        loss = (other * w).sum() + (hidden * hidden).sum()
        loss.backward()  # the pass
    untouched = (v * v).sum()
    optimiser.step()  # the update
    for x in (hidden, other.sum(), loss):
        with pytest.raises(RuntimeError, match="backward through the graph a second time") as error:
            x.sum().backward()
        assert "loss.backward()  # the pass" in str(error.value)
        assert "optimiser.step()  # the update" in str(error.value)
    v.grad = None
    untouched.backward()
    assert v.grad.tolist() == [6.0, 8.0]


def test_a_graph_that_was_given_up_leaves_no_node(monkeypatch):
    monkeypatch.setattr(sight.Policy, "pieces", True)
    w = leaf(1.0, 2.0)
    optimiser = lg.optim.SGD([w], lr=0.1)

    def step():
        optimiser.zero_grad()
        cell = w
        for _ in range(5):  # read near its consumers, and far from them
            cell = cell * (cell.sigmoid() * w).tanh()
        cell.sum().backward()
        optimiser.step()

    step()
    before = live_nodes()
    for _ in range(3):
        step()
    assert live_nodes() == before
