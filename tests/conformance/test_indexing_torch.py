"""Indexing by random keys against PyTorch: ints beside index tensors, dtypes, in-place sums."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from index_keys import cases

import livegrad as lg

torch = pytest.importorskip("torch")

quick = settings(max_examples=80)
DTYPES = ("float64", "float32", "int64", "int16", "bool")


def key_for(module: Any, key: tuple[Any, ...], byte_masks: bool) -> Any:
    """The key with tensors of `module` for arrays; masks may be of bytes."""

    def part(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        return module.tensor(x.astype(np.uint8) if byte_masks and x.dtype == bool else x)

    parts = tuple([part(x) for x in key])
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], list) else parts


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed).uniform(-9, 9, shape)
    return numbers > 0 if dtype == "bool" else numbers.astype(dtype)


def run(module: Any, case: Any, dtype: str, seed: int) -> Any:
    """Reads, writes and adds at a key; arrays of what came of it, or the class of an error."""
    shape, key = case
    rng = random.Random(seed)
    byte_masks, other = rng.random() < 0.2, rng.choice(DTYPES)
    if any(isinstance(part, np.ndarray | list) for part in key):
        other = dtype  # PyTorch converts only what is written through ints and slices
    found = []
    try:
        x = module.tensor(values(shape, dtype))
        at = key_for(module, key, byte_masks)
        part = x[at]
        found.append(part)
        if byte_masks:  # which PyTorch reads by, but does not write by
            return [np.asarray(part)]
        writable = x * True if dtype == "bool" else x * 1
        writable[at] = 1
        found.append(writable.clone())
        writable[at] = module.tensor(values(tuple(part.shape), other, 1))
        found.append(writable.clone())
        writable[at] = module.tensor(values(tuple(part.shape)[-1:], other, 2))
        found.append(writable.clone())
        if dtype != "bool":
            writable[at] += 2
            found.append(writable.clone())
        return [np.asarray(y) for y in found]
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@given(cases(ints_beside_arrays=True), st.sampled_from(DTYPES), st.integers(0, 1000))
@quick
def test_agrees(case, dtype, seed):
    want, got = run(torch, case, dtype, seed), run(lg, case, dtype, seed)
    if isinstance(want, type) or isinstance(got, type):
        assert got is want
        return
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def gradients(module: Any, case: Any) -> Any:
    """First and second gradients of reading and writing at a key."""
    shape, key = case
    try:
        x = module.tensor(values(shape, "float64"), requires_grad=True)
        at = key_for(module, key, False)
        v = module.tensor(values(tuple(x[at].shape), "float64", 1), requires_grad=True)
        y = x * x
        y[at] = v * v + x[at]
        loss = (y**3 * module.tensor(values(shape, "float64", 2))).sum()
        first = module.autograd.grad(loss, [x, v], create_graph=True)
        total = first[0].sum() + first[1].sum()
        second = module.autograd.grad(total, [x, v])
        return [np.asarray(g.detach()) for g in (*first, *second)]
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@given(cases(ints_beside_arrays=True))
@quick
def test_gradients_agree(case):
    want, got = gradients(torch, case), gradients(lg, case)
    if isinstance(want, type) or isinstance(got, type):
        assert got is want
        return
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
