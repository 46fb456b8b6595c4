"""`livegrad.live(model, optimizer)`: a model's code may change on disk while it is trained.

    the file has changed ──► definitions replaced (sources.py) ──► modules made anew where __init__
                                                                    differs, and merged:
      parameters in both, of one shape       stay, with the optimiser's state
      those that appear                      are initialised, and join the optimiser's group
      those that vanish                      leave both, and are reported

Something that fails, also in the first call of the model, is taken back: the old code goes on.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

from livegrad.autograd import no_grad
from livegrad.debug.remaking import Making
from livegrad.debug.sources import Source, Undo, module_of
from livegrad.graph.site import is_inside
from livegrad.nn.making import note_as
from livegrad.nn.module import Module
from livegrad.random import get_rng_state, set_rng_state

# changed(live, change): a file has changed, and was taken over or taken back. For the view.
CHANGED: list[Callable[[Any, Any], None]] = []


class Change(NamedTuple):
    """A file that has changed: what was replaced, and which parameters came and went.

    `error` is the traceback if it was taken back.
    """

    step: int
    file: str
    replaced: tuple[str, ...] = ()
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    error: str = ""
    renamed: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = os.path.basename(self.file)
        if self.error:
            return f"livegrad.live: {name} failed, and the old code goes on:\n{self.error}"
        parts = [f"livegrad.live: {name} changed: {', '.join(self.replaced) or 'nothing'}"]
        if self.appeared:
            parts.append(f"new parameters: {', '.join(self.appeared)}")
        if self.vanished:
            parts.append(f"parameters that are gone: {', '.join(self.vanished)}")
        if self.renamed:
            parts.append(f"renamed, and as they were: {', '.join(self.renamed)}")
        return "; ".join(parts)


class Live:
    """A model whose code is replaced when its files change; `stop()` ends it.

    `changes` has what happened so far. It is looked for after each step of the optimiser, or,
    without one, before each call of the model.
    """

    running: ClassVar[WeakSet[Live]] = WeakSet()

    def __init__(self, model: Module, optimizer: Any, arguments: dict[type, Any]) -> None:
        self.model, self.optimizer, self.arguments = model, optimizer, arguments
        self.changes: list[Change] = []
        self.steps = 0
        self._sources = {file: Source(file, module) for file, module in _files(model).items()}
        if optimizer is not None:
            self._handle = optimizer.register_step_post_hook(lambda *_: self._next())
        else:
            self._handle = model.register_forward_pre_hook(lambda *_: self._next())
        Live.running.add(self)

    def __repr__(self) -> str:
        names = ", ".join([os.path.basename(file) for file in self.files])
        return f"<Live: {names}; {len(self.changes)} changes>"

    def stop(self) -> None:
        """Ends it; the code stays as it is now."""
        self._handle.remove()
        Live.running.discard(self)

    @property
    def files(self) -> list[str]:
        """The files that are looked at."""
        return list(self._sources)

    def _next(self) -> None:
        self.steps += 1
        self.look()

    def look(self) -> None:
        """Looks whether a file has changed, and takes over what is new."""
        for source in list(self._sources.values()):
            if source.has_changed():
                self._take_over(source)

    def _take_over(self, source: Source) -> None:
        undo: Undo = []
        random = get_rng_state()
        try:
            changes = source.read()
            before = dict(self.model.named_parameters())
            making = Making(self.model, self.arguments)
            affected = making.instances([vars(source.module).get(x) for x in changes.rebuilt])
            twins = making.anew(affected, as_it_is=True)
            changes.apply(undo)
            made = making.anew(affected)
            for module, new in made.items():
                _Merging(undo).merge(module, new, twins.get(module))
            after = dict(self.model.named_parameters())
            self._tell_optimizer(before, after, undo)
        except Exception:
            _take_back(undo)
            self._say(Change(self.steps, source.file, error=_shown()))
            return
        finally:
            set_rng_state(random)
        done = Change(self.steps, source.file, tuple(changes.names), *_moves(before, after))
        if changes.names:
            self._guard(source.file, undo)
        for file, module in _files(self.model).items():  # a new base may be from elsewhere
            if file not in self._sources:
                self._sources[file] = Source(file, module)
        self._say(done)

    def _say(self, change: Change) -> None:
        self.changes.append(change)
        print(change, file=sys.stderr)
        for tell in tuple(CHANGED):
            tell(self, change)

    def _tell_optimizer(self, before: dict[str, Any], after: dict[str, Any], undo: Undo) -> None:
        """Parameters that appear join a group; those that vanish leave, with their state."""
        optimizer = self.optimizer
        if optimizer is None:
            return
        kept = {id(p) for p in after.values()}
        gone = {id(p) for p in before.values() if id(p) not in kept}
        groups = optimizer.param_groups
        lists = [list(group["params"]) for group in groups]
        names = [list(group["param_names"]) if "param_names" in group else None for group in groups]
        states = [(p, optimizer.state[p]) for ps in lists for p in ps if p in optimizer.state]

        def put_back() -> None:
            for group, params, known in zip(groups, lists, names, strict=True):
                group["params"] = params
                if known is not None:
                    group["param_names"] = known
            optimizer.state.update(states)

        undo.append(put_back)
        for group in groups:
            left = [i for i, p in enumerate(group["params"]) if id(p) not in gone]
            for p in group["params"]:
                if id(p) in gone:
                    optimizer.state.pop(p, None)
                    p.grad = None  # nobody clears it from now on, and it may come back
            group["params"] = [group["params"][i] for i in left]
            if "param_names" in group:
                group["param_names"] = [group["param_names"][i] for i in left]
        known = {id(p) for ps in lists for p in ps}
        for name, p in after.items():
            if id(p) not in known and before.get(name) is not p:
                group = self._group_of(name, after)
                group["params"].append(p)
                if "param_names" in group:
                    group["param_names"].append(name)

    def _group_of(self, name: str, after: dict[str, Any]) -> Any:
        """The group that has most in common with a new parameter: that of all others of its own
        name, such as biases, or that of its nearest neighbour."""
        groups = self.optimizer.param_groups
        held = {id(p): group for group in groups for p in group["params"]}
        own = name.rpartition(".")[2]
        alike = [held[id(p)] for other, p in after.items()
                 if other.rpartition(".")[2] == own and id(p) in held]  # fmt: skip
        if alike and all([group is alike[0] for group in alike]):
            return alike[0]
        prefix = name
        while prefix:
            prefix = prefix.rpartition(".")[0]
            near = [p for other, p in after.items() if other.startswith(prefix) and id(p) in held]
            if near:
                return held[id(near[-1])]
        return groups[0]

    def _guard(self, file: str, undo: Undo) -> None:
        """Lets the next call of the model try the new code: if it fails, the old one is called."""
        model = self.model

        def forward(*args: Any, **kwargs: Any) -> Any:
            vars(model).pop("forward", None)
            random = get_rng_state()
            try:
                return type(model).forward(model, *args, **kwargs)
            except Exception:
                error = _shown()
            _take_back(undo)
            set_rng_state(random)
            self._say(Change(self.steps, file, error=error))
            return type(model).forward(model, *args, **kwargs)

        vars(model)["forward"] = forward


def live(model: Module, optimizer: Any = None, *, arguments: dict[type, Any] | None = None) -> Live:
    """Takes over changes of a model's code while it is trained, between two steps.

    Args:
        model: its class, those of its parts, and functions in the same files are watched.
        optimizer: gets parameters that appear, and forgets those that vanish.
        arguments: what to make instances of a class with (a tuple or a dict), if its `__init__`
            changes and takes arguments that are no attributes of the same name.
    """
    made = Live(model, optimizer, arguments or {})
    if not made.files:
        made.stop()
        raise RuntimeError(
            "live: no class of this model is defined in a file of the program, so there is nothing "
            "to look at. (Cells of notebooks are in no file: put the model into a module.)"
        )
    return made


def _files(model: Module) -> dict[str, Any]:
    """The user's files in which classes of the model are defined, and their modules; and the files
    that these have functions and classes from."""
    kinds = dict.fromkeys([base for m in model.modules() for base in type(m).__mro__])
    modules = dict.fromkeys([module_of(kind) for kind in kinds])
    found = {}
    for module in (todo := list(modules)):
        file = getattr(module, "__file__", None)
        if file and not is_inside(file) and not _is_installed(file) and os.path.exists(file):
            found[file] = module
            used = [_home(x) for x in list(vars(module).values())]
            todo += [x for x in dict.fromkeys(used) if x is not None and x not in modules]
            modules |= dict.fromkeys(used)
    return found


def _home(x: Any) -> Any:
    """The module that a value of a module comes from, if it is code."""
    if isinstance(x, ModuleType):
        return x
    return module_of(x) if isinstance(x, type | FunctionType) else None


def _is_installed(file: str) -> bool:
    places = [sysconfig.get_paths()["stdlib"], *site.getsitepackages(), site.getusersitepackages()]
    return any([file.startswith(place + os.sep) for place in places])


_OWN = ("_parameters", "_buffers", "_modules")


class _Merging:
    """Makes modules what others are, as far as they differ; what both have stays the old one's."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self._merged: dict[int, Any] = {}  # by the address of what is new: what stands for it now
        self._used: set[int] = set()

    def merge(self, old: Module, new: Module, twin: Module | None) -> None:
        """`twin` is what `old` was when it was made: what it has changed since stays."""
        self._note(old, new)
        for name in ("_parameters", "_buffers"):
            mine, theirs = vars(old)[name], vars(new)[name]
            made = {} if twin is None or name == "_parameters" else vars(twin)[name]
            merged = {
                key: self._tensor(mine.get(key), x, made.get(key)) for key, x in theirs.items()
            }
            mine.clear()
            mine.update(merged)
        self._merge_parts(old, new, twin)
        for key, value in vars(new).items():
            if key in _OWN or key == "training" or key.startswith("_"):
                continue
            if key not in vars(old) or (twin is not None and _is_as_made(old, twin, key)):
                vars(old)[key] = value

    def _merge_parts(self, old: Module, new: Module, twin: Module | None) -> None:
        names = _renamed_parts(old, new)
        parts = {}
        for key, child in new._modules.items():
            was = names.get(key, key)
            before = old._modules.get(was)
            if before is not None and child is not None and type(before) is type(child):
                self.merge(before, child, None if twin is None else twin._modules.get(was))
                parts[key] = before
            else:
                parts[key] = child
        old._modules.clear()
        old._modules.update(parts)

    def _note(self, old: Module, new: Module) -> None:
        """Notes how to take back what is going to be merged into a module."""
        state = {name: dict(vars(old)[name]) for name in _OWN}
        plain = {key: x for key, x in vars(old).items() if key not in _OWN}

        def put_back() -> None:
            for name, before in state.items():
                vars(old)[name].clear()
                vars(old)[name].update(before)
            for key in vars(old).keys() - plain.keys() - set(_OWN):
                del vars(old)[key]
            vars(old).update(plain)

        self._undo += [put_back, note_as(old, new)]

    def _tensor(self, mine: Any, new: Any, made: Any) -> Any:
        """The value that is there, if the new one is of its shape and dtype, and it is not what the
        code has `made` it; two names have one value where the new code says so, and only there."""
        if new is None:
            return None
        if id(new) not in self._merged:
            kept = mine if _is_alike(mine, new) and not _is_equal(mine, made) else new
            if id(kept) in self._used:
                kept = new
                with no_grad():
                    kept.copy_(mine)
            self._merged[id(new)] = kept
            self._used.add(id(kept))
        return self._merged[id(new)]


