"""vmap: where the examples lie, what they share, what composes, what is refused."""

from __future__ import annotations

import weakref
from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.func import functional_call, grad, jacrev, stack_module_state, vmap

F = nn.functional


def rand(*shape: int) -> Any:
    values = np.random.default_rng(list(shape)).normal(size=shape)
    return lg.tensor(values)


def close(got: Any, wanted: Any, rtol: float = 1e-9) -> None:
    got, wanted = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (got, wanted))
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-10)


# ----------------------------------------------------------------------- which dim, what shape


def test_in_dims_and_out_dims() -> None:
    x, y = rand(3, 4), rand(5, 3)
    dot = lambda a, b: a[:2] @ b[:2]
    wanted = np.stack([x.numpy()[i][:2] @ y.numpy()[:2, i] for i in range(3)])
    close(vmap(dot, in_dims=(0, 1))(x, y), wanted)
    close(vmap(dot, in_dims=(0, -1))(x, y), wanted)
    close(vmap(lambda a: a * 2, 1, 1)(x), 2 * x.numpy())
    close(vmap(lambda a: a * 2, 0, -1)(x), 2 * x.numpy().T)
    close(vmap(lambda a, b: a + b, (0, None))(x, rand(4)), x.numpy() + rand(4).numpy())


def test_nested_arguments_and_results() -> None:
    Pair = namedtuple("Pair", "left right")
    x, y = rand(3, 4), rand(3)

    def f(p: Any, q: Any) -> Any:
        return {"sum": p["x"] + p["y"], "both": [p["x"], Pair(q, p["y"])]}

    out = vmap(f, in_dims=({"x": 0, "y": None}, 0))({"x": x, "y": rand(4)}, y)
    close(out["sum"], x.numpy() + rand(4).numpy())
    assert isinstance(out["both"][1], Pair)
    assert out["both"][1].right.shape == (3, 4)  # the same for all, repeated
    out = vmap(f, in_dims=({"x": 0, "y": None}, 0), out_dims={"sum": 1, "both": 0})(
        {"x": x, "y": rand(4)}, y
    )
    assert out["sum"].shape == (4, 3)


def test_results_that_are_the_same_for_all() -> None:
    shared, batched = vmap(lambda x: (lg.ones(2), x), out_dims=(None, 0))(rand(3))
    assert shared.shape == (2,)
    assert batched.shape == (3,)
    with pytest.raises(ValueError, match="out_dim is None"):
        vmap(lambda x: x, out_dims=None)(rand(3))


def test_chunks() -> None:
    x = rand(7, 3)
    for size in (1, 2, 7, 100):
        close(vmap(lambda v: (v * v).sum(), chunk_size=size)(x), np.square(x.numpy()).sum(1))
    close(vmap(lambda v: v * 2, 0, 1, chunk_size=3)(x), 2 * x.numpy().T)


