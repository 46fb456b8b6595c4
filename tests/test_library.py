"""Operations from outside the package: values, gradients, transforms, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim
from livegrad.graph.state import reference_mode
from livegrad.library import custom_op, register_autograd, register_fake, register_vmap
from livegrad.runtime.report import last_steps

Calls = list[tuple[int, ...]]


def keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0])


@pytest.fixture
def cube() -> Any:
    calls: Calls = []

    @custom_op("test::cube", mutates_args=())
    def cube(x: lg.Tensor) -> lg.Tensor:
        """x³"""
        calls.append(tuple(x.shape))
        return lg.from_numpy(x.numpy() ** 3)

    @cube.register_fake
    def _(x: Any) -> Any:
        return lg.empty_like(x)

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    cube.register_autograd(backward, setup_context=keep_inputs)
    cube.calls = calls
    return cube


def test_it_is_recorded_and_runs_inside_a_plan(cube: Any) -> None:
    x = lg.arange(4, dtype=lg.float32)
    y = cube(x * 2) + 1
    assert cube.calls == []
    assert y.tolist() == [1, 9, 65, 217]
    assert cube.calls == [(4,)]
    assert "host" in [step.kind for step in last_steps()]
    assert cube.__doc__ == "x³"


def test_plans_are_found_again(cube: Any, counted: Any) -> None:
    for _ in range(2):
        cube(lg.ones(3) * 2).tolist()
    with counted() as c:
        cube(lg.ones(3) * 2).tolist()
    assert (c.plan_hits, c.plan_misses) == (1, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_other_sizes(cube: Any, size: int) -> None:
    assert cube(lg.full((size,), 2.0)).tolist() == [8.0] * size


def test_gradients_of_any_order(cube: Any) -> None:
    x = lg.tensor([1.0, 2.0], dtype=lg.float64, requires_grad=True)
    assert lg.autograd.gradcheck(cube, (x,))
    assert lg.autograd.gradgradcheck(cube, (x,))


def test_training(cube: Any) -> None:
    w = nn.Parameter(lg.tensor([1.5]))
    optimizer = optim.SGD([w], lr=0.001)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (cube(w) - 8).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_vmap_calls_it_for_each(cube: Any) -> None:
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert lg.func.vmap(cube)(x).tolist() == [[1, 8], [27, 64]]
    assert cube.calls == [(2,), (2,)]
    gradients = lg.func.vmap(lg.func.grad(lambda row: cube(row).sum()))(x)
    assert gradients.tolist() == [[3, 12], [27, 48]]


def test_vmap_by_a_rule(cube: Any) -> None:
    seen = []

    @cube.register_vmap
    def _(info: Any, in_dims: tuple[Any, ...], x: Any) -> Any:
        seen.append((info.batch_size, in_dims))
        return cube(x), 0

    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert lg.func.vmap(cube)(x).tolist() == [[1, 8], [27, 64]]
    assert seen == [(2, (0,))]
    assert cube.calls == [(2, 2)]


def test_reference_mode_agrees(cube: Any) -> None:
    x = lg.arange(5, dtype=lg.float32)
    compiled = cube(x + 1).tolist()
    with reference_mode():
        assert cube(x + 1).tolist() == compiled


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16, lg.int32, lg.bool, lg.complex64])
def test_the_function_sees_the_dtypes_of_the_program(dtype: lg.dtype) -> None:
    seen = []

    @custom_op("test::same", mutates_args=())
    def same(x: Any) -> Any:
        seen.append(x.dtype)
        return x.clone()

    register_fake("test::same", lg.empty_like)
    x = lg.ones(3).to(dtype)
    assert lg.equal(same(x), x)
    assert seen == [dtype]


def test_livegrad_inside_of_it() -> None:
    """The function may compute with livegrad: inside of a plan that is running."""

    @custom_op("test::inner", mutates_args=())
    def inner(x: Any) -> Any:
        return lg.softmax(x @ x.T, 1).sum(0)

    @register_fake(inner)
    def _(x: Any) -> Any:
        return x.new_empty(x.shape[0])

    x = lg.arange(6, dtype=lg.float32).reshape(2, 3) / 10
    expected = lg.softmax(x @ x.T, 1).sum(0)
    np.testing.assert_allclose(inner(x * 1).tolist(), expected.tolist(), rtol=1e-6)


@pytest.fixture
def largest() -> Any:
    @custom_op("test::largest", mutates_args=())
    def largest(x: Any, count: int, *, sign: float = 1.0) -> Any:
        order = np.argsort(-sign * x.numpy(), kind="stable")[:count]
        return lg.from_numpy(x.numpy()[order]), lg.from_numpy(order)

    @largest.register_fake
    def _(x: Any, count: int, *, sign: float) -> Any:
        return x.new_empty(count), lg.empty(count, dtype=lg.int64, device=x.device)

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        assert keyword_only_inputs == {"sign": 1.0}
        ctx.save_for_backward(output[1])
        ctx.size = inputs[0].shape

    def backward(ctx: Any, values: Any, places: Any) -> Any:
        (order,) = ctx.saved_tensors
        return lg.zeros(ctx.size).scatter(0, order, values), None

    register_autograd("test::largest", backward, setup_context=setup)
    return largest


def test_several_results_and_arguments_that_are_no_tensors(largest: Any) -> None:
    x = lg.tensor([3.0, 9.0, 4.0, 7.0])
    values, places = largest(x + 0, 2)
    assert (values.tolist(), places.tolist()) == ([9, 7], [1, 3])
    values, places = largest(x, 3, sign=-1.0)
    assert (values.tolist(), places.tolist()) == ([3, 4, 7], [0, 2, 3])
    assert places.dtype is lg.int64


def test_gradient_of_one_of_several_results(largest: Any) -> None:
    x = lg.tensor([3.0, 9.0, 4.0, 7.0], requires_grad=True)
    values, _ = largest(x * 2, 2)
    values.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 2, 0, 2]


def test_vmap_of_several_results(largest: Any) -> None:
    x = lg.tensor([[3.0, 9.0, 4.0], [5.0, 1.0, 2.0]])
    values, places = lg.func.vmap(lambda row: largest(row, 2))(x)
    assert values.tolist() == [[9, 4], [5, 2]]
    assert places.tolist() == [[1, 2], [0, 2]]


def test_lists_of_tensors() -> None:
    @custom_op("test::total", mutates_args=())
    def total(xs: list[Any], scale: float, bias: Any = None) -> Any:
        found = sum([x.numpy() for x in xs]) * scale
        return lg.from_numpy(found if bias is None else found + bias.numpy())

    register_fake("test::total", lambda xs, scale, bias: lg.empty_like(xs[0]))
    needed = []

    def backward(ctx: Any, g: Any) -> Any:
        needed.append(ctx.needs_input_grad)
        return [g * 2, None], None, None

    total.register_autograd(backward)
    a, b = lg.ones(2, requires_grad=True), lg.ones(2)
    y = total([a * 1, b], 2.0)
    assert y.tolist() == [4, 4]
    y.sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [2, 2]
    assert needed == [([True, False], False, False)]
    assert total([a.detach()], 1.0, b).tolist() == [2, 2]


def test_without_a_fake_it_runs_at_once() -> None:
    @custom_op("test::unique", mutates_args=())
    def unique(x: Any) -> Any:
        return lg.from_numpy(np.unique(x.numpy()))

    assert unique(lg.tensor([2, 1, 2])).tolist() == [1, 2]


def test_without_a_gradient(cube: Any) -> None:
    plain = custom_op("test::plain", lambda x: x.clone(), mutates_args=())
    plain.register_fake(lg.empty_like)
    x = lg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward through test::plain but no autograd formula"):
        plain(x).sum().backward()


def test_errors_name_the_operation_and_the_line(cube: Any) -> None:
    @custom_op("test::broken", mutates_args=())
    def broken(x: Any) -> Any:
        raise KeyError("missing")

    broken.register_fake(lg.empty_like)
    alive = lg.ones(2) + 5
    y = broken(lg.ones(3))
    with pytest.raises(RuntimeError, match=r"test::broken: KeyError.*test_library\.py"):
        y.tolist()
    assert alive.tolist() == [6, 6]


def test_a_fake_that_is_wrong() -> None:
    wrong = custom_op("test::wrong", lambda x: x[:1].clone(), mutates_args=())
    wrong.register_fake(lg.empty_like)
    with pytest.raises(RuntimeError, match="but register_fake said"):
        wrong(lg.ones(3)).tolist()


def test_misuse(cube: Any) -> None:
    with pytest.raises(ValueError, match="namespace::name"):
        custom_op("nameless", lambda x: x, mutates_args=())
    with pytest.raises(ValueError, match="{'y'} in mutates_args were not found"):
        custom_op("test::writer", lambda x: x, mutates_args=("y",))
    with pytest.raises(ValueError, match="or the string 'unknown'; got 'x'"):
        custom_op("test::writer", lambda x: x, mutates_args="x")
    with pytest.raises(ValueError, match="there is no operation .test::nobody."):
        register_vmap("test::nobody", print)
    with pytest.raises(TypeError, match="got a dict"):
        cube({})


def test_arguments_are_not_changed_behind_the_programs_back() -> None:
    @custom_op("test::careless", mutates_args=())
    def careless(x: Any) -> Any:
        x += 1
        return x.clone()

    careless.register_fake(lg.empty_like)
    x = lg.zeros(3)
    assert careless(x).tolist() == [1, 1, 1]
    assert x.tolist() == [0, 0, 0]


# ---------------------------------------------------------------- functions that write to tensors


@pytest.fixture
def halve() -> Any:
    @custom_op("test::halve", mutates_args=("out",))
    def halve(x: lg.Tensor, out: lg.Tensor) -> None:
        np.divide(x.numpy(), 2, out=out.numpy())

    return halve


def test_what_is_written_is_seen_at_once_and_counted(halve: Any) -> None:
    x, out = lg.ones(3) * 4, lg.zeros(2, 3)
    view = out[1]
    before = out * 1
    assert halve(x, view) is None
    assert out.tolist() == [[0, 0, 0], [2, 2, 2]]
    assert (view + 1).tolist() == [3, 3, 3]
    assert before.tolist() == lg.zeros(2, 3).tolist()
    assert (out._version, view._version, x._version) == (1, 1, 0)


def test_a_leaf_that_is_written_stays_one(halve: Any) -> None:
    w = nn.Parameter(lg.ones(2))
    halve(lg.ones(2), w.detach())
    assert (w.is_leaf, w.tolist()) == (True, [0.5, 0.5])
    (w * w).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_functions_that_write_have_no_gradient(halve: Any) -> None:
    with pytest.raises(RuntimeError, match="non-functional operator"):
        halve.register_autograd(print)


def test_without_values(halve: Any) -> None:
    halve.register_fake(lambda x, out: None)
    assert halve(lg.ones(2, device="meta"), lg.ones(2, device="meta")) is None


def test_a_result_is_no_argument() -> None:
    same = custom_op("test::itself", lambda x: x.add_(1), mutates_args=("x",))
    with pytest.raises(RuntimeError, match="must not also be an argument"):
        same(lg.ones(2))


def test_recorded_writes_are_batched() -> None:
    @custom_op("test::fill", mutates_args=("x",))
    def fill(x: lg.Tensor, value: float) -> None:
        x.fill_(value)

    def row(x: Any) -> Any:
        y = x.clone()
        fill(y, 3.0)
        return y + x

    assert lg.func.vmap(row)(lg.ones(2, 2)).tolist() == [[4, 4], [4, 4]]


def test_opcheck_says_whether_an_operation_is_what_was_said(cube: Any) -> None:
    for x in (lg.randn(3), lg.randn(2, 3, requires_grad=True), lg.empty(0, 2)):
        assert set(lg.library.opcheck(cube, [x]).values()) == {"SUCCESS"}
    only = lg.library.opcheck(cube, (lg.ones(2),), test_utils="test_schema")
    assert only == {"test_schema": "SUCCESS"}

    @custom_op("test::writes", mutates_args=())
    def writes(x: lg.Tensor) -> lg.Tensor:
        x.mul_(2)
        return x.clone()

    @custom_op("test::view", mutates_args=())
    def view(x: lg.Tensor) -> lg.Tensor:
        return x[1:]

    @custom_op("test::wrong", mutates_args=())
    def wrong(x: lg.Tensor) -> lg.Tensor:
        return x.double()

    wrong.register_fake(lambda x: lg.empty_like(x))
    for op, said in (
        (writes, "argument x is not defined as mutable"),
        (view, "a view of one"),
        (wrong, "register_fake said"),
    ):
        with pytest.raises(Exception, match=said):
            lg.library.opcheck(op, (lg.ones(3),))
    told = lg.library.opcheck(view, (lg.ones(3),), raise_exception=False)
    assert "no fake function" in str(told["test_faketensor"])
    assert told["test_autograd_registration"] == "SUCCESS"


def test_opcheck_of_one_that_writes() -> None:
    @custom_op("test::sine_into", mutates_args={"out"})
    def sine_into(x: lg.Tensor, out: lg.Tensor) -> None:
        out.copy_(lg.from_numpy(np.sin(x.numpy())))

    told = lg.library.opcheck(sine_into, [lg.randn(3), lg.empty(3)])
    assert set(told.values()) == {"SUCCESS"}
