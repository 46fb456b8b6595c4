"""Looking at integers that are computed already: is one of them outside a range?

Natively, because a line that records an operation has no microsecond to spare.
"""

from __future__ import annotations

from livegrad.dtypes import INT, DType
from livegrad.runtime.cpu import jit

# More than these are left to the kernel that reads them.
MOST = 1 << 16

_IR = """
define i64 @first_outside_{type}(i64 %address, i64 %count, i64 %low, i64 %size, i64 %ignore) {{
entry:
  %numbers = inttoptr i64 %address to ptr
  %few = icmp ule i64 %count, {most}
  br i1 %few, label %head, label %all
head:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %all
body:
  %next = add i64 %i, 1
  %place = getelementptr {type}, ptr %numbers, i64 %i
  %raw = load {type}, ptr %place
  %x = {widened}
  %from.low = sub i64 %x, %low
  %inside = icmp ult i64 %from.low, %size
  %ignored = icmp eq i64 %x, %ignore
  %ok = or i1 %inside, %ignored
  br i1 %ok, label %good, label %found
good:
  br label %head
found:
  ret i64 %next
all:
  ret i64 0
}}
"""


def finder(dtype: DType) -> int:
    """The address of a function (address, count, low, size, ignore) for integers of `dtype`.

    It gives 1 + the first place of a number that is neither in [low, low + size) nor `ignore`, or
    0. There is none (0) for other dtypes.
    """
    if dtype.category != INT:
        return 0
    bits = 8 * dtype.itemsize
    extension = "sext" if dtype.signed else "zext"
    widened = "add i64 %raw, 0" if bits == 64 else f"{extension} i{bits} %raw to i64"
    ir = _IR.format(type=f"i{bits}", widened=widened, most=MOST)
    return jit.compile_kernel(ir, f"first_outside_i{bits}")
