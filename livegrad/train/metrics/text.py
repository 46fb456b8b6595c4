"""Metrics of language: perplexity and BLEU."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad.train.metrics.base import Metric
from livegrad.train.metrics.labels import check_labels, check_shapes, true_labels
from livegrad.utils.reading import array_of, shape_of

Tokens = Sequence[Any]


class Perplexity(Metric):
    """exp of the mean negative log-likelihood of the targets.

    `update(logits, targets)` takes logits (N, C, …) for targets (N, …), as `cross_entropy` does:
    for a language model, `logits.flatten(0, 1)` and `targets.flatten()`. Targets equal to
    `ignore_index` do not count.
    """

    counts = ("total", "count")

    def __init__(self, ignore_index: int | None = -100) -> None:
        self.ignore_index = ignore_index
        super().__init__()

    def clear(self) -> None:
        """Sets the counts to nothing."""
        self.total = 0.0
        self.count = 0

    def check(self, logits: Any, targets: Any) -> None:
        """Raises if the shapes do not go together."""
        got, true = shape_of(logits), shape_of(targets)
        if got == true:
            raise ValueError(f"Perplexity: got logits {got}; expected (N, C, …) for {true}")
        check_shapes("Perplexity", got, true)

    def add(self, logits: Any, targets: Any) -> None:
        """Counts a batch."""
        scores = array_of(logits).astype(np.float64)
        true = true_labels("Perplexity", array_of(targets))
        counted = np.ones(true.shape, bool)
        if self.ignore_index is not None:
            counted = true != self.ignore_index
        check_labels("Perplexity", true[counted])
        scores = scores - scores.max(1, keepdims=True)
        norm = np.log(np.exp(scores).sum(1))
        place = np.expand_dims(np.where(counted, true, 0), 1)
        own = np.take_along_axis(scores, place, 1)[:, 0]
        self.total += float((norm - own)[counted].sum())
        self.count += int(counted.sum())

    def result(self) -> float:
        """The perplexity; nan if there were no targets."""
        if not self.count:
            return math.nan
        mean = self.total / self.count
        return math.exp(mean) if mean < 709 else math.inf


class BLEU(Metric):
    """How many n-grams of the candidates occur in their references, over a whole corpus.

    `update(candidates, references)`: a list of sentences, and for each a reference or a list of
    them. A sentence is a list of tokens, or a string, which is split at white space; candidates and
    references have the same form. `smooth` adds one to the counts of n-grams longer than a word,
    for short texts. The value is between 0 and 1.
    """

    counts = ("right", "said", "length", "wanted")

    def __init__(self, max_n: int = 4, *, smooth: bool = False, lowercase: bool = False) -> None:
        if max_n < 1:
            raise ValueError(f"BLEU: got max_n={max_n}; expected at least 1")
        self.max_n = max_n
        self.smooth = smooth
        self.lowercase = lowercase
        super().__init__()

    def clear(self) -> None:
        """Sets the counts to nothing."""
        self.right = np.zeros(self.max_n, np.int64)
        self.said = np.zeros(self.max_n, np.int64)
        self.length = 0
        self.wanted = 0

    def check(self, candidates: Any, references: Any) -> None:
        """Raises if there are not as many references as candidates."""
        if isinstance(candidates, str):
            raise TypeError("BLEU: got one string; expected a list of candidates")
        if len(candidates) != len(references):
            raise ValueError(
                f"BLEU: got {len(candidates)} candidates and references for {len(references)}"
            )

    def add(self, candidates: Any, references: Any) -> None:
        """Counts sentences."""
        for candidate, given in zip(candidates, references, strict=True):
            self._add_one(self._tokens(candidate), self._several(candidate, given))

    def _tokens(self, sentence: Any) -> Tokens:
        if isinstance(sentence, str):
            return (sentence.lower() if self.lowercase else sentence).split()
        if not isinstance(sentence, list | tuple):
            sentence = array_of(sentence).tolist()
        return [x.lower() if self.lowercase and isinstance(x, str) else x for x in sentence]

    def _several(self, candidate: Any, given: Any) -> list[Tokens]:
        """The references of one candidate: `given` is one, in the candidate's form, or a list."""
        if isinstance(candidate, str):
            found = [given] if isinstance(given, str) else list(given)
        else:
            first = given[0] if len(given) else None
            several = isinstance(first, list | tuple) or len(shape_of(first)) > 0
            found = list(given) if several else [given]
        return [self._tokens(x) for x in found]

    def _add_one(self, candidate: Tokens, references: list[Tokens]) -> None:
        size = len(candidate)
        self.length += size
        # The reference of the closest length; of two as close, the shorter.
        self.wanted += min((abs(len(r) - size), len(r)) for r in references)[1]
        for n in range(1, self.max_n + 1):
            grams = _ngrams(candidate, n)
            most: Counter[Any] = Counter()
            for reference in references:
                most |= _ngrams(reference, n)
            self.right[n - 1] += (grams & most).total()
            self.said[n - 1] += max(size - n + 1, 0)

    def result(self) -> float:
        """Brevity penalty times the geometric mean of the shares of right n-grams."""
        right, said = self.right.astype(np.float64), self.said.astype(np.float64)
        if self.smooth:
            right[1:] += 1
            said[1:] += 1
        if not self.length or not right.all():
            return 0.0
        shares = np.log(right / said).mean()
        brevity = min(0.0, 1.0 - self.wanted / self.length)
        return float(np.exp(brevity + shares))


def _ngrams(tokens: Tokens, n: int) -> Counter[Any]:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
