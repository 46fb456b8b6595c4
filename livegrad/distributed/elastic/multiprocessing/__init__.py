"""Processes that a launcher starts."""

from __future__ import annotations

from livegrad.distributed.elastic.multiprocessing import errors as errors
