"""Modules with their hooks, and optimisers over the leaves."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .pen import Pen, Stuck

MODULES = (
    "T.nn.Linear(3, 2)",
    "T.nn.Linear(3, 3, bias=False)",
    "T.nn.Sequential(T.nn.Linear(3, 3), T.nn.ReLU())",
    "T.nn.Sequential(T.nn.Flatten(), T.nn.Linear(6, 2))",
    "T.nn.LayerNorm(3)",
    "T.nn.Flatten()",
    "T.nn.BatchNorm1d(3)",
    "T.nn.PReLU()",
    "T.nn.Conv1d(2, 2, 2)",
)


def statement(pen: Pen) -> str:
    make = pen.choose(module, call, call, module_hook, optimizer, step, step, whole_step)
    return str(make(pen))


def opening(pen: Pen) -> list[str]:
    """A module, something to put into it, and an optimiser of its parameters."""
    m, x, o = pen.fresh(), pen.fresh(), pen.fresh()
    shape = pen.choose((2, 3), (3, 3), (2, 2, 3))
    grad = pen.choose("", ", requires_grad=True")
    return [
        made(pen, m),
        f"{x} = {pen.literal(shape, 'float32', grad)}",
        f"{o} = {any_optimizer(pen, f'{m}.parameters()')}",
    ]


def module(pen: Pen) -> str:
    return made(pen, pen.fresh())


def made(pen: Pen, name: str, modules: Sequence[str] = MODULES) -> str:
    """A module whose parameters are set to known numbers, on one line."""
    numbers = "T.arange(p.numel()).reshape(p.shape) / 4 - 1"
    setting = f"[p.data.copy_({numbers}) for p in {name}.parameters()]"
    return f"{name} = {pen.choose(*modules)}; {setting}"


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
    backward = f"{m}.register_full_backward_hook(lambda m, gi, go: "
    return str(
        pen.choose(
            f"{m}.register_forward_hook(lambda m, x, y: y * 2)",
            f"{m}.register_forward_hook(lambda m, x, y: log.append(('{m}', y.detach().clone())))",
            f"{m}.register_forward_pre_hook(lambda m, x: (x[0] + 1,))",
            f"{backward}log.append(('{m}', go[0].clone())))",
            f"{backward}tuple([g if g is None else g * 2 for g in gi]))",
            f"{m}.zero_grad()",
            f"{m}.eval()",
            f"{m}.requires_grad_(False)",
        )
    )


def optimizer(pen: Pen) -> str:
    modules = [f"*{name}.parameters()" for name in pen.named(is_module)]
    taken = {id(p) for name in pen.named(is_module) for p in pen.value(name).parameters()}
    leaves = [
        name
        for name in pen.named(lambda x: isinstance(x, torch.Tensor) and x.is_leaf)
        if pen.value(name).requires_grad and id(pen.value(name)) not in taken
    ]
    if not leaves and not modules:
        raise Stuck
    chosen = pen.rng.sample([*leaves, *modules], min(len(leaves) + len(modules), pen.choose(1, 2)))
    return f"{pen.fresh()} = {any_optimizer(pen, '[' + ', '.join(chosen) + ']')}"


def any_optimizer(pen: Pen, parameters: str) -> str:
    kind = pen.choose(
        "SGD({}, lr=0.5)",
        "SGD({}, lr=0.25, momentum=0.5)",
        "SGD({}, lr=0.25, momentum=0.5, nesterov=True, weight_decay=0.5)",
        "Adam({}, lr=0.25)",
        "AdamW({}, lr=0.25, weight_decay=0.5)",
        "RMSprop({}, lr=0.25)",
        "Adagrad({}, lr=0.25)",
    )
    return f"T.optim.{kind.format(parameters)}"


def is_optimizer(x: object) -> bool:
    return isinstance(x, torch.optim.Optimizer)


def step(pen: Pen) -> str:
    o = pen.pick(is_optimizer)
    return str(
        pen.choose(f"{o}.step()", f"{o}.step()", f"{o}.zero_grad()", f"{o}.zero_grad(False)")
    )


def whole_step(pen: Pen) -> str:
    """Gradients away, forward, backward, update: on one line, so that nothing is read between."""
    m, o = pen.pick(is_module), pen.pick(is_optimizer)
    x = pen.tensor(lambda x: x.dtype == torch.float32 and x.dim() > 1)
    loss = pen.choose(
        f"({m}({x}) ** 2).mean()", f"{m}({x}).sum()", f"F.l1_loss({m}({x}), {m}({x}) * 2)"
    )
    return f"{o}.zero_grad(); {loss}.backward(); {o}.step()"
