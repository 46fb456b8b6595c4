"""The rules by name, which of them are on, and how they speak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.graph import watch
from livegrad.graph.node import Site, site_location
from livegrad.graph.site import user_site
from livegrad.graph.watch import Watch
from livegrad.lint.hearing import ignore_all

RULES = {
    "broadcast": "a loss of [n] against [n, 1], which makes n × n differences",
    "softmax": "probabilities given to a loss that takes logits or log-probabilities",
    "no-gradient": "parameters of an optimiser that get no gradient",
    "zero-grad": "steps with gradients that still hold those of the step before",
    "replaced": "an optimiser made before the parameters it should train",
    "overflow": "a step that makes parameters infinite or NaN",
    "loss": "a loss that is infinite or NaN",
    "eval-forgotten": "evaluation with dropout or batch statistics: eval() was forgotten",
    "train-forgotten": "training while the network is in eval mode",
    "dropout-in-eval": "functional dropout that does not know of eval mode",
}


class Lint:
    """What is on, and what was said."""

    # Steps of an optimiser that are watched; steps of all of them together.
    STEPS = 50
    MOST_STEPS = 1000

    off: set[str] = set()  # noqa: RUF012
    said: set[tuple[str, str, int]] = set()  # noqa: RUF012
    steps_left = MOST_STEPS
    watching = False  # the first steps of some optimiser
    # What makes the parts of the lint forget what they have seen.
    memories: list[Callable[[], None]] = []  # noqa: RUF012


def say(rule: str, message: str, site: Site | None = None, once: bool = True) -> None:
    """Warns, once per rule and line; or as often as Python's filters of warnings have it."""
    if rule in Lint.off or not Watch.enabled:
        return
    site = user_site() if site is None else site
    key = (rule, *site_location(site))
    if once and key in Lint.said:
        return
    Lint.said.add(key)
    watch.warn(f"{message} (livegrad.lint: {rule})", site)


def is_enabled(rule: str | None = None) -> bool:
    """Whether the lint, or one rule of it, is on."""
    return Watch.enabled and (rule is None or _known(rule) not in Lint.off)


def disable(*rules: str) -> None:
    """Switches rules off; without arguments, the lint."""
    if rules:
        Lint.off |= {_known(rule) for rule in rules}
        return
    Watch.enabled = False
    if Watch.suspect is not None:
        Watch.suspect.release()
    ignore_all()
    Watch.suspect = None


def enable(*rules: str) -> None:
    """Switches rules on again; without arguments, the lint. Optimisers made from now on are
    watched."""
    if rules:
        Lint.off -= {_known(rule) for rule in rules}
        return
    Watch.enabled = True


def reset() -> None:
    """Forgets what was seen and said; all rules are on."""
    disable()
    Lint.off, Lint.said, Lint.steps_left = set(), set(), Lint.MOST_STEPS
    Lint.watching = False
    for forget in Lint.memories:
        forget()
    enable()


def _known(rule: str) -> str:
    if rule not in RULES:
        raise ValueError(f"lint: unknown rule {rule!r}; there are {', '.join(RULES)}")
    return rule


def named(p: Any) -> str:
    """A parameter as people know it: its name in the network that holds it, and its shape."""
    import gc

    from livegrad.nn.module import Module

    best = ""
    # Not isinstance, which may ask an object for its __class__ and so call its properties.
    for module in [x for x in gc.get_objects() if issubclass(type(x), Module)]:
        for name, q in module.named_parameters():
            if q is p and len(name) > len(best):
                best = name
    return f"{best or 'a parameter'} {list(p.shape)}"


def listed(parameters: list[Any], most: int = 4) -> str:
    """Some parameters by name, and how many more there are."""
    names = ", ".join([named(p) for p in parameters[:most]])
    more = len(parameters) - most
    return f"{names} and {more} more" if more > 0 else names
