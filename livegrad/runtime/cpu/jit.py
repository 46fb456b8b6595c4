"""From LLVM IR text to the address of a function.

    text ── memory cache ── disk cache ── LLVM (parse, codegen) ── object code ── loaded ── address

Kernels arrive as explicit vectors, so LLVM's middle end is skipped: its passes cost three times
the code generation and gain nothing. llvmlite is imported by the first compile: a process that
finds all it needs on disk does without.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from livegrad.compiler.kept import KEPT, Kept
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.diskcache import DiskCache, default_directory, entry_key
from livegrad.runtime.cpu.loading import is_image, is_possible, load
from livegrad.runtime.cpu.packs import program
from livegrad.runtime.cpu.target import (
    Host,
    Target,
    changed_by_environment,
    read_host,
)


class Kernel:
    """Loaded native code. `address` is valid as long as the object lives."""

    __slots__ = ("__weakref__", "_library", "_linker", "address", "nbytes")

    def __init__(self, code: bytes, name: str) -> None:
        self._linker: Linker | None = None
        self._library: Any = load(code, name)
        if self._library is None:
            with _lock:
                self._linker = Linker.latest()
                self._library = self._linker.link(code, name)
        self.address = int(self._library[name])
        self.nbytes = len(code) + _OVERHEAD
        KEPT.loaded += self.nbytes

    def __del__(self, kept: Kept = KEPT) -> None:
        kept.loaded -= getattr(self, "nbytes", 0)
        self._library = None  # before its linker


class Linker:
    """Libraries that are linked into the process, one per kernel.

    LLVM keeps some kilobytes for each library that was unloaded as long as the linker lives; so
    there are many linkers, which are gone with the last kernel they have linked.
    """

    _latest: weakref.ref[Linker] | None = None

    def __init__(self) -> None:
        # JITLink keeps what belongs together within reach; LLVM's older linker, the default, aborts
        # the process on AArch64 when the sections of a kernel come to lie too far apart.
        self._llvm = _binding().create_lljit_compiler(_machine(host_target()), use_jit_link=True)
        self._count = 0

    @classmethod
    def latest(cls) -> Linker:
        """A linker with room for one more."""
        found = cls._latest() if cls._latest is not None else None
        if found is None or found._count >= _PER_LINKER:
            found = cls()
            cls._latest = weakref.ref(found)
        return found

    def link(self, code: bytes, name: str) -> Any:
        """Links object code; libc and libm resolve to the process's own symbols.

        The code is unloaded when the result dies.
        """
        builder = _binding().JITLibraryBuilder().add_object_img(code).add_current_process()
        self._count += 1
        try:
            # A name is used up even when linking fails.
            return builder.export_symbol(name).link(self._llvm, f"livegrad{next(_numbers)}")
        except RuntimeError as error:
            raise RuntimeError(
                f"compile_kernel: cannot link {name!r}: the module does not define it, or needs a"
                f" symbol that the process lacks (LLVM names it on stderr); got {error}"
            ) from error


# A linker takes half a millisecond to make.
_PER_LINKER = 16
# Bytes that a kernel takes besides its code: pages that are not full, and what LLVM notes.
_OVERHEAD = 12 << 10
_lock = threading.RLock()
# By a digest of the text, which may be long.
_addresses: dict[tuple[bytes, str, Target], int] = {}
# Code whose address was handed out for good.
_permanent: list[Kernel] = []
_numbers = itertools.count()
_machines: dict[Target, Any] = {}
_target: Target | None = None
_known_host: Host | None = None
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
                address = _addresses[key] = load_object(object_code(ir, target, inline), name)
    return address


def object_code(ir: str, target: Target | None = None, inline: bool = False) -> bytes:
    """The code of `ir`: from the disk cache, else from LLVM.

    An image that is ready to be put into memory (loading.py), or a relocatable object file.
    """
    return code_known_as(ir, lambda: ir, target, inline)


def code_known_as(
    key: str, ir: Callable[[], str], target: Target | None = None, inline: bool = False
) -> bytes:
    """The object code that the disk cache has under a key, else LLVM's for `ir()`."""
    target = target or host_target()
    with _lock:
        code = stored_object_code(key, target)
        if code is None:
            if disk_cache().directory is not None:
                counters.disk_misses += 1
            code = _laid_out(emit(ir(), target, inline))
            disk_cache().put(_entry_key(key, target), code)
        return code


