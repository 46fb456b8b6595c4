"""Configuration: TOML files and command lines into dataclasses.

    @dataclass
    class Model:
        width: int = 64

    @dataclass
    class Config:
        model: Model = field(default_factory=Model)
        lr: float = 1e-3

    config = load_config(Config, "train.toml")        # python train.py --model.width=128

Types are those of the fields, and are checked; every mistake is named with its key.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from livegrad.train.config_types import Mismatch, Tables, Text, convert, describe, toml_text

T = TypeVar("T")


class ConfigError(ValueError):
    """A file or a command line does not fit the configuration; says all that is wrong."""


class Given:
    """A value, and where it comes from."""

    def __init__(self, value: Any, source: str) -> None:
        self.value = value
        self.source = source


Tree = dict[str, Any]  # of Given, and of Tree for tables


def load_config(cls: type[T], path: Any = None, args: Sequence[str] | None = None) -> T:
    """An instance of the dataclass `cls`: its defaults, then a TOML file, then the command line.

    `args` are those of the program by default; give () for none. Forms: `--lr=0.1`, `--lr 0.1`,
    `--model.width=128`, `--debug`, `--no-debug`, `--sizes=1,2,3`, `--name=none`. `--config=FILE`
    names the file, and `--help` lists all keys. Raises ConfigError.
    """
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"load_config: got {cls!r}; expected a dataclass")
    problems: list[str] = []
    fields = _leaves(cls)
    words = _command_line(sys.argv[1:] if args is None else args, fields, problems)
    if "--help" in words:
        print(help_text(cls))
        raise SystemExit(0)
    path = words.pop("--config", path)
    tree = from_table(_read(path), str(path)) if path is not None else {}
    for key, text in words.items():
        _put(tree, key.split("."), Given(Text(text), f"--{key}"))
    built = build_table(cls, tree, "", problems)
    if problems:
        raise ConfigError("config: " + "\n        ".join(problems))
    return built  # type: ignore[no-any-return]


def _read(path: Any) -> Tree:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config: {path}: {error}") from None


def from_table(table: Mapping[str, Any], source: str) -> Tree:
    """The values of a table, each with where it was given."""
    return {
        key: from_table(x, source) if isinstance(x, dict) else Given(x, source)
        for key, x in table.items()
    }


# ---------------------------------------------------------------------------------- command line


def _leaves(cls: Any, prefix: str = "") -> dict[str, Any]:
    """The keys that have values, and their types; those of tables within with dots."""
    found = {}
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind):
            found.update(_leaves(kind, f"{prefix}{field.name}."))
        else:
            found[prefix + field.name] = kind
    return found


def _command_line(
    args: Sequence[str], fields: Mapping[str, Any], problems: list[str]
) -> dict[str, str]:
    """What the words of a command line say about keys."""
    found: dict[str, str] = {}
    words = list(args)
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            return {"--help": ""}
        if not word.startswith("--"):
            problems.append(f"{word!r} is not expected; options are written --key=value")
            continue
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        negated = key.removeprefix("no_") if not equals and key not in fields else key
        if negated != key and fields.get(negated) is bool:
            found[negated] = "false"
        elif equals:
            found[_option(key, fields)] = value
        elif fields.get(key) is bool:
            found[key] = "true"
        elif words and not words[0].startswith("--"):
            found[_option(key, fields)] = words.pop(0)
        else:
            problems.append(f"--{key} needs a value; expected {_expected(key, fields)}")
    return found


def _option(key: str, fields: Mapping[str, Any]) -> str:
    return "--config" if key == "config" and key not in fields else key


def _expected(key: str, fields: Mapping[str, Any]) -> str:
    return describe(fields[key]) if key in fields else f"--{key}=value"


def _put(tree: Tree, path: list[str], given: Given) -> None:
    for name in path[:-1]:
        inner = tree.get(name)
        if not isinstance(inner, dict):
            inner = tree[name] = {}
        tree = inner
    tree[path[-1]] = given


# -------------------------------------------------------------------------------------- building


def build_table(cls: Any, tree: Tree, prefix: str, problems: list[str]) -> Any:
    """An instance of a dataclass; what is wrong is added to the problems."""
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    before = len(problems)
    known = [prefix + name for name in fields]
    problems += [_unknown(prefix + name, tree[name], known) for name in tree if name not in fields]
    values = {}
    for name, field in fields.items():
        key = prefix + name
        if dataclasses.is_dataclass(hints[name]):
            values[name] = _table(hints[name], field, tree.get(name), key, problems)
        elif name in tree:
            values[name] = _value(hints[name], tree[name], key, problems)
        elif _has_default(field):
            values[name] = _default(field)
        else:
            problems.append(f"{key} is missing; expected {describe(hints[name])}")
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        problems.append(f"{prefix.removesuffix('.') or cls.__name__}: {error}")
        return None


def _build_within(cls: Any, table: dict[str, Any], problems: list[str]) -> Any:
    """A dataclass within a list, a dict or a union."""
    return build_table(cls, from_table(table, ""), "", problems)


Tables.build = _build_within


def _table(kind: Any, field: Any, given: Any, key: str, problems: list[str]) -> Any:
    """The value of a field that is a dataclass: its default, with what is given replaced."""
    if isinstance(given, Given):
        problems.append(_wrong(key, given, f"a table ({describe(kind)})"))
        return None
    tree: Tree = dict(given or {})
    if _has_default(field):
        default = _default(field)
        if not tree or not isinstance(default, kind):
            return default if not tree else build_table(kind, tree, f"{key}.", problems)
        _fill(tree, default)
    return build_table(kind, tree, f"{key}.", problems)


def _fill(tree: Tree, default: Any) -> None:
    """Adds what is not given from an instance, which may differ from its class's defaults."""
    for field in dataclasses.fields(default):
        value = getattr(default, field.name)
        inner = tree.get(field.name)
        if dataclasses.is_dataclass(value):
            if inner is None or isinstance(inner, dict):
                inner = tree[field.name] = dict(inner or {})
                _fill(inner, value)
        elif inner is None and field.init:
            tree[field.name] = Given(_Ready(value), "default")


