"""How many kernels common programs become; a lost fusion fails here."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.graph.state import flush
from livegrad.runtime.report import last_steps

pytestmark = pytest.mark.usefixtures("whole_plans")

ROWS, COLS = 32, 100
rng = np.random.default_rng(0)


def data(*shape, grad=False):
    return lg.tensor(rng.normal(size=shape).astype(np.float32), requires_grad=grad)


@pytest.fixture(autouse=True)
def nothing_is_pending():
    """What other tests have left is computed before, not with what is counted."""
    flush("a test")


def kinds():
    """The kinds of the last kernels, without copies of small transposed operands (see below)."""
    return [step.kind for step in last_steps() if step.kind != "copy"]


def read(*tensors):
    """Computes what is pending and alive, `tensors` among it; the kinds of its kernels."""
    flush("a test", *[x._node for x in tensors])
    return kinds()


TARGET = lg.tensor(np.arange(ROWS) % COLS)
WEIGHT, BIAS = data(COLS, grad=True), data(COLS, grad=True)

ROW_OPS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (COLS,)),
    "affine layer_norm": lambda x: F.layer_norm(x, (COLS,), WEIGHT, BIAS),
    "cross_entropy": lambda x: F.cross_entropy(x, TARGET),
    "summed cross_entropy": lambda x: F.cross_entropy(x, TARGET, reduction="sum"),
    "unreduced cross_entropy": lambda x: F.cross_entropy(x, TARGET, reduction="none"),
    "smoothed cross_entropy": lambda x: F.cross_entropy(x, TARGET, label_smoothing=0.1),
    "mse_loss": lambda x: F.mse_loss(x, OTHER),
    "logsumexp": lambda x: lg.logsumexp(x, -1),
    "var": lambda x: x.var(-1),
}
OTHER = data(ROWS, COLS)


@pytest.mark.parametrize("name", ROW_OPS)
def test_forward_is_one_kernel(name):
    y = ROW_OPS[name](data(ROWS, COLS))
    assert read(y) == ["loops"]


@pytest.mark.parametrize("name", ROW_OPS)
def test_backward_is_at_most_two_kernels(name):
    x = data(ROWS, COLS, grad=True)
    y = ROW_OPS[name](x)
    read(y)
    g = data(*y.shape)
    y.backward(g)
    steps = read(x.grad)
    assert set(steps) == {"loops"}
    assert len(steps) <= 2
    assert x.grad.shape == x.shape
    WEIGHT.grad = BIAS.grad = None


@pytest.mark.parametrize("name", ROW_OPS)
def test_forward_and_backward_together_are_at_most_two_kernels(name):
    x = data(ROWS, COLS, grad=True)
    y = ROW_OPS[name](x)
    y.backward(data(*y.shape))
    steps = read(x.grad)
    assert set(steps) == {"loops"}
    assert len(steps) <= 2
    WEIGHT.grad = BIAS.grad = None


def test_chain_of_elementwise_ops_is_one_kernel():
    x, y = data(ROWS, COLS), data(COLS)
    z = ((x * y + 1).exp().tanh() - x).clamp(-1, 1).where(x > 0, y)
    assert read(z) == ["loops"]


def test_views_cost_no_kernel():
    x = data(ROWS, COLS)
    y = x.T[5:50, ::2].flip(0).unsqueeze(1).expand(-1, 3, -1) * 2
    assert read(y) == ["loops"]


def test_two_results_of_one_chain_are_one_kernel():
    x = data(ROWS, COLS)
    a = (x * 2).exp()
    b = a + 1
    assert read(a, b) == ["loops"]


def test_equal_expressions_are_computed_once():
    x = data(ROWS, COLS)
    y = x.exp() * x.exp()
    read(y)
    (step,) = last_steps()
    assert step.ops.count("exp") == 1


def test_dead_values_are_not_computed():
    x = data(ROWS, COLS)
    y = x + 1
    x.softmax(-1)
    (x @ x.T).exp()
    assert read(y) == ["loops"]
    (step,) = last_steps()
    assert step.ops == ("add",)


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh", "sigmoid", "silu"])
def test_linear_bias_activation(activation):
    x, weight, bias = data(ROWS, COLS), data(64, COLS), data(64)
    y = getattr(F, activation)(F.linear(x, weight, bias))
    assert read(y) == ["product"]


def test_linear_bias_activation_dropout_residual():
    x, weight, bias = data(ROWS, COLS), data(COLS, COLS), data(COLS)
    y = x + F.dropout(F.gelu(F.linear(x, weight, bias)), 0.1, True)
    assert read(y) == ["product"]


def test_products_copy_no_operand_of_which_something_is_contiguous():
    x, weight = data(64, 64), data(64, 64)
    every_other, heads = data(64, 128), data(8, 4, 3, 16)
    for make in (
        lambda: F.linear(x, weight),
        lambda: x.T @ weight.T,
        lambda: every_other[:, :64] @ weight[::2].T,
        lambda: heads[:, :, 0].transpose(0, 1) @ heads[:, :, 1].permute(1, 2, 0),
    ):
        read(make())
        assert [step.kind for step in last_steps()] == ["product"]


def test_product_alone_needs_no_other_kernel():
    x, weight = data(ROWS, COLS), data(64, COLS)
    for make in (
        lambda: x @ weight.T,
        lambda: weight @ x.T,
        lambda: x.T @ x,
        lambda: F.linear(x, weight),
    ):
        assert read(make()) == ["product"]


def model_and_batch():
    model = nn.Sequential(nn.Linear(COLS, 64), nn.ReLU(), nn.Linear(64, 10))
    read(*model.parameters())
    return model, data(ROWS, COLS), lg.tensor(np.arange(ROWS) % 10)


OPTIMIZERS = {
    "sgd": (optim.SGD, {"lr": 0.1}),
    "momentum": (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "nesterov": (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": (optim.Adam, {}),
    "amsgrad": (optim.Adam, {"amsgrad": True}),
    "adamw": (optim.AdamW, {}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_update_of_a_whole_model_is_one_kernel(name):
    make, options = OPTIMIZERS[name]
    model, x, t = model_and_batch()
    optimizer = make(model.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), t).backward()
        read(*[p.grad for p in model.parameters()])
        optimizer.step()
    assert kinds() == ["loops"]


# forward 3 (products, of which one goes on to relu; loss and its gradient up to the scale),
# backward 4 (both products of one kind, and both sums of columns, run together), update 1
MLP_KERNELS = {"product": 4, "loops": 4}


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_training_step_of_an_mlp(name):
    make, options = OPTIMIZERS[name]
    model, x, t = model_and_batch()
    optimizer = make(model.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
    assert {kind: kinds().count(kind) for kind in set(kinds())} == MLP_KERNELS
    assert sum("adam" in op or "sgd" in op for s in last_steps() for op in s.ops) == 1


def test_no_host_steps_in_training(counted):
    model, x, t = model_and_batch()
    optimizer = optim.Adam(model.parameters())
    with counted() as c:
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), t).backward()
            optimizer.step()
    assert c.host_steps == 0


def test_linear_regression_step():
    x, y = data(100, 1), data(100, 1)
    w, b = data(1, 1, grad=True), data(1, grad=True)
    optimizer = optim.SGD([w, b], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(F.linear(x, w, b), y).backward()
        optimizer.step()
    assert len(kinds()) <= 6
