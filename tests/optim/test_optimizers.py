"""Optimisers against their rules written in NumPy."""

import copy
import itertools
import pickle
from functools import partial

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim

SHAPES = [(3, 4), (4,), ()]


def start():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in SHAPES]


def gradients(step):
    """Gradients of one step; the last parameter has none at every third step."""
    rng = np.random.default_rng([1, step])
    drawn = [rng.standard_normal(shape) for shape in SHAPES]
    return [None if i == 2 and step % 3 == 1 else g for i, g in enumerate(drawn)]


def run(make, steps=12):
    params = [nn.Parameter(lg.tensor(value)) for value in start()]
    optimizer = make(params)
    for step in range(steps):
        for p, g in zip(params, gradients(step), strict=True):
            p.grad = None if g is None else lg.tensor(g)
        optimizer.step()
    return [p.detach().numpy() for p in params]


def sgd(values, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    buffers = [None] * len(values)
    for step in range(12):
        for i, g in enumerate(gradients(step)):
            if g is None:
                continue
            g = (-g if maximize else g) + weight_decay * values[i]
            if momentum:
                old = buffers[i]
                buffers[i] = g if old is None else momentum * old + (1 - dampening) * g
                g = g + momentum * buffers[i] if nesterov else buffers[i]
            values[i] = values[i] - lr * g
    return values


def adam(values, lr, betas, eps, weight_decay, amsgrad, maximize, decoupled):
    beta1, beta2 = betas
    states = [[0, 0.0, 0.0, 0.0] for _ in values]
    for step in range(12):
        for i, g in enumerate(gradients(step)):
            if g is None:
                continue
            t, m, v, top = states[i]
            t += 1
            g = -g if maximize else g
            if decoupled:
                values[i] = values[i] * (1 - lr * weight_decay)
            else:
                g = g + weight_decay * values[i]
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            top = np.maximum(top, v) if amsgrad else v
            corrected = np.sqrt(top / (1 - beta2**t)) + eps
            values[i] = values[i] - lr * m / (1 - beta1**t) / corrected
            states[i] = [t, m, v, top]
    return values


def agree(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


SGD_OPTIONS = [
    {"momentum": m, "dampening": d, "weight_decay": w, "nesterov": n, "maximize": x}
    for m, d, w, n, x in itertools.product((0, 0.9), (0, 0.3), (0, 0.1), *[(False, True)] * 2)
    if not n or (m and not d)
]


@pytest.mark.parametrize("options", SGD_OPTIONS, ids=str)
def test_sgd(options):
    agree(run(lambda p: optim.SGD(p, lr=0.1, **options)), sgd(start(), 0.1, **options))


@pytest.mark.parametrize("cls", [optim.Adam, optim.AdamW])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adam(cls, weight_decay, amsgrad, maximize):
    options = {
        "lr": 0.05,
        "betas": (0.8, 0.99),
        "eps": 1e-6,
        "weight_decay": weight_decay,
        "amsgrad": amsgrad,
        "maximize": maximize,
    }
    expected = adam(start(), decoupled=cls is optim.AdamW, **options)
    agree(run(lambda p: cls(p, **options)), expected)


def test_groups_have_their_own_options():
    a, b = nn.Parameter(lg.ones(1)), nn.Parameter(lg.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.5)
    a.grad = b.grad = lg.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 0.0)
    optimizer.param_groups[0]["lr"] = 0.25
    optimizer.add_param_group({"params": [nn.Parameter(lg.ones(2))]})
    assert optimizer.param_groups[2]["lr"] == 0.5
    optimizer.step()
    assert a.item() == 0.25


def test_parameters_of_several_dtypes_and_a_tensor_as_lr():
    a, b = nn.Parameter(lg.ones(1)), nn.Parameter(lg.ones(1, dtype=lg.float64))
    optimizer = optim.Adam([a, b], lr=lg.tensor(0.5))
    a.grad, b.grad = lg.ones(1), lg.ones(1, dtype=lg.float64)
    optimizer.step()
    assert a.dtype is lg.float32
    assert b.dtype is lg.float64
    assert a.item() == pytest.approx(0.5)
    assert b.item() == pytest.approx(0.5)


def test_a_step_of_one_group_is_one_update_node(monkeypatch):
    from livegrad.optim import ruled as module

    calls = []
    real = module.update
    monkeypatch.setattr(module, "update", lambda *given: (calls.append(given), real(*given)))
    params = [nn.Parameter(lg.ones(3)) for _ in range(5)]
    optimizer = optim.Adam(params)
    for rate in (1e-3, 1e-4, 1e-5):
        optimizer.param_groups[0]["lr"] = rate
        for p in params:
            p.grad = lg.ones(3)
        optimizer.step()
    assert len(calls) == 3
    assert len({op for op, *_ in calls}) == 1


def test_state_has_pytorch_names_and_form():
    p = nn.Parameter(lg.ones(2))
    optimizer = optim.Adam([p], amsgrad=True)
    assert optimizer.state_dict()["state"] == {}
    p.grad = lg.ones(2)
    optimizer.step()
    assert set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["params"] == [0]
    assert saved["state"][0]["step"].item() == 1.0
    momentum = optim.SGD([p], momentum=0.9)
    momentum.step()
    assert set(momentum.state[p]) == {"momentum_buffer"}


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    ],
)
def test_resuming_equals_going_on(make):
    def train(optimizer, params, steps):
        for step in steps:
            for p, g in zip(params, gradients(step), strict=True):
                p.grad = None if g is None else lg.tensor(g)
            optimizer.step()

    params = [nn.Parameter(lg.tensor(v)) for v in start()]
    optimizer = make(params)
    train(optimizer, params, range(5))
    others = copy.deepcopy(params)
    resumed = make(others)
    resumed.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
    train(optimizer, params, range(5, 9))
    train(resumed, others, range(5, 9))
    for a, b in zip(params, others, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_load_state_dict_errors():
    p, q = nn.Parameter(lg.ones(1)), nn.Parameter(lg.ones(1))
    saved = optim.SGD([p]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD([p, q]).load_state_dict(saved)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([{"params": [p]}, {"params": [q]}]).load_state_dict(saved)


def test_bad_arguments():
    p = nn.Parameter(lg.ones(1))
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="can only optimize Tensors"):
        optim.SGD([3])
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([p * 2])
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        optim.Adam([p], lr=-1)
    with pytest.raises(ValueError, match="beta parameter at index 1"):
        optim.Adam([p], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD([p], nesterov=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])


def test_closure_zero_grad_and_hooks():
    p = nn.Parameter(lg.tensor([2.0]))
    optimizer = optim.SGD([p], lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda *given: seen.append("pre"))
    handle = optimizer.register_step_post_hook(lambda *given: seen.append("post"))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with lg.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == pytest.approx(1.6)
    assert seen == ["pre", "post"]
    handle.remove()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None
    optimizer.step()
    assert p.item() == pytest.approx(1.6)


def test_parameters_stay_leaves_and_training_learns():
    lg.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.05)
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    t = np.array([[0], [1], [1], [0]], np.float32)
    for _ in range(150):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(lg.tensor(x)), lg.tensor(t))
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
    assert all(p.is_leaf and p.requires_grad for p in net.parameters())


