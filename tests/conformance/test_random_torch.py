"""Seeds of generators against PyTorch's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import livegrad as lg  # noqa: E402


@pytest.mark.parametrize("seed", [0, 3, -5, -(2**63), 2**63, 2**64 - 1])
def test_initial_seed(seed):
    assert lg.manual_seed(seed).initial_seed() == torch.manual_seed(seed).initial_seed()
    assert lg.initial_seed() == torch.initial_seed()
    assert lg.Generator().manual_seed(seed).initial_seed() == lg.initial_seed()


def test_new_generators():
    assert lg.Generator().initial_seed() == torch.Generator().initial_seed()


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seeds_of_too_many_bits(seed):
    with pytest.raises(Exception) as theirs:
        torch.manual_seed(seed)
    with pytest.raises(theirs.type):
        lg.manual_seed(seed)


@pytest.mark.parametrize("framework", [lg, torch], ids=["livegrad", "torch"])
def test_seed(framework):
    first, second = framework.seed(), framework.seed()
    assert first != second
    assert framework.initial_seed() == second
