"""Expressions of the subset: each becomes a value in registers."""

from __future__ import annotations

import ast
import builtins
import threading
from types import ModuleType
from typing import Any

from livegrad.native.frame import Frame, Value
from livegrad.native.layout import ITEMS, TUPLE_ITEMS
from livegrad.native.numbers import COMPARISONS
from livegrad.native.subset import Untranslatable

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "Add",
    ast.Sub: "Subtract",
    ast.Mult: "Multiply",
}
_ORDERS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}
_WORDS = range(-(1 << 63), 1 << 63)


class Expressions(Frame):
    """The translation of expressions; a method `of_X` for each kind of node."""

    # ---- expressions -----------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        found: Value = getattr(self, f"of_{type(node).__name__}")(node)
        return found

    def condition(self, node: ast.expr) -> str:
        """An i1 register with the truth of an expression."""
        if isinstance(node, ast.BoolOp):
            return self._all_or_any(node)
        if isinstance(node, ast.Compare):
            links = _links(node)
            if len(links) > 1:
                return self._all_or_any(ast.BoolOp(ast.And(), links))
            return self._compared(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._inverted(self.condition(node.operand))
        return self.truth(self.value(node))

    def _inverted(self, truth: str) -> str:
        r = self.fresh()
        self.emit(f"{r} = xor i1 {truth}, true")
        return r

    def object(self, place: str) -> Value:
        """A constant object: borrowed, and never released."""
        r = self.fresh()
        self.emit(f"{r} = load ptr, ptr {place}, !invariant.load !0")
        return Value(r, "obj")

    def of_Constant(self, node: ast.Constant) -> Value:
        return self._constant(node.value)

    def _constant(self, value: Any) -> Value:
        if type(value) is int and value in _WORDS:
            return Value(str(value), "num")
        return self.object(self.unit.constant(value))

    def of_Name(self, node: ast.Name) -> Value:
        if self.is_own(node.id):
            return self.load_name(node.id)
        names = self.function.__globals__
        if node.id not in names and node.id not in vars(builtins):
            raise Untranslatable(f"{self.function.__name__}: unknown name {node.id}")
        return self._constant(self.unit.global_value(names, node.id))

    def constant_of(self, node: ast.expr) -> Any:
        """The object that a global name, or a name in a module, stands for; else None."""
        if isinstance(node, ast.Name) and not self.is_own(node.id):
            return self.unit.global_value(self.function.__globals__, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.constant_of(node.value)
            if isinstance(owner, ModuleType) and node.attr in vars(owner):
                return self.unit.global_value(vars(owner), node.attr)
        return None

    def of_Attribute(self, node: ast.Attribute) -> Value:
        known = self.constant_of(node)
        if known is not None:
            return self._constant(known)
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
        if key.kind == "num":
            return self.owned(self.helper("ptr", "item", f"ptr {x.text}", *self.passed(key)))
        k = self.boxed(key)
        return self.owned(self.capi("PyObject_GetItem", f"ptr {x.text}", f"ptr {k.text}"))

    def of_Tuple(self, node: ast.Tuple) -> Value:
        if not node.elts:
            return self.object("@obj.empty")
        return self._sequence("PyTuple_New", node.elts)

    def of_List(self, node: ast.List) -> Value:
        return self._sequence("PyList_New", node.elts)

    def _sequence(self, maker: str, elements: list[ast.expr]) -> Value:
        values = [self.boxed(self.value(e)) for e in elements]
        made = self.owned(self.capi(maker, f"i64 {len(values)}"))
        if not values:
            return made
        items, behind = self.fresh(), ITEMS if maker == "PyList_New" else TUPLE_ITEMS
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
        self._decide(node, place, end, end)
        self.begin(end)
        return self.moved_out(place)

    def _decide(self, node: ast.expr, place: str, yes: str, no: str) -> None:
        """Puts a value in a place and goes where its truth leads, which is asked for once."""
        if isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                following = self.label("and")
                is_and = isinstance(node.op, ast.And)
                self._decide(part, place, *((following, no) if is_and else (yes, following)))
                self.begin(following)
                self.replace(place, "null")
            self._decide(node.values[-1], place, yes, no)
            return
        mark = len(self.temporaries)
        x = self.held(self.boxed(self.value(node)))
        answer = "true" if yes == no else self.truth(x)
        self.replace(place, self.take(x))
        self.release(mark)
        self.emit(f"br i1 {answer}, label %{yes}, label %{no}")

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
        if isinstance(node.op, ast.Not):
            return Value(self._inverted(self.truth(self.value(node.operand))), "bool")
        if isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
            return self._constant(-node.operand.value)
        x = self.value(node.operand)
        if x.kind == "obj":
            return self.owned(self.capi("PyNumber_Negative", f"ptr {x.text}"))
        return self.arithmetic("Subtract", Value("0", "num"), x)

    def of_BinOp(self, node: ast.BinOp) -> Value:
        a, b = self.value(node.left), self.value(node.right)
        return self.arithmetic(_ARITHMETIC[type(node.op)], a, b)

    def in_place(self, op: ast.operator, a: Value, b: Value) -> Value:
        """`a += b`: what is to be stored in the place of `a`."""
        return self.arithmetic(f"InPlace{_ARITHMETIC[type(op)]}", a, b)

    def arithmetic(self, name: str, a: Value, b: Value) -> Value:
        if a.kind == b.kind == "obj":
            return self.owned(self.capi(f"PyNumber_{name}", f"ptr {a.text}", f"ptr {b.text}"))
        numbers = self.passed(self.numbered(a), self.numbered(b))
        return self.computed(self.helper("{ i64, ptr }", f"number.{name}", *numbers))

    def of_Compare(self, node: ast.Compare) -> Value:
        """A comparison as a value: any object, between objects that say so."""
        links = _links(node)
        if len(links) > 1:
            return self.of_BoolOp(ast.BoolOp(ast.And(), links))
        order = _ORDERS.get(type(node.ops[0]))
        if order is None:
            return Value(self._compared(node), "bool")
        a, b = self.value(node.left), self.value(node.comparators[0])
        if a.kind != "obj" and b.kind != "obj" and a.object == b.object == "null":
            return Value(self._ordered(order, a, b), "bool")
        x, y = self.boxed(a), self.boxed(b)
        number = f"i32 {COMPARISONS[order]}"
        return self.owned(
            self.capi("PyObject_RichCompare", f"ptr {x.text}", f"ptr {y.text}", number)
        )

    def _compared(self, node: ast.Compare) -> str:
        """The truth of one comparison."""
        op = node.ops[0]
        a, b = self.value(node.left), self.value(node.comparators[0])
        if isinstance(op, ast.Is | ast.IsNot):
            return self._same(node, a, b)
        if isinstance(op, ast.In | ast.NotIn):
            x, y = self.boxed(a), self.boxed(b)
            status = self.capi("PySequence_Contains", f"ptr {y.text}", f"ptr {x.text}")
            return self.answer(status, "ne" if isinstance(op, ast.In) else "eq")
        return self._ordered(_ORDERS[type(op)], a, b)

    def _same(self, node: ast.Compare, a: Value, b: Value) -> str:
        is_none = [isinstance(x, ast.Constant) and x.value is None for x in _operands(node)]
        if "num" in (a.kind, b.kind) and not any(is_none):
            # Numbers are not objects here, until somebody asks for one.
            raise Untranslatable(f"{self.function.__name__}: {ast.unparse(node)} of a number")
        x, y, r = self.boxed(a), self.boxed(b), self.fresh()
        word = "eq" if isinstance(node.ops[0], ast.Is) else "ne"
        self.emit(f"{r} = icmp {word} ptr {x.text}, {y.text}")
        return r

    def _ordered(self, order: str, a: Value, b: Value) -> str:
        if a.kind == b.kind == "obj":
            number = f"i32 {COMPARISONS[order]}"
            return self.answer(
                self.helper("i32", "compare", f"ptr {a.text}", f"ptr {b.text}", number)
            )
        numbers = self.passed(self.numbered(a), self.numbered(b))
        return self.answer(self.helper("i32", f"number.is_{order}", *numbers))

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
        return self.moved_out(place)


def _operands(node: ast.Compare) -> list[ast.expr]:
    return [node.left, *node.comparators]


def _links(node: ast.Compare) -> list[ast.expr]:
    """The comparisons that a chain is: `a < b < c` is `a < b and b < c`."""
    pairs = zip(node.ops, _operands(node), node.comparators, strict=False)
    return [ast.Compare(left, [op], [right]) for op, left, right in pairs]
