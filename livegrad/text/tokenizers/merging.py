"""Byte-pair encoding: the merging of neighbours, and which merges a text teaches."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

Pair = tuple[str, str]


def merged(symbols: Sequence[str], ranks: Mapping[Pair, int]) -> list[str]:
    """Symbols with neighbours merged, pairs of the lowest rank first, from left to right.

        l o w e r   ranks: (e, r) 0, (l, o) 1, (lo, w) 2
        l o w er  ──►  lo w er  ──►  low er

    Symbols are a linked list, and pairs that may be merged a heap: long texts take n log n.
    """
    parts = list(symbols)
    count = len(parts)
    after, before = list(range(1, count + 1)), list(range(-1, count - 1))
    waiting = [(ranks[pair], i, pair) for i, pair in enumerate(pairwise(parts)) if pair in ranks]
    heapq.heapify(waiting)
    while waiting:
        _, left, pair = heapq.heappop(waiting)
        right = after[left] if parts[left] else count
        if right >= count or (parts[left], parts[right]) != pair:
            continue  # one of the two was merged with another before
        parts[left], parts[right] = parts[left] + parts[right], ""
        after[left] = after[right]
        if after[left] < count:
            before[after[left]] = left
        for i, j in ((before[left], left), (left, after[left])):
            if i >= 0 and j < count and (parts[i], parts[j]) in ranks:
                heapq.heappush(waiting, (ranks[parts[i], parts[j]], i, (parts[i], parts[j])))
    return [part for part in parts if part]


class Lesson:
    """The words of a text, cut into symbols, while merges are learnt from them.

    Counts of pairs are kept up to date: a merge changes only the words that have the pair.
    """

    def __init__(self, words: Mapping[str, int], ids: Mapping[str, int]) -> None:
        self.ids = dict(ids)
        self.symbols = [list(word) for word in words]
        self.weights = list(words.values())
        self.counts: Counter[Pair] = Counter()
        self.places: dict[Pair, set[int]] = {}
        for i in range(len(self.symbols)):
            self._count(i, 1)
        self.waiting = [self._entry(pair) for pair in self.counts]
        heapq.heapify(self.waiting)

    def _entry(self, pair: Pair) -> tuple[int, int, int, Pair]:
        """The order in which pairs are merged: the most frequent first, then the oldest."""
        return -self.counts[pair], self.ids[pair[0]], self.ids[pair[1]], pair

    def _count(self, i: int, sign: int) -> set[Pair]:
        """Counts the pairs of a word in, or out; which they are."""
        pairs = Counter(pairwise(self.symbols[i]))
        for pair, times in pairs.items():
            self.counts[pair] += sign * times * self.weights[i]
            if sign > 0:
                self.places.setdefault(pair, set()).add(i)
            else:
                self.places[pair].discard(i)
        return set(pairs)

    def best(self) -> tuple[Pair, int] | None:
        """The pair to merge next, and how often it is there."""
        while self.waiting:
            entry = heapq.heappop(self.waiting)
            pair = entry[-1]
            if entry[0] == -self.counts[pair]:
                return (pair, self.counts[pair]) if self.counts[pair] > 0 else None
            if self.counts[pair] > 0:  # it has become less since it was put there
                heapq.heappush(self.waiting, self._entry(pair))
        return None

    def merge(self, pair: Pair) -> None:
        """Makes the pair one symbol everywhere."""
        self.ids.setdefault(pair[0] + pair[1], len(self.ids))
        changed: set[Pair] = set()
        for i in list(self.places[pair]):
            self._count(i, -1)
            self.symbols[i] = merged(self.symbols[i], {pair: 0})
            changed |= self._count(i, 1)
        del self.places[pair], self.counts[pair]
        made = pair[0] + pair[1]
        for new in changed:
            if made in new:
                heapq.heappush(self.waiting, self._entry(new))


def learn_merges(
    words: Mapping[str, int], ids: Mapping[str, int], size: int, min_frequency: int
) -> tuple[list[Pair], dict[str, int]]:
    """Merges learnt from words and their counts, until there are `size` tokens; and all tokens."""
    lesson, merges = Lesson(words, ids), list[Pair]()
    while len(lesson.ids) < size:
        best = lesson.best()
        if best is None or best[1] < max(min_frequency, 1):
            break
        merges.append(best[0])
        lesson.merge(best[0])
    return merges, lesson.ids