def test_repr():
    p = nn.Parameter(lg.ones(1))
    assert repr(optim.SGD([p], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n"
        "    fused: None\n    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n"
        "    weight_decay: 0\n)"
    )


def test_an_update_interrupted_while_recorded_does_not_happen(monkeypatch, untranslated):
    from livegrad.ops.bookkeeping import update

    class Interrupted(update.Pending):
        def __init__(self, node, tensors):
            raise KeyboardInterrupt

    p = lg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)
    (p * p).sum().backward()
    with monkeypatch.context() as patched:
        patched.setattr(update, "Pending", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    assert p.tolist() == [1.0, 2.0]
    optimizer.step()
    assert p.tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_a_parameter_that_is_in_a_group_twice_is_updated_twice():
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p, p], lr=0.5)
    before = p * 1  # a reader of what was there: nothing is overwritten in place
    p.sum().backward()
    optimizer.step()
    assert p.tolist() == [0.0, 1.0]
    assert before.tolist() == [1.0, 2.0]


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_momentum_of_a_parameter_that_is_there_twice_starts_twice():
    w, v = [lg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    optimizer = lg.optim.SGD([w, v, w], lr=0.5, momentum=0.5)
    ((w + v) * lg.tensor([1.0, 3.0])).sum().backward()
    optimizer.step()
    assert (w.tolist(), v.tolist()) == ([0.0, -1.0], [0.5, 0.5])
    optimizer.step()
    assert (w.tolist(), v.tolist()) == ([-1.625, -5.875], [-0.25, -1.75])
    assert optimizer.state[w]["momentum_buffer"].tolist() == [1.75, 5.25]


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_steps_of_a_parameter_that_is_there_twice_are_counted():
    p = lg.ones(2, requires_grad=True)
    optimizer = optim.Adam([p, p])
    p.sum().backward()
    optimizer.step()
    assert optimizer.state[p]["step"] == 2


@pytest.mark.parametrize("make", [partial(optim.SGD, lr=0.25), partial(optim.AdamW, lr=0.25)])
@pytest.mark.parametrize(
    "shown", [lambda p: p.movedim(-1, 0), lambda p: p.detach(), lambda p: p.detach()[:1]]
)
def test_a_gradient_that_is_a_view_of_its_parameter_follows_it(make, shown):
    p = nn.Parameter(lg.tensor([-1.0]))
    optimizer = make([p])
    p.grad = shown(p)
    optimizer.step()
    assert p.grad.tolist() == p.tolist() != [-1.0]


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.RMSprop])
def test_a_parameter_made_smaller_has_no_gradient_of_its_shape(cls):
    p = lg.ones(2, 3).requires_grad_()
    optimizer = cls([p], lr=0.25)
    p.sum().backward()
    p.requires_grad_(False)
    p.resize_(3)
    with pytest.raises(RuntimeError, match=r"shape \[3\] doesn't match the broadcast shape"):
        optimizer.step()
    assert p.tolist() == [1.0, 1.0, 1.0]


