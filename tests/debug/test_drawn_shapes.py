"""Errors about shapes begin with PyTorch's line, and show which dims do not fit."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.graph.drawing import Shown, below_each_other, in_a_row

CASES: dict[str, tuple[Any, str, str]] = {
    "matmul": (
        lambda: lg.ones(32, 64) @ lg.ones(32, 10),
        "mat1 and mat2 shapes cannot be multiplied (32x64 and 32x10)",
        "  a (32, 64) @ b (32, 10)\n         ~~       ~~\n",
    ),
    "bmm": (
        lambda: lg.bmm(lg.ones(2, 3, 4), lg.ones(2, 5, 6)),
        "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].",
        "  a (2, 3, 4) @ b (2, 5, 6)\n           ~          ~\n",
    ),
    "linear": (
        lambda: F.linear(lg.ones(2, 3, 7), lg.ones(5, 4)),
        "mat1 and mat2 shapes cannot be multiplied (6x7 and 4x5)",
        "  input (2, 3, 7) and weight (5, 4)\n               ~                 ~\n",
    ),
    "add": (
        lambda: lg.ones(8, 1, 64, 3) + lg.ones(7, 65, 3),
        "The size of tensor a (64) must match the size of tensor b (65) at non-singleton dimension "
        "2",
        "  a   8  1  64  3\n  b      7  65  3\n            ~~\n",
    ),
    "cat": (
        lambda: lg.cat([lg.ones(3, 4), lg.ones(3, 4), lg.ones(2, 15)]),
        "Sizes of tensors must match except in dimension 0. Expected size 4 but got size 15 for "
        "tensor number 2 in the list.",
        "  tensor 0   3   4\n  tensor 2   2  15\n                ~~\n",
    ),
    "conv2d": (
        lambda: F.conv2d(lg.ones(1, 3, 8, 8), lg.ones(4, 2, 3, 3)),
        "Given groups=1, weight of size [4, 2, 3, 3], expected input[1, 3, 8, 8] to have 2 "
        "channels, but got 3 channels instead",
        "  input (1, 3, 8, 8) and weight (4, 2, 3, 3)\n            ~                       ~\n",
    ),
    "conv_transpose2d": (
        lambda: F.conv_transpose2d(lg.ones(1, 3, 8, 8), lg.ones(2, 4, 3, 3)),
        "Given groups=1, weight of size [2, 4, 3, 3], expected input[1, 3, 8, 8] to have 2 "
        "channels, but got 3 channels instead",
        "  input (1, 3, 8, 8) and weight (2, 4, 3, 3)\n            ~                    ~\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_errors(name: str) -> None:
    call, first, drawing = CASES[name]
    with pytest.raises(RuntimeError) as caught:
        call()
    text = str(caught.value)
    assert text.split("\n", 1)[0] == first
    assert drawing in text
    assert ("matmul" if name == "bmm" else name) in text.rsplit("\n", 1)[1]


def test_shapes_without_dims() -> None:
    assert in_a_row(Shown("a", ()), " @ ", Shown("b", (3,), {0})) == (
        "  a () @ b (3,)\n            ~"
    )
    assert below_each_other([Shown("a", ()), Shown("b", (3,), {0})]) == "  a\n  b   3\n      ~"
