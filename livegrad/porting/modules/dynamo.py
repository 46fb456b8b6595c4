"""`torch._dynamo`: what programs say to PyTorch's tracer of Python. There is none to hear it."""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

from livegrad.nn.module import Module
from livegrad.porting.modules.compiler import (
    allow_in_graph as allow_in_graph,
    assume_constant_result as assume_constant_result,
    disable as disable,
    is_compiling as is_compiling,
    list_backends as list_backends,
    reset as reset,
)
from livegrad.porting.modules.switches import switches

F = TypeVar("F")

__path__: list[str] = []
config = switches(f"{__name__}.config")


class OptimizedModule(Module):
    """What `torch.compile` makes of a module in PyTorch. Here it stays the module."""


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[F], F]:
    """A decorator that changes nothing."""
    return lambda function: function


optimize_assert = optimize


def graph_break(*args: Any) -> None:
    """Nothing: a graph may go on behind any line."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Nothing: sizes are arguments of kernels anyway."""


maybe_mark_dynamic = mark_static = mark_unbacked = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Nothing: kernels are told where values are."""


class Explanation:
    """What `explain` finds out: there are no graphs that break."""

    graph_count = 1
    graph_break_count = 0
    break_reasons: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return "Graph Count: 1\nGraph Break Count: 0\nlivegrad.explain() says what ran last"


def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `f`, and says that its graph did not break; `explain(f)(…)` is the usual way."""

    def inner(*args: Any, **kwargs: Any) -> Explanation:
        f(*args, **kwargs)
        return Explanation()

    return inner(*args, **kwargs) if args or kwargs else inner


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """A block that changes nothing: plans are kept as long as there is room."""
    yield


class TorchDynamoException(RuntimeError):
    """What PyTorch's tracer raises; nothing does here, but programs catch it."""


_FAULTS = (
    "BackendCompilerFailed FailOnRecompileLimitHit InternalTorchDynamoError InvalidBackend "
    "RecompileError TorchRuntimeError Unsupported UserError"
).split()


# `torch._dynamo.utils.counters` and `torch._dynamo.eval_frame` are files that programs import.
utils = ModuleType(f"{__name__}.utils")
utils.__dict__.update(
    counters=defaultdict(Counter),
    is_compile_supported=lambda device_type: False,
    disable_cache_limit=disable_cache_limit,
    warn_once=cache(warnings.warn),
)
eval_frame = ModuleType(f"{__name__}.eval_frame")
eval_frame.__dict__["OptimizedModule"] = OptimizedModule
exc = ModuleType(f"{__name__}.exc")
exc.__dict__.update(
    {"TorchDynamoException": TorchDynamoException}
    | {name: type(name, (TorchDynamoException,), {"__module__": exc.__name__}) for name in _FAULTS}
)
for _module in (utils, eval_frame, exc):
    sys.modules[_module.__name__] = _module


class TransformGetItemToIndex:
    """Within it, tensors with one element may be indices in functions that are mapped: they may."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *error: object) -> None:
        pass
