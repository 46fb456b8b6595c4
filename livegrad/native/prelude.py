"""What translated functions are made of: helpers in LLVM IR on top of Python's C interface.

Objects go in borrowed and come out owned. A helper that fails sets a Python exception and gives
null, or -1. Slots of our own classes, lists, tuples and dicts are read where they lie in memory
once the type is known to be exactly that; everything else goes the interpreter's general way, so
the meaning is Python's in every case.
"""

from __future__ import annotations

import ctypes
from typing import Any

from livegrad.native.layout import TUPLE_ITEMS

# Functions of Python's C interface, as LLVM sees them: (result, arguments).
CAPI: dict[str, tuple[str, str]] = {
    "_Py_Dealloc": ("void", "ptr"),
    "PyErr_Clear": ("void", ""),
    "PyErr_ExceptionMatches": ("i32", "ptr"),
    "PyErr_Fetch": ("void", "ptr, ptr, ptr"),
    "PyErr_Occurred": ("ptr", ""),
    "PyErr_Restore": ("void", "ptr, ptr, ptr"),
    "PyErr_SetObject": ("void", "ptr, ptr"),
    "PyErr_SetString": ("void", "ptr, ptr"),
    "PyException_SetCause": ("void", "ptr, ptr"),
    "PyEval_RestoreThread": ("void", "ptr"),
    "PyEval_SaveThread": ("ptr", ""),
    "PyBool_FromLong": ("ptr", "i64"),
    "PyDict_GetItemWithError": ("ptr", "ptr, ptr"),
    "PyList_Append": ("i32", "ptr, ptr"),
    "PyList_New": ("ptr", "i64"),
    "PyLong_AsLongLong": ("i64", "ptr"),
    "PyLong_FromLongLong": ("ptr", "i64"),
    "PyNumber_Add": ("ptr", "ptr, ptr"),
    "PyNumber_Multiply": ("ptr", "ptr, ptr"),
    "PyNumber_Subtract": ("ptr", "ptr, ptr"),
    "PyObject_Call": ("ptr", "ptr, ptr, ptr"),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_GetItem": ("ptr", "ptr, ptr"),
    "PyObject_IsInstance": ("i32", "ptr, ptr"),
    "PyObject_IsTrue": ("i32", "ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr, ptr, i32"),
    "PyObject_SetAttr": ("i32", "ptr, ptr, ptr"),
    "PyObject_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyObject_Size": ("i64", "ptr"),
    "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr"),
    "PyObject_VectorcallMethod": ("ptr", "ptr, ptr, i64, ptr"),
    "PyUnicode_Compare": ("i32", "ptr, ptr"),
    "PySequence_Contains": ("i32", "ptr, ptr"),
    "PySequence_Tuple": ("ptr", "ptr"),
    "PySet_Add": ("i32", "ptr, ptr"),
    "PySet_New": ("ptr", "ptr"),
    "PyThreadState_Get": ("ptr", ""),
    "PyThreadState_GetID": ("i64", "ptr"),
    "PyTuple_New": ("ptr", "i64"),
}


def capi_address(name: str) -> int:
    """Where the interpreter has a function of its C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def object_new_address() -> int:
    """`object.__new__` as C calls it: (class, arguments, keywords)."""
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    tp_new = 65
    return int(get(object, tp_new))


def _function(text: str) -> str:
    """Turns `call@Name(args)` into a load of the address and an indirect call."""
    lines = []
    count = 0
    for line in text.splitlines():
        if "call@" in line:
            before, rest = line.split("call@", 1)
            name, arguments = rest.split("(", 1)
            result, types = CAPI[name]
            count += 1
            lines.append(f"  %f{count} = load ptr, ptr @capi.{name}, !invariant.load !0")
            lines.append(f"{before}call {result} ({types}) %f{count}({arguments}")
        else:
            lines.append(line)
    return "\n".join(lines)


# What lies where in an object is told in `layout`.
HELPERS = """
define internal void @decref(ptr %x) alwaysinline {
  %null = icmp eq ptr %x, null
  br i1 %null, label %done, label %count
count:
  %refs = load i32, ptr %x
  %immortal = icmp slt i32 %refs, 0
  br i1 %immortal, label %done, label %mortal
mortal:
  %left = sub i32 %refs, 1
  store i32 %left, ptr %x
  %zero = icmp eq i32 %left, 0
  br i1 %zero, label %free, label %done
free:
  call@_Py_Dealloc(ptr %x)
  ret void
done:
  ret void
}

define internal void @incref(ptr %x) alwaysinline {
  %refs = load i32, ptr %x
  %immortal = icmp slt i32 %refs, 0
  br i1 %immortal, label %done, label %mortal
mortal:
  %more = add i32 %refs, 1
  store i32 %more, ptr %x
  ret void
done:
  ret void
}

