"""Calls in other processes: `torch.distributed.rpc`, for one process, which calls itself."""

from __future__ import annotations

import sys
from enum import Enum

from livegrad.distributed import autograd as _autograd
from livegrad.distributed.rpc import functions as functions
from livegrad.distributed.rpc.references import RRef as RRef, remote as remote
from livegrad.distributed.rpc.workers import (
    RpcBackendOptions as RpcBackendOptions,
    TensorPipeRpcBackendOptions as TensorPipeRpcBackendOptions,
    WorkerInfo as WorkerInfo,
    get_rpc_timeout as get_rpc_timeout,
    get_worker_info as get_worker_info,
    init_rpc as init_rpc,
    rpc_async as rpc_async,
    rpc_sync as rpc_sync,
    shutdown as shutdown,
)

PyRRef = RRef
UNSET_RPC_TIMEOUT = -1.0  # the time that was set when calls were begun
api = sys.modules[__name__]  # `torch.distributed.rpc.api`, where PyTorch keeps these
dist_autograd = _autograd


class BackendType(Enum):
    """Ways to reach other processes."""

    TENSORPIPE = "TENSORPIPE"


def is_available() -> bool:
    """Whether the package can be used: yes, for programs of one process."""
    return True
