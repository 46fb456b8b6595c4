"""From PyTorch to livegrad and back: functions by name, arguments, results.

An OpInfo whose function is a lambda of the test database (`lambda x, n: torch.polygamma(n, x)`)
is run as that same lambda, with livegrad standing where it says `torch`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import livegrad
import livegrad.nn

MASKING = "ops.picking.masking"

# Names under which an entry of the database is found elsewhere in livegrad.
ALIASES = {
    "cauchy": "Tensor.cauchy_",
    "cdouble": "Tensor.cdouble",  # the name alone is a dtype
    "cfloat": "Tensor.cfloat",
    "exponential": "Tensor.exponential_",
    "geometric": "Tensor.geometric_",
    "log_normal": "Tensor.log_normal_",
    "uniform": "Tensor.uniform_",
    "_unsafe_masked_index": f"{MASKING}._unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate": f"{MASKING}._unsafe_masked_index_put_accumulate",
    "slice": "ops.shaping.slicing.slice_along",
    "torch.ops.aten._safe_softmax.default": "_safe_softmax",
}


class _Internal:
    """`torch.ops.aten` as functions of the database see it: the functions of these names here."""

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace(default=find(name))


livegrad.ops.aten = _Internal()  # type: ignore[attr-defined]

# Arguments that say where and how memory lies, which livegrad decides for itself.
DROPPED = {"device", "memory_format", "pin_memory"}


class Unsupported(Exception):
    """An argument or a result that livegrad has no counterpart of."""


# ---------------------------------------------------------------------------------- functions


def find(name: str) -> Any:
    """livegrad's function, method or property of PyTorch's `name`, or None."""
    for path in (ALIASES.get(name), name, f"Tensor.{name}"):
        if path is None:
            continue
        found: Any = livegrad
        try:
            for part in path.split("."):
                found = getattr(found, part)
        except AttributeError:
            continue
        return found
    return None


def counterpart(op: Any) -> Callable[..., Any] | None:
    """The function that livegrad has for an OpInfo, or None."""
    found = find(op.name)
    if found is None:
        return None
    if (
        isinstance(op.op, types.FunctionType)
        and op.op.__module__
        and op.op.__module__.startswith("torch.testing")
    ):
        return translated(op.op)
    return found if callable(found) else None


def translated(function: Any) -> Any:
    """The same Python function with `torch` meaning livegrad, in what it closes over too."""
    if not isinstance(function, types.FunctionType):
        return function
    names = {**function.__globals__, "torch": livegrad, "wrapper_set_seed": call}
    for name in function.__code__.co_names:
        helper = function.__globals__.get(name)
        if isinstance(helper, types.FunctionType) and name != "wrapper_set_seed":
            names[name] = translated(helper)
    cells = tuple(types.CellType(_closed_over(cell)) for cell in function.__closure__ or ())
    made = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of the database's `wrapper_set_seed`: just the call."""
    return function(*args, **kwargs)


def _closed_over(cell: Any) -> Any:
    value = cell.cell_contents
    return Converter()(value) if isinstance(value, torch.Tensor) else translated(value)


# ---------------------------------------------------------------------------------- arguments


