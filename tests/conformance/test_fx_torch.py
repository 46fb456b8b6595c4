"""Traced programs: the same graph, the same code and the same values in PyTorch and livegrad."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.fx
import livegrad.fx.experimental.optimization
import livegrad.fx.passes.shape_prop

torch = pytest.importorskip("torch")

with warnings.catch_warnings():  # of what PyTorch imports itself
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch.fx.experimental.optimization
    import torch.fx.passes.shape_prop

Program = Callable[[Any], Any]


def plain(text: str) -> str:
    """Text about a graph, without the framework's name and the layout of code."""
    text = (
        text.replace("fx._symbolic_trace.wrap", "fx.wrap")
        .replace("_operator_", "operator_")
        .replace("torch", "livegrad")
    )
    return "\n".join([line.rstrip() for line in text.strip().splitlines()])


def comparable(value: Any) -> Any:
    if isinstance(value, torch.Tensor | lg.Tensor):
        return np.asarray(value.detach().tolist())
    if isinstance(value, tuple | list):
        return [comparable(x) for x in value]
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    return plain(value) if isinstance(value, str) else value


def check_same(a: Any, b: Any) -> None:
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            check_same(x, y)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            check_same(a[key], b[key])
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    else:
        assert a == b


def filled(m: Any, model: Any) -> Any:
    """The model with the same weights in both frameworks."""
    state = {}
    for i, (name, value) in enumerate(sorted(model.state_dict().items())):
        if value.ndim:
            numbers = np.random.default_rng(i).random(tuple(value.shape), dtype=np.float32)
            state[name] = m.tensor(numbers)
        else:
            state[name] = value
    model.load_state_dict(state)
    return model


def arange(m: Any, *shape: int) -> Any:
    return (m.arange(int(np.prod(shape))).reshape(*shape) / 7).float() - 1


def network(m: Any) -> Any:
    nn = m.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.scale = nn.Parameter(m.ones(4, 1, 1) * 2)
            self.register_buffer("shift", m.ones(4, 1, 1))

        def forward(self, x: m.Tensor, k: int = 2) -> m.Tensor:
            y = m.relu(self.bn(self.conv(x)) * self.scale)
            return m.max_pool2d(y, 2) + self.shift * k

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()
            self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 5))

        def forward(self, x):
            return self.head(self.block(x, k=3)).softmax(-1)

    return filled(m, Net()).eval()


def traced_network(m: Any) -> Any:
    model = network(m)
    gm = m.fx.symbolic_trace(model)
    x = arange(m, 2, 3, 4, 4)
    m.fx.passes.shape_prop.ShapeProp(gm).propagate(x)
    shapes = [tuple(n.meta["tensor_meta"].shape) for n in gm.graph.nodes]
    stacks = [list(n.meta.get("nn_module_stack", {})) for n in gm.graph.nodes]
    names = list(gm.state_dict())
    return [gm.code, str(gm.graph), gm(x), model(x), shapes, stacks, names]


def operators(m: Any) -> Any:
    def f(x, y, *args, z=3, **more):
        a, b = m.chunk(x, 2)
        c = x + y - 1 * x / 2 // 3 % 4**2 @ y
        c = -(+(~(c & 1 | 2 ^ y) << 1 >> 2))
        d = (x < 1, x <= 1, x > 1, x >= 1, x == 1, x != y, abs(x), 1 - x, 2**x)
        e = x.shape[0] + x.size(1) + len(d)
        g = x[0, ..., None, :2][a:b].view(e, -1).to(m.float32).to("cpu")
        g += args[0] * more["k"]
        return {"c": c, "d": d, "e": [g, z, m.cat([x, y], dim=1), x.T, m.full((e, 2), z)]}

    gm = m.fx.symbolic_trace(f)
    return [gm.code, str(gm.graph)]


def concrete_arguments(m: Any) -> Any:
    def f(x, flag, options=None):
        y = x + 1 if flag else x
        return y if options is None else y * 2

    gm = m.fx.symbolic_trace(f, concrete_args={"flag": True, "options": None})
    wrong = []
    for args in ((arange(m, 2), False), (arange(m, 2), True, 3)):
        with pytest.raises(AssertionError) as error:
            gm(*args)
        wrong.append(str(error.value))
    return [gm.code, gm(arange(m, 2), True), wrong]