define internal i64 @len(ptr %x) {
  %type.p = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.p
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %tuple = load ptr, ptr @obj.tuple, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  %is.tuple = icmp eq ptr %type, %tuple
  %known = or i1 %is.list, %is.tuple
  br i1 %known, label %quick, label %ask
quick:
  %size.p = getelementptr i8, ptr %x, i64 16
  %size = load i64, ptr %size.p
  ret i64 %size
ask:
  %n = call@PyObject_Size(ptr %x)
  ret i64 %n
}

define internal ptr @item(ptr %x, i64 %i) {
  %type.p = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.p
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %tuple = load ptr, ptr @obj.tuple, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  %is.tuple = icmp eq ptr %type, %tuple
  %known = or i1 %is.list, %is.tuple
  br i1 %known, label %check, label %ask
check:
  %size.p = getelementptr i8, ptr %x, i64 16
  %size = load i64, ptr %size.p
  %negative = icmp slt i64 %i, 0
  %wrapped = add i64 %i, %size
  %at = select i1 %negative, i64 %wrapped, i64 %i
  %inside = icmp ult i64 %at, %size
  br i1 %inside, label %quick, label %ask
quick:
  %behind.p = getelementptr i8, ptr %x, i64 24
  %behind = load ptr, ptr %behind.p
  %within = getelementptr i8, ptr %x, i64 TUPLE_ITEMS
  %items = select i1 %is.list, ptr %behind, ptr %within
  %one.p = getelementptr ptr, ptr %items, i64 %at
  %one = load ptr, ptr %one.p
  call void @incref(ptr %one)
  ret ptr %one
ask:
  %boxed = call@PyLong_FromLongLong(i64 %i)
  %got = call@PyObject_GetItem(ptr %x, ptr %boxed)
  call void @decref(ptr %boxed)
  ret ptr %got
}

define internal i32 @push(ptr %x, ptr %value) {
  %type.p = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.p
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  br i1 %is.list, label %quick, label %ask
quick:
  %done = call@PyList_Append(ptr %x, ptr %value)
  ret i32 %done
ask:
  %args = alloca [2 x ptr]
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %value, ptr %second
  %name = load ptr, ptr @obj.append, !invariant.load !0
  %got = call@PyObject_VectorcallMethod(ptr %name, ptr %args, i64 2, ptr null)
  call void @decref(ptr %got)
  %failed = icmp eq ptr %got, null
  %status = sext i1 %failed to i32
  ret i32 %status
}

define internal ptr @look_up(ptr %x, ptr %key) {
  %type.p = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.p
  %dict = load ptr, ptr @obj.dict, !invariant.load !0
  %is.dict = icmp eq ptr %type, %dict
  br i1 %is.dict, label %quick, label %ask
quick:
  %found = call@PyDict_GetItemWithError(ptr %x, ptr %key)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %none, label %give
give:
  call void @incref(ptr %found)
  ret ptr %found
none:
  %error = call@PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %fail, label %absent
fail:
  ret ptr null
absent:
  %nothing = load ptr, ptr @obj.none, !invariant.load !0
  call void @incref(ptr %nothing)
  ret ptr %nothing
ask:
  %args = alloca [2 x ptr]
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %key, ptr %second
  %name = load ptr, ptr @obj.get, !invariant.load !0
  %got = call@PyObject_VectorcallMethod(ptr %name, ptr %args, i64 2, ptr null)
  ret ptr %got
}

define internal i32 @put(ptr %x, ptr %value) {
  %type.p = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %type.p
  %set = load ptr, ptr @obj.set, !invariant.load !0
  %is.set = icmp eq ptr %type, %set
  br i1 %is.set, label %quick, label %ask
quick:
  %done = call@PySet_Add(ptr %x, ptr %value)
  ret i32 %done
ask:
  %args = alloca [2 x ptr]
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %value, ptr %second
  %name = load ptr, ptr @obj.add, !invariant.load !0
  %got = call@PyObject_VectorcallMethod(ptr %name, ptr %args, i64 2, ptr null)
  call void @decref(ptr %got)
  %failed = icmp eq ptr %got, null
  %status = sext i1 %failed to i32
  ret i32 %status
}

define internal i32 @truth(ptr %x) {
  %true = load ptr, ptr @obj.true, !invariant.load !0
  %is.true = icmp eq ptr %x, %true
  br i1 %is.true, label %yes, label %more
yes:
  ret i32 1
more:
  %none = load ptr, ptr @obj.none, !invariant.load !0
  %is.none = icmp eq ptr %x, %none
  %false = load ptr, ptr @obj.false, !invariant.load !0
  %is.false = icmp eq ptr %x, %false
  %no = or i1 %is.none, %is.false
  br i1 %no, label %zero, label %ask
zero:
  ret i32 0
ask:
  %answer = call@PyObject_IsTrue(ptr %x)
  ret i32 %answer
}

