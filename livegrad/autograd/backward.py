"""`backward` and `grad`: what goes into reverse mode, and where its results are delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad.autograd import pending
from livegrad.autograd.anomaly import Anomaly, check_gradients
from livegrad.autograd.grad_fn import junction_of
from livegrad.autograd.holding import add_in_place, in_shape_of
from livegrad.autograd.hooks import retain_grad
from livegrad.autograd.reverse import Check, OfStep, Pair, added, fit, reverse, run_hooks
from livegrad.graph import spent
from livegrad.graph.blame import as_items
from livegrad.graph.events import BACKWARD, WALKED, tell
from livegrad.graph.family import check_not_stale, stale_or_not
from livegrad.graph.handle import Handle, node_of, wrap
from livegrad.graph.layout import is_dense
from livegrad.graph.losses import note_loss
from livegrad.graph.meta import Meta
from livegrad.graph.node import Interior, LeafRef, Node, is_in_vain, place_of
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, lock_gradients, unlock_gradients
from livegrad.graph.views import (
    is_broadcast,
    laid_out,
    make_dense,
    refuse_shape,
)
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.making.generate import filled_as
from livegrad.settings import strided

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Tensors = Any  # a tensor or a sequence of tensors


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: a function, and which of its results it is."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def backward(
    tensors: Tensors,
    grad_tensors: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensors = None,
    inputs: Tensors = None,
) -> None:
    """Adds the gradients of `tensors` to `.grad` of the leaves they were computed from.

    `grad_tensors` weigh the outputs (not needed for scalars). With `inputs`, only those tensors
    receive a gradient. `create_graph` makes the gradients differentiable; without it and
    without `retain_graph`, the graph is given up: see `livegrad.graph.spent`.
    """
    if BACKWARD:
        tell(BACKWARD, tensors)
    note_loss(tensors)
    if (
        inputs is None
        and grad_tensors is None
        and not create_graph
        and isinstance(tensors, Handle)
        and not Anomaly.enabled
        and LOCAL.state.flusher is None
        and pending.backward(tensors, bool(retain_graph))
    ):
        if WALKED:
            tell(WALKED)
        return
    outputs = _tuple(tensors)
    weights = _tuple(grad_variables if grad_tensors is None else grad_tensors, len(outputs))
    if inputs is not None and not _tuple(inputs):
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    seeds = _seeds(outputs, weights)
    wanted = None if inputs is None else _collecting(_tuple(inputs))
    last = not _is_kept(retain_graph, create_graph)
    arrived: list[Pair] = []
    try:
        order, _ = reverse(
            seeds, create_graph, wanted, spend=last, check=_anomaly_check(), arrived=arrived,
            collecting=True,
        )  # fmt: skip
    finally:  # also what arrived before an error, as in PyTorch
        served = _serve(Delivery(create_graph, seeds), arrived, wanted)
    _give_up(order, retain_graph, create_graph)
    for tensor in served:
        if "_post_hooks" in tensor.__dict__:
            with _Grad(create_graph):
                for hook in list(tensor._post_hooks.values()):
                    if hook(tensor) is not None:
                        raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    if WALKED:
        tell(WALKED)


def _anomaly_check() -> Check | None:
    return check_gradients if Anomaly.enabled else None


def _collecting(inputs: tuple[Tensor, ...]) -> set[int]:
    """What the walk is to reach, so that these receive a gradient.

    As in PyTorch, computed ones retain it from now on, and what has computed them takes its step:
    the backward of a Function runs, also where nothing goes on from there.
    """
    targets = _targets(inputs)
    wanted = set(targets)
    for tensors in targets.values():
        for x in tensors:
            retain_grad(x)
            call = junction_of(place_of(x._node))
            if call is not None:
                wanted.add(id(call))
    return wanted


def _serve(delivery: Delivery, arrived: list[Pair], wanted: set[int] | None) -> list[Tensor]:
    """Adds what arrived to `.grad` of leaves, or of those `wanted`; the leaves that it came for.

    One that was frozen meanwhile collects nothing; its hooks run all the same, as in PyTorch. Those
    that have another shape by now come last, as they may be refused: others have theirs then.
    """
    served = []
    with _Grad(delivery.create_graph):
        totals = delivery.totals(arrived, collected=True)
        for key, (tensor, g) in sorted(totals.items(), key=_has_another_shape):
            if tensor is None or (wanted is not None and key not in wanted):
                continue
            if tensor._node.grad_to is not None:
                delivery.accumulate(tensor, g)
            served.append(tensor)
    return served


def _has_another_shape(item: tuple[int, tuple[Tensor | None, Tensor]]) -> bool:
    tensor, g = item[1]
    return tensor is not None and tensor._node.meta.shape != g._node.meta.shape


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of (the sum of) `outputs`, weighed by `grad_outputs`, for each of `inputs`.

    An input that took no part gives None if `allow_unused`, zeros if `materialize_grads`. With
    `is_grads_batched`, `grad_outputs` have one more dim in front, and so have the results.

    Args:
        outputs: a tensor or several.
        inputs: tensors that they were computed from.
        grad_outputs: a weight for each of `outputs`; not needed for a single number.
        retain_graph: whether the graph may be gone through again; as `create_graph` if None.
        create_graph: whether the gradients can be differentiated again.
        only_inputs: True; the other is no longer there.
        allow_unused: whether an input may have taken no part.
        is_grads_batched: whether there is a batch of weights.
        materialize_grads: whether an input that took no part has zeros.

    Example:
        >>> x = lg.tensor(3.0, requires_grad=True)
        >>> (slope,) = lg.autograd.grad(x**3, x, create_graph=True)
        >>> slope.item(), lg.autograd.grad(slope, x)[0].item()
        (27.0, 18.0)
    """
    _check_options(only_inputs, allow_unused, materialize_grads)
    if is_grads_batched:
        return _batched_grad(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused,
            materialize_grads,
        )  # fmt: skip
    ends, weights, starts = _tuple(outputs), _tuple(grad_outputs), _tuple(inputs)
    if not starts:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if grad_outputs is None:
        weights = (None,) * len(ends)
    seeds = _seeds(ends, weights)
    targets = _targets(starts)
    last = not _is_kept(retain_graph, create_graph)
    delivery, arrived = Delivery(create_graph, seeds), list[Pair]()
    results: list[Any] = [None] * len(starts)
    unhooked: dict[int, Tensor] = {}  # as in PyTorch, that is what is returned, if it goes on
    try:
        order, _ = reverse(
            seeds, create_graph, set(targets), spend=last, check=_anomaly_check(), arrived=arrived,
            unhooked=unhooked,
        )  # fmt: skip
    finally:  # tensors that retain their gradients get also what arrived before an error
        with _Grad(create_graph):
            totals = delivery.totals(arrived)
    with _Grad(create_graph):
        for key, (_, g) in totals.items():
            wanted = [i for i, x in enumerate(starts) if _is_among(x, targets.get(key, ()))]
            g = unhooked.get(key, g)
            own = {x: delivery.own(g) for x in dict.fromkeys([id(starts[i]) for i in wanted])}
            for place in wanted:  # who is named twice has one gradient
                results[place] = own[id(starts[place])]
    _give_up(order, retain_graph, create_graph)
    return tuple([
        _missing(i, x, allow_unused, materialize_grads, create_graph) if g is None else g
        for i, (x, g) in enumerate(zip(starts, results, strict=True))
    ])  # fmt: skip


