"""DataParallel: for programs that wrap their model in it; with one device, the model itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.nn.module import Module


class DataParallel(Module):
    """Calls `module`; its parameters are called "module.…", as PyTorch's are.

    Args:
        module: what is called.
        device_ids, output_device, dim: accepted; there is one device.

    Example:
        >>> [name for name, _ in nn.DataParallel(nn.Linear(2, 1)).named_parameters()]
        ['module.weight', 'module.bias']
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """RuntimeError: there are no devices to share the inputs out to."""
    raise RuntimeError(
        "data_parallel: device type could not be determined: there are no GPUs. Call the module"
    )