def test_a_batch_of_none_and_of_one() -> None:
    for size in (0, 1):
        x = rand(size, 3)
        close(
            vmap(lambda v: v.softmax(0) @ v)(x).sum(), sum([(v.softmax(0) @ v).item() for v in x])
        )
        assert vmap(grad(lambda v: (v**2).sum()))(x).shape == (size, 3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: vmap(lg.sin)(), ValueError, "got no inputs"),
        (lambda: vmap(lg.sin, [0])(rand(3)), ValueError, "int or a .* tuple"),
        (lambda: vmap(lg.add, (0,))(rand(3), rand(3)), ValueError, "not compatible"),
        (lambda: vmap(lg.sin, (None,))(rand(3)), ValueError, "at least one Tensor"),
        (lambda: vmap(lg.add)(rand(3), rand(4)), ValueError, "same size"),
        (lambda: vmap(lg.add)(rand(3), 2.0), ValueError, "non-Tensor"),
        (lambda: vmap(lg.sin, 2)(rand(3)), ValueError, "-1 <= in_dim < 1"),
        (lambda: vmap(lg.sin, ("a",))(rand(3)), ValueError, "integer dimension or None"),
        (lambda: vmap(lambda x: 1)(rand(3)), ValueError, "must only return Tensors"),
        (lambda: vmap(lg.sin, 0, (0, 0))(rand(3)), ValueError, "not compatible"),
        (lambda: vmap(lg.sin, 0, "a")(rand(3)), ValueError, "must be an int"),
        (lambda: vmap(lg.sin, randomness="any")(rand(3)), RuntimeError, "randomness"),
        (lambda: vmap(lg.sin, chunk_size=0)(rand(3)), ValueError, "chunk_size"),
        (lambda: vmap(lambda x: x.item())(rand(3)), RuntimeError, "item"),
        (lambda: vmap(lambda x: x if x > 0 else -x)(rand(3)), RuntimeError, "control flow"),
        (lambda: vmap(lambda x: x.nonzero())(rand(3, 2)), RuntimeError, "nonzero"),
    ],
)
def test_errors(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
    assert lg.ones(2).sum().item() == 2.0  # the thread records as before


def test_an_error_names_the_line_of_the_function() -> None:
    def f(x: Any, i: Any) -> Any:
        return lg.index_select(x, 0, i)  # this one

    with pytest.raises(IndexError, match="this one"):
        vmap(f, (None, 0))(rand(3), lg.tensor([[0], [7]])).numpy()


# ------------------------------------------------------------------------- inside the function


def test_values_that_do_not_depend_on_examples_can_be_read() -> None:
    w = rand(3)

    def f(x: Any) -> Any:
        scale = (w * w).sum()
        return x * scale if scale.item() > 0 else x

    x = rand(4, 3)
    close(vmap(f)(x), x.numpy() * np.square(w.numpy()).sum())


def test_printing_an_example() -> None:
    seen: list[str] = []
    vmap(lambda x: [seen.append(repr(x)), x][1])(rand(3, 2))
    assert seen == ["BatchedTensor(shape=[2], dtype=livegrad.float64)"]


def test_writing_in_place() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[0] = 7
        y[1:] *= 2
        y.add_(x)
        return y

    x = rand(4, 3)
    close(vmap(f)(x), np.stack([f(row).numpy() for row in x]))
    y = rand(4, 3)
    vmap(lambda v: v.mul_(2))(y)  # the argument itself
    close(y, 2 * x.numpy())


def test_results_are_views_of_arguments_where_they_are_of_each_example() -> None:
    x = rand(3, 4)
    a, b = vmap(lambda v: (v, v))(x)
    assert a is x
    assert b is x
    ends, reverse, copy = vmap(lambda v: (v[-1], v.flip(0), v.clone()))(x)
    ends.zero_()
    reverse.zero_()
    copy.zero_()
    close(x[:, :3], rand(3, 4).numpy()[:, :3])
    close(x[:, 3], [0, 0, 0])


def test_dtypes_are_those_of_one_example() -> None:
    x = lg.ones(3, dtype=lg.float64)
    assert vmap(lambda v: v + lg.ones(2))(x).dtype is lg.float32  # a 0-d float64 does not promote
    assert vmap(lambda v: v * 2)(lg.arange(3)).dtype is lg.int64


def test_indexing() -> None:
    x, i = rand(5, 4), lg.tensor([3, 0, 0, 2, 1])
    rows = np.arange(5)
    close(vmap(lambda v, k: v[k])(x, i), x.numpy()[rows, i.numpy()])
    close(vmap(lambda v, k: v[k], (None, 0))(rand(4), i), rand(4).numpy()[i.numpy()])
    table, picks = rand(5, 4, 3), lg.tensor([[0, 3], [1, 1], [2, 0], [3, 2], [0, 0]])
    close(vmap(lambda t, k: t[k])(table, picks), table.numpy()[rows[:, None], picks.numpy()])

    def write(v: Any, k: Any) -> Any:
        out = v.clone()
        out[k] = 9
        return out.index_add(0, k, lg.ones(2, 3, dtype=lg.float64))

    close(
        vmap(write)(table, picks),
        np.stack([write(t, k).numpy() for t, k in zip(table, picks, strict=True)]),
    )


def test_randomness() -> None:
    x = lg.zeros(4, 1000)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda v: v + lg.randn(1000))(x)
    same = vmap(lambda v: v + lg.randn(1000), randomness="same")(x)
    assert lg.equal(same[0], same[3])
    other = vmap(lambda v: v + lg.randn(1000), randomness="different")(x)
    assert not lg.equal(other[0], other[1])
    assert abs(other.std().item() - 1) < 0.1
    dropped = vmap(lambda v: F.dropout(v + 1, 0.5), randomness="different")(x)
    assert not lg.equal(dropped[0], dropped[1])
    chunks = vmap(lambda v: v + lg.randn(1000), randomness="same", chunk_size=2)(x)
    assert lg.equal(chunks[0], chunks[3])


