"""Text written by a model, token by token: greedily, by drawing, or along several beams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from livegrad import Generator, Tensor, cat, int64, no_grad, ones, tensor
from livegrad.text.generation.beams import Beams
from livegrad.text.generation.cache import Cache
from livegrad.text.generation.choosing import Choice


@dataclass
class Decoding:
    """What a model has seen of the texts it goes on with.

    `mask` is 0 where a text has no token, None if it has everywhere. `memory` is what an encoder
    made of its input, and `memory_mask` where that is none.
    """

    cache: Cache
    mask: Tensor | None = None
    memory: Any = None
    memory_mask: Tensor | None = None

    def positions(self, count: int) -> Tensor | None:
        """The positions of the last tokens of each text; None where no text is padded."""
        if self.mask is None:
            return None
        return (self.mask.cumsum(-1) - 1).clamp(min=0)[:, -count:]

    def without_padding(self, texts: Sequence[list[int]]) -> list[list[int]]:
        """Texts without what was put before them, to count what came in them."""
        if self.mask is None:
            return list(texts)
        starts = self.mask.bool().int().argmax(-1).tolist()
        return [text[start:] for text, start in zip(texts, starts, strict=True)]

    def longer(self) -> None:
        """Another token follows in each text."""
        if self.mask is not None:
            self.mask = cat([self.mask, ones(self.mask.size(0), 1, dtype=self.mask.dtype)], 1)

    def of_rows(self, rows: Tensor) -> Decoding:
        """The same of other rows of the batch."""
        parts = {name: getattr(self, name) for name in ("mask", "memory", "memory_mask")}
        chosen = {name: x.index_select(0, rows) for name, x in parts.items() if x is not None}
        return replace(self, cache=self.cache.reordered(rows), **chosen)


class Generating:
    """A model that goes on with texts: it has `begin` and `advance`."""

    config: Any

    def begin(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Decoding, Tensor]:
        """The state of a model that has seen nothing, and the tokens it is to see first."""
        mask = None if attention_mask is None or attention_mask.bool().all() else attention_mask
        return Decoding(Cache(), mask), input_ids

    def advance(self, decoding: Decoding, tokens: Tensor) -> Tensor:
        """The logits after new tokens: (batch, tokens of the vocabulary)."""
        raise NotImplementedError

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        max_new_tokens: int = 20,
        min_new_tokens: int = 0,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 1.0,
        num_beams: int = 1,
        num_return_sequences: int = 1,
        length_penalty: float = 1.0,
        early_stopping: bool | str = False,
        repetition_penalty: float = 1.0,
        no_repeat_ngram_size: int = 0,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        generator: Generator | None = None,
        streamer: Callable[[list[int]], Any] | None = None,
    ) -> Tensor:
        """Texts (batch, positions) gone on with, until `eos_token_id` or `max_new_tokens`.

        Names, defaults and results are those of Hugging Face's `generate`. Texts of several lengths
        are padded on the left, with `attention_mask` 0 there. With `num_return_sequences`, several
        follow each other for each text. `streamer` is called with the new token of each text.
        """
        _check(input_ids, max_new_tokens, do_sample, num_beams, num_return_sequences)
        ends = _numbers(self.config.eos_token_id if eos_token_id is None else eos_token_id)
        padding = _padding(self.config, pad_token_id, ends)
        choice = Choice(
            ends=ends,
            least=min_new_tokens,
            draws=do_sample,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            no_repeat_ngram_size=no_repeat_ngram_size,
            generator=generator,
        )
        with no_grad():
            decoding, first = self.begin(input_ids, attention_mask)
            if num_beams == 1:
                rows = num_return_sequences
                return self._written(
                    decoding, first, choice, max_new_tokens, padding, rows, streamer
                )
            beams = Beams(
                num_beams,
                num_return_sequences,
                max_new_tokens,
                length_penalty,
                early_stopping,
                ends,
            )
            return self._searched(decoding, first, choice, padding, beams)

    def _written(
        self,
        decoding: Decoding,
        first: Tensor,
        choice: Choice,
        count: int,
        padding: int,
        rows: int,
        streamer: Callable[[list[int]], Any] | None,
    ) -> Tensor:
        """One token after the other; what has ended is padded."""
        logits = self.advance(decoding, first)
        if rows > 1:
            repeated = _repeated(first.size(0), rows)
            decoding, logits = decoding.of_rows(repeated), logits.index_select(0, repeated)
            first = first.index_select(0, repeated)
        texts = first.tolist()
        ended = [False] * len(texts)
        for step in range(count):
            seen = decoding.without_padding(texts) if choice.looks_back else texts
            found = choice.next(logits, seen, step)
            tokens = [padding if done else x for done, x in zip(ended, found, strict=True)]
            for text, token in zip(texts, tokens, strict=True):
                text.append(token)
            if streamer is not None:
                streamer(tokens)
            ended = [done or x in choice.ends for done, x in zip(ended, tokens, strict=True)]
            if all(ended) or step == count - 1:
                break
            decoding.longer()
            logits = self.advance(decoding, tensor(tokens, dtype=int64).unsqueeze(1))
        return tensor(texts, dtype=int64)

    def _searched(
        self,
        decoding: Decoding,
        first: Tensor,
        choice: Choice,
        padding: int,
        beams: Beams,
    ) -> Tensor:
        """The likeliest texts of several that are followed at once."""
        rows = _repeated(first.size(0), beams.count)
        logits = self.advance(decoding, first).index_select(0, rows)
        decoding = decoding.of_rows(rows)
        beams.start(first.tolist())
        while True:
            texts = beams.running()
            seen = decoding.without_padding(texts) if choice.looks_back else texts
            scores = choice.adjusted(logits.log_softmax(-1), seen, beams.length)
            if not beams.extend(scores):
                break
            decoding = decoding.of_rows(tensor(beams.origins(), dtype=int64))
            decoding.longer()
            latest = [text[-1] for text in beams.running()]
            logits = self.advance(decoding, tensor(latest, dtype=int64).unsqueeze(1))
        texts = beams.best()
        longest = max([len(text) for text in texts])
        return tensor([text + [padding] * (longest - len(text)) for text in texts], dtype=int64)


def _repeated(rows: int, times: int) -> Tensor:
    return tensor([row for row in range(rows) for _ in range(times)], dtype=int64)


def _numbers(tokens: int | Sequence[int] | None) -> frozenset[int]:
    if tokens is None:
        return frozenset()
    return frozenset([tokens] if isinstance(tokens, int) else tokens)


def _padding(config: Any, given: int | None, ends: frozenset[int]) -> int:
    """What follows the end of a text: the padding, else the end itself."""
    own = getattr(config, "pad_token_id", None)
    candidates = [x for x in (given, own, *sorted(ends), 0) if x is not None]
    return int(candidates[0])


def _check(input_ids: Tensor, count: int, draws: bool, beams: int, results: int) -> None:
    if input_ids.ndim != 2 or 0 in input_ids.shape:
        raise ValueError(f"input_ids should be (batch, positions), but got {input_ids.shape}")
    if count < 1 or beams < 1 or results < 1:
        raise ValueError("max_new_tokens, num_beams and num_return_sequences must be at least 1")
    if beams > 1 and draws:
        raise ValueError("beams are not drawn: num_beams > 1 needs do_sample=False")
    if beams == 1 and results > 1 and not draws:
        raise ValueError(
            "Greedy methods without beam search do not support `num_return_sequences` different"
            f" than 1 (got {results})."
        )
    if beams > 1 and results > beams:
        raise ValueError(
            f"`num_return_sequences` ({results}) has to be smaller or equal to `num_beams`"
            f" ({beams})."
        )
