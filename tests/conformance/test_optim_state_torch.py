"""What optimisers keep for a parameter: the same tensors and numbers as PyTorch's, shared alike."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "ASGD": {},
    "Adafactor": {},
    "Muon": {},
}
COUNTING = [name for name in OPTIMIZERS if name not in ("SGD", "Muon")]


def made(T: Any, name: str, *params: Any) -> Any:
    return getattr(T.optim, name)(params, lr=0.1, **OPTIMIZERS[name])


def parameter(T: Any) -> Any:
    return T.nn.Parameter(T.arange(12.0).reshape(3, 4) / 10)


def step(optimizer: Any) -> None:
    optimizer.zero_grad()
    sum([(p * p).sum() for p in optimizer.param_groups[0]["params"]]).backward()
    optimizer.step()


def described(values: dict[str, Any]) -> dict[str, Any]:
    return {k: (str(v.dtype).split(".")[-1], *v.shape) for k, v in values.items()}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_of_a_parameter(name: str) -> None:
    found = []
    for T in (torch, lg):
        p, q = parameter(T), parameter(T)
        optimizer = made(T, name, p, q)
        step(optimizer)
        held = dict(optimizer.state[p])
        step(optimizer)
        state = optimizer.state[p]
        assert all(state[k] is v for k, v in held.items())  # they move in place
        assert optimizer.state_dict()["state"][0] is state
        assert all(state[k] is not optimizer.state[q][k] for k in state)
        numbers = {k: float(v) for k, v in state.items() if v.numel() == 1}
        found.append((described(state), numbers))
    assert found[1][0] == found[0][0]
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("wide", [False, True])
def test_loaded_state_is_that_of_the_state_dict(name: str, wide: bool) -> None:
    """Unless parameters have another dtype; a step count stays what it is even then."""
    found = []
    for T in (torch, lg):
        p = parameter(T)
        optimizer = made(T, name, p)
        step(optimizer)
        other = T.nn.Parameter(p.detach().double() if wide else p.detach().clone())
        loaded = made(T, name, other)
        loaded.load_state_dict(optimizer.state_dict())
        same = {k: loaded.state[other][k] is v for k, v in optimizer.state[p].items()}
        step(loaded)
        values = [v.double().tolist() for v in optimizer.state[p].values()]
        found.append((same, described(loaded.state[other]), values))
    assert found[1][:2] == found[0][:2]
    for mine, theirs in zip(found[1][2], found[0][2], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", COUNTING)
def test_written_step_counts(name: str) -> None:
    """Filled, replaced by another tensor, seen through a view, loaded as a plain number."""
    found = []
    for T in (torch, lg):
        p, q = parameter(T), parameter(T)
        optimizer = made(T, name, p, q)
        step(optimizer)
        optimizer.state[p]["step"].fill_(5.0)
        step(optimizer)
        counts = [float(optimizer.state[x]["step"]) for x in (p, q)]
        optimizer.state[q]["step"] = T.tensor(9.0)
        seen = optimizer.state[p]["step"].view(1)
        step(optimizer)
        counts += [float(optimizer.state[x]["step"]) for x in (p, q)]
        counts += seen.tolist()
        saved = copy.deepcopy(optimizer.state_dict())
        saved["state"][0]["step"] = 20
        optimizer.load_state_dict(saved)
        step(optimizer)
        counts += [float(optimizer.state[x]["step"]) for x in (p, q)]
        found.append((counts, described(optimizer.state[p]), p.tolist()))
    assert found[1][:2] == found[0][:2]
    torch.testing.assert_close(found[1][2], found[0][2], rtol=1e-4, atol=1e-5)


def test_step_counts_are_float64_by_default_dtype() -> None:
    for T in (torch, lg):
        T.set_default_dtype(T.float64)
        try:
            p = T.nn.Parameter(T.ones(2))
            optimizer = T.optim.Adam([p])
            step(optimizer)
            step(optimizer)
            count = optimizer.state[p]["step"]
        finally:
            T.set_default_dtype(T.float32)
        assert count.dtype is T.float64
        assert count.item() == 2.0


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_plain_numbers_of_sparse_adam() -> None:
    for T in (torch, lg):
        p = parameter(T)
        p.grad = T.sparse_coo_tensor(T.tensor([[0, 2]]), T.ones(2, 4), (3, 4))
        optimizer = T.optim.SparseAdam([p])
        optimizer.step()
        optimizer.step()
        assert type(optimizer.state[p]["step"]) is int
        assert optimizer.state[p]["step"] == 2


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shape", [(24, 40), (40, 24)])
def test_muon_rounds_as_pytorch(shape: tuple[int, int], nesterov: bool) -> None:
    start = torch.linspace(-1, 1, 960).sin().reshape(shape)
    found = []
    for T in (torch, lg):
        p = T.nn.Parameter(T.tensor(start.numpy()))
        optimizer = T.optim.Muon([p], lr=0.1, nesterov=nesterov)
        for _ in range(3):
            step(optimizer)
        found.append(p.detach().tolist())
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)
