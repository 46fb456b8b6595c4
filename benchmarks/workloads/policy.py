"""Policy gradient: an MLP 4-64-2 on one observation at a time, Adam.

The actions and returns of an episode are fixed beforehand, so that all frameworks take them alike.
"""

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

LEARNING_RATE = 1e-3


def weights(random: np.random.Generator) -> Arrays:
    return dense_weights(random, inner=(4, 64), outer=(64, 2))


def batches(random: np.random.Generator) -> list[Arrays]:
    return [
        {
            "observation": random.standard_normal((1, 4)).astype(np.float32),
            "action": random.integers(0, 2, ()),
            "gain": random.standard_normal(()).astype(np.float32),
        }
        for _ in range(32)
    ]


def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 64)
            self.outer = nn.Linear(64, 2)

        def forward(self, x: Any) -> Any:
            return self.outer(F.relu(self.inner(x)))

    model = load_weights(namespace, Policy(), weights)
    optimizer = namespace.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    episode = [
        (xp.tensor(batch["observation"]), int(batch["action"]), float(batch["gain"]))
        for batch in batches
    ]

    def step(i: int) -> Any:
        observation, action, gain = episode[i % len(episode)]
        optimizer.zero_grad()
        loss = -F.log_softmax(model(observation), dim=-1)[0, action] * gain
        loss.backward()
        optimizer.step()
        return loss

    return step


def jax(weights: Arrays, batches: list[Arrays]) -> Step:
    import jax
    import jax.numpy as jnp

    episode = [
        (jnp.asarray(batch["observation"]), int(batch["action"]), float(batch["gain"]))
        for batch in batches
    ]

    def loss_of(p: Any, observation: Any, action: Any, gain: Any) -> Any:
        hidden = jax.nn.relu(observation @ p["inner.weight"].T + p["inner.bias"])
        logits = hidden @ p["outer.weight"].T + p["outer.bias"]
        return -jax.nn.log_softmax(logits)[0, action] * gain

    return jax_steps(weights, episode, loss_of, LEARNING_RATE)


WORKLOAD = Workload("policy", "policy MLP 4-64-2, batch 1, Adam", 100, weights, batches, eager, jax)
