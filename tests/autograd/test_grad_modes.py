"""no_grad, enable_grad, set_grad_enabled, inference_mode: contexts, decorators, generators."""

import threading

import pytest

import livegrad as lg
from livegrad.autograd import is_inference_mode_enabled


@pytest.fixture
def x():
    return lg.tensor([1.0], requires_grad=True)


def test_nested_contexts(x):
    with lg.no_grad():
        assert not (x * 2).requires_grad
        with lg.enable_grad():
            assert (x * 2).requires_grad
        assert not lg.is_grad_enabled()
    assert (x * 2).requires_grad


def test_mode_is_restored_after_an_exception():
    with pytest.raises(ValueError, match="stop"), lg.no_grad():
        raise ValueError("stop")
    assert lg.is_grad_enabled()


def test_a_view_made_under_no_grad_requires_a_gradient_in_vain(x):
    with lg.no_grad():
        view = x.view(1, 1)
        part = view[0]
    for y in (view, part):
        assert y.requires_grad
        assert y.is_leaf
        (y * 2).sum().backward()
        assert y.grad is x.grad is None
    with lg.no_grad():
        view.add_(1)
        assert (view * 2).tolist() == [[4.0]]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        view * 2


@pytest.mark.parametrize("cut", [lambda x: x.unbind(0), lambda x: x[:0].chunk(2)])
def test_one_of_several_views_whose_history_is_gone(cut):
    part, other = cut(lg.ones(2, 3, requires_grad=True) * 1)
    other.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified inplace"):
        part.is_leaf
    part.data = lg.zeros(3)
    assert part.tolist() == [0.0, 0.0, 0.0]


def test_a_view_made_before_its_base_requires_a_gradient():
    base = lg.ones(2, 3)
    view = base.t()
    before = view * 2
    base.requires_grad_()
    assert view.requires_grad
    assert view.is_leaf
    assert not before.requires_grad
    after = view * 2
    assert after.requires_grad
    after.sum().backward()
    assert view.grad is base.grad is None
    with lg.no_grad():
        base.add_(1)
    (view * 2).sum().backward()  # the view of what was written is recorded
    assert base.grad.tolist() == [[2.0] * 3] * 2


def test_what_was_made_in_inference_mode_counts_no_writes():
    with lg.inference_mode():
        y = lg.ones(2) * 2
    y.detach().add_(1)
    assert y.is_inference()
    assert y[0].is_inference()
    with pytest.raises(RuntimeError, match="do not track version"):
        y._version


def test_what_may_be_written_of_a_tensor_of_inference_mode():
    with lg.inference_mode():
        y = lg.ones(2) * 2
        inside = y.detach()
        of_bytes = lg.ones(2).view(lg.int32)
    first, number = y.detach(), y.view(lg.float32)
    second = first.detach()
    second.add_(1)
    number[:1].add_(1)
    assert (first._version, second._version, number._version) == (0, 1, 1)
    assert y.tolist() == [4.0, 3.0]
    assert [x.is_inference() for x in (inside, of_bytes, first, second, number)] == [True] * 4 + [
        False
    ]
    for x in (inside, of_bytes, first[:1]):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            x.add_(1)


def test_a_detached_tensor_is_no_view_of_what_requires_a_gradient(x):
    detached = x.detach()
    lg.nn.Parameter(x)
    assert not detached.requires_grad


