"""The IR of kernels, for those that are on no disk: with it all of the compiler is imported."""

from __future__ import annotations

import livegrad.compiler.inserted  # noqa: F401 - signatures of stored plans name these ops
from livegrad.compiler.plan import Signature
from livegrad.compiler.templates import kernel_builder
from livegrad.graph.written import value_of
from livegrad.runtime.cpu import machine


def generated(signature: Signature) -> str:
    """The IR of a kernel."""
    generate, *told = value_of(signature)
    builder = kernel_builder(machine.MACHINE)
    generate(builder, *told)
    return builder.ir()
