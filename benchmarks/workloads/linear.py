"""Linear regression: 100 points, one input, SGD."""

from typing import Any

import numpy as np

from benchmarks.frameworks import Namespace
from benchmarks.workloads.base import Arrays, Step, Workload, dense_weights, load_weights

POINTS, LEARNING_RATE = 100, 0.01


def weights(random: np.random.Generator) -> Arrays:
    return dense_weights(random, line=(1, 1))


def batches(random: np.random.Generator) -> list[Arrays]:
    x = random.standard_normal((POINTS, 1)).astype(np.float32)
    noise = random.standard_normal((POINTS, 1)).astype(np.float32)
    return [{"x": x, "y": 3 * x + 2 + noise}]


def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    class Line(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(1, 1)

        def forward(self, x: Any) -> Any:
            return self.line(x)

    model = load_weights(namespace, Line(), weights)
    optimizer = namespace.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    x, y = xp.tensor(batches[0]["x"]), xp.tensor(batches[0]["y"])

    def step(i: int) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def jax(weights: Arrays, batches: list[Arrays]) -> Step:
    import jax
    import jax.numpy as jnp

    params = {name: jnp.asarray(value) for name, value in weights.items()}
    x, y = jnp.asarray(batches[0]["x"]), jnp.asarray(batches[0]["y"])

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ params["line.weight"].T + params["line.bias"] - y) ** 2)

    def update(params: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        return loss, jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)

    compiled = jax.jit(update, donate_argnums=0)

    def step(i: int) -> Any:
        nonlocal params
        loss, params = compiled(params, x, y)
        return loss

    return step


WORKLOAD = Workload("linear", "linear regression 100×1, SGD", 200, weights, batches, eager, jax)
