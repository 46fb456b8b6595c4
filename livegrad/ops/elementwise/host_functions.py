"""Elementwise functions that run on the host: rare ones, not worth native code.

They behave like any elementwise op: operands are tensors and numbers, broadcast and promoted by
PyTorch's rules, and gradient rules see all of them. Their values come from NumPy or SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import wrong_class
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import broadcast_shapes, elementwise_dtypes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import GradRule, Op, with_numbers
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise.arithmetic import cast, clone, zero_gradient
from livegrad.ops.making.generate import filled
from livegrad.ops.support import batched, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def define_on_host(
    name: str,
    function: Callable[..., Any],
    grads: tuple[GradRule | None, ...] | None = None,
    *,
    samples: s.SampleRule,
    result: str = "float",
    saves: str = "xy",
) -> Op:
    """Registers an elementwise op whose value is `function` of NumPy arrays.

    `grads` has a rule `rule(g, y, *operands)` for each operand, which sees numbers as 0-d tensors.
    An operand without a rule raises when its gradient is asked for. `result` is the rule for
    dtypes, as for elementwise ops.
    """
    rules = None if grads is None else tuple([_rule(grads, i) for i in range(len(grads))])
    if grads is not None:
        _WITHOUT_DERIVATIVE[name] = tuple([i for i, rule in enumerate(grads) if rule is None])
    op: Op
    op = Op(
        name,
        "host",
        # attrs (compute dtype, pattern, result dtype), args the numbers, as for elementwise ops.
        infer=lambda metas, attrs, shape: _infer(name, metas, attrs),
        ref=lambda n, *arrays: function(*_arrays(n, arrays)),
        grads=rules,
        result=result,
        saves=saves,
        complex=False,
        layout=with_numbers,
        batch=batched.elementwise,
        samples=lambda: _called(op, samples),
    )
    return op


def apply(op: Op, *operands: Any) -> Tensor:
    """Records `op` of tensors and numbers."""
    missing = _WITHOUT_DERIVATIVE.get(op.name, ())
    if missing:
        operands = tuple([refuse_gradient(op.name, i, x) if i in missing else x
                          for i, x in enumerate(operands)])  # fmt: skip
    tensors = [x for x in operands if isinstance(x, Handle)]
    numbers = [_number(op, x) for x in operands if not isinstance(x, Handle)]
    if not tensors:
        raise TypeError(f"{op.name}: got only numbers; expected at least one tensor")
    kinds = [node_of(x).meta if isinstance(x, Handle) else _kind(x) for x in operands]
    compute, result = elementwise_dtypes(op, kinds)
    pattern = "".join(["t" if isinstance(x, Handle) else "s" for x in operands])
    return record(op, tensors, (compute, pattern, result), tuple(numbers))


# Which operands of an op have no rule, while others have.
_WITHOUT_DERIVATIVE: dict[str, tuple[int, ...]] = {}


def _refuse_expand(n: Any, x: Tensor) -> Tensor:
    if LOCAL.state.grad:  # backward differentiates the expansion of what has no rules
        name, place = n.attrs
        raise NotImplementedError(
            f"{name}: the derivative by operand {place} is not implemented. detach() the operand "
            "if it needs no gradient"
        )
    return clone(x)


REFUSE_GRADIENT: Op = Op(
    "refuse_gradient",
    "composite",
    # The operand itself; attrs (name, place) of whose operand it is, for the message.
    infer=lambda metas, attrs, shape: metas[0],
    expand=_refuse_expand,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3),), lambda x: record(REFUSE_GRADIENT, (x,), ("op", 0)), smooth=False
        )
    ),
)


def refuse_gradient(name: str, place: int, x: Any) -> Any:
    """`x`, through which `backward` raises that an op has no derivative by this operand."""
    if not isinstance(x, Handle) or node_of(x).grad_to is None or not LOCAL.state.grad:
        return x
    return record(REFUSE_GRADIENT, (x,), (name, place))


def need_tensors(name: str, **operands: Any) -> None:
    """Raises unless all operands are tensors, for functions that PyTorch has for tensors alone."""
    for argument, x in operands.items():
        if not isinstance(x, Handle):
            raise TypeError(
                f"{name}(): argument '{argument}' must be Tensor, not {type(x).__name__}. "
                "Convert it first with livegrad.tensor(...)"
            )


def _number(op: Op, x: Any) -> Any:
    if isinstance(x, bool | int | float):
        return x
    if isinstance(x, np.generic):
        return x.item()
    raise wrong_class(x, "Tensor or number", op.name)


def _kind(x: Any) -> type:
    """The Python type of a number, also of a run-time one."""
    if isinstance(x, bool | np.bool_):
        return bool
    return int if isinstance(x, int | np.integer) else float


def _infer(name: str, metas: tuple[Meta, ...], attrs: tuple[Any, ...]) -> Meta:
    return meta_of(broadcast_shapes(name, [m.shape for m in metas]), attrs[2])


def _arrays(n: Any, arrays: Sequence[Array]) -> list[Any]:
    """The operands in the compute dtype, with the numbers in their places."""
    storage = n.attrs[0].compute.storage
    tensors, numbers = iter(arrays), iter(n.args)
    return [
        next(tensors).astype(storage, copy=False)
        if letter == "t"
        else np.asarray(next(numbers)).astype(storage)
        for letter in n.attrs[1]
    ]


def _rule(grads: tuple[GradRule | None, ...], index: int) -> GradRule:
    """The rule for the tensor with this index among the tensors."""

    def rule(g: Tensor, y: Tensor, *tensors: Tensor) -> Tensor:
        compute, pattern, _ = y._node.attrs
        place = [i for i, letter in enumerate(pattern) if letter == "t"][index]
        chosen = grads[place]
        if chosen is None:  # beyond is `refuse_gradient`
            return zero_gradient(g, y)
        left, right = iter(tensors), iter(y._node.args)
        operands = [
            cast(next(left), compute) if letter == "t" else filled((), next(right), compute)
            for letter in pattern
        ]
        found: Tensor = chosen(g, y, *operands)
        return found

    return rule


def _called(op: Op, samples: s.SampleRule) -> Iterator[s.Sample]:
    for sample in samples():
        yield replace(sample, call=sample.call or (lambda *operands: apply(op, *operands)))
