"""T5: an encoder and a decoder, under Hugging Face's names of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from livegrad import Tensor, arange, int64, tensor, where
from livegrad.nn import (
    Dropout,
    Embedding,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    RMSNorm,
    functional as F,
    init,
)
from livegrad.text.generation import Decoding, Generating
from livegrad.text.generation.cache import Cache
from livegrad.text.models.base import Config, Output, Pretrained, allowed_pairs, attend, heads


@dataclass
class T5Config(Config):
    """The sizes of T5; those of the small model by default."""

    model_type: ClassVar[str] = "t5"
    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    num_decoder_layers: int | None = None
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    eos_token_id: int | None = 1
    decoder_start_token_id: int = 0

    def __post_init__(self) -> None:
        if self.num_decoder_layers is None:
            self.num_decoder_layers = self.num_layers
        if self.feed_forward_proj not in ("relu", "gated-gelu"):
            raise ValueError(f"feed_forward_proj={self.feed_forward_proj!r}: relu or gated-gelu")


def buckets(distance: Tensor, both_ways: bool, count: int, most: int) -> Tensor:
    """The number of the bucket of each distance: one for each short one, then ever wider ones."""
    offset: Any = 0
    if both_ways:
        count //= 2
        offset = (distance > 0) * count
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = count // 2
    growth = (count - exact) / math.log(most / exact)
    far = exact + ((distance.clamp(min=1).float() / exact).log() * growth).to(int64)
    numbers: Tensor = offset + where(distance < exact, distance, far.clamp(max=count - 1))
    return numbers


class T5Attention(Module):
    """Attention without scaling; the first layer of a stack has a bias for each distance."""

    def __init__(self, config: T5Config, has_bias: bool = False) -> None:
        super().__init__()
        self.config = config
        inside = config.num_heads * config.d_kv
        self.q, self.k, self.v = [Linear(config.d_model, inside, bias=False) for _ in range(3)]
        self.o = Linear(inside, config.d_model, bias=False)
        if has_bias:
            count = config.relative_attention_num_buckets
            self.relative_attention_bias = Embedding(count, config.num_heads)

    def bias(self, queries: int, keys: int, both_ways: bool) -> Tensor:
        """What distances add: (1, heads, queries, keys), for the last `queries` positions."""
        config, device = self.config, self.q.weight.device
        at = arange(keys - queries, keys, device=device).unsqueeze(1)
        distance = arange(keys, device=device) - at
        numbers = buckets(
            distance,
            both_ways,
            config.relative_attention_num_buckets,
            config.relative_attention_max_distance,
        )
        return self.relative_attention_bias(numbers).permute(2, 0, 1).unsqueeze(0)

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of vectors."""
        return heads(self.k(x), self.config.num_heads), heads(self.v(x), self.config.num_heads)

    def forward(self, x: Tensor, pairs: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
        """(batch, positions, width) to the same, given keys and values."""
        q = heads(self.q(x), self.config.num_heads)
        dropout = self.config.dropout_rate if self.training else 0.0
        return self.o(attend(q, *pairs, bias, dropout, scale=1.0))


class T5Network(Module):
    """Two layers, or, gated, three."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.gated = config.feed_forward_proj == "gated-gelu"
        for name in ("wi_0", "wi_1") if self.gated else ("wi",):
            self.add_module(name, Linear(config.d_model, config.d_ff, bias=False))
        self.wo = Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = Dropout(config.dropout_rate)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, positions, width) to the same."""
        if self.gated:
            inner = F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x)
        else:
            inner = F.relu(self.wi(x))
        return self.wo(self.dropout(inner))


def _part(name: str, module: Module, config: T5Config) -> ModuleDict:
    norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
    return ModuleDict({name: module, "layer_norm": norm})


class T5Block(Module):
    """Attention, in decoders also to the encoder's vectors, and a network; each added."""

    def __init__(self, config: T5Config, decodes: bool, has_bias: bool) -> None:
        super().__init__()
        parts = [_part("SelfAttention", T5Attention(config, has_bias), config)]
        if decodes:
            parts.append(_part("EncDecAttention", T5Attention(config), config))
        parts.append(_part("DenseReluDense", T5Network(config), config))
        self.layer = ModuleList(parts)
        self.dropout = Dropout(config.dropout_rate)

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None,
        cache: Cache | None,
        number: int,
        memory: tuple[Tensor, Tensor | None] | None,
    ) -> Tensor:
        """(batch, positions, width) to the same; `memory`: the encoder's, what of it is seen."""
        first = self.layer[0]
        inner = first["layer_norm"](x)
        pairs = first["SelfAttention"].pairs(inner)
        if cache is not None:
            pairs = cache.extended(number, *pairs)
        x = x + self.dropout(first["SelfAttention"](inner, pairs, bias))
        if memory is not None:
            second = self.layer[1]["EncDecAttention"]
            inner = self.layer[1]["layer_norm"](x)
            x = x + self.dropout(second(inner, second.pairs(memory[0]), memory[1]))
        last = self.layer[-1]
        return x + self.dropout(last["DenseReluDense"](last["layer_norm"](x)))


