"""`grad_fn`: names, edges, saved values, hooks, Functions, programs that walk over it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.graph.op import REGISTRY
from livegrad.graph.record import elementwise


def leaf(*shape: int) -> Any:
    return lg.ones(*shape).mul_(2).requires_grad_()


def names(fn: Any) -> list[str]:
    return ["-" if f is None else type(f).__name__ for f, _ in fn.next_functions]


# ------------------------------------------------------------------------------------- the graph


def test_leaves_have_none_and_results_have_one():
    x = leaf(2)
    assert x.grad_fn is None
    assert lg.ones(2).grad_fn is None
    assert (lg.ones(2) + 1).grad_fn is None
    y = x + 1
    assert y.grad_fn.name() == "AddBackward0"
    assert type(y.grad_fn).__name__ == "AddBackward0"
    assert repr(y.grad_fn).startswith("<AddBackward0 object at 0x")
    assert y.output_nr == 0
    with lg.no_grad():
        assert (x + 1).grad_fn is None


def test_edges():
    x, w = leaf(2), leaf(2)
    assert names((x * w).grad_fn) == ["AccumulateGrad", "AccumulateGrad"]
    assert names((x * 2).grad_fn) == ["AccumulateGrad", "-"]
    assert names((lg.ones(2) * x).grad_fn) == ["-", "AccumulateGrad"]
    assert (x * lg.ones(2)).grad_fn.next_functions[1] == (None, 0)
    accumulate = (x * w).grad_fn.next_functions[0][0]
    assert accumulate.variable is x
    assert accumulate.next_functions == ()
    assert accumulate.name() == "torch::autograd::AccumulateGrad"


def test_the_product_of_a_number_along_its_only_dim():
    made = leaf().prod(0, keepdim=True).grad_fn
    assert (made.name(), made._saved_dim) == ("ProdBackward1", 0)


def test_objects_are_the_same_as_long_as_somebody_looks():
    x = leaf(2)
    y = x.exp()
    assert y.grad_fn is y.grad_fn
    a, b = y + 1, y * 2
    assert a.grad_fn.next_functions[0][0] is b.grad_fn.next_functions[0][0] is y.grad_fn
    first = (x + 1).grad_fn.next_functions[0][0]
    assert first is (x * 3).grad_fn.next_functions[0][0]
    with lg.no_grad():
        x.add_(1)
    assert (x - 1).grad_fn.next_functions[0][0] is first
    assert len({y.grad_fn, y.grad_fn, a.grad_fn}) == 2


def test_looking_keeps_nothing():
    x = leaf(2)
    y = x.exp()
    node = weakref.ref(y._node)
    assert y.grad_fn.next_functions[0][0].variable is x
    y.grad_fn.metadata["seen"] = True
    del y
    lg.ones(1).item()  # what was pending is forgotten
    gc.collect()
    assert node() is None


def test_a_layer_is_what_it_is_in_pytorch():
    layer = nn.Linear(3, 2)
    fn = layer(lg.ones(4, 3)).grad_fn
    assert fn.name() == "AddmmBackward0"
    (bias, _), (none, _), (turned, _) = fn.next_functions
    assert bias.variable is layer.bias
    assert none is None
    assert turned.name() == "TBackward0"
    assert turned.next_functions[0][0].variable is layer.weight
    assert fn.next_functions[2][0] is turned
    loss = F.cross_entropy(layer(lg.ones(4, 3)), lg.zeros(4, dtype=lg.int64))
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert names(loss.grad_fn) == ["LogSoftmaxBackward0"]


def walk(fn: Any) -> tuple[list[str], list[Any]]:
    """As torchviz and its relatives do: all functions, depth first, and variables at the ends."""
    seen: set[Any] = set()
    found: list[str] = []
    variables: list[Any] = []

    def visit(f: Any) -> None:
        if f is None or f in seen:
            return
        seen.add(f)
        found.append(type(f).__name__)
        if hasattr(f, "variable"):
            variables.append(f.variable)
        for name in dir(f):
            if name.startswith("_saved_"):
                getattr(f, name)
        for g, _ in f.next_functions:
            visit(g)
        if hasattr(f, "saved_tensors"):
            list(f.saved_tensors)

    visit(fn)
    return found, variables


def test_a_walker_finds_all_parameters():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(18, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3),
    )  # fmt: skip
    loss = F.cross_entropy(net(lg.ones(2, 1, 8, 8)), lg.tensor([0, 1]))
    found, variables = walk(loss.grad_fn)
    assert {id(p) for p in net.parameters()} == {id(v) for v in variables}
    assert "ConvolutionBackward0" in found
    assert "NativeBatchNormBackward0" in found
    assert "MaxPool2DWithIndicesBackward0" in found
    assert "ReluBackward0" in found
    assert found[0] == "NllLossBackward0"
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_walker_goes_over_a_transformer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    found, variables = walk(layer(lg.ones(3, 1, 8)).sum().grad_fn)
    assert {id(p) for p in layer.parameters()} == {id(v) for v in variables}
    assert "SumBackward0" in found


# ---------------------------------------------------------------------------------- saved values


def test_saved_values():
    x, w = leaf(2, 2), leaf(2, 2)
    assert (x * w).grad_fn._saved_self is x
    assert (x * w).grad_fn._saved_other is w
    assert (x * 3).grad_fn._saved_self is None
    assert (x * 3).grad_fn._saved_other.item() == 3
    assert (x**3).grad_fn._saved_exponent == 3
    assert (x**2).grad_fn._saved_self is x
    y = x.exp()
    assert y.grad_fn._saved_result.tolist() == y.tolist()
    assert x.log().grad_fn._saved_self is x
    assert (x @ w).grad_fn._saved_mat2 is w
    assert (x @ lg.ones(2, 2)).grad_fn._saved_self is None
    assert x.softmax(1).grad_fn._saved_dim == 1
    assert x.sum().grad_fn._saved_self_sym_sizes == (2, 2)
    assert "_saved_result" in dir(y.grad_fn)
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute"):
        y.grad_fn._saved_self


def test_saved_values_are_given_up_with_the_graph():
    x = leaf(2)
    y = x * x
    y.sum().backward(retain_graph=True)
    assert y.grad_fn._saved_self is x
    z = x * x
    z.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already"):
        z.grad_fn._saved_self


# ---------------------------------------------------------------------------------- hooks, notes


def test_metadata_stays_with_the_graph():
    y = leaf(2).exp()
    y.grad_fn.metadata["note"] = 1
    gc.collect()
    assert y.grad_fn.metadata == {"note": 1}
    y.sum().backward()


def test_hooks_before_and_after():
    x, w = leaf(2), leaf(2)
    y = x * w
    calls: list[Any] = []

    def after(inputs: Any, outputs: Any) -> None:
        calls.append(("after", [g.tolist() for g in inputs], [g.tolist() for g in outputs]))

    y.grad_fn.register_prehook(lambda outputs: calls.append(("before", outputs[0].tolist())))
    y.grad_fn.register_hook(after)
    y.sum().backward()
    assert calls == [("before", [1, 1]), ("after", [[2, 2], [2, 2]], [[1, 1]])]


def test_hooks_replace_gradients():
    x = leaf(2)
    y = x * 3
    handle = y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [30, 30]
    handle.remove()
    x.grad = None
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, None))
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_hooks_of_an_operation_differentiated_by_its_expansion():
    x = leaf(2, 3)
    y = F.instance_norm(x.reshape(1, 2, 3))
    seen: list[int] = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(inputs)))
    y.sum().backward()
    assert len(seen) == 1


def test_hooks_where_gradients_are_collected():
    x = leaf(2)
    accumulate = x.expand_as(x).grad_fn.next_functions[0][0]
    seen: list[Any] = []
    accumulate.register_prehook(lambda outputs: (outputs[0] * 2,))
    accumulate.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].tolist())))
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]
    assert seen == [((), [6, 6])]


# ------------------------------------------------------------------------------------- Functions


class Scaled(lg.autograd.Function):
    """Two outputs, one saved tensor, one number."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float, c: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k, x + k

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g * ctx.k + h, None, None


