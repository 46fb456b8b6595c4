"""What is done with gradients on their way, and processes with unequal inputs."""

from __future__ import annotations

from livegrad.distributed.algorithms import ddp_comm_hooks as ddp_comm_hooks, join as join
from livegrad.distributed.algorithms.join import Join as Join
