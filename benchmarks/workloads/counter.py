"""The network whose path depends on a counter: its graph is another one at every step. SGD."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.frameworks import Namespace
from benchmarks.workloads.base import Arrays, Step, Workload, dense_weights, load_weights

BATCH, INPUTS, HIDDEN, OUTPUTS = 16, 64, 32, 10
LEARNING_RATE = 1e-2
REPEATS = (0, 3, 1, 2)  # how often the hidden layer is used, by the counter


def weights(random: np.random.Generator) -> Arrays:
    return dense_weights(
        random, inner=(INPUTS, HIDDEN), middle=(HIDDEN, HIDDEN), outer=(HIDDEN, OUTPUTS)
    )


def batches(random: np.random.Generator) -> list[Arrays]:
    return [
        {
            "x": random.standard_normal((BATCH, INPUTS)).astype(np.float32),
            "y": random.standard_normal((BATCH, OUTPUTS)).astype(np.float32),
        }
        for _ in range(16)
    ]


def eager(namespace: Namespace, weights: Arrays, batches: list[Arrays]) -> Step:
    xp, nn, F = namespace.xp, namespace.nn, namespace.F

    class CounterNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(INPUTS, HIDDEN)
            self.middle = nn.Linear(HIDDEN, HIDDEN)
            self.outer = nn.Linear(HIDDEN, OUTPUTS)
            self.counter = 0

        def forward(self, x: Any) -> Any:
            hidden = F.relu(self.inner(x))
            for _ in range(REPEATS[self.counter]):
                hidden = self.middle(hidden).clamp(min=0)
            # Wrapped here, or torch.compile would specialise on every count and soon give up.
            self.counter = (self.counter + 1) % len(REPEATS)
            return self.outer(hidden)

    model = load_weights(namespace, CounterNet(), weights)
    optimizer = namespace.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    data = [(xp.tensor(batch["x"]), xp.tensor(batch["y"])) for batch in batches]

    def step(i: int) -> Any:
        x, y = data[i % len(data)]
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
    data = [(jnp.asarray(batch["x"]), jnp.asarray(batch["y"])) for batch in batches]

    def dense(p: Any, name: str, x: Any) -> Any:
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def loss_of(p: Any, x: Any, y: Any, repeats: int) -> Any:
        hidden = jax.nn.relu(dense(p, "inner", x))
        for _ in range(repeats):
            hidden = jnp.maximum(dense(p, "middle", hidden), 0)
        return jnp.mean((dense(p, "outer", hidden) - y) ** 2)

    # The path is a static argument: JAX compiles once for each of the four paths.
    @partial(jax.jit, donate_argnums=0, static_argnums=3)
    def compiled(params: Any, x: Any, y: Any, repeats: int) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, y, repeats)
        return loss, jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)

    def step(i: int) -> Any:
        nonlocal params
        loss, params = compiled(params, *data[i % len(data)], REPEATS[i % len(REPEATS)])
        return loss

    return step


WORKLOAD = Workload(
    "counter", "counter network 64-32-10, batch 16, SGD", 100, weights, batches, eager, jax
)