def stored_object_code(key: str, target: Target | None = None) -> bytes | None:
    """The object code that the disk cache has under a key."""
    with _lock:
        code = disk_cache().get(_entry_key(key, target or host_target()))
        if code is not None and is_usable(code):
            counters.disk_hits += 1
            return _laid_out(code)
        return None


def _laid_out(code: bytes) -> bytes:
    """Code as an image, where there can be one: what could not be laid out once may be now."""
    if is_image(code) or not is_possible():
        return code
    from livegrad.runtime.cpu.elf import laid_out

    return laid_out(code)


def is_usable(code: bytes) -> bool:
    """Whether this process can load stored code: it may not be allowed what another was."""
    return is_possible() or not is_image(code)


def stored_bytes(key: str) -> bytes | None:
    """What the disk cache has under a key, for this CPU."""
    with _lock:
        return disk_cache().get(_entry_key(key, host_target()))


def store_bytes(key: str, data: bytes) -> None:
    """Puts something into the disk cache, for this CPU."""
    with _lock:
        disk_cache().put(_entry_key(key, host_target()), data)


def _entry_key(key: str, target: Target) -> str:
    return entry_key(key, target.cpu, target.features, _host().llvm)


def load_object(code: bytes, name: str) -> int:
    """Address of function `name` of object code, valid as long as the process lives."""
    kernel = Kernel(code, name)
    keep_for_good(kernel)
    return kernel.address


def keep_for_good(kernel: Kernel) -> None:
    """Has a kernel's address be valid as long as the process lives."""
    _permanent.append(kernel)


def assembly(ir: str, target: Target | None = None) -> str:
    """The assembly text of `ir`, for reading."""
    target = target or host_target()
    with _lock:
        return str(_machine(target).emit_assembly(_parse(ir, target)))


def host_target() -> Target:
    """The CPU we run on, as changed by LIVEGRAD_CPU and LIVEGRAD_CPU_FEATURES; read once."""
    global _target
    if _target is None:
        _target = changed_by_environment(_host().target)
    return _target


def _host() -> Host:
    global _known_host
    if _known_host is None:
        with _lock:
            _known_host = _known_host or read_host(disk_cache(), _binding)
    return _known_host


def target_with(features: str) -> Target:
    """The host with `features` (such as "-avx512f,-avx512bw") applied on top of its own."""
    return host_target().with_features(features)


def disk_cache() -> DiskCache:
    """The process's disk cache, in the directory that the environment named at first use."""
    global _disk
    with _lock:
        if _disk is None:
            _disk = DiskCache(default_directory(), program=program())
            atexit.register(_disk.store_pack)
        return _disk


def use_disk_cache(cache: DiskCache) -> None:
    """Replace the disk cache (for tests); what is in memory stays."""
    global _disk
    with _lock:
        _disk = cache


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


# Text of which LLVM's usual passes would take many seconds.
_LONG = 1 << 20


def _improve(module: Any, target: Target, thoroughly: bool) -> None:
    """Does for code that is no kernel what templates do for kernels: functions are inlined,
    variables are in registers, and what is known of them is used."""
    llvm = _binding()
    if thoroughly:
        options = llvm.PipelineTuningOptions(2)
        options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(_machine(target), options)
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_jump_threading_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    options = llvm.PipelineTuningOptions(1)
    passes.run(module, llvm.create_pass_builder(_machine(target), options))


def emit(ir: str, target: Target, inline: bool = False) -> bytes:
    """The relocatable object file for `ir`, from LLVM."""
    module = _parse(ir, target)
    if inline:
        _improve(module, target, thoroughly=len(ir) < _LONG)
    else:
        counters.compiles += 1  # a kernel of the user's program
    return bytes(_machine(target).emit_object(module))


if hasattr(os, "register_at_fork"):
    # A fork waits for a compilation in another thread, whose locks the child could never open.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=lambda: _lock.release(),
    )
