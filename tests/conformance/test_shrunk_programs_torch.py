"""More short programs that once differed from PyTorch, with their relatives."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from differential.run import quietly, run  # noqa: E402

PROGRAMS: dict[str, tuple[str, ...]] = {}

for order in itertools.permutations(range(3)):
    PROGRAMS[f"strides of what is picked beside new dims, of dims in the order {order}"] = (
        f"a = T.arange(24.0).reshape(2, 3, 4).permute({order})",
        "b = a[None, [0, 1]]; c = a[:, None, [0, 1]]; d = a[None, :, None, [0, 1]]",
        "e = a[None, [[0, 1]]]; f = a[None, [[0], [1]]]; g = a[None, [0, 1], None, [0, 1]]",
        "h = a[None, [0, 1], [[0, 1]]]; i = a[:, T.ones(a.shape[1], dtype=T.bool), None]",
        "check()",
    )
    PROGRAMS[f"strides of what transposed indices pick, of dims in the order {order}"] = (
        f"a = T.arange(24.0).reshape(2, 3, 4).permute({order})",
        "i = T.tensor([[0, 1], [1, 0], [1, 1]]); j = i.t(); k = i[:2, :1]",
        "b = a[j]; c = a[:, j]; d = a[j, j]; e = a[j, k]; f = a[k, j]; g = a[j, :, j]",
        "h = a[:, i[:1].expand(3, 2).t()]; l = a[None, j, None]",
        "check()",
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_torch(name: str) -> None:
    with quietly():
        found = run(PROGRAMS[name])
    assert found is None, found