def test_ctx_is_the_grad_fn():
    x = leaf(2)
    a, b = Scaled.apply(x, 3.0, lg.ones(1))
    fn = a.grad_fn
    assert fn is b.grad_fn is a.grad_fn
    assert fn.name() == type(fn).__name__ == "ScaledBackward"
    assert fn.k == 3
    assert fn.saved_tensors[0] is x
    assert fn.needs_input_grad == (True, False, False)
    assert [(type(f).__name__, k) for f, k in fn.next_functions] == [
        ("AccumulateGrad", 0),
        ("NoneType", 0),
    ]
    assert (a.output_nr, b.output_nr) == (0, 1)
    assert (b * 2).grad_fn.next_functions == ((fn, 1), (None, 0))
    assert "grad_fn=<ScaledBackward>" in repr(a)


def test_hooks_on_ctx():
    x = leaf(2)
    a, b = Scaled.apply(x, 3.0, None)
    seen: list[Any] = []
    a.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2, outputs[1]))
    a.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0].tolist()))
    (a + b).sum().backward()
    assert x.grad.tolist() == [7, 7]
    assert seen == [[7, 7]]


def test_a_walker_goes_through_functions():
    x = leaf(2)
    a, _ = Scaled.apply(x.exp(), 2.0, None)
    found, variables = walk(a.sum().grad_fn)
    assert found == ["SumBackward0", "ScaledBackward", "ExpBackward0", "AccumulateGrad"]
    assert variables[0] is x


def test_a_walker_goes_through_checkpoints():
    x = leaf(2)
    y = lg.utils.checkpoint.checkpoint(lambda v: v.exp() * 2, x, use_reentrant=False)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    assert "grad_fn=<CheckpointFunctionBackward>" in repr(y)
    _, variables = walk(y.sum().grad_fn)
    assert variables[0] is x
    y.sum().backward()
    assert x.grad is not None


def test_after_a_step_names_stay():
    layer = nn.Linear(2, 2)
    optimizer = lg.optim.SGD(layer.parameters(), lr=0.1)
    loss = layer(lg.ones(1, 2)).sum()
    fn = loss.grad_fn
    loss.backward()
    optimizer.step()
    loss.item()
    assert fn.name() == loss.grad_fn.name() == "SumBackward0"
    walk(loss.grad_fn)


@pytest.mark.parametrize("name", sorted(n for n, op in REGISTRY.items() if op.samples is not None))
def test_every_op_can_be_walked_over(name):
    op = REGISTRY[name]
    for sample in op.samples():
        x = [
            lg.tensor(v, requires_grad=v.dtype.kind in "fc") if isinstance(v, np.ndarray) else v
            for v in sample.inputs
        ]
        y = elementwise(op, x) if sample.call is None else sample.call(*x)
        for tensor in y if isinstance(y, tuple | list) else (y,):
            if isinstance(tensor, lg.Tensor) and tensor.grad_fn is not None:
                found, _ = walk(tensor.grad_fn)
                assert all(f == "AccumulateGrad" or "Backward" in f or "Copy" in f for f in found)
