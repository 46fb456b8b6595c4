"""Helpers that read and write an attribute where it lies, if it is a slot of a known class; and
those that ask a frame.

An owner is (number of the class object, offset of the slot).
"""

from __future__ import annotations

from livegrad.native.capi import expanded
from livegrad.native.layout import TYPE

Owners = list[tuple[int, int]]

_READ = """
  %value$i = load ptr, ptr %slot$i
  %unset$i = icmp eq ptr %value$i, null
  br i1 %unset$i, label %ask, label %give$i
give$i:
  call void @incref(ptr %value$i)
  ret ptr %value$i"""

_WRITE = """
  %old$i = load ptr, ptr %slot$i
  call void @incref(ptr %value)
  store ptr %value, ptr %slot$i
  call void @decref(ptr %old$i)
  ret i32 0"""


# How C asks a frame for an attribute.
FRAME_READERS = {
    "f_back": """
  %frame = call@PyFrame_GetBack(ptr %x)
  %is.first = icmp eq ptr %frame, null
  br i1 %is.first, label %none, label %give
give:
  ret ptr %frame
none:
  %nothing = call ptr @none_unless(i32 0)
  ret ptr %nothing""",
    "f_code": """
  %code = call@PyFrame_GetCode(ptr %x)
  ret ptr %code""",
    "f_lasti": """
  %instruction = call@PyFrame_GetLasti(ptr %x)
  %wide = sext i32 %instruction to i64
  %boxed = call@PyLong_FromLongLong(i64 %wide)
  ret ptr %boxed""",
}


def frame_reader(attribute: str, frame_class: int) -> str:
    """`get.attribute(x)` by C's own function, if `x` is a frame; `frame_class` as in an owner."""
    return expanded(f"""
define internal ptr @get.{attribute}(ptr %x) {{
  %type = call ptr @type(ptr %x)
  %class = load ptr, ptr @obj.{frame_class}, !invariant.load !0
  %is = icmp eq ptr %type, %class
  br i1 %is, label %ask.frame, label %ask
ask.frame:{FRAME_READERS[attribute]}
ask:
  %name = load ptr, ptr @name.{attribute}, !invariant.load !0
  %got = call@PyObject_GetAttr(ptr %x, ptr %name)
  ret ptr %got
}}""")


def slot_reader(attribute: str, owners: Owners) -> str:
    """`get.attribute(x)`: from the slot if the class of `x` is one of `owners`."""
    ask = "  %got = call@PyObject_GetAttr(ptr %x, ptr %name)\n  ret ptr %got"
    return _helper(f"ptr @get.{attribute}(ptr %x)", attribute, owners, _READ, ask)


def slot_writer(attribute: str, owners: Owners) -> str:
    """`set.attribute(x, value)`: to the slot if the class of `x` is one of `owners`."""
    ask = "  %done = call@PyObject_SetAttr(ptr %x, ptr %name, ptr %value)\n  ret i32 %done"
    return _helper(f"i32 @set.{attribute}(ptr %x, ptr %value)", attribute, owners, _WRITE, ask)


def _helper(head: str, attribute: str, owners: Owners, use: str, ask: str) -> str:
    """A function that does `use` with the slot of the class that `x` has, else asks Python."""
    lines = [
        f"define internal {head} {'alwaysinline ' if len(owners) <= 1 else ''}{{",
        f"  %type.p = getelementptr i8, ptr %x, i64 {TYPE}",
        "  %type = load ptr, ptr %type.p",
    ]
    for i, (number, offset) in enumerate(owners):
        lines += [
            f"  %class{i} = load ptr, ptr @obj.{number}, !invariant.load !0",
            f"  %is{i} = icmp eq ptr %type, %class{i}",
            f"  br i1 %is{i}, label %found{i}, label %next{i}",
            f"found{i}:",
            f"  %slot{i} = getelementptr i8, ptr %x, i64 {offset}{use.replace('$i', str(i))}",
            f"next{i}:",
        ]
    lines += [
        "  br label %ask",
        "ask:",
        f"  %name = load ptr, ptr @name.{attribute}, !invariant.load !0",
        ask,
        "}",
    ]
    return expanded("\n".join(lines))
