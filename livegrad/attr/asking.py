"""What all methods share: a model asked about inputs, and which of its answers is explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from livegrad import Tensor, autograd, cat, enable_grad, tensor
from livegrad.nn import Module

Forward = Callable[..., Any]
Tensors = tuple[Tensor, ...]


def as_tuple(x: Any) -> Tensors:
    """A tensor, or several, as a tuple."""
    found = x if isinstance(x, tuple) else (x,)
    for item in found:
        if not isinstance(item, Tensor):
            raise TypeError(
                f"inputs must be a tensor or a tuple of them, not {type(item).__name__}"
            )
    return found


def like(given: Any, results: Sequence[Any]) -> Any:
    """Results as the inputs were given: a tensor, or a tuple."""
    return tuple(results) if isinstance(given, tuple) else results[0]


def extras(additional_forward_args: Any) -> tuple[Any, ...]:
    """Further arguments of the model, as a tuple."""
    if additional_forward_args is None:
        return ()
    if isinstance(additional_forward_args, tuple):
        return additional_forward_args
    return (additional_forward_args,)


def baselines_of(baselines: Any, inputs: Tensors) -> tuple[Any, ...]:
    """What each input is compared with: 0 unless said."""
    if baselines is None:
        return (0,) * len(inputs)
    found = baselines if isinstance(baselines, tuple) else (baselines,)
    if len(found) != len(inputs):
        raise ValueError(f"there are {len(inputs)} inputs, but {len(found)} baselines")
    return found


def selected(output: Any, target: Any) -> Tensor:
    """The value of each example that `target` names.

    It is a class for all, or one for each (a list, a tensor); a tuple where an example has more
    than one dim of answers; None where there is one answer each.
    """
    if target is None:
        return output  # type: ignore[no-any-return]
    rows = output.size(0)
    if isinstance(target, Tensor) and target.numel() == 1:
        target = target.item()
    if isinstance(target, int):
        return output[:, target]  # type: ignore[no-any-return]
    if isinstance(target, tuple):
        return output[(slice(None), *target)]  # type: ignore[no-any-return]
    places = target.tolist() if isinstance(target, Tensor) else list(target)
    if len(places) != rows:
        raise ValueError(f"there are {rows} examples, but {len(places)} targets")
    columns = [(place,) if isinstance(place, int) else place for place in places]
    index = (range(rows), *zip(*columns, strict=True))
    return output[tuple([tensor(list(part)) for part in index])]  # type: ignore[no-any-return]


def ask(forward: Forward, inputs: Tensors, target: Any, more: tuple[Any, ...]) -> Tensor:
    """The answers that are explained."""
    return selected(forward(*inputs, *more), target)


def slopes(forward: Forward, inputs: Tensors, target: Any, more: tuple[Any, ...]) -> Tensors:
    """The gradients of the answers with respect to the inputs."""
    leaves = tuple([x.detach().requires_grad_() for x in inputs])
    with enable_grad():
        answers = ask(forward, leaves, target, more)
        _check_answers(answers, inputs)
        return tuple(autograd.grad(answers.sum(), leaves))


def _check_answers(answers: Tensor, inputs: Tensors) -> None:
    if answers.numel() > 1 and answers.numel() != inputs[0].size(0):
        raise ValueError(
            f"the model gives {tuple(answers.shape)} for {inputs[0].size(0)} examples: `target`"
            " says which of them is explained"
        )


def repeated(value: Any, rows: int, times: int) -> Any:
    """Arguments for `times` copies of a batch, one copy after the other."""
    if isinstance(value, Tensor) and value.ndim and value.size(0) == rows:
        return cat([value] * times)
    if isinstance(value, list) and len(value) == rows:
        return value * times
    return value


@contextmanager
def watching(layer: Module, take: Callable[[Any], Any], before: bool = False) -> Iterator[None]:
    """Calls `take` with what the layer gives, or is given; what it returns takes its place."""
    if before:
        hook = layer.register_forward_pre_hook(lambda module, args: take(_only(args)))
    else:
        hook = layer.register_forward_hook(lambda module, args, output: take(_only(output)))
    try:
        yield
    finally:
        hook.remove()


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


def values_of(
    forward: Forward, layer: Module, inputs: Tensors, more: tuple[Any, ...], before: bool = False
) -> Any:
    """What a layer gives, or is given, when the model is asked."""
    found: list[Any] = []
    with watching(layer, found.append, before):
        forward(*inputs, *more)
    if not found:
        raise ValueError(f"the model does not use the layer {type(layer).__name__}")
    return found[-1]
