"""Llama and models built like it, under Hugging Face's names of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from livegrad import Tensor, arange, cat, tensor
from livegrad.nn import Embedding, Linear, Module, ModuleList, RMSNorm, functional as F
from livegrad.text.generation.cache import Cache
from livegrad.text.models.base import (
    Config,
    Output,
    Pretrained,
    allowed_pairs,
    attend,
    heads,
)
from livegrad.text.models.causal import CausalLM


@dataclass
class LlamaConfig(Config):
    """The sizes of a Llama; those of the first with 7 billion weights by default."""

    model_type: ClassVar[str] = "llama"
    vocab_size: int = 32000
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    initializer_range: float = 0.02
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        given = {**(self.rope_scaling or {}), **(self.rope_parameters or {})}
        self.rope_theta = given.pop("rope_theta", self.rope_theta)
        self.rope_parameters, self.rope_scaling = given, None


def frequencies(config: LlamaConfig) -> list[float]:
    """How far each pair of elements turns from one position to the next."""
    size, rope = config.head_dim or 0, config.rope_parameters or {}
    turns = [config.rope_theta ** -(i / size) for i in range(0, size, 2)]
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return turns
    if kind == "linear":
        return [turn / rope["factor"] for turn in turns]
    if kind == "llama3":
        return [_stretched(turn, rope) for turn in turns]
    raise ValueError(
        f"positions of the kind {kind!r} are not supported: default, linear, llama3 are"
    )


def _stretched(turn: float, rope: dict[str, Any]) -> float:
    """Slow turns are made slower, for texts longer than those of the first training."""
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    times = rope["original_max_position_embeddings"] * turn / (2 * math.pi)  # in such a text
    if times < low:
        return turn / float(rope["factor"])
    if times > high:
        return turn
    share = (times - low) / (high - low)
    return float((1 - share) * turn / rope["factor"] + share * turn)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of elements, one of each half, turned by the angles of their positions."""
    left, right = x.chunk(2, -1)
    return x * cos + cat([-right, left], -1) * sin


class LlamaAttention(Module):
    """Attention to what came before; several heads may share keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        size, bias = config.head_dim or 0, config.attention_bias
        inside = config.num_attention_heads * size
        shared = (config.num_key_value_heads or 0) * size
        self.q_proj = Linear(config.hidden_size, inside, bias)
        self.k_proj = Linear(config.hidden_size, shared, bias)
        self.v_proj = Linear(config.hidden_size, shared, bias)
        self.o_proj = Linear(inside, config.hidden_size, bias)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        cache: Cache | None,
        layer: int,
    ) -> Tensor:
        """(batch, positions, width) to the same."""
        shared = self.config.num_key_value_heads or 0
        q = turned(heads(self.q_proj(x), self.config.num_attention_heads), *angles)
        k, v = turned(heads(self.k_proj(x), shared), *angles), heads(self.v_proj(x), shared)
        if cache is not None:
            k, v = cache.extended(layer, k, v)
        dropout = self.config.attention_dropout if self.training else 0.0
        return self.o_proj(attend(q, k, v, allowed, dropout))


class LlamaMLP(Module):
    """A network with a gate."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = Linear(width, inner, bias)
        self.up_proj = Linear(width, inner, bias)
        self.down_proj = Linear(inner, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, positions, width) to the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(Module):
    """Attention and a network, each added to what comes in."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        """(batch, positions, width) to the same."""
        x = x + self.self_attn(self.input_layernorm(x), *others)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(Pretrained):
    """Tokens to vectors, each of which has seen those before it."""

    config_class = LlamaConfig
    base_prefix = "model"

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size)
        self.layers = ModuleList(
            [LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers)]
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.register_buffer("turns", tensor(frequencies(config)), persistent=False)
        self.draw_weights(config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Output:
        """Vectors of tokens (batch, positions), which come after those of the cache."""
        before, count = past_key_values.length if past_key_values else 0, input_ids.size(1)
        if position_ids is None:
            position_ids = arange(before, before + count, device=input_ids.device).unsqueeze(0)
        allowed = allowed_pairs(attention_mask, count, before + count, True, input_ids.device)
        x = self.embed_tokens(input_ids)
        angle = position_ids.unsqueeze(-1).float() * self.turns  # (batch or 1, positions, size / 2)
        angle = cat([angle, angle], -1).unsqueeze(1)
        angles = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer, block in enumerate(self.layers):
            x = block(x, angles, allowed, past_key_values, layer)
        return Output(last_hidden_state=self.norm(x), past_key_values=past_key_values)


class LlamaForCausalLM(CausalLM):
    """A Llama that says how likely each next token is."""

    config_class = LlamaConfig
    base_prefix = "model"

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        self.model = LlamaModel(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.draw_weights(config.initializer_range)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
            self.tied = ("lm_head.weight",)
