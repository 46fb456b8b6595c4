"""What programs say that a launcher starts."""

from __future__ import annotations

from livegrad.distributed.elastic import multiprocessing as multiprocessing
