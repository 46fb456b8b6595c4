"""Optimisers whose update of a parameter is one elementwise rule: one node per group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from livegrad.creation import full_like, zeros_at_once
from livegrad.graph.elsewhere import Sparse
from livegrad.graph.op import Op
from livegrad.ops.bookkeeping.update import (
    apply_rule,
    define,
    registered_once,
    streams_of,
    update,
    with_gradient,
)
from livegrad.ops.elementwise.arithmetic import add, mul, neg
from livegrad.ops.support import samples as s
from livegrad.optim.optimizer import Group, Optimizer
from livegrad.optim.options import number
from livegrad.optim.rows import apart, update_rows
from livegrad.runtime.counts import are_equal, count_on, number_in

# Structural variants of a rule, each a registered op: which options are in use.
Flags = tuple[str, ...]
State = dict[str, Any]


class Ruled(Optimizer):
    """An optimiser defined by the rule for one parameter.

    A subclass says what the state of a parameter is (`streams`, `numbers`), and for parameters of
    equal age which variant of the rule applies, with which run-time numbers (`arguments`). The
    parameters of a group that are equally old, most often all, are updated by one node.
    """

    # Name of the registered ops.
    op_name: ClassVar[str]
    # Numbers in the state of a parameter, and what they start from.
    numbers: ClassVar[dict[str, float]] = {"step": 0}

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """New values of the parameter and its state tensors."""
        raise NotImplementedError

    def streams(self, group: Group) -> dict[str, float]:
        """Names of a parameter's state tensors, in the order of the rule, and their first value."""
        raise NotImplementedError

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """The variant of the rule, its numbers, and the new numbers of the state."""
        raise NotImplementedError

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "counts" not in cls.__dict__:
            cls.counts = tuple(cls.numbers)

    def update_group(self, group: Group) -> None:
        """Records the update of one group: one node if all its parameters are equally old."""
        params, grads = with_gradient(group["params"])
        if Sparse.exist and self.takes_sparse:
            params, grads, sparse = apart(params, grads)
            for p, g in sparse:
                self._update_by_sparse(group, p, g)
        if not params:
            return
        states = [self.state[p] for p in params]
        streams = self.streams(group)
        numbers: State = {}
        if are_equal(states, list(self.numbers), numbers):
            self._update(group, streams, params, grads, states, numbers)
            return
        for p, state in zip(params, states, strict=True):
            if not state:
                self._start(p, state, streams)
        for batch in self._by_age(params, grads, states):
            self._update(group, streams, *batch, self._numbers(batch[2][0]))

    def _update_by_sparse(self, group: Group, p: Any, g: Any) -> None:
        state, streams = self.state[p], self.streams(group)
        if not state:
            self._start(p, state, streams)
        flags, args, new = self.arguments(group, self._numbers(state))
        update_rows(partial(self.rule, flags, args), p, g, [state[name] for name in streams])
        count_on([state], new)

    def _numbers(self, state: State) -> State:
        return {name: number_in(state, name) for name in self.numbers}

    def _start(self, p: Any, state: State, streams: dict[str, float]) -> None:
        state.update(self.numbers)
        self._keep_counts(state)
        for name, first in streams.items():
            state[name] = full_like(p, first) if first else zeros_at_once(p)
            state[name].requires_grad_(False)

    def _by_age(
        self, params: list[Any], grads: list[Any], states: list[State]
    ) -> list[tuple[list[Any], list[Any], list[State]]]:
        """Batches of parameters that are equally old, with their gradients and states."""
        batches: dict[tuple[float, ...], tuple[list[Any], list[Any], list[State]]] = {}
        for p, g, state in zip(params, grads, states, strict=True):
            self._keep_counts(state)  # somebody may have put others there
            age = tuple(self._numbers(state).values())
            batch = batches.setdefault(age, ([], [], []))
            batch[0].append(p)
            batch[1].append(g)
            batch[2].append(state)
        return list(batches.values())

    def _update(
        self,
        group: Group,
        streams: dict[str, float],
        params: list[Any],
        grads: list[Any],
        states: list[State],
        numbers: State,
    ) -> None:
        flags, args, new = self.arguments(group, numbers)
        op = ruled_op(self.op_name, self.rule, flags, len(streams))
        record = apply_rule if group.get("differentiable") else update
        record(op, streams_of([params, grads], states, list(streams)), args)
        count_on(states, new)  # after the rule: its arguments may be these tensors


@registered_once
def ruled_op(name: str, rule: Callable[..., Any], flags: Flags, streams: int) -> Op:
    """The update op of an optimiser for a set of options."""
    variant = f"{name}[{','.join(flags)}]" if flags else name
    written = (0, *range(2, 2 + streams))
    return define(variant, partial(rule, flags), written, samples=s.calls())


def common_flags(group: Group) -> Flags:
    """The options that `adjusted` looks at."""
    flags: Flags = ("maximize",) if group["maximize"] else ()
    return (*flags, "decay") if group.get("weight_decay") else flags


def adjusted(flags: Flags, g: Any, p: Any, decay: Any) -> Any:
    """The gradient with its sign turned and weight decay added, as the flags say."""
    if "maximize" in flags:
        g = neg(g)
    return add(g, mul(p, decay)) if "decay" in flags else g


def decay_of(group: Group) -> tuple[Flags, float]:
    """Flags and number for weight decay that is added to the gradient, or decoupled from it.

    The number is the weight decay, or, decoupled, what the parameter is multiplied by.
    """
    decay = number(group["weight_decay"])
    flags: Flags = ("maximize",) if group["maximize"] else ()
    if not decay:
        return flags, decay
    if group.get("decoupled_weight_decay"):
        return (*flags, "decoupled"), 1.0 - number(group["lr"]) * decay
    return (*flags, "decay"), decay


def running_mean(mean: Any, x: Any, fresh: Any) -> Any:
    """`mean` moved towards `x` by the part `fresh`."""
    return add(mean, mul(x - mean, fresh))


__all__ = [
    "Flags", "Ruled", "State", "adjusted", "common_flags", "decay_of", "ruled_op", "running_mean",
]  # fmt: skip
