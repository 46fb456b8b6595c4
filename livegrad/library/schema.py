"""Signatures from schemas: `"scale(Tensor x, float by=1.0, *, Tensor(a!)? out=None) -> Tensor"`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

from livegrad.tensor import Tensor

# A type, such as Tensor(a!)?[] or int[2]; a name; what stands for it if it is left out.
_ARGUMENT = re.compile(r"(?P<type>\S+)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?", re.DOTALL)
_HEAD = re.compile(
    r"\s*(?P<name>[\w.:]+)?\s*\((?P<arguments>.*)\)\s*->\s*(?P<results>.+)", re.DOTALL
)


@dataclass(frozen=True)
class Schema:
    """What a schema says: a name, arguments, which of them are written to, and the results."""

    name: str
    signature: Signature
    written: frozenset[str]
    aliases: bool  # whether a result may be an argument


def parse(text: str) -> Schema:
    """A schema from its text; RuntimeError if it is none."""
    found = _HEAD.fullmatch(text)
    if found is None:
        raise RuntimeError(
            f"{text!r} is no schema. One looks like this: name(Tensor x, float by=1.0) -> Tensor"
        )
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for part in _parts(found["arguments"]):
        if part == "*":
            kind = Parameter.KEYWORD_ONLY
        else:
            parameters.append(_parameter(part, kind, text))
    written = frozenset(p.name for p in parameters if "!" in p.annotation)
    return Schema(found["name"] or "", Signature(parameters), written, "(a" in found["results"])


def _parts(arguments: str) -> list[str]:
    """Arguments, at commas that are in no bracket."""
    found, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [part.strip() for part in found if part.strip()]


def _parameter(part: str, kind: Any, text: str) -> Parameter:
    found = _ARGUMENT.fullmatch(part)
    if found is None:
        raise RuntimeError(f"{part!r} in {text!r} is no argument: a type and a name are expected")
    default: Any = Parameter.empty
    if found["default"] is not None:
        default = converted(_value(found["default"]), found["type"])
    return Parameter(found["name"], kind, default=default, annotation=found["type"])


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text  # a word, such as a dtype's or a memory format's


def converted(value: Any, kind: str) -> Any:
    """An argument as functions get it: numbers for lists of a length, floats for ints."""
    length = re.search(r"\[(\d+)\]", kind)
    if length and isinstance(value, int | float):
        return [value] * int(length[1])
    if kind.rstrip("?") == "float" and type(value) is int:
        return float(value)
    return value


def fits(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call may be meant for this one of several signatures."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return False
    kinds = {name: signature.parameters[name].annotation for name in given}
    return all(_takes(kinds[name], value) for name, value in given.items())


def _takes(kind: str, value: Any) -> bool:
    if value is None:
        return "?" in kind
    if "[" in kind:
        return isinstance(value, list | tuple) or "Tensor" not in kind
    return isinstance(value, Tensor) == kind.startswith("Tensor")
