"""Element types, PyTorch's promotion rules, and the default dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# Categories order promotion: a value of a higher category wins, whatever its width.
BOOL, INT, FLOAT, COMPLEX = 0, 1, 2, 3


class Namespace:
    """What names are printed with: "livegrad", or "torch" in programs that know us as that."""

    name = "livegrad"


class DType:
    """One element type.

    `storage` is the NumPy dtype of the bytes in memory; bfloat16, which NumPy lacks, is stored as
    uint16 and computed in float32 like float16.
    """

    __slots__ = ("bits", "category", "compute", "itemsize", "name", "signed", "storage")

    def __init__(self, name: str, storage: str, category: int, signed: bool = True) -> None:
        self.name = name
        self.storage: np.dtype[Any] = np.dtype(storage)
        self.category = category
        self.signed = signed
        self.itemsize = self.storage.itemsize
        self.bits = 1 if category == BOOL else 8 * self.itemsize
        # The type arithmetic is done in: half precisions compute in float32.
        self.compute: DType = self

    @property
    def is_floating_point(self) -> bool:
        """True for float16, bfloat16, float32 and float64."""
        return self.category == FLOAT

    @property
    def is_signed(self) -> bool:
        """True unless the type is bool or an unsigned integer."""
        return self.signed

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.category == COMPLEX

    def to_complex(self) -> DType:
        """The complex type whose parts hold values of this one; half precisions give complex64."""
        if self.category != FLOAT:
            return self if self.category == COMPLEX else default_complex()
        return complex128 if self is float64 else complex64

    def to_real(self) -> DType:
        """The type of the real and imaginary parts; a real type is its own."""
        return _PARTS.get(self, self)

    def __repr__(self) -> str:
        return f"{Namespace.name}.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (by_name, (self.name,))


class AbsentDType(DType):
    """A type that PyTorch's tensors may have and ours may not: programs name and compare it."""

    __slots__ = ()

    def __init__(self, name: str, category: int, bits: int, signed: bool) -> None:
        super().__init__(name, "uint8", category, signed)
        self.bits = bits

    def __reduce__(self) -> tuple[Any, ...]:
        return (absent, (self.name,))


bool_: Final = DType("bool", "bool", BOOL, signed=False)
uint8: Final = DType("uint8", "uint8", INT, signed=False)
uint16: Final = DType("uint16", "uint16", INT, signed=False)
uint32: Final = DType("uint32", "uint32", INT, signed=False)
uint64: Final = DType("uint64", "uint64", INT, signed=False)
int8: Final = DType("int8", "int8", INT)
int16: Final = DType("int16", "int16", INT)
int32: Final = DType("int32", "int32", INT)
int64: Final = DType("int64", "int64", INT)
float16: Final = DType("float16", "float16", FLOAT)
bfloat16: Final = DType("bfloat16", "uint16", FLOAT)
float32: Final = DType("float32", "float32", FLOAT)
float64: Final = DType("float64", "float64", FLOAT)
complex64: Final = DType("complex64", "complex64", COMPLEX)
complex128: Final = DType("complex128", "complex128", COMPLEX)
float16.compute = float32
bfloat16.compute = float32

ALL: Final = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_PARTS = {complex64: float32, complex128: float64}
_BY_NAME = {d.name: d for d in ALL}
BY_STORAGE = {d.storage: d for d in ALL if d is not bfloat16}
_PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}


_ABSENT: dict[str, AbsentDType] = {}
for _name in "e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu".split():
    _ABSENT[f"float8_{_name}"] = AbsentDType(f"float8_{_name}", FLOAT, 8, True)
_ABSENT["complex32"] = AbsentDType("complex32", COMPLEX, 32, True)
_ABSENT["float4_e2m1fn_x2"] = AbsentDType("float4_e2m1fn_x2", FLOAT, 8, True)
for _bits in range(1, 8):
    _ABSENT[f"int{_bits}"] = AbsentDType(f"int{_bits}", INT, _bits, True)
    _ABSENT[f"uint{_bits}"] = AbsentDType(f"uint{_bits}", INT, _bits, False)


