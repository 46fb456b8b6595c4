"""The code of a kernel as text, for people: LLVM IR, and the machine's own instructions."""

from __future__ import annotations

from livegrad.compiler.plan import Signature
from livegrad.runtime.cpu.generating import generated
from livegrad.runtime.cpu.jit import assembly


def ir_of(signature: Signature) -> str:
    """The LLVM IR of a kernel."""
    return generated(signature)


def assembly_of(signature: Signature) -> str:
    """The machine code of a kernel, as assembly."""
    return assembly(ir_of(signature))
