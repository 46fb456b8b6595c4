"""How many kernels norms over channels and attention become; a lost fusion fails here."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.graph.state import flush
from livegrad.runtime.report import last_steps

pytestmark = pytest.mark.usefixtures("whole_plans")

rng = np.random.default_rng(0)


def data(*shape, grad=False):
    return lg.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=grad)


def read(*tensors):
    """Computes what is pending; the kinds of the kernels, without copies of operands."""
    flush("a test", *[x._node for x in tensors])
    return [step.kind for step in last_steps() if step.kind != "copy"]


W, B = data(4, grad=True), data(4, grad=True)
# Rows are folded one by one, then the batch, then all is normalised; running statistics come along.
NORMS = {
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v, W, B, training=True), 3, 6),
    "batch_norm in evaluation": (lambda x, m, v: F.batch_norm(x, m, v, W, B), 2, 3),
    "instance_norm": (lambda x, m, v: F.instance_norm(x, None, None, W, B), 1, 3),
    "group_norm": (lambda x, m, v: F.group_norm(x, 2), 1, 1),
    "affine group_norm": (lambda x, m, v: F.group_norm(x, 2, W, B), 3, 5),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    call, forward, backward = NORMS[name]
    x, mean, var = data(8, 4, 6, 6, grad=True), lg.zeros(4), lg.ones(4)
    read(x, mean, var)
    y = call(x, mean, var)
    steps = read(y, mean, var)
    assert set(steps) == {"loops"}
    assert len(steps) <= forward
    y.backward(data(8, 4, 6, 6))
    steps = read(x.grad, W.grad, B.grad) if W.grad is not None else read(x.grad)
    assert set(steps) == {"loops"}
    assert len(steps) <= backward
    W.grad = B.grad = None


def test_attention():
    q, k, v = [data(2, 4, 8, 16, grad=True) for _ in range(3)]
    read(q, k, v)
    assert read(F.scaled_dot_product_attention(q, k, v, is_causal=True)) == ["attention"]
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    # The result is not asked for; gradients lie in memory as what projects them wants to read them.
    assert read(q.grad, k.grad, v.grad) == ["loops", "attention"]
    # Nor is anything computed three times where the gradients are recorded one by one.
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    read(y)
    assert read(*lg.autograd.grad(y, (q, k, v), lg.ones_like(y))).count("attention") == 1


def test_block_of_a_transformer():
    """Norm, projection, attention, projection and sum; norm, two products with what follows."""
    width, heads = 16, 2
    norms = [nn.LayerNorm(width) for _ in range(2)]
    qkv, out, up, down = [nn.Linear(width, n * width) for n in (3, 1, 4)] + [nn.Linear(64, width)]
    x = data(3, 5, width)
    read(x, *[p for layer in (*norms, qkv, out, up, down) for p in layer.parameters()])
    parts = [y.view(3, 5, heads, 8).transpose(1, 2) for y in qkv(norms[0](x)).split(width, 2)]
    y = F.scaled_dot_product_attention(*parts, is_causal=True)
    x = x + out(y.transpose(1, 2).reshape(3, 5, width))
    x = x + down(F.gelu(up(norms[1](x))))
    steps = read(x)
    assert steps == ["loops", "product", "attention", "product", "loops", "product", "product"]
