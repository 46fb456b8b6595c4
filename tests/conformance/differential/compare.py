"""What of two variables is compared, and how exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# Relative to the largest number of the tensor: two libraries round differently and add in other
# orders, in programs of a few operations over a few numbers.
TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 8e-3,
    "bfloat16": 6e-2,
}

ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda x: str(x.dtype).split(".")[-1],
    "shape": lambda x: tuple(x.shape),
    "requires_grad": lambda x: x.requires_grad,
    "is_leaf": lambda x: x.is_leaf,
    "retains_grad": lambda x: x.retains_grad,
    "stride": lambda x: tuple(x.stride()),
    "storage_offset": lambda x: x.storage_offset(),
    "is_contiguous": lambda x: x.is_contiguous(),
}
LAYOUT = ("stride", "storage_offset", "is_contiguous")
WHAT = (*ATTRIBUTES, "grad", "version")


class Unequal(Exception):
    """A variable differs in `what`, which groups differences, as `detail` says."""

    def __init__(self, what: str, name: str, detail: str):
        super().__init__(f"{name}: {what}: {detail}")
        self.what, self.name, self.detail = what, name, detail


def compare(name: str, want: Any, got: Any, without: frozenset[str]) -> None:
    """Raises `Unequal` unless PyTorch's variable `want` and livegrad's `got` agree."""
    if is_tensor(want) and is_tensor(got):
        compare_tensors(name, want, got, without)
    elif isinstance(want, bool | int | float | complex | str | None.__class__):
        compare_plain(name, want, got)
    elif isinstance(want, tuple | list) and isinstance(got, tuple | list):
        if len(want) != len(got):
            raise Unequal("length", name, f"torch {len(want)}, livegrad {len(got)}")
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            compare(f"{name}[{i}]", a, b, without)
    elif isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        compare_arrays(name, want, got)
    elif is_tensor(want) != is_tensor(got):
        raise Unequal("type", name, f"torch {type(want)}, livegrad {type(got)}")


def compare_arrays(name: str, want: np.ndarray, got: np.ndarray) -> None:
    if (want.dtype, want.shape) != (got.dtype, got.shape):
        raise Unequal(
            "array", name, f"torch {want.dtype, want.shape}, livegrad {got.dtype, got.shape}"
        )
    tolerance = TOLERANCE.get(want.dtype.name, 0)
    if not close(want.ravel().astype(complex), got.ravel().astype(complex), tolerance):
        raise Unequal("array", name, f"torch {want.tolist()}, livegrad {got.tolist()}")


def compare_identities(want: dict[str, Any], got: dict[str, Any]) -> None:
    """Two names stand for one tensor in PyTorch if and only if they do here."""
    theirs, mine = first_names(want), first_names(got)
    for name in theirs:
        if theirs[name] != mine.get(name):
            raise Unequal("identity", name, f"torch's {theirs[name]}, livegrad's {mine.get(name)}")


def compare_logs(want: list[Any], got: list[Any], without: frozenset[str]) -> None:
    """Every hook wrote the same; which of two runs first is not promised."""
    if len(want) != len(got):
        raise Unequal("log", "log", f"torch {want}, livegrad {got}")
    left = list(got)
    for tag, value in want:
        for i, (other_tag, other) in enumerate(left):
            if tag == other_tag and equal(value, other, without | {*LAYOUT}):
                del left[i]
                break
        else:
            raise Unequal("log", "log", f"torch ({tag}, {value}), livegrad {left}")


def equal(want: Any, got: Any, without: frozenset[str]) -> bool:
    try:
        compare("", want, got, without)
    except Unequal:
        return False
    return True


def compare_writes(want: dict[str, int], got: dict[str, int]) -> None:
    """Every tensor's `_version` rose by the same number since the tensor was made."""
    for name in want:
        if want[name] != got.get(name):
            detail = f"rose by {want[name]} in torch, by {got.get(name)} here"
            raise Unequal("version", name, detail)


