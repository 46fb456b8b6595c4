"""Optimisers of several processes: each keeps the state of its share, or of what it owns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegrad.distributed import autograd
from livegrad.distributed.groups import ProcessGroup, group_of
from livegrad.distributed.rpc.references import RRef
from livegrad.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimiser whose state is shared out among the processes; one process has all of it.

    `optim` is the optimiser of this process. `state_dict` needs `consolidate_state_dict` before
    it, as with more processes.
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: Any,
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self.process_group = group_of(process_group)
        self.rank, self.world_size = 0, 1
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._consolidated: dict[str, Any] | None = None
        self.optim = optimizer_class(params, **defaults)
        self.defaults = self.optim.defaults
        self._make_hooks()

    # Groups and state are those of the optimiser, also where they are written.
    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of parameters."""
        return self.optim.param_groups  # type: ignore[no-any-return]

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of each parameter."""
        return self.optim.state

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """A step of the optimiser."""
        return self.optim.step(closure, **kwargs) if closure is not None else self.optim.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters."""
        self.optim.add_param_group(param_group)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all processes at one of them."""
        if to != 0:
            raise ValueError(f"consolidate_state_dict: got to={to}; expected 0, of one process")
        self._consolidated = self.optim.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The state that was collected last."""
        if self._consolidated is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                "`consolidate_state_dict(to=0)` on all ranks beforehand if you meant to save the "
                "global state."
            )
        return self._consolidated

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state back."""
        self.optim.load_state_dict(state_dict)
        self._consolidated = None

    def __repr__(self) -> str:
        return f"ZeroRedundancyOptimizer({self.optim!r})"


class DistributedOptimizer:
    """An optimiser of parameters by reference; gradients are those of a context of autograd."""

    def __init__(
        self, optimizer_class: Any, params_rref: Iterable[RRef[Any]], *args: Any, **kwargs: Any
    ) -> None:
        self._parameters = [ref.local_value() for ref in params_rref]
        self.optim = optimizer_class(self._parameters, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """A step with the gradients of a context; `grad` of parameters is left as it was."""
        found = autograd.get_gradients(context_id)
        before = [p.grad for p in self._parameters]
        for p in self._parameters:
            p.grad = found.get(p)
        self.optim.step()
        for p, grad in zip(self._parameters, before, strict=True):
            p.grad = grad


__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]
