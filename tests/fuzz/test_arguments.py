"""Random arguments: every public function answers them, or refuses them in words meant for users.

    LIVEGRAD_FUZZ_EXAMPLES=20 pytest tests/fuzz/test_arguments.py     more calls of each, other ones

A call may give a value, which is read and differentiated, or raise what PyTorch raises. It must not
raise from inside, nor only when the values are read (unless the values are what is wrong, and then
the error names the line), nor disturb what is computed after it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from arguments import GROUPS, check_call, functions, random_call

import livegrad as lg
import livegrad.nn.functional as F

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("LIVEGRAD_FUZZ_EXAMPLES", "0"))
# Tests of one group, so that they can be shared among processes.
PARTS = {"livegrad": 3, "linalg": 1, "special": 1, "fft": 1, "nn.functional": 1, "Tensor": 3}


@pytest.mark.parametrize(
    ("group", "part"), [(group, part) for group in GROUPS for part in range(PARTS[group])]
)
def test_random_arguments(group: str, part: int) -> None:
    names = list(functions(group).items())[part :: PARTS[group]]
    for name, function in names:
        for number in range(EXAMPLES or 1):
            seed = f"{group}.{name}.{number}" + (os.urandom(4).hex() if EXAMPLES else "")
            call = random_call(Random(seed), group, name, function)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check_call(call)


def test_every_function_is_called() -> None:
    counts = {group: len(functions(group)) for group in GROUPS}
    assert counts["livegrad"] > 440
    assert counts["nn.functional"] > 120
    assert counts["Tensor"] > 520


x = lg.ones(2, 2)
# A call with an argument of the wrong class: what names it.
WRONG_CLASSES: list[tuple[Callable[[], Any], str]] = [
    (lambda: lg.add("a", 1), "add(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: lg.sin("a"), "sin(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda: lg.matmul([1], x), "matmul(): argument 'input' (position 1) must be Tensor, not list"),
    (lambda: lg.dot(None, x), "dot(): argument 'input' (position 1) must be Tensor, not NoneType"),
    (lambda: x + None, "unsupported operand type(s) for +: 'Tensor' and 'NoneType'"),
    (lambda: F.linear(x, None), "linear(): argument 'weight' (position 2) must be Tensor, not"),
    (lambda: F.cross_entropy(x, [0, 1]), "cross_entropy(): argument 'target' (position 2)"),
    (lambda: lg.clamp(x, "a"), "clamp(): argument 'min' (position 2) must be Tensor or number"),
    (lambda: lg.maximum(x, 1), "maximum(): argument 'other' (position 2) must be Tensor, not int"),
    (lambda: lg.linalg.inv(3), "inv(): argument 'A' (position 1) must be Tensor, not int"),
    (lambda: lg.linalg.multi_dot([x, 2]), "multi_dot(): element 1 of argument 'tensors'"),
    (lambda: lg.gather(x, 0, [0]), "gather(): argument 'index' (position 3) must be Tensor"),
    (lambda: lg.count_nonzero({}), "count_nonzero(): argument 'input' (position 1) must be Tensor"),
    (lambda: lg.topk(x, "a"), "topk(): argument 'k' (position 2) must be int, not str"),
    (lambda: lg.hstack(5), "hstack(): argument 'tensors' (position 1) must be tuple of Tensors"),
    (lambda: F.layer_norm(x, 2), "layer_norm(): argument 'normalized_shape' (position 2) must be"),
    (lambda: F.pad(x, 1), "pad(): argument 'pad' (position 2) must be tuple of ints, not int"),
    (lambda: lg.rot90(x, dims=1), "rot90(): argument 'dims' (position 3) must be tuple of ints"),
    (lambda: lg.arange("a"), "arange(): argument 'end' must be Number, not str"),
    (lambda: lg.any(x, keepdim=[1]), "any(): argument 'keepdim' (position 3) must be a number"),
    (lambda: lg.zeros_like(x, dtype=x), "dtype: Tensor is not supported; expected one of bool"),
    (lambda: x.sum(dtype=[1]), "dtype: list is not supported; expected one of bool"),
    (lambda: x.repeat_interleave(""), "repeat_interleave(): argument 'repeats' (position 2) must"),
]


@pytest.mark.parametrize(("call", "words"), WRONG_CLASSES, ids=[w for _, w in WRONG_CLASSES])
def test_wrong_class_is_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert words in str(caught.value)


# Calls that fuzzing found to go wrong: what they raise, and words of it.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ldl_solve([-1, 2, -2]), RuntimeError, "negative pivots must come in pairs"),
    (lambda: ldl_solve([-1, -1, -1]), RuntimeError, "negative pivots must come in pairs"),
    (lambda: ldl_solve([0, 1, 2]), RuntimeError, "must all satisfy 1 <= |pivot| <="),
    (lambda: ldl_solve([1, 2, 4]), RuntimeError, "must all satisfy 1 <= |pivot| <="),
    (lambda: ldl_solve([1, 2]), RuntimeError, "LD.shape[:-1] and pivots.shape to be the same"),
    (lambda: F.max_unpool2d(lg.ones(1), lg.tensor([0]), 2), RuntimeError, "max_unpool2d"),
    (lambda: F.threshold(lg.tensor([1]), 0, float("nan")), RuntimeError, "without overflow"),
    (lambda: F.hardtanh(lg.tensor([1]), 0, float("inf")), RuntimeError, "without overflow"),
    (lambda: lg.full((2,), float("inf"), dtype=lg.int8), RuntimeError, "without overflow"),
    (lambda: lg.broadcast_shapes(1, 0.5), RuntimeError, "Input shapes should be of type ints"),
    (lambda: lg.linspace(0, float("nan"), 3, dtype=lg.int32), RuntimeError, "without overflow"),
    (lambda: lg.gradient(lg.tensor(3.0), dim=0), IndexError, "tensor has no dimensions"),
    (lambda: group_norm(3), RuntimeError, "N, C and HxW must be the sizes of the input"),
    (lambda: lg.frombuffer(1, dtype=lg.int8), ValueError, "Python buffer protocol"),
]


def ldl_solve(pivots: list[int]) -> Any:
    factors = lg.eye(3) + 0.1
    return lg.linalg.ldl_solve(factors, lg.tensor(pivots), lg.ones(3, 2)).tolist()


def group_norm(examples: int) -> Any:
    return lg.native_group_norm(lg.ones(2, 4, 3), None, None, examples, 4, 3, 2, 1e-5)


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[w for *_, w in REFUSED])
def test_refused(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_shift_of_a_number() -> None:
    assert lg.fft.fftshift(lg.tensor(2.0), (0,)).item() == 2.0


def test_threshold_keeps_integers() -> None:
    y = F.threshold(lg.tensor([1, 2, 3]), 2.5, 7.5)
    assert y.dtype is lg.int64
    assert y.tolist() == [7, 7, 3]


def test_einsum_sums_small_integers_as_int64() -> None:
    y = lg.einsum("ij->i", lg.full((2, 3), 200, dtype=lg.uint8))
    assert y.dtype is lg.int64
    assert y.tolist() == [600, 600]
