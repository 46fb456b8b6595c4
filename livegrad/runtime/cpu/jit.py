"""From LLVM IR text to the address of a function.

    text ── memory cache ── disk cache ── LLVM (parse, codegen) ── object code ── ORC ── address

Kernels arrive as explicit vectors, so LLVM's middle end is skipped: its passes cost three times
the code generation and gain nothing. llvmlite is imported by the first compile, which keeps
`import livegrad` fast.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livegrad.runtime.counters import counters

if TYPE_CHECKING:  # imported by the first compile, like llvmlite
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


_lock = threading.RLock()
# By a digest of the text, which may be long.
_addresses: dict[tuple[bytes, str, Target], int] = {}
# A library is unloaded when its tracker dies, and addresses are handed out for good.
_trackers: list[Any] = []
_numbers = itertools.count()
_machines: dict[Target, Any] = {}
_host: Target | None = None
_linker: Any = None
_disk: DiskCache | None = None
_llvm: Any = None


def compile_kernel(ir: str, name: str, target: Target | None = None, inline: bool = False) -> int:
    """Address of function `name` of the module `ir`, valid as long as the process lives.

    With `inline`, functions marked so are inlined: for code that is no kernel. Code for a `target`
    other than the host's can be compiled anywhere, and run where the CPU has the features.
    """
    from hashlib import sha256  # with its crypto library it is slow to load

    target = target or host_target()
    key = (sha256(ir.encode()).digest(), name, target)
    address = _addresses.get(key)
    if address is None:
        with _lock:
            address = _addresses.get(key)
            if address is None:
                address = _addresses[key] = _load(object_code(ir, target, inline), name)
    return address


def object_code(ir: str, target: Target | None = None, inline: bool = False) -> bytes:
    """The relocatable object file for `ir`: from the disk cache, else from LLVM."""
    target = target or host_target()
    with _lock:
        code = stored_object_code(ir, target)
        if code is None:
            disk = disk_cache()
            if disk.directory is not None:
                counters.disk_misses += 1
            code = _emit(ir, target, inline)
            disk.put(_entry_key(ir, target), code)
        return code


def stored_object_code(ir: str, target: Target | None = None) -> bytes | None:
    """What the disk cache has for `ir`."""
    with _lock:
        code = disk_cache().get(_entry_key(ir, target or host_target()))
        if code is not None:
            counters.disk_hits += 1
        return code


def _entry_key(ir: str, target: Target) -> str:
    from livegrad.runtime.cpu.diskcache import entry_key

    version = ".".join(map(str, _binding().llvm_version_info))
    return entry_key(ir, target.cpu, target.features, version)


def load_object(code: bytes, name: str) -> int:
    """Address of function `name` of object code, valid as long as the process lives."""
    with _lock:
        return _load(code, name)


def assembly(ir: str, target: Target | None = None) -> str:
    """The assembly text of `ir`, for reading."""
    target = target or host_target()
    with _lock:
        return str(_machine(target).emit_assembly(_parse(ir, target)))


def host_target() -> Target:
    """The CPU we run on, as changed by LIVEGRAD_CPU and LIVEGRAD_CPU_FEATURES; read once."""
    global _host
    if _host is None:
        with _lock:
            _host = _host or _read_host_target()
    return _host


def target_with(features: str) -> Target:
    """The host with `features` (such as "-avx512f,-avx512bw") applied on top of its own."""
    host = host_target()
    return Target(host.cpu, _join(host.features, features))


def disk_cache() -> DiskCache:
    """The process's disk cache, in the directory that the environment named at first use."""
    global _disk
    from livegrad.runtime.cpu.diskcache import DiskCache, default_directory

    with _lock:
        if _disk is None:
            _disk = DiskCache(default_directory())
        return _disk


def use_disk_cache(cache: DiskCache) -> None:
    """Replace the disk cache (for tests); what is in memory stays."""
    global _disk
    with _lock:
        _disk = cache


def _read_host_target() -> Target:
    llvm = _binding()
    cpu = os.environ.get("LIVEGRAD_CPU")
    extra = os.environ.get("LIVEGRAD_CPU_FEATURES", "")
    if cpu:
        # Another CPU named by hand brings its own features; the host's would undo the choice.
        return Target(cpu, extra)
    host_features = llvm.get_host_cpu_features().flatten()
    return Target(llvm.get_host_cpu_name(), _join(host_features, extra))


def _join(features: str, more: str) -> str:
    """LLVM applies features from left to right, so `more` wins."""
    return ",".join(part for part in (features, more) if part)


def _binding() -> Any:
    """`llvmlite.binding`, imported and initialised by the first call."""
    global _llvm
    if _llvm is None:
        with _lock:
            import llvmlite.binding as llvm

            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _llvm = llvm
    return _llvm


