"""Search along several beams: the likeliest beginnings of texts, each with its score."""

from __future__ import annotations

from dataclasses import dataclass, field

from livegrad import Tensor

Beam = tuple[float, list[int]]
NEVER = -1e9  # the score of what is no text


@dataclass
class Search:
    """The search for one text: beams that go on, where they came from, the best that have ended."""

    going: list[Beam]
    ended: list[Beam] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    improving: bool = True


@dataclass
class Beams:
    """Searches for the texts of a batch, `count` beams each.

        2 × count likeliest tokens of all beams ─┬─ ends: into the best that have ended
                                                 └─ others: the next `count` beams

    A text's score is the sum of the logarithms of its tokens' probabilities, divided by its length
    to the power of `length_penalty`.
    """

    count: int
    results: int
    most: int  # tokens to be found
    length_penalty: float
    early_stopping: bool | str
    ends: frozenset[int]
    searches: list[Search] = field(default_factory=list)
    length: int = 0  # how many tokens were found

    def start(self, texts: list[list[int]]) -> None:
        """Begins with the given texts; all but the first beam of each are no texts yet."""
        others = [NEVER] * (self.count - 1)
        self.searches = [Search([(x, list(text)) for x in (0.0, *others)]) for text in texts]

    def running(self) -> list[list[int]]:
        """The texts of all beams."""
        return [text for search in self.searches for _, text in search.going]

    def origins(self) -> list[int]:
        """The row that each beam went on from."""
        return [
            i * self.count + origin
            for i, search in enumerate(self.searches)
            for origin in search.origins
        ]

    def extend(self, scores: Tensor) -> bool:
        """Goes on by one token, given the logarithms of probabilities; whether to go on further."""
        self.length += 1
        last = self.length == self.most
        size = scores.size(-1)
        keep = max(2, 1 + len(self.ends)) * self.count
        best, places = scores.topk(min(keep, size), -1)  # of each beam: no more can be taken
        all_values, all_tokens = best.tolist(), places.tolist()
        for i, search in enumerate(self.searches):
            rows = slice(i * self.count, (i + 1) * self.count)
            values, tokens = all_values[rows], all_tokens[rows]
            candidates = [
                (search.going[beam][0] + value, beam, token)
                for beam in range(self.count)
                for value, token in zip(values[beam], tokens[beam], strict=True)
            ]
            candidates.sort(key=lambda x: (-x[0], x[1], x[2]))
            self._advance(search, candidates[:keep], last)
        full = all([len(search.ended) == self.count for search in self.searches])
        stop = full and self.early_stopping is True
        return not last and not stop and any([search.improving for search in self.searches])

    def _advance(
        self, search: Search, candidates: list[tuple[float, int, int]], last: bool
    ) -> None:
        going: list[tuple[float, int, list[int]]] = []
        full = len(search.ended) == self.count and self.early_stopping is True
        for rank, (score, beam, token) in enumerate(candidates):
            text = [*search.going[beam][1], token]
            if token not in self.ends and not last:
                going.append((score, beam, text))
            elif rank < self.count and search.improving and not full:
                search.ended.append((score / self.length**self.length_penalty, text))
        search.ended = sorted(search.ended, key=lambda x: -x[0])[: self.count]
        going = going[: self.count]
        if not last:
            search.going = [(score, text) for score, _, text in going]
            search.origins = [beam for _, beam, _ in going]
            search.improving = search.improving and self._may_improve(search)

    def _may_improve(self, search: Search) -> bool:
        """Whether a beam that goes on may still become better than the worst that has ended."""
        if len(search.ended) < self.count:
            return True
        latest = self.early_stopping == "never" and self.length_penalty > 0
        length = self.most if latest else self.length
        possible: float = search.going[0][0] / length**self.length_penalty
        return possible > search.ended[-1][0]

    def best(self) -> list[list[int]]:
        """The best texts of each search."""
        return [text for search in self.searches for _, text in self._results(search)]

    def _results(self, search: Search) -> list[Beam]:
        return (search.ended or search.going)[: self.results]