def _renamed_parts(old: Module, new: Module) -> dict[str, str]:
    """Parts that have another name than before, by the new one: where but one can be meant."""
    fresh = {key: x for key, x in new._modules.items() if x is not None and key not in old._modules}
    gone = {key: x for key, x in old._modules.items() if x is not None and key not in new._modules}
    found = {}
    for key, child in fresh.items():
        before = [was for was, x in gone.items() if _is_like(x, child)]
        after = [x for x in fresh.values() if before and _is_like(gone[before[0]], x)]
        if len(before) == len(after) == 1:
            found[key] = before[0]
    return found


def _is_like(a: Module, b: Module) -> bool:
    """Whether two modules are of one class, and have the same parameters, and any."""
    shapes = [{name: p.shape for name, p in x.named_parameters()} for x in (a, b)]
    return type(a) is type(b) and shapes[0] == shapes[1] and bool(shapes[0])


def _moves(
    before: dict[str, Any], after: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...], str, tuple[str, ...]]:
    """Names of parameters that appeared, that vanished, no error, and those that were renamed."""
    were = {id(p): name for name, p in before.items()}
    are = {id(p) for p in after.values()}
    appeared = [name for name, p in after.items() if id(p) not in were]
    vanished = [name for name, p in before.items() if id(p) not in are]
    renamed = [
        f"{were[id(p)]} → {name}"
        for name, p in after.items()
        if id(p) in were and before.get(name) is not p and were[id(p)] not in after
    ]
    return tuple(appeared), tuple(vanished), "", tuple(renamed)


def _is_as_made(old: Module, twin: Module, key: str) -> bool:
    mine, made = vars(old).get(key), vars(twin).get(key)
    try:
        return bool(mine is made or mine == made)
    except Exception:  # what cannot be compared is the program's own
        return False


def _is_alike(mine: Any, new: Any) -> bool:
    return mine is not None and mine.shape == new.shape and mine.dtype is new.dtype


def _is_equal(mine: Any, made: Any) -> bool:
    """Whether a buffer has never been written to since it was made."""
    return made is not None and _is_alike(mine, made) and bool((mine == made).all())


def _take_back(undo: Undo) -> None:
    while undo:
        undo.pop()()


def _shown() -> str:
    """The traceback of the error that is being handled, without frames that are not the user's."""
    error = sys.exc_info()[1]
    assert error is not None
    told = traceback.TracebackException.from_exception(error)
    mine = [frame for frame in told.stack if not is_inside(frame.filename)]
    told.stack = traceback.StackSummary.from_list(
        [frame for frame in mine if not _is_installed(frame.filename)]
    )
    return "".join(told.format())


__all__ = ["Change", "Live", "live"]
