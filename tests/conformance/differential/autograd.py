"""Backward passes, first and second gradients, hooks, modes."""

from __future__ import annotations

import torch

from .arithmetic import expression
from .pen import Pen, Stuck


def statement(pen: Pen) -> str:
    make = pen.choose(
        *[backward] * 4, gradient, gradient, hook, hook, mode, retain, twice, function
    )
    return str(make(pen))


def differentiable(x: torch.Tensor) -> bool:
    return x.requires_grad and (x.is_floating_point() or x.is_complex())


def result(pen: Pen) -> str:
    """Something with a graph; now and then anything."""
    if pen.chance(0.04):
        return pen.tensor()
    return pen.tensor(lambda x: differentiable(x) and (not x.is_leaf or pen.chance(0.2)))


def scalar(x: str, v: torch.Tensor) -> str:
    """A number made of a tensor, whose gradient tells its elements apart."""
    if v.is_complex():
        return f"{x}.abs().sum()"
    if v.dim() == 0:
        return x
    return f"({x} * T.arange({v.numel()}).reshape({tuple(v.shape)})).sum()"


def backward(pen: Pen) -> str:
    y = result(pen)
    v = pen.value(y)
    option = pen.choose("", "retain_graph=True", "retain_graph=True", "create_graph=True")
    return pen.choose(
        f"{y}.sum().backward({option})",
        f"{scalar(y, v)}.backward({option})",
        f"{y}.backward(T.ones_like({y}){', ' if option else ''}{option})",
        f"({y} * {y}).sum().backward({option})",
        f"{y}.backward({option})",
    )


def gradient(pen: Pen) -> str:
    y = result(pen)
    x = pen.tensor(differentiable)
    graph = pen.choose("", ", create_graph=True", ", create_graph=True", ", retain_graph=True")
    unused = pen.choose("", ", allow_unused=True", ", allow_unused=True")
    return f"{pen.fresh()}, = T.autograd.grad({scalar(y, pen.value(y))}, [{x}]{graph}{unused})"


def twice(pen: Pen) -> str:
    """A gradient of a gradient in one line."""
    y, x = result(pen), pen.tensor(differentiable)
    first = f"T.autograd.grad(({y} ** 2).sum(), {x}, create_graph=True)[0]"
    return pen.choose(
        f"(({first}) ** 2).sum().backward()",
        f"{pen.fresh()}, = T.autograd.grad(({first}).sum(), {x}, retain_graph=True)",
    )


def retain(pen: Pen) -> str:
    x = pen.tensor(lambda x: differentiable(x) or pen.chance(0.05))
    return f"{fresh_graph(x)}{x}.retain_grad()"


def hook(pen: Pen) -> str:
    x = pen.tensor(lambda x: differentiable(x) or pen.chance(0.03))
    does = pen.choose(
        "g * 2",
        "g + 1",
        f"log.append(('{x}', g.sum().item()))",
        f"log.append(('{x}', g.detach().clone()))",
        "g.clone().zero_()",
        "None",
    )
    does = f"g if g is None else {does}"  # PyTorch calls hooks of parts that got no gradient
    removed = pen.chance(0.1)
    when = "register_hook"
    if pen.chance(0.15) and pen.value(x).is_leaf:
        when, does = "register_post_accumulate_grad_hook", f"log.append(('{x}', g.grad.clone()))"
    return f"{fresh_graph(x)}{x}.{when}(lambda g: {does}){'.remove()' if removed else ''}"


def fresh_graph(x: str) -> str:
    """PyTorch 2.13 crashes at a hook on a view whose base was written to, unless asked this."""
    return f"{x}.grad_fn; "


def mode(pen: Pen) -> str:
    name = pen.fresh()
    context = pen.choose(
        "T.no_grad()",
        "T.no_grad()",
        "T.enable_grad()",
        "T.set_grad_enabled(False)",
        "T.set_grad_enabled(True)",
        "T.inference_mode()" if pen.chance(0.3) else "T.no_grad()",
    )
    return f"with {context}: {name} = {expression(pen)}"


def function(pen: Pen) -> str:
    """A function with a backward of its own."""
    x = pen.tensor(differentiable)
    if pen.value(x).is_complex():
        raise Stuck
    forward = pen.choose("x * 2", "x.clone()", "x.exp()", "x.sum()")
    rule = pen.choose("g * 3", "g + 0", "g * ctx.saved_tensors[0]")
    body = (
        "{'forward': staticmethod(lambda ctx, x: (ctx.save_for_backward(x), "
        f"{forward})[1]), 'backward': staticmethod(lambda ctx, g: {rule})}}"
    )
    return f"{pen.fresh()} = type('Own', (T.autograd.Function,), {body}).apply({x})"
