"""Rules about train() and eval(): layers that do one thing while the program does the other.

A layer that trains without gradients may be an evaluation where eval() was forgotten, or a
generator that makes examples for a discriminator. It is the former if the network runs twice before
the next step, or if a number is read meanwhile. What is suspected waits in `Watch.suspect`.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from livegrad.graph.events import DROPPED, MODE, READ, STEP
from livegrad.graph.node import Site
from livegrad.graph.site import is_inside, user_site
from livegrad.graph.state import LOCAL
from livegrad.graph.watch import Watch
from livegrad.lint.hearing import hear, ignore
from livegrad.lint.rules import Lint, say
from livegrad.lint.steps import parameters, trained
from livegrad.nn import module as modules
from livegrad.nn.module import Module

# Looking who called a layer takes some microseconds: after this many times nobody asks any more.
_MOST_LOOKS = 500
# What calls `forward`.
_CALLS = (Module.__call__.__code__, Module._call_with_hooks.__code__)


class Modes:
    """How often a layer's callers were looked at; steps in a row in eval mode; what was told."""

    looks = 0
    in_eval = 0
    read: Any = None  # who is told of numbers while there is a suspect
    step: Any = None  # and who of steps
    ran_again: Any = None  # and who of its network's next run
    told: set[bool] = set()  # noqa: RUF012


class Suspect:
    """A network whose mode does not fit what the program does, and where it was called."""

    def __init__(self, module: Module, site: Site, training: bool) -> None:
        self.module = module
        self.site = site
        self.training = training
        self.hook: Any = None
        self.thread = threading.get_ident()  # what other threads do says nothing about it
        self.was_hooked = module._hooked
        if training:
            self.hook = module.register_forward_hook(Modes.ran_again)

    @property
    def is_ours(self) -> bool:
        """Whether the thread that asks is the one that called the network."""
        return self.thread == threading.get_ident()

    def release(self) -> None:
        """Takes the hook off the network."""
        if self.hook is not None:
            self.hook.remove()
            self.module._hooked = self.was_hooked


def forget() -> None:
    """Forgets all that was seen."""
    clear()
    Modes.looks = Modes.in_eval = 0
    Modes.told = set()


def clear() -> None:
    """Gives up what is suspected."""
    if Watch.suspect is not None:
        Watch.suspect.release()
        Watch.suspect = None
        if not Lint.watching:
            ignore(READ)
            ignore(STEP)


# ------------------------------------------------------------------------------ while it runs


def mode(layer: Any) -> None:
    """A layer trains without gradients, or has gradients while not training."""
    training = bool(layer.training)
    if Watch.suspect is not None or training in Modes.told or LOCAL.state.flusher is not None:
        return  # a checkpoint records without gradients, too
    Modes.looks += 1
    if Modes.looks > _MOST_LOOKS:
        ignore(MODE)
        return
    network, caller = _outermost(sys._getframe(1))
    if network is None or network.training is not training:
        return  # one layer was set apart, on purpose
    if _is_trained(network):
        Watch.suspect = Suspect(network, _site(caller), training)
        hear(READ, Modes.read)
        hear(STEP, Modes.step)


def dropped() -> None:
    """Functional dropout without gradients."""
    if LOCAL.state.flusher is not None:
        return
    Modes.looks += 1
    if Modes.looks > _MOST_LOOKS:
        ignore(DROPPED)
        return
    frame = _caller(sys._getframe(1), through_modules=False)
    owner = None if frame is None else frame.f_locals.get("self")
    if isinstance(owner, Module) and not owner.training:
        say(
            "dropout-in-eval",
            f"dropout drops although {type(owner).__name__} is in eval mode. Pass "
            "training=self.training, or use nn.Dropout",
            _site(frame),
        )


def _caller(frame: FrameType | None, through_modules: bool = True) -> FrameType | None:
    """The first frame outside of livegrad; None if a module of livegrad's lies between."""
    while frame is not None and is_inside(frame.f_code.co_filename):
        if not through_modules and frame.f_code.co_filename == modules.__file__:
            return None
        frame = frame.f_back
    return frame


def _site(frame: FrameType | None) -> Site:
    caller = _caller(frame)
    return user_site() if caller is None else (caller.f_code, caller.f_lasti)


def _outermost(frame: FrameType | None) -> tuple[Module | None, FrameType | None]:
    """The network that is running, and who called it; none inside of `update_bn`."""
    network, caller = None, frame
    while frame is not None:
        code = frame.f_code
        if code in _CALLS:
            network, caller = frame.f_locals["self"], frame.f_back
        elif code.co_name == "update_bn":
            return None, None
        frame = frame.f_back
    return network, caller


def _is_trained(network: Module) -> bool:
    """Whether an optimiser has taken a step with a parameter of the network."""
    for p in network.parameters():
        kept = trained.get(id(p))
        if kept is not None and kept() is p:
            return True
    return False


# -------------------------------------------------------------------------------- what follows


def ran_again(module: Module, args: Any, output: Any) -> None:
    """The suspected network has run once more before a step: a forward hook."""
    suspect = Watch.suspect
    if suspect is None or suspect.module is not module or not suspect.is_ours:
        return
    if module.training and not LOCAL.state.grad and LOCAL.state.flusher is None:
        _tell_forgotten(suspect)
    else:
        clear()


def number_read() -> None:
    """A number was read."""
    suspect = Watch.suspect
    inside = LOCAL.state.site is not None  # a layer of livegrad's reads it
    if suspect is None or not suspect.is_ours:
        return
    if suspect.training and not LOCAL.state.grad and not inside:
        _tell_forgotten(suspect)


def _tell_forgotten(suspect: Suspect) -> None:
    clear()
    if not suspect.module.training:
        return
    Modes.told.add(True)
    say(
        "eval-forgotten",
        f"{type(suspect.module).__name__} is evaluated without gradients, but in training mode: "
        "dropout drops, and batch normalisation uses, and learns from, the batch. Call "
        "model.eval() before, and model.train() after",
        suspect.site,
    )


def stepped(optimizer: Any) -> None:
    """A step is about to be taken: what trained without gradients did it for the step's sake."""
    suspect = Watch.suspect
    if suspect is None:
        Modes.in_eval = 0
        return
    if not suspect.is_ours:
        return
    clear()
    network = suspect.module
    if suspect.training or network.training:
        Modes.in_eval = 0
        return
    ours = {id(p) for p in parameters(optimizer)}
    if not any(id(p) in ours for p in network.parameters()):
        return
    Modes.in_eval += 1
    if Modes.in_eval == 2:
        Modes.told.add(False)
        say(
            "train-forgotten",
            f"{type(network).__name__} is trained while in eval mode: dropout does not drop, and "
            "batch normalisation does not learn. Call model.train() first",
            suspect.site,
        )
