"""The graph as an object: asking, printing, comparing, other forms."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.view import Graph
from tests.view.networks import Net, train, watched


@pytest.fixture(scope="module")
def graph() -> Graph:
    return watched(steps=40).graph()


def test_find(graph: Graph) -> None:
    assert {n.op for n in graph.find("second", phase="forward")} == {"linear"}
    (relu,) = graph.find(op="relu")
    assert relu in graph.find(line=relu.line)
    assert relu in graph.find(line=relu.where)
    assert relu in graph.find(shape=[16, 8])
    assert graph.find(lambda n: n.nbytes > 1 << 30) == []
    assert graph.find(module="Net.sec") == []


def test_path_and_edges(graph: Graph) -> None:
    (first,) = graph.find(op="linear", module="Net.first")
    way = graph.path(first, graph.find(op="cross_entropy")[0])
    assert [n.op for n in way] == ["linear", "relu", "linear", "cross_entropy"]
    assert graph.path(way[-1], first) == []
    assert graph.path(first, graph.find(op="gradient")[0])[-1].op == "gradient"
    assert all(a in graph.nodes and b in graph.nodes for a, b in graph.edges)
    with pytest.raises(KeyError, match="no node"):
        graph.path(10**9, first)
    with pytest.raises(KeyError, match="mentions"):
        graph.path("no such thing", first)


def test_lines_and_modules(graph: Graph) -> None:
    assert "Net.first" in graph.modules
    assert all(":" in line for line in graph.lines if line)
    assert graph.nbytes > 0


def test_why(graph: Graph) -> None:
    texts = [graph.why(kernel) for kernel in graph.kernels]
    assert all("computes" in text or "nothing else" in text for text in texts[:1])
    with pytest.raises(KeyError, match="no kernel"):
        graph.why("no such kernel")


def test_text_and_pictures(graph: Graph) -> None:
    text = str(graph)
    assert text.index("forward") < text.index("backward") < text.index("update")
    assert "linear [16, 8] float32" in text
    dot = graph.to_dot()
    assert dot.count("{") == dot.count("}")
    assert 'label="Net.first"' in dot
    html = graph._repr_html_()
    assert html.startswith("<div>")
    assert "<svg" in html


def test_difference_lists_exactly_the_branch() -> None:
    net = Net()
    with lg.watch() as watching:
        train(net, 2)
        net.deep = True
        train(net, 2)
    changed = watching.graph(0).diff(watching.graph(3))
    assert [n.op for n in changed.added] == ["tanh", "tanh backward"]
    assert changed.removed == []
    assert changed.changed == []
    assert "+ tanh" in str(changed)
    assert not watching.graph(0).diff(watching.graph(0))


def test_difference_of_shapes() -> None:
    with lg.watch() as watching:
        for size in (3, 4):
            lg.ones(size).exp().sum().item()
    changed = watching.graph(0).diff(watching.graph(1))
    assert [(a.shape, b.shape) for a, b in changed.changed] == [((3,), (4,))] * 2


def test_of_a_tensor() -> None:
    x = lg.ones(3)
    y = (x.exp() * 2).sum()
    g = lg.graph(y)
    assert [n.op for n in g] == ["full", "exp", "mul", "sum"]
    assert [n.op for n in g.path(x, y)] == ["full", "exp", "mul", "sum"]
    assert len(lg.graph(lg.tensor([1.0, 2.0]))) == 1
    with pytest.raises(TypeError, match="expected a tensor"):
        lg.graph("text")
    with pytest.raises(RuntimeError, match="nothing is being watched"):
        lg.graph()


def test_of_a_deep_graph() -> None:
    x = lg.ones(2, requires_grad=True)
    y = x
    for _ in range(5000):
        y = y + 1
    assert len(lg.graph(y)) == 5001


def test_networkx() -> None:
    networkx = pytest.importorskip("networkx")
    made = watched(steps=2).graph().to_networkx()
    assert networkx.is_directed_acyclic_graph(made)


def test_in_notebooks() -> None:
    class Evil(nn.Module):
        def extra_repr(self) -> str:
            return "<script>alert(1)</script>"

    assert "<script>" not in Evil()._repr_html_()
    assert "Linear" in Net()._repr_html_()
    x = lg.tensor([1.0, 2.0, float("nan")])
    assert "nan" in x._repr_html_()
    for odd in (lg.zeros(0), lg.tensor(1.0), lg.tensor([1 + 2j]), lg.tensor([True])):
        assert "tensor(" in odd._repr_html_()
