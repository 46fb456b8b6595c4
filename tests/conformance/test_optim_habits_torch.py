"""What programs rely on around optimisers, against PyTorch's: gradients through a step, the keys of
groups and states, the errors of wrong arguments, optimisers that users write."""

import copy
import importlib
import pickle

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

NAMES = sorted(
    name
    for name in dir(torch.optim)
    if isinstance(getattr(torch.optim, name), type)
    and issubclass(getattr(torch.optim, name), torch.optim.Optimizer)
    and name != "Optimizer"
)
LIBRARIES = (lg, torch)

# ------------------------------------------------------------------------------ differentiable

DIFFERENTIABLE = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"maximize": True, "amsgrad": True}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"betas": (0.6, 0.7)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.8, "centered": True}),
    ("RMSprop", {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 1, "lambd": 0.1}),
    ("Rprop", {}),
]


# PyTorch itself writes over what the second gradients of a second step would need.
ONE_STEP = [
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True, "amsgrad": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.8, "centered": True}),
    ("Rprop", {}),
]


@pytest.fixture
def double():
    """PyTorch's step counts have the default dtype, and its bias corrections with them."""
    for t in LIBRARIES:
        t.set_default_dtype(t.float64)
    yield
    for t in LIBRARIES:
        t.set_default_dtype(t.float32)


def inner_loop(t, name, options, tensors, steps=4):
    """Gradients of the loss after some steps, to where they started, lr and data."""
    start = t.tensor(np.linspace(-1.0, 1.3, 6).reshape(2, 3), requires_grad=True)
    data = t.tensor(np.linspace(0.2, 1.1, 3), requires_grad=True)
    made = {k: t.tensor(v, dtype=t.float64, requires_grad=True) for k, v in tensors.items()}
    weight = start.clone()
    weight.retain_grad()
    optimizer = getattr(t.optim, name)([weight], differentiable=True, **{**options, **made})
    losses = []
    for _ in range(steps):
        w = weight.clone()  # PyTorch refuses gradients of what was written since
        loss = ((w * data).sin() ** 2).sum() + w.pow(3).mean()
        losses.append(loss)
        (weight.grad,) = t.autograd.grad(loss, weight, create_graph=True)
        optimizer.step()
    outer = (weight**2 * t.tensor([0.5, 1.0, 2.0])).sum() + losses[-1]
    sources = [start, data, *made.values()]
    return outer, weight, t.autograd.grad(outer, sources, allow_unused=True)


def agree(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "options"), DIFFERENTIABLE, ids=str)
def test_gradients_through_steps(name, options, double):
    steps = 1 if (name, options) in ONE_STEP else 4
    results = [inner_loop(t, name, options, {}, steps) for t in LIBRARIES]
    (ours, w, gs), (theirs, w2, gs2) = results
    agree(ours, theirs)
    agree(w, w2)
    for g, g2 in zip(gs, gs2, strict=True):
        agree(g, g2)


# Where PyTorch lets a gradient flow to an option that is a tensor.
@pytest.mark.parametrize(
    ("name", "options", "tensors", "steps"),
    [
        ("SGD", {}, {"lr": 0.1}, 4),
        ("SGD", {"momentum": 0.9}, {"lr": 0.1}, 1),
        ("SGD", {}, {"lr": 0.1, "weight_decay": 0.2}, 4),
        ("Adam", {}, {"lr": 0.1}, 4),
        ("Adam", {"amsgrad": True}, {"lr": 0.1, "weight_decay": 0.2}, 1),
        ("AdamW", {}, {"lr": 0.1}, 4),
        ("AdamW", {}, {"lr": 0.1, "weight_decay": 0.2}, 4),
        ("NAdam", {}, {"lr": 0.1}, 1),
    ],
    ids=str,
)
def test_gradients_to_options(name, options, tensors, steps, double):
    (_, _, gs), (_, _, gs2) = [inner_loop(t, name, options, tensors, steps) for t in LIBRARIES]
    for g, g2 in zip(gs, gs2, strict=True):
        assert (g is None) == (g2 is None)
        if g is not None:
            agree(g, g2)


def test_gradients_to_betas(double):
    def run(t):
        betas = tuple(t.tensor(b, dtype=t.float64, requires_grad=True) for b in (0.8, 0.95))
        start = t.tensor([0.3, -1.0], dtype=t.float64, requires_grad=True)
        weight = start.clone()
        optimizer = t.optim.Adam([weight], lr=0.1, betas=betas, differentiable=True)
        for _ in range(3):
            weight.grad = weight * 2 + 0.5
            optimizer.step()
        return t.autograd.grad(weight.sum(), [*betas, start])

    for g, g2 in zip(run(lg), run(torch), strict=True):
        agree(g, g2)


