"""What the pickle of a PyTorch file may name, and what stands for it here.

Nothing is imported and nothing of the user's is called: each name leads to a function in this
file, which checks its arguments.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from livegrad import dtypes
from livegrad.device import Device
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.handle import Handle
from livegrad.graph.meta import Size
from livegrad.serialization.files import Source
from livegrad.serialization.machine import Known
from livegrad.serialization.sparse_parts import checked_sparse
from livegrad.serialization.storages import Storage, StorageKind, Storages
from livegrad.serialization.strict_json import shown
from livegrad.serialization.walk import Keys

Args = tuple[Any, ...]

STORAGE_CLASSES: dict[str, DType] = {
    "BoolStorage": dtypes.bool_,
    "ByteStorage": dtypes.uint8,
    "CharStorage": dtypes.int8,
    "ShortStorage": dtypes.int16,
    "IntStorage": dtypes.int32,
    "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
_TENSOR_CLASSES = frozenset(
    ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
)


class Vocabulary:
    """The names that one file may use."""

    def __init__(self, source: Source, storages: Storages) -> None:
        self.source = source
        self.storages = storages
        self.bad = storages.bad
        self.keys = Keys()
        functions = {
            "torch._utils._rebuild_tensor": self.tensor,
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_tensor_v3": self.tensor_with_dtype,
            "torch._utils._rebuild_meta_tensor_no_storage": self.tensor_without_data,
            "torch._utils._rebuild_sparse_tensor": self.sparse,
            "torch.serialization._get_layout": self.layout,
            "torch._utils._rebuild_parameter": self.parameter,
            "torch._utils._rebuild_parameter_with_state": self.parameter,
            "torch._tensor._rebuild_from_type_v2": self.tensor_with_attributes,
            "torch.Size": self.size,
            "torch.device": self.device,
            "collections.OrderedDict": self.ordered_dict,
            "collections.Counter": self.counter,
            "builtins.set": self.as_set,
            "builtins.frozenset": self.as_frozenset,
            "builtins.complex": self.as_complex,
            "builtins.bytes": self.as_bytes,
            "builtins.bytearray": self.as_bytearray,
            "_codecs.encode": self.encode,
        }
        self.table: dict[str, Any] = {name: Known(name, f) for name, f in functions.items()}
        self.table |= {name: Known(name) for name in _TENSOR_CLASSES}
        self.table |= {f"torch.{name}": StorageKind(d) for name, d in STORAGE_CLASSES.items()}
        self.table["torch.storage.UntypedStorage"] = StorageKind(None)
        self.table |= {f"torch.{d.name}": d for d in dtypes.ALL}

    def find(self, module: str, name: str) -> Any:
        """What a global stands for."""
        full = f"{'builtins' if module == '__builtin__' else module}.{name}"
        found = self.table.get(full)
        if found is None:
            raise self.source.error(
                f"it refers to {shown(full)}, which load does not know and never runs; expected "
                f"tensors and plain containers. {_hint(full)}"
            )
        return found

    def _expect(self, right: bool, name: str) -> None:
        if not right:
            raise self.bad(f"{name} is called with other arguments than torch.save writes")

    # ---- tensors -------------------------------------------------------------------------

    def tensor(self, args: Args) -> Any:
        """`(storage, offset, size, stride[, requires_grad, hooks[, metadata]])`."""
        self._expect(4 <= len(args) <= 7 and type(args[0]) is Storage, "_rebuild_tensor_v2")
        dtype = args[0].dtype
        self._expect(dtype is not None, "_rebuild_tensor_v2")
        return self.storages.tensor(args[0], dtype, *args[1:])

    def tensor_with_dtype(self, args: Args) -> Any:
        """`(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])`."""
        self._expect(7 <= len(args) <= 8 and type(args[0]) is Storage, "_rebuild_tensor_v3")
        self._expect(type(args[6]) is DType, "_rebuild_tensor_v3")
        return self.storages.tensor(args[0], args[6], *args[1:6], *args[7:])

    def tensor_without_data(self, args: Args) -> Any:
        """`(dtype, size, stride, requires_grad)`: on the meta device."""
        name = "_rebuild_meta_tensor_no_storage"
        self._expect(len(args) == 4 and type(args[0]) is DType and type(args[3]) is bool, name)
        dtype, size, _, learned = args
        self._expect(not learned or dtype.category >= dtypes.FLOAT, name)
        try:
            out = elsewhere.empty(self.storages.sizes("a tensor without data", size), dtype)
        except RuntimeError as error:
            raise self.bad(str(error)) from None
        return out.requires_grad_() if learned else out

    def layout(self, args: Args) -> str:
        """`("torch.sparse_coo",)`: its name."""
        self._expect(len(args) == 1 and type(args[0]) is str, "_get_layout")
        return str(args[0]).removeprefix("torch.")

    def sparse(self, args: Args) -> Any:
        """`(layout, (its parts, size[, whether it is coalesced]))`."""
        name = "_rebuild_sparse_tensor"
        self._expect(len(args) == 2 and type(args[1]) is tuple, name)
        layout, data = args
        count = 2 if layout == "sparse_coo" else 3
        self._expect(len(data) in (count + 1, count + 2), name)
        self._expect(all([isinstance(x, Handle) for x in data[:count]]), name)
        self._expect(all([type(x) is bool for x in data[count + 1 :]]), name)
        size = self.storages.sizes("a sparse tensor", data[count])
        try:
            *parts, elements = data[:count]
            return checked_sparse(layout, parts, elements, size, True in data[count + 1 :])
        except (IndexError, RuntimeError) as error:
            raise self.bad(f"a sparse tensor is wrong: {error}") from None

    def parameter(self, args: Args) -> Any:
        """`(tensor, requires_grad, hooks[, attributes])`."""
        self._expect(3 <= len(args) <= 4 and isinstance(args[0], Handle), "_rebuild_parameter")
        self._expect(type(args[1]) is bool, "_rebuild_parameter")
        return self.storages.parameter(args[0], args[1])

    def tensor_with_attributes(self, args: Args) -> Any:
        """`(function, class, its arguments, attributes)`; the attributes are left out."""
        self._expect(len(args) == 4 and type(args[2]) is tuple, "_rebuild_from_type_v2")
        function, kind = args[:2]
        self._expect(type(function) is Known and type(kind) is Known, "_rebuild_from_type_v2")
        rebuilds = function.name.startswith("torch._utils._rebuild_")
        self._expect(rebuilds and kind.name in _TENSOR_CLASSES, "_rebuild_from_type_v2")
        return function.call(args[2])

    # ---- other values --------------------------------------------------------------------

    def size(self, args: Args) -> Size:
        """`torch.Size((2, 3))`."""
        self._expect(len(args) == 1, "torch.Size")
        return Size(self.storages.sizes("a torch.Size", args[0]))

    def device(self, args: Args) -> Device:
        """`("cuda", 1)`: a name, whether or not there is such a device here."""
        self._expect(1 <= len(args) <= 2 and type(args[0]) is str, "torch.device")
        self._expect(len(args) == 1 or type(args[1]) is int, "torch.device")
        try:
            return Device(*args)
        except RuntimeError as error:
            raise self.bad(f"a device is wrong: {error}") from None

    def ordered_dict(self, args: Args) -> OrderedDict[Any, Any]:
        """An empty one; items come later."""
        self._expect(not args, "OrderedDict")
        return OrderedDict()

    def counter(self, args: Args) -> Counter[Any]:
        """From the dict of its counts."""
        self._expect(not args or (len(args) == 1 and type(args[0]) is dict), "Counter")
        out: Counter[Any] = Counter()
        dict.update(out, *args)
        return out

    def _elements(self, args: Args, name: str) -> list[Any]:
        self._expect(not args or (len(args) == 1 and type(args[0]) in (list, tuple)), name)
        items = list(args[0]) if args else []
        for item in items:
            problem = self.keys.problem(item)
            if problem is not None:
                raise self.bad(f"an element of a {name} {problem}")
        return items

    def as_set(self, args: Args) -> set[Any]:
        """From the list of its elements."""
        return set(self._elements(args, "set"))

    def as_frozenset(self, args: Args) -> frozenset[Any]:
        """From the list of its elements."""
        return frozenset(self._elements(args, "frozenset"))

    def as_complex(self, args: Args) -> complex:
        """From its two parts."""
        self._expect(len(args) == 2 and all([type(x) is float for x in args]), "complex")
        return complex(args[0], args[1])

    def as_bytes(self, args: Args) -> bytes:
        """No bytes: others are written as `_codecs.encode`."""
        self._expect(not args, "bytes")
        return b""

    def as_bytearray(self, args: Args) -> bytearray:
        """From bytes, or from text of one byte per character."""
        if not args or (len(args) == 1 and type(args[0]) is bytes):
            return bytearray(*args)
        return bytearray(self.encode(args))

    def encode(self, args: Args) -> bytes:
        """Text of one byte per character, as protocol 2 writes bytes."""
        self._expect(len(args) == 2 and type(args[0]) is str, "encode")
        self._expect(type(args[1]) is str and args[1] in ("latin1", "latin-1"), "encode")
        try:
            return str.encode(args[0], "latin-1")
        except UnicodeEncodeError:
            raise self.bad("bytes are written as text that is no bytes") from None


def _hint(name: str) -> str:
    """What somebody who has such a file can do."""
    if name.startswith("numpy"):
        return "Save NumPy values as tensors or as Python numbers"
    if "_rebuild_q" in name or "nested" in name:
        return "Quantised and nested tensors are not read: save them dense"
    if name.startswith(("torch.uint", "torch.float8", "torch.complex")) or "Storage" in name:
        return "There are no tensors of this type here"
    return (
        "If this is a whole model or another object, only running its code would make it: where it "
        "was saved, save its state_dict() instead, and load that into a model that is built here"
    )
