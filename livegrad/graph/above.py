"""What tensors need of packages that are written with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Above:
    """Hooks that `livegrad/__init__.py` fills in, because nothing below may import these packages.

    Each gives its package, and imports it when it is first called.
    """

    # What `explain()` says of the slowest and largest: imported when it does.
    advice: Callable[[], Any]
    # The array API standard: what `x.__array_namespace__()` returns.
    array_api: Callable[[], Any]
    # What looks for where NaN comes from: imported when there is one.
    blaming: Callable[[], Any]
    # `DistributedDataParallel`, which modules show under their name.
    data_parallel: Callable[[], Any]
    # Masked tensors: imported when `livegrad.masked` is asked for one.
    maskedtensor: Callable[[], Any]
    # Tensors sent to other processes: imported before one is shared with them.
    multiprocessing: Callable[[], Any]
    # Nested tensors: imported when a file has one.
    nested: Callable[[], Any]
    # Sparse tensors, and parameters that are: imported when the first is made.
    sparse: Callable[[], Any]
    sparse_parameters: Callable[[], Any]
    # `__torch_function__`: imported before anything can be overridden.
    overrides: Callable[[], Any]
    # Pictures of tensors and modules, for notebooks.
    drawing: Callable[[], Any]
