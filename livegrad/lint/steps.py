"""Rules about steps of optimisers: gradients that are missing, kept too long, or too large."""

from __future__ import annotations

import ctypes
import threading
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from livegrad.device import CPU
from livegrad.graph.handle import node_of
from livegrad.graph.node import Node, Site, describe_site
from livegrad.graph.site import user_site
from livegrad.lint.rules import Lint, listed, named, say
from livegrad.runtime.values import to_compute

# Larger updates than this are no accident of a parameter that was infinite before.
_HUGE = 1e30
# Steps without a gradient before a parameter counts as forgotten: some networks use a layer now
# and then.
_PATIENCE = 10
# Elements of parameters that are looked at after each step.
_MOST_ELEMENTS = 1 << 20


class Steps:
    """What was seen of one optimiser."""

    def __init__(self) -> None:
        self.taken = 0
        # The thread that takes the steps. What others do to the gradients meanwhile is no mistake.
        self.thread: int | None = None
        # Steps without a gradient, by id of the parameter; of those that never had one.
        self.without: dict[int, int] | None = None
        self.replaced = 0
        # After a step: its parameters, gradients and the gradients' values, held weakly.
        self.used: list[tuple[Any, Any, Any]] = []
        self.used_at: Site | None = None
        # The backward that added to gradients which a step has used.
        self.added: Site | None = None
        self.finite: dict[int, bool] = {}


steps: WeakKeyDictionary[Any, Steps] = WeakKeyDictionary()


# Parameters that have been trained, by id, weakly: also by optimisers that are gone.
trained: dict[int, Any] = {}


class _Received(threading.local):
    """Leaves that received gradients in this thread since its last step, weakly."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []
        self.used = False  # by a step: the next backward begins anew


received = _Received()


def parameters(optimizer: Any) -> list[Any]:
    """What an optimiser is to train; only looked at, since another thread may be using it."""
    groups = optimizer.param_groups
    return [p for group in groups for p in group["params"] if p._node.grad_to is not None]


def forget() -> None:
    """Forgets all that was seen."""
    steps.clear()
    trained.clear()
    received.leaves, received.used = [], False


# ----------------------------------------------------------------------------------- backward


def gradients_come(leaves: list[Any]) -> None:
    """A backward is about to give gradients to `leaves`."""
    if received.used:
        received.leaves, received.used = [], False
    known = {id(kept()) for kept in received.leaves}
    received.leaves += [ref(x) for x in leaves if id(x) not in known]
    coming = {id(x) for x in leaves}
    us = threading.get_ident()
    for seen in [seen for seen in steps.values() if seen.thread == us]:
        if any([id(p()) in coming and _is_as_used(p(), g, node) for p, g, node in seen.used]):
            seen.added = user_site()


def _is_as_used(p: Any, g: Any, node: Any) -> bool:
    """Whether a parameter's gradient is still the one a step has used: nobody made it zero."""
    kept = g()
    return kept is not None and p.grad is kept and node_of(kept) is node()


def is_shared(optimizer: Any) -> bool:
    """Whether a second thread takes steps with an optimiser."""
    seen = steps.setdefault(optimizer, Steps())
    us = threading.get_ident()
    if seen.thread is None:
        seen.thread = us
    return seen.thread != us


# ---------------------------------------------------------------------------- before the update


def before(optimizer: Any) -> None:
    """Checks gradients that are about to be used."""
    seen = steps.setdefault(optimizer, Steps())
    ours = parameters(optimizer)
    without = [p for p in ours if p.grad is None]
    if not seen.taken:
        seen.finite = _finiteness(ours)
    _check_added(seen)
    _check_replaced(seen, without)
    _check_missing(seen, ours, without)
    received.used = True


def _check_added(seen: Steps) -> None:
    if seen.added is None:
        return
    kept = [p() for p, g, _ in seen.used if p() is not None and p().grad is g() is not None]
    if kept:
        say(
            "zero-grad",
            f"this step uses gradients to which backward at {describe_site(seen.added)} has added "
            f"its own, without zero_grad() after the step at {describe_site(seen.used_at)}. Call "
            "optimizer.zero_grad() before backward()",
        )
    seen.added = None