def test_attention_drops_for_each_example() -> None:
    q = lg.ones(3, 5, 8)
    values = lg.arange(40.0).reshape(5, 8) / 40

    def attend(q: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, v, dropout_p=0.5)

    with pytest.raises(RuntimeError, match="randomness"):
        vmap(attend, (0, None))(q, values)
    same = vmap(attend, (0, None), randomness="same")(q, values)
    assert lg.equal(same[0], same[2])
    other = vmap(attend, (0, None), randomness="different")(q, values)
    assert not lg.equal(other[0], other[2])
    unbatched = vmap(lambda _: attend(q[0], values), randomness="different")(q)
    assert not lg.equal(unbatched[0], unbatched[2])
    # What is linear in the values is their sum, each times its gradient.
    several = lg.stack([values, values + 1, values * 2])

    def total(v: Any, q: Any) -> Any:
        y = attend(q, v).sum()
        return y, y

    g, y = vmap(grad(total, has_aux=True), randomness="different")(several, q)
    close((g * several).sum((1, 2)), y)


def test_a_gradient_sees_the_numbers_its_function_drew() -> None:
    def f(v: Any) -> Any:
        y = F.dropout(v, 0.5)
        return (y * y).sum() / 2, y

    x = lg.ones(3, 50)
    g, y = vmap(grad(f, has_aux=True), randomness="different")(x)
    close(g, 2 * y)  # d/dv of (2 v)² / 2 where it was kept
    outer = x.clone().requires_grad_()
    y = vmap(lambda v: F.dropout(v, 0.5), randomness="different")(outer)
    y.sum().backward()
    close(outer.grad, y)


# -------------------------------------------------------------------------------- composition


def loss(parameters: Any, x: Any, y: Any) -> Any:
    hidden = lg.tanh(parameters["w1"] @ x + parameters["b1"])
    return F.cross_entropy(parameters["w2"] @ hidden, y)


PARAMETERS = {"w1": rand(6, 4), "b1": rand(6), "w2": rand(3, 6)}


def test_per_example_gradients() -> None:
    x, y = rand(8, 4), lg.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    each = vmap(grad(loss), (None, 0, 0))(PARAMETERS, x, y)
    for name, g in each.items():
        close(g, np.stack([grad(loss)(PARAMETERS, x[i], y[i])[name].numpy() for i in range(8)]))
    mean = grad(lambda p: vmap(loss, (None, 0, 0))(p, x, y).mean())(PARAMETERS)
    for name, g in mean.items():
        close(g, each[name].mean(0))


def test_vmap_of_vmap_and_of_its_gradient() -> None:
    x, y = rand(3, 4), rand(5, 4)
    table = vmap(vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, y)
    close(table, x.numpy() @ y.numpy().T)
    f = lambda a: vmap(lambda b: (a * b).sin().sum())(y).sum()
    close(vmap(grad(f))(x), np.stack([grad(f)(row).numpy() for row in x]))
    close(vmap(jacrev(lambda a: a.sin()))(x), np.stack([np.diag(np.cos(r)) for r in x.numpy()]))


