"""Expressions of the subset: each becomes a value in registers."""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from livegrad.native.calls import call_native, call_native_freely
from livegrad.native.frame import Frame, Untranslatable, Value
from livegrad.native.layout import TUPLE_ITEMS

_FRAMES_WITHOUT = 2
_VECTORCALL_OFFSET = -(1 << 63)


class Expressions(Frame):
    """The translation of expressions; a method `of_X` for each kind of node."""

    # ---- expressions -----------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        found: Value = method(node)
        return found

    def condition(self, node: ast.expr) -> str:
        """An i1 register with the truth of an expression."""
        if isinstance(node, ast.BoolOp):
            return self._all_or_any(node)
        return self.truth(self.value(node))

    def object(self, place: str) -> Value:
        """A constant object: borrowed, and never released."""
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}, !invariant.load !0")
        return Value(r, "obj")

    def of_Constant(self, node: ast.Constant) -> Value:
        if type(node.value) is int:
            return Value(str(node.value), "int")
        return self.object(self.unit.constant(node.value))

    def of_Name(self, node: ast.Name) -> Value:
        if f"{node.id}:int" in self.locals:
            r = self.fresh()
            self.emit(f"{r} = load i64, ptr {self.locals[f'{node.id}:int']}")
            return Value(r, "int")
        place = self.locals.get(f"{node.id}:obj")
        if place is None:
            if node.id not in self.globals:
                raise Untranslatable(f"{self.function.__name__}: unknown name {node.id}")
            return self._global(self.globals[node.id])
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}")
        if node.id not in self.assigned:
            unset = self.fresh()
            self.emit(f"{unset} = icmp eq ptr {r}, null")
            self.raise_if(unset, UnboundLocalError, node.id)
        return Value(r, "obj")  # the variable holds it: statements store last

    def _global(self, value: Any) -> Value:
        if type(value) is int:
            return Value(str(value), "int")
        return self.object(self.unit.constant(value))

    def constant_of(self, node: ast.expr) -> Any:
        """The object that a global name, or a name in a module, stands for; else None."""
        if isinstance(node, ast.Name) and not self._is_local(node.id):
            return self.globals.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.constant_of(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr)
        return None

    def _is_local(self, name: str) -> bool:
        return f"{name}:obj" in self.locals or f"{name}:int" in self.locals

    def of_Attribute(self, node: ast.Attribute) -> Value:
        known = self.constant_of(node)
        if known is not None:
            return self._global(known)
        owner = self.constant_of(node.value)
        if isinstance(owner, threading.local):
            return self._of_thread(node, owner)
        x = self.boxed(self.value(node.value))
        return self.owned(self.helper("ptr", self.unit.reader(node.attr)[1:], f"ptr {x.text}"))

    def _of_thread(self, node: ast.Attribute, owner: Any) -> Value:
        """An attribute of a thread-local object that is set once per thread."""
        x = self.object(self.unit.constant(owner))
        name = self.object(self.unit.name(node.attr))
        known = self.unit.remembered(owner, node.attr)
        return self.owned(
            self.helper("ptr", "local", f"ptr {x.text}", f"ptr {name.text}", f"ptr {known}")
        )

    def of_Subscript(self, node: ast.Subscript) -> Value:
        x = self.boxed(self.value(node.value))
        key = self.value(node.slice)
        if key.kind == "int":
            return self.owned(self.helper("ptr", "item", f"ptr {x.text}", f"i64 {key.text}"))
        k = self.boxed(key)
        return self.owned(self.capi("PyObject_GetItem", f"ptr {x.text}", f"ptr {k.text}"))

    def of_Tuple(self, node: ast.Tuple) -> Value:
        if not node.elts:
            return self.object("@obj.empty")
        return self._sequence("PyTuple_New", node.elts)

    def of_List(self, node: ast.List) -> Value:
        return self._sequence("PyList_New", node.elts)

    def _sequence(self, maker: str, elements: list[ast.expr]) -> Value:
        if any(isinstance(e, ast.Starred) for e in elements):
            raise Untranslatable(f"{self.function.__name__}: a starred element")
        values = [self.boxed(self.value(e)) for e in elements]
        made = self.owned(self.capi(maker, f"i64 {len(values)}"))
        if not values:
            return made
        items, behind = self.fresh(), 24 if maker == "PyList_New" else TUPLE_ITEMS
        self.emit(f"{items} = getelementptr i8, ptr {made.text}, i64 {behind}")
        if maker == "PyList_New":
            pointer, items = items, self.fresh()
            self.emit(f"{items} = load ptr, ptr {pointer}")
        for i, value in enumerate(values):
            place = self.fresh()
            taken = self.take(value)
            self.emit(f"{place} = getelementptr ptr, ptr {items}, i64 {i}")
            self.emit(f"store ptr {taken}, ptr {place}")
        return made

    def of_Set(self, node: ast.Set) -> Value:
        made = self.owned(self.capi("PySet_New", "ptr null"))
        for element in node.elts:
            x = self.boxed(self.value(element))
            self.checked(self.capi("PySet_Add", f"ptr {made.text}", f"ptr {x.text}"))
        return made

    def of_BoolOp(self, node: ast.BoolOp) -> Value:
        """`a and b` as a value: the first operand that decides, or the last."""
        place, end = self.alloca("ptr"), self.label("decided")
        for number, part in enumerate(node.values):
            mark = len(self.temporaries)
            x = self.boxed(self.value(part))
            self.emit(f"store ptr {self.take(x)}, ptr {place}")
            if number == len(node.values) - 1:
                self.release(mark)
                break
            answer = self.truth(x)
            self.release(mark)
            following = self.label("and")
            yes, no = (following, end) if isinstance(node.op, ast.And) else (end, following)
            self.emit(f"br i1 {answer}, label %{yes}, label %{no}")
            self.begin(following)
            r = self.fresh()
            self.emit(f"{r} = load ptr, ptr {place}")
            self.emit(f"store ptr null, ptr {place}")
            self.release_one(f"ptr {r}")
        self.jump(end)
        self.begin(end)
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}")
        self.emit(f"store ptr null, ptr {place}")
        self.temporaries.append(r)
        return Value(r, "obj")

    def _all_or_any(self, node: ast.BoolOp) -> str:
        """The truth of `a and b`, `a or b`."""
        result, end = self.alloca("i64"), self.label("decided")
        stop_at = "0" if isinstance(node.op, ast.And) else "1"
        for part in node.values:
            mark = len(self.temporaries)
            condition = self.condition(part)
            self.release(mark)
            wide, stops, following = self.fresh(), self.fresh(), self.label("and")
            self.emit(f"{wide} = zext i1 {condition} to i64")
            self.emit(f"store i64 {wide}, ptr {result}")
            self.emit(f"{stops} = icmp eq i64 {wide}, {stop_at}")
            self.emit(f"br i1 {stops}, label %{end}, label %{following}")
            self.begin(following)
        self.jump(end)
        self.begin(end)
        wide, r = self.fresh(), self.fresh()
        self.emit(f"{wide} = load i64, ptr {result}")
        self.emit(f"{r} = trunc i64 {wide} to i1")
        return r

    def of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        r = self.fresh()
        if isinstance(node.op, ast.Not):
            self.emit(f"{r} = xor i1 {self.condition(node.operand)}, true")
            return Value(r, "bool")
        if isinstance(node.op, ast.USub):
            self.emit(f"{r} = sub i64 0, {self.integer(self.value(node.operand))}")
            return Value(r, "int")
        raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")

    def of_BinOp(self, node: ast.BinOp) -> Value:
        words = {ast.Add: "Add", ast.Sub: "Subtract", ast.Mult: "Multiply"}
        word = words.get(type(node.op))
        if word is None:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        a, b = self.value(node.left), self.value(node.right)
        if "int" in (a.kind, b.kind):
            left, right, r = self.integer(a), self.integer(b), self.fresh()
            instruction = {"Add": "add", "Subtract": "sub", "Multiply": "mul"}[word]
            self.emit(f"{r} = {instruction} i64 {left}, {right}")
            return Value(r, "int")
        x, y = self.boxed(a), self.boxed(b)
        return self.owned(self.capi(f"PyNumber_{word}", f"ptr {x.text}", f"ptr {y.text}"))

    def of_Compare(self, node: ast.Compare) -> Value:
        """Chains mean what they mean in Python: `a < b < c` stops at the first that fails."""
        if len(node.ops) > 1:
            parts = []
            left = node.left
            for op, right in zip(node.ops, node.comparators, strict=True):
                if (
                    not isinstance(right, ast.Name | ast.Constant)
                    and right is not node.comparators[-1]
                ):
                    raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
                parts.append(ast.Compare(left, [op], [right]))
                left = right
            return Value(self._all_or_any(ast.BoolOp(ast.And(), list(parts))), "bool")
        (op,), (right,) = node.ops, node.comparators
        a, b = self.value(node.left), self.value(right)
        r = self.fresh()
        if isinstance(op, ast.Is | ast.IsNot):
            word = "eq" if isinstance(op, ast.Is) else "ne"
            x, y = self.boxed(a), self.boxed(b)
            self.emit(f"{r} = icmp {word} ptr {x.text}, {y.text}")
            return Value(r, "bool")
        if isinstance(op, ast.In | ast.NotIn):
            x, y = self.boxed(a), self.boxed(b)
            answer = self.capi("PySequence_Contains", f"ptr {y.text}", f"ptr {x.text}")
            self.checked(answer)
            word = "ne" if isinstance(op, ast.In) else "eq"
            self.emit(f"{r} = icmp {word} i32 {answer}, 0")
            return Value(r, "bool")
        if "int" in (a.kind, b.kind):
            word = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt",
                    ast.GtE: "sge"}[type(op)]  # fmt: skip
            self.emit(f"{r} = icmp {word} i64 {self.integer(a)}, {self.integer(b)}")
            return Value(r, "bool")
        number = {ast.Lt: 0, ast.LtE: 1, ast.Eq: 2, ast.NotEq: 3, ast.Gt: 4, ast.GtE: 5}[type(op)]
        x, y = self.boxed(a), self.boxed(b)
        answer = self.capi(
            "PyObject_RichCompareBool", f"ptr {x.text}", f"ptr {y.text}", f"i32 {number}"
        )
        self.checked(answer)
        self.emit(f"{r} = icmp ne i32 {answer}, 0")
        return Value(r, "bool")

    def of_IfExp(self, node: ast.IfExp) -> Value:
        place = self.alloca("ptr")
        mark = len(self.temporaries)
        condition = self.condition(node.test)
        self.release(mark)
        then, other, end = self.label("then"), self.label("else"), self.label("end")
        self.emit(f"br i1 {condition}, label %{then}, label %{other}")
        for label, part in ((then, node.body), (other, node.orelse)):
            self.begin(label)
            mark = len(self.temporaries)
            taken = self.take(self.value(part))
            self.release(mark)
            self.emit(f"store ptr {taken}, ptr {place}")
            self.jump(end)
        self.begin(end)
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}")
        self.emit(f"store ptr null, ptr {place}")
        self.temporaries.append(r)
        return Value(r, "obj")

    # ---- calls -----------------------------------------------------------------------------

    def of_Call(self, node: ast.Call) -> Value:
        known = self.constant_of(node.func)
        special = _INTRINSICS.get(known) if known is not None and _hashable(known) else None
        if special is not None:
            return special(self, node)
        if any(isinstance(a, ast.Starred) for a in node.args):
            return self._call_with_tuple(node)
        if isinstance(node.func, ast.Attribute) and known is None:
            return self._call_method(node, node.func)
        if isinstance(known, FunctionType) and known in self.unit.symbols and not node.keywords:
            return self._call_translated(node, known)
        function = self.boxed(self.value(node.func))
        return self._vectorcall("PyObject_Vectorcall", f"ptr {function.text}", None, node)

    def _call_translated(self, node: ast.Call, function: FunctionType) -> Value:
        defaults = function.__defaults__ or ()
        names = inspect.signature(function).parameters
        missing = len(names) - len(node.args)
        if missing > len(defaults) or missing < 0:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        values = [self.boxed(self.value(a)) for a in node.args]
        absent = defaults[len(defaults) - missing :]
        values += [self.object(self.unit.constant(default)) for default in absent]
        symbol = self.unit.symbols[function]
        return self.owned(self.helper("ptr", symbol, *[f"ptr {v.text}" for v in values]))

    def _call_method(self, node: ast.Call, function: ast.Attribute) -> Value:
        x = self.boxed(self.value(function.value))
        if len(node.args) == 1 and not node.keywords:
            if function.attr in ("append", "add"):
                v = self.boxed(self.value(node.args[0]))
                name = "push" if function.attr == "append" else "put"
                self.checked(self.helper("i32", name, f"ptr {x.text}", f"ptr {v.text}"))
                return self.object("@obj.none")
            if function.attr == "get":
                k = self.boxed(self.value(node.args[0]))
                return self.owned(self.helper("ptr", "look_up", f"ptr {x.text}", f"ptr {k.text}"))
        method = self.object(self.unit.name(function.attr))
        return self._vectorcall("PyObject_VectorcallMethod", f"ptr {method.text}", x, node)

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

    def _call_with_tuple(self, node: ast.Call) -> Value:
        only = node.args[0]
        if len(node.args) > 1 or not isinstance(only, ast.Starred) or node.keywords:
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        function = self.boxed(self.value(node.func))
        given = self.boxed(self.value(only.value))
        arguments = self.owned(self.capi("PySequence_Tuple", f"ptr {given.text}"))
        return self.owned(
            self.capi("PyObject_Call", f"ptr {function.text}", f"ptr {arguments.text}", "ptr null")
        )

    # ---- functions with an instruction of their own ----------------------------------------

    def call_len(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        n = self.helper("i64", "len", f"ptr {x.text}")
        self.checked(n, "i64")
        return Value(n, "int")

    def call_type(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        place, r = self.fresh(), self.fresh()
        self.emit(f"{place} = getelementptr i8, ptr {x.text}, i64 8")
        self.emit(f"{r} = load ptr, ptr {place}")
        self.hold(f"ptr {r}")
        self.temporaries.append(r)
        return Value(r, "obj")

    def call_isinstance(self, node: ast.Call) -> Value:
        x, cls = (self.boxed(self.value(a)) for a in node.args)
        answer = self.capi("PyObject_IsInstance", f"ptr {x.text}", f"ptr {cls.text}")
        self.checked(answer)
        r = self.fresh()
        self.emit(f"{r} = icmp ne i32 {answer}, 0")
        return Value(r, "bool")

    def call_new(self, node: ast.Call) -> Value:
        cls = self.boxed(self.value(node.args[0]))
        return self.owned(self.helper("ptr", "make", f"ptr {cls.text}"))

    def call_bool(self, node: ast.Call) -> Value:
        return Value(self.condition(node.args[0]), "bool")

    def call_tuple(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        return self.owned(self.capi("PySequence_Tuple", f"ptr {x.text}"))

    def call_id(self, node: ast.Call) -> Value:
        x = self.boxed(self.value(node.args[0]))
        r = self.fresh()
        self.emit(f"{r} = ptrtoint ptr {x.text} to i64")
        return Value(r, "int")

    def call_getframe(self, node: ast.Call) -> Value:
        (depth,) = node.args
        if not isinstance(depth, ast.Constant) or not isinstance(depth.value, int):
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)}")
        fewer = max(depth.value - _FRAMES_WITHOUT, 0)
        plain = ast.Call(ast.Name("_getframe", ast.Load()), [ast.Constant(fewer)], [])
        function = self.object(self.unit.constant(sys._getframe))
        return self._vectorcall("PyObject_Vectorcall", f"ptr {function.text}", None, plain)

    def call_address(self, node: ast.Call) -> Value:
        return self._native(node, freely=False)

    def call_address_freely(self, node: ast.Call) -> Value:
        return self._native(node, freely=True)

    def _native(self, node: ast.Call, freely: bool) -> Value:
        numbers = [self.integer(self.value(a)) for a in node.args]
        function, r = self.fresh(), self.fresh()
        self.emit(f"{function} = inttoptr i64 {numbers[0]} to ptr")
        state = self.capi("PyEval_SaveThread") if freely else ""
        passed = ", ".join([f"i64 {n}" for n in numbers[1:]])
        self.emit(f"{r} = call i64 {function}({passed})")
        if freely:
            self.capi("PyEval_RestoreThread", f"ptr {state}")
        return Value(r, "int")


def _hashable(x: Any) -> bool:
    return type(x).__hash__ is not None


_INTRINSICS: dict[Any, Callable[[Expressions, ast.Call], Value]] = {
    len: Expressions.call_len,
    type: Expressions.call_type,
    bool: Expressions.call_bool,
    id: Expressions.call_id,
    tuple: Expressions.call_tuple,
    isinstance: Expressions.call_isinstance,
    object.__new__: Expressions.call_new,
    sys._getframe: Expressions.call_getframe,
    call_native: Expressions.call_address,
    call_native_freely: Expressions.call_address_freely,
}
