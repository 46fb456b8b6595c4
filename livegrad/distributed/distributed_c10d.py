"""PyTorch's name of the file with groups, collectives and stores."""

from __future__ import annotations

from livegrad.distributed.collectives import *  # noqa: F403
from livegrad.distributed.groups import *  # noqa: F403
from livegrad.distributed.groups import default_group
from livegrad.distributed.objects import *  # noqa: F403
from livegrad.distributed.stores import *  # noqa: F403

_get_default_group = default_group
