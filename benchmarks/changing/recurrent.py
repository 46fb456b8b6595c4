"""Recurrent networks over sequences of another length at every step."""

import random
import string
from typing import Any

import numpy as np

from benchmarks.changing.base import Step, filled
from benchmarks.frameworks import Namespace


def lstm_cells(t: Namespace, seed: int) -> Step:
    """Two LSTM cells, 32 wide, in a Python loop of 100 to 200 steps over a batch of 16."""
    return _lstm_cells(t, seed, width=32, batch=16, dtype="f")


def sine_waves(t: Namespace, seed: int) -> Step:
    """The same, 51 wide, in double precision, over 97 sequences: PyTorch's sine-wave example."""
    return _lstm_cells(t, seed, width=51, batch=97, dtype="d")


def _lstm_cells(t: Namespace, seed: int, width: int, batch: int, dtype: str) -> Step:
    xp, nn, chance = t.xp, t.nn, random.Random(seed)
    kind = xp.float64 if dtype == "d" else xp.float32

    class Sequence(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lower, self.upper = nn.LSTMCell(1, width), nn.LSTMCell(width, width)
            self.linear = nn.Linear(width, 1)

        def forward(self, waves: Any) -> Any:
            h1, c1, h2, c2 = (xp.zeros(batch, width, dtype=kind) for _ in range(4))
            outputs = []
            for x in waves.split(1, dim=1):
                h1, c1 = self.lower(x, (h1, c1))
                h2, c2 = self.upper(h1, (h2, c2))
                outputs.append(self.linear(h2))
            return xp.cat(outputs, dim=1)

    model = filled(t, np.random.default_rng(seed), Sequence().to(kind))
    optimiser = t.optim.Adam(model.parameters(), lr=1e-3)
    phases = np.random.default_rng(seed).uniform(0, 80, (batch, 1))
    waves = xp.tensor(np.sin((np.arange(201) + phases) / 20).astype(dtype))

    def step() -> Any:
        length = chance.randrange(100, 201)
        loss = nn.MSELoss()(model(waves[:, :length]), waves[:, 1 : length + 1])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


LETTERS = string.ascii_letters + " .,;'"
LANGUAGES, HIDDEN = 18, 128


def _names(seed: int) -> list[tuple[str, int]]:
    """Made-up words and their languages."""
    chance = random.Random(seed)
    return [
        ("".join(chance.choices(LETTERS, k=chance.randrange(2, 15))), chance.randrange(LANGUAGES))
        for _ in range(1000)
    ]


def _one_hot(t: Namespace, name: str) -> Any:
    """(letters, 1, kinds of letters), filled in letter by letter."""
    tensor = t.xp.zeros(len(name), 1, len(LETTERS))
    for place, letter in enumerate(name):
        tensor[place][0][LETTERS.find(letter)] = 1
    return tensor


def names(t: Namespace, seed: int) -> Step:
    """A network of two linear layers reads a name letter by letter; one name at every step."""
    xp, nn, chance = t.xp, t.nn, random.Random(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(len(LETTERS) + HIDDEN, HIDDEN)
            self.output = nn.Linear(len(LETTERS) + HIDDEN, LANGUAGES)
            self.softmax = nn.LogSoftmax(dim=1)

        def forward(self, letter: Any, hidden: Any) -> Any:
            both = xp.cat((letter, hidden), 1)
            return self.softmax(self.output(both)), self.hidden(both)

    model = filled(t, np.random.default_rng(seed), Reader())
    criterion, data = nn.NLLLoss(), _names(seed)

    def step() -> Any:
        name, language = chance.choice(data)
        letters, hidden = _one_hot(t, name), xp.zeros(1, HIDDEN)
        model.zero_grad()
        for i in range(letters.size(0)):
            output, hidden = model(letters[i], hidden)
        loss = criterion(output, xp.tensor([language]))
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad.data, alpha=-0.005)
        return loss

    return step


def names_module(t: Namespace, seed: int) -> Step:
    """The same task with `nn.RNN`, which has the loop inside."""
    xp, nn, F, chance = t.xp, t.nn, t.F, random.Random(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(len(LETTERS), HIDDEN)
            self.output = nn.Linear(HIDDEN, LANGUAGES)

        def forward(self, letters: Any) -> Any:
            _, hidden = self.rnn(letters)
            return F.log_softmax(self.output(hidden[0]), dim=1)

    model = filled(t, np.random.default_rng(seed), Reader())
    optimiser = t.optim.SGD(model.parameters(), lr=0.15)
    data = _names(seed)

    def step() -> Any:
        name, language = chance.choice(data)
        loss = F.nll_loss(model(_one_hot(t, name)), xp.tensor([language]))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 3)
        optimiser.step()
        return loss

    return step
