"""Networks and expressions that are put together anew at every step."""

import itertools
import random
from typing import Any

import numpy as np

from benchmarks.changing.base import Step, weights
from benchmarks.frameworks import Namespace


def tree_lstm(t: Namespace, seed: int) -> Step:
    """A binary Tree-LSTM, 32 wide, over random trees of 5 to 19 leaves, with Adam."""
    return _forest(t, seed, trees=1)


def forest(t: Namespace, seed: int) -> Step:
    """The same over 64 trees at every step, written example by example: one loss, one backward."""
    return _forest(t, seed, trees=64)


def _forest(t: Namespace, seed: int, trees: int) -> Step:
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    table, w, b, u, c = weights(t, rng, (100, 32), (64, 160), (160,), (32, 96), (96,))
    (head,) = weights(t, rng, (32, 1))
    optimiser = t.optim.Adam([table, w, b, u, c, head], lr=1e-3)

    def leaf() -> Any:
        x = table[chance.randrange(100)].unsqueeze(0)
        i, o, g = (x @ u + c).chunk(3, 1)
        cell = xp.sigmoid(i) * xp.tanh(g)
        return xp.sigmoid(o) * xp.tanh(cell), cell

    def tree(leaves: int) -> Any:
        if leaves == 1:
            return leaf()
        left = chance.randrange(1, leaves)
        (h1, c1), (h2, c2) = tree(left), tree(leaves - left)
        i, f1, f2, o, g = (xp.cat([h1, h2], 1) @ w + b).chunk(5, 1)
        cell = xp.sigmoid(i) * xp.tanh(g) + xp.sigmoid(f1) * c1 + xp.sigmoid(f2) * c2
        return xp.sigmoid(o) * xp.tanh(cell), cell

    def loss_of_one() -> Any:
        hidden, _ = tree(chance.randrange(5, 20))
        return ((hidden @ head).sum() - chance.random()) ** 2

    def step() -> Any:
        losses = [loss_of_one() for _ in range(trees)]
        loss = losses[0] if trees == 1 else xp.stack(losses).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def random_layers(t: Namespace, seed: int) -> Step:
    """A random DAG of layers over shared weights, as an architecture search makes them."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    matrices = weights(t, rng, *[(32, 32)] * 6)
    x = xp.tensor(rng.standard_normal((16, 32)).astype("f"))
    optimiser = t.optim.SGD(matrices, lr=1e-3)
    kinds = (xp.relu, xp.tanh, xp.sigmoid, lambda v: v)

    def step() -> Any:
        values = [x]
        for _ in range(chance.randrange(4, 10)):
            a, b = chance.choice(values), chance.choice(values)
            w = chance.choice(matrices)
            y = chance.choice(kinds)(a @ w)
            values.append(y + b if chance.random() < 0.5 else y)
        loss = (values[-1] @ matrices[0]).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def random_expressions(t: Namespace, seed: int) -> Step:
    """Random expressions of one vector and two constants that are fitted: symbolic regression."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    x = xp.tensor(rng.standard_normal(64).astype("f"))
    y = xp.tensor(rng.standard_normal(64).astype("f"))
    constants = weights(t, rng, (1,), (1,))
    optimiser = t.optim.SGD(constants, lr=1e-4)
    unary = (xp.sin, xp.cos, xp.tanh, xp.sigmoid, xp.exp, xp.abs, lambda v: v * v)
    binary = (xp.add, xp.sub, xp.mul, xp.maximum)

    def expression(depth: int) -> Any:
        if depth == 0:
            return chance.choice([x, *constants])
        if chance.random() < 0.5:
            return chance.choice(unary)(expression(depth - 1))
        return chance.choice(binary)(expression(depth - 1), expression(depth - 1))

    def step() -> Any:
        value = xp.tanh(expression(4)) + constants[0] * x + constants[1]
        loss = ((value - y) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def random_mlp(t: Namespace, seed: int) -> Step:
    """A fresh MLP of random depth and widths at every step: forward and backward."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    pool = xp.tensor(rng.standard_normal(200_000).astype("f") * 0.1)
    x = xp.tensor(rng.standard_normal((32, 64)).astype("f"))

    def step() -> Any:
        sizes = [64, *[chance.randrange(8, 96) for _ in range(chance.randrange(2, 6))], 1]
        value, parameters = x, []
        for a, b in itertools.pairwise(sizes):
            w = pool[: a * b].reshape(a, b).clone().requires_grad_()
            c = xp.zeros(b, requires_grad=True)
            parameters += [w, c]
            value = value @ w + c
            if b != 1:
                value = xp.relu(value)
        loss = value.pow(2).mean()
        loss.backward()
        with xp.no_grad():
            for p in parameters:
                p -= 0.01 * p.grad
        return loss

    return step


def graph_network(t: Namespace, seed: int) -> Step:
    """Message passing over a random graph, another one at every step, with Adam."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    w1, w2, w3, head = weights(t, rng, (16, 32), (32, 32), (64, 32), (32, 1))
    optimiser = t.optim.Adam([w1, w2, w3, head], lr=1e-3)

    def step() -> Any:
        count = chance.randrange(10, 40)
        edges = chance.randrange(count, 4 * count)
        features = xp.tensor(rng.standard_normal((count, 16)).astype("f"))
        source = xp.tensor(rng.integers(0, count, edges))
        target = xp.tensor(rng.integers(0, count, edges))
        hidden = xp.relu(features @ w1)
        for _ in range(chance.randrange(1, 4)):
            message = xp.relu(hidden[source] @ w2)
            gathered = xp.zeros(count, 32).index_add(0, target, message)
            hidden = xp.tanh(xp.cat([hidden, gathered], 1) @ w3)
        loss = (hidden.mean(0) @ head).pow(2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def halting_gru(t: Namespace, seed: int) -> Step:
    """A GRU that decides at each of its steps, by a value that is read, whether to go on."""
    xp, chance = t.xp, random.Random(seed)
    rng = np.random.default_rng(seed)
    wx, wh, b, halt = weights(t, rng, (16, 96), (32, 96), (96,), (32, 1))
    optimiser = t.optim.Adam([wx, wh, b, halt], lr=1e-3)

    def step() -> Any:
        sequence = xp.tensor(rng.standard_normal((chance.randrange(4, 12), 8, 16)).astype("f"))
        hidden, total = xp.zeros(8, 32), 0.0
        for x in sequence:
            left = chance.randrange(1, 6)
            while left:
                r, z, n = (x @ wx + b).chunk(3, 1)
                hr, hz, hn = (hidden @ wh).chunk(3, 1)
                z = xp.sigmoid(z + hz)
                hidden = (1 - z) * xp.tanh(n + xp.sigmoid(r + hr) * hn) + z * hidden
                stop = xp.sigmoid(hidden @ halt).mean()
                total = total + stop
                left -= 1
                if stop.item() > 0.6:
                    break
        loss = total + hidden.pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step
