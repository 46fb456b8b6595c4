"""Object code that is loaded without LLVM does what it does with it."""

from __future__ import annotations

import ctypes
import platform
import sys

import pytest

from livegrad.runtime.cpu import jit, loading

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="left to LLVM"
)

# Constants, variables (one of which is not zero), a loop, and functions of the process.
IR = """
declare double @cos(double)
declare ptr @memset(ptr, i32, i64)
@table = private constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0]
@count = internal global i64 40
@calls = internal global i64 0
define i64 @step(i64 %by) {
  %old = load i64, ptr @count
  %new = add i64 %old, %by
  store i64 %new, ptr @count
  %calls = load i64, ptr @calls
  %more = add i64 %calls, 1
  store i64 %more, ptr @calls
  %both = mul i64 %new, %more
  ret i64 %both
}
define double @f(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %p
  %y = call double @cos(double %x)
  ret double %y
}
define void @clear(ptr %p) {
  %same = call ptr @memset(ptr %p, i32 0, i64 8)
  ret void
}
"""


def test_constants_variables_and_functions_of_the_process():
    library = loading.load(jit.object_code(IR), "f")
    assert library is not None
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(library["f"])
    linked = jit.Linker.latest().link(jit.emit(IR, jit.host_target()), "f")
    by_llvm = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(linked["f"])
    assert [f(i) for i in range(4)] == [by_llvm(i) for i in range(4)]
    step = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library["step"])
    assert [step(1), step(2), step(3)] == [41, 86, 138]
    memory = (ctypes.c_char * 8)(*b"12345678")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library["clear"])(memory)
    assert bytes(memory) == bytes(8)


def test_each_copy_has_variables_of_its_own():
    code = jit.object_code(IR)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    libraries = [loading.Library(code) for _ in range(2)]
    assert [kind(library["step"])(1) for library in libraries] == [41, 41]


def test_what_is_strange_is_left_to_llvm():
    outside = "declare void @no_such_function()\ndefine void @g() {\n"
    outside += "  call void @no_such_function()\n  ret void\n}"
    elsewhere = "@environ = external global ptr\ndefine ptr @g() {\n"
    elsewhere += "  %p = load ptr, ptr @environ\n  ret ptr %p\n}"
    for ir in (outside, elsewhere):
        code = jit.object_code(ir)
        assert code == jit.emit(ir, jit.host_target())
        assert loading.load(code, "g") is None
    assert loading.load(jit.object_code(IR), "no_such_name") is None
    assert loading.load(b"\x7fELF", "f") is None
    assert loading.load(b"", "f") is None


def test_a_process_that_may_not_run_what_it_wrote_leaves_images_alone(monkeypatch):
    image = jit.object_code(IR)
    assert loading.is_image(image)
    assert jit.is_usable(image)
    for module in (jit, loading):
        monkeypatch.setattr(module, "is_possible", lambda: False)
    assert not jit.is_usable(image)
    assert loading.load(image, "f") is None
    assert not loading.is_image(jit.object_code(IR))  # though the disk has one
    monkeypatch.undo()
    assert jit.is_usable(jit.object_code(IR))


def test_code_is_not_writable_and_gone_with_its_library():
    library = loading.Library(jit.object_code(IR))
    mine = f"{library.base:x}-"
    with open("/proc/self/maps") as maps:
        (line,) = [line for line in maps if line.startswith(mine)]
    assert line.split()[1] == "r-xp"
    del library
    with open("/proc/self/maps") as maps:
        assert not [line for line in maps if line.startswith(mine) and "r-xp" in line]
