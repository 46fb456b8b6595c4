"""The types a configuration may have, from TOML values and from text, and back to TOML."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import tomllib
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")
_NONE = ("none", "null")
_DATES = (datetime.datetime, datetime.date, datetime.time)


class Text(str):
    """A value from the command line, whose type is still open."""

    __slots__ = ()


class Mismatch(Exception):
    """A value is not of a type; `place` is where within the value, such as `[2]`.

    If it is a table with problems of its own, these are `inner`.
    """

    def __init__(self, value: Any, kind: Any, place: str = "", inner: Sequence[str] = ()) -> None:
        super().__init__(value, kind, place)
        self.value = value
        self.kind = kind
        self.place = place
        self.inner = inner


class Tables:
    """build(kind, table, problems): a dataclass from a table; filled in by `config.py`."""

    build: Callable[[Any, dict[str, Any], list[str]], Any]


def convert(value: Any, kind: Any) -> Any:
    """`value` as an instance of `kind`, or Mismatch."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return _anything(value)
    if origin in (Union, types.UnionType):
        return _one_of(value, kind, inner)
    if origin is Literal:
        return _literal(value, kind, inner)
    if dataclasses.is_dataclass(kind):
        return _table(value, kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _member(value, kind)
    base = origin or kind
    if base in (list, tuple, set, frozenset):
        return _sequence(value, kind, base, inner)
    if base is dict:
        return _mapping(value, kind, inner)
    rule = _RULES.get(base)
    if rule is None:
        raise TypeError(f"config: fields of type {describe(kind)} cannot be given")
    return rule(value, kind)


# ------------------------------------------------------------------------------------------ rules


def _bool(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, Text) else ""
    if word not in _YES + _NO:
        raise Mismatch(value, kind)
    return word in _YES


def _number(value: Any, kind: Any) -> Any:
    if isinstance(value, Text):
        try:
            return kind(value)
        except ValueError:
            raise Mismatch(value, kind) from None
    accepted = (int, float) if kind is float else (int,)
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise Mismatch(value, kind)
    return kind(value)


def _string(value: Any, kind: Any) -> Any:
    if not isinstance(value, str):
        raise Mismatch(value, kind)
    return kind(str(value))


def _none(value: Any, kind: Any) -> None:
    # TOML has no word for None, so files spell it as the command line does.
    if value is not None and not (isinstance(value, str) and value.lower() in _NONE):
        raise Mismatch(value, kind)


def _date(value: Any, kind: Any) -> Any:
    if isinstance(value, Text):
        try:
            return kind.fromisoformat(str(value))
        except ValueError:
            raise Mismatch(value, kind) from None
    if type(value) is not kind:
        raise Mismatch(value, kind)
    return value


_RULES: dict[Any, Callable[[Any, Any], Any]] = {
    bool: _bool,
    int: _number,
    float: _number,
    str: _string,
    Path: _string,
    type(None): _none,
    **dict.fromkeys(_DATES, _date),
}


def _anything(value: Any) -> Any:
    if not isinstance(value, Text):
        return value
    try:
        return tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return str(value)


def _one_of(value: Any, kind: Any, choices: tuple[Any, ...]) -> Any:
    """The first type that takes the value; None and what is exact go first, text goes last."""
    says_none = isinstance(value, str) and value.lower() in _NONE
    if says_none and type(None) in choices and (str not in choices or isinstance(value, Text)):
        return None
    exact = [c for c in choices if type(value) is c]
    order = sorted(choices, key=lambda c: c is str or c is Path)
    for choice in [*exact, *order]:
        try:
            return convert(value, choice)
        except Mismatch:
            continue
    raise Mismatch(value, kind)


def _literal(value: Any, kind: Any, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        try:
            if convert(value, type(choice)) == choice:
                return choice
        except Mismatch:
            continue
    raise Mismatch(value, kind)


def _member(value: Any, kind: type[enum.Enum]) -> Any:
    for member in kind:
        said = str(member.value) if isinstance(value, Text) else member.value
        if value in (member.name, said):
            return member
    raise Mismatch(value, kind)


def _parsed(value: Text, kind: Any, opening: str) -> Any:
    """Text in TOML's form of a list or table."""
    if not value.startswith(opening):
        raise Mismatch(value, kind)
    try:
        return tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        raise Mismatch(value, kind) from None


def _sequence(value: Any, kind: Any, base: Any, inner: tuple[Any, ...]) -> Any:
    if isinstance(value, Text):
        if value.startswith("["):
            value = _parsed(value, kind, "[")
        else:
            value = [Text(part.strip()) for part in value.split(",")] if value else []
    if not isinstance(value, list):
        raise Mismatch(value, kind)
    kinds: list[Any] = [Any] * len(value)
    if base is tuple and inner and inner[-1] is not Ellipsis:
        kinds = [k for k in inner if k != ()]
        if len(kinds) != len(value):
            raise Mismatch(value, kind)
    elif inner:
        kinds = [inner[0]] * len(value)
    pairs = enumerate(zip(value, kinds, strict=True))
    return base(_within(x, k, f"[{place}]") for place, (x, k) in pairs)


def _mapping(value: Any, kind: Any, inner: tuple[Any, ...]) -> Any:
    if isinstance(value, Text):
        value = _parsed(value, kind, "{")
    if not isinstance(value, dict):
        raise Mismatch(value, kind)
    of_values = inner[1] if inner else Any
    return {str(key): _within(x, of_values, f".{key}") for key, x in value.items()}


def _table(value: Any, kind: Any) -> Any:
    """A dataclass within a list, a dict or a union."""
    if isinstance(value, Text):
        value = _parsed(value, kind, "{")
    if not isinstance(value, dict):
        raise Mismatch(value, kind)
    problems: list[str] = []
    built = Tables.build(kind, value, problems)
    if problems:
        raise Mismatch(value, kind, inner=problems)
    return built


def _within(value: Any, kind: Any, place: str) -> Any:
    try:
        return convert(value, kind)
    except Mismatch as problem:
        raise Mismatch(problem.value, problem.kind, place + problem.place, problem.inner) from None


# -------------------------------------------------------------------------------------- for people


def describe(kind: Any) -> str:
    """A type as people write it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(k) for k in inner)
    if origin is Literal:
        return "one of " + ", ".join(repr(k) for k in inner)
    if kind is type(None):
        return "none"
    if kind is Ellipsis:
        return "..."
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "one of " + ", ".join(member.name for member in kind)
    name = getattr(origin or kind, "__name__", str(kind))
    return f"{name}[{', '.join(map(describe, inner))}]" if inner else name


# ------------------------------------------------------------------------------------ back to TOML


def toml_text(config: Any) -> str:
    """A dataclass instance as TOML."""
    lines: list[str] = []
    _write_table(config, "", lines)
    return "\n".join(lines).strip() + "\n"


def _write_table(config: Any, prefix: str, lines: list[str]) -> None:
    tables = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            tables.append((f"{prefix}{field.name}", value))
        elif field.init and not (value is None and field.default is None):
            lines.append(f"{field.name} = {_toml(value, prefix + field.name)}")
    for name, value in tables:
        lines += ["", f"[{name}]"]
        _write_table(value, f"{name}.", lines)


def _toml(value: Any, key: str) -> str:
    if isinstance(value, enum.Enum):
        return json.dumps(value.name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, _DATES):
        return value.isoformat()
    if isinstance(value, str | Path) or value is None:
        text = "none" if value is None else str(value)
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join(_toml(x, key) for x in value) + "]"
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        items = [f"{json.dumps(str(k))} = {_toml(x, key)}" for k, x in value.items()]
        return "{" + ", ".join(items) + "}"
    raise TypeError(f"config: {key} is a {type(value).__name__}, which TOML cannot hold")
