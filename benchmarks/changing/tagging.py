"""A BiLSTM-CRF in the style of PyTorch's tutorial: Python loops over words and over tags."""

import random
from typing import Any

import numpy as np

from benchmarks.changing.base import Step, filled
from benchmarks.frameworks import Namespace

WORDS, TAGS = 100, 5
START, STOP = 3, 4  # the tags around every sentence
NEVER = -10_000.0


def crf(t: Namespace, seed: int) -> Step:
    """One sentence at every step: the score of all paths less that of the right one, and SGD."""
    chance, model = random.Random(seed), _tagger(t, seed)
    optimiser = t.optim.SGD(model.parameters(), lr=0.01, weight_decay=1e-4)

    def step() -> Any:
        words = _sentence(t, chance)
        tags = [chance.randrange(START) for _ in range(len(words))]
        loss = model.loss(words, tags)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def viterbi(t: Namespace, seed: int) -> Step:
    """The best path through one sentence at every step, without gradients."""
    chance, model = random.Random(seed), _tagger(t, seed)

    def step() -> Any:
        with t.xp.no_grad():
            score, _ = model.best_path(_sentence(t, chance))
        return score

    return step


def _sentence(t: Namespace, chance: random.Random) -> Any:
    return t.xp.tensor([chance.randrange(WORDS) for _ in range(chance.randrange(5, 15))])


def _tagger(t: Namespace, seed: int) -> Any:
    xp, nn = t.xp, t.nn

    def log_sum_exp(scores: Any) -> Any:
        """Of one row; its largest element is found by a number that is read."""
        largest = scores[0, scores.argmax(1).item()]
        spread = scores - largest.view(1, -1).expand(1, scores.size(1))
        return largest + xp.log(xp.sum(xp.exp(spread)))

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, 16)
            self.lstm = nn.LSTM(16, 8, num_layers=1, bidirectional=True)
            self.emit = nn.Linear(16, TAGS)
            self.transitions = nn.Parameter(xp.zeros(TAGS, TAGS))  # to, from

        def features(self, words: Any) -> Any:
            embedded = self.embedding(words).view(len(words), 1, -1)
            output, _ = self.lstm(embedded)
            return self.emit(output.view(len(words), 16))  # (words, tags)

        def all_paths(self, features: Any) -> Any:
            scores = xp.full((1, TAGS), NEVER)
            scores[0][START] = 0.0
            for feature in features:
                alphas = []
                for tag in range(TAGS):
                    emitted = feature[tag].view(1, -1).expand(1, TAGS)
                    to_tag = scores + self.transitions[tag].view(1, -1) + emitted
                    alphas.append(log_sum_exp(to_tag).view(1))
                scores = xp.cat(alphas).view(1, -1)
            return log_sum_exp(scores + self.transitions[STOP])

        def one_path(self, features: Any, tags: Any) -> Any:
            score = xp.zeros(1)
            tags = xp.cat([xp.tensor([START]), xp.tensor(tags)])
            for i, feature in enumerate(features):
                score = score + self.transitions[tags[i + 1], tags[i]] + feature[tags[i + 1]]
            return score + self.transitions[STOP, tags[-1]]

        def loss(self, words: Any, tags: list[int]) -> Any:
            features = self.features(words)
            return self.all_paths(features) - self.one_path(features, tags)

        def best_path(self, words: Any) -> tuple[Any, list[int]]:
            scores, pointers = xp.full((1, TAGS), NEVER), []
            scores[0][START] = 0
            for feature in self.features(words):
                best, found = [], []
                for tag in range(TAGS):
                    to_tag = scores + self.transitions[tag]
                    index = to_tag.argmax(1).item()
                    best.append(to_tag[0][index].view(1))
                    found.append(index)
                scores = (xp.cat(best) + feature).view(1, -1)
                pointers.append(found)
            ends = scores + self.transitions[STOP]
            last = ends.argmax(1).item()
            path = [last]
            for found in reversed(pointers):
                path.append(found[path[-1]])
            return ends[0][last], path[-2::-1]

    model = filled(t, np.random.default_rng(seed), Tagger())
    with xp.no_grad():
        model.transitions[START, :] = NEVER  # nothing leads to the start,
        model.transitions[:, STOP] = NEVER  # nor from the end
    return model
