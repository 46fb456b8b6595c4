"""Modules whose parameters are spread over processes: `torch.distributed.fsdp`, for one process.

sharding.py      `fully_shard`: parameters are DTensors, the module keeps its place
wrapper.py       FullyShardedDataParallel: a module around another
wrap.py          which modules inside are wrapped, too
"""

from __future__ import annotations

from livegrad.amp import GradScaler as ShardedGradScaler
from livegrad.distributed.fsdp import wrap as wrap
from livegrad.distributed.fsdp.settings import (
    BackwardPrefetch as BackwardPrefetch,
    CPUOffload as CPUOffload,
    FullOptimStateDictConfig as FullOptimStateDictConfig,
    FullStateDictConfig as FullStateDictConfig,
    LocalOptimStateDictConfig as LocalOptimStateDictConfig,
    LocalStateDictConfig as LocalStateDictConfig,
    MixedPrecision as MixedPrecision,
    OptimStateDictConfig as OptimStateDictConfig,
    OptimStateKeyType as OptimStateKeyType,
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
    ShardedStateDictConfig as ShardedStateDictConfig,
    ShardingStrategy as ShardingStrategy,
    StateDictConfig as StateDictConfig,
    StateDictSettings as StateDictSettings,
    StateDictType as StateDictType,
)
from livegrad.distributed.fsdp.sharding import (
    CPUOffloadPolicy as CPUOffloadPolicy,
    FSDPModule as FSDPModule,
    MixedPrecisionPolicy as MixedPrecisionPolicy,
    OffloadPolicy as OffloadPolicy,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
)
from livegrad.distributed.fsdp.wrapper import FullyShardedDataParallel as FullyShardedDataParallel
