"""What kernels for the CPU are written for."""

from __future__ import annotations

from livegrad.compiler.values import Machine
from livegrad.runtime.cpu.jit import host_target

MACHINE = Machine(
    # As many on every host, whatever its registers: see "The same bits" in docs/design.md.
    lanes=16,
    # LLVM would otherwise split 512-bit vectors in two on hosts where it fears for the clock, and
    # spill them across cache lines, depending on the caller's stack: some kernels then take twice
    # the time.
    attributes='nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" "stackrealign"',
    # AVX-512 has 32 registers of sixteen floats; NEON as many of four, AVX2 16 of eight.
    vectors=32 if host_target().has("avx512f") else 8,
    byte_dots=64 if host_target().has("avx512vnni") else 32 * host_target().has("avxvnni"),
)
