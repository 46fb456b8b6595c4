"""Calls of the subset: of anything, of each other, and of what has instructions of its own."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from livegrad.native import rare
from livegrad.native.calls import (
    call_native,
    call_native_freely,
    double_at,
    double_bits,
    fetch,
    fetch_item,
    fetch_items,
    fetch_slot,
    half_at,
    int_at,
    object_at,
    put_half,
    put_single,
    put_word,
    quotient,
    ratio_bits,
    remainder,
    single_at,
    untrack,
    word_at,
)
from livegrad.native.expressions import Expressions
from livegrad.native.frame import Value
from livegrad.native.subset import Untranslatable

_FRAMES_WITHOUT = 2
_VECTORCALL_OFFSET = -(1 << 63)
# Methods with a helper of their own, and the class whose it is.
_METHODS = {"append": "list", "add": "set", "get": "dict"}


class Invocations(Expressions):
    """The translation of calls."""

    def of_Call(self, node: ast.Call) -> Value:
        known = self.constant_of(node.func)
        special = _special(known, node)
        if special is not None:
            return special(self, node)
        if any(isinstance(a, ast.Starred) for a in node.args):
            return self._call_with_starred(node)
        if isinstance(node.func, ast.Attribute) and known is None:
            return self._call_method(node, node.func)
        if isinstance(known, FunctionType) and known in self.unit.symbols and not node.keywords:
            return self.call_translated(node, known)
        return self._call_object(node)

    def _call_object(self, node: ast.Call) -> Value:
        return self.call_value(self.boxed(self.value(node.func)), node)

    def call_value(self, function: Value, node: ast.Call) -> Value:
        """Calls an object with the arguments of `node`."""
        return self._vectorcall("PyObject_Vectorcall", f"ptr {function.text}", None, node)

    def call_translated(self, node: ast.Call, function: FunctionType) -> Value:
        """Calls another function of the unit directly."""
        defaults = function.__defaults__ or ()
        names = inspect.signature(function).parameters
        missing = len(names) - len(node.args)
        if missing > len(defaults) or missing < 0:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        recursive = self.unit.reaches(function, self.function)
        values = [self.boxed(self.value(a)) for a in node.args]
        absent = defaults[len(defaults) - missing :]
        values += [self.object(self.unit.constant(default)) for default in absent]
        if recursive:
            refused, r = self.capi("Py_EnterRecursiveCall", "ptr @while_calling"), self.fresh()
            self.emit(f"{r} = icmp ne i32 {refused}, 0")
            self.fail_if(r)
        symbol = self.unit.symbols[function]
        made = self.helper("ptr", symbol, *[f"ptr {v.text}" for v in values])
        if recursive:
            self.capi("Py_LeaveRecursiveCall")
        return self.owned(made)

    def _call_method(self, node: ast.Call, function: ast.Attribute) -> Value:
        x = self.boxed(self.value(function.value))
        name = self.object(self.unit.name(function.attr))
        given = [*node.args, *[k.value for k in node.keywords]]
        # The method is looked up first: an argument may raise, or change what it is.
        is_first = not all([self._is_simple(a) for a in given])
        cls = _METHODS.get(function.attr)
        if cls is not None and len(given) == 1 and not node.keywords:
            method = "null"
            if is_first:
                known = self.object(f"@obj.{cls}")
                found = [f"ptr {v.text}" for v in (x, name, known)]
                method = self.owned(self.helper("ptr", "method", *found)).text
            value = self.boxed(self.value(given[0]))
            passed = [f"ptr {x.text}", f"ptr {method}", f"ptr {value.text}"]
            return self.owned(self.helper("ptr", function.attr, *passed))
        if is_first:
            reader = self.unit.reader(function.attr)[1:]
            return self.call_value(self.owned(self.helper("ptr", reader, f"ptr {x.text}")), node)
        return self._vectorcall("PyObject_VectorcallMethod", f"ptr {name.text}", x, node)

    def _is_simple(self, node: ast.expr) -> bool:
        """Whether nothing can go wrong with an argument: a method may be looked up after it."""
        if isinstance(node, ast.Tuple):
            return all([self._is_simple(x) for x in node.elts])
        if isinstance(node, ast.Name):
            return not self.is_own(node.id) or self.called(node.id) in self.assigned
        return isinstance(node, ast.Constant)

    def _vectorcall(self, how: str, what: str, first: Value | None, node: ast.Call) -> Value:
        given = [self.boxed(self.value(a)) for a in node.args]
        words = [self.boxed(self.value(k.value)) for k in node.keywords]
        values = ([first] if first else []) + given + words
        # One place in front, which the called may use.
        block = self.alloca(f"[{len(values) + 1} x ptr]")
        for i, value in enumerate(values):
            place = self.fresh()
            self.emit(f"{place} = getelementptr ptr, ptr {block}, i64 {i + 1}")
            self.emit(f"store ptr {value.text}, ptr {place}")
        start = self.fresh()
        self.emit(f"{start} = getelementptr ptr, ptr {block}, i64 1")
        spelling = "ptr null"
        if words:
            spelled = tuple([sys.intern(str(k.arg)) for k in node.keywords])
            spelling = f"ptr {self.object(self.unit.constant(spelled)).text}"
        count = (len(values) - len(words)) | _VECTORCALL_OFFSET
        return self.owned(self.capi(how, what, f"ptr {start}", f"i64 {count}", spelling))

    def _call_with_starred(self, node: ast.Call) -> Value:
        (only,) = node.args
        assert isinstance(only, ast.Starred)
        caller = self.object(self.unit.constant(rare.call_with))
        return self.call_value(caller, ast.Call(node.func, [node.func, only.value], []))

    # ---- functions with an instruction of their own ----------------------------------------

    def call_len(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        n = self.helper("i64", "len", f"ptr {x.text}")
        self.checked(n, "i64")
        return Value(n, "num")

    def call_type(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        r = self.helper("ptr", "type", f"ptr {x.text}")
        self.hold(f"ptr {r}")
        self.temporaries.append(r)
        return Value(r, "obj")

    def call_isinstance(self, node: ast.Call) -> Value:
        x, cls = (self.boxed(self.value(a)) for a in node.args)
        answer = self.capi("PyObject_IsInstance", f"ptr {x.text}", f"ptr {cls.text}")
        return Value(self.answer(answer), "bool")

    def call_new(self, node: ast.Call) -> Value:
        cls = self.constant_of(node.args[0])
        if not isinstance(cls, type) or not _is_made_by_object(cls):
            return self._call_object(node)
        made = self.value(node.args[0])
        return self.owned(self.helper("ptr", "make", f"ptr {made.text}"))

    def call_bool(self, node: ast.Call) -> Value:
        return Value(self.truth(self.value(node.args[0])), "bool")

    def call_tuple(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        return self.owned(self.capi("PySequence_Tuple", f"ptr {x.text}"))

    def call_id(self, node: ast.Call) -> Value:
        x = self.value(node.args[0])
        if x.kind != "obj":
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)} of a number")
        r = self.fresh()
        self.emit(f"{r} = ptrtoint ptr {x.text} to i64")
        return Value(r, "num")

    def call_getframe(self, node: ast.Call) -> Value:
        (depth,) = node.args
        if not isinstance(depth, ast.Constant) or type(depth.value) is not int:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        fewer = max(depth.value - _FRAMES_WITHOUT, 0)
        plain = ast.Call(ast.Name("_getframe", ast.Load()), [ast.Constant(fewer)], [])
        function = self.object(self.unit.constant(sys._getframe))
        return self._vectorcall("PyObject_Vectorcall", f"ptr {function.text}", None, plain)

    def call_address(self, node: ast.Call) -> Value:
        return self._native(node, freely=False)

    def call_address_freely(self, node: ast.Call) -> Value:
        return self._native(node, freely=True)

    def call_word_at(self, node: ast.Call) -> Value:
        return self._loaded_from(node, "i64")

    def call_half_at(self, node: ast.Call) -> Value:
        half, r = self._loaded_from(node, "i32"), self.fresh()
        self.emit(f"{r} = zext i32 {half.text} to i64")
        return Value(r, "num")

    def _loaded_from(self, node: ast.Call, kind: str) -> Value:
        r = self.fresh()
        self.emit(f"{r} = load {kind}, ptr {self._pointer(node.args[0])}")
        return Value(r, "num")

    def call_single_at(self, node: ast.Call) -> Value:
        single, r = self._loaded_from(node, "float"), self.fresh()
        self.emit(f"{r} = fpext float {single.text} to double")
        return self.owned(self.capi("PyFloat_FromDouble", f"double {r}"))

    def call_double_at(self, node: ast.Call) -> Value:
        double = self._loaded_from(node, "double")
        return self.owned(self.capi("PyFloat_FromDouble", f"double {double.text}"))

    def call_object_at(self, node: ast.Call) -> Value:
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {self._pointer(node.args[0])}")
        self.hold(f"ptr {r}")
        self.temporaries.append(r)
        return Value(r, "obj")

    def call_put_word(self, node: ast.Call) -> Value:
        address = self._pointer(node.args[0])
        self.emit(f"store i64 {self.word(self.value(node.args[1]))}, ptr {address}")
        return self.object("@obj.none")

    def call_put_half(self, node: ast.Call) -> Value:
        address, half = self._pointer(node.args[0]), self.fresh()
        self.emit(f"{half} = trunc i64 {self.word(self.value(node.args[1]))} to i32")
        self.emit(f"store i32 {half}, ptr {address}")
        return self.object("@obj.none")

    def call_put_single(self, node: ast.Call) -> Value:
        address, number = self._pointer(node.args[0]), self.boxed(self.value(node.args[1]))
        double, single = self.capi("PyFloat_AsDouble", f"ptr {number.text}"), self.fresh()
        self.fail_if_error()
        self.emit(f"{single} = fptrunc double {double} to float")
        self.emit(f"store float {single}, ptr {address}")
        return self.object("@obj.none")

    def call_fetch(self, node: ast.Call) -> Value:
        self._fetch(self._pointer(node.args[0]))
        return self.object("@obj.none")

    def _fetch(self, pointer: str) -> None:
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def call_fetch_item(self, node: ast.Call) -> Value:
        things, place = self.boxed(self.value(node.args[0])), self.value(node.args[1])
        self.emit(f"call void @fetch.item(ptr {things.text}, i64 {self.word(place)})")
        return self.object("@obj.none")

    def call_fetch_slot(self, node: ast.Call) -> Value:
        self._fetch(self._in_slot(node))
        return self.object("@obj.none")

    def call_fetch_items(self, node: ast.Call) -> Value:
        self.emit(f"call void @fetch.items(ptr {self._in_slot(node)})")
        return self.object("@obj.none")

    def _in_slot(self, node: ast.Call) -> str:
        """The address in a slot of an object, which may be null."""
        x, offset = self.boxed(self.value(node.args[0])), self.word(self.value(node.args[1]))
        place, r = self.fresh(), self.fresh()
        self.emit(f"{place} = getelementptr i8, ptr {x.text}, i64 {offset}")
        self.emit(f"{r} = load ptr, ptr {place}")
        return r

    def call_untrack(self, node: ast.Call) -> Value:
        self.capi("PyObject_GC_UnTrack", f"ptr {self.boxed(self.value(node.args[0])).text}")
        return self.object("@obj.none")

    def call_int_at(self, node: ast.Call) -> Value:
        return Value(self.helper("i64", "int.word", f"ptr {self._pointer(node.args[0])}"), "num")

    def call_quotient(self, node: ast.Call) -> Value:
        return self._of_two(node, "sdiv i64")

    def call_remainder(self, node: ast.Call) -> Value:
        return self._of_two(node, "srem i64")

    def _of_two(self, node: ast.Call, instruction: str) -> Value:
        a, b = [self.word(self.value(x)) for x in node.args]
        r = self.fresh()
        self.emit(f"{r} = {instruction} {a}, {b}")
        return Value(r, "num")

    def call_double_bits(self, node: ast.Call) -> Value:
        return self._bits_of(self._double(node.args[0]))

    def call_ratio_bits(self, node: ast.Call) -> Value:
        a, b = [self._double(x) for x in node.args]
        r = self.fresh()
        self.emit(f"{r} = fdiv double {a}, {b}")
        return self._bits_of(r)

    def _double(self, number: ast.expr) -> str:
        word, r = self.word(self.value(number)), self.fresh()
        self.emit(f"{r} = sitofp i64 {word} to double")
        return r

    def _bits_of(self, double: str) -> Value:
        r = self.fresh()
        self.emit(f"{r} = bitcast double {double} to i64")
        return Value(r, "num")

    def _pointer(self, address: ast.expr) -> str:
        word, r = self.word(self.value(address)), self.fresh()
        self.emit(f"{r} = inttoptr i64 {word} to ptr")
        return r

    def _native(self, node: ast.Call, freely: bool) -> Value:
        numbers = [self.word(self.value(a)) for a in node.args]
        function, r = self.fresh(), self.fresh()
        self.emit(f"{function} = inttoptr i64 {numbers[0]} to ptr")
        state = self.capi("PyEval_SaveThread") if freely else ""
        passed = ", ".join([f"i64 {n}" for n in numbers[1:]])
        self.emit(f"{r} = call i64 {function}({passed})")
        if freely:
            self.capi("PyEval_RestoreThread", f"ptr {state}")
        return Value(r, "num")


def _is_made_by_object(cls: type) -> bool:
    """Whether `object.__new__` makes instances of a class, whatever a `__new__` of its own does."""
    written = [c for c in cls.__mro__ if isinstance(c.__dict__.get("__new__"), staticmethod)]
    others = [c for c in cls.__mro__ if "__new__" in c.__dict__ and c not in written]
    return others == [object]


Special = Callable[[Invocations, ast.Call], Value]
# By the called function: how many arguments it has then, and what it becomes.
_SPECIAL: dict[Any, tuple[int, Special]] = {
    len: (1, Invocations.call_len),
    type: (1, Invocations.call_type),
    bool: (1, Invocations.call_bool),
    id: (1, Invocations.call_id),
    tuple: (1, Invocations.call_tuple),
    isinstance: (2, Invocations.call_isinstance),
    word_at: (1, Invocations.call_word_at),
    half_at: (1, Invocations.call_half_at),
    single_at: (1, Invocations.call_single_at),
    double_at: (1, Invocations.call_double_at),
    object_at: (1, Invocations.call_object_at),
    put_word: (2, Invocations.call_put_word),
    put_half: (2, Invocations.call_put_half),
    put_single: (2, Invocations.call_put_single),
    int_at: (1, Invocations.call_int_at),
    fetch: (1, Invocations.call_fetch),
    fetch_item: (2, Invocations.call_fetch_item),
    fetch_slot: (2, Invocations.call_fetch_slot),
    fetch_items: (2, Invocations.call_fetch_items),
    untrack: (1, Invocations.call_untrack),
    quotient: (2, Invocations.call_quotient),
    remainder: (2, Invocations.call_remainder),
    double_bits: (1, Invocations.call_double_bits),
    ratio_bits: (2, Invocations.call_ratio_bits),
    object.__new__: (1, Invocations.call_new),
    sys._getframe: (1, Invocations.call_getframe),
}
_NATIVE: dict[Any, Special] = {
    call_native: Invocations.call_address,
    call_native_freely: Invocations.call_address_freely,
}


def _special(function: Any, node: ast.Call) -> Special | None:
    """What a call of a known function becomes, if it is not a call like any other."""
    plain = not node.keywords and not any([isinstance(a, ast.Starred) for a in node.args])
    if not plain or type(function).__hash__ is None:
        return None
    arguments, special = _SPECIAL.get(function, (-1, None))
    if special is not None and len(node.args) == arguments:
        return special
    return _NATIVE.get(function)