def first_names(variables: dict[str, Any]) -> dict[str, str]:
    """For each tensor's name the first name of the same tensor."""
    first: dict[int, str] = {}
    return {n: first.setdefault(id(x), n) for n, x in variables.items() if is_tensor(x)}


def is_tensor(x: Any) -> bool:
    return hasattr(x, "storage_offset")


def compare_tensors(
    name: str, want: Any, got: Any, without: frozenset[str], above: tuple[Any, ...] = ()
) -> None:
    """`above` are PyTorch's tensors of which these are the gradient, or the gradient's gradient."""
    for attribute in ("dtype", "shape"):
        same(attribute, name, want, got, without)
    if (found := unequal_values(want, got)) is not None:
        raise Unequal("value", name, f"{found}")
    for attribute in ATTRIBUTES:
        same(attribute, name, want, got, without)
    if "grad" not in without and all(want is not x for x in above):
        compare_grads(name, want, got, without, (*above, want))


def compare_grads(
    name: str, want: Any, got: Any, without: frozenset[str], above: tuple[Any, ...]
) -> None:
    if (want.grad is None) != (got.grad is None):
        raise Unequal("grad", name, f"torch {want.grad}, livegrad {got.grad}")
    if want.grad is not None:
        skipped = without | {*LAYOUT, "retains_grad"}
        try:
            compare_tensors(f"{name}.grad", want.grad, got.grad, skipped, above)
        except Unequal as found:
            raise Unequal(f"grad {found.what}", found.name, found.detail) from None


def same(attribute: str, name: str, want: Any, got: Any, without: frozenset[str]) -> None:
    if attribute in without:
        return
    (a, words), (b, _) = answer(attribute, want), answer(attribute, got)
    if a != b:
        where = f" of shape {tuple(want.shape)}" if attribute in LAYOUT else ""
        if attribute in ("requires_grad", "is_leaf"):
            where = f" of dtype {ATTRIBUTES['dtype'](want)} of shape {tuple(want.shape)}"
        raise Unequal(attribute, name, f"torch {a}, livegrad {b}{where}{words}")


def answer(attribute: str, x: Any) -> tuple[Any, str]:
    """An attribute; or the class of its error, and its words, which may not be said again.

    PyTorch gives up some views of what is written.
    """
    try:
        return ATTRIBUTES[attribute](x), ""
    except RuntimeError as error:
        return type(error), f": {error!s:.200}"


def compare_plain(name: str, want: Any, got: Any) -> None:
    if type(want) is not type(got):
        raise Unequal("type", name, f"torch {want!r}, livegrad {got!r}")
    if want == got or (want != want and got != got):
        return
    if not isinstance(want, float | complex) or not math.isclose(
        abs(want - got), 0, abs_tol=TOLERANCE["float32"] * max(1, abs(want))
    ):
        raise Unequal("number", name, f"torch {want!r}, livegrad {got!r}")


def unequal_values(want: Any, got: Any) -> str | None:
    """How the values differ, or None if they agree as far as the dtype's tolerance."""
    a, b = want.tolist(), got.tolist()
    if a == b:
        return None
    tolerance = TOLERANCE.get(ATTRIBUTES["dtype"](want))
    if tolerance is not None and close(numbers(a), numbers(b), tolerance):
        return None
    return f"torch {shown(a)}, livegrad {shown(b)}"


def numbers(values: Any) -> np.ndarray:
    return np.array(list(flat(values)), dtype=np.complex128)


def flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for x in values:
            yield from flat(x)
    else:
        yield values


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether all numbers are equal, both NaN, or as near as the largest of them allows."""
    with np.errstate(all="ignore"):
        finite = np.abs(a[np.isfinite(a)])
        scale = max(finite.max(initial=0), 1e-3)
        near = np.abs(a - b) <= tolerance * scale
    return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())


def shown(values: Any) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(shown(x) for x in values) + "]"
    return f"{values:.7g}" if isinstance(values, float) else str(values)
