"""nn.utils and recurrent layers against PyTorch: packing, norms, parametrizations, pruning."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.nn.utils import parametrizations, parametrize, prune, rnn

torch = pytest.importorskip("torch")
T = torch.nn.utils
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.nn.utils.parametrizations
    import torch.nn.utils.prune
    import torch.nn.utils.rnn


def draw(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def twins(build: Any, dtype: str = "float64") -> tuple[Any, Any]:
    """The same module in both, with PyTorch's weights."""
    theirs = build(torch).to(getattr(torch, dtype))
    ours = build(lg).to(getattr(lg, dtype))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def same_step(ours: Any, theirs: Any, *inputs: Any) -> None:
    """Outputs, and gradients of parameters, agree."""
    a, b = ours(*map(lg.tensor, inputs)), theirs(*map(torch.tensor, inputs))
    close(a, b)
    (a * a).sum().backward()
    (b * b).sum().backward()
    names = dict(theirs.named_parameters())
    for key, p in ours.named_parameters():
        close(p.grad, names[key].grad)


# ------------------------------------------------------------------------------------ sequences


LENGTHS = ([4, 3, 1], [1, 4, 2])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_packing(lengths: list[int], batch_first: bool) -> None:
    x = draw(3, 4, 2) if batch_first else draw(4, 3, 2)
    ordered = lengths == sorted(lengths, reverse=True)
    ours = rnn.pack_padded_sequence(lg.tensor(x), lengths, batch_first, ordered)
    theirs = T.rnn.pack_padded_sequence(torch.tensor(x), lengths, batch_first, ordered)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.tolist() == b.tolist()
    for total in (None, 6):
        mine = rnn.pad_packed_sequence(ours, batch_first, -1.0, total)
        wanted = T.rnn.pad_packed_sequence(theirs, batch_first, -1.0, total)
        for a, b in zip(mine, wanted, strict=True):
            assert a.tolist() == b.tolist()
    for a, b in zip(rnn.unpack_sequence(ours), T.rnn.unpack_sequence(theirs), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(side: str) -> None:
    parts = [draw(n, 2) for n in (2, 4, 1)]
    for first in (False, True):
        a = rnn.pad_sequence(map(lg.tensor, parts), first, 7.0, side)
        b = T.rnn.pad_sequence(list(map(torch.tensor, parts)), first, 7.0, side)
        close(a, b)
    back = rnn.unpad_sequence(rnn.pad_sequence(map(lg.tensor, parts)), [2, 4, 1])
    for a, part in zip(back, parts, strict=True):
        np.testing.assert_array_equal(a.numpy(), part)


@pytest.mark.parametrize("first", [False, True])
def test_what_was_padded_is_copied(first: bool) -> None:
    """Writing to one of the sequences leaves the padded ones as they are."""
    found = []
    for library, functions in ((lg, rnn), (torch, T.rnn)):
        padded = library.arange(24.0).reshape((3, 4, 2) if first else (4, 3, 2))
        # PyTorch transposes what it is given.
        back = functions.unpad_sequence(padded[:], library.tensor([2, 4, 1]), first)
        for x in back:
            x.zero_()
        found.append((padded.tolist(), [x.stride() for x in back]))
    assert found[0] == found[1]


KINDS = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "bias": False}),
    ("LSTM", {}),
    ("LSTM", {"proj_size": 3}),
    ("GRU", {}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("stacked", [False, True])
def test_recurrent_layers(kind: str, options: Any, packed: bool, stacked: bool) -> None:
    shape = {"num_layers": 2, "bidirectional": True, "batch_first": True} if stacked else {}
    ours, theirs = twins(lambda lib: getattr(lib.nn, kind)(4, 5, **shape, **options))
    x = draw(3, 6, 4) if stacked else draw(6, 3, 4)
    layers = 4 if stacked else 1
    first = [draw(layers, 3, options.get("proj_size", 5)), draw(layers, 3, 5)]

    def run(lib: Any, module: Any, pack: Any) -> tuple[list[Any], list[Any]]:
        leaves = [lib.tensor(a, requires_grad=True) for a in (x, *first)]
        given = leaves[0]
        if packed:
            given = pack.pack_padded_sequence(given, [4, 6, 2], stacked, enforce_sorted=False)
        y, last = module(given, tuple(leaves[1:]) if kind == "LSTM" else leaves[1])
        if packed:
            y = pack.pad_packed_sequence(y, stacked)[0]
        results = [y, *(last if kind == "LSTM" else (last,))]
        loss = sum([(r * lib.tensor(draw(*r.shape, seed=9))).sum() for r in results])
        loss.backward()
        grads = [leaf.grad for leaf in leaves[: 3 if kind == "LSTM" else 2]]
        return results, grads + [p.grad for p in module.parameters()]

    mine, wanted = run(lg, ours, rnn), run(torch, theirs, T.rnn)
    for a, b in zip(itertools.chain(*mine), itertools.chain(*wanted), strict=True):
        close(a, b)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_second_gradient(kind: str) -> None:
    ours, theirs = twins(lambda lib: getattr(lib.nn, kind)(2, 3, bidirectional=True))
    found = []
    for lib, module in ((lg, ours), (torch, theirs)):
        x = lib.tensor(draw(3, 2, 2), requires_grad=True)
        y = module(x)[0]
        (g,) = lib.autograd.grad((y * y).sum(), [x], create_graph=True)
        found.append(lib.autograd.grad((g * g).sum(), [x, *module.parameters()]))
    for a, b in zip(*found, strict=True):
        close(a, b)


@pytest.mark.parametrize(
    ("kind", "options"), [k for k in KINDS if "proj_size" not in k[1]], ids=str
)
def test_cells(kind: str, options: Any) -> None:
    ours, theirs = twins(lambda lib: getattr(lib.nn, kind + "Cell")(3, 4, **options))
    x, h = draw(2, 3), draw(2, 4)
    for lib, module in ((lg, ours), (torch, theirs)):
        state = lib.tensor(h)
        for _ in range(3):
            state = module(lib.tensor(x), (state, state) if kind == "LSTM" else state)
            state = state[0] * state[1] if kind == "LSTM" else state
        (state * state).sum().backward()
        module.result = state.detach()
    close(ours.result, theirs.result)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad)


