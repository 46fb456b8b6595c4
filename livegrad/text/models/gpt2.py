"""GPT-2, under Hugging Face's names of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from livegrad import Tensor, arange, empty, zeros
from livegrad.nn import (
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    ModuleList,
    Parameter,
    functional as F,
    init,
)
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
class GPT2Config(Config):
    """The sizes of GPT-2; those of the smallest by default."""

    model_type: ClassVar[str] = "gpt2"
    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None
    resid_pdrop: float = 0.1
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    initializer_range: float = 0.02
    bos_token_id: int | None = 50256
    eos_token_id: int | None = 50256


class Conv1D(Module):
    """A linear layer whose weight is (inputs, outputs)."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight = Parameter(empty(inputs, outputs))
        self.bias = Parameter(zeros(outputs))
        init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        return F.linear(x, self.weight.t(), self.bias)


class GPT2Attention(Module):
    """Attention to what came before."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.n_head, config.attn_pdrop
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.resid_dropout = Dropout(config.resid_pdrop)

    def forward(self, x: Tensor, allowed: Tensor | None, cache: Cache | None, layer: int) -> Tensor:
        """(batch, positions, width) to the same."""
        q, k, v = [heads(part, self.heads) for part in self.c_attn(x).chunk(3, -1)]
        if cache is not None:
            k, v = cache.extended(layer, k, v)
        y = attend(q, k, v, allowed, self.dropout if self.training else 0.0)
        return self.resid_dropout(self.c_proj(y))


class GPT2MLP(Module):
    """Two layers with a tanh-like GELU between."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        inner = config.n_inner or 4 * config.n_embd
        self.c_fc, self.c_proj = Conv1D(inner, config.n_embd), Conv1D(config.n_embd, inner)
        self.dropout = Dropout(config.resid_pdrop)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, positions, width) to the same."""
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class GPT2Block(Module):
    """Attention and a network, each added to what comes in."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = GPT2Attention(config)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x: Tensor, allowed: Tensor | None, cache: Cache | None, layer: int) -> Tensor:
        """(batch, positions, width) to the same."""
        x = x + self.attn(self.ln_1(x), allowed, cache, layer)
        return x + self.mlp(self.ln_2(x))


class GPT2Model(Pretrained):
    """Tokens to vectors, each of which has seen those before it."""

    config_class = GPT2Config
    base_prefix = "transformer"

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.wte = Embedding(config.vocab_size, config.n_embd)
        self.wpe = Embedding(config.n_positions, config.n_embd)
        self.drop = Dropout(config.embd_pdrop)
        self.h = ModuleList([GPT2Block(config) for _ in range(config.n_layer)])
        self.ln_f = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.draw_weights(config.initializer_range)
        for name, weight in self.named_parameters():  # sums over all layers keep their size
            if name.endswith("c_proj.weight"):
                init.normal_(weight, std=config.initializer_range / math.sqrt(2 * config.n_layer))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Output:
        """Vectors of tokens (batch, positions), which come after those of the cache."""
        before, count = past_key_values.length if past_key_values else 0, input_ids.size(1)
        if before + count > self.config.n_positions:
            raise ValueError(
                f"{before + count} tokens are more than the {self.config.n_positions} positions"
                " that this model has"
            )
        if position_ids is None:
            position_ids = arange(before, before + count, device=input_ids.device)
        keys = before + count
        allowed = allowed_pairs(attention_mask, count, keys, True, input_ids.device)
        x = self.drop(self.wte(input_ids) + self.wpe(position_ids))
        for layer, block in enumerate(self.h):
            x = block(x, allowed, past_key_values, layer)
        return Output(last_hidden_state=self.ln_f(x), past_key_values=past_key_values)


class GPT2LMHeadModel(CausalLM):
    """GPT-2 that says how likely each next token is.

    >>> import livegrad
    >>> model = GPT2LMHeadModel(GPT2Config(100, 32, n_embd=16, n_layer=2, n_head=2)).eval()
    >>> list(model.generate(livegrad.tensor([[1, 2, 3]]), max_new_tokens=4).shape)
    [1, 7]
    """

    config_class = GPT2Config
    base_prefix = "transformer"
    tied = ("lm_head.weight",)

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.transformer = GPT2Model(config)
        self.lm_head = Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight
