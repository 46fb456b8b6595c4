"""New instances of a model's modules: what these were made with is found out.

Net(8, act="relu")        numbers, texts and the like are noted when a module is made
self.encoder = encoder    else an argument is read from the attribute of its name, or is
def __init__(self, p=0)   the default, if a module made so has the parameters that are there
Block(x) in Net           else the module around it is made anew, and so it, by the program's code
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from livegrad.graph.site import is_inside
from livegrad.nn.making import UNKNOWN, arguments_of
from livegrad.nn.module import Module


class Unknown(TypeError):
    """What a module was made with cannot be told."""


class Making:
    """Makes modules of a model anew; `arguments` says by class what to make them with."""

    def __init__(self, model: Module, arguments: dict[type, Any]) -> None:
        self._model, self._arguments = model, arguments
        self._around = {part: whole for whole in model.modules() for part in whole.children()}
        # By the names that arguments have before the code changes.
        self._known = {part: arguments_of(part) for part in model.modules()}

    def instances(self, kinds: Sequence[Any]) -> list[Module]:
        """The modules of some classes, and of those that come from them."""
        return [m for m in self._model.modules() if any([k in type(m).__mro__ for k in kinds])]

    def anew(self, modules: Sequence[Module], as_it_is: bool = False) -> dict[Module, Module]:
        """New instances of modules, or of what is around them if only that can be made.

        `as_it_is`: the code has not changed yet, so they must have the parameters that are there.
        """
        made: dict[Module, Module] = {}
        for module in modules:
            whole, new = self._nearest(module, _check_shapes if as_it_is else _accept)
            made[whole] = new
        return made

    def _nearest(
        self, module: Module, check: Callable[[Module, Module], None]
    ) -> tuple[Module, Module]:
        """The module, or the nearest around it that can be made, and a new instance of it."""
        first: Unknown | None = None
        at: Module | None = module
        while at is not None:
            try:
                if not _is_container(at):
                    new = self._new(at)
                    check(at, new)
                    return at, new
            except Unknown as error:
                first = first or error
            at = self._around.get(at)
        assert first is not None  # instances are of the user's classes
        raise first

    def _new(self, module: Module) -> Module:
        kind = type(module)
        given = self._arguments.get(kind)
        if given is None:
            return _called(kind, _guessed(module, self._known[module]))
        return kind(**given) if isinstance(given, dict) else kind(*given)


def _is_container(module: Module) -> bool:
    """Whether others have put into it what it has: a list made anew would be empty."""
    return is_inside(inspect.getfile(type(module)))


def _accept(module: Module, new: Module) -> None:
    pass


def _check_shapes(module: Module, new: Module) -> None:
    """Unknown if a module has not been made like `new`: parameters have other shapes."""
    shapes = {name: p.shape for name, p in module.named_parameters()}
    for name, p in new.named_parameters():
        if shapes.get(name, p.shape) != p.shape:
            raise _unknown(module, f"the {name} it has is not what its arguments by default give")


def _guessed(module: Module, known: dict[str, Any] | None) -> dict[str, Any]:
    """What a module was made with: as noted, else attributes with the names of arguments."""
    given = {} if known is None else known
    found = {}
    parameters = list(inspect.signature(type(module).__init__).parameters.items())
    for name, parameter in parameters[1:]:
        if given.get(name, UNKNOWN) is not UNKNOWN:
            found[name] = given[name]
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if known is not None and name not in given and parameter.default is not parameter.empty:
            continue  # it was not given, so its default holds, whatever that is now
        value = vars(module).get(name, parameter.default)
        if value is parameter.empty:
            raise _unknown(module, f"its __init__ takes {name!r}, which is no attribute")
        found[name] = value
    return found


def _called(kind: type[Module], arguments: dict[str, Any]) -> Module:
    """A module made with these arguments, by name."""
    bound = inspect.BoundArguments(inspect.signature(kind.__init__), {"self": None, **arguments})
    return kind(*bound.args[1:], **bound.kwargs)


def _unknown(module: Module, why: str) -> Unknown:
    kind = type(module).__name__
    return Unknown(
        f"live: what {kind} was made with is not known: {why}; "
        f"say live(model, arguments={{{kind}: {{...}}}})"
    )


__all__ = ["Making"]
