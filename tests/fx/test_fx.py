"""Programs as graphs: what is traced, how graphs are changed, what their code does."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import threading
import traceback
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import fx, nn
from livegrad.fx.experimental import optimization
from livegrad.fx.passes.shape_prop import ShapeProp
from livegrad.fx.proxy import TraceError

Pair = namedtuple("Pair", "a b")


@fx.wrap
def scaled(x: Any, by: float) -> Any:
    return x * by if by > 0 else x  # a branch that could not be traced


fx.wrap("len")


def values(x: Any) -> Any:
    return np.asarray(x.detach().tolist())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)
        self.scale = nn.Parameter(lg.full((3,), 2.0))
        self.register_buffer("shift", lg.ones(3), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.second(F.relu(self.first(x) * self.scale + self.shift))


def test_a_network_trains_through_its_graph() -> None:
    net = Net()
    gm = fx.symbolic_trace(net)
    assert [n.op for n in gm.graph.nodes] == [
        "placeholder", "call_module", "get_attr", "call_function", "get_attr", "call_function",
        "call_function", "call_module", "output",
    ]  # fmt: skip
    assert gm.scale is net.scale
    assert list(gm.state_dict()) == list(fx.symbolic_trace(net).state_dict())
    assert "shift" not in gm.state_dict()
    x = lg.arange(8.0).reshape(2, 4)
    np.testing.assert_array_equal(values(gm(x)), values(net(x)))
    gm(x).sum().backward()
    assert net.scale.grad is not None
    assert all(p.grad is not None for p in net.parameters())


def test_tracing_leaves_modules_as_they_were() -> None:
    net = Net()
    fx.symbolic_trace(net)
    assert "__getattribute__" not in vars(nn.Module)
    assert isinstance(net.scale, nn.Parameter)
    with pytest.raises(TraceError):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert "__getattribute__" not in vars(nn.Module)
    assert nn.Linear(2, 2)(lg.ones(2)).shape == (2,)
    assert math.sqrt(4) == 2
    assert len([1]) == 1


def test_other_threads_are_not_traced() -> None:
    net, seen = nn.Linear(2, 2), []

    class Waiting(nn.Module):
        def forward(self, x: Any) -> Any:
            thread = threading.Thread(target=lambda: seen.append(type(net(lg.ones(2)))))
            thread.start()
            thread.join()
            return x

    assert len(fx.symbolic_trace(Waiting()).graph.nodes) == 2
    assert seen == [lg.Tensor]


def test_a_module_of_two_names_is_called_by_the_first() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(2, 2)
            self.two = self.one

        def forward(self, x: Any) -> Any:
            return self.two(self.one(x))

    gm = fx.symbolic_trace(Twice())
    assert [n.target for n in gm.graph.find_nodes(op="call_module")] == ["one", "one"]


def test_wrapped_functions_are_one_step() -> None:
    gm = fx.symbolic_trace(lambda x: scaled(x, 2.0) + scaled(lg.ones(2), 3.0) + len(x))
    assert gm.graph.find_nodes(op="call_function", target=scaled)
    np.testing.assert_array_equal(values(gm(lg.ones(2))), [7, 7])
    again = fx.symbolic_trace(gm)  # its code says that they are wrapped
    assert again.graph.find_nodes(op="call_function", target=scaled)
    assert again.graph.find_nodes(op="call_function", target=len)


def test_functions_of_math_are_recorded() -> None:
    gm = fx.symbolic_trace(lambda x: x * math.sqrt(x.shape[0]) * math.sqrt(4))
    assert len(gm.graph.find_nodes(op="call_function", target=math.sqrt)) == 1
    np.testing.assert_array_equal(values(gm(lg.ones(9))), [6] * 9)


def test_functions_that_meet_no_proxy_are_run() -> None:
    gm = fx.symbolic_trace(lambda x: x + lg.exp(lg.zeros(2)).sum())
    assert [n.op for n in gm.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]
    assert values(gm(lg.ones(()))) == 3
    assert gm._tensor_constant0.item() == 2


def test_own_classes_as_arguments_and_results() -> None:
    gm = fx.symbolic_trace(lambda x: Pair(x + 1, x.abs()))
    result = gm(lg.tensor(-1.0))
    assert isinstance(result, Pair)
    assert result.b.item() == 1


# As text, because the test runner writes assertions anew.
ASSERTING = """
def f(x):
    a, b = x
    assert a > 0
    lg._assert(b.shape[0] == 3, "three")
    return a + b