def absent(name: str) -> AbsentDType | None:
    """The type of a name that only PyTorch's tensors have; None if there is none."""
    return _ABSENT.get(name)


def by_name(name: str) -> DType:
    """The dtype called `name`, such as "float32"."""
    return _BY_NAME[name]


def as_dtype(value: Any) -> DType:
    """A livegrad dtype from one of its own, a Python type (bool … complex) or a NumPy dtype."""
    if isinstance(value, DType):
        if type(value) is AbsentDType:
            raise TypeError(f"dtype: there are no tensors of {value.name} here")
        return value
    try:
        if value in _PYTHON:
            return _PYTHON[value]
        return BY_STORAGE[np.dtype(value)]
    except (KeyError, TypeError, ValueError, RuntimeError):
        shown = repr(value) if isinstance(value, str | type | int) else type(value).__name__
        raise TypeError(
            f"dtype: {shown} is not supported; expected one of {', '.join(_BY_NAME)}"
        ) from None


def from_numpy_dtype(dtype: np.dtype[Any]) -> DType:
    """The dtype whose bytes are those of a NumPy array of `dtype`."""
    found = BY_STORAGE.get(dtype) or BY_STORAGE.get(dtype.newbyteorder("="))
    if found is None:
        supported = ", ".join(str(d) for d in BY_STORAGE)
        raise TypeError(
            f"can't convert a numpy.ndarray of type numpy.{dtype}; supported types are: {supported}"
        )
    return found


class _Default:
    float: DType = float32


def set_default_dtype(d: DType) -> None:
    """Makes `d`, a floating type, the dtype of float literals and of integer-to-float results."""
    if not isinstance(d, DType) or not d.is_floating_point:
        raise TypeError(
            "set_default_dtype: only floating-point types are supported as the default type; "
            f"got {d!r}"
        )
    _Default.float = d
    for forget in _on_default_change:
        forget()


# Caches that depend on the default dtype register a function that empties them.
_on_default_change: list[Any] = []


def on_default_change(forget: Any) -> None:
    """Registers `forget`, called whenever the default dtype changes."""
    _on_default_change.append(forget)


def get_default_dtype() -> DType:
    """The current default floating dtype, float32 unless changed."""
    return _Default.float


def default_complex() -> DType:
    """The dtype of complex literals: its parts are of the default float (complex64 for halves)."""
    return complex128 if _Default.float is float64 else complex64


def scalar_dtype(kind: type) -> DType:
    """The dtype a Python number of this kind has by itself."""
    if kind is float:
        return _Default.float
    if kind is complex:
        return default_complex()
    return _PYTHON[kind]


