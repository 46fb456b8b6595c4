"""Modules of torch that packages import: what they do, and what they refuse."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad import _C
from livegrad.porting import hook, names
from livegrad.porting.modules import (
    batched,
    contexts,
    cpp_extension,
    dispatch,
    flop_counter,
    foreach_utils,
    functorch,
    members,
    ops,
    pytree,
    rebuilding,
    weak,
)
from tests.porting.support import run, write

SCRIPT = """
from torch.distributions.constraints import __all__ as names
from torch.utils.data import __all__ as data
import torch.nn.functional
print("positive" in names, "annotations" in names, "Any" in names, "Dataset" in data)
print(torch.torch is torch, torch.PyTorchFileReader.__name__, torch.ScriptModule.__name__)
print("livegrad" in torch.__config__.show(), "threads" in torch.__config__.parallel_info())
"""


def test_modules_say_which_names_are_theirs(tmp_path: Path) -> None:
    write(tmp_path, script=SCRIPT)
    done = run("script.py", cwd=tmp_path)
    assert done.stdout.split() == (
        ["True", "False", "False", "True"]
        + ["True", "PyTorchFileReader", "ScriptModule", "True", "True"]
    ), done.stderr


def test_own_names_are_neither_modules_nor_what_a_module_is_written_with() -> None:
    assert hook._is_own("Tensor", lg.Tensor)
    assert hook._is_own("pi", 3.14)
    assert not hook._is_own("Any", Any)
    assert not hook._is_own("_hidden", lg.Tensor)
    assert not hook._is_own("nn", lg.nn)


def test_places_in_nested_values() -> None:
    tree = {"b": [1, 2], "a": (3, {"c": 4})}
    places = [(pytree.keystr(place), leaf) for place, leaf in pytree.tree_leaves_with_path(tree)]
    assert places == [("['b'][0]", 1), ("['b'][1]", 2), ("['a'][0]", 3), ("['a'][1]['c']", 4)]
    named = pytree.tree_map_with_path(lambda place, x: f"{pytree.keystr(place)}={x}", [5, (6,)])
    assert named == ["[0]=5", ("[1][0]=6",)]
    assert pytree.tree_is_leaf(3)
    assert not pytree.tree_is_leaf([3])
    assert pytree.tree_is_leaf([3], is_leaf=lambda x: isinstance(x, list))


def test_nested_values_may_be_taken_apart_by_hand() -> None:
    value = {"x": 1, "y": (2, 3)}
    items, context = pytree.SUPPORTED_NODES[dict].flatten_fn(value)
    specs = [pytree.LeafSpec(), pytree.TreeSpec(tuple, (), [pytree.LeafSpec()] * 2)]
    assert list(items) == [1, (2, 3)]
    spec = pytree.TreeSpec(dict, context, specs)
    assert pytree.tree_unflatten([1, 2, 3], spec) == value
    assert spec == pytree.tree_structure(value)
    assert int not in pytree.SUPPORTED_NODES
    assert pytree._dict_unflatten(*pytree._dict_flatten(value)) == value
    with pytest.raises(KeyError):
        _ = pytree.SUPPORTED_NODES[int]


def test_operations_that_only_the_dispatcher_names() -> None:
    x = lg.arange(6.0).reshape(2, 3)
    aten: Any = ops.aten
    assert aten.slice.Tensor(x, 1, 0, 3, 2).tolist() == [[0.0, 2.0], [3.0, 5.0]]
    assert aten.index.Tensor(x, [None, lg.tensor([2])]).tolist() == [[2.0], [5.0]]
    copy = aten._to_copy.default(x, dtype=lg.float64)
    assert copy.dtype == lg.float64
    assert aten.alias.default(x).data_ptr() == x.data_ptr()
    assert aten._softmax(x, 1, False).sum().item() == pytest.approx(2.0)
    image, weight = lg.ones(1, 1, 3, 3), lg.ones(1, 1, 2, 2)
    straight = aten.convolution(image, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    turned = aten.convolution(image, weight, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1)
    assert straight.shape == (1, 1, 2, 2)
    assert turned.shape == (1, 1, 4, 4)
    with pytest.raises(AttributeError, match="no_such_op"):
        _ = aten.no_such_op


def test_extensions_are_refused_when_they_are_built() -> None:
    for build in (cpp_extension.load, cpp_extension.load_inline, cpp_extension.CUDAExtension):
        with pytest.raises(RuntimeError, match="no C\\+\\+ to build against"):
            build(name="mine", sources=["mine.cpp"])
    with pytest.raises(RuntimeError, match="BuildExtension"):
        cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)()
    assert cpp_extension.CUDA_HOME is None


def test_what_stands_on_the_dispatcher_says_what_to_use() -> None:
    assert not dispatch.is_traceable_wrapper_subclass(lg.ones(1))
    assert not isinstance(lg.ones(1), dispatch.FakeTensor)
    with pytest.raises(RuntimeError, match="TorchFunctionMode"), dispatch.TorchDispatchMode():
        pass
    with pytest.raises(RuntimeError, match="symbolic_trace"):
        dispatch.make_fx(lambda x: x)
    counter = flop_counter.FlopCounterMode(display=False)
    assert counter.get_total_flops() == 0
    with pytest.raises(RuntimeError, match=r"train\.summary"), counter:
        pass


def test_blocks_that_decorate() -> None:
    class Block(contexts._DecoratorContextManager):
        depth = 0

        def __enter__(self) -> None:
            Block.depth += 1

        def __exit__(self, *raised: object) -> None:
            Block.depth -= 1

    @Block()
    def depth() -> int:
        return Block.depth

    @Block()
    def depths() -> Any:
        yield Block.depth
        yield Block.depth

    assert depth() == 1
    found = [(inside, Block.depth) for inside in depths()]
    assert found == [(1, 0), (1, 0)]


def test_dicts_by_identity_let_their_keys_go() -> None:
    table: Any = weak.WeakIdKeyDictionary()
    x, y = lg.tensor([1.0]), lg.tensor([1.0])
    table[x], table[y] = "x", "y"
    assert (table[x], table[y], len(table)) == ("x", "y", 2)
    assert any(key is x for key in table)
    del x
    gc.collect()
    assert len(table) == 1
    with pytest.raises(KeyError):
        _ = table[lg.ones(2)]


def test_records_of_a_saved_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    lg.save({"x": lg.ones(2)}, path)
    reader = _C.PyTorchFileReader(path)
    assert "data.pkl" in reader.get_all_records()
    assert reader.has_record("data.pkl")
    assert not reader.has_record("nothing")
    assert len(reader.get_record("data.pkl")) > 10


def test_what_to_is_asked_for() -> None:
    place, dtype, waits, layout = _C._nn._parse_to("cpu", lg.float64)
    assert (str(place), dtype, waits, layout) == ("cpu", lg.float64, False, None)
    assert _C._nn._parse_to(lg.ones(1, dtype=lg.float64))[1] == lg.float64
    with pytest.raises(TypeError, match="floating point or complex"):
        _C._nn._parse_to(lg.int64)


def test_transforms_that_are_running() -> None:
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(_C._are_functorch_transforms_active())
        return x * 2

    f(lg.ones(2))
    lg.vmap(f)(lg.ones(2, 3))
    assert seen == [False, True]


def test_modules_of_devices() -> None:
    assert rebuilding._get_device_module("cpu").is_available()
    assert rebuilding._get_available_device_type() is None
    assert rebuilding._element_size(lg.float64) == 8
    with pytest.raises(RuntimeError, match="does not have a corresponding module"):
        rebuilding._get_device_module("nothing")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.cuda.amp.grad_scaler", "GradScaler"),
        ("torch.distributed.constants", "default_pg_timeout"),
        ("torch.distributed.fsdp.sharded_grad_scaler", "ShardedGradScaler"),
        ("torch.nn.parallel.comm", "scatter"),
        ("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter"),
    ],
)
def test_names_in_other_places(module: str, name: str) -> None:
    assert hasattr(names.find(module), name)


def test_graphs_of_torchscript_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"train\.summary"):
        lg.jit._get_trace_graph(lambda x: x, lg.ones(1))
    called: list[int] = []
    lg.cuda._lazy_call(lambda: called.append(1))
    assert not called


def test_functorch_makes_functions_of_modules() -> None:
    net = lg.nn.Sequential(lg.nn.Linear(3, 4), lg.nn.BatchNorm1d(4), lg.nn.Linear(4, 2)).eval()
    x = lg.randn(5, 3)
    function, params, buffers = functorch.make_functional_with_buffers(net)
    assert lg.allclose(function(params, buffers, x), net(x))
    assert params[0] is not net[0].weight
    assert params[0].requires_grad
    assert len(buffers) == 3
    found = functorch.grad(lambda p: function(p, buffers, x).sum())(params)
    assert [g.shape for g in found] == [p.shape for p in params]
    with pytest.raises(RuntimeError, match="has buffers"):
        functorch.make_functional(net)


def test_functorch_stacks_an_ensemble() -> None:
    nets, x = [lg.nn.Linear(3, 2) for _ in range(4)], lg.randn(5, 3)
    function, params, buffers = functorch.combine_state_for_ensemble(nets)
    outputs = functorch.vmap(function, in_dims=(0, 0, None))(params, buffers, x)
    assert lg.allclose(outputs, lg.stack([net(x) for net in nets]))
    one, own = functorch.make_functional(nets[1], disable_autograd_tracking=True)
    assert lg.allclose(one(own, x), nets[1](x))
    assert not own[0].requires_grad


def test_tensors_are_sorted_by_device_and_dtype() -> None:
    xs = [lg.zeros(2), lg.zeros(2, dtype=lg.float64), lg.zeros(3)]
    groups = foreach_utils._group_tensors_by_device_and_dtype([xs, [1, 2, 3], []], True)
    lists, places = groups[lg.device("cpu"), lg.float32]
    assert places == [0, 2]
    assert lists[0] == [xs[0], xs[2]]
    assert lists[1:] == [[1, 3], []]
    assert groups[lg.device("cpu"), lg.float64][1] == [1]


def test_members_are_swapped() -> None:
    net, other = lg.nn.Linear(2, 3), lg.ones(3, 2)
    before = net.weight
    assert members.swap_tensor(net, "weight", other) is before
    assert net.weight is other
    assert members.swap_tensor(net, "more", other, allow_missing=True) is members._MISSING
    assert net.more is other
    members.swap_tensor(net, "bias", members._MISSING)
    assert not hasattr(net, "bias")
    with pytest.raises(AttributeError, match="no attribute `none`"):
        members.swap_tensor(net, "none", other)
    with pytest.raises(KeyError, match="has no"):
        members.swap_tensor(net, "a.b", other)


def test_batched_tensors_are_told() -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append(batched.is_batchedtensor(x * 2))
        return x

    lg.vmap(look)(lg.ones(2, 3))
    assert seen == [True]
    assert not batched.is_batchedtensor(lg.ones(2))
    with pytest.raises(NotImplementedError, match="vmap"):
        batched._add_batch_dim(lg.ones(2), 0, 1)


def test_isinstance_of_torchscript() -> None:
    said = lg.jit.isinstance
    assert said([1, 2], list[int])
    assert not said([1, "a"], list[int])
    assert said({"a": lg.ones(1)}, dict[str, lg.Tensor])
    assert said((1, "a"), tuple[int, str])
    assert not said((1, 2), tuple[int])
    assert said(None, int | None)
    assert said(1, (str, int))
    with pytest.raises(RuntimeError, match="without a contained type"):
        said([1], list)


OLD = """
import torch
from torch._dynamo.exc import TorchDynamoException, Unsupported
from torch.distributed._tensor.experimental import implicit_replication
from torch.serialization import DEFAULT_PROTOCOL
from torch.utils.data._utils.worker import _generate_state
torch.utils.backcompat.broadcast_warning.enabled = True
leaves, _ = torch.utils._pytree.tree_flatten([1, (2,)])
with implicit_replication():
    print(leaves, issubclass(Unsupported, TorchDynamoException), DEFAULT_PROTOCOL)
print(_generate_state(123456789012345, 3), torch.distributed.rpc.api.UNSET_RPC_TIMEOUT)
"""


def test_names_that_packages_import(tmp_path: Path) -> None:
    write(tmp_path, script=OLD)
    lines = run("script.py", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "[1, 2] True 2"
    assert lines[1] == "[3999280408, 2418223825, 1775828080, 3641838301] -1.0"


def test_a_method_of_a_traced_module_shows_its_graph() -> None:
    x = lg.ones(1, 3)
    net = lg.jit.trace(lg.nn.Linear(3, 2), x)
    forward = net.__getattr__("forward")
    assert lg.equal(forward(x), net(x))
    assert forward.graph == net.graph
    with pytest.raises(AttributeError, match="nothing"):
        net.__getattr__("nothing")


def test_tensors_are_taken_in_groups() -> None:
    xs = [lg.zeros(4), lg.zeros(3, dtype=lg.float64), lg.zeros(4), lg.zeros(9), lg.zeros(1)]
    groups = list(rebuilding._take_tensors(xs, 32))
    assert [[x.numel() for x in group] for group in groups] == [[4, 4], [9], [1], [3]]
