"""Trying things out on a model and its optimiser, which are afterwards as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from livegrad.autograd import no_grad
from livegrad.graph.handle import Handle, node_of, wrap
from livegrad.lint.hearing import paused
from livegrad.nn.module import Module
from livegrad.nn.parameter import is_lazy
from livegrad.optim.optimizer import Optimizer
from livegrad.train.seeding import rng_state, set_rng_state
from livegrad.utils.data import DataLoader

Undo = Callable[[], None]


@contextmanager
def restored(*objects: Any) -> Iterator[None]:
    """After the block, the objects and the random number generators are as they were before.

    Objects are modules, optimisers, and others with `state_dict` and `load_state_dict`; those
    without, such as a list of batches, are left alone. The training lint does not look at what is
    only tried out.
    """
    rng = rng_state()
    undo = [_undo_for(x) for x in objects]
    with paused():
        try:
            yield
        finally:
            for put_back in undo:
                put_back()
            set_rng_state(rng)


def _undo_for(x: Any) -> Undo:
    if isinstance(x, Module):
        return _undo_module(x)
    if isinstance(x, Optimizer):
        return _undo_optimizer(x)
    if isinstance(x, DataLoader) and x._epoch is not None and not x._epoch.finished:
        return lambda: None  # it was left within an epoch, and begins anew in any case
    if hasattr(x, "state_dict") and hasattr(x, "load_state_dict"):
        state = deepcopy(x.state_dict())
        return lambda: x.load_state_dict(state)
    return lambda: None


def _held(value: Any) -> Any:
    """A value with its tensors as they are now.

    Nothing is copied: a node does not change, and while somebody refers to it, updates are not
    made in place.
    """
    if isinstance(value, Handle):
        return wrap(node_of(value))
    if isinstance(value, list | tuple):
        return type(value)(_held(x) for x in value)
    if isinstance(value, dict):
        return {name: _held(x) for name, x in value.items()}
    return value


def _undo_module(model: Module) -> Undo:
    modules = [(m, m.training, dict(m._buffers)) for m in model.modules()]
    tensors = [*model.parameters(), *model.buffers()]
    tensors = [t for t in tensors if not is_lazy(t)]
    values = [(t, _held(t), t.grad) for t in tensors]

    def put_back() -> None:
        for module, training, buffers in modules:
            module.training = training
            for name, buffer in buffers.items():
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
        with no_grad():
            for tensor, value, grad in values:
                if node_of(tensor) is not value._node:
                    tensor.copy_(value)
                tensor.grad = grad

    return put_back


def _undo_optimizer(optimizer: Optimizer) -> Undo:
    options = [{k: deepcopy(v) for k, v in g.items() if k != "params"} for g in _groups(optimizer)]
    state = {p: _held(values) for p, values in optimizer.state.items()}
    taken = optimizer.steps_taken

    def put_back() -> None:
        for group, before in zip(_groups(optimizer), options, strict=True):
            for name in [k for k in group if k != "params" and k not in before]:
                del group[name]
            group.update(before)
        optimizer.state.clear()
        optimizer.state.update(state)
        optimizer.steps_taken = taken

    return put_back


def _groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    return optimizer.param_groups
