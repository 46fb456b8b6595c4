"""Every registered op on tensors without data: the shape and dtype it has with data, no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import elementwise
from livegrad.graph.state import LOCAL
from livegrad.ops.support.samples import Sample

WITH_SAMPLES = sorted(name for name, op in REGISTRY.items() if op.samples is not None)


def call(op: Op, sample: Sample, tensors: list[Any]) -> list[Any]:
    result = sample.call(*tensors) if sample.call else elementwise(op, tensors)
    return list(flat(result))


def flat(x: Any) -> Any:
    if isinstance(x, lg.Tensor):
        yield x
    elif isinstance(x, tuple | list):
        for part in x:
            yield from flat(part)


def inputs(sample: Sample, device: str) -> list[Any]:
    made = []
    for x in sample.inputs:
        if isinstance(x, np.ndarray | np.bool_):
            floating = np.asarray(x).dtype.kind in "fc"
            made.append(lg.tensor(np.asarray(x)).to(device).requires_grad_(floating))
        else:
            made.append(x)
    return made


def form(x: Any) -> Any:
    return x.shape, x.dtype, x.requires_grad, x.is_leaf


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_shape_and_dtype(name: str) -> None:
    op = REGISTRY[name]
    assert op.samples is not None
    for sample in op.samples():
        if not any(isinstance(x, np.ndarray) for x in sample.inputs):
            continue
        wanted = call(op, sample, inputs(sample, "cpu"))
        tensors = inputs(sample, "meta")
        got = call(op, sample, tensors)
        assert [form(y) for y in got] == [form(y) for y in wanted]
        assert all(y.is_meta for y in got)
        learned = [x for x in tensors if isinstance(x, lg.Tensor) and x.requires_grad]
        for y in got:
            if y.requires_grad and y.dtype.is_floating_point:
                check_gradients(name, y, learned)
    assert not any(node.meta.device.type == "meta" for node in LOCAL.state.nodes)


# How long sequences are must be read for the second gradient.
READING = ("recurrent_slopes",)


def check_gradients(name: str, y: Any, inputs: list[Any]) -> None:
    try:
        grads = lg.autograd.grad(y.sum(), inputs, allow_unused=True, retain_graph=True)
    except (NotImplementedError, RuntimeError) as error:
        refused = "derivative" in str(error) or "not differentiable" in str(error)
        if not refused and not (name in READING and "no data" in str(error)):
            raise
        return
    for g, x in zip(grads, inputs, strict=True):
        assert g is None or (g.is_meta and g.shape == x.shape)
