"""Modules that only torch has, or that mean something else there."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad.porting import names
from livegrad.porting.advice import instead_of
from livegrad.porting.modules import (
    compiler,
    cpu,
    dynamo,
    higher_order,
    inductor,
    ops,
    pytree,
    rebuilding,
)
from livegrad.porting.modules.version import TorchVersion


def test_versions_compare_by_their_numbers() -> None:
    version = TorchVersion("2.13.0+livegrad")
    assert version > "2.9"
    assert version >= (2, 13)
    assert version == "2.13"
    assert version != "2.1"
    assert version < "10.0"
    assert version <= "2.13.1"
    assert version != "no version"
    assert {version: 1}["2.13.0+livegrad"] == 1
    with pytest.raises(ValueError, match="a version was expected"):
        _ = version < "x"


def test_modules_have_one_name_each() -> None:
    assert names.ours("torch.nn.init") == "livegrad.nn.init"
    assert names.ours("torch._dynamo.config") == "livegrad.porting.modules.dynamo.config"
    assert names.find("torch.nn.init") is lg.nn.init
    assert names.find("torch._dynamo.config") is dynamo.config
    for name in ("torch.graph", "torch.train", "torch.nothing", "torch.nn.nothing"):
        assert names.find(name) is None


def test_the_compiler_takes_what_it_is_told() -> None:
    @compiler.disable(recursive=False)
    def f(x: Any) -> Any:
        return x + 1

    assert compiler.disable(f) is f
    assert compiler.allow_in_graph(f)(1) == 2
    assert not compiler.is_compiling()
    assert compiler.list_backends() == ["livegrad"]
    with compiler.set_stance("force_eager"):
        compiler.reset()
    double = compiler.wrap_numpy(lambda x: x * 2)
    assert double(lg.ones(2)).tolist() == [2.0, 2.0]


def test_settings_are_kept_and_put_back() -> None:
    config = dynamo.config
    assert not config.suppress_errors
    config.suppress_errors = True
    assert config.suppress_errors
    inductor.config.triton.cudagraphs = True
    assert inductor.config.triton.cudagraphs
    with config.patch(suppress_errors=False, cache_size_limit=4):
        assert (config.suppress_errors, config.cache_size_limit) == (False, 4)
    assert config.suppress_errors
    assert not config.cache_size_limit
    with config.patch("verbose", True):
        assert config.verbose


def test_dynamo_explains_that_nothing_breaks() -> None:
    calls = []
    found = dynamo.explain(calls.append)(3)
    assert (calls, found.graph_break_count) == ([3], 0)

    @dynamo.optimize("inductor")
    def f() -> int:
        return 1

    dynamo.mark_dynamic(lg.ones(2), 0)
    assert f() == 1


def test_operations_by_the_names_of_the_dispatcher() -> None:
    aten = ops.aten
    x = lg.tensor([[1.0, -2.0]], requires_grad=True)
    y = aten.add.Tensor(aten.relu.default(x), x, alpha=2)
    y.sum().backward()
    assert x.grad is not None
    assert (y.tolist(), x.grad.tolist()) == ([[3.0, -4.0]], [[3.0, 2.0]])
    assert aten.linalg_vector_norm(lg.tensor([3.0, 4.0])).item() == 5.0
    assert aten.gelu.default is aten.gelu.default
    assert aten.add.Tensor.name() == "aten::add.Tensor"
    assert (str(aten.relu), aten.relu.default.name()) == ("aten::relu", "aten::relu")
    assert aten.add.Tensor.overloadpacket is aten.add
    with pytest.raises(AttributeError, match="'aten' object has no attribute 'nothing'"):
        aten.nothing
    with pytest.raises(OSError, match="custom_op"):
        ops.load_library("x.so")


def test_blocks_of_a_profile() -> None:
    handle = ops.profiler._record_function_enter("block")
    ops.profiler._record_function_exit(handle)
    assert not hasattr(ops.profiler, "absent")


def test_operations_of_ones_own() -> None:
    @lg.library.custom_op("porting_test::triple", mutates_args=())
    def triple(x: lg.Tensor) -> lg.Tensor:
        return lg.from_numpy(x.numpy() * 3)

    assert ops.porting_test.triple(lg.ones(2)).tolist() == [3.0, 3.0]
    assert not hasattr(ops.porting_test, "absent")


def test_trees_of_classes_of_programs() -> None:
    class Pair:
        def __init__(self, first: Any, second: Any, name: str) -> None:
            self.first, self.second, self.name = first, second, name

    pytree.register_pytree_node(
        Pair,
        lambda pair: ([pair.first, pair.second], pair.name),
        lambda items, name: Pair(*items, name),
        serialized_type_name="Pair",
    )
    tree = {"a": Pair(1, [2, 3], "p")}
    assert pytree.tree_leaves(tree) == [1, 2, 3]
    out = pytree.tree_map(lambda x: x * 10, tree)["a"]
    assert (out.first, out.second, out.name) == (10, [20, 30], "p")
    assert pytree.tree_leaves(tree, is_leaf=lambda x: isinstance(x, list)) == [1, [2, 3]]
    assert pytree.tree_structure(tree) != pytree.tree_structure({"a": Pair(1, [2, 3], "q")})
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, list, Pair)


def test_nested_values() -> None:
    tree = {"a": [1, 2], "b": (3,)}
    leaves, spec = pytree.tree_flatten(tree)
    assert pytree.tree_unflatten([x * 2 for x in leaves], spec) == {"a": [2, 4], "b": (6,)}
    assert pytree.tree_map(lambda x, y: x + y, tree, tree) == {"a": [2, 4], "b": (6,)}
    assert pytree.tree_map_only(int, str, [1, 2.0]) == ["1", 2.0]
    assert (pytree.tree_leaves(tree), pytree.tree_structure(tree) == spec) == ([1, 2, 3], True)
    assert pytree.tree_any(lambda x: x > 2, tree)
    assert not pytree.tree_all(lambda x: x > 2, tree)
    turned = {"b": (10,), "a": [20, 30]}
    assert pytree.tree_leaves(turned) == [10, 20, 30]
    assert pytree.tree_map(lambda x, y: x + y, tree, turned) == {"a": [21, 32], "b": (13,)}
    assert pytree.tree_map(lambda x, y: y, [1, 2], [[3], {}]) == [[3], {}]
    for other, words in (({"a": [1, 2]}, "keys"), ({"a": [1], "b": (3,)}, "arity"), ([1], "type")):
        with pytest.raises(ValueError, match=f"Node {words} mismatch"):
            pytree.tree_map(lambda x, y: x, tree, other)


def test_tensors_are_flattened_together() -> None:
    xs = [lg.ones(2, 2), lg.zeros(3)]
    flat = rebuilding._flatten_dense_tensors(xs)
    assert flat.shape == (7,)
    back = rebuilding._unflatten_dense_tensors(flat, xs)
    assert [x.shape for x in back] == [x.shape for x in xs]


def test_the_cpu_is_there() -> None:
    assert (cpu.is_available(), cpu.device_count(), cpu.current_device()) == (True, 1, "cpu")
    with cpu.amp.autocast():
        assert (lg.ones(2, 2) @ lg.ones(2, 2)).dtype == lg.bfloat16


def test_advice_is_for_the_longest_name_that_fits() -> None:
    assert "stages" in instead_of("torch.distributed.pipelining.PipelineStage")
    assert "one process" in instead_of("torch.distributed.absent")
    assert "custom_op" in instead_of("torch.utils.cpp_extension.load")
    assert instead_of("torch.nothing_like_it_at_all") == ""


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(count: int, reverse: bool) -> None:
    x = lg.linspace(0.5, 2, count * 2).reshape(2, count).requires_grad_()
    out = higher_order.associative_scan(lambda a, b: a * b, x, 1, reverse)
    expected = x.flip(1).cumprod(1).flip(1) if reverse else x.cumprod(1)
    lg.testing.assert_close(out, expected)
    ours, theirs = (lg.autograd.grad(y.sum(), x)[0] for y in (out, expected))
    lg.testing.assert_close(ours, theirs)


def test_associative_scan_of_values_that_belong_together() -> None:
    """h = a h + b, step by step."""
    a, b = lg.rand(7, 3), lg.rand(7, 3)

    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, found = higher_order.associative_scan(combine, (a, b), 0)
    state = lg.zeros(3)
    for t in range(7):
        state = a[t] * state + b[t]
        lg.testing.assert_close(found[t], state)