def test_a_view_that_was_written_before_its_base_requires_a_gradient():
    base = lg.ones(2, 3)
    view, other = base.t(), base[0]
    view.add_(1)
    base.requires_grad_()
    for y in (view, other):
        assert not y.is_leaf
    (view.sum() + other.sum()).backward()
    assert base.grad.tolist() == [[2.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("size", [(3,), (3, 2), (8,)])
def test_views_of_what_was_resized_require_a_gradient_with_it(size):
    base = lg.ones(2, 3)
    view = base.t()
    base.resize_(size).requires_grad_()
    assert view.requires_grad
    (view * 2).sum().backward()
    shown = [2.0] * 6 + [0.0] * 2
    assert base.grad.flatten().tolist() == shown[: base.numel()]


@pytest.mark.parametrize("name", ["resize_", "unsqueeze_", "set_"])
def test_a_view_that_took_another_shape_is_still_one(name):
    base = lg.ones(2, 3)
    view = base[0]
    {"resize_": view.resize_, "unsqueeze_": view.unsqueeze_, "set_": view.set_}[name](
        base[1] if name == "set_" else 1
    )
    base.requires_grad_()
    assert view.requires_grad
    assert not view.is_leaf


def test_a_view_that_was_written_before_its_memory_was_seen_elsewhere():
    base = lg.ones(2, 3)
    view = base.view(6)
    view.add_(1)
    array = view.numpy()
    base.requires_grad_()
    assert not view.is_leaf
    (view * 2).sum().backward()
    assert base.grad.tolist() == [[2.0] * 3] * 2
    assert array.tolist() == [2.0] * 6


def test_what_was_made_in_inference_mode_is_not_resized_elsewhere():
    with lg.inference_mode():
        x = lg.ones(3)
    x.resize_(3)
    for size in ((), (2,), (4,)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            x.resize_(size)
    assert x.tolist() == [1.0] * 3


def test_one_object_entered_twice():
    mode = lg.no_grad()
    with mode:
        with mode:
            pass
        assert not lg.is_grad_enabled()
    assert lg.is_grad_enabled()


@pytest.mark.parametrize(
    "decorator", [lg.no_grad(), lg.no_grad, lg.inference_mode, lg.inference_mode()]
)
def test_decorators_with_and_without_parentheses(decorator, x):
    @decorator
    def double(a, *, k=2):
        """Doc."""
        return a * k

    assert not double(x, k=3).requires_grad
    assert double.__name__ == "double"
    assert double.__doc__ == "Doc."
    assert lg.is_grad_enabled()


def test_generator_runs_each_step_in_the_mode():
    @lg.no_grad()
    def steps():
        received = yield lg.is_grad_enabled()
        try:
            yield lg.is_grad_enabled(), received
        except KeyError:
            yield lg.is_grad_enabled()
        return "end"

    run = steps()
    assert next(run) is False
    assert lg.is_grad_enabled()
    assert run.send(5) == (False, 5)
    assert run.throw(KeyError()) is False
    assert lg.is_grad_enabled()
    with pytest.raises(StopIteration) as stop:
        next(run)
    assert stop.value.value == "end"


def test_generator_is_closed_in_the_mode():
    seen = []

    @lg.no_grad()
    def steps():
        try:
            yield 1
        finally:
            seen.append(lg.is_grad_enabled())

    run = steps()
    next(run)
    run.close()
    assert seen == [False]


def test_set_grad_enabled_as_function_context_and_decorator():
    lg.set_grad_enabled(False)
    assert not lg.is_grad_enabled()
    lg.set_grad_enabled(True)
    with lg.set_grad_enabled(False):
        assert not lg.is_grad_enabled()
    assert lg.is_grad_enabled()

    @lg.set_grad_enabled(False)
    def mode():
        return lg.is_grad_enabled()

    assert lg.is_grad_enabled()
    assert mode() is False
    assert mode() is False
    assert lg.is_grad_enabled()


def test_inference_mode(x):
    with lg.inference_mode():
        assert is_inference_mode_enabled()
        assert not (x * 2).requires_grad
        with lg.inference_mode(False):
            assert (x * 2).requires_grad
            assert not is_inference_mode_enabled()
    assert not is_inference_mode_enabled()


def test_mode_belongs_to_the_thread():
    seen = []
    with lg.no_grad():
        thread = threading.Thread(target=lambda: seen.append(lg.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_tensor_of_inference_mode_is_given_no_other_storage():
    with lg.inference_mode():
        x = lg.ones(2)
    for y in (x, x[...]):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            y.set_(y)
