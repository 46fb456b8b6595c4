"""Products of half precisions with something added are rounded once, as PyTorch's are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

Call = Callable[..., Any]
# name: (call, shapes)
CASES: dict[str, tuple[Call, list[tuple[int, ...]]]] = {
    "linear": (lambda T, x, w, b: T.nn.functional.linear(x, w, b), [(33, 47), (20, 47), (20,)]),
    "of a vector": (lambda T, x, w, b: T.nn.functional.linear(x, w, b), [(47,), (20, 47), (20,)]),
    "of a batch": (
        lambda T, x, w, b: T.nn.functional.linear(x, w, b),
        [(3, 5, 47), (20, 47), (20,)],
    ),
    "conv1d": (lambda T, x, w, b: T.nn.functional.conv1d(x, w, b), [(2, 3, 20), (4, 3, 5), (4,)]),
    "conv2d": (
        lambda T, x, w, b: T.nn.functional.conv2d(x, w, b, padding=1),
        [(2, 4, 9, 9), (6, 4, 3, 3), (6,)],
    ),
    "groups": (
        lambda T, x, w, b: T.nn.functional.conv2d(x, w, b, groups=2),
        [(2, 4, 9, 9), (6, 2, 3, 3), (6,)],
    ),
    "addmm": (
        lambda T, x, a, b: T.addmm(x, a, b, beta=-4.775, alpha=2.0315),
        [(33, 20), (33, 47), (47, 20)],
    ),
    "addmm, broadcast": (lambda T, x, a, b: T.addmm(x, a, b), [(20,), (33, 47), (47, 20)]),
    "baddbmm": (
        lambda T, x, a, b: T.baddbmm(x, a, b, beta=0.7, alpha=1.3),
        [(3, 8, 9), (3, 8, 40), (3, 40, 9)],
    ),
}


def given(shapes: list[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype("f") for shape in shapes]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_rounded_once(case: str, dtype: str) -> None:
    call, shapes = CASES[case]
    operands = [torch.tensor(x).to(getattr(torch, dtype)) for x in given(shapes)]
    right = call(torch, *[x.double() for x in operands]).to(getattr(torch, dtype))
    mine = call(lg, *[lg.tensor(x.float().numpy()).to(getattr(lg, dtype)) for x in operands])
    assert str(mine.dtype).endswith(dtype)
    same = np.asarray(mine.float().tolist()) == right.float().numpy()
    assert same.mean() > 0.99  # sums of float32 may lie beside the middle of two halves


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_transposed_convolutions(stride: int) -> None:
    """Where the stride is more than the window there are places that get the bias alone."""
    found = []
    for T in (torch, lg):
        x, w, b = (T.tensor(a).to(T.bfloat16) for a in given([(2, 3, 7, 7), (3, 4, 3, 3), (4,)]))
        y = T.nn.functional.conv_transpose2d(x.requires_grad_(), w, b, stride=stride)
        y.float().square().sum().backward()
        found.append((y.detach().float().tolist(), x.grad.float().tolist()))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=2**-7, atol=1e-6)
    torch.testing.assert_close(found[1][1], found[0][1], rtol=2**-5, atol=1e-1)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: str) -> None:
    call, shapes = CASES[case]
    found = []
    for T in (torch, lg):
        operands = [T.tensor(x).to(T.bfloat16).requires_grad_() for x in given(shapes)]
        call(T, *operands).float().sum().backward()
        assert all(x.grad.dtype is T.bfloat16 for x in operands)
        found.append([x.grad.float().tolist() for x in operands])
    for mine, theirs in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2**-5, atol=1e-1)


# What PyTorch does with a number beside half precisions: most kernels round it to one first,
# products and quotients keep it as it is.
NUMBERS: dict[str, Call] = {
    "x + s": lambda T, x, y, s: x + s,
    "s - x": lambda T, x, y, s: s - x,
    "x * s": lambda T, x, y, s: x * s,
    "x / s": lambda T, x, y, s: x / s,
    "s / x": lambda T, x, y, s: s / x,
    "x ** s": lambda T, x, y, s: x.abs() ** s,
    "s ** x": lambda T, x, y, s: s**x,
    "x % s": lambda T, x, y, s: x % s,
    "s % x": lambda T, x, y, s: T.remainder(s, x),
    "fmod": lambda T, x, y, s: T.fmod(x, s),
    "x // s": lambda T, x, y, s: x // s,
    "truncated": lambda T, x, y, s: T.div(x, s, rounding_mode="trunc"),
    "x > s": lambda T, x, y, s: x > s,
    "x <= s": lambda T, x, y, s: x <= s,
    "x == s": lambda T, x, y, s: x == s,
    "written": lambda T, x, y, s: x.clone().add_(s).mul_(s).sub_(s).div_(s),
    "in turn": lambda T, x, y, s: (x * s + s) / s - s,
    "add, alpha": lambda T, x, y, s: T.add(x, y, alpha=s),
    "sub, alpha": lambda T, x, y, s: T.sub(x, y, alpha=s),
    "add_, alpha": lambda T, x, y, s: x.clone().add_(y, alpha=-s),
    "a number, alpha": lambda T, x, y, s: T.add(x, s, alpha=0.7),
    "softshrink": lambda T, x, y, s: T.nn.functional.softshrink(x, s),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_beside_half_precisions(case: str, dtype: str) -> None:
    found = []
    for T in (torch, lg):
        # Whole vectors: what is left over PyTorch computes in another way, and rounds twice.
        x, y = (T.tensor(a).to(getattr(T, dtype)) for a in given([(1024,), (1024,)]))
        x[:3] = 0.3
        found.append(NUMBERS[case](T, x, y, 0.3).float().tolist())
    assert found[1] == found[0]
