"""What translated functions are made of: helpers in LLVM IR on top of Python's C interface.

Objects go in borrowed and come out owned. A helper that fails sets a Python exception and gives
null, or -1. Slots of our own classes, lists, tuples and dicts are read where they lie in memory
once the type is known to be exactly that; everything else goes the interpreter's general way, so
the meaning is Python's in every case.
"""

from __future__ import annotations

from typing import Any

from livegrad.native import numbers, rare
from livegrad.native.capi import expanded, names
from livegrad.native.layout import filled

_HELPERS = """
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

define internal void @incref_if_any(ptr %x) alwaysinline {
  %null = icmp eq ptr %x, null
  br i1 %null, label %done, label %count
count:
  call void @incref(ptr %x)
  ret void
done:
  ret void
}

define internal ptr @type(ptr %x) alwaysinline {
  %type.p = getelementptr i8, ptr %x, i64 $TYPE
  %type = load ptr, ptr %type.p
  ret ptr %type
}

define internal i64 @size(ptr %x) alwaysinline {
  %size.p = getelementptr i8, ptr %x, i64 $SIZE
  %size = load i64, ptr %size.p
  ret i64 %size
}

; Whether %x is exactly a list or a tuple.
define internal i1 @is_sequence(ptr %x) alwaysinline {
  %type = call ptr @type(ptr %x)
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %tuple = load ptr, ptr @obj.tuple, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  %is.tuple = icmp eq ptr %type, %tuple
  %known = or i1 %is.list, %is.tuple
  ret i1 %known
}

; An item of a list or tuple that has it.
define internal ptr @there(ptr %x, i64 %i) alwaysinline {
  %type = call ptr @type(ptr %x)
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  %behind.p = getelementptr i8, ptr %x, i64 $ITEMS
  %behind = load ptr, ptr %behind.p
  %within = getelementptr i8, ptr %x, i64 $TUPLE_ITEMS
  %items = select i1 %is.list, ptr %behind, ptr %within
  %one.p = getelementptr ptr, ptr %items, i64 %i
  %one = load ptr, ptr %one.p
  call void @incref(ptr %one)
  ret ptr %one
}

declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

; An object may begin in one line of the processor's cache and end in the next.
define internal void @fetch.object(ptr %x) alwaysinline {
  %end = getelementptr i8, ptr %x, i64 64
  call void @llvm.prefetch.p0(ptr %x, i32 0, i32 3, i32 1)
  call void @llvm.prefetch.p0(ptr %end, i32 0, i32 3, i32 1)
  ret void
}

define internal void @fetch.item(ptr %x, i64 %i) {
  %type = call ptr @type(ptr %x)
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  br i1 %is.list, label %known, label %done
known:
  %items.p = getelementptr i8, ptr %x, i64 $ITEMS
  %items = load ptr, ptr %items.p
  %one.p = getelementptr ptr, ptr %items, i64 %i
  %one = load ptr, ptr %one.p
  call void @fetch.object(ptr %one)
  ret void
done:
  ret void
}

define internal void @fetch.items(ptr %x) {
  %null = icmp eq ptr %x, null
  br i1 %null, label %done, label %look
look:
  %type = call ptr @type(ptr %x)
  %tuple = load ptr, ptr @obj.tuple, !invariant.load !0
  %is.tuple = icmp eq ptr %type, %tuple
  br i1 %is.tuple, label %known, label %done
known:
  %size = call i64 @size(ptr %x)
  %items = getelementptr i8, ptr %x, i64 $TUPLE_ITEMS
  br label %head
head:
  %i = phi i64 [ 0, %known ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %one.p = getelementptr ptr, ptr %items, i64 %i
  %one = load ptr, ptr %one.p
  call void @fetch.object(ptr %one)
  %i.next = add i64 %i, 1
  br label %head
done:
  ret void
}

define internal i64 @len(ptr %x) {
  %known = call i1 @is_sequence(ptr %x)
  br i1 %known, label %quick, label %ask
quick:
  %size = call i64 @size(ptr %x)
  ret i64 %size
ask:
  %n = call@PyObject_Size(ptr %x)
  ret i64 %n
}

define internal ptr @item(ptr %x, i64 %i, ptr %object) {
  %is.number = icmp eq ptr %object, null
  br i1 %is.number, label %look, label %ask
look:
  %known = call i1 @is_sequence(ptr %x)
  br i1 %known, label %check, label %ask
check:
  %size = call i64 @size(ptr %x)
  %negative = icmp slt i64 %i, 0
  %wrapped = add i64 %i, %size
  %at = select i1 %negative, i64 %wrapped, i64 %i
  %inside = icmp ult i64 %at, %size
  br i1 %inside, label %quick, label %ask
quick:
  %one = call ptr @there(ptr %x, i64 %at)
  ret ptr %one
ask:
  %boxed = call ptr @box(i64 %i, ptr %object)
  %got = call@PyObject_GetItem(ptr %x, ptr %boxed)
  call void @decref(ptr %boxed)
  ret ptr %got
}

; What a loop holds: a list or tuple itself, which is counted through, else an iterator.
define internal ptr @iterable(ptr %x) {
  %known = call i1 @is_sequence(ptr %x)
  br i1 %known, label %same, label %ask
same:
  call void @incref(ptr %x)
  ret ptr %x
ask:
  %got = call@PyObject_GetIter(ptr %x)
  ret ptr %got
}

; The next item of what a loop holds; null at the end, and for an error.
define internal ptr @next(ptr %x, i64 %i) {
  %known = call i1 @is_sequence(ptr %x)
  br i1 %known, label %check, label %ask
check:
  %size = call i64 @size(ptr %x)
  %inside = icmp ult i64 %i, %size
  br i1 %inside, label %quick, label %end
quick:
  %one = call ptr @there(ptr %x, i64 %i)
  ret ptr %one
end:
  ret ptr null
ask:
  %got = call@PyIter_Next(ptr %x)
  ret ptr %got
}

; What is to be unpacked into %n names: a list or tuple of so many.
define internal ptr @unpacked(ptr %x, i64 %n) {
  %args = alloca [2 x ptr]
  %known = call i1 @is_sequence(ptr %x)
  br i1 %known, label %check, label %ask
check:
  %size = call i64 @size(ptr %x)
  %as.many = icmp eq i64 %size, %n
  br i1 %as.many, label %same, label %ask
same:
  call void @incref(ptr %x)
  ret ptr %x
ask:
  %count = call@PyLong_FromLongLong(i64 %n)
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %count, ptr %second
  %unpack = load ptr, ptr @obj.unpack, !invariant.load !0
  %got = call@PyObject_Vectorcall(ptr %unpack, ptr %args, i64 2, ptr null)
  call void @decref(ptr %count)
  ret ptr %got
}

; A method of an object, to be called later; of an object of %class, which surely has it, anything.
define internal ptr @method(ptr %x, ptr %name, ptr %class) {
  %type = call ptr @type(ptr %x)
  %known = icmp eq ptr %type, %class
  br i1 %known, label %same, label %ask
same:
  call void @incref(ptr %x)
  ret ptr %x
ask:
  %got = call@PyObject_GetAttr(ptr %x, ptr %name)
  ret ptr %got
}

; Calls a method, which may have been looked up before.
define internal ptr @call_method(ptr %x, ptr %method, ptr %name, ptr %value) {
  %args = alloca [2 x ptr]
  %none = icmp eq ptr %method, null
  br i1 %none, label %find, label %call
call:
  store ptr %value, ptr %args
  %given = call@PyObject_Vectorcall(ptr %method, ptr %args, i64 1, ptr null)
  ret ptr %given
find:
  store ptr %x, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %value, ptr %second
  %got = call@PyObject_VectorcallMethod(ptr %name, ptr %args, i64 2, ptr null)
  ret ptr %got
}

define internal ptr @append(ptr %x, ptr %method, ptr %value) {
  %type = call ptr @type(ptr %x)
  %list = load ptr, ptr @obj.list, !invariant.load !0
  %is.list = icmp eq ptr %type, %list
  br i1 %is.list, label %quick, label %ask
quick:
  %status = call@PyList_Append(ptr %x, ptr %value)
  %got = call ptr @none_unless(i32 %status)
  ret ptr %got
ask:
  %name = load ptr, ptr @obj.append, !invariant.load !0
  %given = call ptr @call_method(ptr %x, ptr %method, ptr %name, ptr %value)
  ret ptr %given
}

define internal ptr @add(ptr %x, ptr %method, ptr %value) {
  %type = call ptr @type(ptr %x)
  %set = load ptr, ptr @obj.set, !invariant.load !0
  %is.set = icmp eq ptr %type, %set
  br i1 %is.set, label %quick, label %ask
quick:
  %status = call@PySet_Add(ptr %x, ptr %value)
  %got = call ptr @none_unless(i32 %status)
  ret ptr %got
ask:
  %name = load ptr, ptr @obj.add, !invariant.load !0
  %given = call ptr @call_method(ptr %x, ptr %method, ptr %name, ptr %value)
  ret ptr %given
}

define internal ptr @none_unless(i32 %status) {
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %none
none:
  %nothing = load ptr, ptr @obj.none, !invariant.load !0
  call void @incref(ptr %nothing)
  ret ptr %nothing
fail:
  ret ptr null
}

define internal ptr @get(ptr %x, ptr %method, ptr %key) {
  %type = call ptr @type(ptr %x)
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
  %status = sext i1 %failed to i32
  %nothing = call ptr @none_unless(i32 %status)
  ret ptr %nothing
ask:
  %name = load ptr, ptr @obj.get, !invariant.load !0
  %got = call ptr @call_method(ptr %x, ptr %method, ptr %name, ptr %key)
  ret ptr %got
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

; For == (2) and != (3): two strings that are one are equal, and those of other lengths are not.
define internal i32 @compare(ptr %x, ptr %y, i32 %op) {
  %is.eq = icmp eq i32 %op, 2
  %is.ne = icmp eq i32 %op, 3
  %is.either = or i1 %is.eq, %is.ne
  br i1 %is.either, label %look, label %general
look:
  %x.type = call ptr @type(ptr %x)
  %y.type = call ptr @type(ptr %y)
  %str = load ptr, ptr @obj.str, !invariant.load !0
  %x.is = icmp eq ptr %x.type, %str
  %y.is = icmp eq ptr %y.type, %str
  %both = and i1 %x.is, %y.is
  br i1 %both, label %strings, label %general
strings:
  %same = icmp eq ptr %x, %y
  %x.size = call i64 @size(ptr %x)
  %y.size = call i64 @size(ptr %y)
  %other.size = icmp ne i64 %x.size, %y.size
  %known = or i1 %same, %other.size
  br i1 %known, label %say, label %general
say:
  %holds = icmp eq i1 %same, %is.eq
  %said = zext i1 %holds to i32
  ret i32 %said
general:
  %answer = call@PyObject_RichCompare(ptr %x, ptr %y, i32 %op)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %fail, label %ask
ask:
  %is = call i32 @truth(ptr %answer)
  call void @decref(ptr %answer)
  ret i32 %is
fail:
  ret i32 -1
}

; Puts keyword arguments, which follow the %given plain ones, where they belong; -1 if one is
; unknown or given twice.
define internal i32 @place_keywords(ptr %args, i64 %given, ptr %words, ptr %names, ptr %out) {
entry:
  %words.n = call i64 @size(ptr %words)
  %names.n = call i64 @size(ptr %names)
  %words.items = getelementptr i8, ptr %words, i64 $TUPLE_ITEMS
  %names.items = getelementptr i8, ptr %names, i64 $TUPLE_ITEMS
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

; What `object.__new__` does, but no place is prepared for attributes outside of slots (until
; Python 3.12): most tensors never have one, and who does is given a dict then.
define internal ptr @make(ptr %class) {
  %made = call@PyType_GenericAlloc(ptr %class, i64 0)
  ret ptr %made
}
"""

# What the helpers refer to.
OBJECTS: dict[str, Any] = {
    "add": "add",
    "append": "append",
    "dict": dict,
    "empty": (),
    "error": rare.error,
    "false": False,
    "get": "get",
    "int": int,
    "list": list,
    "none": None,
    "set": set,
    "str": str,
    "true": True,
    "tuple": tuple,
    "unpack": rare.unpack,
}


def text() -> str:
    """The helpers, and the places for the addresses of C functions."""
    helpers = filled(_HELPERS) + numbers.text()
    # Expanded function by function, because names are local to one.
    helpers = "\n}\n".join([expanded(part) for part in helpers.split("\n}\n")])
    places = "\n".join([f"@capi.{name} = internal global ptr null" for name in names()])
    return f"{places}\n!0 = !{{}}\n{helpers}"