# ---------------------------------------------------------------------------------------- norms


def layers(lib: Any, name: str) -> Any:
    builders = {
        "linear": lambda: lib.nn.Linear(4, 3),
        "conv": lambda: lib.nn.Conv2d(2, 3, 2),
        "transposed": lambda: lib.nn.ConvTranspose1d(2, 3, 2),
    }
    return builders[name]()


INPUTS = {"linear": (5, 4), "conv": (2, 2, 4, 4), "transposed": (2, 2, 5)}


@pytest.mark.parametrize("layer", INPUTS)
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(layer: str, dim: int | None) -> None:
    x = draw(*INPUTS[layer])
    ours, theirs = twins(
        lambda lib: lib.nn.utils.parametrizations.weight_norm(layers(lib, layer), dim=dim)
    )
    same_step(ours, theirs, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old, their_old = twins(lambda lib: lib.nn.utils.weight_norm(layers(lib, layer), dim=dim))
    same_step(old, their_old, x)
    nn.utils.remove_weight_norm(old)
    assert set(old.state_dict()) == {"weight", "bias"}
    # The old names are understood by the new form.
    ours.load_state_dict(their_old.state_dict())
    close(ours(lg.tensor(x)), their_old(torch.tensor(x)))


@pytest.mark.parametrize("layer", INPUTS)
def test_spectral_norm(layer: str) -> None:
    x = draw(*INPUTS[layer])
    for form in ("parametrizations.spectral_norm", "spectral_norm"):

        def build(lib: Any, form: str = form) -> Any:
            function = lib.nn.utils
            for part in form.split("."):
                function = getattr(function, part)
            return function(layers(lib, layer), n_power_iterations=2)

        ours, theirs = twins(build)
        for _ in range(2):
            for p in (*ours.parameters(), *theirs.parameters()):
                p.grad = None
            same_step(ours, theirs, x)
        for key, value in theirs.state_dict().items():
            close(ours.state_dict()[key], value)
        same = ours.eval()(lg.tensor(x))
        close(same, theirs.eval()(torch.tensor(x)))


MAPS = [(m, t, s) for m in ("matrix_exp", "cayley", "householder") for t in (True, False)
        for s in ((4, 4), (3, 5), (5, 3)) if t or m == "householder"]  # fmt: skip


@pytest.mark.parametrize(("kind", "trivial", "shape"), MAPS, ids=str)
def test_orthogonal(kind: str, trivial: bool, shape: tuple[int, int]) -> None:
    def build(lib: Any) -> Any:
        layer = lib.nn.Linear(*shape).double()
        orthogonal = lib.nn.utils.parametrizations.orthogonal
        return orthogonal(layer, orthogonal_map=kind, use_trivialization=trivial)

    ours, theirs = twins(build)
    weight = ours.weight.detach().numpy()
    tall = weight if weight.shape[0] >= weight.shape[1] else weight.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(tall.shape[1]), atol=1e-12)
    same_step(ours, theirs, draw(2, shape[0]))
    # A value that is assigned comes back.
    start, _ = np.linalg.qr(draw(5, 5))
    part = start[: weight.shape[0], :] if weight.shape[0] < weight.shape[1] else start
    ours.weight = lg.tensor(part[: weight.shape[0], : weight.shape[1]] if trivial else weight)
    assert np.isfinite(ours.weight.detach().numpy()).all()


