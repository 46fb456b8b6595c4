"""`Function`: an operation whose gradient the user writes.

    x ──► forward, run without gradients ──► raw value ──► CUSTOM ──► y     what is computed
    x ◄── Call: the user's backward, once ◄────────────────────────── y     how gradients flow

Each output is a CUSTOM node, a plain copy as far as values go. Its `grad_to` sends the gradient to
a node of the call, which takes part in no computation, only in reverse mode: it waits for the
gradients of all outputs, runs the user's backward once, and passes the results to the inputs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.autograd.grad_fn import Edge, edge_to
from livegrad.autograd.hooks import RemovableHandle
from livegrad.autograd.modes import enable_grad
from livegrad.autograd.reverse import Pair, fit, run_after
from livegrad.autograd.saved import ACTIVE, Packed, packed
from livegrad.autograd.tangents import Pushed, is_first_walk
from livegrad.graph.family import IN_FUNCTION
from livegrad.graph.handle import Handle, new_share, node_of, share_of, wrap
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Interior, Node, Spec, is_in_vain
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.making.generate import filled_as
from livegrad.ops.shaping.movement import detach
from livegrad.ops.shaping.reshaping import view_as
from livegrad.ops.support import parts, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _define(name: str, saves: str) -> Op:
    """An output of a Function: attrs (name of the function,); input: its value."""
    return Op(
        name,
        "composite",
        infer=lambda metas, attrs, shape: metas[0],
        layout=lambda metas, attrs, meta: metas[0].strides,
        ref=lambda n, value: value,
        expand=lambda n, value: value,
        saves=saves,
        grad_fn=parts.custom,
        samples=s.calls(lambda: s.Sample((s.uniform(3, 4),), lambda x: _Same.apply(x))),
    )


CUSTOM = _define("custom", saves="")
# An output that the function has saved for its backward.
CUSTOM_SAVED = _define("custom_saved", saves="y")


class FunctionCtx:
    """Carries what `forward` leaves for `backward`; any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    requires_grad = True
    # As a grad_fn: what `apply` was given, hooks before and after `backward`, the user's notes.
    _given_nodes: list[Node | None]
    _hooks_before: dict[int, Callable[[Any], Any]] | None = None
    _hooks_after: dict[int, Callable[[Any, Any], Any]] | None = None
    _notes: dict[str, Any] | None = None

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._for_jvp: tuple[Any, ...] | None = None
        self._outputs: list[Output] = []
        self._constant: tuple[Tensor, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps tensors (or None) for `backward`, with the values they have now."""
        self._saved = _kept("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Any) -> None:
        """Keeps tensors (or None) for `jvp`, with the values they have now."""
        self._for_jvp = _kept("save_for_forward", tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, with the history that makes gradients of `backward` itself right."""
        kept = self._for_jvp if self._for_jvp is not None and is_first_walk() else self._saved
        return tuple([_unpack(x) for x in kept])

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says that no gradient flows through these outputs."""
        self._constant = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says that `forward` wrote to these inputs and returns them."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether outputs without a gradient give zeros (the default) or None to `backward`."""
        self._materialize = value

    # ---- as the `grad_fn` of the outputs ---------------------------------------------------

    def name(self) -> str:
        """The Function's name and "Backward"."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """Where gradients go on to, for each tensor that `apply` was given."""
        return tuple([edge_to(node) for node in self._given_nodes if node is not None])

    def register_prehook(self, fn: Callable[[tuple[Any, ...]], Any]) -> RemovableHandle:
        """Calls `fn(grad_outputs)` before `backward`; a tuple it returns is used instead."""
        if self._hooks_before is None:
            self._hooks_before = {}
        return RemovableHandle(self._hooks_before, fn)

    def register_hook(self, fn: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Calls `fn(grad_inputs, grad_outputs)` after `backward`; a tuple replaces its results."""
        if self._hooks_after is None:
            self._hooks_after = {}
        return RemovableHandle(self._hooks_after, fn)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for notes."""
        if self._notes is None:
            self._notes = {}
        return self._notes


def _kept(where: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each tensor with its node: it may be written to later, and while it is held its value is
    computed and kept.
    """
    for x in tensors:
        if x is not None and not isinstance(x, Handle):
            raise TypeError(
                f"{where} can only save variables, but got {type(x).__name__}. Set other objects "
                "as attributes of ctx"
            )
    return tuple([None if x is None else (x, node_of(x)) for x in tensors])


def _unpack(kept: Any) -> Any:
    if kept is None:
        return None
    if isinstance(kept, Packed):
        return kept.unpacked()
    if isinstance(kept, Output):
        return wrap(kept.alive())
    x, node = kept
    return x if x._node is node and x._share is None else wrap(node)


class Function:
    """An operation with a gradient of its own: subclass it, then call `apply`.

    `backward` takes one gradient per output and returns one per argument of `forward` (None for
    those without). It may itself be differentiated, as it is written with tensors. Forward mode
    asks `jvp`, if there is one, and else what `backward` says.

    Example:
        >>> class Square(lg.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * g
        >>> x = lg.tensor(3.0, requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor(6.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs: `forward(ctx, *args)`, or `forward(*args)` with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Leaves on `ctx` what `backward` needs, where `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gives the gradients of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    # Another name for `backward`: a Function has one of the two.
    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Gives the tangents of the outputs from those of the arguments (None: not one's own)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    # The class of ctx, which has the Function's name: ctx is the grad_fn of the outputs.
    _ctx_class: type[FunctionCtx] = FunctionCtx

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        body = {"__module__": cls.__module__, "_forward_cls": cls}
        cls._ctx_class = type(f"{cls.__name__}Backward", (FunctionCtx,), body)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs `forward`; its outputs are differentiated by `backward`."""
        ctx = cls._ctx_class()
        nodes = [node_of(x) if isinstance(x, Handle) else None for x in args]
        ctx.needs_input_grad = tuple([n is not None and n.grad_to is not None for n in nodes])
        state = LOCAL.state
        grad, state.grad = state.grad, False
        try:
            result = cls._run_forward(ctx, args, kwargs)
        finally:
            state.grad = grad
        if not grad or not any(ctx.needs_input_grad):
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        connected = _connect(Call(cls, ctx, nodes, outputs), outputs)
        return connected if isinstance(result, tuple) else connected[0]

    @classmethod
    def _run_forward(cls, ctx: FunctionCtx, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args, **kwargs)
        result = cls.forward(*args, **kwargs)
        cls.setup_context(ctx, args, result)
        return result


class Call:
    """One call of a Function, as reverse mode sees it."""

    def __init__(
        self, function: Any, ctx: FunctionCtx, nodes: list[Node | None], outputs: tuple[Any, ...]
    ) -> None:
        self.function = function
        self.ctx = ctx
        self.inputs = ctx._given_nodes = nodes
        self.pushed: Pushed | None = None
        self.metas: list[Meta | None] = [
            node_of(y).meta if isinstance(y, Handle) else None for y in outputs
        ]

    def pull(self, received: dict[int, Tensor]) -> list[Pair]:
        """Runs the user's backward on the gradients of the outputs, by place."""
        with setting(site=None):
            if is_first_walk() and self.function.jvp is not Function.jvp:
                if self.pushed is None:
                    self.pushed = Pushed(self.function, self.ctx, self.inputs)
                return self.pushed.pull(self.inputs, received)
            arrived = tuple([received.get(i) for i in range(len(self.metas))])
            for hook in list((self.ctx._hooks_before or {}).values()):
                changed = hook(arrived)
                arrived = arrived if changed is None else tuple(changed)
            grads = [self._gradient(i, g) for i, g in enumerate(arrived)]
            results = _backward_of(self.function)(self.ctx, *grads)
            results = results if isinstance(results, tuple | list) else (results,)
            if self.ctx._hooks_after:
                results = self._hooked(list(results), arrived)
            return self._paired(tuple(results))

    def _hooked(self, results: list[Any], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients of the arguments as hooks leave them, who see those of the tensors."""
        places = [i for i, x in enumerate(self.inputs[: len(results)]) if x is not None]
        shown = tuple([results[i] for i in places])
        assert self.ctx._hooks_after is not None
        for i, g in zip(places, run_after(self.ctx._hooks_after, shown, grads), strict=True):
            results[i] = g
        return tuple(results)

    def _gradient(self, place: int, g: Tensor | None) -> Any:
        meta = self.metas[place]
        if g is not None or meta is None or not self.ctx._materialize:
            return g
        return filled_as(meta, 0)

    def _paired(self, results: tuple[Any, ...]) -> list[Pair]:
        name, count = f"{self.function.__name__}Backward", len(self.inputs)
        if len(results) < count or any(g is not None for g in results[count:]):
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {count}, "
                f"got {len(results)})"
            )
        pairs = []
        for i, (x, g) in enumerate(zip(self.inputs, results, strict=False)):
            if g is None or x is None or x.grad_to is None or is_in_vain(x.grad_to):
                continue  # as in PyTorch, nobody looks at what goes nowhere
            pairs.append((x, _checked(g, x.meta, f"Function {name}", i)))
        return pairs


def _backward_of(function: type[Function]) -> Callable[..., Any]:
    """The method that gives gradients, under either of its names."""
    if function.vjp is Function.vjp:
        return function.backward
    if function.backward is not Function.backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return function.vjp


def _connect(call: Call, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `apply` returns for the results of forward: the same values, connected to the call."""
    ctx = call.ctx
    junction = call_node(call)
    connected = []
    outputs: dict[int, Output] = {}
    for place, y in enumerate(results):
        if not _is_float(y) or any(y is x for x in ctx._constant):
            connected.append(y)
        else:
            written = any(y is x for x in ctx._dirty)
            shown = view_as(y, y) if node_of(y) in call.inputs and not written else y
            output = Output(call.function.__name__, place, node_of(shown), junction)
            if shown is y and output.raw not in call.inputs:
                outputs[id(y)] = output
            tensor = output.record(any(kept is not None and y is kept[0] for kept in ctx._saved))
            if not type(y).__module__.startswith("livegrad."):
                tensor = tensor._become(type(y))
                tensor._take_attributes(y)
            if written:
                tensor = _written(y, tensor)
            elif shown._share is not None:
                _share_memory(tensor, shown)
            connected.append(tensor)
    ctx._saved = tuple([_as_output(kept, outputs) for kept in ctx._saved])
    if ACTIVE.hooks:
        ctx._saved = tuple([None if x is None else packed(_unpack(x)) for x in ctx._saved])
    return tuple(connected)


def _is_float(y: Any) -> bool:
    return isinstance(y, Handle) and node_of(y).meta.dtype.category >= dtypes.FLOAT


def _written(x: Tensor, tensor: Tensor) -> Tensor:
    """The input `x`, which forward wrote to, given the history of the output `tensor`."""
    if isinstance(x._node.grad_to, weakref.ref):
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under livegrad.no_grad(), or to a clone()"
        )
    with enable_grad():
        return rebind(x, tensor)


def _share_memory(output: Tensor, y: Any) -> None:
    """Makes an output a view of the memory of `y`, whose value it has, with its own history."""
    shown = share_of(detach(y))
    share = output._share = new_share(shown.cell, shown.path, shown.seen)
    share.whole = shown.whole
    share.count_with(shown.apart)
    share.mark_made(IN_FUNCTION)


def _as_output(kept: Any, outputs: dict[int, Output]) -> Any:
    """A saved tensor that turned out to be an output is kept as such, without a cycle."""
    if kept is None:
        return None
    output = outputs.get(id(kept[0]))
    return output if output is not None and output.raw is kept[1] else kept


class _ToCall:
    """Sends the gradient of one output to the node of the call."""

    __slots__ = ("call", "place")

    def __init__(self, call: Node, place: int) -> None:
        self.call = call
        self.place = place

    def __call__(self, g: Tensor) -> list[Any]:
        return [(self.call, {self.place: g})]


class Output:
    """One output of a call: makes its CUSTOM node, again if the first is gone."""

    def __init__(self, name: str, place: int, raw: Node, call: Node) -> None:
        self.name = name
        self.place = place
        self.raw = raw
        self.call = weakref.ref(call)
        self.node: Callable[[], Node | None] = lambda: None

    def record(self, saved: bool) -> Tensor:
        """A tensor with the output's value, from which gradients flow to the call."""
        op = CUSTOM_SAVED if saved else CUSTOM
        tensor = record(op, (wrap(self.raw),), (self.name,))
        call, place = self.call(), self.place
        assert call is not None
        tensor._node.grad_to = Interior((call,), _ToCall(call, place))
        self.node = weakref.ref(tensor._node)
        return tensor

    def alive(self) -> Node:
        """The output's node."""
        node = self.node()
        return node_of(self.record(True)) if node is None else node


def call_node(call: Call) -> Node:
    """A node outside of all computation, a junction for the gradients of one call."""
    node = object.__new__(Node)
    node.meta = meta_of((), dtypes.float32)
    node.spec = Spec(CUSTOM, (call.function.__name__,), node.meta)
    node.inputs = tuple([x for x in call.inputs if x is not None and x.grad_to is not None])
    node.args = ()
    node.grad_to = Interior(node.inputs, call.pull)
    node.buffer = None
    node.cut = None
    node.walked = None
    node.spent = False
    node.index = -1
    node.site = user_site()
    return node


def _checked(g: Any, meta: Meta, name: str, place: int) -> Tensor:
    """A gradient from the user's backward, summed to the input's shape; a tensor of our own."""
    if not isinstance(g, Handle):
        raise TypeError(f"{name}: expected Tensor or None at index {place}, not {type(g).__name__}")
    have = node_of(g).meta
    fits = len(have.shape) >= len(meta.shape) and all(
        want in (1, size)
        for size, want in zip(reversed(have.shape), reversed(meta.shape), strict=False)
    )
    if not fits:
        raise RuntimeError(
            f"{name} returned an invalid gradient at index {place} - got {list(have.shape)} but "
            f"expected shape compatible with {list(meta.shape)}"
        )
    if g.is_sparse:
        return fit(g, meta)
    return ew.clone(g) if have is meta else fit(g, meta)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a `backward` that is not written with tensors alone: no second gradient exists."""

    @functools.wraps(backward)
    def run(ctx: Any, *grads: Any) -> Any:
        grad = LOCAL.state.grad
        with setting(grad=False):
            results = backward(ctx, *grads)
        needed = [g for g in grads if isinstance(g, Handle) and node_of(g).grad_to is not None]
        if not grad or not needed:
            return results
        several = isinstance(results, tuple | list)
        refused = [
            _Refuse.apply(x, *needed) if isinstance(x, Handle) else x
            for x in (results if several else (results,))
        ]
        return tuple(refused) if several else refused[0]

    return run


class _Refuse(Function):
    """The first argument, with a history that ends in an error."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *others: Tensor) -> Tensor:
        return ew.clone(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


class _Same(Function):
    """The identity, for the samples of CUSTOM."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return ew.clone(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]