define internal i64 @unbox(ptr %x) {
  %n = call@PyLong_AsLongLong(ptr %x)
  ret i64 %n
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

; Puts keyword arguments, which follow the %given plain ones, where they belong; -1 if one is
; unknown or given twice.
define internal i32 @place_keywords(ptr %args, i64 %given, ptr %words, ptr %names, ptr %out) {
entry:
  %words.n.p = getelementptr i8, ptr %words, i64 16
  %words.n = load i64, ptr %words.n.p
  %names.n.p = getelementptr i8, ptr %names, i64 16
  %names.n = load i64, ptr %names.n.p
  %words.items = getelementptr i8, ptr %words, i64 TUPLE_ITEMS
  %names.items = getelementptr i8, ptr %names, i64 TUPLE_ITEMS
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %placed ]
  %more = icmp slt i64 %i, %words.n
  br i1 %more, label %word, label %done
word:
  %word.p = getelementptr ptr, ptr %words.items, i64 %i
  %word.it = load ptr, ptr %word.p
  br label %search
search:
  %j = phi i64 [ 0, %word ], [ %j.next, %differs ]
  %left = icmp slt i64 %j, %names.n
  br i1 %left, label %compare, label %bad
compare:
  %name.p = getelementptr ptr, ptr %names.items, i64 %j
  %name.it = load ptr, ptr %name.p
  %order = call@PyUnicode_Compare(ptr %word.it, ptr %name.it)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %found, label %differs
differs:
  %j.next = add i64 %j, 1
  br label %search
found:
  %out.p = getelementptr ptr, ptr %out, i64 %j
  %before = load ptr, ptr %out.p
  %twice = icmp ne ptr %before, null
  br i1 %twice, label %bad, label %placed
placed:
  %value.at = add i64 %given, %i
  %value.p = getelementptr ptr, ptr %args, i64 %value.at
  %value = load ptr, ptr %value.p
  store ptr %value, ptr %out.p
  %i.next = add i64 %i, 1
  br label %head
done:
  ret i32 0
bad:
  ret i32 -1
}

; What a thread-local object has for this thread: remembered for the thread that asked last.
define internal ptr @local(ptr %x, ptr %name, ptr %known) {
  %thread = call@PyThreadState_Get()
  %id = call@PyThreadState_GetID(ptr %thread)
  %last = load i64, ptr %known
  %same = icmp eq i64 %id, %last
  %value.p = getelementptr i64, ptr %known, i64 1
  br i1 %same, label %quick, label %ask
quick:
  %value = load ptr, ptr %value.p
  call void @incref(ptr %value)
  ret ptr %value
ask:
  %got = call@PyObject_GetAttr(ptr %x, ptr %name)
  %failed = icmp eq ptr %got, null
  br i1 %failed, label %give, label %keep
keep:
  call void @incref(ptr %got)
  %old = load ptr, ptr %value.p
  store i64 %id, ptr %known
  store ptr %got, ptr %value.p
  call void @decref(ptr %old)
  br label %give
give:
  ret ptr %got
}

define internal ptr @make(ptr %class) {
  %new = load ptr, ptr @capi.object_new
  %empty = load ptr, ptr @obj.empty, !invariant.load !0
  %made = call ptr (ptr, ptr, ptr) %new(ptr %class, ptr %empty, ptr null)
  ret ptr %made
}
"""

# What the helpers refer to.
OBJECTS: dict[str, Any] = {
    "add": "add",
    "append": "append",
    "dict": dict,
    "empty": (),
    "false": False,
    "get": "get",
    "list": list,
    "none": None,
    "set": set,
    "true": True,
    "tuple": tuple,
}


def text() -> str:
    """The helpers, and the places for the addresses of C functions."""
    helpers = _function_texts(HELPERS.replace("TUPLE_ITEMS", str(TUPLE_ITEMS)))
    places = "\n".join([f"@capi.{name} = internal global ptr null" for name in names()])
    return f"{places}\n!0 = !{{}}\n{helpers}"


def names() -> list[str]:
    """C functions in the order of their addresses in the table."""
    return [*CAPI, "object_new"]


def addresses() -> list[int]:
    """The addresses that belong to `names`."""
    return [*map(capi_address, CAPI), object_new_address()]


def _function_texts(text: str) -> str:
    # Numbered per function, because names are local to one.
    return "\n}\n".join([_function(part) for part in text.split("\n}\n")])


def slot_reader(attribute: str, owners: list[tuple[int, int]]) -> str:
    """`get.attribute(x)`: from the slot if the class of `x` is one of `owners`.

    An owner is (number of the class object, offset of the slot).
    """
    lines = [
        f"define internal ptr @get.{attribute}(ptr %x) {{",
        "  %type.p = getelementptr i8, ptr %x, i64 8",
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
    return _function("\n".join(lines))


def slot_writer(attribute: str, owners: list[tuple[int, int]]) -> str:
    """`set.attribute(x, value)`: to the slot if the class of `x` is one of `owners`."""
    lines = [
        f"define internal i32 @set.{attribute}(ptr %x, ptr %value) {{",
        "  %type.p = getelementptr i8, ptr %x, i64 8",
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
    return _function("\n".join(lines))