class T5Stack(Module):
    """The encoder, or the decoder."""

    def __init__(self, config: T5Config, embed_tokens: Embedding, decodes: bool) -> None:
        super().__init__()
        count = config.num_decoder_layers if decodes else config.num_layers
        self.decodes = decodes
        self.embed_tokens = embed_tokens
        self.block = ModuleList([T5Block(config, decodes, i == 0) for i in range(count or 0)])
        self.final_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)
        self.dropout = Dropout(config.dropout_rate)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: Cache | None = None,
        memory: tuple[Tensor, Tensor | None] | None = None,
    ) -> Tensor:
        """Vectors of tokens (batch, positions), which come after those of the cache."""
        count = input_ids.size(1)
        keys = count + (cache.length if cache is not None else 0)
        bias = self.block[0].layer[0]["SelfAttention"].bias(count, keys, not self.decodes)
        allowed = allowed_pairs(attention_mask, count, keys, self.decodes, input_ids.device)
        if allowed is not None:
            bias = where(allowed, bias, -math.inf)
        x = self.dropout(self.embed_tokens(input_ids))
        for number, block in enumerate(self.block):
            x = block(x, bias, cache, number, memory)
        return self.dropout(self.final_layer_norm(x))


class T5ForConditionalGeneration(Pretrained, Generating):
    """T5 that writes a text for a text: a translation, a summary, an answer."""

    config_class = T5Config
    tied: tuple[str, ...] = (
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "lm_head.weight",
    )

    def __init__(self, config: T5Config) -> None:
        super().__init__(config)
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = T5Stack(config, self.shared, decodes=False)
        self.decoder = T5Stack(config, self.shared, decodes=True)
        self.lm_head = Linear(config.d_model, config.vocab_size, bias=False)
        self._draw()
        if config.tie_word_embeddings:
            self.lm_head.weight = self.shared.weight
        else:
            self.tied = self.tied[:2]

    def _draw(self) -> None:
        """Weights whose products have about the size of what they are multiplied with."""
        factor, config = self.config.initializer_factor, self.config
        narrow, wide = config.d_model**-0.5, config.d_ff**-0.5
        inside = (config.num_heads * config.d_kv) ** -0.5
        by_name = {"q": (config.d_model * config.d_kv) ** -0.5, "o": inside, "wo": wide}
        for name, weight in self.named_parameters():
            kind = name.split(".")[-2]
            if kind in ("shared", "lm_head", "embed_tokens"):
                init.normal_(weight, std=factor)
            elif weight.ndim == 2:
                init.normal_(weight, std=factor * by_name.get(kind, narrow))

    def _logits(self, x: Tensor) -> Tensor:
        if self.config.tie_word_embeddings:
            x = x * self.config.d_model**-0.5
        return self.lm_head(x)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Output:
        """Logits of the decoder's tokens, which are `labels` moved on by one if not given."""
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("decoder_input_ids or labels say what the decoder is to see")
            decoder_input_ids = self.moved_on(labels)
        memory = self.encoder(input_ids, attention_mask)
        x = self.decoder(
            decoder_input_ids, decoder_attention_mask, memory=(memory, _seen(attention_mask))
        )
        logits = self._logits(x)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return Output(logits, loss, last_hidden_state=x, encoder_last_hidden_state=memory)

    def moved_on(self, labels: Tensor) -> Tensor:
        """What the decoder sees when it is to say `labels`: the start, then all but the last."""
        start = tensor(self.config.decoder_start_token_id).expand(labels.size(0), 1)
        known = labels.masked_fill(labels == -100, self.config.pad_token_id)
        return F.pad(known, (1, -1)).index_copy(1, tensor([0]), start.to(known.dtype))

    def begin(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Decoding, Tensor]:
        """The encoder's vectors, and the token that a text starts with."""
        memory = self.encoder(input_ids, attention_mask)
        start = tensor(self.config.decoder_start_token_id).expand(input_ids.size(0), 1)
        return Decoding(Cache(), memory=memory, memory_mask=_seen(attention_mask)), start

    def advance(self, decoding: Decoding, tokens: Tensor) -> Tensor:
        """The logits after new tokens: (batch, tokens of the vocabulary)."""
        memory = (decoding.memory, decoding.memory_mask)
        return self._logits(self.decoder(tokens, None, decoding.cache, memory)[:, -1])


def _seen(mask: Tensor | None) -> Tensor | None:
    """Which of the encoder's vectors the decoder sees: (batch, 1, 1, positions)."""
    return None if mask is None else mask.bool()[:, None, None, :]
