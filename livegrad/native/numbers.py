"""Numbers of translated functions: helpers in LLVM IR.

A number is { i64, ptr }: 64 bits and null, or, if it is not an int of 64 bits, the object. What
overflows becomes an object; so do numbers that meet one, as Python means it.
"""

from __future__ import annotations

from livegrad.native.layout import filled

_NUMBERS = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; An int of at most two digits, and whether it is one. The digits lie in 8 bytes, also if there is
; but one: what is beside that means nothing.
define internal { i64, i1 } @read(ptr %x) alwaysinline {
  %tag.p = getelementptr i8, ptr %x, i64 $INT_TAG
  %tag = load i64, ptr %tag.p
$SMALL_INT
  %digits.p = getelementptr i8, ptr %x, i64 $INT_DIGITS
  %digits = load i64, ptr %digits.p
  %low = and i64 %digits, 1073741823
  %second = lshr i64 %digits, 32
  %high = shl i64 %second, 30
  %upper = select i1 %has.two, i64 %high, i64 0
  %size = or i64 %low, %upper
  %n = mul i64 %size, %sign
  %number = insertvalue { i64, i1 } { i64 0, i1 0 }, i64 %n, 0
  %answer = insertvalue { i64, i1 } %number, i1 %is.small, 1
  ret { i64, i1 } %answer
}

; The 64 bits of an int.
define internal i64 @int.word(ptr %x) alwaysinline {
  %read = call { i64, i1 } @read(ptr %x)
  %is.read = extractvalue { i64, i1 } %read, 1
  br i1 %is.read, label %quick, label %whole
quick:
  %n = extractvalue { i64, i1 } %read, 0
  ret i64 %n
whole:
  %large = call@PyLong_AsLongLong(ptr %x)
  ret i64 %large
}

; The number that an exact int is, or the object itself.
define internal { i64, ptr } @number(ptr %x) {
  %over.p = alloca i32
  %type = call ptr @type(ptr %x)
  %int = load ptr, ptr @obj.int, !invariant.load !0
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %look, label %other
look:
  %read = call { i64, i1 } @read(ptr %x)
  %is.read = extractvalue { i64, i1 } %read, 1
  br i1 %is.read, label %quick, label %whole
quick:
  %small = extractvalue { i64, i1 } %read, 0
  %one = insertvalue { i64, ptr } { i64 0, ptr null }, i64 %small, 0
  ret { i64, ptr } %one
whole:
  %n = call@PyLong_AsLongLongAndOverflow(ptr %x, ptr %over.p)
  %over = load i32, ptr %over.p
  %fits = icmp eq i32 %over, 0
  br i1 %fits, label %large, label %other
large:
  %number = insertvalue { i64, ptr } { i64 0, ptr null }, i64 %n, 0
  ret { i64, ptr } %number
other:
  %object = insertvalue { i64, ptr } { i64 0, ptr null }, ptr %x, 1
  ret { i64, ptr } %object
}

define internal ptr @box(i64 %n, ptr %object) {
  %is.number = icmp eq ptr %object, null
  br i1 %is.number, label %make, label %give
make:
  %made = call@PyLong_FromLongLong(i64 %n)
  ret ptr %made
give:
  call void @incref(ptr %object)
  ret ptr %object
}

; How often a range counts: for a number of more than 64 bits, longer than anybody can wait.
define internal i64 @count(ptr %x) {
  %over.p = alloca i32
  %n = call@PyLong_AsLongLongAndOverflow(ptr %x, ptr %over.p)
  %over = load i32, ptr %over.p
  %above = icmp sgt i32 %over, 0
  %below = icmp slt i32 %over, 0
  %least = select i1 %below, i64 0, i64 %n
  %most = select i1 %above, i64 9223372036854775807, i64 %least
  ret i64 %most
}

define internal i32 @number.truth(i64 %n, ptr %object) alwaysinline {
  %is.number = icmp eq ptr %object, null
  br i1 %is.number, label %quick, label %ask
quick:
  %is = icmp ne i64 %n, 0
  %wide = zext i1 %is to i32
  ret i32 %wide
ask:
  %answer = call i32 @truth(ptr %object)
  ret i32 %answer
}

