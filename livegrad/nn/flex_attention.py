"""`flex_attention`: attention whose scores a function of the user's changes.

    def causal(b, h, q, k):
        return q >= k

    def nearer(score, b, h, q, k):
        return score - 0.1 * (q - k).abs()

    block_mask = create_block_mask(causal, None, None, 64, 64)
    y = flex_attention(query, key, value, score_mod=nearer, block_mask=block_mask)

Such functions are called once, with all scores and with places that broadcast to them: what they
compute for one score they compute for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from livegrad.ops.layers.attention import safe_softmax
from livegrad.ops.picking.masking import where
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.statistics import logsumexp
from livegrad.ops.shaping.arranging import repeat_interleave
from livegrad.sequences import arange
from livegrad.tensor import Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128
Mask = Callable[[Any, Any, Any, Any], Any]


def _places(*sizes: int) -> list[Any]:
    """The place of each score along each dim, as tensors that broadcast to all scores."""
    count = len(sizes)
    return [
        arange(size).reshape([-1 if dim == i else 1 for dim in range(count)])
        for i, size in enumerate(sizes)
    ]


def create_mask(
    mod_fn: Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """What `mod_fn(b, h, q, k)` says of each place: (B, H, Q_LEN, KV_LEN), True where kept."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    kept = mod_fn(*_places(*sizes))
    return kept.broadcast_to(sizes)


class BlockMask:
    """Which scores count; made by `create_block_mask`."""

    def __init__(self, mask: Any, mask_mod: Mask, block_size: tuple[int, int]) -> None:
        self._mask = mask
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = block_size

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries and keys that the mask is for."""
        return tuple(self._mask.shape)

    def to_dense(self) -> Any:
        """Which blocks have a score that counts, as ones and zeros."""
        *lead, queries, keys = self._mask.shape
        rows, columns = (
            -(-n // size) for n, size in zip((queries, keys), self.BLOCK_SIZE, strict=True)
        )
        padded = self._mask.new_zeros(
            (*lead, rows * self.BLOCK_SIZE[0], columns * self.BLOCK_SIZE[1])
        )
        padded[..., :queries, :keys] = self._mask
        blocks = padded.reshape(*lead, rows, self.BLOCK_SIZE[0], columns, self.BLOCK_SIZE[1])
        return blocks.any(-1).any(-2).int()

    def sparsity(self) -> float:
        """How many of the blocks, in percent, have no score that counts."""
        return float(100 * (1 - self.to_dense().float().mean()))

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self._mask.to(device), self.mask_mod, self.BLOCK_SIZE)


def create_block_mask(
    mask_mod: Mask,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    **options: Any,
) -> BlockMask:
    """A mask of what `mask_mod(b, h, q, k)` keeps; B or H None: the same for all of them."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN), mask_mod, size)


def and_masks(*mask_mods: Mask) -> Mask:
    """Keeps what all of them keep."""

    def kept(b: Any, h: Any, q: Any, k: Any) -> Any:
        out = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            out = out & mod(b, h, q, k)
        return out

    return kept


def or_masks(*mask_mods: Mask) -> Mask:
    """Keeps what one of them keeps."""

    def kept(b: Any, h: Any, q: Any, k: Any) -> Any:
        out = mask_mods[0](b, h, q, k)
        for mod in mask_mods[1:]:
            out = out | mod(b, h, q, k)
        return out

    return kept


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Keeps everything."""
    return batch == batch  # True, in the shape of what broadcasts


class AuxRequest(NamedTuple):
    """What else `flex_attention` is to give."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What else it gives: of each row, what it was divided by (its logarithm), and its greatest."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """`softmax(score_mod(query keyᵀ · scale)) value` over (batch, heads, length, features).

    Rows that keep no score are 0. With `return_lse`, also the logarithm of what each row was
    divided by; `return_aux` asks for this and more.
    """
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: return_lse is the old way to say return_aux; give one")
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise ValueError("NYI: query, key, and value must be 4D tensors")
    if enable_gqa:
        times = query.shape[1] // key.shape[1]
        key, value = (repeat_interleave(x, times, dim=1) for x in (key, value))
    elif query.shape[1] != key.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq="
            f"{query.shape[1]} and Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    scores = matmul(query, key.transpose(-2, -1)) * (scale or 1 / math.sqrt(query.shape[-1]))
    if score_mod is not None:
        scores = score_mod(scores, *_places(*scores.shape))
    if block_mask is not None:
        *_, queries, keys = scores.shape
        scores = where(block_mask._mask[..., :queries, :keys], scores, -math.inf)
    out = matmul(safe_softmax(scores, -1).to(value.dtype), value)
    if return_aux is not None:
        lse = logsumexp(scores, -1) if return_aux.lse else None
        return out, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (out, logsumexp(scores, -1)) if return_lse else out
