"""The dtype of a result, or the error, for every pair of real dtypes, with and without dims."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import livegrad as lg
import livegrad.nn

torch = pytest.importorskip("torch")

DTYPES = "bool uint8 int16 int64 float16 bfloat16 float32 float64".split()
SHAPES = [((1,), (1,)), ((1,), ()), ((), (1,))]
PAIRS = (Path(__file__).parent / "dtype_pairs.txt").read_text().splitlines()[1:]

# Not as in PyTorch, which computes these in one more dtype, or refuses more.
DIFFERENT = {
    "T.clamp(a,b,b)": "bools are taken",
    "F.binary_cross_entropy_with_logits(a,b)": "integers beside floats are taken for logits",
    "F.poisson_nll_loss(a,b)": "integers beside halves give halves, bools are taken",
    "F.soft_margin_loss(a,b)": "an input without dims is broadcast",
}


def outcome(module, call, names, shapes):
    a, b = [
        module.ones(shape, dtype=getattr(module, name))
        for name, shape in zip(names, shapes, strict=True)
    ]
    try:
        result = eval(call, {"T": module, "F": module.nn.functional, "a": a, "b": b})
    except Exception as error:
        return type(error)
    return str((result[0] if isinstance(result, tuple) else result).dtype).rpartition(".")[-1]


def agree(ours, theirs):
    if isinstance(ours, type) and isinstance(theirs, type):
        return issubclass(ours, theirs)
    return ours == theirs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [call for call in PAIRS if call not in DIFFERENT])
def test_agrees(call):
    wrong = []
    for shapes, names in itertools.product(SHAPES, itertools.product(DTYPES, DTYPES)):
        ours = outcome(lg, call, names, shapes)
        theirs = outcome(torch, call, names, shapes)
        if not agree(ours, theirs):
            wrong.append((names, shapes, ours, theirs))
    assert not wrong
