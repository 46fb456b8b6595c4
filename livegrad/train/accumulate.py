"""Gradient accumulation: several batches for one step of the optimiser."""

from __future__ import annotations

from typing import Any

from livegrad.autograd import no_grad
from livegrad.nn.utils import clip_grad_norm_


class Accumulate:
    """Gathers the gradients of `steps` batches, then steps; the mean is right in every case.

        accumulate = Accumulate(optimizer, steps=4)
        for x, y in loader:
            accumulate.backward(F.cross_entropy(model(x), y))
        accumulate.finish()                 # the last few batches, if their number is no multiple

    `backward` takes the mean loss of a batch, and `weight` says of how many samples or tokens. The
    step is that of one large batch: gradients are added with these weights and divided by their
    sum when the step is made, so smaller batches count less, and an incomplete group at the end
    counts as what it is. Without weights, all batches count alike.

    `max_norm` clips the norm of the gradients before the step. `scaler` is a GradScaler.
    """

    def __init__(
        self, optimizer: Any, steps: int = 1, *, max_norm: float | None = None, scaler: Any = None
    ) -> None:
        if steps < 1:
            raise ValueError(f"Accumulate: got steps={steps}; expected at least 1")
        self.optimizer = optimizer
        self.steps = steps
        self.max_norm = max_norm
        self.scaler = scaler
        self.gathered = 0
        self.weight = 0.0

    def backward(self, loss: Any, weight: float = 1.0) -> bool:
        """Adds the gradients of a batch; returns whether the optimiser has made a step."""
        if getattr(self.optimizer, "needs_closure", False):
            raise TypeError(
                f"Accumulate.backward: {type(self.optimizer).__name__} computes loss and gradients "
                "itself, several times in a step, so none can be gathered before it. Call "
                "optimizer.step(closure) with a closure that goes over all batches"
            )
        weight = float(weight)
        if not weight > 0:
            raise ValueError(f"Accumulate.backward: got weight={weight}; expected more than 0")
        if not self.gathered:
            self.optimizer.zero_grad()
        scaled = loss if weight == 1.0 else loss * weight
        if self.scaler is not None:
            scaled = self.scaler.scale(scaled)
        scaled.backward()
        self.gathered += 1
        self.weight += weight
        if self.gathered < self.steps:
            return False
        self.finish()
        return True

    def finish(self) -> bool:
        """Makes a step with what has been gathered; returns whether there was anything."""
        if not self.gathered:
            return False
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        params = [p for p in self._params() if p.grad is not None]
        if self.weight != 1.0:
            with no_grad():
                for p in params:
                    p.grad = p.grad * (1.0 / self.weight)
        if self.max_norm is not None:
            clip_grad_norm_(params, self.max_norm)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.gathered, self.weight = 0, 0.0
        return True

    def _params(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def __enter__(self) -> Accumulate:
        return self

    def __exit__(self, kind: Any, *exception: Any) -> None:
        if kind is None:
            self.finish()

    def state_dict(self) -> dict[str, Any]:
        """What has been gathered, gradients included: `save_run` works between two steps too."""
        grads = [p.grad for p in self._params()] if self.gathered else []
        return {"gathered": self.gathered, "weight": self.weight, "grads": grads}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        grads, params = state_dict["grads"], self._params()
        if grads and len(grads) != len(params):
            raise ValueError(
                f"Accumulate.load_state_dict: got {len(grads)} gradients; the optimizer has "
                f"{len(params)} parameters"
            )
        self.gathered, self.weight = state_dict["gathered"], state_dict["weight"]
        for p, grad in zip(params, grads or [None] * len(params), strict=True):
            p.grad = None if grad is None else grad.detach().clone()
