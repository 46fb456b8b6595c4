"""Small questions about tensors, and the names that answer them."""

from __future__ import annotations

import math
from typing import Any

from livegrad import backends
from livegrad.creation import tensor
from livegrad.dtypes import DType
from livegrad.nn import functional
from livegrad.sequences import arange
from livegrad.storage import UntypedStorage
from livegrad.tensor import Tensor


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element of a tensor is not 0; RuntimeError if there is not one."""
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    return bool(input.is_inference())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return bool(input.shape == other.shape)


def is_storage(obj: Any) -> bool:
    """Whether this is a storage."""
    return isinstance(obj, UntypedStorage)


def is_distributed(input: Tensor) -> bool:
    """False."""
    return False


def get_device(input: Tensor) -> int:
    """-1: the CPU has no number."""
    return int(input.get_device())


def typename(obj: Any) -> str:
    """The name of a type: "torch.FloatTensor" of a tensor, "int" of a number."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    module, name = type(obj).__module__, type(obj).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight`: `nn.functional.embedding` with its tensors in the other order."""
    padding = None if padding_idx < 0 else padding_idx
    return functional.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq)


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Numbers from `start` to `end`, which is one of them; `arange` leaves it out."""
    if end is None:
        start, end = 0, start
    dtype: DType | None = options.pop("dtype", None) or tensor(1.0).dtype
    count = int((end - start) / step) + 1
    return arange(count, dtype=dtype, **options) * step + start


def get_deterministic_debug_mode() -> int:
    """0: results do not vary, and nobody has to be told."""
    return 0


def get_device_module(device: Any = None) -> Any:
    """The module of a device; the CPU's backend where there is no other."""
    return backends.cpu


def compiled_with_cxx11_abi() -> bool:
    """True: nothing is compiled that could disagree."""
    return True


# Sizes are numbers here, also for who traces a program.
SymInt, SymFloat, SymBool = int, float, bool


def sym_int(a: Any) -> int:
    """`int`."""
    return int(a)


def sym_float(a: Any) -> float:
    """`float`."""
    return float(a)


def sym_not(a: Any) -> bool:
    """`not`."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """`max`."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """`min`."""
    return min(a, b)


def sym_sum(args: Any) -> Any:
    """`sum`."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """A square root."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


def _shape_as_tensor(x: Tensor) -> Tensor:
    """The shape, as a tensor of integers."""
    return tensor(list(x.shape))
