"""Objects on the way in; see objects.py. No constructor runs, and no code comes from the file."""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections import OrderedDict, deque
from types import FunctionType, MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any

from livegrad import settings
from livegrad.autograd.hooks import numbers_from
from livegrad.graph.above import Above
from livegrad.graph.handle import Handle
from livegrad.nn.hooks import Hooks
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.serialization.allowed import allowed_as
from livegrad.serialization.finding import Finder
from livegrad.serialization.objects import NAMESPACES, blank
from livegrad.serialization.strict_json import shown

if TYPE_CHECKING:
    from livegrad.serialization.restore import Decoder

_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided")


def _finder(decoder: Decoder) -> Finder:
    if decoder.finder is None:
        decoder.finder = Finder(decoder.source, decoder.weights_only)
    found: Finder = decoder.finder
    return found


def object_(decoder: Decoder, kind: str, name: Any, x: dict[str, Any]) -> Any:
    """An object of a class that is found by its name."""
    name, number = decoder.text(kind, name), x.get("id")
    if type(number) is not int or number in decoder.objects:
        raise decoder.bad(f"has an object of number {shown(number)}")
    cls = _finder(decoder).class_of_instances(name)
    out = decoder.objects[number] = _blank(decoder, cls, name)
    outside = decoder.keys.tensors
    decoder.keys.tensors = True
    if "pairs" in x:
        if not isinstance(out, dict):
            raise decoder.bad(f"gives pairs to {shown(name)}")
        set_item = OrderedDict.__setitem__ if isinstance(out, OrderedDict) else dict.__setitem__
        for key, value in decoder.pairs(kind, x["pairs"]).items():
            set_item(out, key, value)
    if "items" in x:
        if not isinstance(out, list):
            raise decoder.bad(f"gives items to {shown(name)}")
        list.extend(out, [decoder.decode(item) for item in decoder.list_of(kind, x["items"])])
    if "state" in x:
        _set_state(decoder, out, name, decoder.decode(x["state"]))
    if "slots" in x:
        _set_slots(decoder, out, name, decoder.decode(x["slots"]))
    decoder.keys.tensors = outside
    _count_hooks(out)
    return out


def _blank(decoder: Decoder, cls: Any, name: str) -> Any:
    """An object whose class has not been asked how to make it."""
    try:
        return blank(cls)
    except TypeError as error:
        raise decoder.source.error(f"an object of {shown(name)} cannot be made: {error}") from None


def _set_state(decoder: Decoder, out: Any, name: str, state: Any) -> None:
    cls = type(out)
    _check_names(decoder, cls, name, state)
    if not hasattr(cls, "__setstate__"):
        if type(state) is not dict or not hasattr(out, "__dict__"):
            raise decoder.bad(f"gives {shown(name)} a state that it cannot have")
        vars(out).update(state)
        return
    if not _finder(decoder).may_set_state(cls, name):
        raise decoder.source.error(
            f"it holds an object of {shown(name)}, whose __setstate__ would run; allow it if you "
            f"trust it, with livegrad.serialization.add_safe_globals([{cls.__name__}])"
        )
    _check_tables(decoder, cls, name, state)
    try:
        out.__setstate__(state)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if allowed_as(name) is not None:
            raise
        raise decoder.source.error(f"the state of {shown(name)} does not fit: {error}") from error


def _check_names(decoder: Decoder, cls: type, name: str, state: Any) -> None:
    """Refuses attributes that would be called in place of methods of the class."""
    if type(state) is not dict or allowed_as(name) is not None:
        return
    names = list(state)
    for table in ("_parameters", "_buffers", "_modules"):
        names += state[table] if type(state.get(table)) is dict else ()
    for key in names:
        if type(key) is not str or callable(inspect.getattr_static(cls, key, None)):
            raise decoder.source.error(
                f"the state of {shown(name)} has {shown(key)}, which hides a method of its class; "
                f"allow it with livegrad.serialization.add_safe_globals([{cls.__name__}])"
            )


def _check_tables(decoder: Decoder, cls: type, name: str, state: Any) -> None:
    """Refuses modules whose members are none."""
    if not issubclass(cls, Module):
        return
    if type(state) is not dict:
        if allowed_as(name) is None:
            raise decoder.bad(f"gives {shown(name)} a state that is no dict")
        return
    tables = (("_parameters", Parameter), ("_buffers", Handle), ("_modules", Module))
    for table, kind in tables:
        members = state.get(table, {})
        fits = type(members) is dict and all(
            [type(k) is str and (v is None or isinstance(v, kind)) for k, v in members.items()]
        )
        if not fits:
            raise decoder.bad(f"has {shown(name)} with {table} of other things")


def _set_slots(decoder: Decoder, out: Any, name: str, slots: Any) -> None:
    if type(slots) is not dict:
        raise decoder.bad(f"gives {shown(name)} slots that are no dict")
    for key, value in slots.items():
        slot = inspect.getattr_static(type(out), key, None) if type(key) is str else None
        if not isinstance(slot, MemberDescriptorType):
            raise decoder.bad(f"gives {shown(name)} the slot {shown(key)}")
        slot.__set__(out, value)


def _count_hooks(x: Any) -> None:
    """Hooks that are added later get other numbers than those loaded."""
    if isinstance(x, Hooks):
        numbers_from(1 + max([key for key in x if type(key) is int], default=-1))


def reference(decoder: Decoder, kind: str, number: Any, x: dict[str, Any]) -> Any:
    """An object that came before."""
    if type(number) is not int or number not in decoder.objects:
        raise decoder.bad(f"refers to an object of number {shown(number)}")
    return decoder.objects[number]