def test_gradients_to_a_state_that_was_put_there():
    def run(t):
        moments = [t.tensor([0.1, 0.2], requires_grad=True) for _ in range(2)]
        weight = t.tensor([0.3, -1.0], requires_grad=True).clone()
        weight.grad = t.tensor([1.0, 2.0])
        optimizer = t.optim.Adam([weight], differentiable=True)
        optimizer.state[weight].update(
            step=t.tensor(10.0), exp_avg=moments[0].clone(), exp_avg_sq=moments[1].clone()
        )
        optimizer.step()
        return weight, t.autograd.grad(weight.sum(), moments)

    (w, gs), (w2, gs2) = run(lg), run(torch)
    np.testing.assert_allclose(w.detach().numpy(), w2.detach().numpy(), rtol=1e-6)
    for g, g2 in zip(gs, gs2, strict=True):
        np.testing.assert_allclose(g.numpy(), g2.numpy(), rtol=1e-5)


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_leaf_cannot_be_written_by_a_differentiable_step(t):
    p = t.ones(2, requires_grad=True)
    p.grad = t.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        t.optim.SGD([p], differentiable=True).step()


# ------------------------------------------------------------------------------ keys and states


def one_of(t, name, **options):
    p = t.nn.Parameter(t.ones(3, 2))
    return p, getattr(t.optim, name)([p], **options)


