"""Programs of several processes: `torch.distributed` for livegrad, with one process for now.

Everything that such programs say is there, with PyTorch's names and errors. A group of one process
needs no network, so collectives give what they were given; `world_size` above 1 is refused.
"""

from __future__ import annotations

from livegrad.distributed import (
    algorithms as algorithms,
    autograd as autograd,
    device_mesh as device_mesh,
    distributed_c10d as distributed_c10d,
    elastic as elastic,
    nn as nn,
    optim as optim,
    rpc as rpc,
)
from livegrad.distributed.collectives import *  # noqa: F403
from livegrad.distributed.data_parallel import GradBucket as GradBucket
from livegrad.distributed.device_mesh import (
    DeviceMesh as DeviceMesh,
    init_device_mesh as init_device_mesh,
)
from livegrad.distributed.groups import *  # noqa: F403
from livegrad.distributed.objects import *  # noqa: F403
from livegrad.distributed.stores import *  # noqa: F403
