"""A group of one process, as launchers begin it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from livegrad import distributed as dist

LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.fixture
def launched(monkeypatch: Any) -> Iterator[None]:
    """The environment that a launcher sets; groups end with the test."""
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