def class_(decoder: Decoder, kind: str, name: Any, x: dict[str, Any]) -> Any:
    """A class itself."""
    return _finder(decoder).class_as_value(decoder.text(kind, name))


def function(decoder: Decoder, kind: str, name: Any, x: dict[str, Any]) -> Any:
    """A function."""
    return _finder(decoder).function(decoder.text(kind, name))


def enum(decoder: Decoder, kind: str, parts: Any, x: dict[str, Any]) -> Any:
    """A member of an enum, by name."""
    name, member = [decoder.text(kind, part) for part in decoder.list_of(kind, parts, 2)]
    members = _finder(decoder).class_of_values(name, kind)._member_map_
    if member not in members:
        raise decoder.source.error(f"the enum {shown(name)} has no member {shown(member)} here")
    return members[member]


def named_tuple(decoder: Decoder, kind: str, parts: Any, x: dict[str, Any]) -> Any:
    """A named tuple."""
    name, items = decoder.list_of(kind, parts, 2)
    cls = _finder(decoder).class_of_values(decoder.text(kind, name), "named tuple")
    values = [decoder.decode(item) for item in decoder.list_of(kind, items)]
    if len(values) != len(cls._fields):
        raise decoder.source.error(
            f"{shown(name)} has {len(cls._fields)} fields here; the file has {len(values)}"
        )
    return tuple.__new__(cls, values)


def method(decoder: Decoder, kind: str, parts: Any, x: dict[str, Any]) -> Any:
    """A method of an object."""
    owner, name = decoder.list_of(kind, parts, 2)
    owner, name = decoder.decode(owner), decoder.text(kind, name)
    cls = owner if isinstance(owner, type) else type(owner)
    found = inspect.getattr_static(cls, name, None)
    plain = isinstance(found, FunctionType) and not isinstance(owner, type)
    if not plain or not any([owner is known for known in decoder.objects.values()]):
        raise decoder.bad(f"has the method {shown(name)} of a {cls.__name__}")
    full = f"{cls.__module__}.{cls.__qualname__}"
    if not _finder(decoder).trusting and allowed_as(full) is None:
        raise decoder.source.error(
            f"it holds the method {shown(name)} of {shown(full)}; allow it if you trust it, with "
            f"livegrad.serialization.add_safe_globals([{cls.__name__}]) or weights_only=False"
        )
    return MethodType(found, owner)


def partial(decoder: Decoder, kind: str, parts: Any, x: dict[str, Any]) -> Any:
    """A function with some of its arguments."""
    called, args, options = [decoder.decode(p) for p in decoder.list_of(kind, parts, 3)]
    named = type(options) is dict and all([type(key) is str for key in options])
    if not callable(called) or type(args) is not list or not named:
        raise decoder.bad("has a partial of other things than a function and its arguments")
    return functools.partial(called, *args, **options)


def path(decoder: Decoder, kind: str, text: Any, x: dict[str, Any]) -> Any:
    """A path."""
    return pathlib.Path(decoder.text(kind, text))


def deque_(decoder: Decoder, kind: str, items: Any, x: dict[str, Any]) -> Any:
    """A deque."""
    most = x.get("most")
    if most is not None and (type(most) is not int or not 0 <= most < 1 << 62):
        raise decoder.bad(f"has a deque of at most {shown(most)}")
    return deque([decoder.decode(item) for item in decoder.list_of(kind, items)], most)


def constant(decoder: Decoder, kind: str, name: Any, x: dict[str, Any]) -> Any:
    """A memory format or a layout."""
    if name not in _FORMATS:
        raise decoder.bad(f"has the constant {shown(name)}")
    return getattr(settings, name)


def namespace(decoder: Decoder, kind: str, values: Any, x: dict[str, Any]) -> Any:
    """A namespace, such as that of parsed arguments."""
    cls = NAMESPACES.get(x["kind"]) if type(x.get("kind")) is str else None
    state = decoder.decode(values)
    if cls is None or type(state) is not dict or not all([type(key) is str for key in state]):
        raise decoder.bad("has a namespace of other things than names and values")
    out = cls()
    vars(out).update(state)
    return out


def attributes(decoder: Decoder, tensor: Any, described: Any) -> None:
    """Gives a tensor the attributes that a program had set."""
    values = decoder.decode(described)
    if type(values) is not dict:
        raise decoder.bad("gives a tensor attributes that are no dict")
    for name, value in values.items():
        if type(name) is not str or hasattr(type(tensor), name):
            raise decoder.bad(f"gives a tensor the attribute {shown(name)}")
        vars(tensor)[name] = value


def tensor_of_parts(decoder: Decoder, kind: str, described: Any, x: dict[str, Any]) -> Any:
    """A nested or a masked tensor."""
    saved = decoder.decode(described)
    package = Above.nested() if kind == "nested" else Above.maskedtensor()
    try:
        return package.from_saved(saved)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise decoder.bad(f"has a {kind} tensor that is none: {error}") from error


# By tag, as in restore.py: the rule, and what else may stand beside the tag.
RULES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "$object": (object_, ("id", "state", "slots", "pairs", "items")),
    "$ref": (reference, ()),
    "$class": (class_, ()),
    "$function": (function, ()),
    "$enum": (enum, ()),
    "$named": (named_tuple, ()),
    "$method": (method, ()),
    "$partial": (partial, ()),
    "$path": (path, ()),
    "$deque": (deque_, ("most",)),
    "$constant": (constant, ()),
    "$namespace": (namespace, ("kind",)),
    "$nested": (tensor_of_parts, ()),
    "$masked": (tensor_of_parts, ()),
}
