"""Gradients along the way from a baseline to the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad import Tensor, cat, no_grad
from livegrad.attr.asking import (
    Forward,
    Tensors,
    as_tuple,
    ask,
    baselines_of,
    extras,
    like,
    repeated,
    slopes,
)

METHODS = ("gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid")
Slopes = Callable[[Tensors, Any, tuple[Any, ...]], Tensors]


def places(method: str, count: int) -> tuple[list[float], list[float]]:
    """Where between 0 and 1 a function is looked at, and how much of the integral each counts."""
    if count < 1:
        raise ValueError(f"n_steps must be at least 1, but is {count}")
    if method == "gausslegendre":
        points, weights = np.polynomial.legendre.leggauss(count)
        return ((points + 1) / 2).tolist(), (weights / 2).tolist()
    if method not in METHODS:
        raise ValueError(f"method {method!r} is not one of {', '.join(METHODS)}")
    weights = np.full(count, 1 / count)
    half = 1 / (2 * count)
    if method == "riemann_trapezoid":
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, count).tolist(), weights.tolist()
    shift = {"riemann_left": -half, "riemann_middle": 0, "riemann_right": half}[method]
    return np.linspace(half + shift, 1 - half + shift, count).tolist(), weights.tolist()


def integrated(
    slopes_at: Slopes,
    inputs: Tensors,
    baselines: tuple[Any, ...],
    target: Any,
    more: tuple[Any, ...],
    n_steps: int,
    method: str,
    most: int | None,
) -> Tensors:
    """The mean gradients along the way from the baselines to the inputs.

    Copies of the batch at several places of the way are one batch; of `most` examples, if said.
    """
    points, weights = places(method, n_steps)
    rows = inputs[0].size(0)
    together = n_steps if most is None else max(1, most // rows)
    totals: list[Any] = [0] * len(inputs)
    for begin in range(0, n_steps, together):
        some = points[begin : begin + together]
        batch = tuple(
            [
                cat([base + point * (x - base) for point in some])
                for x, base in zip(inputs, baselines, strict=True)
            ]
        )
        found = slopes_at(
            batch,
            repeated(target, rows, len(some)),
            tuple([repeated(x, rows, len(some)) for x in more]),
        )
        for i, slope in enumerate(found):
            parts = slope.split(rows)
            for weight, part in zip(weights[begin : begin + together], parts, strict=True):
                totals[i] = totals[i] + weight * part
    return tuple(totals)


def difference(
    forward: Forward,
    attributions: Tensors,
    baselines: tuple[Any, ...],
    inputs: Tensors,
    target: Any,
    more: tuple[Any, ...],
) -> Tensor:
    """What attributions add up to, less what the answers differ by: 0 if they are exact."""
    bases = tuple(
        [
            base if isinstance(base, Tensor) else x * 0 + base
            for x, base in zip(inputs, baselines, strict=True)
        ]
    )
    bases = tuple([base.expand_as(x) for x, base in zip(inputs, bases, strict=True)])
    with no_grad():
        change = ask(forward, inputs, target, more) - ask(forward, bases, target, more)
        total: Any = sum([x.flatten(1).sum(1) for x in attributions])
        return total - change.reshape(total.shape)  # type: ignore[no-any-return]


class IntegratedGradients:
    """Each element's part in the way of the answer from that of a baseline to that of the input.

    >>> import livegrad
    >>> x = livegrad.tensor([[1.0, 2.0]])
    >>> IntegratedGradients(lambda x: x[:, 0] * x[:, 1]).attribute(x).round(decimals=4)
    tensor([[1., 1.]])
    """

    def __init__(self, forward_func: Forward, multiply_by_inputs: bool = True) -> None:
        self.forward_func = forward_func
        self.multiply_by_inputs = multiply_by_inputs

    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """A value for each element; with how far their sum is from the whole change, if wanted."""
        given, more = as_tuple(inputs), extras(additional_forward_args)
        bases = baselines_of(baselines, given)
        given = tuple([x.detach() for x in given])
        found = integrated(
            lambda batch, wanted, rest: slopes(self.forward_func, batch, wanted, rest),
            given,
            bases,
            target,
            more,
            n_steps,
            method,
            internal_batch_size,
        )
        if self.multiply_by_inputs:
            triples = zip(given, bases, found, strict=True)
            found = tuple([(x - base) * slope for x, base, slope in triples])
        if not return_convergence_delta:
            return like(inputs, found)
        delta = difference(self.forward_func, found, bases, given, target, more)
        return like(inputs, found), delta