def form(values):
    return {
        name: (str(x.dtype).rpartition(".")[2], tuple(x.shape)) if hasattr(x, "dtype") else type(x)
        for name, x in values.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_groups_have_the_same_keys_in_the_same_order(name):
    (_, ours), (_, theirs) = [one_of(t, name) for t in LIBRARIES]
    assert list(ours.defaults.items()) == list(theirs.defaults.items())
    assert list(ours.state_dict()["param_groups"][0].items()) == list(
        theirs.state_dict()["param_groups"][0].items()
    )
    assert list(ours.param_groups[0]) == list(theirs.param_groups[0])
    assert repr(ours) == repr(theirs)


STATES = [
    *[(name, {}) for name in NAMES if name not in ("SparseAdam", "LBFGS")],
    ("SGD", {"momentum": 0.9}),
    ("Adam", {"amsgrad": True}),
    ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
]


@pytest.mark.parametrize(("name", "options"), STATES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_states_have_the_same_form(name, options, dtype):
    forms = []
    for t in LIBRARIES:
        p, optimizer = one_of(t, name, **options)
        p.data = p.data.to(getattr(t, dtype))
        for _ in range(2):
            p.grad = t.ones_like(p)
            optimizer.step()
        forms.append({k: form(v) for k, v in optimizer.state_dict()["state"].items()})
    assert {k: list(v.items()) for k, v in forms[0].items()} == {
        k: list(v.items()) for k, v in forms[1].items()
    }


@pytest.mark.parametrize(("name", "options"), STATES, ids=str)
def test_files_are_interchangeable(name, options, tmp_path):
    """A run that goes over to the other library half way ends where it would have."""

    def train(t, p, optimizer, steps):
        for step in steps:
            p.grad = t.tensor(np.sin(np.arange(6.0) + step).reshape(3, 2).astype("f"))
            optimizer.step()

    def change(before, after, p, optimizer):
        path = tmp_path / f"{after.__name__}.pt"
        before.save({"p": p.detach(), "o": optimizer.state_dict()}, path)
        saved = after.load(path)
        q, other = one_of(after, name, **options)
        q.data.copy_(saved["p"])
        other.load_state_dict(saved["o"])
        return q, other

    ends = []
    for first, second in ((torch, torch), (lg, torch), (torch, lg)):
        p, optimizer = one_of(first, name, **options)
        train(first, p, optimizer, range(3))
        p, optimizer = change(first, second, p, optimizer)
        train(second, p, optimizer, range(3, 6))
        ends.append(p.detach().numpy())
    rtol = 1e-3 if name == "Muon" else 2e-5  # it iterates in bfloat16
    np.testing.assert_allclose(ends[1], ends[0], rtol=rtol, atol=1e-6)
    np.testing.assert_allclose(ends[2], ends[0], rtol=rtol, atol=1e-6)


def test_files_of_lbfgs_are_interchangeable(tmp_path):
    def start(t):
        p = t.nn.Parameter(t.zeros(3))
        return p, t.optim.LBFGS([p], lr=0.5, max_iter=3, history_size=5)

    def train(t, p, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = ((p - t.tensor([1.0, 2.0, 3.0])) ** 4).sum() + (p[0] * p[1] - 1) ** 2
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)

    ends = []
    for first, second in ((torch, torch), (lg, torch), (torch, lg)):
        p, optimizer = start(first)
        train(first, p, optimizer)
        first.save({"p": p.detach(), "o": optimizer.state_dict()}, tmp_path / "x.pt")
        saved = second.load(tmp_path / "x.pt")
        q, other = start(second)
        q.data.copy_(saved["p"])
        other.load_state_dict(saved["o"])
        train(second, q, other)
        ends.append(q.detach().numpy())
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5)
    np.testing.assert_allclose(ends[2], ends[0], rtol=1e-5)


# -------------------------------------------------------------------------------------- errors


def parameter(t):
    return t.nn.Parameter(t.ones(2, 2))


WRONG = [
    *[(name, lambda t: ([parameter(t)],), {"lr": -1.0}) for name in NAMES],
    *[(name, lambda t: ([parameter(t)],), {"lr": "two"}) for name in NAMES],
    *[(name, lambda t: ([],), {}) for name in NAMES],
    *[(name, lambda t: (parameter(t),), {}) for name in NAMES],
    *[(name, lambda t: ([3],), {}) for name in NAMES],
    *[(name, lambda t: ([{"params": {parameter(t)}}],), {}) for name in NAMES],
    *[
        (name, lambda t: ([parameter(t)],), {"betas": betas})
        for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam")
        for betas in ((1.0, 0.9), (0.9, -0.1))
    ],
    *[
        (name, lambda t: ([parameter(t)],), {"eps": -1.0})
        for name in ("Adam", "NAdam", "RAdam", "Adamax", "SparseAdam", "RMSprop", "Adagrad")
    ],
    *[
        (name, lambda t: ([parameter(t)],), {"weight_decay": -1.0})
        for name in NAMES
        if name not in ("LBFGS", "SparseAdam", "Rprop")
    ],
    ("SparseAdam", lambda t: ([parameter(t)],), {"lr": 0.0}),
    ("SparseAdam", lambda t: ([parameter(t)],), {"eps": 0.0}),
    ("SGD", lambda t: ([parameter(t)],), {"momentum": -1.0}),
    ("SGD", lambda t: ([parameter(t)],), {"nesterov": True}),
    ("RMSprop", lambda t: ([parameter(t)],), {"momentum": -1.0}),
    ("RMSprop", lambda t: ([parameter(t)],), {"alpha": -1.0}),
    ("Adadelta", lambda t: ([parameter(t)],), {"rho": 1.5}),
    ("Adagrad", lambda t: ([parameter(t)],), {"lr_decay": -1.0}),
    ("Adagrad", lambda t: ([parameter(t)],), {"initial_accumulator_value": -1.0}),
    ("NAdam", lambda t: ([parameter(t)],), {"momentum_decay": -1.0}),
    ("Rprop", lambda t: ([parameter(t)],), {"etas": (1.1, 1.2)}),
    ("Muon", lambda t: ([parameter(t)],), {"momentum": -1.0}),
    ("Muon", lambda t: ([parameter(t)],), {"adjust_lr_fn": "none"}),
    ("Muon", lambda t: ([t.nn.Parameter(t.ones(3))],), {}),
    ("Adafactor", lambda t: ([parameter(t)],), {"d": 0.5}),
    *[
        (name, lambda t: ([parameter(t)],), options)
        for name in ("SGD", "Adam", "Adagrad")
        for options in ({"fused": True, "foreach": True}, {"fused": True, "differentiable": True})
    ],
    ("SGD", lambda t: ([parameter(t) * 2],), {}),
    ("SGD", lambda t: ([{"params": [parameter(t)]}, 3],), {}),
    ("SGD", lambda t: ([("a", parameter(t)), parameter(t)],), {}),
    ("SGD", lambda t: ([{"params": [("a", parameter(t))]}, {"params": [parameter(t)]}],), {}),
    ("LBFGS", lambda t: ([{"params": [parameter(t)]}, {"params": [parameter(t)]}],), {}),
]


def error_of(t, name, args, options):
    with pytest.raises(Exception) as caught:
        getattr(t.optim, name)(*args(t), **options)
    return caught.value


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case[0]} {case[2]}")
def test_wrong_arguments(case):
    ours, theirs = [error_of(t, *case) for t in LIBRARIES]
    assert type(ours) is type(theirs), (ours, theirs)
    text = str(theirs).replace("torch.", "livegrad.").replace("livegrad.nn.parameter.", "")
    if isinstance(theirs, ValueError | RuntimeError):
        assert str(ours) == text


@pytest.mark.parametrize("name", [n for n in NAMES if n != "LBFGS"])
def test_a_tensor_of_two_elements_is_no_rate(name):
    for t in LIBRARIES:
        with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
            one_of(t, name, lr=t.ones(2))