class _Ready:
    """A value that needs no check."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _value(kind: Any, given: Any, key: str, problems: list[str]) -> Any:
    if isinstance(given, dict):
        source = next(iter(_sources(given)), "the file")
        given = Given(_plain(given), source)
    if isinstance(given.value, _Ready):
        return given.value.value
    try:
        return convert(given.value, kind)
    except Mismatch as problem:
        where = f"{key}{problem.place}"
        problems += [f"{where}.{inner}" for inner in problem.inner] or [
            _wrong(where, Given(problem.value, given.source), describe(problem.kind))
        ]
        return None


def _sources(tree: Tree) -> list[str]:
    return [s for x in tree.values() for s in ([x.source] if isinstance(x, Given) else _sources(x))]


def _plain(tree: Tree) -> dict[str, Any]:
    """A table without sources, for fields that are dicts."""
    return {key: x.value if isinstance(x, Given) else _plain(x) for key, x in tree.items()}


def _wrong(key: str, given: Given, expected: str) -> str:
    value, where = given.value, _where(given.source)
    shown = f"{value!r} ({type(value).__name__})"
    if isinstance(value, Text):
        shown = repr(str(value))
    return f"{key}{where}: got {shown}; expected {expected}"


def _where(source: str) -> str:
    return f" in {source}" if source and not source.startswith("--") else ""


def _unknown(key: str, given: Any, known: list[str]) -> str:
    source = given.source if isinstance(given, Given) else next(iter(_sources(given)), "")
    close = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"{key}{_where(source)} is unknown; {hint}"


def _has_default(field: Any) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _default(field: Any) -> Any:
    made = field.default_factory is not dataclasses.MISSING
    return field.default_factory() if made else field.default


# ------------------------------------------------------------------------------------------ help


def help_text(cls: Any) -> str:
    """All keys with types, defaults and what `field(metadata={"help": …})` says."""
    rows = [("--config", "FILE", "a TOML file"), *_help_rows(cls, "", None)]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    doc = (cls.__doc__ or "").strip().partition("\n")[0]
    own = doc.startswith(f"{cls.__name__}(")  # what dataclass makes up
    return "\n".join([*([doc, ""] if doc and not own else []), "options:", *lines])


def _help_rows(cls: Any, prefix: str, instance: Any) -> list[tuple[str, str, str]]:
    rows = []
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kind = hints[field.name]
        known = instance is not None or _has_default(field)
        default = None
        if known:
            default = _default(field) if instance is None else getattr(instance, field.name)
        if dataclasses.is_dataclass(kind):
            rows += _help_rows(kind, f"{prefix}{field.name}.", default)
            continue
        words = [field.metadata.get("help", ""), f"[{default!r}]" if known else "[required]"]
        rows.append((f"--{prefix}{field.name}", describe(kind), "  ".join(filter(None, words))))
    return rows


# ---------------------------------------------------------------------------------------- saving


def save_config(config: Any, path: Any) -> None:
    """Writes a dataclass instance as TOML, from which `load_config` makes it again."""
    Path(path).write_text(toml_text(config), encoding="utf-8")
