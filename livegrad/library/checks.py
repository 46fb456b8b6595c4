"""Whether an operation of `livegrad.library` does what was said about it: `library.opcheck`.

The tests have PyTorch's names, and ask what these ask: whether only arguments that are named are
written to, whether a gradient is attached, whether the fake function tells the truth, and whether
recorded calls and calls at once agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.autograd import grad
from livegrad.ops.support.reading import equal
from livegrad.tensor import Tensor
from livegrad.testing import assert_close


class OpCheckError(Exception):
    """An operation is not what was said about it."""


class Call:
    """A call of an operation, to be made again and again on copies of its arguments."""

    def __init__(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any], close: Any) -> None:
        self.op, self.args, self.kwargs, self.close = op, args, kwargs, close

    def copied(self) -> dict[str, Any]:
        """The arguments by name, tensors as copies."""
        bound = self.op._signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        return {name: _copy(value) for name, value in bound.arguments.items()}

    def made(self, arguments: dict[str, Any], at_once: bool = False) -> list[Tensor]:
        """The results: of the function itself if `at_once`, else as programs get them."""
        if at_once:
            arguments = {name: _detached(value) for name, value in arguments.items()}
        results = (self.op._function if at_once else self.op)(**arguments)
        found = results if isinstance(results, tuple | list) else [results]
        return [x for x in found if isinstance(x, Tensor)]


def _copy(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach().clone().requires_grad_(x.requires_grad)
    return type(x)(map(_copy, x)) if isinstance(x, list | tuple) else x


def _tensors(x: Any) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
    return [y for part in parts for y in _tensors(part)]


def _schema(call: Call) -> None:
    given = call.copied()
    before = {name: _copy(value) for name, value in given.items()}
    results = call.made(given, at_once=True)
    for name, value in given.items():
        same = all(map(equal, _tensors(_detached(value)), _tensors(_detached(before[name]))))
        if not same and name not in call.op._written:
            raise OpCheckError(
                f"{call.op.__name__}: argument {name} is not defined as mutable but was mutated. "
                f"Name it in mutates_args"
            )
    memory = {x.untyped_storage().data_ptr() for x in _tensors(given) if x.numel()}
    if any(y.untyped_storage().data_ptr() in memory for y in results if y.numel()):
        raise OpCheckError(
            f"{call.op.__name__}: a result is an argument, or a view of one. Return a clone() of it"
        )


def _detached(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach()
    return type(x)(map(_detached, x)) if isinstance(x, list | tuple) else x


def _autograd_registration(call: Call) -> None:
    given = call.copied()
    wanted = any(x.requires_grad for x in _tensors(given))
    if wanted and not call.op._written:
        results = [y for y in call.made(given) if y.is_floating_point() or y.is_complex()]
        if results and not any(y.requires_grad for y in results):
            raise OpCheckError(f"{call.op.__name__}: no result has a gradient. register_autograd()")


def _faketensor(call: Call) -> None:
    if call.op._fake is None and not call.op._written:
        raise OpCheckError(f"{call.op.__name__}: there is no fake function. register_fake() one")
    if call.op._fake is not None:
        for y in call.made(call.copied()):
            y.detach().numpy()  # which compares shapes and dtypes with what was told


def _dispatch(call: Call) -> None:
    given = call.copied()
    results, expected = call.made(given), call.made(call.copied(), at_once=True)
    for y, z in zip(results, expected, strict=True):
        assert_close(y.detach(), z.detach(), **call.close)
    leaves = [x for x in _tensors(given) if x.requires_grad]
    ends = [y for y in results if y.requires_grad]
    if leaves and ends and call.op._backward is not None:
        for x, g in zip(
            leaves, grad(sum(y.sum() for y in ends), leaves, allow_unused=True), strict=True
        ):
            if g is not None and g.shape != x.shape:
                raise OpCheckError(
                    f"{call.op.__name__}: a gradient is {tuple(g.shape)}, its argument "
                    f"{tuple(x.shape)}"
                )


TESTS: dict[str, Callable[[Call], None]] = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd_registration,
    "test_faketensor": _faketensor,
    "test_aot_dispatch_dynamic": _dispatch,
}


def results_of(call: Call, tests: Sequence[str], raise_exception: bool) -> dict[str, Any]:
    """What each test says: "SUCCESS", or the error, unless errors are raised."""
    found: dict[str, Any] = {}
    for name in tests:
        if name not in TESTS:
            raise RuntimeError(f"opcheck: {name} is none of {', '.join(TESTS)}")
        try:
            TESTS[name](call)
            found[name] = "SUCCESS"
        except Exception as error:
            failed = OpCheckError(f"opcheck(op, ...): {name} failed with {error}")
            if raise_exception:
                raise failed from error
            found[name] = failed
    return found
