"""The ends of backward passes where these are sparse tensors: they are those of their elements."""

from __future__ import annotations

from typing import Any

from livegrad import autograd
from livegrad.graph.handle import Handle
from livegrad.sparse.core import SparseTensor


def _elements_of(x: Any) -> Any:
    return x._elements if isinstance(x, SparseTensor) else x


def _grad(
    plain: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **options: Any
) -> Any:
    """`autograd.grad` where outputs or inputs are sparse: that of their elements."""
    ends, starts = [[x] if isinstance(x, Handle) else list(x) for x in (outputs, inputs)]
    weights = _weights(ends, grad_outputs)
    found = plain(
        [_elements_of(x) for x in ends],
        [_elements_of(x) for x in starts],
        weights,
        *args,
        **options,
    )
    return tuple([
        g if g is None or not isinstance(x, SparseTensor) else x._with_gradient(g)
        for x, g in zip(starts, found, strict=True)
    ])  # fmt: skip


def _weights(ends: list[Any], given: Any) -> Any:
    if given is None:
        return None
    weights = [given] if isinstance(given, Handle) else list(given)
    return [
        y._gradient_of_elements(g) if isinstance(y, SparseTensor) and g is not None else g
        for y, g in zip(ends, weights, strict=True)
    ]


def _backward(
    plain: Any,
    tensors: Any,
    grad_tensors: Any = None,
    *args: Any,
    inputs: Any = None,
    **options: Any,
) -> None:
    ends = [tensors] if isinstance(tensors, Handle) else list(tensors)
    if inputs is not None:
        given = [inputs] if isinstance(inputs, Handle) else list(inputs)
        options["inputs"] = [_elements_of(x) for x in given]
    weights = _weights(ends, grad_tensors)
    plain([_elements_of(x) for x in ends], weights, *args, **options)


# What answers for a function of `livegrad.autograd`, given that function and its arguments.
ANSWERS: dict[Any, Any] = {autograd.grad: _grad, autograd.backward: _backward}
