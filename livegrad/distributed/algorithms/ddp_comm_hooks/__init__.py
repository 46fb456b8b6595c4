"""Hooks for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from livegrad.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
