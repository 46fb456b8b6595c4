"""What FullyShardedDataParallel is told: strategies, types, kinds of state dicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from livegrad.dtypes import DType
from livegrad.nn.batchnorm import _BatchNorm


class ShardingStrategy(Enum):
    """What is spread over the processes; with one process, it makes no difference."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When parameters are collected for backward passes; with one process, they are there."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass(frozen=True)
class MixedPrecision:
    """Types of parameters while a module is called, of what is summed, and of buffers."""

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None  # with one process, nothing is summed
    buffer_dtype: DType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters are kept on the CPU: there is nothing else."""

    offload_params: bool = False


class StateDictType(Enum):
    """Kinds of state dicts; with one process, all of them have whole tensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """How the state of an optimiser names parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class StateDictConfig:
    """Settings of state dicts."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """... with whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """... with flat parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """... with parts."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Settings of state dicts of optimisers."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """... with whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """... with flat parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """... with parts."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dicts, and its settings."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: Any = field(default_factory=FullOptimStateDictConfig)
