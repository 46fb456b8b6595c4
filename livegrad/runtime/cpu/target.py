"""Which processor code is for, in LLVM's words; LLVM is asked once per machine, not per process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livegrad.runtime.cpu.diskcache import DiskCache


@dataclass(frozen=True)
class Target:
    """A CPU in LLVM's words: its name and a string such as "+avx2,-avx512f"."""

    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether the last mention of `feature` in the feature string switches it on."""
        enabled = False
        for item in self.features.split(","):
            if item[1:] == feature:
                enabled = item[0] == "+"
        return enabled

    def with_features(self, more: str) -> Target:
        """LLVM applies features from left to right, so `more` wins."""
        return Target(self.cpu, ",".join([part for part in (self.features, more) if part]))


@dataclass(frozen=True)
class Host:
    """The CPU we run on, and the version of LLVM that said so."""

    target: Target
    llvm: str


def read_host(disk: DiskCache, binding: Any) -> Host:
    """The CPU as it is, from disk if LLVM was asked before; `binding` imports that.

    Importing it takes longer than the first step of many a program.
    """
    key = _key()
    stored = disk.get(key) if key is not None else None
    if stored is not None:
        cpu, features, version = json.loads(stored)
        return Host(Target(cpu, features), version)
    llvm = binding()
    told = [llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), version_of(llvm)]
    if key is not None:
        disk.put(key, json.dumps(told).encode())
    return Host(Target(told[0], told[1]), told[2])


def version_of(llvm: Any) -> str:
    """The version of LLVM."""
    return ".".join(map(str, llvm.llvm_version_info))


def changed_by_environment(host: Target) -> Target:
    """The host as LIVEGRAD_CPU and LIVEGRAD_CPU_FEATURES change it."""
    cpu = os.environ.get("LIVEGRAD_CPU")
    extra = os.environ.get("LIVEGRAD_CPU_FEATURES", "")
    # Another CPU named by hand brings its own features; the host's would undo the choice.
    return Target(cpu, extra) if cpu else host.with_features(extra)


def _key() -> str | None:
    """What LLVM's answer depends on: the processor, and which LLVM it is; None if not known."""
    from hashlib import sha256

    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    try:
        files = [os.stat(os.path.join(folder, name)) for name in _LLVM_FILES]
        with open("/proc/cpuinfo", "rb") as file:
            first = file.read(1 << 14).partition(b"\n\n")[0]
    except OSError:
        return None
    # All but what changes from moment to moment, and from core to core.
    processor = [x for x in first.splitlines() if x.partition(b"\t")[0] in _PROCESSOR]
    stamps = [(x.st_mtime_ns, x.st_size) for x in files]
    return sha256(repr(("host", processor, folder, stamps)).encode()).hexdigest()


_LLVM_FILES = ("_version.py", os.path.join("binding", "libllvmlite.so"))
_PROCESSOR = {
    b"vendor_id", b"cpu family", b"model", b"model name", b"stepping", b"flags", b"Features",
    b"CPU implementer", b"CPU architecture", b"CPU variant", b"CPU part", b"CPU revision",
}  # fmt: skip
