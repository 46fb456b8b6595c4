"""The entry of a translated function, as Python calls it."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from livegrad.native.unit import Unit


def wrapper(unit: Unit, function: FunctionType, parameters: list[str]) -> str:
    """The function as Python calls it: METH_FASTCALL with keywords."""
    symbol = unit.symbols[function]
    first = 1 if function in unit.methods else 0
    given = parameters[first:]
    count = len(given)
    names = unit.constant(tuple([sys.intern(name) for name in given]))
    complaint = unit.constant(f"{function.__name__}(): wrong arguments")
    passed = ["ptr %self"] * first + [f"ptr %a{i}" for i in range(count)]
    lines = [
        f'define internal ptr @"{symbol}.call"(ptr %self, ptr %args, i64 %n, ptr %words) {{',
        "entry:",
        f"  %out = alloca [{count + 1} x ptr]",
        f"  %many = icmp sgt i64 %n, {count}",
        "  br i1 %many, label %complain, label %plain0",
        *[line for i in range(count) for line in _plain(i)],
        f"plain{count}:",
        "  %no.words = icmp eq ptr %words, null",
        "  br i1 %no.words, label %check, label %place",
        "place:",
        f"  %names = load ptr, ptr {names}",
        "  %status = call i32 @place_keywords(ptr %args, i64 %n, ptr %words, ptr %names, ptr %out)",
        "  %unknown = icmp ne i32 %status, 0",
        "  br i1 %unknown, label %complain, label %check",
        "check:",
        *_checked(unit, count, function.__defaults__ or ()),
        f'  %r = call ptr @"{symbol}"({", ".join(passed)})',
        "  ret ptr %r",
        "complain:",
        f"  %kind = load ptr, ptr {unit.constant(TypeError)}",
        f"  %message = load ptr, ptr {complaint}",
        "  %set = load ptr, ptr @capi.PyErr_SetObject",
        "  call void (ptr, ptr) %set(ptr %kind, ptr %message)",
        "  ret ptr null",
        "}",
    ]
    return "\n".join(lines)


def _plain(i: int) -> list[str]:
    """Copies argument `i`, if it is given by its place."""
    return [
        f"plain{i}:",
        f"  %given{i} = icmp sgt i64 %n, {i}",
        f"  %p{i} = getelementptr ptr, ptr %args, i64 {i}",
        f"  %o{i} = getelementptr ptr, ptr %out, i64 {i}",
        f"  store ptr null, ptr %o{i}",
        f"  br i1 %given{i}, label %copy{i}, label %plain{i + 1}",
        f"copy{i}:",
        f"  %c{i} = load ptr, ptr %p{i}",
        f"  store ptr %c{i}, ptr %o{i}",
        f"  br label %plain{i + 1}",
    ]


def _checked(unit: Unit, count: int, defaults: tuple[Any, ...]) -> list[str]:
    """The arguments, with defaults for those not given; without a default, a complaint."""
    lines = []
    for i in range(count):
        lines += [
            f"  %a{i}.given = load ptr, ptr %o{i}",
            f"  %a{i}.none = icmp eq ptr %a{i}.given, null",
        ]
        if i >= count - len(defaults):
            default = unit.constant(defaults[i - count + len(defaults)])
            lines += [
                f"  %a{i}.default = load ptr, ptr {default}, !invariant.load !0",
                f"  %a{i} = select i1 %a{i}.none, ptr %a{i}.default, ptr %a{i}.given",
            ]
        else:
            lines += [
                f"  br i1 %a{i}.none, label %complain, label %fine{i}",
                f"fine{i}:",
                f"  %a{i} = bitcast ptr %a{i}.given to ptr",
            ]
    return lines
