"""A classifier MLP 784-256-10 on batches of 64, cross-entropy, Adam."""

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

BATCH, LEARNING_RATE = 64, 1e-3


def weights(random: np.random.Generator) -> Arrays:
    return dense_weights(random, inner=(784, 256), outer=(256, 10))


def batches(random: np.random.Generator) -> list[Arrays]:
    return [
        {
            "x": random.standard_normal((BATCH, 784)).astype(np.float32),
            "y": random.integers(0, 10, BATCH),
        }
        for _ in range(16)
    ]


def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(784, 256)
            self.outer = nn.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            return self.outer(F.relu(self.inner(x)))

    model = load_weights(namespace, Classifier(), weights)
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

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        hidden = jax.nn.relu(x @ p["inner.weight"].T + p["inner.bias"])
        logits = hidden @ p["outer.weight"].T + p["outer.bias"]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
        return -jnp.mean(chosen)

    return jax_steps(weights, data, loss_of, LEARNING_RATE)


WORKLOAD = Workload("mlp", "MLP 784-256-10, batch 64, Adam", 40, weights, batches, eager, jax)
