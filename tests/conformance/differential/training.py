"""Modules with their hooks, and optimisers over the leaves."""

from __future__ import annotations

import torch

from .pen import Pen, Stuck


def statement(pen: Pen) -> str:
    make = pen.choose(module, call, call, module_hook, optimizer, step, step, step)
    return str(make(pen))


def module(pen: Pen) -> str:
    """A module whose parameters are set to known numbers, on one line."""
    name = pen.fresh()
    made = pen.choose(
        "T.nn.Linear(3, 2)",
        "T.nn.Linear(4, 3, bias=False)",
        "T.nn.Sequential(T.nn.Linear(3, 3), T.nn.ReLU())",
        "T.nn.LayerNorm(3)",
        "T.nn.Flatten()",
        "T.nn.BatchNorm1d(3)",
        "T.nn.PReLU()",
        "T.nn.Conv1d(3, 2, 2)",
    )
    setting = (
        f"[p.data.copy_(T.arange(p.numel()).reshape(p.shape) / 4 - 1) for p in {name}.parameters()]"
    )
    return f"{name} = {made}; {setting}"


def is_module(x: object) -> bool:
    return isinstance(x, torch.nn.Module)


def call(pen: Pen) -> str:
    m = pen.pick(is_module)
    x = pen.tensor(lambda x: x.dtype == torch.float32 and x.dim() > 1)
    if pen.chance(0.3):
        parameters = [n for n, _ in pen.value(m).named_parameters()]
        if not parameters:
            raise Stuck
        p = pen.choose(*parameters)
        return f"{pen.fresh()} = {m}.get_parameter('{p}')"
    return f"{pen.fresh()} = {m}({x})"


def module_hook(pen: Pen) -> str:
    m = pen.pick(is_module)
    return pen.choose(
        f"{m}.register_forward_hook(lambda m, x, y: y * 2)",
        f"{m}.register_forward_hook(lambda m, x, y: log.append(('{m}', y.detach().clone())))",
        f"{m}.register_forward_pre_hook(lambda m, x: (x[0] + 1,))",
        f"{m}.register_full_backward_hook(lambda m, gi, go: log.append(('{m}', go[0].clone())))",
        f"{m}.register_full_backward_hook(lambda m, gi, go: tuple(g and g * 2 for g in gi))"
        if pen.chance(0.1)
        else f"{m}.zero_grad()",
        f"{m}.eval()",
        f"{m}.requires_grad_(False)",
    )


def optimizer(pen: Pen) -> str:
    leaves = pen.named(lambda x: isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad)
    if not leaves:
        raise Stuck
    chosen = pen.rng.sample(leaves, min(len(leaves), pen.choose(1, 2, 3)))
    kind = pen.choose(
        "SGD({}, lr=0.5)",
        "SGD({}, lr=0.25, momentum=0.5)",
        "SGD({}, lr=0.25, momentum=0.5, nesterov=True, weight_decay=0.5)",
        "Adam({}, lr=0.25)",
        "AdamW({}, lr=0.25, weight_decay=0.5)",
        "RMSprop({}, lr=0.25)",
        "Adagrad({}, lr=0.25)",
    )
    return f"{pen.fresh()} = T.optim.{kind.format('[' + ', '.join(chosen) + ']')}"


def step(pen: Pen) -> str:
    o = pen.pick(lambda x: isinstance(x, torch.optim.Optimizer))
    return pen.choose(f"{o}.step()", f"{o}.step()", f"{o}.zero_grad()", f"{o}.zero_grad(False)")
