"""How tensors travel to other processes: their memory is shared, and only where it lies is sent."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from livegrad.creation import as_leaf
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape, meta_of
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.runtime.lent import Spread
from livegrad.runtime.shared import on_memory, place_of, spread
from livegrad.tensor import Tensor


def _reduced(x: Any) -> tuple[Any, ...]:
    node = node_of(x)
    if x.requires_grad and not x.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if not node.meta.numel:
        return x.__reduce_ex__(2)  # type: ignore[no-any-return]
    spread(x)
    memory, meta, offset = place_of(x)
    assert isinstance(memory, Spread)
    where = (meta.shape, meta.stride(), offset, meta.dtype)
    return _restored, (
        type(x), DupFd(memory.file), memory.array.nbytes, *where, x.requires_grad,
    )  # fmt: skip


def _restored(
    cls: Any,
    file: Any,
    nbytes: int,
    shape: Shape,
    strides: tuple[int, ...],
    offset: int,
    dtype: DType,
    requires_grad: bool,
) -> Any:
    memory = Spread(file.detach(), nbytes)
    meta = meta_of(shape, dtype).with_strides(strides)
    return as_leaf(on_memory(memory, meta, offset), requires_grad)._become(cls)


def init_reductions() -> None:
    """Has tensors sent to other processes by shared memory, not as copies."""
    for cls in (Tensor, Parameter, Buffer):
        ForkingPickler.register(cls, _reduced)


init_reductions()