class Converter:
    """Turns arguments into livegrad's; the same tensor given twice is the same tensor again.

    With `views`, what is a view of another tensor becomes one again.
    """

    def __init__(self, views: bool = False) -> None:
        self.views = views
        self.made: dict[int, Any] = {}

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if id(x) not in self.made:
                self.made[id(x)] = self.tensor(x)
            return self.made[id(x)]
        if isinstance(x, torch.dtype):
            return dtype_of(x)
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, torch.device):
            return x.type
        if isinstance(x, torch.layout):
            return getattr(livegrad, str(x).removeprefix("torch."))
        if isinstance(x, torch.Generator):
            return livegrad.Generator().manual_seed(x.initial_seed())
        if isinstance(x, slice):
            return slice(self(x.start), self(x.stop), self(x.step))
        if isinstance(x, tuple) and type(x) is not tuple:
            return tuple(map(self, x))
        if isinstance(x, list | tuple):
            return type(x)(map(self, x))
        if isinstance(x, dict):
            return {key: self(value) for key, value in x.items()}
        if isinstance(x, torch.nn.Module):
            return self.module(x)
        return translated(x)

    def tensor(self, x: torch.Tensor) -> Any:
        base = x._base
        if not self.views or base is None or base.dtype is not x.dtype:
            return to_livegrad(x)
        return livegrad.as_strided(self(base), x.size(), x.stride(), x.storage_offset())

    def module(self, x: Any) -> Any:
        made = getattr(livegrad.nn, type(x).__name__, None)
        if made is None:
            raise Unsupported(f"no livegrad.nn.{type(x).__name__}")
        return made()

    def call(self, sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of a SampleInput."""
        kwargs = {k: self(v) for k, v in sample.kwargs.items() if k not in DROPPED}
        return (self(sample.input), *map(self, sample.args)), kwargs


def dtype_of(dtype: torch.dtype) -> Any:
    """livegrad's dtype of the same name."""
    name = str(dtype).removeprefix("torch.")
    found = getattr(livegrad, name, None)
    if found is None:
        raise Unsupported(f"no dtype {name}")
    return found


def to_livegrad(x: torch.Tensor) -> Any:
    """A leaf with the same values, dtype and wish for a gradient."""
    if x.layout is not torch.strided:
        return _sparse_to_livegrad(x)
    if x.device.type != "cpu":
        raise Unsupported(f"no device {x.device}")
    dtype = dtype_of(x.dtype)
    plain = x.detach().resolve_conj().resolve_neg()
    if x.dtype is torch.bfloat16:
        made = livegrad.tensor(plain.float().numpy()).to(dtype)
    else:
        made = livegrad.tensor(np.array(plain.numpy()))
    return made.requires_grad_() if x.requires_grad else made


def _indices(x: Any, layout: str) -> list[Any]:
    if layout == "sparse_coo":
        return [x._indices()]
    by_rows = layout in ("sparse_csr", "sparse_bsr")
    names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    return [getattr(x, name)() for name in names]


def _sparse_to_livegrad(x: torch.Tensor) -> Any:
    layout = str(x.layout).removeprefix("torch.")
    values = x.detach()._values() if layout == "sparse_coo" else x.detach().values()
    parts = [to_livegrad(part) for part in (*_indices(x.detach(), layout), values)]
    more = {"is_coalesced": x.is_coalesced()} if layout == "sparse_coo" else {}
    made = getattr(livegrad, f"{layout}_tensor")(*parts, tuple(x.shape), **more)
    return made.requires_grad_() if x.requires_grad else made


# ------------------------------------------------------------------------------------ results


def to_torch(x: Any) -> Any:
    """A result of livegrad as PyTorch would hold it; reading the values runs what is pending."""
    if isinstance(x, livegrad.Tensor) and x.layout is not livegrad.strided:
        layout = x.layout.name
        parts = [to_torch(part) for part in (*_indices(x, layout), x.detach()._values())]
        more = {"is_coalesced": x.is_coalesced()} if layout == "sparse_coo" else {}
        return getattr(torch, f"{layout}_tensor")(*parts, tuple(x.shape), **more)
    if isinstance(x, livegrad.Tensor):
        dtype = getattr(torch, x.dtype.name)
        plain = x.detach()
        if dtype is torch.bfloat16:
            return torch.from_numpy(np.array(plain.float().numpy())).to(dtype)
        return torch.from_numpy(np.array(plain.numpy()))
    if isinstance(x, list | tuple):
        return tuple(map(to_torch, x))
    if isinstance(x, dict):
        return {key: to_torch(value) for key, value in x.items()}
    if isinstance(x, livegrad.dtype):
        return getattr(torch, x.name)
    return x


def flatten(x: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts."""
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in flatten(value)]
    if isinstance(x, list | tuple):
        return [leaf for value in x for leaf in flatten(value)]
    return [x]


def brief(x: Any) -> str:
    """One line that says which sample it was."""
    if isinstance(x, torch.Tensor):
        name = str(x.dtype).removeprefix("torch.")
        return f"{name}{list(x.shape)}" if x.ndim else f"{name}[] {x.item():.4g}"
    if isinstance(x, list | tuple):
        return f"({', '.join(map(brief, x))})"
    if isinstance(x, dict):
        return ", ".join(f"{key}={brief(value)}" for key, value in x.items())
    if callable(x):
        return getattr(x, "__name__", type(x).__name__)
    return repr(x)
