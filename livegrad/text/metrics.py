"""How good generated text is: BLEU and perplexity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from livegrad import Tensor
from livegrad.nn import functional as F

Tokens = Sequence[str]


def _ngrams(tokens: Tokens, n: int) -> Counter[tuple[str, ...]]:
    return Counter([tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)])


def bleu_score(
    candidate_corpus: Iterable[Tokens],
    references_corpus: Iterable[Sequence[Tokens]],
    max_n: int = 4,
    weights: Sequence[float] | None = None,
) -> float:
    """BLEU of a corpus, from 0 to 1: tokens of each candidate, and of one or more references to it.

    >>> found, wanted = ["the", "cat", "sat", "on"], ["the", "cat", "sat", "up"]
    >>> round(bleu_score([found], [[wanted]], max_n=2), 4)
    0.7071
    """
    shares = [1 / max_n] * max_n if weights is None else list(weights)
    if len(shares) != max_n:
        raise ValueError('Length of the "weights" list has be equal to max_n')
    candidates, references = list(candidate_corpus), [list(x) for x in references_corpus]
    if len(candidates) != len(references):
        raise ValueError("The length of candidate and reference corpus should be the same")
    right, total = [0] * max_n, [0] * max_n
    length = wanted = 0
    for candidate, alternatives in zip(candidates, references, strict=True):
        length += len(candidate)
        wanted += min([len(x) for x in alternatives], key=lambda n: (abs(n - len(candidate)), n))
        for n in range(1, max_n + 1):
            found, allowed = _ngrams(candidate, n), Counter[tuple[str, ...]]()
            for alternative in alternatives:
                allowed |= _ngrams(alternative, n)
            right[n - 1] += (found & allowed).total()
            total[n - 1] += found.total()
    if not length or min(right) == 0:
        return 0.0
    logarithm = sum([w * math.log(r / t) for w, r, t in zip(shares, right, total, strict=True)])
    return math.exp(logarithm + min(0.0, 1 - wanted / length))


def perplexity(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Any:
    """How many tokens a model is as unsure as choosing from, at each place: exp of the mean loss.

    `logits` are (..., tokens), `targets` (...), places of `ignore_index` do not count.
    """
    loss = F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=ignore_index, reduction="mean"
    )
    return loss.exp()
