"""`out=`: results written into tensors that the caller gives."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import livegrad as lg
from livegrad.graph.node import site_location

x = lg.tensor([[3.0, -1.0], [0.5, 2.0]])
y = lg.tensor([[1.0, 2.0], [3.0, 4.0]])


def test_the_tensor_given_takes_the_result_and_is_returned() -> None:
    out = lg.empty(2, 2)
    assert lg.add(x, y, alpha=2, out=out) is out
    assert out.tolist() == (x + 2 * y).tolist()
    assert lg.sin(x, out=out) is out
    assert out.tolist() == x.sin().tolist()


def test_an_argument_may_be_the_output() -> None:
    a = x.clone()
    lg.mul(a, a, out=a)
    assert a.tolist() == (x * x).tolist()


def test_a_view_is_written_through() -> None:
    whole = lg.zeros(3, 2)
    lg.sum(x, 0, out=whole[1])
    assert whole.tolist() == [[0.0, 0.0], [3.5, 1.0], [0.0, 0.0]]


def test_the_result_is_no_view_of_an_argument() -> None:
    a, out = x.clone(), lg.empty(2, 2)
    lg.clamp(a, -9.0, out=out)
    out.add_(1)
    assert a.tolist() == x.tolist()


@pytest.mark.parametrize("fold", [lg.cumsum, lg.cumprod, lg.sum, lg.prod, lg.nansum])
def test_folds_compute_in_the_dtype_of_the_output(fold: Any) -> None:
    numbers = lg.tensor([1.9, 2.9])
    out = fold(numbers, 0, out=lg.empty(0, dtype=lg.int64))
    assert out.tolist() == fold(numbers, 0, dtype=lg.int64).tolist()


def test_what_has_no_gradient_leaves_the_history_of_the_output_alone() -> None:
    leaf = lg.tensor([2.0], requires_grad=True)
    out = leaf * 3
    lg.eq(leaf, leaf, out=out)
    out.backward()
    assert (out.tolist(), leaf.grad.tolist()) == ([1.0], [3.0])
    lg.eq(leaf, leaf, out=leaf)
    assert leaf.is_leaf
    assert leaf.tolist() == [1.0]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        lg.add(lg.ones(1), 1, out=leaf)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        lg.mul(lg.tensor([True]), True, out=leaf)


def test_joined_values_that_do_not_fit_are_of_the_wrong_type() -> None:
    for join in (lg.cat, lg.stack, lg.hstack, lg.column_stack):
        with pytest.raises(TypeError, match="can't be cast"):
            join([x, x], out=lg.empty(0, dtype=lg.int64))


def test_several_results() -> None:
    values, indices = lg.empty(2), lg.empty(2, dtype=lg.int64)
    result = lg.max(x, 1, out=(values, indices))
    assert result.values is values
    assert result.indices is indices
    assert (values.tolist(), indices.tolist()) == ([3.0, 2.0], [0, 1])
    with pytest.raises(TypeError, match="tuple of 2"):
        lg.max(x, 1, out=values)


def test_results_are_cast_if_nothing_is_lost() -> None:
    out = lg.empty(2, 2, dtype=lg.float64)
    assert lg.add(x, y, out=out).dtype is lg.float64
    with pytest.raises(RuntimeError, match="can't be cast"):
        lg.add(x, y, out=lg.empty(2, 2, dtype=lg.int64))
    with pytest.raises(RuntimeError, match="to have dtype float32, but got float64"):
        lg.matmul(x, y, out=out)


def test_an_empty_output_is_resized_silently_and_others_with_a_warning(recwarn) -> None:
    out = lg.empty(0)
    lg.add(x, y, out=out)
    assert out.tolist() == (x + y).tolist()
    assert not recwarn
    with pytest.warns(UserWarning, match="was resized") as caught:
        lg.sum(x, 0, out=out)
    assert caught[0].filename == __file__
    assert out.shape == (2,)
    whole = lg.zeros(5)
    part = whole[1:]
    with pytest.warns(UserWarning, match="resized"):
        lg.add(x, y, out=part)
    assert part.tolist() == (x + y).tolist()
    assert whole.tolist() == [0.0, *part.flatten().tolist()]


@pytest.mark.filterwarnings("ignore:An output with one or more")
def test_an_expanded_output_may_get_another_shape_but_not_from_elementwise_functions() -> None:
    x = lg.arange(12.0).reshape(3, 4)
    for function in (lg.amax, lg.sum, lg.nanmean):
        whole = lg.zeros(1)
        room = whole.expand(5, 7)
        function(x, 1, out=room)
        assert room.stride() == (1,)
        assert whole[0] == function(x, 1)[0]
    for function in (lg.exp, lg.conj_physical, lg.nonzero):
        room = lg.zeros(1, dtype=function(x).dtype).expand(5, 7)
        with pytest.raises(RuntimeError, match="more than one element"):
            function(x, out=room)
        assert room.shape == (5, 7)


def test_creation_takes_the_dtype_of_the_output() -> None:
    out = lg.empty(0, dtype=lg.int64)
    assert lg.arange(3, out=out) is out
    assert lg.zeros(2, 3, out=lg.empty(0, dtype=lg.float64)).dtype is lg.float64
    with pytest.raises(RuntimeError, match="dtype"):
        lg.zeros(2, dtype=lg.float32, out=out)


def test_no_gradients_flow_into_an_output() -> None:
    leaf = lg.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        lg.add(leaf, x, out=lg.empty(2, 2))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        lg.add(x, y, out=leaf)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        lg.sum(leaf, 0, out=lg.empty(2, dtype=lg.int64))
    with lg.no_grad():
        lg.add(leaf, x, out=leaf)
    assert leaf.requires_grad
    assert leaf.tolist() == (x + 1).tolist()


def test_what_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        lg.add(x, y, out=3)


def test_wrapped_functions_look_like_their_own() -> None:
    assert lg.add.__name__ == "add"
    assert lg.multiply is lg.mul
    assert pickle.loads(pickle.dumps(lg.add)) is lg.add
    with pytest.raises(TypeError, match="unexpected keyword"):
        lg.add(x, y, beta=2)


def test_nodes_know_the_line_of_the_caller() -> None:
    line = inspect.currentframe().f_lineno + 1
    made = lg.add(x, y)
    assert site_location(made._node.site) == (__file__, line)


MARKED = """
import inspect
import livegrad as lg
import livegrad.fft, livegrad.nn.functional, livegrad.special
from livegrad.ops.support.public import PUBLIC
names = set()
def outcome(call, operands):
    try:
        return call(*operands)._node.spec
    except Exception as error:
        return type(error)
