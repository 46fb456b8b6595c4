"""Which token comes next, given how likely each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from livegrad import Generator, Tensor, int64, multinomial, tensor, where, zeros

Texts = Sequence[Sequence[int]]


@dataclass
class Choice:
    """How tokens are chosen: which may not come, and if the likeliest is taken or one drawn."""

    ends: frozenset[int]
    least: int = 0
    draws: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    generator: Generator | None = None

    def __post_init__(self) -> None:
        if self.draws and not self.temperature > 0:
            raise ValueError(
                f"temperature has to be a strictly positive float, but is {self.temperature}"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p has to be a float > 0 and <= 1, but is {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k has to be 0 (all) or positive, but is {self.top_k}")
        if not self.repetition_penalty > 0:
            raise ValueError(
                f"penalty has to be a strictly positive float, but is {self.repetition_penalty}"
            )

    @property
    def looks_back(self) -> bool:
        """Whether what a text has already matters."""
        return self.repetition_penalty != 1 or self.no_repeat_ngram_size > 0

    def next(self, logits: Tensor, texts: Texts, step: int) -> list[int]:
        """The next token of each text."""
        scores = self.adjusted(logits.float(), texts, step)
        if not self.draws:
            return list(scores.argmax(-1).tolist())
        scores = of_nucleus(of_likeliest(scores / self.temperature, self.top_k), self.top_p)
        drawn = multinomial(scores.softmax(-1), 1, generator=self.generator)
        return list(drawn.squeeze(1).tolist())

    def adjusted(self, scores: Tensor, texts: Texts, step: int) -> Tensor:
        """Scores in which what came before is less likely, and what may not come is -inf."""
        if self.repetition_penalty != 1:
            scores = less_of(scores, texts, self.repetition_penalty)
        banned = [repeating(text, self.no_repeat_ngram_size) for text in texts]
        if step < self.least:
            banned = [tokens | self.ends for tokens in banned]
        return without(scores, banned)


def less_of(scores: Tensor, texts: Texts, penalty: float) -> Tensor:
    """Scores of tokens that are in a text already, made smaller."""
    used = zeros(scores.shape, dtype=scores.dtype)
    for row, text in enumerate(texts):
        used[row, tensor(sorted(set(text)), dtype=int64)] = 1
    return where(used > 0, where(scores < 0, scores * penalty, scores / penalty), scores)


def repeating(text: Sequence[int], size: int) -> frozenset[int]:
    """Tokens that would make a run of `size` tokens of the text come twice."""
    if size < 1 or len(text) + 1 < size:
        return frozenset()
    latest = list(text[len(text) - size + 1 :])
    starts = range(len(text) - size + 1)
    return frozenset([text[i + size - 1] for i in starts if list(text[i : i + size - 1]) == latest])


def without(scores: Tensor, banned: Sequence[frozenset[int]]) -> Tensor:
    """Scores with -inf for tokens that may not come in a text."""
    places = [(row, token) for row, tokens in enumerate(banned) for token in sorted(tokens)]
    if not places:
        return scores
    scores = scores.clone()
    rows, tokens = zip(*places, strict=True)
    scores[tensor(rows, dtype=int64), tensor(tokens, dtype=int64)] = -math.inf
    return scores


def of_likeliest(scores: Tensor, count: int) -> Tensor:
    """Scores with -inf for all but the `count` largest; 0 leaves all."""
    if not 0 < count < scores.size(-1):
        return scores
    least = scores.topk(count)[0][:, -1:]
    return scores.masked_fill(scores < least, -math.inf)


def of_nucleus(scores: Tensor, share: float) -> Tensor:
    """Scores with -inf for unlikely tokens, which together have at most 1 - `share`."""
    if share >= 1:
        return scores
    ordered, places = scores.sort(-1)
    unlikely = ordered.softmax(-1).cumsum(-1) <= 1 - share
    unlikely[:, -1] = False
    return scores.masked_fill(unlikely.scatter(1, places, unlikely), -math.inf)