def test_gradients_flow_through_vmap() -> None:
    x, w = rand(3, 4).requires_grad_(), rand(4).requires_grad_()
    vmap(lambda v: F.softmax(v * w, 0).max())(x).sum().backward()
    other_x, other_w = x.detach().requires_grad_(), w.detach().requires_grad_()
    F.softmax(other_x * other_w, 1).amax(1).sum().backward()
    close(x.grad, other_x.grad)
    close(w.grad, other_w.grad)

    def f(v: Any) -> Any:
        with lg.no_grad():
            scale = v.sum()
        return (v * scale).sum()

    x.grad = None
    vmap(f)(x).sum().backward()
    close(x.grad, np.repeat(x.detach().numpy().sum(1, keepdims=True), 4, 1))


def test_gradients_written_by_hand_are_kept() -> None:
    class Clipped(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return x * w, x + 1

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, w = ctx.saved_tensors
            return (g * w + h).clamp(-1, 1), g * x

    x, w = rand(3, 4).requires_grad_(), (3 * rand(4)).detach().requires_grad_()
    f = lambda v: sum([y.sum() for y in Clipped.apply(v, w)])
    vmap(f)(x).sum().backward()
    wanted_x, wanted_w = lg.autograd.grad(sum([f(row) for row in x]), (x, w))
    close(x.grad, wanted_x)
    close(w.grad, wanted_w)
    inside = vmap(grad(f))(x.detach())
    close(inside, wanted_x)
    # The gradient of a norm at 0 is 0 by its own rule, not by that of its parts.
    zero = lg.zeros(2, 3).requires_grad_()
    vmap(lambda v: v.norm())(zero).sum().backward()
    close(zero.grad, np.zeros((2, 3)))


def test_gradients_written_by_hand_are_kept_in_batches_of_batches() -> None:
    x, y = rand(2, 3, 4).requires_grad_(), lg.tensor([[0, 1, 2], [3, 0, 1]])
    w = rand(4).requires_grad_()
    f = lambda v, k: F.cross_entropy(v * w, k)
    vmap(vmap(f))(x, y).sum().backward()
    other_x, other_w = x.detach().requires_grad_(), w.detach().requires_grad_()
    loss = F.cross_entropy((other_x * other_w).reshape(6, 4), y.reshape(6), reduction="sum")
    loss.backward()
    close(x.grad, other_x.grad)
    close(w.grad, other_w.grad)


def test_graphs_of_vmap_are_freed() -> None:
    import gc

    gc.collect()
    gc.disable()
    try:
        w = rand(4).requires_grad_()
        values = []
        for _ in range(3):
            out = vmap(lambda v: F.cross_entropy(v * w, lg.tensor(1)))(rand(8, 4)).sum()
            values.append(weakref.ref(out._node))
            out.backward()
            out.item()
        del out
        assert [v() for v in values] == [None] * 3
    finally:
        gc.enable()


def test_partial_functions_and_modules() -> None:
    layer = nn.Linear(4, 2)
    x = rand(3, 4).float()
    close(vmap(layer)(x), layer(x), rtol=1e-5)
    close(vmap(partial(F.linear, weight=layer.weight))(x), F.linear(x, layer.weight), rtol=1e-5)


# ------------------------------------------------------------------------------------- modules


def test_functional_call() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    x = rand(5, 4).float()
    other = {name: p.detach() * 2 for name, p in model.named_parameters()}
    before = dict(model.named_parameters())
    got = functional_call(model, other, (x,))
    twin = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    twin.load_state_dict(other)
    close(got, twin(x), rtol=1e-6)
    assert all(p is before[name] for name, p in model.named_parameters())
    with pytest.raises(RuntimeError, match="Missing"):
        functional_call(model, {"0.weight": other["0.weight"]}, x, strict=True)
    with pytest.raises(AttributeError):
        functional_call(model, {"0.other": x}, x)
    g = grad(lambda p: functional_call(model, p, x).sum())(other)
    assert g["0.weight"].shape == (3, 4)


def test_functional_call_of_tied_weights_and_buffers() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("count", lg.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count = self.count + 1
            return self.b(self.a(x))

    model = Tied()
    state = {"a.weight": lg.eye(2) * 3, "count": lg.zeros(1)}
    close(functional_call(model, state, lg.ones(2)), [9.0, 9.0])
    assert model.count.item() == 0.0


def test_an_ensemble() -> None:
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (4, 2, 3)
    assert parameters["weight"].requires_grad
    assert buffers == {}
    x = rand(5, 3).float()
    call = lambda p, x: functional_call(models[0], p, (x,))
    out = vmap(call, (0, None))(parameters, x)
    close(out, np.stack([m(x).detach().numpy() for m in models]), rtol=1e-5)


# -------------------------------------------------------------------------------------- counts


@pytest.mark.usefixtures("whole_plans")
def test_the_work_does_not_grow_with_the_batch(counted: Any) -> None:
    def steps(size: int) -> Any:
        x, y = rand(size, 4), lg.arange(size) % 3
        y.numpy()
        with counted() as c:
            for _ in range(2):
                each = vmap(grad(loss), (None, 0, 0))(PARAMETERS, x, y)
                total = sum([g.sum() for g in each.values()])
                total.item()
        return c

    steps(3)
    few, many = steps(8), steps(64)
    assert many.nodes_recorded == few.nodes_recorded
    assert many.kernels_made == 0
    assert many.host_steps == few.host_steps == 0
    assert many.plan_misses == 1  # another size is another plan, of the same kernels


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_run_all_examples_side_by_side(kind: Any, counted: Any) -> None:
    layer = kind(3, 4, num_layers=2, bidirectional=True).double()
    x = rand(6, 5, 2, 3).requires_grad_()  # examples, steps, sequences, features
    with counted() as of_one:
        layer(x[0])[0].tolist()
    with counted() as of_all:
        got = vmap(lambda one: layer(one)[0])(x)
        got.tolist()
    assert of_all.host_steps == of_one.host_steps == 0
    assert of_all.kernels_run < 3 * of_one.kernels_run  # and not six times as many
    wanted = lg.stack([layer(one)[0] for one in x])
    close(got, wanted)
    weights = rand(*got.shape)
    leaves = [x, *layer.parameters()]
    pairs = [lg.autograd.grad((y * weights).sum(), leaves) for y in (got, wanted)]
    for mine, theirs in zip(*pairs, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y),
        lambda x, y: x.copy_(y),
        lambda x, y: x[0].mul_(y.sum()),
        lambda x, y: x.__setitem__(0, y.sum()),
    ],
)
def test_values_of_examples_are_not_written_to_what_they_have_in_common(write):
    x = lg.ones(2)
    with pytest.raises(RuntimeError, match="self` not being vmapped over"):
        lg.func.vmap(lambda y: write(x, y))(lg.ones(3, 2))
    assert x.tolist() == [1, 1]
    assert lg.func.vmap(lambda y: x.add_(1) + y)(lg.ones(2, 2)).tolist() == [[3, 3]] * 2
    assert x.tolist() == [2, 2]


def test_dicts_keep_the_order_of_their_keys():
    names = ["weight", "bias", "a"]
    values = {name: lg.arange(3.0) for name in names}
    slopes = lg.func.grad(lambda given: sum(x.sum() for x in given.values()))(values)
    assert list(slopes) == names
    assert list(lg.func.vmap(lambda given: given)(values)) == names
    assert list(lg.func.jacrev(lambda given: given["a"])(values)) == names