for function, public in PUBLIC.items():
    if vars(function).get("out") is None:
        continue
    names.add(public.__name__)
    try:
        public(out=lg.empty(0))
    except (TypeError, RuntimeError) as error:
        assert "unexpected keyword" not in str(error), public
    if vars(function).get("plain"):  # the public one records by itself: it must do the same
        parameters = list(inspect.signature(function).parameters)
        assert parameters == ["input", "other"][: len(parameters)], public
        for dtype in (lg.float32, lg.int64):
            operands = [lg.ones(2, dtype=dtype)] * len(parameters)
            assert outcome(function, operands) is outcome(public, operands), public
assert {"add", "abs", "cat", "sum", "zeros", "solve", "fft", "squeeze_copy", "gelu"} <= names
print("checked")
"""


def test_every_marked_function_takes_it(python: Any) -> None:
    # In a process of its own: where classes override functions, these look otherwise.
    assert python(MARKED).stdout == "checked\n"


def test_sizes_of_complex_numbers_are_stored_as_those_or_as_reals() -> None:
    x = lg.tensor([3 + 4j])
    for dtype in (lg.complex64, lg.float32, lg.float64):
        assert lg.abs(x, out=lg.empty(1, dtype=dtype)).tolist() == [5.0]
    assert lg.abs(input=x, out=x) is x
    for given, dtype in ((x, lg.complex128), (x, lg.int64), (x.real, lg.float64)):
        with pytest.raises(RuntimeError, match="out: "):
            lg.absolute(given, out=lg.empty(1, dtype=dtype))


@pytest.mark.parametrize("fold", [lg.all, lg.any])
@pytest.mark.parametrize("given", [lg.bool, lg.uint8, lg.float32])
def test_what_is_true_of_all_or_any_is_stored_as_bools_or_bytes(fold: Any, given: Any) -> None:
    x = lg.tensor([[1, 0], [2, 3]]).to(given)
    for dtype in (lg.bool, lg.uint8):
        out = fold(x, 1, out=lg.empty(2, dtype=dtype))
        assert (out.dtype, out.tolist()) == (dtype, fold(x, 1).tolist())
    with pytest.raises(RuntimeError, match="bools or uint8"):
        fold(x, 1, out=lg.empty(2, dtype=lg.int64))