"""


def test_unpacking_and_assertions() -> None:
    class Asserting(fx.Tracer):
        trace_asserts = True

    names: dict[str, Any] = {"lg": lg}
    exec(ASSERTING, names)
    graph = Asserting().trace(names["f"])
    graph.eliminate_dead_code()
    assert len(graph.find_nodes(op="call_function", target=lg._assert)) == 2
    gm = fx.GraphModule(nn.Module(), graph)
    assert gm((lg.tensor(1.0), lg.ones(3))).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="three"):
        gm((lg.tensor(1.0), lg.ones(2)))


def test_branches_may_be_decided_by_a_tracer() -> None:
    class Optimistic(fx.Tracer):
        def to_bool(self, obj: Any) -> bool:
            return True

    graph = Optimistic().trace(lambda x: x + 1 if x.sum() > 0 else x - 1)
    assert "add" in [n.name for n in graph.nodes]


def test_errors_show_the_line_of_the_generated_code() -> None:
    gm = fx.symbolic_trace(lambda x, y: lg.matmul(x, y) + 1)
    with pytest.raises(RuntimeError) as error:
        gm(lg.ones(2, 3), lg.ones(2, 3))
    shown = "".join(traceback.format_exception(error.value))
    assert "matmul = livegrad.matmul(x, y)" in shown
    with pytest.raises(RuntimeError, match="While executing %matmul"):
        fx.Interpreter(gm).run(lg.ones(2, 3), lg.ones(2, 3))


def test_graphs_change_while_one_walks_over_them() -> None:
    gm = fx.symbolic_trace(lambda x: x.relu().relu().neg())
    for node in gm.graph.nodes:
        if node.target == "relu":
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    assert [n.name for n in gm.graph.nodes] == ["x", "neg", "output"]
    assert len(gm.graph.nodes) == 3
    gm.recompile()
    assert gm(lg.tensor(-2.0)).item() == 2


def test_replacing_only_some_uses() -> None:
    g = fx.Graph()
    x = g.placeholder("x")
    a, b = g.call_method("abs", (x,)), g.call_method("exp", (x,))
    new = g.call_method("neg", (x,))
    changed = x.replace_all_uses_with(new, lambda user: user is b)
    assert changed == [b]
    assert a.args == (x,)
    assert list(x.users) == [a, new]


def test_values_are_dropped_after_their_last_use() -> None:
    gm = fx.symbolic_trace(lambda x: (x + 1) * 2)
    assert "add = x + 1;  x = None" in gm.code
    assert "mul = add * 2;  add = None" in gm.code


def test_copies_are_independent() -> None:
    gm = fx.symbolic_trace(Net())
    twin = copy.deepcopy(gm)
    assert twin.scale is not gm.scale
    assert type(twin) is not type(gm)
    next(n for n in twin.graph.nodes if n.target is F.relu).target = F.gelu
    twin.recompile()
    assert "relu" in gm.code
    assert "gelu" in twin.code
    x = lg.arange(8.0).reshape(2, 4)
    assert not np.array_equal(values(gm(x)), values(twin(x)))
    near = copy.copy(gm)
    assert near.scale is gm.scale
    assert near.graph is not gm.graph


def test_modules_are_pickled_with_their_graph() -> None:
    gm = fx.symbolic_trace(Net())
    gm.graph.find_nodes(op="call_module")[0].meta["note"] = 3
    again = pickle.loads(pickle.dumps(gm))
    assert isinstance(again, fx.GraphModule)
    assert again.code == gm.code
    assert again.graph.find_nodes(op="call_module")[0].meta["note"] == 3
    x = lg.ones(2, 4)
    np.testing.assert_array_equal(values(again(x)), values(gm(x)))


def test_state_goes_from_a_module_to_its_graph() -> None:
    net, gm = Net(), fx.symbolic_trace(Net())
    gm.load_state_dict(net.state_dict())
    x = lg.ones(2, 4)
    np.testing.assert_array_equal(values(gm(x)), values(net(x)))


def test_a_folder_with_the_code(tmp_path: Any, monkeypatch: Any) -> None:
    gm = fx.symbolic_trace(Net())
    gm.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("written")
    x = lg.ones(2, 4)
    np.testing.assert_array_equal(values(module.Written()(x)), values(gm(x)))
    sys.modules.pop("written")


def test_profiling_interpreter() -> None:
    """As in the tutorial: one measurement for each node."""

    class Profiling(fx.Interpreter):
        def __init__(self, module: Any) -> None:
            super().__init__(fx.symbolic_trace(module))
            self.seen: dict[Any, list[Any]] = {}

        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            self.seen.setdefault(n, []).append(result.shape)
            return result

    run = Profiling(Net())
    run.run(lg.ones(2, 4))
    run.run(lg.ones(5, 4))
    assert all(len(shapes) == 2 for shapes in run.seen.values())
    assert run.run(lg.ones(2, 4)).shape == (2, 2)
    assert not [n for n in run.env if n.op != "output"]  # values were dropped after their use


def test_interpreter_starts_from_known_values() -> None:
    gm = fx.symbolic_trace(lambda x, y=3: x.exp() * y)
    exp = gm.graph.find_nodes(op="call_method")[0]
    run = fx.Interpreter(gm)
    assert run.run(lg.zeros(()), initial_env={exp: lg.tensor(5.0)}).item() == 15
    args = [lg.zeros(()), 4]
    assert run.boxed_run(args).item() == 4
    assert args == []


def conv_net() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.9),
        nn.Linear(12, 4), nn.BatchNorm1d(4),
    )  # fmt: skip
    net(lg.randn(6, 2, 4, 4))  # running statistics that are not those of the start
    return net.eval()


def test_batch_norms_are_folded() -> None:
    net = conv_net()
    folded = optimization.fuse(net)
    kinds = [type(m).__name__ for m in folded.modules()]
    assert not [k for k in kinds if k.startswith("BatchNorm")]
    x = lg.randn(2, 2, 4, 4)
    np.testing.assert_allclose(values(folded(x)), values(net(x)), rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError):
        optimization.fuse(conv_net().train())


def test_dropout_is_removed() -> None:
    net = optimization.remove_dropout(conv_net().train())
    assert not [n for n in net.graph.nodes if n.target == "4"]


def test_a_part_of_a_graph_is_a_module() -> None:
    gm = fx.symbolic_trace(Net())
    nodes = {n.name: n for n in gm.graph.nodes}
    part = optimization.extract_subgraph(
        gm, [nodes["relu"], nodes["second"]], [nodes["add"]], [nodes["second"]]
    )
    assert part(lg.ones(1, 3)).shape == (1, 2)


def test_shapes_are_noted() -> None:
    gm = fx.symbolic_trace(lambda x: x.unsqueeze(0).max(dim=-1))
    ShapeProp(gm).propagate(lg.ones(3, 4, dtype=lg.float64))
    metas = [n.meta["tensor_meta"] for n in gm.graph.nodes]
    assert metas[1].shape == (1, 3, 4)
    assert metas[1].dtype is lg.float64
    assert metas[2][0].shape == (1, 3)


def test_a_pattern_with_a_module_brings_the_module() -> None:
    class Old(nn.Module):
        def forward(self, x: Any) -> Any:
            return lg.sigmoid(x) * x

    class New(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.SiLU()

        def forward(self, x: Any) -> Any:
            return self.act(x)

    gm = fx.symbolic_trace(lambda x: (lg.sigmoid(x) * x).sum())
    assert len(fx.replace_pattern(gm, Old(), fx.symbolic_trace(New()))) == 1
    assert isinstance(gm.act, nn.SiLU)
    x = lg.randn(5)
    np.testing.assert_allclose(values(gm(x)), values((lg.sigmoid(x) * x).sum()), rtol=1e-5)


def test_patterns_with_several_results() -> None:
    gm = fx.symbolic_trace(lambda x, y: (x + y).exp() * (x - y))
    found = fx.replace_pattern(gm, lambda a, b: (a + b, a - b), lambda a, b: (a * b, a / b))
    assert len(found) == 1
    assert gm(lg.tensor(2.0), lg.tensor(4.0)).item() == pytest.approx(math.exp(8) / 2)


def test_what_is_used_elsewhere_is_not_replaced() -> None:
    gm = fx.symbolic_trace(lambda x: lg.neg(lg.relu(x)) + lg.relu(x))
    assert len(fx.replace_pattern(gm, lambda x: lg.neg(lg.relu(x)), lambda x: -x)) == 1

    def f(x: Any) -> Any:
        y = lg.relu(x)
        return lg.neg(y) + y

    kept = fx.symbolic_trace(f)
    assert fx.replace_pattern(kept, lambda x: lg.neg(lg.relu(x)), lambda x: -x) == []


def test_tables_of_nodes(capsys: Any) -> None:
    fx.symbolic_trace(lambda x: lg.relu(x)).graph.print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].split()[:3] == ["placeholder", "x", "x"]
    assert len(lines) == 5


def test_arguments_with_their_defaults() -> None:
    gm = fx.symbolic_trace(lambda x: F.dropout(F.relu(x), training=False))
    relu, dropout = gm.graph.find_nodes(op="call_function", target=F.relu), gm.graph
    assert relu[0].normalized_arguments(gm).args[1:] == (False,)
    node = dropout.find_nodes(op="call_function", target=F.dropout)[0]
    named = node.normalized_arguments(gm, normalize_to_only_use_kwargs=True).kwargs
    assert named["p"] == 0.5
    assert named["training"] is False


def test_stack_traces_on_request() -> None:
    class Noting(fx.Tracer):
        record_stack_traces = True

    graph = Noting().trace(lambda x: lg.relu(x))
    assert "lg.relu(x)" in graph.find_nodes(op="call_function", target=lg.relu)[0].stack_trace


def test_those_who_want_to_know_of_changes() -> None:
    gm = fx.symbolic_trace(lambda x: lg.relu(x))
    made: list[str] = []
    gone: list[str] = []
    gm._register_create_node_hook(lambda n: made.append(n.name))
    gm._register_erase_node_hook(lambda n: gone.append(n.name))
    relu = gm.graph.find_nodes(op="call_function", target=lg.relu)[0]
    with gm.graph.inserting_before(relu):
        relu.replace_all_uses_with(gm.graph.call_function(lg.tanh, relu.args))
    gm.graph.erase_node(relu)
    assert (made, gone) == (["tanh"], ["relu"])


def test_a_missing_target_is_said() -> None:
    gm = fx.symbolic_trace(Net())
    with pytest.warns(UserWarning, match="add_submodule"):
        gm.graph.call_module("nothing")
    with pytest.raises(RuntimeError, match="nonexistent attribute nothing"):
        gm.graph.lint()


def test_operands_of_einsum_in_a_list_are_arguments_of_their_own() -> None:
    traced = fx.symbolic_trace(lambda a, b: lg.einsum("ij,jk->ik", (a, b)))
    (node,) = [n for n in traced.graph.nodes if n.op == "call_function"]
    assert [str(x) for x in node.args] == ["ij,jk->ik", "a", "b"]
    assert traced(lg.ones(2, 3), lg.ones(3, 2)).tolist() == [[3.0, 3.0], [3.0, 3.0]]