define internal i64 @number.word(i64 %n, ptr %object) alwaysinline {
  %is.number = icmp eq ptr %object, null
  br i1 %is.number, label %quick, label %ask
quick:
  ret i64 %n
ask:
  %word = call@PyLong_AsLongLong(ptr %object)
  ret i64 %word
}

define internal i1 @failed_number(i64 %n) {
  %minus = icmp eq i64 %n, -1
  br i1 %minus, label %ask, label %fine
fine:
  ret i1 false
ask:
  %error = call@PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  ret i1 %failed
}
"""

# The object of a number that could not be had.
FAILED = "inttoptr (i64 1 to ptr)"

_ARITHMETIC = """
define internal { i64, ptr } @number.NAME(i64 %a, ptr %a.o, i64 %b, ptr %b.o) alwaysinline {
  %a.is = icmp eq ptr %a.o, null
  %b.is = icmp eq ptr %b.o, null
  %both = and i1 %a.is, %b.is
  br i1 %both, label %quick, label %slow
quick:
  %pair = call { i64, i1 } @llvm.INSTRUCTION.with.overflow.i64(i64 %a, i64 %b)
  %result = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  br i1 %over, label %slow, label %done
done:
  %number = insertvalue { i64, ptr } { i64 0, ptr null }, i64 %result, 0
  ret { i64, ptr } %number
slow:
  %object = call ptr @object.NAME(i64 %a, ptr %a.o, i64 %b, ptr %b.o)
  %whole = insertvalue { i64, ptr } { i64 0, ptr null }, ptr %object, 1
  ret { i64, ptr } %whole
}

define internal ptr @object.NAME(i64 %a, ptr %a.o, i64 %b, ptr %b.o) noinline cold {
  %x = call ptr @box(i64 %a, ptr %a.o)
  %y = call ptr @box(i64 %b, ptr %b.o)
  %r = call@PyNumber_NAME(ptr %x, ptr %y)
  call void @decref(ptr %x)
  call void @decref(ptr %y)
  %failed = icmp eq ptr %r, null
  %object = select i1 %failed, ptr FAILED, ptr %r
  ret ptr %object
}
"""

_COMPARISON = """
define internal i32 @number.is_NAME(i64 %a, ptr %a.o, i64 %b, ptr %b.o) alwaysinline {
  %a.is = icmp eq ptr %a.o, null
  %b.is = icmp eq ptr %b.o, null
  %both = and i1 %a.is, %b.is
  br i1 %both, label %quick, label %slow
quick:
  %answer = icmp NAME i64 %a, %b
  %wide = zext i1 %answer to i32
  ret i32 %wide
slow:
  %x = call ptr @box(i64 %a, ptr %a.o)
  %y = call ptr @box(i64 %b, ptr %b.o)
  %is = call i32 @compare(ptr %x, ptr %y, i32 NUMBER)
  call void @decref(ptr %x)
  call void @decref(ptr %y)
  ret i32 %is
}
"""

INSTRUCTIONS = {"Add": "sadd", "Subtract": "ssub", "Multiply": "smul"}
# As Python's C interface numbers them.
COMPARISONS = {"slt": 0, "sle": 1, "eq": 2, "ne": 3, "sgt": 4, "sge": 5}


def text() -> str:
    """The helpers."""
    return filled(_NUMBERS) + _arithmetic() + _comparisons()


def _arithmetic() -> str:
    parts = []
    for name, instruction in INSTRUCTIONS.items():
        parts.append(f"declare {{ i64, i1 }} @llvm.{instruction}.with.overflow.i64(i64, i64)\n")
        for how in (name, f"InPlace{name}"):
            part = _ARITHMETIC.replace("INSTRUCTION", instruction).replace("FAILED", FAILED)
            parts.append(part.replace("NAME", how))
    return "".join(parts)


def _comparisons() -> str:
    return "".join(
        [
            _COMPARISON.replace("NAME", name).replace("NUMBER", str(number))
            for name, number in COMPARISONS.items()
        ]
    )
