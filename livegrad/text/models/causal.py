"""A decoder with a head that says how likely each next token is."""

from __future__ import annotations

from typing import Any

from livegrad import Tensor
from livegrad.nn import Linear, functional as F
from livegrad.text.generation.decoding import Decoding, Generating
from livegrad.text.models.base import Output, Pretrained


class CausalLM(Pretrained, Generating):
    """Kinds of it hold the decoder under the name `base_prefix`, and `lm_head`."""

    lm_head: Linear

    def forward(self, input_ids: Tensor, labels: Tensor | None = None, **options: Any) -> Output:
        """Logits of the next token at each position, and the loss where `labels` are given.

        A label is the token of its own position, which the one before is to predict; those of
        -100 do not count.
        """
        output: Output = getattr(self, self.base_prefix)(input_ids, **options)
        output.logits = self.lm_head(output.last_hidden_state)
        if labels is not None:
            predicted, wanted = output.logits[:, :-1], labels[:, 1:]
            output.loss = F.cross_entropy(predicted.flatten(0, 1), wanted.flatten())
        return output

    def advance(self, decoding: Decoding, tokens: Tensor) -> Tensor:
        """The logits after new tokens: (batch, tokens of the vocabulary)."""
        output = getattr(self, self.base_prefix)(
            tokens,
            attention_mask=decoding.mask,
            position_ids=decoding.positions(tokens.size(1)),
            past_key_values=decoding.cache,
        )
        return self.lm_head(output.last_hidden_state[:, -1])
