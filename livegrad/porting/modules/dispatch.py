"""`torch.utils._python_dispatch` and fake tensors: what stands on PyTorch's dispatcher.

livegrad has none: operations are recorded as they are called. Whoever asks is told that no tensor
is of such a kind; whoever begins to use it gets an error that says what to use instead.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NoReturn

from livegrad.tensor import Tensor

__path__: list[str] = []  # so that `torch._subclasses.fake_tensor` is found


class TorchDispatchMode:
    """Sees operations below autograd: cannot be entered."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        raise NotImplementedError

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__}: livegrad has no dispatcher below autograd. "
            "Use torch.overrides.TorchFunctionMode, which sees the functions that are called"
        )

    def __exit__(self, *raised: object) -> None:
        """Nothing was begun."""


class FakeTensorMode(TorchDispatchMode):
    """Tensors without values: cannot be entered; `device="meta"` is there."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass


class FakeTensor(Tensor):
    """A tensor of such a mode: there are none."""


class FunctionalTensor(Tensor):
    """A tensor of `functionalize`: there are none."""


def get_proxy_mode() -> None:
    """None: nothing is traced below autograd."""


def make_fx(*args: Any, **options: Any) -> NoReturn:
    """RuntimeError: there is no dispatcher to trace by; `fx.symbolic_trace` is there."""
    raise RuntimeError(
        "make_fx: livegrad has no dispatcher below autograd. Use torch.fx.symbolic_trace"
    )


def is_fake(x: object) -> bool:
    """False."""
    return False


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: no tensor is made of others."""
    return False


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """False."""
    return False


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """The tensor: it is not wrapped."""
    return tensor


unset_fake_temporarily = nullcontext