def _check_replaced(seen: Steps, without: list[Any]) -> None:
    """Parameters without a gradient, while others like them have one and no optimiser."""
    held = {id(p) for known in steps for p in parameters(known)}
    living = [x for x in [kept() for kept in received.leaves] if x is not None]
    strays = [x for x in living if id(x) not in held and _is_parameter(x)]
    shapes = {tuple(x.shape) for x in strays}
    alike = [p for p in without if tuple(p.shape) in shapes]
    seen.replaced = seen.replaced + 1 if alike else 0
    if seen.replaced == 2:
        say(
            "replaced",
            f"the optimiser holds parameters that get no gradients (shapes "
            f"{_shapes(alike)}), while {listed(strays)} get gradients and are in no optimiser. "
            "Make the optimiser after layers or parameters are replaced, or add them with "
            "add_param_group()",
        )
        seen.without = {}


def _shapes(parameters: list[Any]) -> str:
    return ", ".join([str(list(p.shape)) for p in parameters[:4]])


def _is_parameter(x: Any) -> bool:
    from livegrad.nn.parameter import Parameter

    return isinstance(x, Parameter)


def _check_missing(seen: Steps, ours: list[Any], without: list[Any]) -> None:
    if len(without) == len(ours):
        return  # another optimiser's turn
    lacking = {id(p) for p in without}
    known = dict.fromkeys(lacking, 0) if seen.without is None else seen.without
    # A parameter that has had a gradient once is not forgotten.
    seen.without = {key: n + 1 for key, n in known.items() if key in lacking}
    forgotten = [p for p in without if seen.without.get(id(p)) == _PATIENCE]
    if forgotten:
        say(
            "no-gradient",
            f"{len(forgotten)} of the optimiser's {len(ours)} parameters got no gradient in the "
            f"first {_PATIENCE} steps: {listed(forgotten)}. Does the loss depend on them? If they "
            "are not to be trained, leave them out, or call requires_grad_(False)",
        )


# ----------------------------------------------------------------------------- after the update


def after(optimizer: Any) -> None:
    """Notes what was used, and looks at what came of it."""
    seen = steps.setdefault(optimizer, Steps())
    seen.taken += 1
    seen.used_at = user_site()
    ours = parameters(optimizer)
    given = [(p, g) for p, g in [(p, p.grad) for p in ours] if g is not None]
    trained.update({id(p): ref(p) for p, _ in given})
    seen.used = [(ref(p), ref(g), ref(node_of(g))) for p, g in given[:16]]
    now = _finiteness(ours)
    spoilt = [p for p in ours if not now.get(id(p), True) and seen.finite.get(id(p), True)]
    if spoilt:
        _tell_overflow(optimizer, spoilt, seen)
    seen.finite.update(now)
    Lint.steps_left -= 1


def _tell_overflow(optimizer: Any, spoilt: list[Any], seen: Steps) -> None:
    p = spoilt[0]
    group = next(g for g in optimizer.param_groups if any(q is p for q in g["params"]))
    g = p.grad
    node = None if g is None else node_of(g)
    values = None if node is None else _values(node)
    largest = float("nan") if values is None or not values.size else float(np.abs(values).max())
    if np.isfinite(largest):
        if id(p) not in seen.finite and not largest * abs(float(group.get("lr", 1))) > _HUGE:
            return  # it was not known what it was before
        cause = f"the learning rate {group.get('lr')} is too large for a gradient of {largest:.3g}"
    else:
        cause = "its gradient is infinite or NaN"
    more = f" (and {len(spoilt) - 1} more)" if len(spoilt) > 1 else ""
    say(
        "overflow",
        f"step {seen.taken} made {named(p)}{more} infinite or NaN: {cause}. Lower the learning "
        "rate, or clip gradients with nn.utils.clip_grad_norm_",
    )


def _finiteness(parameters: list[Any]) -> dict[int, bool]:
    """Whether the values of parameters are finite; the smallest first, as many as are cheap."""
    found: dict[int, bool] = {}
    left = _MOST_ELEMENTS
    for p in sorted(parameters, key=lambda p: p.numel()):
        left -= p.numel()
        if left < 0:
            break
        node = node_of(p)  # holds the memory while it is looked at
        values = _values(node)
        if values is not None:
            found[id(p)] = bool(np.isfinite(values).all())
    return found


def _values(node: Node) -> Any:
    """The values of a computed floating node, read where they lie; None if there are none yet."""
    meta = node.meta
    if node.buffer is None or meta.device is not CPU or not meta.dtype.is_floating_point:
        return None
    memory = (ctypes.c_char * meta.nbytes).from_address(node.buffer.ptr)
    values = np.frombuffer(memoryview(memory), meta.dtype.storage, meta.numel)
    return to_compute(values, meta.dtype)
