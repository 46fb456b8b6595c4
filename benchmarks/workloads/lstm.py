"""A language model: embedding, one LSTM of 128, 1000 words; 32 sequences of 32 words, Adam."""

from typing import Any

import numpy as np

from benchmarks.frameworks import Namespace
from benchmarks.workloads.base import (
    Arrays,
    Step,
    Workload,
    dense_weights,
    jax_steps,
    load_weights,
)

WORDS, INPUTS, HIDDEN = 1000, 64, 128
LENGTH, BATCH, LEARNING_RATE = 32, 32, 1e-3


def weights(random: np.random.Generator) -> Arrays:
    found: Arrays = dense_weights(random, outer=(HIDDEN, WORDS))
    found["words.weight"] = random.standard_normal((WORDS, INPUTS)).astype(np.float32)
    for name, shape in (
        ("weight_ih_l0", (4 * HIDDEN, INPUTS)),
        ("weight_hh_l0", (4 * HIDDEN, HIDDEN)),
        ("bias_ih_l0", (4 * HIDDEN,)),
        ("bias_hh_l0", (4 * HIDDEN,)),
    ):
        values = random.uniform(-(HIDDEN**-0.5), HIDDEN**-0.5, shape)
        found[f"lstm.{name}"] = values.astype(np.float32)
    return found


def batches(random: np.random.Generator) -> list[Arrays]:
    return [
        {
            "x": random.integers(0, WORDS, (LENGTH, BATCH)),
            "y": random.integers(0, WORDS, LENGTH * BATCH),
        }
        for _ in range(4)
    ]


def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    class LanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, INPUTS)
            self.lstm = nn.LSTM(INPUTS, HIDDEN)
            self.outer = nn.Linear(HIDDEN, WORDS)

        def forward(self, x: Any) -> Any:
            return self.outer(self.lstm(self.words(x))[0]).reshape(-1, WORDS)

    model = load_weights(namespace, LanguageModel(), weights)
    optimizer = namespace.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    data = [(xp.tensor(batch["x"]), xp.tensor(batch["y"])) for batch in batches]

    def step(i: int) -> Any:
        x, y = data[i % len(data)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def jax(weights: Arrays, batches: list[Arrays]) -> Step:
    import jax
    import jax.numpy as jnp

    data = [(jnp.asarray(batch["x"]), jnp.asarray(batch["y"])) for batch in batches]

    def logits_of(p: Any, x: Any) -> Any:
        bias = p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"]
        gates = p["words.weight"][x] @ p["lstm.weight_ih_l0"].T + bias

        def cell(carried: Any, gate: Any) -> Any:
            h, c = carried
            i, f, g, o = jnp.split(gate + h @ p["lstm.weight_hh_l0"].T, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((BATCH, HIDDEN))
        _, states = jax.lax.scan(cell, (zeros, zeros), gates)
        return (states @ p["outer.weight"].T + p["outer.bias"]).reshape(-1, WORDS)

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits_of(p, x)), y[:, None], axis=1)
        return -jnp.mean(chosen)

    return jax_steps(weights, data, loss_of, LEARNING_RATE)


WORKLOAD = Workload(
    "lstm", "LSTM 64-128, 1000 words, 32 by 32, Adam", 6, weights, batches, eager, jax
)