_SIGNED = (int8, int16, int32, int64)


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype both `a` and `b` convert to by PyTorch's rules."""
    if a is b:
        return a
    if not isinstance(a, DType) or not isinstance(b, DType):
        raise TypeError(f"promote_types(): arguments must be dtypes; got {a!r} and {b!r}")
    if a.category != b.category:
        higher, lower = (a, b) if a.category > b.category else (b, a)
        # The parts of a complex result must hold the other operand too.
        wide = higher.category == COMPLEX and lower is float64
        return complex128 if wide else higher
    if a.category == COMPLEX:
        return complex128
    if a.category == FLOAT:
        if a.itemsize != b.itemsize:
            return a if a.itemsize > b.itemsize else b
        return float32  # float16 with bfloat16
    if a.signed == b.signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.signed else (b, a)
    # The smallest signed type that holds both; none does for uint64.
    fits = [d for d in _SIGNED if d.bits >= signed.bits and d.bits > unsigned.bits]
    return fits[0] if fits else int64


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a result of dtype `from_` may be written to a tensor of dtype `to`."""
    if not isinstance(from_, DType) or not isinstance(to, DType):
        raise TypeError(f"can_cast(): arguments must be dtypes; got {from_!r} and {to!r}")
    return from_.category <= to.category or (from_.category == to.category == INT)


# A group of operands: (dtype, rank) where rank 2 = tensor with dims, 1 = 0-d tensor, 0 = number.
def result_dtype(operands: tuple[tuple[DType, int], ...]) -> DType:
    """Result type of mixed operands, in PyTorch's order: tensors, 0-d tensors, numbers.

    A lower-priority operand only matters when its category is higher than that of all before it.
    """
    result: DType | None = None
    for rank in (2, 1, 0):
        group: DType | None = None
        for dtype, its_rank in operands:
            if its_rank == rank:
                group = dtype if group is None else promote_types(group, dtype)
        if group is None:
            continue
        if result is None:
            result = group
        elif group.category > result.category:
            if group.category == COMPLEX and result.category == FLOAT:
                result = result.to_complex()
            else:
                result = group if rank else scalar_or_default(group)
    assert result is not None
    return result


def scalar_or_default(dtype: DType) -> DType:
    """What a Python number contributes: floats bring the default float, integers int64."""
    if dtype.category == COMPLEX:
        return default_complex()
    return _Default.float if dtype.category == FLOAT else dtype


# Of floats of eight bits: what lies beside 1, the greatest, the least normal and subnormal one.
_FINFO = {
    "float8_e4m3fn": (2.0**-3, 448.0, 2.0**-6, 2.0**-9),
    "float8_e4m3fnuz": (2.0**-3, 240.0, 2.0**-7, 2.0**-10),
    "float8_e5m2": (2.0**-2, 57344.0, 2.0**-14, 2.0**-16),
    "float8_e5m2fnuz": (2.0**-3, 57344.0, 2.0**-15, 2.0**-17),
}


class finfo:
    """Limits of a floating type, like `torch.finfo`."""

    def __init__(self, dtype: DType | None = None) -> None:
        if isinstance(dtype, AbsentDType) and dtype.name in _FINFO:
            d: DType = dtype
        else:
            d = (get_default_dtype() if dtype is None else as_dtype(dtype)).to_real()
        if not d.is_floating_point:
            raise TypeError(f"finfo: got {d!r}; expected a floating-point type. Use iinfo instead")
        self.dtype = d.name
        self.bits = d.bits
        if d is bfloat16:
            self.eps, self.max, self.tiny = 2.0**-7, 3.3895313892515355e38, 2.0**-126
            self.smallest_subnormal, self.resolution = 2.0**-133, 0.01
        elif isinstance(d, AbsentDType):
            self.eps, self.max, self.tiny, self.smallest_subnormal = _FINFO[d.name]
            self.resolution = 1.0
        else:
            info = np.finfo(d.storage)
            self.eps, self.max, self.tiny = float(info.eps), float(info.max), float(info.tiny)
            self.smallest_subnormal = float(info.smallest_subnormal)
            self.resolution = float(info.resolution)
        self.min = -self.max
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer type, like `torch.iinfo`."""

    def __init__(self, dtype: DType) -> None:
        d = as_dtype(dtype)
        if d.category != INT:
            raise TypeError(f"iinfo: got {d!r}; expected an integer type. Use finfo for floats")
        info = np.iinfo(d.storage)
        self.dtype, self.bits, self.min, self.max = d.name, d.bits, int(info.min), int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def bfloat16_to_float32(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 values of bfloat16 stored as uint16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def float32_to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """uint16 bits of `values` rounded to bfloat16, nearest even; NaN keeps its upper bits."""
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(np.shape(values)).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    upper = bits >> 16
    not_a_number = np.where(upper & 0x7F, upper, upper | 0x40)  # without them it were infinite
    return np.where(np.isnan(values), not_a_number, rounded).astype(np.uint16)
