"""What a workload is, and the few helpers they share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.frameworks import Namespace

Arrays = dict[str, NDArray[Any]]
Step = Callable[[int], Any]
"""Does training step i, parameters updated, and returns the loss, which nobody has read yet."""


@dataclass(frozen=True)
class Workload:
    """One training step. All frameworks get the same `weights` and `batches`, made by NumPy.

    Step i uses batch i modulo `len(batches)`.
    """

    name: str
    title: str
    steps: int  # steps in one burst, some tens of milliseconds
    weights: Callable[[np.random.Generator], Arrays]
    batches: Callable[[np.random.Generator], list[Arrays]]
    eager: Callable[[Namespace, Arrays, list[Arrays]], Step]
    jax: Callable[[Arrays, list[Arrays]], Step] | None = None  # not written for it if None


def dense_weights(random: np.random.Generator, **sizes: tuple[int, int]) -> Arrays:
    """Weights (out, in) and biases (out,) of linear layers, uniform as PyTorch's default."""
    arrays: Arrays = {}
    for name, (inputs, outputs) in sizes.items():
        bound = inputs**-0.5
        for suffix, shape in (("weight", (outputs, inputs)), ("bias", (outputs,))):
            values = random.uniform(-bound, bound, shape)
            arrays[f"{name}.{suffix}"] = values.astype(np.float32)
    return arrays


def load_weights(namespace: Namespace, model: Any, weights: Arrays) -> Any:
    """`model` with `weights`, compiled where the framework is `torch.compile`."""
    model.load_state_dict({name: namespace.xp.tensor(value) for name, value in weights.items()})
    return namespace.prepare(model)


def jax_steps(
    weights: Arrays, data: list[tuple[Any, ...]], loss_of: Callable[..., Any], learning_rate: float
) -> Step:
    """Steps of Adam on `loss_of(params, *batch)`, each one compiled function."""
    import jax
    import jax.numpy as jnp

    initial, adam = _jax_adam(learning_rate)
    params: Any = {name: jnp.asarray(value) for name, value in weights.items()}
    state = initial(params)

    def update(params: Any, state: Any, *batch: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, *batch)
        return loss, *adam(params, grads, state)

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step(i: int) -> Any:
        nonlocal params, state
        loss, params, state = compiled(params, state, *data[i % len(data)])
        return loss

    return step


def _jax_adam(learning_rate: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Adam with PyTorch's defaults over a pytree: (initial state, update)."""
    import jax
    import jax.numpy as jnp

    def initial(params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return zeros, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.float32)

    def update(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        first, second, count = state
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        scale1, scale2 = 1 - 0.9**count, 1 - 0.999**count

        def move(p: Any, m: Any, v: Any) -> Any:
            return p - learning_rate * (m / scale1) / (jnp.sqrt(v / scale2) + 1e-8)

        return jax.tree.map(move, params, first, second), (first, second, count)

    return initial, update
