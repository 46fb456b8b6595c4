"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from livegrad.creation import zeros_at_once
from livegrad.graph.elsewhere import Sparse
from livegrad.graph.op import Op
from livegrad.ops.bookkeeping.update import (
    Rule,
    apply_rule,
    buffers_of,
    define,
    registered_once,
    update,
    with_gradient,
)
from livegrad.ops.elementwise.arithmetic import add, clone, mul, neg, sub
from livegrad.ops.shaping.movement import detach
from livegrad.ops.support import samples as s
from livegrad.optim.optimizer import Group, Optimizer
from livegrad.optim.options import (
    check_range,
    check_rate,
    check_ways,
    number,
)
from livegrad.optim.rows import add_rows, apart

# Structural variants, each a registered op: which of these options are in use.
# "first": the momentum buffer takes the gradient as it is.
Flags = tuple[str, ...]


def sgd_rule(flags: Flags) -> Rule:
    """The update of one parameter, with args (lr, weight decay, momentum, 1 - dampening)."""

    def rule(args: Any, p: Any, g: Any, buffer: Any = None) -> tuple[Any, ...]:
        lr, decay, momentum, fresh = args
        if "maximize" in flags:
            g = neg(g)
        if "decay" in flags:
            g = add(g, mul(p, decay))
        if "momentum" not in flags:
            return (sub(p, mul(g, lr)),)
        if "first" in flags:
            buffer = clone(detach(g))  # as PyTorch: no gradient flows into the first one
        else:
            buffer = add(mul(buffer, momentum), mul(g, fresh))
        direction = add(g, mul(buffer, momentum)) if "nesterov" in flags else buffer
        return sub(p, mul(direction, lr)), buffer

    return rule


@registered_once
def sgd_op(flags: Flags) -> Op:
    """The update op for a set of options."""
    name = f"sgd[{','.join(flags)}]" if flags else "sgd"
    written = (0, 2) if "momentum" in flags else (0,)
    return define(name, sgd_rule(flags), written, samples=s.calls())


class SGD(Optimizer):
    """`p -= lr * g`, with momentum, weight decay and Nesterov's look ahead if wanted.

    Args:
        params: parameters, or dicts of groups with options of their own.
        lr: the learning rate.
        momentum: how much of the last step is done again.
        dampening: the share of a new gradient that the momentum leaves out.
        weight_decay: how much of a parameter is added to its gradient.
        nesterov: look ahead by the momentum.
        maximize: whether steps go up.

    Example:
        >>> w = nn.Parameter(lg.tensor([1.0]))
        >>> optimizer = optim.SGD([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.8000], requires_grad=True)
    """

    takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_range("momentum value", momentum, 0.0)
        check_range("weight_decay value", weight_decay, 0.0)
        check_ways(foreach, differentiable, fused)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def update_group(self, group: Group) -> None:
        """Records the update of one group: one node, or two when some parameters are new."""
        params, grads = with_gradient(group["params"])
        if Sparse.exist:
            params, grads, sparse = apart(params, grads)
            for p, g in sparse:
                self._update_by_sparse(group, p, g)
        if not params:
            return
        momentum, decay = number(group["momentum"]), number(group["weight_decay"])
        args = (number(group["lr"]), decay, momentum, 1.0 - number(group["dampening"]))
        flags: Flags = ()
        if decay or group["maximize"]:
            flags = ("decay",) * (decay != 0) + ("maximize",) * group["maximize"]
        record = apply_rule if group.get("differentiable") else update
        if momentum == 0:
            record(sgd_op(flags), (params, grads), args)
        else:
            nesterov = ("nesterov",) * group["nesterov"]
            self._with_momentum(record, params, grads, ("momentum", *nesterov, *flags), args)

    def _update_by_sparse(self, group: Group, p: Any, g: Any) -> None:
        """As for dense gradients; the momentum buffer is sparse, too."""
        if group.get("fused"):
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        if group["weight_decay"]:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead. SGD: "
                "weight_decay is not for sparse gradients"
            )
        g = -g if group["maximize"] else g
        momentum = number(group["momentum"])
        if momentum:
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            fresh = 1.0 - number(group["dampening"])
            total = g.coalesce().clone() if buffer is None else buffer * momentum + g * fresh
            state["momentum_buffer"] = total = total.coalesce()
            g = g + total * momentum if group["nesterov"] else total
        add_rows(p, g, -number(group["lr"]))

    def _start_again(self, params: list[Any]) -> None:
        # As in PyTorch, which looks for buffers before it updates: they start each time.
        for p in params:
            self.state.pop(p, None)

    def _with_momentum(
        self,
        record: Any,
        params: list[Any],
        grads: list[Any],
        flags: Flags,
        args: tuple[float, ...],
    ) -> None:
        states = [self.state[p] for p in params]
        buffers = buffers_of(states)
        if len(buffers) == len(params):
            record(sgd_op(flags), (params, grads, buffers), args)
            return
        known: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        new: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for p, g, state in zip(params, grads, states, strict=True):
            buffer = state.get("momentum_buffer")
            streams = new if buffer is None else known
            streams[0].append(p)
            streams[1].append(g)
            streams[2].append(zeros_at_once(p) if buffer is None else buffer)
        record(sgd_op(flags), known, args)
        record(sgd_op((*flags, "first")), new, args)
        for p, _, buffer in zip(*new, strict=True):
            self.state[p]["momentum_buffer"] = buffer


__all__ = ["SGD"]
