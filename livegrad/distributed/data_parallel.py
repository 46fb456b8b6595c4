"""DistributedDataParallel: a module whose gradients are averaged over all processes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.autograd import no_grad
from livegrad.distributed.groups import ProcessGroup, group_of
from livegrad.futures import Future
from livegrad.nn.module import Module
from livegrad.nn.parameter import is_lazy


class GradBucket:
    """Gradients that go to all processes together: here, that of one parameter."""

    def __init__(self, index: int, parameter: Any, last: bool) -> None:
        self._index, self._parameter, self._last = index, parameter, last
        self._buffer = parameter.grad.detach().reshape(-1)

    def index(self) -> int:
        """The place of the bucket among all: that of the last layer comes first."""
        return self._index

    def buffer(self) -> Any:
        """The gradients in one dim."""
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        """Exchanges the gradients."""
        self._buffer = buffer

    def gradients(self) -> list[Any]:
        """The gradients, shaped as the parameters."""
        return [self._buffer.reshape(self._parameter.shape)]

    def parameters(self) -> list[Any]:
        """The parameters."""
        return [self._parameter]

    def is_last(self) -> bool:
        """Whether it is the last bucket of a backward pass."""
        return self._last


class DistributedDataParallel(Module):
    """Calls `module`; its parameters are called "module.…", its gradients are those of the group.

    With one process, these are its own. A hook for communication (`register_comm_hook`) is called
    all the same, for each parameter when its gradient is there, and its answer is used.
    """

    def __init__(
        self,
        module: Module,
        device_ids: list[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        self.process_group = group_of(process_group)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        _check(module, self._learned(module), device_ids, output_device)
        self.module = module
        self.device_ids: list[Any] | None = None
        self.output_device = None
        self.dim = dim
        self.device = next(iter(module.parameters())).device
        self.broadcast_buffers = broadcast_buffers is not False
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._comm_hooks: list[tuple[Any, Any]] = []

    def _learned(self, module: Any) -> list[Any]:
        ignored = self.parameters_to_ignore
        named = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        return [p for _, p in named if p.requires_grad]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, backward passes collect gradients of this process alone."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Within it, processes may have unequal numbers of inputs."""
        yield

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Has `hook(state, bucket)`, which gives a future, say what gradients become."""
        _check_hook(hook)
        if self._comm_hooks:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self._comm_hooks.append((hook, state))
        learned = self._learned(self.module)[::-1]
        for index, p in enumerate(learned):
            run = partial(self._communicate, index, index == len(learned) - 1)
            p.register_post_accumulate_grad_hook(run)

    def _communicate(self, index: int, last: bool, parameter: Any) -> None:
        if not self.require_backward_grad_sync or parameter.grad is None:
            return
        hook, state = self._comm_hooks[0]
        result = hook(state, GradBucket(index, parameter, last))
        value = result.wait() if isinstance(result, Future) else result
        value = value[0] if isinstance(value, list | tuple) else value
        with no_grad():
            parameter.grad = value.reshape(parameter.shape).to(parameter.dtype)

    def will_sync_module_buffers(self) -> bool:
        """Whether buffers go to all processes before a call."""
        return self.broadcast_buffers and bool(list(self.module.buffers()))

    def _set_static_graph(self) -> None:
        self.static_graph = True

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {"world_size": 1, "rank": 0, "backend_name": self.process_group.name()}

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Any, names: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = names


def _check(module: Any, learned: list[Any], device_ids: Any, output_device: Any) -> None:
    if not learned:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            "requires a gradient."
        )
    if any([is_lazy(p) for p in module.parameters()]):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if device_ids or output_device is not None:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            f"modules on one GPU, but got device_ids {device_ids}, output_device {output_device}, "
            "and module parameters on the CPU. Leave them out"
        )


def _check_hook(hook: Any) -> None:
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    kind = inspect.signature(hook).parameters["bucket"].annotation
    if kind not in (inspect.Parameter.empty, GradBucket) and not isinstance(kind, str):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")


__all__ = ["DistributedDataParallel", "GradBucket"]
