"""Results of einsum and tensordot lie in memory as PyTorch's do, however their operands lie."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

EQUATIONS = """
    ij,jk->ik ij,jk->ki ij,jk bij,bjk->bik bij,bjk->kbi ...i,...i->... ij,kj->ki i,j->ij i,j->ji
    ij,ij->ji ij,ij->j ijk->ki ij->j ij,j->i ij,ik->kj ijk,k->ji abc,cd->dab abc,bd->acd abc,abd->cd
    ...ij,jk->...ik ij,jk,kl->il ij,jk,kl->li ab,bc,cd->bd i,j,k->kij ij,k->k ij,kl->j a,ab,b->ab
    ijk,j-> i,i->
""".split()
SIZES = {name: size for size, name in enumerate("ijklabcdxy", start=2)}


def lying(T: Any, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """Ones of a shape, whose dims lie in memory in another order."""
    stored = [shape[order.index(d)] for d in range(len(shape))]
    return T.ones(stored).permute(order)


@pytest.mark.parametrize("single", ["", "i", "j", "k"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str, single: str) -> None:
    terms = equation.partition("->")[0].replace("...", "xy").split(",")
    shapes = [tuple([1 if name == single else SIZES[name] for name in term]) for term in terms]
    orders = [list(permutations(range(len(shape))))[::3] for shape in shapes]
    for chosen in product(*orders):
        found = []
        for T in (torch, lg):
            operands = [lying(T, *given) for given in zip(shapes, chosen, strict=True)]
            found.append(T.einsum(equation, *operands).stride())
        assert found[1] == found[0], chosen


@pytest.mark.parametrize(
    "shapes", [((2, 3, 4), (4, 3, 5)), ((2, 1, 4), (4, 1, 5)), ((2, 1), (1, 3))]
)
def test_tensordot(shapes: tuple[tuple[int, ...], ...]) -> None:
    for dims in ([[-1], [0]], [[1], [1]]):
        for chosen in product(*[list(permutations(range(len(shape)))) for shape in shapes]):
            found = []
            for T in (torch, lg):
                a, b = [lying(T, *given) for given in zip(shapes, chosen, strict=True)]
                found.append(T.tensordot(a, b, dims).stride())
            assert found[1] == found[0], (dims, chosen)
