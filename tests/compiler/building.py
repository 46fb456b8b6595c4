"""Builders for the tests of what is written with them."""

from __future__ import annotations

from functools import partial

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import vector
from livegrad.runtime.cpu.machine import MACHINE

LANES = MACHINE.lanes
host_builder = partial(Builder, machine=MACHINE)
wide = partial(vector, lanes=LANES)
