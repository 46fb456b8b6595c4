"""BERT, under Hugging Face's names of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from livegrad import Tensor, arange, zeros, zeros_like
from livegrad.nn import (
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    Parameter,
    functional as F,
)
from livegrad.text.models.base import Config, Output, Pretrained, allowed_pairs, attend, heads


@dataclass
class BertConfig(Config):
    """The sizes of BERT; those of the base model by default."""

    model_type: ClassVar[str] = "bert"
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    classifier_dropout: float | None = None
    num_labels: int = 2

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> BertConfig:
        """From the content of a config.json, which counts labels by their names."""
        labels = values.get("id2label")
        return super().from_dict(
            values if labels is None else {"num_labels": len(labels), **values}
        )


def _activation(config: BertConfig) -> Any:
    known = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "swish": F.silu}
    if config.hidden_act not in known:
        raise ValueError(f"hidden_act={config.hidden_act!r} is not one of {', '.join(known)}")
    return known[config.hidden_act]


class BertEmbeddings(Module):
    """Vectors of tokens, positions and segments, added."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = Embedding(config.type_vocab_size, width)
        self.LayerNorm = LayerNorm(width, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: Tensor, segments: Tensor | None, positions: Tensor | None
    ) -> Tensor:
        """(batch, positions) to (batch, positions, width)."""
        count, most = input_ids.size(1), self.position_embeddings.num_embeddings
        if count > most:
            raise ValueError(f"{count} tokens are more than the {most} positions of this model")
        if positions is None:
            positions = arange(count, device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(positions)
        segments = zeros_like(input_ids) if segments is None else segments
        return self.dropout(self.LayerNorm(x + self.token_type_embeddings(segments)))


class BertResult(Module):
    """What a part computed, projected, added to what came in, and normalised."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = Linear(inputs, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """(batch, positions, inputs) to (batch, positions, width)."""
        return self.LayerNorm(self.dropout(self.dense(x)) + before)


class BertSelfAttention(Module):
    """Attention to all positions."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.query, self.key, self.value = [Linear(width, width) for _ in range(3)]

    def forward(self, x: Tensor, allowed: Tensor | None) -> Tensor:
        """(batch, positions, width) to the same."""
        q, k, v = [heads(part(x), self.heads) for part in (self.query, self.key, self.value)]
        return attend(q, k, v, allowed, self.dropout if self.training else 0.0)


class BertLayer(Module):
    """Attention and a network, each added to what comes in and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        parts = {"self": BertSelfAttention(config), "output": BertResult(width, config)}
        self.attention = ModuleDict(parts)
        self.intermediate = ModuleDict({"dense": Linear(width, inner)})
        self.output = BertResult(inner, config)
        self.activation = _activation(config)

    def forward(self, x: Tensor, allowed: Tensor | None) -> Tensor:
        """(batch, positions, width) to the same."""
        x = self.attention["output"](self.attention["self"](x, allowed), x)
        return self.output(self.activation(self.intermediate["dense"](x)), x)


class BertModel(Pretrained):
    """Tokens to vectors, each of which has seen all of them."""

    config_class = BertConfig
    base_prefix = "bert"

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        layers = ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.encoder = ModuleDict({"layer": layers})
        self.pooler = None
        if add_pooling_layer:
            self.pooler = ModuleDict({"dense": Linear(config.hidden_size, config.hidden_size)})
        self.draw_weights(config.initializer_range)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Output:
        """Vectors of tokens (batch, positions); `attention_mask` is 0 where there is none."""
        x = self.embeddings(input_ids, token_type_ids, position_ids)
        count = input_ids.size(1)
        allowed = allowed_pairs(attention_mask, count, count, False, input_ids.device)
        for layer in self.encoder["layer"]:
            x = layer(x, allowed)
        pooled = None if self.pooler is None else self.pooler["dense"](x[:, 0]).tanh()
        return Output(last_hidden_state=x, pooler_output=pooled)


class BertForSequenceClassification(Pretrained):
    """BERT that says which class a text, or a pair of texts, belongs to."""

    config_class = BertConfig
    base_prefix = "bert"

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        share = config.classifier_dropout
        self.dropout = Dropout(config.hidden_dropout_prob if share is None else share)
        self.classifier = Linear(config.hidden_size, config.num_labels)
        self.draw_weights(config.initializer_range)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **options: Any) -> Output:
        """Logits (batch, num_labels); a single label is a value to be found, not a class."""
        output: Output = self.bert(input_ids, **options)
        output.logits = self.classifier(self.dropout(output.pooler_output))
        if labels is not None and self.config.num_labels == 1:
            output.loss = F.mse_loss(output.logits.squeeze(-1), labels)
        elif labels is not None:
            output.loss = F.cross_entropy(output.logits, labels)
        return output


class BertPredictions(Module):
    """Vectors to logits of tokens."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        norm = LayerNorm(width, config.layer_norm_eps)
        self.transform = ModuleDict({"dense": Linear(width, width), "LayerNorm": norm})
        self.activation = _activation(config)
        self.bias = Parameter(zeros(config.vocab_size))
        self.decoder = Linear(width, config.vocab_size)
        self.decoder.bias = self.bias

    def forward(self, x: Tensor) -> Tensor:
        """(batch, positions, width) to (batch, positions, tokens of the vocabulary)."""
        x = self.activation(self.transform["dense"](x))
        return self.decoder(self.transform["LayerNorm"](x))


class BertForMaskedLM(Pretrained):
    """BERT that says which tokens stand where `[MASK]` is."""

    config_class = BertConfig
    base_prefix = "bert"
    tied = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = ModuleDict({"predictions": BertPredictions(config)})
        self.draw_weights(config.initializer_range)
        self.cls["predictions"].decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **options: Any) -> Output:
        """Logits of the token at each position; labels of -100 do not count."""
        output: Output = self.bert(input_ids, **options)
        output.logits = self.cls["predictions"](output.last_hidden_state)
        if labels is not None:
            output.loss = F.cross_entropy(output.logits.flatten(0, 1), labels.flatten())
        return output
