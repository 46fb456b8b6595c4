"""Op records: every rule of one operation, kept in one place."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.layout import (
    Strides,
    channels_last_strides,
    elementwise_strides,
    like_strides,
    prefers_channels_last,
)
from livegrad.graph.lowering import Lowered, lowered_as
from livegrad.graph.meta import Meta, Shape, is_symbolic
from livegrad.graph.node import Node, Spec
from livegrad.graph.symbol import Session
from livegrad.native.calls import untrack
from livegrad.native.hot import hot, hot_slots

if TYPE_CHECKING:
    from livegrad.compiler.lowerings.base import Lowering
    from livegrad.tensor import Tensor

GradRule = Callable[..., "Tensor"]
# What PyTorch calls the gradient of an op, or what tells it of a node.
GradFn = str | Callable[["Node"], Any] | None
# layout(metas, attrs, meta) -> strides of a result of `meta`; None for row-major order.
LayoutRule = Callable[[tuple[Meta, ...], tuple[Any, ...], Meta], Strides | None]
# complaint(planned node, refused value) -> exception and message
Complaint = Callable[[Any, int], tuple[type[Exception], str]]

REGISTRY: dict[str, Op] = {}
_FIRST_SWEEP = 20_000


def may_refuse(rule: GradRule) -> GradRule:
    """Marks a gradient rule that may raise: it runs in backward(), not when that is planned."""
    rule.may_refuse = True  # type: ignore[attr-defined]
    return rule


def flows_of(spec: Spec, inputs: int) -> tuple[int, ...]:
    """The inputs that have a gradient rule; none if the ordinary walk must go this way: through
    a composite differentiated by parts, or to a rule that may raise."""
    rules: Any = spec.op.grads
    if rules is None:
        return ()
    if spec.op.kind == "elementwise":  # rules are per operand, some of which are numbers
        pattern = spec.attrs[1]
        rules = [r for r, letter in zip(rules, pattern, strict=True) if letter == "t"]
    if any([getattr(rules[i], "may_refuse", False) for i in range(inputs)]):
        return ()
    return tuple([i for i in range(inputs) if rules[i] is not None])


def not_implemented_in_torch(name: str) -> GradRule:
    """The gradient rule of an operation for which PyTorch has none: it raises, as there."""

    @may_refuse
    def rule(g: Any, y: Any, *operands: Any) -> Any:
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return rule


def as_iterated(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """The layout of an elementwise result: the order of dims that its tensors agree on."""
    if _agree_on_rows(metas, meta):
        return None
    return elementwise_strides(meta.shape, _read(metas, attrs))


@hot
def _agree_on_rows(metas: Sequence[Meta], meta: Meta) -> bool:
    """Whether all operands are row-major, and no dim of the result may be taken for another."""
    for m in metas:
        if m.strides is not None:
            return False
    for size in meta.shape:  # noqa: SIM110
        if size == 0 or size == 1:
            return False
    return True


def _read(metas: tuple[Meta, ...], attrs: tuple[Any, ...]) -> list[tuple[Shape, Strides]]:
    """The shapes and strides that an elementwise operation reads.

    PyTorch copies tensors of another dtype than it computes in, attrs[0].
    """
    compute = attrs[0] if attrs else None
    if not isinstance(compute, DType) or all([m.dtype is compute for m in metas]):
        return [(m.shape, m.stride()) for m in metas]
    return [
        (m.shape, m.stride() if m.dtype is compute else like_strides(m.shape, m.stride()))
        for m in metas
    ]


def with_numbers(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """The layout of an elementwise result if PyTorch takes numbers for tensors without dims.

    That matters to dims of size 1 and 0 only. attrs are (compute dtype, pattern as "ts").
    """
    if _agree_on_rows(metas, meta):
        return None
    numbers = [((), ())] * (len(attrs[1]) - len(metas))
    return elementwise_strides(meta.shape, [*_read(metas, attrs), *numbers])


def as_scaled(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """The layout of the first operand times something of fewer dims."""
    first = metas[0]
    return elementwise_strides(meta.shape, [(first.shape, first.stride()), ((), ())])


def as_first(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """The layout of a copy of the first operand, if the result has its shape."""
    first = metas[0]
    if first.strides is None or first.shape != meta.shape:
        return None
    return like_strides(first.shape, first.strides)


def as_suggested(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """channels_last if the strides of every operand with as many dims suggest it."""
    like = [m for m in metas if m.ndim == meta.ndim]
    if any([m.strides is None or not prefers_channels_last(m.shape, m.strides) for m in like]):
        return None
    return channels_last_strides(meta.shape)


def as_any_suggests(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """channels_last if the strides of any operand with as many dims suggest it."""
    found = [as_suggested((m,), attrs, meta) for m in metas if m.ndim == meta.ndim]
    return next((strides for strides in found if strides is not None), None)


@hot_slots
@dataclass(eq=False, repr=False, slots=True)
class Op:
    """One operation and all that is known about it.

        kind         what the compiler does with it            rule it needs
        elementwise  one value per element                     emit(b, *operands) -> value
        reduce       folds trailing or leading dims            combine
        movement     rearranges elements, computes nothing     view(n, index) -> index
        generate     a value from numbers and the position     emit(b, position, *numbers)
        composite    written with other ops                    expand(n, *tensors) -> tensor
        kernel       has a native template of its own          lower
        host         runs its NumPy reference inside the plan  ref
        update       one rule over many tensors, in place      expand(args, *tensors), written
        gradient     backward over a pending graph             expand
        gradient_of  one result of a gradient                  -
        leaf         holds data                                -

    Rules common to all kinds:
    - `infer(metas, attrs, shape) -> Meta` gives shape and dtype, or raises at the user's line;
      `shape` is what the caller asked for where the inputs do not determine it, else None.
    - `ref` is the NumPy meaning: `ref(*operands)` for elementwise, else `ref(n, *arrays)`, where
      `n` has `attrs`, `args` and `meta`. Composites without one are run through `expand`.
    - `grads[i](g, y, *operands)` is the gradient of operand `i` (None: not differentiable), written
      with tensors, so gradients of any order exist. A composite without `grads` is differentiated
      through its expansion. `saves` says which values the rules read: "x" inputs, "y" output; which
      rule reads which, its code tells (graph/reading.py).
      A rule that may raise is marked `@may_refuse`.
      In PyTorch the gradient of each operand is a function of the first `linked` ones, whether its
      value depends on them or not: it requires a gradient if they do.
    - `autocast` says what `livegrad.autocast` does to floating inputs: "low" casts them to its
      dtype, "float32" to float32, "widest" to the widest among them; None leaves them.
    - `complex` says whether complex inputs are taken; by default elementwise ops and reductions
      refuse them, other kinds leave that to `infer`. Complex values are computed by `ref`.
    - `layout` gives the strides that PyTorch's result would have (see graph/layout.py), such as
      `as_iterated`, `as_first`, `as_suggested` above; without it they are those of row-major order,
      and `as_iterated` for elementwise ops. A view that starts elsewhere in the storage of its
      input says so by `offset(before, meta, attrs, args)`, where `meta` is the input's.
    - `lower` names the rules of the compiler, `lowered_by("scatter.Scatter", …)`; see
      compiler/lowerings. By default they are those of the kind.
    - `complaint(node, value)` says what is wrong with a value that a kernel has refused; `refuses`
      tells of which nodes that may happen, if not of all.
    - `batch(n, size, operands, batched)` is the rule of `vmap`, perhaps one of those that ops share
      (ops/support/batched.py). Without one, the kind has one, or the expansion is batched,
      or examples are computed one by one.
    - `outer` is (i, a, b) if the gradient of input i is the outer product of a and b, where these
      are single rows: numbers of inputs, or -1 for the gradient that comes.
    - `flops(node)` counts multiplications, of products and the like; see compiler/flops.py.
    - `grad_fn` is what PyTorch calls the gradient, or a rule(node) of ops/support/parts.py that
      tells; by default the name of the op in its words, such as `AddBackward0`.
    - `samples` is a function giving test inputs; a registered op without samples fails the tests.
    """

    name: str
    kind: str
    _: KW_ONLY
    infer: Callable[..., Any] | None = None
    ref: Callable[..., Any] | None = None
    grads: tuple[GradRule | None, ...] | None = None
    emit: Callable[..., Any] | None = None
    expand: Callable[..., Any] | None = None
    combine: str | None = None
    view: Callable[..., Any] | None = None
    write: Callable[..., Any] | None = None
    layout: LayoutRule | None = None
    offset: Callable[..., int] | None = None
    # Rules of the compiler, loaded when it first asks for them; `lowered` is what was given.
    lower: Lowering = None  # type: ignore[assignment]
    lowered: Any = field(init=False)
    complaint: Complaint | None = None
    refuses: Callable[[Node], bool] | None = None
    written: tuple[int, ...] = ()
    batch: Callable[..., Any] | None = None
    # How many random numbers a node draws: if any, its args end with a seed and an offset.
    draws: Callable[[Node], int] | None = None
    outer: tuple[int, int, int] | None = None
    flops: Callable[[Node], int] | None = None
    grad_fn: GradFn = None
    result: str = "promote"
    cheap: bool = False
    # A number beside half precisions is rounded to one, as by PyTorch's kernels that have no other
    # way to hold it; without this it keeps the precision that they are computed in.
    narrows: bool = False
    # Passes put it where it means something: by itself it is nothing to be run.
    inserted: bool = False
    # It shows a part of its input: attrs[0] says per dim what, args are places.
    picks: bool = False
    saves: str = "xy"
    linked: int = 0
    complex: bool | None = None
    autocast: str | None = None
    samples: Callable[..., Any] | None = None
    cache: dict[Any, Spec] = field(init=False, default_factory=dict)
    # Of an elementwise op: the dtypes that it computes in and gives, by those of its operands.
    promoted: dict[Any, tuple[DType, DType]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.lowered = self.lower
        del self.lower
        if self.layout is None and self.kind == "elementwise":
            self.layout = as_iterated
        if self.complex is None:
            self.complex = self.kind not in ("elementwise", "reduce")
        _check_complete(self)
        if self.name in REGISTRY:
            raise ValueError(f"op {self.name!r} is registered twice")
        REGISTRY[self.name] = self

    def __getattr__(self, name: str) -> Any:
        if name != "lower":
            raise AttributeError(f"{self!r} has no {name!r}")
        found = self.lowered or lowered_as(self.kind)
        self.lower = found.load() if isinstance(found, Lowered) else found
        return self.lower

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (REGISTRY.__getitem__, (self.name,))

    def converts(self, place: int) -> bool:
        """Whether an elementwise op takes the operand at `place` in its compute dtype.

        It takes all of them so, but for the condition of a selection.
        """
        return place > 0 or self.result != "select"

    def may_refuse(self, node: Node) -> bool:
        """Whether a kernel may find a value in which `node` sees a fault."""
        return self.complaint is not None and (self.refuses is None or self.refuses(node))

    @hot
    def remember(
        self, key: Any, attrs: tuple[Any, ...], metas: tuple[Meta, ...], meta: Meta
    ) -> Spec:
        """Stores and returns the spec for `key`, so that the next such node costs one look-up."""
        spec = self.make_spec(attrs, meta)
        self._store(key, spec, metas)
        return spec

    @hot
    def _store(self, key: Any, spec: Spec, metas: Sequence[Meta]) -> None:
        for meta in metas:
            if meta.device is not CPU:
                raise _is_elsewhere(self)
        Specs.made += 1
        if Specs.made >= Specs.sweep_at:
            Specs.sweep()
        self.cache[key] = spec
        if Session.current is not None:
            _note_symbolic(self, key, spec, metas)
        # Programs of ever new sizes make many, none of which is part of a cycle that may be
        # garbage: ops stay.
        untrack(spec)
        if type(key) is tuple:
            untrack(key)
            if len(key) > 0 and type(key[0]) is tuple:
                untrack(key[0])

    @hot
    def remember_as(self, key: Any, spec: Spec, metas: tuple[Meta, ...]) -> Spec:
        """Has a spec be found by another key, too."""
        self._store(key, spec, metas)
        return spec

    @hot
    def make_spec(self, attrs: tuple[Any, ...], meta: Meta) -> Spec:
        """A spec that is not stored."""
        spec = Spec(self, attrs, meta)
        if meta.dtype.category >= dtypes.FLOAT and (
            self.grads is not None or self.expand is not None
        ):
            spec.grad = True
        if self.kind == "elementwise":
            untrack(attrs)  # a dtype and a word
            spec.floats = attrs[0].category >= dtypes.FLOAT
        else:
            spec.floats = self.kind == "update"
        return spec

    @hot
    def remember_laid_out(self, key: Any, plain: Spec, metas: tuple[Meta, ...]) -> Spec:
        """Stores and returns the spec for `key`: `plain`, or as that with other strides."""
        spec = plain
        if self.layout is as_iterated and _agree_on_rows(metas, plain.meta):
            pass  # as most often
        elif self.layout is not None and (
            Session.current is None or not _any_symbolic(plain.meta, metas)
        ):
            meta = plain.meta.with_strides(self.layout(metas, plain.attrs, plain.meta))
            if meta is not plain.meta:
                spec = self.make_spec(plain.attrs, meta)
                spec.plain = plain
        self._store(key, spec, metas)
        return spec


def _is_elsewhere(op: Op) -> AssertionError:
    """For inputs elsewhere: a spec for them would make pending nodes."""
    return AssertionError(f"{op.name}: a tensor of another device got here")


def _note_symbolic(op: Op, key: Any, spec: Spec, metas: Sequence[Meta]) -> None:
    """Has a spec with symbols in it be forgotten when the planning is over."""
    if _any_symbolic(spec.meta, metas):
        assert Session.current is not None
        Session.current.interned.append((op.cache, key))


def _any_symbolic(meta: Meta, metas: Sequence[Meta]) -> bool:
    return any([is_symbolic(m) for m in (meta, *metas)])


_REQUIRED = {
    "elementwise": ("emit", "ref"),
    "reduce": ("infer", "ref", "combine"),
    "movement": ("infer", "ref", "view"),
    "generate": ("infer", "ref", "emit"),
    "composite": ("infer", "expand"),
    "kernel": ("infer", "ref", "lowered"),
    "host": ("infer", "ref"),
    "update": ("infer", "expand"),
    "gradient": ("infer", "expand"),
    "gradient_of": ("infer",),
    "leaf": (),
}


def _check_complete(op: Op) -> None:
    for rule in _REQUIRED[op.kind]:
        if getattr(op, rule) is None:
            raise TypeError(f"op {op.name!r} of kind {op.kind} needs the rule {rule!r}")


class Specs:
    """Lets go of specs that nobody refers to, whenever their number has doubled."""

    made = 0
    sweep_at = _FIRST_SWEEP

    @classmethod
    def sweep(cls) -> None:
        """Forgets every spec that no node and no plan has."""
        left = 0
        for op in REGISTRY.values():
            if op.cache:
                for key in _forgettable(op.cache):
                    del op.cache[key]
                left += len(op.cache)
        cls.made, cls.sweep_at = left, max(_FIRST_SWEEP, 2 * left)


def _forgettable(cache: dict[Any, Any]) -> list[Any]:
    """The keys of values that only the cache refers to, perhaps by several keys."""
    values = list(cache.values())
    keys = Counter([id(x) for x in values])
    # By each of its keys the cache and the list refer to it.
    return [key for key, x in cache.items() if sys.getrefcount(x) <= 2 * keys[id(x)] + _CACHED]


def _count_cached() -> int:
    """What else `sys.getrefcount` says of a value that is looked at so: loop and call."""
    cache = {0: object()}
    values = list(cache.values())
    (count,) = [sys.getrefcount(x) for _, x in cache.items()]
    return count - 1 - len(values)


_CACHED = _count_cached()


def forget_specs() -> None:
    """Empties every op's inference cache (results may depend on the default dtype)."""
    for op in REGISTRY.values():
        op.cache.clear()
        op.promoted.clear()


dtypes.on_default_change(forget_specs)

__all__ = ["REGISTRY", "GradRule", "Node", "Op", "forget_specs"]