def _batched_grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize: bool,
) -> tuple[Any, ...]:
    from livegrad.func.vmap import vmap

    rows = _tuple(grad_outputs, len(_tuple(outputs)))
    if any(not isinstance(g, Handle) for g in rows):
        raise RuntimeError(
            "grad: is_grads_batched=True needs a gradient for each output, with one more dim in "
            "front; got None"
        )
    used: list[int] = []

    def once(*weights: Tensor) -> tuple[Tensor, ...]:
        found = grad(
            outputs, inputs, weights, retain_graph, create_graph, True, allow_unused, False,
            materialize,
        )  # fmt: skip
        used[:] = [i for i, g in enumerate(found) if g is not None]
        return tuple([g for g in found if g is not None])

    found = vmap(once)(*rows)
    results: list[Any] = [None] * len(_tuple(inputs))
    for i, g in zip(used, found, strict=True):
        results[i] = g
    return tuple(results)


class Delivery:
    """Hands gradients over to tensors: hooks, accumulation, no tensor given to two owners."""

    def __init__(self, create_graph: bool, seeds: list[Pair]) -> None:
        self.create_graph = create_graph
        # Tensors that have an owner, by id; they are kept so that no id is used twice.
        self.taken = {id(g): g for _, g in seeds}

    def totals(self, arrived: list[Pair], collected: bool = False) -> dict[int, tuple[Any, Tensor]]:
        """What each leaf or wanted node receives: {id of leaf or node: (leaf tensor, gradient)}.

        A leaf may have arrived through several nodes (it was updated in between): one sum. Tensors
        that retain their gradient are served here. Hooks on what adds to leaves are for what is
        `collected` there.
        """
        totals: dict[int, tuple[Any, Tensor]] = {}
        hooked: dict[int, Any] = {}
        for node, g in arrived:
            to = node.grad_to
            if type(to) is LeafRef:
                key, tensor = id(to), to()
                totals[key] = (tensor, added(totals[key][1], g) if key in totals else g)
                if to.hooks:
                    hooked[key] = to.hooks
                continue
            totals[id(node)] = (None, g)
            for tensor in [r() for r in to.retained] if type(to) is Interior else ():
                if tensor is not None:
                    with stale_or_not(tensor):
                        self.accumulate(tensor, g, retained=True)
        for key, hooks in hooked.items():
            tensor, g = totals[key]
            g = run_hooks(hooks, g)
            if collected and OfStep.are_there:
                g = run_hooks(hooks, g, of_step=True)
            totals[key] = (tensor, g)
        return totals

    def accumulate(self, tensor: Tensor, g: Tensor, retained: bool = False) -> None:
        """Adds `g` to `.grad` of `tensor`: in place, but not to one that is `retained`.

        That may be of the shape which the tensor had before it took another one in place.
        """
        try:
            lock_gradients()
            before = tensor.grad
            if g.is_sparse or (before is not None and before.is_sparse):
                self._accumulate_sparse(tensor, before, g)
            elif before is None and retained and g._node.meta.shape != node_of(tensor).meta.shape:
                tensor._grad = self.own(g)
            elif before is None:
                tensor._grad = self.own(laid_out(in_shape_of(tensor, g), _as_parameter(tensor)))
            elif self.create_graph or retained:
                tensor._grad = ew.add(before, g)
            else:
                add_in_place(before, g)
        finally:
            unlock_gradients()

    def _accumulate_sparse(self, tensor: Tensor, before: Tensor | None, g: Tensor) -> None:
        if before is None:
            tensor._grad = g.clone() if id(g) in self.taken else g
            self.taken[id(g)] = g
        elif self.create_graph or (before.is_sparse and not g.is_sparse):
            tensor._grad = added(before, g)
        elif before.is_sparse:
            before.add_(g)
        else:
            rebind(before, added(before, g))

    def own(self, g: Tensor) -> Tensor:
        """`g` as a tensor that nobody else holds and that is no view."""
        if g.is_sparse:
            return g
        if id(g) in self.taken:
            g = ew.clone(g)
        self.taken[id(g)] = g
        g._share = None
        if g._node.meta.strides is not None:
            make_dense(g)
        return g


