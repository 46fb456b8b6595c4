"""NumPy's names of arguments, which PyTorch takes too: `x.sum(axis=1, keepdims=True)`.

Ops know only `dim` and `keepdim`. The wrappers of `ops/support/out.py` understand the other names.
"""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import Any

# Functions of `livegrad` without `out=`, and methods of tensors.
FUNCTIONS = """
    chunk count_nonzero index_fill narrow repeat_interleave select squeeze std_mean unbind
    unsqueeze var_mean
"""
METHODS = """
    all amax amin aminmax any argmax argmin argsort chunk count_nonzero cross cummax cummin cumprod
    cumsum diff gather index_add index_copy index_fill index_select kthvalue log_softmax
    logcumsumexp logsumexp max mean median min mode nanmean nanmedian nanquantile nansum narrow prod
    quantile renorm repeat_interleave scatter scatter_add select softmax sort squeeze std sum
    take_along_dim topk unbind unsqueeze var
"""
OTHER = {"axis": "dim", "keepdims": "keepdim"}


class Missing:
    """Stands for an argument that was not given under PyTorch's name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = Missing()


def has_other_names(function: FunctionType) -> bool:
    """Whether one of a function's arguments has another name in NumPy."""
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    free = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or code.co_posonlyargcount
    return not free and ("dim" in parameters or "keepdim" in parameters)


def understand(function: FunctionType, own: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """The lines with which a wrapper of `function` begins, to understand `**names`; its defaults.

    `own` are the wrapper's globals. What may come under another name is not required under its
    own: its default is MISSING.
    """
    code, defaults = function.__code__, function.__defaults__ or ()
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    required = parameters[1 : code.co_argcount - len(defaults)]
    defaults = (MISSING,) * len(required) + defaults
    values = dict(zip(parameters[1 : code.co_argcount], defaults, strict=True))
    values.update(function.__kwdefaults__ or {})
    lines = []
    for other, name in OTHER.items():
        if name in values:
            own[f"default_{name}"] = values[name]
            lines.append(_ONE.format(name=name, other=other))
    own.update(refuse=refuse, plain=function, missing=MISSING)
    source = _ALL.format(
        test=" or ".join(["names", *[f"{name} is missing" for name in required]]),
        lines="".join(lines),
        pairs=", ".join([f"{name!r}: {name}" for name in parameters]),
    )
    return source, defaults


_ALL = """
    if {test}:
        {lines}
        if {test}:
            refuse(plain, names, {{{{{pairs}}}}})
"""
_ONE = """
        if {name} is default_{name}:
            {name} = names.pop("{other}", {name})
"""


def refuse(function: Any, given: dict[str, Any], values: dict[str, Any]) -> None:
    """Raises, for arguments `given` that are unknown or too many, or those that are missing."""
    for name in given:
        if OTHER.get(name) in values:
            raise TypeError(
                f"{function.__name__}(): got both {OTHER[name]} and {name}, two names of one "
                "argument. Give one"
            )
        raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
    function(**{name: value for name, value in values.items() if value is not MISSING})