def _machine(target: Target) -> Any:
    machine = _machines.get(target)
    if machine is None:
        llvm = _binding()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
            cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
        )
        _machines[target] = machine
    return machine


# What code for x86 without F16C calls, and Python processes lack: float16 to float32 and back.
# A module that has no use for them carries a few dead bytes.
_HALF_IR = """
define weak hidden float @__extendhfsf2(half %x) {
  %bits16 = bitcast half %x to i16
  %bits = zext i16 %bits16 to i32
  %sign16 = and i32 %bits, 32768
  %sign = shl i32 %sign16, 16
  %mag = and i32 %bits, 32767
  %shifted = shl i32 %mag, 13
  %normal = add i32 %shifted, 939524096             ; exponent: 15 becomes 127
  %special = or i32 %shifted, 2139095040            ; infinity and NaN
  %quiet = or i32 %special, 4194304
  %count = uitofp i32 %mag to float                 ; a subnormal counts units of 2^-24
  %small.value = fmul float %count, 0x3E70000000000000
  %small = bitcast float %small.value to i32
  %is.small = icmp ult i32 %mag, 1024
  %is.special = icmp uge i32 %mag, 31744
  %is.nan = icmp ugt i32 %mag, 31744
  %r1 = select i1 %is.small, i32 %small, i32 %normal
  %r2 = select i1 %is.special, i32 %special, i32 %r1
  %r3 = select i1 %is.nan, i32 %quiet, i32 %r2
  %r = or i32 %r3, %sign
  %y = bitcast i32 %r to float
  ret float %y
}

define weak hidden half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %mag = and i32 %bits, 2147483647
  %last = lshr i32 %mag, 13
  %odd = and i32 %last, 1
  %half = add i32 %mag, 4095
  %rounded = add i32 %half, %odd                    ; to nearest, ties to even
  %rebased = sub i32 %rounded, 939524096
  %normal = lshr i32 %rebased, 13
  %abs = bitcast i32 %mag to float
  %shifted = fadd float %abs, 5.0e-01               ; its last bit is 2^-24, a half's least
  %shifted.bits = bitcast float %shifted to i32
  %small = sub i32 %shifted.bits, 1056964608
  %payload = and i32 %last, 1023
  %nan = or i32 %payload, 32256
  %is.small = icmp ult i32 %mag, 947912704          ; below 2^-14
  %is.big = icmp uge i32 %mag, 1199570944           ; from 65536 on
  %is.nan = icmp ugt i32 %mag, 2139095040
  %r1 = select i1 %is.small, i32 %small, i32 %normal
  %r2 = select i1 %is.big, i32 31744, i32 %r1
  %r3 = select i1 %is.nan, i32 %nan, i32 %r2
  %r = or i32 %r3, %sign
  %r16 = trunc i32 %r to i16
  %y = bitcast i16 %r16 to half
  ret half %y
}
"""


def _parse(ir: str, target: Target) -> Any:
    llvm = _binding()
    machine = _machine(target)
    if "half" in ir and machine.triple.startswith("x86_64") and not target.has("f16c"):
        ir += _HALF_IR
    module = llvm.parse_assembly(ir)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if "verify" in os.environ.get("LIVEGRAD_DEBUG", ""):
        module.verify()
    return module


def _emit(ir: str, target: Target, inline: bool = False) -> bytes:
    module = _parse(ir, target)
    if inline:
        llvm = _binding()
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        options = llvm.PipelineTuningOptions(1)
        passes.run(module, llvm.create_pass_builder(_machine(target), options))
    else:
        counters.compiles += 1  # a kernel of the user's program
    return bytes(_machine(target).emit_object(module))


def _load(code: bytes, name: str) -> int:
    """Link object code into the process; libc and libm resolve to the process's own symbols."""
    global _linker
    llvm = _binding()
    if _linker is None:
        # JITLink keeps what belongs together within reach; LLVM's older linker, the default, aborts
        # the process on AArch64 when the sections of a kernel come to lie too far apart.
        _linker = llvm.create_lljit_compiler(_machine(host_target()), use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    # A name is used up even when linking fails.
    library = f"livegrad{next(_numbers)}"
    try:
        tracker = builder.export_symbol(name).link(_linker, library)
    except RuntimeError as error:
        raise RuntimeError(
            f"compile_kernel: cannot link {name!r}: the module does not define it, or needs a"
            f" symbol that the process lacks (LLVM names it on stderr); got {error}"
        ) from error
    _trackers.append(tracker)
    return int(tracker[name])


if hasattr(os, "register_at_fork"):
    # A fork waits for a compilation in another thread, whose locks the child could never open.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=lambda: _lock.release(),
    )
