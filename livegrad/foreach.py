"""`torch._foreach_*`: one operation for each tensor of a list; those that follow are fused anyway.

_foreach_add(tensors, other, alpha=1)     [x + alpha * y …]: a number, a tensor, or a list
_foreach_mul_(tensors, 0.9)               in place
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.ops.linalg.norms import vector_norm
from livegrad.tensor import Tensor

# Methods of Tensor that take as many tensors, numbers or lists more as they are listed under.
_METHODS = {
    0: "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 "
    "neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero",
    1: "add sub mul div pow clamp_min clamp_max copy",
    2: "addcdiv addcmul lerp",
}
_COUNTS = {name: count for count, names in _METHODS.items() for name in names.split()}
# Of lists, as in PyTorch, these take numbers and have a form in place, too.
_OTHERWISE = {"maximum": "clamp_min", "minimum": "clamp_max"}
PREFIX = "_foreach_"


def foreach(name: str) -> Callable[..., Any] | None:
    """The function of a name such as "_foreach_add_"; None if there is none."""
    method = name.removeprefix(PREFIX)
    if method in ("norm", "max"):
        return _foreach_norm if method == "norm" else _foreach_max
    plain = method.removesuffix("_")
    if plain in _OTHERWISE:
        method = method.replace(plain, _OTHERWISE[plain])
        plain = _OTHERWISE[plain]
    if plain not in _COUNTS or (method in ("zero", "copy")):
        return None
    function = _over_lists(method, in_place=method != plain)
    function.__name__ = function.__qualname__ = name
    return function


def _over_lists(method: str, in_place: bool) -> Callable[..., Any]:
    def each(self: Sequence[Tensor], /, *given: Any, **options: Any) -> Any:
        """The method of the same name, for each tensor; lists give each its own argument."""
        tensors, others = list(self), list(given)
        if not tensors:
            raise RuntimeError("Tensor list must have at least one tensor.")
        if method.startswith("addc") and len(others) == 3:
            *others, options["value"] = others  # numbers: the methods take them by name
        columns = [_column(method, other, len(tensors)) for other in others]
        named = {k: _column(method, v, len(tensors)) for k, v in options.items()}
        out = [
            getattr(x, method)(*[c[i] for c in columns], **{k: v[i] for k, v in named.items()})
            for i, x in enumerate(tensors)
        ]
        return None if in_place else tuple(out)

    return each


def _column(method: str, other: Any, count: int) -> Sequence[Any]:
    """An argument for each tensor."""
    if method.startswith("addc") and isinstance(other, Tensor):
        other = other.tolist()
    if not isinstance(other, list | tuple):
        return [other] * count
    if len(other) != count:
        raise RuntimeError(
            f"_foreach_{method}: tensor lists must have the same number of tensors, "
            f"got {count} and {len(other)}"
        )
    return other


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of each tensor."""
    return tuple([vector_norm(x, ord, dtype=dtype) for x in self])


def _foreach_max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The largest element of each tensor."""
    return tuple([x.max() for x in self])