# -------------------------------------------------------------------------------------- pruning


def test_pruning_in_turns() -> None:
    ours, theirs = twins(lambda lib: lib.nn.Conv2d(3, 4, 2))
    for lib_prune, module in ((prune, ours), (T.prune, theirs)):
        lib_prune.l1_unstructured(module, "weight", 0.3)
        lib_prune.ln_structured(module, "weight", 1, n=2, dim=0)
        lib_prune.l1_unstructured(module, "weight", 5)
        lib_prune.identity(module, "bias")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        close(ours.state_dict()[key], value)
    same_step(ours, theirs, draw(2, 3, 4, 4))
    assert prune.is_pruned(ours)
    prune.remove(ours, "weight")
    T.prune.remove(theirs, "weight")
    close(ours.weight, theirs.weight)
    assert not any("weight_" in key for key in ours.state_dict())


def test_global_pruning() -> None:
    ours, theirs = twins(lambda lib: lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Linear(4, 2)))
    for lib_prune, net in ((prune, ours), (T.prune, theirs)):
        chosen = [(net[0], "weight"), (net[1], "weight"), (net[0], "bias")]
        lib_prune.global_unstructured(chosen, lib_prune.L1Unstructured, amount=0.4)
    for key, value in theirs.state_dict().items():
        close(ours.state_dict()[key], value)
    same_step(ours, theirs, draw(5, 3))


def test_random_pruning_prunes_as_much() -> None:
    layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.25)
    assert layer.weight_mask.sum().item() == 75
    layer = prune.random_structured(nn.Linear(10, 4), "weight", 2, dim=1)
    assert sorted(layer.weight_mask.sum(0).tolist()) == [0.0] * 2 + [4.0] * 8
    with pytest.raises(ValueError, match="smaller than the number"):
        prune.l1_unstructured(layer, "bias", 100)


# ----------------------------------------------------------------------------------- the others


@pytest.mark.parametrize("transposed", [False, True])
def test_fusion(transposed: bool) -> None:
    def build(lib: Any) -> Any:
        kind = lib.nn.ConvTranspose2d if transposed else lib.nn.Conv2d
        return lib.nn.Sequential(kind(2, 3, 2, bias=False), lib.nn.BatchNorm2d(3))

    ours, theirs = twins(build)
    x = draw(4, 2, 5, 5)
    ours(lg.tensor(x))
    theirs(torch.tensor(x))
    fused = nn.utils.fuse_conv_bn_eval(*ours.eval(), transposed)
    close(fused(lg.tensor(x)), theirs.eval()(torch.tensor(x)))
    linear, norm = nn.Linear(3, 4).double().eval(), nn.BatchNorm1d(4).double().eval()
    with lg.no_grad():
        norm.running_mean.add_(0.5)
        norm.running_var.mul_(2.0)
    y = lg.tensor(draw(2, 3))
    close(nn.utils.fuse_linear_bn_eval(linear, norm)(y), norm(linear(y)))


def test_parametrizations_stack_and_share_values() -> None:
    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    class Double(nn.Module):
        calls = 0

        def forward(self, x: Any) -> Any:
            Double.calls += 1
            return 2 * x

    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert layer.weight.tolist() == layer.weight.T.tolist()
    parametrize.register_parametrization(layer, "weight", Double())
    Double.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert Double.calls == 1
    assert parametrizations is nn.utils.parametrizations


def test_parameters_are_parts_of_the_vector() -> None:
    def run(T: Any) -> Any:
        m, vector = T.nn.Linear(3, 2), T.arange(8.0)
        T.nn.utils.vector_to_parameters(vector, m.parameters())
        update = T.optim.SGD(m.parameters(), 0.5)
        m(T.ones(2, 3)).sum().backward()
        update.step()
        vector[-1] = 100.0
        parts = [(p.tolist(), p.stride(), p.storage_offset(), p.is_leaf) for p in m.parameters()]
        return vector.tolist(), parts

    assert run(lg) == run(torch)
