"""Helpers that read and write an attribute where it lies, if it is a slot of a known class."""

from __future__ import annotations

from livegrad.native.capi import expanded
from livegrad.native.layout import TYPE


def slot_reader(attribute: str, owners: list[tuple[int, int]]) -> str:
    """`get.attribute(x)`: from the slot if the class of `x` is one of `owners`.

    An owner is (number of the class object, offset of the slot).
    """
    lines = [
        f"define internal ptr @get.{attribute}(ptr %x) {{",
        f"  %type.p = getelementptr i8, ptr %x, i64 {TYPE}",
        "  %type = load ptr, ptr %type.p",
    ]
    for i, (number, offset) in enumerate(owners):
        lines += [
            f"  %class{i} = load ptr, ptr @obj.{number}, !invariant.load !0",
            f"  %is{i} = icmp eq ptr %type, %class{i}",
            f"  br i1 %is{i}, label %read{i}, label %next{i}",
            f"read{i}:",
            f"  %slot{i} = getelementptr i8, ptr %x, i64 {offset}",
            f"  %value{i} = load ptr, ptr %slot{i}",
            f"  %unset{i} = icmp eq ptr %value{i}, null",
            f"  br i1 %unset{i}, label %ask, label %give{i}",
            f"give{i}:",
            f"  call void @incref(ptr %value{i})",
            f"  ret ptr %value{i}",
            f"next{i}:",
        ]
    lines += [
        "  br label %ask",
        "ask:",
        f"  %name = load ptr, ptr @name.{attribute}, !invariant.load !0",
        "  %got = call@PyObject_GetAttr(ptr %x, ptr %name)",
        "  ret ptr %got",
        "}",
    ]
    return expanded("\n".join(lines))


def slot_writer(attribute: str, owners: list[tuple[int, int]]) -> str:
    """`set.attribute(x, value)`: to the slot if the class of `x` is one of `owners`."""
    lines = [
        f"define internal i32 @set.{attribute}(ptr %x, ptr %value) {{",
        f"  %type.p = getelementptr i8, ptr %x, i64 {TYPE}",
        "  %type = load ptr, ptr %type.p",
    ]
    for i, (number, offset) in enumerate(owners):
        lines += [
            f"  %class{i} = load ptr, ptr @obj.{number}, !invariant.load !0",
            f"  %is{i} = icmp eq ptr %type, %class{i}",
            f"  br i1 %is{i}, label %write{i}, label %next{i}",
            f"write{i}:",
            f"  %slot{i} = getelementptr i8, ptr %x, i64 {offset}",
            f"  %old{i} = load ptr, ptr %slot{i}",
            "  call void @incref(ptr %value)",
            f"  store ptr %value, ptr %slot{i}",
            f"  call void @decref(ptr %old{i})",
            "  ret i32 0",
            f"next{i}:",
        ]
    lines += [
        f"  %name = load ptr, ptr @name.{attribute}, !invariant.load !0",
        "  %done = call@PyObject_SetAttr(ptr %x, ptr %name, ptr %value)",
        "  ret i32 %done",
        "}",
    ]
    return expanded("\n".join(lines))
