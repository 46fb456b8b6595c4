"""Attention whose scores a function changes is what the formula says."""

from __future__ import annotations

import math
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.nn.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def near(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q - k).abs() < 2


@pytest.fixture
def inputs() -> tuple[Any, ...]:
    lg.manual_seed(0)
    return tuple(lg.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3))


def test_without_a_function_it_is_attention(inputs: Any) -> None:
    lg.testing.assert_close(flex_attention(*inputs), F.scaled_dot_product_attention(*inputs))
    out = flex_attention(*inputs, scale=0.3)
    lg.testing.assert_close(out, F.scaled_dot_product_attention(*inputs, scale=0.3))


def test_masks(inputs: Any) -> None:
    mask = create_block_mask(causal, None, None, 5, 5)
    expected = F.scaled_dot_product_attention(*inputs, is_causal=True)
    lg.testing.assert_close(flex_attention(*inputs, block_mask=mask), expected)
    both = create_mask(and_masks(causal, near), None, None, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    either = create_mask(or_masks(causal, near), 2, 1, 3, 3)
    assert either.shape == (2, 1, 3, 3)
    assert either[0, 0].int().tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert create_mask(noop_mask, None, None, 2, 2).all()


def test_scores_with_gradients(inputs: Any) -> None:
    query, key, value = inputs
    slopes = lg.tensor([0.1, 0.2, 0.3], requires_grad=True)
    out = flex_attention(*inputs, score_mod=lambda s, b, h, q, k: s - slopes[h] * (q - k).abs())
    distance = (lg.arange(5)[:, None] - lg.arange(5)).abs()
    scores = query @ key.transpose(-2, -1) / 2 - slopes[:, None, None] * distance
    expected = scores.softmax(-1) @ value
    lg.testing.assert_close(out, expected)
    ours = lg.autograd.grad(out.sum() + (out * out).sum(), (query, slopes), retain_graph=True)
    theirs = lg.autograd.grad(expected.sum() + (expected * expected).sum(), (query, slopes))
    for a, b in zip(ours, theirs, strict=True):
        lg.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_rows_that_keep_nothing_are_zero(inputs: Any) -> None:
    mask = create_block_mask(lambda b, h, q, k: (q > 0) & (k >= 0), None, None, 5, 5)
    out, lse = flex_attention(*inputs, block_mask=mask, return_lse=True)
    assert out[:, :, 0].abs().sum().item() == 0
    assert lse[0, 0, 0].item() == -math.inf


def test_what_else_is_asked_for(inputs: Any) -> None:
    query, key, _ = inputs
    out, aux = flex_attention(*inputs, return_aux=AuxRequest(lse=True, max_scores=True))
    plain, lse = flex_attention(*inputs, return_lse=True)
    lg.testing.assert_close(out, plain)
    lg.testing.assert_close(aux.lse, lse)
    lg.testing.assert_close(aux.max_scores, (query @ key.transpose(-2, -1) / 2).amax(-1))
    assert flex_attention(*inputs, return_aux=AuxRequest())[1] == (None, None)
    with pytest.raises(ValueError, match="return_aux"):
        flex_attention(*inputs, return_lse=True, return_aux=AuxRequest())


def test_groups_of_heads() -> None:
    query, key = lg.randn(1, 4, 3, 2), lg.randn(1, 2, 3, 2)
    out = flex_attention(query, key, key, enable_gqa=True)
    lg.testing.assert_close(out[:, 3], flex_attention(query[:, 3:], key[:, 1:], key[:, 1:])[:, 0])
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex_attention(query, key, key)
    with pytest.raises(ValueError, match="4D"):
        flex_attention(query[0], key[0], key[0])


def test_blocks() -> None:
    mask = create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=2)
    assert mask.shape == (1, 1, 5, 5)
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.sparsity() == pytest.approx(100 / 3, rel=1e-4)
