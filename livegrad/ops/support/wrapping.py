"""Public functions that take `out`, or NumPy's names, besides the arguments of those in `ops`.

    livegrad.exp(x)              a closure: records as `exp` of ops does
    livegrad.sum(x, 1)           code with the parameters of `sum`, which it calls
    livegrad.zeros(2, 3)         a closure that passes everything on: so does `zeros` itself
         │ out=, axis=, keepdims=
         ▼
    specially                    one for all: the arguments in our own words, the result put away

A call that fails because of a stranger (`ops/support/strangers.py`) is made again, when functions
have learnt to ask.
"""

from __future__ import annotations

from functools import update_wrapper
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import takewhile
from types import FunctionType
from typing import Any

from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import binary, unary
from livegrad.graph.state import setting
from livegrad.ops.support.out import Out
from livegrad.ops.support.storing import check_apart, check_constant, dtype_of, kind_for, store
from livegrad.ops.support.strangers import strangers

# NumPy's names of arguments, and ours.
OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_OURS = frozenset(OTHER_NAMES.values())
_SPECIAL = frozenset(("out", *OTHER_NAMES))
_STARRED = CO_VARARGS | CO_VARKEYWORDS


def wrapped(function: FunctionType, as_method: bool = False) -> FunctionType | None:
    """What users call in the place of `function`; None if it needs no more than that takes."""
    marks = vars(function)
    if "out" not in marks:
        return None
    kind: Out | None = None if as_method else marks["out"]
    if kind is None and not _has_other_names(function):
        return None
    if kind is not None and "plain" in marks:
        return _recorder(function, kind)
    if function.__code__.co_flags & _STARRED:
        return _named(_passing_on(function, kind), function)
    return _with_parameters(function, kind)


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters, or of that which it only passes them on to."""
    code = function.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    inner = getattr(function, "__wrapped__", None)
    return names if names or inner is None else _parameters(inner)


def _has_other_names(function: FunctionType) -> bool:
    return not _OURS.isdisjoint(_parameters(function))


# ---------------------------------------------------------------------- calls that are not plain


def specially(
    function: Any, kind: Out | None, args: tuple[Any, ...] | list[Any], kwargs: dict[str, Any]
) -> Any:
    """The result of a call that may have `out`, or NumPy's names of arguments."""
    kwargs = _in_our_words(function, len(args), kwargs)
    out = None if kind is None else kwargs.pop("out", None)
    if kind is None or out is None:
        return function(*args, **kwargs)
    if kind.gives_dtype:
        check_constant(args)  # that of `out` may be one without gradients
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = dtype_of(out)
    with setting(caster=None):  # of the dtype it has outside of autocast, as in PyTorch
        result = function(*args, **kwargs)
    operands = (*args, *kwargs.values())
    check_apart(result, out, operands, kind)
    return store(result, out, kind_for(kind, operands[0], out) if kind.sizes else kind)


