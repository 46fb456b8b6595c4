"""ShapeProp: runs a graph, and notes the shapes and dtypes of all values in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from livegrad.dtypes import DType
from livegrad.fx.interpreter import Interpreter
from livegrad.fx.node import Node, map_aggregate
from livegrad.settings import MemoryFormat, channels_last, channels_last_3d, contiguous_format
from livegrad.tensor import Tensor


class TensorMetadata(NamedTuple):
    """What is known of a tensor besides its values."""

    shape: Any
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: MemoryFormat | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any) -> TensorMetadata:
    memory_format = None
    for kind in (contiguous_format, channels_last, channels_last_3d):
        dims = {channels_last: 4, channels_last_3d: 5}.get(kind)
        fits = dims is None or result.ndim == dims
        if fits and result.is_contiguous(memory_format=kind):
            memory_format = kind
            break
    return TensorMetadata(
        result.shape,
        result.dtype,
        bool(result.requires_grad),
        tuple(result.stride()),
        memory_format,
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Notes `meta["tensor_meta"]` of every node whose value is a tensor, or has some in it."""

    def run_node(self, n: Node) -> Any:
        """The value of a node; what is known of it is noted."""
        result = super().run_node(n)
        found = False

        def extract(x: Any) -> Any:
            nonlocal found
            if not isinstance(x, Tensor):
                return x
            found = True
            return _extract_tensor_metadata(x)

        meta = map_aggregate(result, extract)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph with these arguments, and returns what it gives."""
        return super().run(*args)


__all__ = ["ShapeProp", "TensorMetadata"]
