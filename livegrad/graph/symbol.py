"""Sizes as symbols: a plan made with them holds for other sizes too.

    with Session([64, 10]) as session:          # two sizes, v0 = 64 and v1 = 10
        n = session.sizes[64] * session.sizes[10] + 1
    n.term, session.lines                       # 't1', ['t0 = v0 * v1', 't1 = t0 + 1']

A symbol is the integer it stands for, and remembers how it was computed. Whatever the planner
decides by comparing symbols becomes a guard: sizes for which all guards hold are planned in the
same way. Shapes have one symbol for each value, so that they are one object exactly if they are
equal, as interned shapes have to be; that two terms have the same value is a guard as well.

Rules of ops compute with symbols and do not know. What loses them is `range(n)`, for which a rule
says `range(int(n))`, so that the plan holds for this n only; a float or a bool to the left of one;
and NumPy. That is found out when outlines are checked (compiler/sizes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any


class Session:
    """The terms and guards of one planning."""

    current: Session | None = None

    def __init__(self, sizes: Iterable[int]) -> None:
        self.lines: list[str] = []
        self.guards: dict[str, None] = {}
        self.sizes: dict[int, Symbol] = {}  # by value, for shapes
        self.inputs: list[str] = []
        # What has been interned with symbols in it, to be forgotten in the end.
        self.interned: list[tuple[dict[Any, Any], Any]] = []
        self._terms: dict[tuple[str, ...], str] = {}
        self._symbols: dict[str, Symbol] = {}
        for size in sizes:
            name = f"v{len(self.inputs)}"
            self.inputs.append(name)
            self.size(self.symbol(size, name))

    def __enter__(self) -> Session:
        assert Session.current is None
        Session.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        Session.current = None
        for table, key in self.interned:
            table.pop(key, None)
        # Caches may keep a symbol, and so the session, for long.
        self.interned, self._terms, self._symbols = [], {}, {}

    def symbol(self, value: int, term: str) -> Symbol:
        """The symbol of a term."""
        known = self._symbols.get(term)
        if known is None:
            known = self._symbols[term] = int.__new__(Symbol, value)
            known.term, known.session = term, self
        return known

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """A shape with one symbol for each value."""
        return tuple([self.size(x) if isinstance(x, Symbol) else x for x in sizes])

    def size(self, symbol: Symbol) -> int:
        """The symbol for the value of a size; 0 and 1 decide so much that they are no symbols."""
        value = int.__add__(symbol, 0)
        if symbol.session is not self:
            return value
        if value in (0, 1):
            self.guards[f"{symbol.term} == {value}"] = None
            return value
        known = self.sizes.setdefault(value, symbol)
        if known is not symbol:
            self.guards[f"{symbol.term} == {known.term}"] = None
        return known

    def term(self, *parts: str) -> str:
        """The name of a computation, written down once."""
        name = self._terms.get(parts)
        if name is None:
            name = self._terms[parts] = f"t{len(self.lines)}"
            self.lines.append(f"{name} = {' '.join(parts)}")
        return name


class Symbol(int):
    """An integer that remembers its term."""

    term: str
    session: Session

    def __hash__(self) -> int:
        # Not that of the integer: what is looked up by a symbol must not find what is known of
        # the integer, or of another session's symbol, where the symbol would be lost.
        return hash((id(self.session), int.__hash__(self)))

    def __int__(self) -> int:
        return self._fix()

    __index__ = __int__

    def __float__(self) -> float:
        return float(self._fix())

    def __bool__(self) -> bool:
        return self._compare("!=", 0, int.__ne__)

    def _fix(self) -> int:
        """The integer, for which alone the plan holds then."""
        value = int.__add__(self, 0)
        if Session.current is self.session:
            self.session.guards[f"{self.term} == {value}"] = None
        return value

    def _compare(self, sign: str, other: int, plain: Callable[[int, int], Any]) -> bool:
        result = plain(self, other)
        session = _session(self, other)
        if session is not None and other is not self:
            text = f"{_term(self)} {sign} {_term(other)}"
            session.guards[text if result else f"not {text}"] = None
        return bool(result)


class Planning:
    """The thread that makes a plan, if one does."""

    thread: int | None = None


class SymbolicFloat(float):
    """A float made of sizes, such as the count that a mean divides by. Only to be passed on.

    A plan keeps it apart from other numbers, whether sizes are symbols or not: what kernels there
    are must not depend on which sizes happen to be what.
    """

    term = ""


def _session(*values: int) -> Session | None:
    """The session, if one of the values is a symbol of it.

    What a cache has kept of another session is an integer like any other.
    """
    session = Session.current
    known = [x for x in values if isinstance(x, Symbol) and x.session is session]
    return session if known else None


def _term(x: int) -> str:
    if isinstance(x, Symbol) and x.session is Session.current:
        return x.term
    return int.__repr__(x)


def least(a: int, b: int) -> int:
    """`min`, which is a term: it decides nothing."""
    return _choice("min", min(int.__add__(a, 0), int.__add__(b, 0)), a, b)


def most(a: int, b: int) -> int:
    """`max`, which is a term: it decides nothing."""
    return _choice("max", max(int.__add__(a, 0), int.__add__(b, 0)), a, b)


def _choice(name: str, value: int, a: int, b: int) -> int:
    session = _session(a, b)
    if session is None:
        return value
    return session.symbol(value, session.term(name, f"({_term(a)}, {_term(b)})"))


def real(x: float) -> float:
    """`float` of what is made of sizes."""
    if isinstance(x, Symbol):
        return _float(_session(x), float(int.__add__(x, 0)), "float", f"({_term(x)})")
    if isinstance(x, SymbolicFloat):
        return x
    return SymbolicFloat(x) if Planning.thread == get_ident() else float(x)


def _float(session: Session | None, value: float, *term: str) -> float:
    if session is None:
        return value
    made = float.__new__(SymbolicFloat, value)
    made.term = session.term(*term)
    return made


def _computed(a: int, sign: str, b: int, result: Any) -> Any:
    session = _session(a, b)
    if session is None:
        return result
    if isinstance(result, float):
        return _float(session, result, _term(a), sign, _term(b))
    return session.symbol(result, session.term(_term(a), sign, _term(b)))


def _arithmetic(name: str, sign: str) -> None:
    plain = getattr(int, f"__{name}__")

    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, int):
            return plain(self._fix(), other)
        return _computed(self, sign, other, plain(self, other))

    def reflected(self: Symbol, other: Any) -> Any:
        if not isinstance(other, int):
            return getattr(int, f"__r{name}__")(self._fix(), other)
        return _computed(other, sign, self, plain(other, self))

    setattr(Symbol, f"__{name}__", method)
    setattr(Symbol, f"__r{name}__", reflected)


def _comparison(name: str, sign: str) -> None:
    plain = getattr(int, f"__{name}__")

    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, int):
            return plain(self._fix(), other)
        return self._compare(sign, other, plain)

    setattr(Symbol, f"__{name}__", method)


def _negation(self: Symbol) -> Any:
    session, value = _session(self), int.__neg__(self)
    return value if session is None else session.symbol(value, session.term("-", self.term))


for _name, _sign in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%"), ("and", "&"),
    ("or", "|"), ("xor", "^"), ("lshift", "<<"), ("rshift", ">>"), ("pow", "**"), ("truediv", "/"),
):  # fmt: skip
    _arithmetic(_name, _sign)
for _name, _sign in (
    ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="),
):  # fmt: skip
    _comparison(_name, _sign)
Symbol.__neg__ = _negation  # type: ignore[method-assign,assignment]