def nested_arguments(m: Any) -> Any:
    def f(x, d):
        return {"all": (x, d["c"][0]), "sum": d["a"] + x * d["b"]}

    values = {"a": m.fx.PH, "b": 3, "c": [m.fx.PH]}
    gm = m.fx.symbolic_trace(f, concrete_args={"d": values})
    got = gm(arange(m, 2), {"a": 1, "b": 3, "c": [arange(m, 3)]})
    return [str(gm.graph), [type(got).__name__, type(got["all"]).__name__], got]


def replaced_calls(m: Any) -> Any:
    """The tutorial's pass: other functions in the place of some."""

    def f(x):
        return m.add(m.add(x, x), m.relu(x)).neg()

    gm = m.fx.symbolic_trace(f)
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target == m.add:
            node.target = m.mul
        if node.target == m.relu:
            with gm.graph.inserting_after(node):
                new = gm.graph.call_function(m.sigmoid, node.args, node.kwargs)
                node.replace_all_uses_with(new)
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    return [gm.code, gm(arange(m, 3))]


def inserted(m: Any) -> Any:
    g = m.fx.Graph()
    x = g.placeholder("x")
    y = g.create_node("call_function", m.relu, (x,))
    with g.inserting_before(y):
        n1 = g.call_method("neg", (x,))
        n2 = g.call_function(m.add, (n1, 1), {"alpha": 2})
    with g.inserting_after(x):
        g.call_method("abs", (x,))
        g.call_method("exp", (x,))
    with g.inserting_before():
        g.get_attr("weight")
    y.replace_input_with(x, n2)
    out = g.output((y, n2))
    n2.prepend(n1)
    order = [n.name for n in g.nodes]
    back = [n.name for n in reversed(g.nodes)]
    changed = g.eliminate_dead_code()
    g.lint()
    found = [n.name for n in g.find_nodes(op="call_method")]
    found += [n.name for n in g.find_nodes(op="call_function", target=m.relu)]
    uses = [sorted(u.name for u in n.users) for n in g.nodes]
    inputs = [[i.name for i in n.all_input_nodes] for n in g.nodes]
    n2.update_arg(1, 5)
    n2.update_kwarg("alpha", 3)
    n2.insert_arg(0, x)
    more = [n2.args[0].name, n2.args[2], dict(n2.kwargs), out.prev.name, x.next.name]
    return [order, back, changed, found, uses, inputs, more, str(g), len(g.nodes)]


def copied(m: Any) -> Any:
    import copy

    gm = m.fx.symbolic_trace(network(m))
    twin = copy.deepcopy(gm)
    twin.graph.find_nodes(op="call_function", target=m.relu)[0].target = m.tanh
    twin.recompile()
    g = m.fx.Graph()
    values: dict[Any, Any] = {}
    result = g.graph_copy(gm.graph, values)
    g.output(g.call_method("neg", (result,)))
    third = m.fx.GraphModule(gm, g, "Third")
    x = arange(m, 1, 3, 4, 4)
    return [gm.code, twin.code, third.code, gm(x), twin(x), third(x), third._get_name()]