def _as_parameter(tensor: Tensor) -> Meta:
    """The meta of the gradient of a leaf: strides are its own, or those of row-major order."""
    meta = node_of(tensor).meta
    return meta if is_dense(meta.shape, meta.stride()) else meta.plain


def _is_among(x: Tensor, tensors: Sequence[Tensor]) -> bool:
    return any(x is y for y in tensors)


class _Grad:
    """Gradient mode for a block; leaner than the public modes."""

    __slots__ = ("before", "mode")

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        state = LOCAL.state
        self.before, state.grad = state.grad, self.mode

    def __exit__(self, *exception: object) -> None:
        LOCAL.state.grad = self.before


def _is_kept(retain_graph: bool | None, create_graph: bool) -> bool:
    return create_graph if retain_graph is None else retain_graph


def _give_up(order: list[Node], retain_graph: bool | None, create_graph: bool) -> None:
    if not _is_kept(retain_graph, create_graph):
        # Where the walk ended, because a gradient was asked for there, nothing is given up.
        walked = [node for node in order if node.spent and type(node.grad_to) is not LeafRef]
        spent.mark(walked, user_site())


def _targets(inputs: tuple[Tensor, ...]) -> dict[int, list[Tensor]]:
    """Tensors to receive a gradient, by the id of the node (of the leaf's reference)."""
    targets: dict[int, list[Tensor]] = {}
    for x in inputs:
        check_not_stale(x)
        to = node_of(x).grad_to
        if to is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if is_in_vain(to):  # it takes part in no graph
            continue
        key = to if type(to) is LeafRef else place_of(x._node)
        targets.setdefault(id(key), []).append(x)
    return targets


