"""Checkpointing: values inside of a part of a network are not kept for backward but computed again.

    forward    x ─► function, recorded without gradients, then computed ─► values ─► CUSTOM ─► y
    backward   x ◄── function again, with gradients ◄──────────────────── Segment ◄────────── y

Only the arguments and the results of `function` are kept. Backward runs it once more, with the same
random numbers and inside of the same autocast, and differentiates that. A flush before each of the
two makes memory that nobody needs any more free for the next segment.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from livegrad import dtypes
from livegrad.autograd.function import FunctionCtx, Output, call_node
from livegrad.autograd.reverse import Pair, fit, reverse
from livegrad.graph import spent
from livegrad.graph.handle import Handle, node_of, wrap
from livegrad.graph.meta import Meta
from livegrad.graph.node import LeafRef, Node, describe_site
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, Runtime, flush, setting
from livegrad.random import Generator, default_generator
from livegrad.tensor import Tensor

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class CheckpointError(RuntimeError):
    """The function did not do the same when it ran again."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Contexts for `checkpoint` that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose inner values are computed again for backward.

    Gradients reach the arguments, and whatever else the function uses: parameters of modules,
    tensors from around it. Gradients of gradients exist. What the function does besides (batch
    norms collect statistics) it does twice, as in PyTorch.

    Args:
        use_reentrant: for PyTorch's sake; there is one way here, that of `use_reentrant=False`.
        preserve_rng_state: draw the same random numbers again, so that dropout drops the same.
        context_fn: gives two context managers, for the first run and for later ones.
        determinism_check: "default" compares shapes and dtypes of the results, "none" does not.
        debug: say in a CheckpointError which operations were recorded.
        early_stop: accepted; the function runs to its end.
    """
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    state = LOCAL.state
    first, again = context_fn()
    if not state.grad or state.reference or LOCAL.state.flusher is not None:
        # Nothing is kept for backward, or (in reference mode and traces) nothing can be dropped.
        with first:
            return function(*args, **kwargs)
    segment = Segment(function, args, kwargs, again, preserve_rng_state)
    segment.strict = determinism_check != "none"
    segment.log = [] if debug or _Debug.enabled else None
    return segment.run(first)


class _Debug:
    enabled: bool | None = None


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Within it, `debug` of `checkpoint` is on."""
    before, _Debug.enabled = _Debug.enabled, enabled
    try:
        yield
    finally:
        _Debug.enabled = before


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Accepted; functions run to their end."""
    yield


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Runs `functions` (an `nn.Sequential`, or a list) one after the other, in checkpointed parts.

    All parts but the last, which backward needs first, are checkpointed.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions)
    size = len(steps) // segments
    last = size * (segments - 1)
    for start in range(0, last, size) if size else ():
        input = checkpoint(
            _chain(steps[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _chain(steps[last:])(input)


def _chain(steps: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def forward(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return forward


# ------------------------------------------------------------------------------- nested values


class _Place:
    """Where a tensor was among the arguments; `Segment.nodes` has its value."""


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """`value` with each tensor, or place, in tuples, lists, dicts and dataclasses replaced."""
    if isinstance(value, Handle | _Place):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_mapped(change, x) for x in value])
    if isinstance(value, list | tuple):
        return type(value)([_mapped(change, x) for x in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(changed, field.name, _mapped(change, getattr(value, field.name)))
        return changed
    if isinstance(value, Mapping):
        items = {key: _mapped(change, x) for key, x in value.items()}
        return items if type(value) is dict else type(value)(items)  # type: ignore[call-arg]
    return value


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    _mapped(note, value)
    return found


# ------------------------------------------------------------------------------ the first run


class Watch:
    """As `LOCAL.state.flusher`: sees what a segment recorded before each flush lets go of it.

    `edges` are the nodes from outside that gradients of the segment flow to. While a segment is
    recorded without gradients, its own nodes have none.
    """

    def __init__(self, log: list[str] | None) -> None:
        state = LOCAL.state
        self.edges: dict[Node, None] = {}
        self.own: set[Node] = set()
        self.start = state.base + len(state.nodes)
        self.log = log

    def collect(self) -> None:
        """Notes what was recorded since the last time."""
        fresh = [node for node in LOCAL.state.nodes if node.index >= self.start]
        self.own.update(fresh)
        for node in fresh:
            for x in node.inputs:
                if x.grad_to is not None and x not in self.own:
                    self.edges[x] = None
        if self.log is not None:
            self.log += [f"{node.op.name} at {describe_site(node.site)}" for node in fresh]
        if fresh:
            self.start = fresh[-1].index + 1

    def flush(self, reason: str, roots: tuple[Node, ...]) -> None:
        """Computes what is pending, as always."""
        self.collect()
        LOCAL.state.flusher = None
        try:
            Runtime.flush(reason, roots)
        finally:
            LOCAL.state.flusher = self
            self.start = 0

    def check_write(self, x: Any, value: Any) -> None:
        """All values are those of one example: any may be written anywhere."""

    def depends(self, root: Node) -> bool:
        """Whether a value is not known yet: never."""
        return False


class Segment:
    """One call of `checkpoint`, as reverse mode sees it; compare `autograd.function.Call`."""

    strict = True
    log: list[str] | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        again: AbstractContextManager[Any],
        preserve: bool,
    ) -> None:
        self.function: Any = type(self)  # whose name the junction of the call has
        self.call = function
        self.given = (args, kwargs)
        # Values as they are now: nodes do not change when tensors are written to.
        self.nodes = [node_of(x) for x in _tensors(self.given)]
        self.again = again
        self.random = default_generator.clone_state() if preserve else None
        self.caster = LOCAL.state.caster
        self.ctx = FunctionCtx()
        self.inputs: list[Node | None] = []
        self.metas: list[Meta] = []

    def run(self, context: AbstractContextManager[Any]) -> Any:
        """Runs the function without keeping what backward would need, and computes its results."""
        state = LOCAL.state
        watch = Watch(self.log)
        LOCAL.state.flusher, state.grad = watch, False
        try:
            with context:
                args, kwargs = self._arguments(first=True)
                result = self.call(*args, **kwargs)
            watch.collect()
        finally:
            LOCAL.state.flusher, state.grad = None, True
        outputs = _tensors(result)
        self.metas = [node_of(y).meta for y in outputs]
        mine = [node_of(y) for y in outputs]
        edges = watch.edges | dict.fromkeys([n for n in mine if n.grad_to is not None])
        if not edges:
            return result
        # Let go of what would be kept alive, now that nodes stand for it.
        self.given = _mapped(lambda _: _Place(), self.given)
        self.inputs = list(edges)
        junction = call_node(self)  # type: ignore[arg-type]
        connected = [self._connected(i, y, junction) for i, y in enumerate(outputs)]
        flush("checkpoint", *self.nodes, *mine, *[node_of(y) for y in connected])
        replacements = iter(connected)
        return _mapped(lambda _: next(replacements), result)

    def _arguments(self, first: bool) -> Any:
        """The arguments, tensors that need a gradient as copies that may be written to.

        When the function runs again, so are all others: what it writes to them has been written.
        """
        nodes = iter(self.nodes)

        def given(x: Tensor) -> Tensor:
            node = next(nodes)
            return x if first and node.grad_to is None else wrap(node)

        return _mapped(given, self.given)

    def _connected(self, place: int, y: Tensor, junction: Node) -> Tensor:
        """An output that sends its gradient to the junction of the call."""
        node = node_of(y)
        if node.meta.dtype.category < dtypes.FLOAT:
            return y
        return Output("CheckpointFunction", place, node, junction).record(False)

    # ---- backward --------------------------------------------------------------------------

    def pull(self, received: dict[int, Tensor]) -> list[Pair]:
        """Runs the function again, and carries the gradients of its outputs, by place, through."""
        flush("checkpoint")  # what was needed above is not needed any more
        create_graph = LOCAL.state.grad
        log = None if self.log is None else _Log(self.log)
        with setting(grad=True, site=None, caster=self.caster):
            outputs = _tensors(self._run_again())
            self._check(outputs, log)
        seeds = []
        for place, g in received.items():
            node = node_of(outputs[place])
            if node.grad_to is not None:
                seeds.append((node, fit(g, node.meta)))
        stop = {x for x in self.inputs if x is not None}
        order, arrived = reverse(seeds, create_graph, None, stop, spend=not create_graph)
        if not create_graph:
            inner = [n for n in order if n not in stop and type(n.grad_to) is not LeafRef]
            spent.mark(inner, user_site())
        return self._paired(arrived)

    def _run_again(self) -> Any:
        now = default_generator.clone_state()
        if self.random is not None:
            _set(default_generator, self.random)
        try:
            with self.again:
                args, kwargs = self._arguments(first=False)
                return self.call(*args, **kwargs)
        finally:
            if self.random is not None:
                _set(default_generator, now)

    def _check(self, outputs: list[Tensor], log: _Log | None) -> None:
        metas = [node_of(y).meta for y in outputs]
        if len(metas) != len(self.metas):
            raise CheckpointError(
                f"checkpoint: A different number of tensors was returned during the original "
                f"forward and recomputation.\nNumber of tensors returned during forward: "
                f"{len(self.metas)}.\nNumber of tensors returned during recomputation: "
                f"{len(metas)}.{_told(log)}"
            )
        if not self.strict:
            return
        wrong = [
            f"tensor at position {i}:\nsaved metadata: {a}\nrecomputed metadata: {b}"
            for i, (a, b) in enumerate(zip(self.metas, metas, strict=True))
            if a is not b
        ]
        if wrong:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata "
                "than during the forward pass.\n" + "\n".join(wrong) + _told(log)
            )

    def _paired(self, arrived: list[Pair]) -> list[Pair]:
        """Gradients with the nodes of the first run that they belong to."""
        known = {x for x in self.inputs if x is not None}
        # A parameter that was written to meanwhile is another node, but still that leaf.
        leaves = {id(x.grad_to): x for x in known if type(x.grad_to) is LeafRef}
        pairs = []
        for node, g in arrived:
            to = node if node in known else leaves.get(id(node.grad_to))
            if to is not None:
                pairs.append((to, fit(g, to.meta)))
            elif self.strict and type(node.grad_to) is LeafRef:
                raise CheckpointError(
                    f"checkpoint: a tensor of {node.meta} that requires grad is used by the "
                    "recomputation, and was not by the forward pass. The function must do the "
                    "same both times"
                )
        return pairs


def _set(generator: Generator, to: Generator) -> None:
    """Puts a generator into the state of another."""
    generator._initial, generator._seed, generator._offset = to._initial, to._seed, to._offset


class _Log:
    """Operations recorded by both runs, for an error message."""

    def __init__(self, first: list[str]) -> None:
        state = LOCAL.state
        self.first = first
        self.start = len(state.nodes)

    def __str__(self) -> str:
        again = LOCAL.state.nodes[self.start :]
        second = [f"{node.op.name} at {describe_site(node.site)}" for node in again]
        return "\n".join(["", "forward:", *self.first, "recomputation:", *second])


def _told(log: _Log | None) -> str:
    return "" if log is None else str(log)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Numbers and generators' states of the GPUs where tensors are: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Puts back what `get_device_states` gave."""
    if len(devices):
        raise RuntimeError(f"set_device_states: got devices {list(devices)}; there is no GPU here")


__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors cut off from how they were made, which need gradients if they did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs)}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )


def check_backward_validity(inputs: Any) -> None:
    """Warns if no gradient will come through a checkpoint."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )
