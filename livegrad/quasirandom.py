"""Points that fill the unit cube evenly, under the names of `torch.quasirandom`."""

from __future__ import annotations

from typing import Any

from livegrad import dtypes
from livegrad.creation import tensor
from livegrad.ops.making.random import randint
from livegrad.tensor import Tensor


class SobolEngine:
    """The Sobol sequence of `dimension` numbers, scrambled if asked for; SciPy computes it.

    Example:
        >>> from livegrad.quasirandom import SobolEngine
        >>> SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError("Supported range of dimensionality for SobolEngine is [1, 21201]")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        if scramble and seed is None:  # of livegrad's own generator, so that `manual_seed` counts
            seed = int(randint(2**31 - 1, ()))
        self._start = seed
        self._engine = self._fresh()

    def _fresh(self) -> Any:
        from scipy.stats import qmc  # which takes half a second, and is not always installed

        return qmc.Sobol(self.dimension, scramble=self.scramble, bits=self.MAXBIT, seed=self._start)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points: (n, dimension)."""
        import numpy as np

        # One at a time the sequence has no power of two that could be broken, of which SciPy warns.
        points = [self._engine.random(1)] if n and not self.num_generated else []
        rest = n - len(points)
        if rest > 0:
            points.append(self._engine.random(rest))
        self.num_generated += n
        found = np.concatenate(points) if points else np.zeros((0, self.dimension))
        drawn = tensor(found, dtype=dtypes.get_default_dtype() if dtype is None else dtype)
        return drawn if out is None else out.resize_(drawn.shape).copy_(drawn)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points, if as many as a power of two have been drawn in the end."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self._engine = self._fresh()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out `n` points."""
        self._engine.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        if self.scramble:
            options.append("scramble=True")
        if self.seed is not None:
            options.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(options)})"