def test_a_parameter_made_larger_takes_what_its_gradient_is_broadcast_to():
    p = lg.ones(3).requires_grad_()
    optimizer = optim.SGD([p], lr=0.25)
    (p * lg.arange(3)).sum().backward()
    p.requires_grad_(False)
    p.resize_(2, 3).fill_(1)
    optimizer.step()
    assert p.tolist() == [[1.0, 0.75, 0.5]] * 2


def test_a_wrapper_of_an_optimiser_that_is_none_itself() -> None:
    """Its class is an optimiser's, its constructor is not called: as in `accelerate`."""

    class Wrapper(optim.Optimizer):
        def __init__(self, inner: optim.Optimizer) -> None:
            self.optimizer = inner

        def step(self, closure: object = None) -> object:
            return self.optimizer.step()

    x = lg.ones(1, requires_grad=True)
    wrapped = Wrapper(optim.SGD([x], 0.5))
    x.sum().backward()
    wrapped.step()
    assert x.item() == 0.5


STATEFUL = {
    "SGD": partial(optim.SGD, lr=0.1, momentum=0.9),
    "Adam": partial(optim.Adam, lr=0.1, amsgrad=True),
    "Adagrad": partial(optim.Adagrad, lr=0.1),
    "RMSprop": partial(optim.RMSprop, lr=0.1, momentum=0.9, centered=True),
    "Rprop": partial(optim.Rprop, lr=0.1),
}


@pytest.mark.parametrize("dtype", [lg.bfloat16, lg.float16, lg.float64], ids=str)
@pytest.mark.parametrize("name", STATEFUL)
def test_state_may_be_older_than_a_parameter_s_dtype(name, dtype):
    """Each is written as it lies in memory: too few bytes were read, or too many written."""

    def trained(change):
        layer = nn.Linear(5, 3)
        for p in layer.parameters():
            p.data = lg.arange(float(p.numel())).reshape(p.shape) / 4 - 1
        optimizer = STATEFUL[name](layer.parameters())
        x = lg.arange(10.0).reshape(2, 5) / 8
        for step in range(4):
            if step == 2 and change:
                layer.to(dtype)
                x = x.to(dtype)
            optimizer.zero_grad()
            layer(x).square().sum().backward()
            optimizer.step()
        return layer

    changed, same = trained(True), trained(False)
    for p, expected in zip(changed.parameters(), same.parameters(), strict=True):
        assert p.dtype is dtype
        tolerance = 1e-5 if dtype is lg.float64 else 0.03
        np.testing.assert_allclose(
            p.detach().float().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance
        )


def test_state_is_complex_where_the_parameter_is():
    p = nn.Parameter(lg.ones(3))
    optimizer = optim.Adagrad([p], lr=0.1)
    p.data = lg.ones(3, dtype=lg.complex64)
    p.grad = lg.ones(3, dtype=lg.complex64)
    with pytest.raises(RuntimeError, match="must be complex if it is"):
        optimizer.step()
