"""Which argument is wrong: names it, as PyTorch does, in the error of a value of the wrong class.

Operations take what they are given; recording notices that something is no tensor. Only then are
the frames looked at, from the call in the user's program inward, for the parameter that holds it.
"""

from __future__ import annotations

import operator
import os
import sys
from types import FrameType
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OVERRIDES = os.path.join(_PACKAGE, "overrides", "")


def wrong_class(x: Any, expected: str, name: str = "") -> TypeError:
    """The error of an argument `x` that is not what is expected; `name` is that of the op."""
    where = _argument(x, expected) or (f"{name}(): argument" if name else "argument")
    fix = ""
    if expected.startswith("Tensor") and x is not None:
        fix = ". Convert it first with livegrad.tensor(...)"
        if hasattr(type(x), "__torch_function__") and "livegrad.overrides" not in sys.modules:
            fix = ". It is asked what to do instead if the program imports livegrad.overrides"
    kind = type(x).__name__
    if kind == "Tensor":  # of another library
        kind = f"{type(x).__module__}.{kind}"
    return TypeError(f"{where} must be {expected}, not {kind}{fix}")


def as_index(x: Any) -> int:
    """`operator.index`, with an error that names the argument; numbers of a plan stay those.

    True and False are none, as in PyTorch: who writes `x.sum(True)` has meant something else.
    """
    if type(x) is bool:
        raise wrong_class(x, "int")
    if isinstance(x, int):
        return x
    try:
        return operator.index(x)
    except TypeError:
        raise wrong_class(x, "int") from None


def as_float(x: Any) -> float:
    """`float`, with an error that names the argument; no words are read as numbers, and numbers of
    a plan stay those."""
    if isinstance(x, float):
        return x
    if not isinstance(x, str | bytes | bytearray):
        try:
            return float(x)
        except TypeError:
            pass
    raise wrong_class(x, "Number") from None


def check_number(*values: Any) -> None:
    """TypeError, naming the argument, unless all are numbers or stand for one."""
    for x in values:
        if getattr(x, "ndim", 0) or not (hasattr(x, "__float__") or hasattr(x, "__index__")):
            raise wrong_class(x, "Number")


def as_items(x: Any, expected: str = "tuple of ints") -> tuple[Any, ...]:
    """`tuple`, with an error that names the argument."""
    if isinstance(x, str | bytes) or not hasattr(x, "__iter__") or getattr(x, "ndim", 1) == 0:
        raise wrong_class(x, expected)
    return tuple(x)


def one_or_several(x: Any, expected: str = "tuple of ints") -> tuple[Any, ...]:
    """An int, or what stands for one (as NumPy's, or a tensor of one), or several, as a tuple."""
    if isinstance(x, int):
        return (x,)
    return (as_index(x),) if getattr(x, "ndim", 1) == 0 else as_items(x, expected)


def _argument(x: Any, expected: str) -> str:
    """Such as "add(): argument 'other' (position 2)", or nothing if no parameter holds `x`."""
    frames = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        if not frame.f_code.co_filename.startswith(_OVERRIDES):  # it only passes arguments on
            frames.append(frame)
        frame = frame.f_back
    for frame in reversed(frames):
        name = frame.f_code.co_name
        places = [] if name.startswith(("_", "<")) else _places(frame, x)
        if places:  # small numbers may be in several; tensors come first in a call
            return f"{name}(): {places[0 if expected.startswith('Tensor') else -1]}"
    return ""


def _places(frame: FrameType, x: Any) -> list[str]:
    """The parameters of a call that hold `x`."""
    code = frame.f_code
    found = []
    for i, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        if name in ("op", "out"):
            continue
        parameter = f"argument '{name}'" + (f" (position {i + 1})" * (i < code.co_argcount))
        given = frame.f_locals.get(name)
        if given is x:
            found.append(parameter)
        elif isinstance(given, list | tuple):
            found += [f"element {k} of {parameter}" for k, item in enumerate(given) if item is x]
    return found
