"""After every test here: no process, no shared memory, no mapped segment is left."""

from __future__ import annotations

import gc
import os
import time

import pytest
from leftovers import leftovers, processes, segments, shared_memory


@pytest.fixture(autouse=True)
def nothing_left():
    gc.collect()
    before = processes(4, os.getpid()), shared_memory(), segments()
    yield
    deadline = time.monotonic() + 60
    while leftovers(before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert leftovers(before) == []
