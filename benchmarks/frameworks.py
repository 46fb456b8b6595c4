"""The frameworks compared, and the names a workload needs from each.

livegrad and torch share one `Namespace`, so a workload is written once for both. JAX is another
language: each workload has its own JAX version.
"""

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIVEGRAD = "livegrad"
TORCH = "torch"
COMPILE = "torch.compile"
JAX = "jax"
CONTROL = "torch again"  # must come out as fast as torch: what it does not is noise
ALL = (LIVEGRAD, TORCH, COMPILE, JAX)
PACKAGE = {
    LIVEGRAD: "livegrad",
    TORCH: "torch",
    COMPILE: "torch",
    JAX: "jax",
    CONTROL: "torch",
}


@dataclass(frozen=True)
class Namespace:
    """What PyTorch-style code imports. `prepare` is `torch.compile` for that framework."""

    xp: Any
    nn: Any
    optim: Any
    F: Any
    prepare: Callable[[Any], Any]


def unchanged(model: Any) -> Any:
    return model


def load(framework: str) -> Namespace | None:
    """Import `framework`; None for JAX, which has no PyTorch-style namespace."""
    package = PACKAGE[framework]
    xp = importlib.import_module(package)
    if framework == JAX:
        importlib.import_module("jax.numpy")
        return None
    nn = importlib.import_module(f"{package}.nn")
    optim = importlib.import_module(f"{package}.optim")
    functional = importlib.import_module(f"{package}.nn.functional")
    return Namespace(xp, nn, optim, functional, xp.compile if framework == COMPILE else unchanged)


def installed(framework: str) -> bool:
    """Whether the package of `framework` can be found, without importing it."""
    spec = importlib.util.find_spec(PACKAGE[framework])
    return spec is not None and spec.origin is not None


def limit_threads(namespace: Namespace | None, threads: int) -> None:
    """Tell an imported framework to use `threads` threads; JAX heeds the affinity mask alone."""
    if namespace is not None and hasattr(namespace.xp, "set_num_threads"):
        namespace.xp.set_num_threads(threads)


def environment(threads: int) -> dict[str, str]:
    """The variables a child process starts with, so that every library sees `threads` threads."""
    names = ("OMP", "MKL", "OPENBLAS", "LIVEGRAD")
    return {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in names}}