def test_a_tensor_rate_with_foreach():
    for t in LIBRARIES:
        with pytest.raises(ValueError, match="lr as a Tensor is not supported for capturable"):
            one_of(t, "Adam", lr=t.tensor(0.1), foreach=True)


# ------------------------------------------------------------------------- users' own optimisers


def base(t):
    return importlib.import_module(f"{t.__name__}.optim.optimizer")


def averaging(t):
    """The kind of optimiser that people write, for either library."""

    required = base(t).required

    class Averaging(t.optim.Optimizer):
        def __init__(self, params, lr=required, beta=0.5):
            super().__init__(params, {"lr": lr, "beta": beta})

        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("late", 7)

        @t.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with t.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["mean"] = t.zeros_like(p)
                        state["history"] = []
                    state["step"] += 1
                    state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                    state["history"].append(state["mean"].clone())
                    p.add_(state["mean"], alpha=-group["lr"])
            return loss

    return Averaging


def use(t):
    events = []
    a, b = t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.full((2,), 2.0))
    made = averaging(t)([{"params": [a], "beta": 0.9}], lr=0.1)
    made.add_param_group({"params": b, "lr": 0.5})
    everywhere = [
        base(t).register_optimizer_step_pre_hook(
            lambda o, args, kwargs: events.append("all before")
        ),
        base(t).register_optimizer_step_post_hook(
            lambda o, args, kwargs: events.append("all after")
        ),
    ]
    made.register_step_pre_hook(lambda o, args, kwargs: events.append((args[0] is o, len(kwargs))))
    made.register_step_post_hook(lambda o, args, kwargs: events.append("after"))
    scheduler = t.optim.lr_scheduler.StepLR(made, 1)

    def closure():
        made.zero_grad()
        loss = (a * b).sum()
        loss.backward()
        return loss

    for _ in range(3):
        events.append(round(made.step(closure).item(), 4))
        scheduler.step()
    for handle in everywhere:
        handle.remove()
    made.step(closure=closure)
    other = averaging(t)([{"params": [t.nn.Parameter(t.ones(2))]}, {"params": [b]}], lr=1.0)
    other.register_load_state_dict_pre_hook(lambda o, state: events.append(sorted(state)))
    other.register_load_state_dict_post_hook(lambda o: events.append("loaded"))
    made.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    other.load_state_dict(made.state_dict())
    copied = copy.deepcopy(made)
    texts = [repr(made), repr(other), repr(copied)]
    values = [p.detach().numpy() for group in copied.param_groups for p in group["params"]]
    return events, texts, values, made.state_dict()


def test_an_optimiser_that_a_user_wrote():
    (events, texts, values, saved), (events2, texts2, values2, saved2) = use(lg), use(torch)
    assert str(events) == str(events2)
    assert texts == texts2
    for v, v2 in zip(values, values2, strict=True):
        np.testing.assert_allclose(v, v2, rtol=1e-6)
    assert saved["param_groups"] == saved2["param_groups"]
    assert [list(s) for s in saved["state"].values()] == [list(s) for s in saved2["state"].values()]
    assert [s["step"] for s in saved["state"].values()] == [4, 4]


@pytest.mark.parametrize("t", LIBRARIES)
def test_hooks_may_change_the_arguments(t):
    p = t.nn.Parameter(t.ones(1))
    optimizer = t.optim.SGD([p], lr=1.0)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 5.0), {}))
    assert optimizer.step() == 5.0
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


@pytest.mark.parametrize("t", LIBRARIES)
def test_a_group_is_the_dict_that_was_given(t):
    group = {"params": [t.nn.Parameter(t.ones(1))], "mine": 3}
    optimizer = t.optim.SGD([group], lr=0.5)
    assert optimizer.param_groups[0] is group
    assert group["lr"] == 0.5
    assert optimizer.state_dict()["param_groups"][0]["mine"] == 3


def test_a_parameter_that_retains_its_gradient_is_no_leaf_and_can_be_optimised():
    ends = []
    for t in LIBRARIES:
        p = t.ones(2, requires_grad=True) * 2
        p.retain_grad()
        (p * 3).sum().backward()
        t.optim.SGD([p], lr=0.5).step()
        ends.append(p.detach().numpy().tolist())
    assert ends[0] == ends[1]


# PyTorch's LBFGS does not work afterwards.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "LBFGS"])
def test_optimisers_can_be_pickled(name):
    for t in LIBRARIES:
        _, optimizer = one_of(t, name)
        again = pickle.loads(pickle.dumps(optimizer))
        assert repr(again) == repr(optimizer)
        again.step(lambda: 1.0)