def _in_our_words(function: Any, count: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords, beside `count` other arguments, under the names that `function` has for them."""
    parameters = _parameters(function)
    found = dict(kwargs)
    for other, name in OTHER_NAMES.items():
        if other not in kwargs or name not in parameters:
            continue
        if name in kwargs or name in parameters[:count]:
            raise TypeError(
                f"{function.__name__}(): got both {name} and {other}, two names of one argument. "
                "Give one"
            )
        found[name] = found.pop(other)
    return found


# -------------------------------------------------------------------------------------- closures


class _Rest:
    """What the public form of a recording function does besides recording.

    One object, because a closure pays for each variable it has, in every call.
    """

    __slots__ = ("function", "kind", "public")
    public: Any

    def __init__(self, function: Any, kind: Out) -> None:
        self.function = function
        self.kind = kind

    def store(self, out: Any, *operands: Any) -> Any:
        return specially(self.function, self.kind, operands, {"out": out})

    def ask(self, out: Any, *operands: Any) -> Any:
        return self.public(*operands, **({} if out is None else {"out": out}))


def _recorder(function: FunctionType, kind: Out) -> FunctionType:
    """The public form of a function that is `plain`."""
    rest = _Rest(function, kind)
    of_operands = _recorder_of_one if function.__code__.co_argcount == 1 else _recorder_of_two
    public = rest.public = _named(of_operands(REGISTRY[function.__name__], rest), function)
    return public


def _recorder_of_one(op: Op, rest: _Rest) -> Any:
    def public(input: Any, *, out: Any = None) -> Any:
        try:
            return unary(op, input) if out is None else rest.store(out, input)
        except Exception:
            if not strangers((input, out)):
                raise
        return rest.ask(out, input)

    return public


def _recorder_of_two(op: Op, rest: _Rest) -> Any:
    def public(input: Any, other: Any, *, out: Any = None) -> Any:
        try:
            return binary(op, input, other) if out is None else rest.store(out, input, other)
        except Exception:
            if not strangers((input, other, out)):
                raise
        return rest.ask(out, input, other)

    return public


def _passing_on(function: Any, kind: Out | None) -> Any:
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if _SPECIAL.isdisjoint(kwargs):
                return function(*args, **kwargs)
            return specially(function, kind, args, kwargs)
        except Exception:
            if not strangers((*args, *kwargs.values())):
                raise
        return public(*args, **kwargs)

    return public


def _named(public: Any, function: FunctionType) -> FunctionType:
    """A closure that looks like `function`, also in errors and profiles."""
    name = function.__name__
    public.__code__ = public.__code__.replace(co_name=name, co_qualname=name)
    update_wrapper(public, function)
    named: FunctionType = public
    return named


# --------------------------------------------------------------------- functions with parameters


class Missing:
    """Stands for an argument that was not given under our own name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = Missing()


def _with_parameters(function: FunctionType, kind: Out | None) -> FunctionType:
    """`function` as users call it, with the very parameters it has.

    A closure that takes `*args, **kwargs` costs 50 ns more, and 250 ns with keywords: a tenth of
    `x.sum(dim=1)`. So the code is compiled from text; when the function is first called, because
    to compile hundreds of them would make `import livegrad` slow.
    """
    own: dict[str, Any] = {
        "settle": _settle,
        "function": function,
        "kind": kind,
        "specially": specially,
        "as_given": _as_given,
        "strange_call": _strange_call,
        "missing": MISSING,
    }
    wrapper = FunctionType(_first_call.__code__, own)
    update_wrapper(wrapper, function)
    # `livegrad.overrides` gives `public` other code, and has `wrapper` be what it was before.
    own["wrapper"] = own["public"] = wrapper
    wrapper.__kwdefaults__ = None if kind is None else {"out": None}
    return wrapper


def is_wrapper(function: FunctionType) -> bool:
    """Whether a function has globals of its own, which know it."""
    return function.__globals__.get("wrapper") is function


def _first_call(*args: Any, **kwargs: Any) -> Any:
    # What stands here are the globals of a wrapper, made by `_with_parameters`.
    settle(wrapper)  # type: ignore[name-defined]  # noqa: F821
    return wrapper(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_SOURCE = """
def {name}({parameters}):
    try:
        if {plain}:
            return function({arguments})
        return specially(function, kind, *as_given(wrapper, locals()))
    except Exception:
        call = strange_call(wrapper, locals())
        if call is None:
            raise
    return public(*call[0], **call[1])
"""


def _settle(wrapper: Any) -> None:
    """Gives a wrapper its code, with the parameters of its function.

    What may come under NumPy's name is not required under its own: its default is MISSING.
    """
    own, function = wrapper.__globals__, wrapper.__wrapped__
    count, names = function.__code__.co_argcount, _parameters(function)
    keywords = names[count:]
    defaults = function.__defaults__ or ()
    plain = [] if own["kind"] is None else ["out is None"]
    extra = [] if own["kind"] is None else ["out"]
    after = []
    if _has_other_names(function):
        required = names[1 : count - len(defaults)]
        defaults = (MISSING,) * len(required) + defaults
        plain += ["not kwargs", *[f"{name} is not missing" for name in required]]
        after = ["**kwargs"]
    star = ["*"] if keywords or extra else []
    source = _SOURCE.format(
        name=function.__name__,
        parameters=", ".join([*names[:count], *star, *keywords, *extra, *after]),
        arguments=", ".join([*names[:count], *[f"{k}={k}" for k in keywords]]),
        plain=" and ".join(plain),
    )
    scope: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), scope)  # the file, so that it is livegrad's own
    wrapper.__defaults__ = defaults
    wrapper.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **dict.fromkeys(extra)}
    wrapper.__code__ = scope[function.__name__].__code__  # last: another thread may call it now


def _as_given(wrapper: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call from the values of its parameters, without those left out."""
    count, names = wrapper.__code__.co_argcount, _parameters(wrapper)
    defaults = wrapper.__defaults__ or ()
    usual = dict(zip(names[count - len(defaults) : count], defaults, strict=True))
    usual.update(wrapper.__kwdefaults__ or {})
    given = {x: values[x] for x in names if x not in usual or values[x] is not usual[x]}
    first = list(takewhile(lambda x: values[x] is not MISSING, names[:count]))
    while first and first[-1] not in given:
        first.pop()
    others = {name: value for name, value in given.items() if name not in first}
    return [values[name] for name in first], {**others, **values.get("kwargs", {})}


def _strange_call(wrapper: Any, values: dict[str, Any]) -> Any:
    """A call that failed because of strangers, to be made again; `values` are its parameters'."""
    args, kwargs = _as_given(wrapper, values)
    return (args, kwargs) if strangers((*args, *kwargs.values())) else None
