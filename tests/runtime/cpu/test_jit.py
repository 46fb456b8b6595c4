"""IR text in, callable address out; from LLVM, from disk, from memory."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import jit
from livegrad.runtime.cpu.diskcache import DiskCache

IR = """
declare double @sin(double)
declare float @expf(float)
declare double @llvm.fma.f64(double, double, double)
@table = private constant [2 x double] [double 1.0, double 2.0]
define double @f(double %x, i64 %i) {
  %a = call double @sin(double %x)
  %p = getelementptr double, ptr @table, i64 %i
  %t = load double, ptr %p
  %single = fptrunc double %x to float
  %e = call float @expf(float %single)
  %e.wide = fpext float %e to double
  %y = call double @llvm.fma.f64(double %a, double %t, double %e.wide)
  %z = fadd double %y, CONSTANT
  ret double %z
}
"""


def function(address: int):
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)(address)


@pytest.fixture
def cache(tmp_path: Path):
    before = jit.disk_cache()
    jit.use_disk_cache(DiskCache(tmp_path))
    counters.reset()
    yield jit.disk_cache()
    jit.use_disk_cache(before)


def forget() -> None:
    """What is in memory; the disk is asked next."""
    jit._addresses.clear()


def test_libm_constants_and_fma(cache) -> None:
    f = function(jit.compile_kernel(IR.replace("CONSTANT", "3.0"), "f"))
    assert f(1.0, 1) == pytest.approx(math.sin(1) * 2 + math.e + 3, rel=1e-6)


def test_memory_then_disk_then_llvm(cache) -> None:
    ir = IR.replace("CONSTANT", "4.0")
    first = jit.compile_kernel(ir, "f")
    assert (counters.compiles, counters.disk_hits, counters.disk_misses) == (1, 0, 1)
    assert jit.compile_kernel(ir, "f") == first
    assert (counters.compiles, counters.disk_hits) == (1, 0)
    forget()
    again = jit.compile_kernel(ir, "f")
    assert (counters.compiles, counters.disk_hits) == (1, 1)
    assert function(again)(0.5, 0) == function(first)(0.5, 0)


def test_corrupt_object_is_compiled_again(cache) -> None:
    ir = IR.replace("CONSTANT", "5.0")
    jit.compile_kernel(ir, "f")
    (path,) = Path(cache.directory).rglob("*.o")
    path.write_bytes(path.read_bytes()[:-20])
    forget()
    address = jit.compile_kernel(ir, "f")
    assert counters.compiles == 2
    assert function(address)(0.0, 0) == 6.0


def test_threads_compile_once(cache) -> None:
    ir = IR.replace("CONSTANT", "6.0")
    found: list[int] = []
    workers = [
        threading.Thread(target=lambda: found.append(jit.compile_kernel(ir, "f"))) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert counters.compiles == 1


def test_errors_name_the_problem(cache) -> None:
    with pytest.raises(RuntimeError, match="use of undefined value"):
        jit.compile_kernel("define i64 @f() {\n  ret i64 %nothing\n}", "f")
    with pytest.raises(RuntimeError, match="symbol that the process lacks"):
        jit.compile_kernel(
            "declare void @no_such_function()\n"
            "define void @g() {\n  call void @no_such_function()\n  ret void\n}",
            "g",
        )


def test_features_change_the_code() -> None:
    if not jit.host_target().has("avx512f"):
        pytest.skip("needs AVX-512")
    ir = """
define void @add(ptr %p) {
  %x = load <16 x float>, ptr %p
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %p
  ret void
}
"""
    narrow = jit.target_with("-avx512f")
    assert not narrow.has("avx512f")
    assert "zmm" not in jit.assembly(ir, narrow)
    assert "ymm" in jit.assembly(ir, narrow)


def in_fresh_process(code: str, **variables: str) -> str:
    environment = {**os.environ, "LIVEGRAD_CACHE_DIR": "off", **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_environment_chooses_the_cpu() -> None:
    code = "from livegrad.runtime.cpu import jit; print(*jit.host_target().__dict__.values())"
    chosen = {"LIVEGRAD_CPU": "x86-64", "LIVEGRAD_CPU_FEATURES": "+avx2"}
    assert in_fresh_process(code, **chosen) == "x86-64 +avx2"


def test_import_does_not_load_llvm() -> None:
    code = (
        "import sys; from livegrad.runtime.cpu import jit, driver, threads, blas;"
        " print('llvmlite' in sys.modules)"
    )
    assert in_fresh_process(code) == "False"