def _seeds(outputs: tuple[Tensor, ...], weights: tuple[Any, ...]) -> list[Pair]:
    """Output nodes with the gradients that enter there."""
    if len(outputs) != len(weights):
        raise RuntimeError(
            f"got {len(outputs)} tensors and {len(weights)} gradients; expected one per tensor"
        )
    seeds = []
    for i, (y, g) in enumerate(zip(outputs, weights, strict=True)):
        if not isinstance(y, Handle):
            raise TypeError(f"element {i} of tensors must be a Tensor, not {type(y).__name__}")
        node = node_of(y)
        if node.grad_to is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        weight = _ones(node) if g is None else _checked(g, node, i)
        place = place_of(node)
        if not is_broadcast(place.meta.shape, node.meta.shape):
            refuse_shape(weight)
        seeds.append((place, weight if place is node else fit(weight, place.meta)))
    return seeds


def _ones(node: Node) -> Tensor:
    if node.meta.numel != 1:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs; got an output of shape "
            f"{list(node.meta.shape)}. Reduce it first (.sum()), or pass a gradient of its shape"
        )
    if node.meta.dtype.is_complex:
        raise RuntimeError(
            "grad can be implicitly created only for real scalar outputs but got "
            f"{node.meta.dtype.name}. Take its real part, or pass a gradient"
        )
    return filled_as(node.meta, 1)


def _checked(g: Any, node: Node, place: int) -> Tensor:
    """A gradient given by the user, as a handle of our own."""
    if not isinstance(g, Handle):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    meta = node_of(g).meta
    if g.layout is not strided:
        g = g.to_dense()
        meta = node_of(g).meta
    if meta.shape != node.meta.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{place}] has a shape of {list(meta.shape)} and "
            f"output[{place}] has a shape of {list(node.meta.shape)}."
        )
    return wrap(g._node) if meta.dtype is node.meta.dtype else ew.cast(g, node.meta.dtype)


def _tuple(x: Any, length: int | None = None) -> tuple[Any, ...]:
    if isinstance(x, Handle):
        return (x,)
    if x is None:
        return (None,) * (1 if length is None else length)
    if isinstance(x, GradientEdge):
        return (x.ownership_token,)
    items = as_items(x, "Tensor or tuple of Tensors")
    return tuple([x.ownership_token if isinstance(x, GradientEdge) else x for x in items])


def _missing(
    place: int, x: Tensor, allow_unused: bool | None, materialize: bool, create_graph: bool
) -> Any:
    if materialize:
        return filled_as(node_of(x).meta, 0).requires_grad_(create_graph)
    if allow_unused:
        return None
    raise RuntimeError(
        f"The differentiated Tensor at index {place} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior."
    )


def _check_options(only_inputs: bool, allow_unused: bool | None, materialize: bool) -> None:
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use backward() for that")
    if materialize and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )


__all__ = ["backward", "grad"]
