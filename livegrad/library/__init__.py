"""Operations of your own, from outside the package: `livegrad.library`, after `torch.library`.

An operation is a Python function of tensors. It is recorded as one node, like any other, and runs
when its value is needed, between the kernels of a plan; it may use NumPy, SciPy, or any library.

```python
import numpy as np
import livegrad as lg

@lg.library.custom_op("mine::cube", mutates_args=())
def cube(x: lg.Tensor) -> lg.Tensor:
    return lg.from_numpy(x.numpy() ** 3)

@cube.register_fake                                 # shape and dtype, without values
def _(x):
    return lg.empty_like(x)

def backward(ctx, g):                               # written with tensors: it has gradients, too
    (x,) = ctx.saved_tensors
    return 3 * x * x * g

def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

cube.register_autograd(backward, setup_context=setup_context)
```

Without `register_fake`, only running it tells the shape of the result: then it runs at once. vmap
calls it for each example, unless `register_vmap` says better.

A function that writes to tensors it is given names them, `mutates_args=("out",)`. It runs at once,
on the tensors themselves, and has no gradient, as in PyTorch.

`Library`, `define` and `impl` are the older way: a schema in words first, then functions for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from livegrad.library.checks import TESTS, Call, results_of
from livegrad.library.libraries import Library, define, impl, register_kernel
from livegrad.library.operation import CustomOpDef, definition_of, get_ctx

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "get_ctx",
    "impl",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
    "triton_op",
]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """Makes an operation of a function; a decorator if `fn` is left out.

    `name` is `"namespace::name"`. Arguments are tensors, lists of tensors, None, and what can be
    compared and has a hash: numbers, words, dtypes, tuples of them (those are structure: each new
    value makes a new plan). Results are a tensor, or a tuple of tensors, none of them an argument.

    `mutates_args` names the arguments that the function writes to; "unknown" means any of them.
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema
        )
    if "::" not in name:
        raise ValueError(f'custom_op(name, ...): name must be "namespace::name", got {name!r}')
    signature = inspect.signature(fn)
    op = CustomOpDef(name, signature, None, _names_written(signature, mutates_args))
    op.__doc__ = fn.__doc__
    register_kernel(op, device_types, fn)
    return op


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    schema: str | None = None,
) -> Any:
    """`custom_op`: no compiler looks into the function here."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def _names_written(signature: inspect.Signature, given: Any) -> frozenset[str]:
    """The parameters that a function writes to, from `mutates_args`."""
    parameters = signature.parameters
    if isinstance(given, str):
        if given != "unknown":
            raise ValueError(
                "mutates_args must either be a sequence of the names of the arguments that are "
                f"mutated or the string 'unknown'; got {given!r}"
            )
        return frozenset(parameters)
    unknown = set(given).difference(parameters)
    if unknown:
        raise ValueError(
            f"custom_op: {unknown} in mutates_args were not found in the custom op's signature "
            f"{signature}"
        )
    for name in given:
        kind = parameters[name].annotation
        if kind is not inspect.Parameter.empty and "Tensor" not in str(kind):
            raise ValueError(
                f"custom_op: Parameter {name} is in mutates_args but only Tensors or collections "
                f"of Tensors can be mutated; got {signature}"
            )
    return frozenset(given)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """`op.register_fake`, of an operation or its name."""
    register = definition_of(op).register_fake
    return register if func is None else register(func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """`op.register_autograd`, of an operation or its name."""
    definition_of(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """`op.register_vmap`, of an operation or its name."""
    register = definition_of(op).register_vmap
    return register if func is None else register(func)


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] | None = None,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Whether an operation does what was said about it, asked with these arguments.

    The result has "SUCCESS" for each test; the first error is raised, or in the result if not
    `raise_exception`.
    """
    tests = [test_utils] if isinstance(test_utils, str) else list(test_utils or TESTS)
    call = Call(definition_of(op), tuple(args), kwargs or {}, {"atol": atol, "rtol": rtol})
    return results_of(call, tests, raise_exception)
