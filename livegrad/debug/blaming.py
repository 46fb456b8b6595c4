"""`livegrad.blame()`: which operation made a NaN or an infinity, found after the fact.

optimizer.step() ──► finite? ──yes──► updates          one small kernel of the step's plan
                        │ no
                        ▼ the plan stops, and nothing has been overwritten
              the step computed again, apart, value by value ──► Blame
                        │
                        ▼
              the plan once more, to its end: the program goes on as if nobody had looked
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.autograd.reverse import WALKS
from livegrad.debug import search
from livegrad.debug.names import Names
from livegrad.debug.places import expression_at
from livegrad.debug.report import Blame, Link
from livegrad.debug.search import Found, is_leaf_of_parameter
from livegrad.debug.updates import of_update
from livegrad.debug.values import Gone
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.losses import HELD, LOSSES, Held
from livegrad.graph.node import Node, Site, site_location
from livegrad.graph.op import REGISTRY
from livegrad.graph.watch import BLAMING, warn


class Latest:
    """What was found last."""

    blame: Blame | None = None


def blame(x: Any = None) -> Blame | None:
    """Which operation made a NaN or an infinity: in `x`, or where one was last seen.

    Nothing needs to be switched on before. A NaN that reaches `optimizer.step()`, or is printed or
    read while a model is trained, is looked into by itself, once; this gives what was found. Of a
    tensor `x` it is found by computing again what led to it. None: all is finite, or unknown.
    """
    if x is None:
        return Latest.blame
    if not isinstance(x, Handle):
        raise TypeError(f"blame(): argument 'x' must be Tensor, not {type(x).__name__}")
    return _of_tensor(x)


def _of_tensor(x: Any) -> Blame | None:
    try:
        found = search.of_value(node_of(x))
    except Gone:
        found = None
    if found is not None:
        return told(found, Names())
    g = getattr(x, "_grad", None)
    return None if g is None else _of_gradient(x, g)


def _of_gradient(x: Any, g: Any) -> Blame | None:
    try:
        found = search.of_gradients([node_of(g)], LOSSES.living())
    except Gone:
        return None
    if found is None:
        return None
    names = Names()
    made = told(found, names)
    made.parameters = (names.of_tensor(x) or "<unnamed>",)
    return made


def told(found: Found, names: Names) -> Blame:
    """What was found, in the words of the program."""
    node = found.node
    how = "backward" if found.how == "forward" and WALKS.recorded(node) else found.how
    made = Blame(_name(found._replace(how=how)), how, node.site)
    made.is_rule = how == "backward" and found.given is None and made.op == node.op.name
    made.module = names.module_of(node, found.order)
    made.inputs = tuple([found.seen[x] for x in node.inputs if x in found.seen])
    made.result = found.given if found.given is not None else found.seen.get(node)
    made.gradient = found.gradient
    made.chain = tuple([_link(x, found) for x in found.chain])
    if _is_all_there_is(found):
        made.note = "it was computed earlier; what from, nobody holds any more"
    if found.how == "data":
        _tell_data(made, found, names)
    if found.put is not None:
        file, line = site_location(found.put.site)
        who = "as data" if found.put.op.kind == "leaf" else f"by {found.put.op.name}"
        made.note = f"the infinities in its inputs were put there {who} at {file}:{line}"
    return made


def _name(found: Found) -> str:
    """What the program calls the operation: of a gradient rule, whose gradient it is."""
    node = found.node
    called = expression_at(node.site).called
    if found.how != "backward":
        return called or node.op.name if _is_all_there_is(found) else node.op.name
    whose: str | None = None
    if called in REGISTRY:
        whose = called
    elif found.given is None:
        same = [n for n in found.order if n.site == node.site and n is not node and n.grad_to]
        names: set[str | None] = {n.op.name for n in same} or {called}
        whose = names.pop() if len(names) == 1 else None
    return node.op.name if whose in (None, node.op.name) else f"{whose} ({node.op.name})"


def _is_all_there_is(found: Found) -> bool:
    """Whether a value was computed before, and nobody holds what from."""
    return found.how == "forward" and not found.node.inputs and found.node.buffer is not None


def _link(node: Node, found: Found) -> Link:
    return Link(node.op.name, *site_location(node.site), found.seen.get(node))


def _tell_data(made: Blame, found: Found, names: Names) -> None:
    """Data is blamed on the line that made it; parameters have names."""
    name = names.of_leaf(found.node)
    reader = found.chain[1] if len(found.chain) > 1 else None
    if name is not None or is_leaf_of_parameter(found.node):
        made.how, made.op = "parameter", name or "<unnamed>"
    else:
        made.op = "data"
    made.inputs = ()
    if reader is not None:
        file, line = site_location(reader.site)
        made.note = f"it was first read by {reader.op.name} at {file}:{line}"
        made.module = names.module_of(reader, found.order)


# ------------------------------------------------------------------------------------ automatic


def gradients_not_finite(asked: Sequence[Node], site: Site | None) -> None:
    """Looks into gradients that an optimiser was about to use, in a step taken at `site`.

    It is called by the flush, with everything as it was before the step.
    """
    BLAMING.enabled = False  # once; and what is computed here is not looked at
    optimizer = BLAMING.optimizer
    try:
        with HELD.put_back():
            made = _of_step(asked, optimizer, site)
    except Exception as error:  # the program is to go on, whatever this cannot do
        made = Blame("an operation", "unknown", site)
        made.note = f"it could not be found out which: {type(error).__name__}: {error}"
    step = optimizer.steps_taken if optimizer is not None else None
    made.step = step if made.how != "update" else (step or 1) - 1
    if optimizer is not None:
        made.seen_in = f"in step {made.step} of {type(optimizer).__name__}"
    Latest.blame = made
    BLAMING.untold = made


def _of_step(asked: Sequence[Node], optimizer: Any, site: Site | None) -> Blame:
    names = Names()
    found = search.of_gradients(asked, LOSSES.living())
    if found is None:
        made = Blame("an operation", "unknown", site)
        made.note = "its values are gone: the gradients were computed before, or by hand"
        return made
    made = told(found, names)
    if made.how == "parameter" and optimizer is not None:
        made = of_update(made, found, optimizer, site)
    made.parameters = _concerned(optimizer, names)
    return made


def _concerned(optimizer: Any, names: Names) -> tuple[str, ...]:
    """Parameters whose gradients the step was given: by name, as far as they have one."""
    if optimizer is None:
        return ()
    params = [p for group in optimizer.param_groups for p in group["params"] if p._grad is not None]
    return tuple([names.of_tensor(p) or "<unnamed>" for p in params])


def read_not_finite(node: Node, nodes: list[Node], inputs: list[tuple[Node, ...]]) -> None:
    """Looks into a NaN that the program has read; `inputs` are those the `nodes` had before."""
    BLAMING.enabled = False
    held = Held()
    held.nodes, held.inputs = nodes, inputs
    optimizer = BLAMING.optimizer
    try:
        with held.put_back():
            # What comes of a backward pass has no value in a walk forward.
            found = search.of_value(node) or search.of_gradients([node], [])
            made = None if found is None else told(found, Names())
    except Exception:
        made = None
    if made is None:
        BLAMING.enabled = True
        return
    if optimizer is not None:
        made.step = optimizer.steps_taken
        made.seen_in = f"in step {made.step} of {type(optimizer).__name__}"
    Latest.blame = made
    warn(f"NaN was read.\n{made}\nlivegrad.blame() has this as an object.")


def tell() -> None:
    """Says what was found, once the step is over."""
    made, BLAMING.untold = BLAMING.untold, None
    warn(
        f"the loss or its gradients are not finite.\n{made}\n"
        "livegrad.blame() has this as an object; it is said once."
    )


__all__ = ["Blame", "Link", "blame", "gradients_not_finite", "read_not_finite", "tell"]