def interpreted(m: Any) -> Any:
    class Counting(m.fx.Interpreter):
        def __init__(self, gm: Any) -> None:
            super().__init__(gm)
            self.seen: list[Any] = []

        def run_node(self, n: Any) -> Any:
            self.seen.append((n.name, len(self.env)))
            return super().run_node(n)

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target == m.relu:
                return super().call_function(m.sigmoid, args, kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target == "softmax":
                return super().call_method("log_softmax", args, kwargs)
            return super().call_method(target, args, kwargs)

    run = Counting(m.fx.symbolic_trace(network(m)))
    return [run.run(arange(m, 2, 3, 4, 4)), run.seen]


def transformed(m: Any) -> Any:
    class Swap(m.fx.Transformer):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target == m.relu:
                return m.tanh(*args) + 1
            return super().call_function(target, args, kwargs)

        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target == "head.1":
                return args[0]
            return super().call_module(target, args, kwargs)

    gm = Swap(m.fx.symbolic_trace(network(m))).transform()
    return [gm.code, gm(arange(m, 2, 3, 4, 4))]


def custom_tracer(m: Any) -> Any:
    class Whole(m.fx.Tracer):
        def is_leaf_module(self, module: Any, name: str) -> bool:
            return name == "block" or super().is_leaf_module(module, name)

    class Deep(m.fx.Tracer):
        def create_proxy(self, *args: Any, **kwargs: Any) -> Any:
            made = super().create_proxy(*args, **kwargs)
            made.node.meta["noted"] = True
            return made

    model = network(m)
    whole = m.fx.GraphModule(model, Whole().trace(model))
    deep = Deep().trace(model)
    noted = [n.op for n in deep.nodes if not n.meta.get("noted")]
    return [whole.code, str(whole.graph), whole(arange(m, 2, 3, 4, 4)), noted]


def rewritten(m: Any) -> Any:
    def f(x, w1, w2):
        m1 = m.cat([w1, w2]).sum()
        m2 = m.cat([w1, w2]).sum()
        return x + m.max(m1) + m.max(m2)

    def pattern(w1, w2):
        return m.cat([w1, w2]).sum()

    def replacement(w1, w2):
        return m.stack([w1, w2])

    gm = m.fx.symbolic_trace(f)
    found = m.fx.replace_pattern(gm, pattern, replacement)
    anchors = [match.anchor.name for match in found]
    chain = m.fx.symbolic_trace(lambda x: m.relu(m.relu(m.relu(x))) + m.neg(m.relu(x)))
    m.fx.replace_pattern(chain, lambda x: m.relu(x), lambda x: m.tanh(x) * 2)
    kept = m.fx.symbolic_trace(lambda x: m.neg(m.relu(x)) + m.relu(x).exp())
    both = m.fx.replace_pattern(kept, lambda x: m.neg(m.relu(x)), lambda x: m.sigmoid(x))
    one = [chain(arange(m, 4)), kept(arange(m, 4)), len(both)]
    return [gm.code, anchors, *one, gm(*[arange(m, 2)] * 3)]


def filtered(m: Any) -> Any:
    rewriter = m.fx.subgraph_rewriter
    gm = m.fx.symbolic_trace(lambda x: m.add(x, 1) * m.add(x, 2) * m.add(x, 3))

    def small(match: Any, graph: Any, pattern: Any) -> bool:
        return any(n.args[1] < 3 for n in match.nodes_map.values() if n.target is m.add)

    found = rewriter.replace_pattern_with_filters(
        gm, lambda x: m.add(x, 0), lambda x: m.exp(x), [small], ignore_literals=True
    )
    new = [[n.name for n in one.replacements] for one in found]
    return [gm.code, new, gm(arange(m, 3))]


def fused(m: Any) -> Any:
    optimization = m.fx.experimental.optimization
    model = network(m)
    gm = optimization.fuse(model)
    x = arange(m, 2, 3, 4, 4)
    dropless = optimization.remove_dropout(model)
    return [gm.code, gm(x), model(x), dropless.code, dropless(x)]


def submodules(m: Any) -> Any:
    gm = m.fx.symbolic_trace(network(m))
    added = gm.add_submodule("more.deep.layer", m.nn.ReLU())
    paths = [n for n, _ in gm.named_modules()]
    gone = [gm.delete_submodule("more.deep.layer"), gm.delete_submodule("more.none")]
    for node in list(gm.graph.nodes):
        if node.target == "head.1":
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    gm.delete_all_unused_submodules()
    gm.recompile()
    return [added, paths, gone, [n for n, _ in gm.named_modules()], gm.code]


def proxies(m: Any) -> Any:
    """Nodes added by computing with proxies of others."""
    gm = m.fx.symbolic_trace(lambda x: m.relu(x))
    tracer = m.fx.proxy.GraphAppendingTracer(gm.graph)
    node = next(n for n in gm.graph.nodes if n.target == m.relu)
    with gm.graph.inserting_before(node):
        proxy = m.fx.Proxy(node.args[0], tracer)
        result = (proxy > 0) * proxy.exp()
        node.replace_all_uses_with(result.node)
        gm.graph.erase_node(node)
    gm.recompile()
    return [gm.code, gm(arange(m, 4)), repr(proxy)]


def generated(m: Any) -> Any:
    gm = m.fx.symbolic_trace(lambda x: m.relu(x) + 1)

    def insert(body: list[str]) -> list[str]:
        return ["".join(body).replace("add = ", "relu = relu * 10\nadd = ")]

    with gm.graph.on_generate_code(lambda before: insert):
        gm.recompile()
        first = gm(arange(m, 3))
    gm.recompile()
    return [first, gm(arange(m, 3))]


def parameter_shapes(m: Any) -> Any:
    class Net(m.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = m.nn.Parameter(m.ones(3, 2))

        def forward(self, x):
            return x * 2 if self.w.shape[0] == 3 else x

    net = Net()
    graph = m.fx.Tracer(param_shapes_constant=True).trace(net)
    with pytest.raises(m.fx.proxy.TraceError):
        m.fx.Tracer().trace(net)
    return [str(graph)]


def factories(m: Any) -> Any:
    def f(x):
        n, d = x.size(0), x.shape[1]
        mask = m.tril(m.ones((n, n))).bool()
        rows = m.arange(n)[:, None] * m.full((d,), 2)
        return m.zeros((n, d)) + rows + mask.sum(), m.matmul(x, x.T), m.ones(2) + x

    gm = m.fx.symbolic_trace(f)
    return [gm.code, str(gm.graph), gm(arange(m, 3, 2))]


ERRORS = {
    "branch": lambda x: x if x.sum() > 0 else -x,
    "loop": lambda x: [row for row in x],  # noqa: C416
    "star": lambda x: max(*x),
    "in": lambda x: 3 in x,
    "range": lambda x: list(range(x)),
    "int": lambda x: int(x),
    "len": lambda x: len(x),
    "object": lambda x: x.method(object()),
    "key": lambda x: {x: 1},
    "double star": lambda x: dict(**x),
}


def errors(m: Any) -> Any:
    found = []
    for name, program in ERRORS.items():
        with pytest.raises(Exception) as error:
            m.fx.symbolic_trace(program)
        found.append((name, [c.__name__ for c in type(error.value).__mro__]))
    g = m.fx.Graph()
    x = g.placeholder("x")
    y = g.call_function(m.cat, ([x, x],), {})
    actions = [
        lambda: g.erase_node(x),
        lambda: g.create_node("nothing", "x"),
        lambda: g.call_function("name"),
        lambda: y.args[0].append(3),
        lambda: y.kwargs.update(a=3),
        lambda: m.fx.Graph().erase_node(y),
        lambda: m.fx.GraphModule({}, call_of("a.b")),
        lambda: m.fx.GraphModule(m.nn.Module(), call_of("a.b")),
        lambda: m.fx.Interpreter(m.fx.symbolic_trace(lambda x: x)).run(),
        lambda: m.fx.wrap("print"),
        lambda: m.fx.wrap(3),
        lambda: y.prepend(m.fx.Graph().placeholder("z")),
    ]

    def call_of(path: str) -> Any:
        graph = m.fx.Graph()
        graph.output(graph.call_module(path))
        return graph

    for action in actions:
        with pytest.raises(Exception) as error:
            action()
        found.append(type(error.value).__name__)
    h = m.fx.Graph()
    h.call_function(operator.neg, (x,))
    with pytest.raises(RuntimeError, match="does not belong"):
        h.lint()
    y.prepend(x)
    x.prepend(y)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        g.lint()
    return found


PROGRAMS = (
    traced_network, operators, concrete_arguments, nested_arguments, replaced_calls, inserted,
    copied, interpreted, transformed, custom_tracer, rewritten, filtered, fused, submodules,
    proxies, generated, parameter_shapes, factories, errors,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_as_in_pytorch(program: Program) -> None:
    check_same(comparable(program(torch)), comparable(program(lg)))
