"""GPT-2 and BERT in small, under Hugging Face's parameter names, with the modules of `nn`."""

from __future__ import annotations

import math
from typing import Any


def gpt2(lib: Any, vocabulary: int = 97, width: int = 32, heads: int = 4, depth: int = 2) -> Any:
    """A decoder with learned positions; `lib` is livegrad or torch."""
    nn = lib.nn
    F = nn.functional

    class Conv1D(nn.Module):  # a Linear whose weight is (in, out)
        def __init__(self, outputs: int, inputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(lib.randn(inputs, outputs) * 0.02)
            self.bias = nn.Parameter(lib.zeros(outputs))

        def forward(self, x: Any) -> Any:
            return x @ self.weight + self.bias

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(3 * width, width), Conv1D(width, width)
            self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            parts = self.c_attn(x).split(width, 2)
            q, k, v = [p.view(batch, time, heads, -1).transpose(1, 2) for p in parts]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, heads, T, size)
            y = y.transpose(1, 2).contiguous().view(batch, time, width)
            return self.resid_dropout(self.c_proj(y))

    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c_fc, self.c_proj = Conv1D(4 * width, width), Conv1D(width, 4 * width)
            self.act, self.dropout = nn.GELU("tanh"), nn.Dropout(0.1)

        def forward(self, x: Any) -> Any:
            return self.dropout(self.c_proj(self.act(self.c_fc(x))))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(width), Attention()
            self.ln_2, self.mlp = nn.LayerNorm(width), MLP()

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = nn.ModuleDict(
                {
                    "wte": nn.Embedding(vocabulary, width),
                    "wpe": nn.Embedding(64, width),
                    "drop": nn.Dropout(0.1),
                    "h": nn.ModuleList([Block() for _ in range(depth)]),
                    "ln_f": nn.LayerNorm(width),
                }
            )
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            self.lm_head.weight = self.transformer["wte"].weight  # tied

        def forward(self, tokens: Any) -> Any:
            t = self.transformer
            x = t["drop"](t["wte"](tokens) + t["wpe"](lib.arange(tokens.shape[1])))
            for block in t["h"]:
                x = block(x)
            return self.lm_head(t["ln_f"](x))

    return GPT2()


def bert(lib: Any, vocabulary: int = 83, width: int = 24, heads: int = 3, depth: int = 2) -> Any:
    """An encoder with segments, a padding mask, and a pooled first token."""
    nn = lib.nn

    class Embeddings(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.word_embeddings = nn.Embedding(vocabulary, width, padding_idx=0)
            self.position_embeddings = nn.Embedding(32, width)
            self.token_type_embeddings = nn.Embedding(2, width)
            self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("position_ids", lib.arange(32).unsqueeze(0), persistent=False)

        def forward(self, tokens: Any, segments: Any) -> Any:
            places = self.position_ids[:, : tokens.shape[1]]
            x = self.word_embeddings(tokens) + self.token_type_embeddings(segments)
            return self.dropout(self.LayerNorm(x + self.position_embeddings(places)))

    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
            self.value, self.dropout = nn.Linear(width, width), nn.Dropout(0.1)

        def forward(self, x: Any, mask: Any) -> Any:
            batch, time, _ = x.shape
            q, k, v = [
                layer(x).view(batch, time, heads, -1).permute(0, 2, 1, 3)
                for layer in (self.query, self.key, self.value)
            ]
            scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads) + mask
            shares = self.dropout(nn.functional.softmax(scores, dim=-1))
            return (shares @ v).permute(0, 2, 1, 3).reshape(batch, time, width)

    class Output(nn.Module):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.dense, self.dropout = nn.Linear(inputs, width), nn.Dropout(0.1)
            self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

        def forward(self, x: Any, before: Any) -> Any:
            return self.LayerNorm(self.dropout(self.dense(x)) + before)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.Module()
            self.attention.self, self.attention.output = SelfAttention(), Output(width)
            self.intermediate = nn.Module()
            self.intermediate.dense = nn.Linear(width, 4 * width)
            self.output = Output(4 * width)

        def forward(self, x: Any, mask: Any) -> Any:
            x = self.attention.output(self.attention.self(x, mask), x)
            inner = nn.functional.gelu(self.intermediate.dense(x))
            return self.output(inner, x)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = Embeddings()
            self.encoder = nn.Module()
            self.encoder.layer = nn.ModuleList([Layer() for _ in range(depth)])
            self.pooler = nn.Module()
            self.pooler.dense = nn.Linear(width, width)

        def forward(self, tokens: Any, segments: Any, present: Any) -> tuple[Any, Any]:
            mask = (1.0 - present[:, None, None, :].to(lib.float32)) * -1e9
            x = self.embeddings(tokens, segments)
            for layer in self.encoder.layer:
                x = layer(x, mask)
            return x, lib.tanh(self.pooler.dense(x[:, 0]))

    return Bert()
