"""Random calls of public functions: mostly plausible arguments, some of them wrong on purpose.

A call is a description (`Call`), so that it can be shown, run here, and run by PyTorch too. What an
argument may be is told by the parameter's name and annotation; now and then it is anything at all.
"""

from __future__ import annotations

import inspect
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from recipes import RECIPES, Room

import livegrad as lg
import livegrad.fft
import livegrad.linalg
import livegrad.nn.functional
import livegrad.special

# ----------------------------------------------------------------------------------- what is called

# Not functions of tensors: they set or tell something about the whole program.
_NOT_FUZZED = set(
    """
    explain stats seed manual_seed initial_seed get_rng_state set_rng_state set_num_threads
    get_num_threads set_printoptions get_printoptions set_default_dtype get_default_dtype
    set_default_device get_default_device set_grad_enabled is_grad_enabled is_inference_mode_enabled
    is_tensor from_dlpack set_flush_denormal use_deterministic_algorithms
    register_hook register_post_accumulate_grad_hook retain_grad share_memory_ apply_ map_ map2_
    """.split()
)
GROUPS: dict[str, Any] = {
    "livegrad": lg,
    "linalg": lg.linalg,
    "special": lg.special,
    "fft": lg.fft,
    "nn.functional": lg.nn.functional,
    "Tensor": lg.Tensor,
}


def functions(group: str) -> dict[str, Callable[..., Any]]:
    """The public functions of a namespace, or the methods of Tensor."""
    home = GROUPS[group]
    found = {}
    for name in dir(home):
        value = inspect.getattr_static(home, name)
        if name in _NOT_FUZZED or not isinstance(value, types.FunctionType):
            continue
        if group == "livegrad" and name.startswith(("set_", "get_")):
            continue
        if name.startswith("_") and not (group == "Tensor" and name in OPERATORS):
            continue
        if value.__module__.startswith(("livegrad.graph", "livegrad.native")):
            continue
        if group == "fft" and value.__module__ != "livegrad.fft":
            continue
        found[name] = value
    return found


OPERATORS = set(
    """
    __add__ __sub__ __rsub__ __mul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__
    __rmod__ __pow__ __rpow__ __matmul__ __rmatmul__ __and__ __or__ __xor__ __lshift__ __rlshift__
    __rshift__ __rrshift__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __iadd__ __imul__ __ipow__
    __iand__ __getitem__ __contains__
    """.split()
)


# ----------------------------------------------------------------------------------- descriptions


@dataclass(frozen=True)
class TensorOf:
    """A tensor to be made by `build`."""

    shape: tuple[int, ...]
    dtype: str
    fill: str
    seed: int
    grad: bool = False
    view: bool = False

    def values(self) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(self.seed)
        shape = (*self.shape[:-1], self.shape[-1] * 2) if self.view and self.shape else self.shape
        if self.fill == "special":
            numbers = rng.choice(
                [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 1.0], shape
            )
        elif self.fill == "index":
            numbers = rng.integers(0, 3, shape)
        elif self.fill == "any index":
            numbers = rng.integers(-(2**40) if self.seed % 2 else -9, 9, shape)
        elif self.fill == "unit":
            numbers = rng.uniform(0, 1, shape)
        else:
            numbers = rng.normal(0, 2, shape)
        numbers = np.asarray(numbers)
        if self.dtype.startswith(("int", "uint")):
            with np.errstate(all="ignore"):
                return numbers.astype(np.int64)
        if self.dtype == "bool":
            return numbers > 0
        if self.dtype.startswith("complex"):
            return numbers + 1j * np.roll(np.nan_to_num(numbers), 1)
        return numbers

    def build(self, T: Any) -> Any:
        x = T.tensor(self.values(), dtype=getattr(T, self.dtype))
        if self.grad and self.dtype.startswith(("float", "complex", "bfloat")):
            x.requires_grad_()
        if self.view and self.shape:
            x = x[..., ::2]
        return x

    def __repr__(self) -> str:
        extra = ", grad" * self.grad + ", view" * self.view
        return f"<{self.dtype}{list(self.shape)} {self.fill} {self.seed}{extra}>"


@dataclass(frozen=True)
class DTypeOf:
    """A dtype to be taken from a module."""

    name: str

    def build(self, T: Any) -> Any:
        return getattr(T, self.name)


@dataclass(frozen=True)
class Many:
    """A list or a tuple of descriptions."""

    kind: type
    items: tuple[Any, ...]


def build(x: Any, T: Any) -> Any:
    """What a description stands for, with the tensors and dtypes of the module `T`."""
    if isinstance(x, TensorOf | DTypeOf):
        return x.build(T)
    if isinstance(x, Many):
        return x.kind([build(item, T) for item in x.items])
    return x


@dataclass(frozen=True)
class Call:
    """A call of a function of a group."""

    group: str
    name: str
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        shown = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.options]
        return f"{self.group}.{self.name}({', '.join(shown)})"


# ------------------------------------------------------------------------------- random arguments

SHAPES: list[tuple[int, ...]] = [
    (), (0,), (1,), (3,), (4,), (2, 3), (3, 3), (3, 3), (4, 4), (1, 4), (0, 3), (3, 0), (2, 3, 3),
    (2, 3, 4), (2, 0, 3), (2, 2, 4, 4), (1, 3, 4, 4), (2, 2, 3, 3, 3), (1, 1, 1, 1, 1, 1),
]  # fmt: skip
DTYPES = (
    "float32 float32 float32 float64 float64 float16 bfloat16 int64 int64 int32 int8 uint8 bool "
    "complex64 complex128"
).split()
FILLS = ("plain", "plain", "unit", "index", "any index", "special")
HUGE = (2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(2**40))
WILD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 5, -7, *HUGE, 0.0, 0.5, -1.5, 1e300, float("nan"), float("inf"),
    1j, "", "mean", "nonsense", (), [], (1,), [0, 1], (-1, 2), (2, 2, 2), [None], ["a"], [1.5],
    {}, object, b"x", slice(None), ..., np.float32(2), np.int64(1), np.ones(2), range(3),
]  # fmt: skip
WORDS = {
    "reduction": ("none", "mean", "sum", "batchmean"),
    "reduce": ("sum", "prod", "mean", "amax", "amin", "max", "min", "add", "multiply"),
    "mode": (
        "constant", "reflect", "replicate", "circular", "nearest", "bilinear", "linear", "bicubic",
        "trilinear", "area", "nearest-exact", "sum", "mean", "max", "reduced", "complete", "r",
    ),
    "padding_mode": ("zeros", "border", "reflection"),
    "norm": ("forward", "backward", "ortho"),
    "rounding_mode": ("floor", "trunc"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "approximate": ("none", "tanh"),
    "side": ("left", "right"),
    "indexing": ("ij", "xy"),
    "UPLO": ("L", "U", "l"),
    "ord": ("fro", "nuc"),
    "equation": ("ij,jk->ik", "ii", "i,i", "bij,bjk->bik", "...i->...", "ij->ji", "i", ",", "i->"),
    "driver": ("gels", "gelsd", "gesvd"),
    "pad_mode": ("reflect", "constant"),
}  # fmt: skip
_DIMS = {"dim", "dims", "axis", "dim0", "dim1", "dim2", "axis0", "axis1", "start_dim", "end_dim",
         "dimension", "source", "destination"}  # fmt: skip
_SIZES = {"size", "sizes", "shape", "s", "output_size", "normalized_shape", "repeats", "reps",
          "kernel_size", "stride", "padding", "dilation", "output_padding", "split_sizes", "shifts",
          "split_size_or_sections", "indices_or_sections", "pad", "scale_factor", "physical_layout",
          "size_or_shape", "block_size"}  # fmt: skip
_TENSORS = {"other", "target", "mask", "values", "source", "src", "boundaries", "condition", "x",
            "y", "A", "B", "obj", "data", "elements", "test_elements", "element"}  # fmt: skip
_INDICES = {"index", "indices", "target", "targets", "repeats", "offsets", "lengths", "pivots",
            "input_lengths", "target_lengths"}  # fmt: skip


class Arguments:
    """Draws the arguments of one call; tensors of a call tend to go together."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.shape = random.choice(SHAPES)
        self.dtype = random.choice(DTYPES)
        self.fill = random.choice(FILLS)
        # How likely an argument is something else altogether.
        self.wildness = random.choice((0.0, 0.0, 0.05, 0.15, 0.5))
        self.looseness = random.choice((0.0, 0.0, 0.2, 0.6))
        self.grad = random.random() < 0.4

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def tensor(self, index: bool = False) -> TensorOf:
        shape, dtype, fill = self.shape, self.dtype, self.fill
        if self.chance(self.looseness):
            shape = self.random.choice(SHAPES)
        if self.chance(self.looseness / 2):
            dtype = self.random.choice(DTYPES)
        if index and not self.chance(self.looseness):
            dtype, fill = "int64", self.random.choice(("index", "index", "any index"))
        if self.chance(self.looseness):
            fill = self.random.choice(FILLS)
        seed = self.random.randrange(100)
        return TensorOf(shape, dtype, fill, seed, self.grad, self.chance(0.1))

    def anything(self) -> Any:
        if self.chance(0.4):
            return TensorOf(
                self.random.choice(SHAPES),
                self.random.choice(DTYPES),
                self.random.choice(FILLS),
                self.random.randrange(100),
                self.grad,
            )
        return self.random.choice(WILD)

    def integer(self) -> int:
        if self.chance(self.looseness / 4):
            return self.random.choice(HUGE)
        return self.random.choice((0, 1, 1, 2, 2, 3, 4, -1, -1, -2, 7))

    def number(self) -> Any:
        if self.chance(0.3):
            return self.integer()
        if self.chance(self.looseness):
            return self.random.choice((float("nan"), float("inf"), -float("inf"), 1e308, -0.0))
        return self.random.choice((0.0, 0.1, 0.5, 0.9, 1.0, 2.0, -1.0))

    def integers(self) -> Any:
        count = self.random.choice((0, 1, 1, 2, 2, 2, 3, 4))
        kind = self.random.choice((tuple, list))
        return Many(kind, tuple([self.integer() for _ in range(count)]))

    def tensors(self) -> Any:
        count = self.random.choice((0, 1, 2, 2, 3))
        return Many(self.random.choice((tuple, list)), tuple([self.tensor() for _ in range(count)]))

    def argument(self, name: str, annotation: str) -> Any:
        """What a parameter of this name and annotation is given."""
        if name == "niter":  # who asks for 2**62 rounds gets them
            return self.random.randrange(-1, 3)
        if self.chance(self.wildness):
            return self.anything()
        if name in WORDS and ("str" in annotation or self.chance(0.7)):
            words = WORDS[name]
            return self.random.choice(words)
        if name in ("dtype", "input_dtype") or "DType" in annotation:
            return DTypeOf(self.random.choice(DTYPES))
        if "Sequence[Tensor]" in annotation or name == "tensors":
            return self.tensors()
        if name in _INDICES and ("Tensor" in annotation or annotation == "Any"):
            return self.tensor(index=True)
        if "Tensor" in annotation or name in ("input", "self"):
            if "float" in annotation and self.chance(0.5):
                return self.number()
            return self.tensor()
        if name in _DIMS or "Sequence[int]" in annotation or annotation == "Dim":
            return self.integers() if annotation != "int" and self.chance(0.4) else self.integer()
        if name in _SIZES or annotation == "Shape":
            return self.integer() if self.chance(0.4) else self.integers()
        if name in _TENSORS:
            return self.tensor()
        if annotation.startswith("bool"):
            return self.chance(0.5)
        if annotation.startswith("int"):
            return self.integer()
        if annotation.startswith("float"):
            return self.number()
        if annotation.startswith("str"):
            return self.random.choice(("", "mean", "nonsense"))
        return self.random.choice((self.tensor, self.integer, self.number, self.integers))()

    def cooked(self, recipe: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a call that works; mostly."""
        dtype = self.dtype if self.dtype.startswith("float") else "float32"
        args = [self.prepared(x, dtype) for x in recipe]
        while self.chance(max(self.wildness, self.looseness)):
            args[self.random.randrange(len(args))] = self.anything()
        return tuple(args)

    def prepared(self, x: Any, dtype: str) -> Any:
        if isinstance(x, Room):
            kind = {"float": dtype, "index": "int64", "bool": "bool", "complex": "complex64"}[x.of]
            shape, fill = x.shape, "index" if x.of == "index" else "unit"
            if self.chance(self.looseness / 2):
                fill = self.random.choice(FILLS)
            if self.chance(self.looseness / 3):
                kind = self.random.choice(DTYPES)
            if shape and self.chance(self.looseness / 2):
                at = self.random.randrange(len(shape))
                shape = (*shape[:at], self.random.choice((0, 1, shape[at] + 1)), *shape[at + 1 :])
            return TensorOf(shape, kind, fill, self.random.randrange(100), self.grad)
        if isinstance(x, tuple):
            return Many(tuple, tuple([self.prepared(item, dtype) for item in x]))
        if type(x) is int and self.chance(self.looseness / 2):
            return self.integer()
        return x


_LEFT_OUT = {"out", "device", "generator", "layout", "_stacklevel"}
_AFTER_SELF = 2  # how many positional arguments a `*args` is given at most


def random_call(random: Random, group: str, name: str, function: Callable[..., Any]) -> Call:
    """A call of `function`, with some of its optional arguments."""
    draw = Arguments(random)
    plain = name.removesuffix("_") if group == "Tensor" else name
    if plain in RECIPES and draw.chance(0.7):
        return Call(group, name, draw.cooked(random.choice(RECIPES[plain])), ())
    if plain != name and isinstance(vars(lg.Tensor).get(plain), types.FunctionType):
        function = getattr(lg.Tensor, plain)  # an in-place form takes what the function takes
    args: list[Any] = []
    options: list[tuple[str, Any]] = []
    by_name = False
    for number, p in enumerate(inspect.signature(function).parameters.values()):
        annotation = p.annotation if isinstance(p.annotation, str) else ""
        if group == "Tensor" and number == 0:
            args.append(draw.tensor())
        elif p.kind is p.VAR_POSITIONAL:
            if not by_name:
                args += [
                    draw.argument(p.name, annotation)
                    for _ in range(random.randrange(_AFTER_SELF + 1))
                ]
            by_name = True
        elif p.kind is p.VAR_KEYWORD or p.name in _LEFT_OUT:
            by_name = by_name or p.kind is not p.KEYWORD_ONLY
        elif p.default is not p.empty and draw.chance(0.6):
            by_name = True
        elif p.kind is p.KEYWORD_ONLY or (by_name and p.kind is p.POSITIONAL_OR_KEYWORD):
            options.append((p.name, draw.argument(p.name, annotation)))
        elif not by_name:
            args.append(draw.argument(p.name, annotation))
    if draw.chance(draw.wildness / 5):
        args = args[: random.randrange(len(args) + 1)]
    return Call(group, name, tuple(args), tuple(options))


# --------------------------------------------------------------------------------------- checking

# What PyTorch raises for wrong arguments.
ALLOWED = (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError, OverflowError)
# Their subclasses from inside, which are nobody's answer to a wrong argument.
REFUSED = (RecursionError, UnicodeError)
# What Python and NumPy say about a mistake of ours, in a class that would be a fair one.
FROM_INSIDE = (
    "tuple index out of range",
    "list index out of range",
    "string index out of range",
    "values to unpack",
    "operands could not be broadcast",
    "cannot reshape array",
    "Maximum allowed size exceeded",
    "array is too big",
    "setting an array element",
    "broadcast input array",
    "arrays must have same",
    "core dimension",
    "not supported between instances",
    "object is not iterable",
    "has no len()",
    "has no attribute",
    "unhashable type",
    "cannot be interpreted as an integer",
    "must be a string or a real number",
    "could not convert string",
    "cannot convert float",
    "zip() argument",
)
# Functions that raise other classes, because PyTorch's do.
ALSO: dict[str, type[Exception]] = {
    "celu": ZeroDivisionError,
    "celu_": ZeroDivisionError,
    "cuda": AssertionError,
    "embedding": AssertionError,
    "embedding_bag": AssertionError,
    "lp_pool1d": ZeroDivisionError,
    "lp_pool2d": ZeroDivisionError,
    "lp_pool3d": ZeroDivisionError,
    "multi_head_attention_forward": AssertionError,
    "xpu": AssertionError,
}
# A comparison of a tensor with anything, and the like: Python's words, and PyTorch's.
OF_OPERATORS = "'Tensor'"


class Wrong(AssertionError):
    """A call that did what no call may do."""


def tensors_in(x: Any) -> Iterator[Any]:
    """All tensors in a result."""
    if isinstance(x, lg.Tensor):
        yield x
    elif isinstance(x, tuple | list):
        for item in x:
            yield from tensors_in(item)


def check_call(call: Call) -> str:
    """Makes a call, reads what it gives, and goes backward through it; says how it ended."""
    function = getattr(GROUPS[call.group], call.name)
    args = [build(a, lg) for a in call.args]
    options = {k: build(v, lg) for k, v in call.options}
    bystander = lg.ones(2) * 3
    try:
        outcome = _run(function, args, options)
    except Exception as error:
        if not _is_fair(error, call.name):
            raise Wrong(f"{call!r} raised {type(error).__name__}: {error}") from error
        outcome = type(error).__name__
        if getattr(error, "late", False):
            _check_late(call, error)
    if bystander.tolist() != [3.0, 3.0]:
        raise Wrong(f"{call!r} changed another value")
    return outcome


def _check_late(call: Call, error: Exception) -> None:
    """Only what the values show may be raised when they are computed; and it names the line."""
    text = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.name == "compile_plan" for frame in frames):
        raise Wrong(f"{call!r} raised only when planned: {text}") from error
    if "recorded at" not in text and "memory" not in text:
        raise Wrong(f"{call!r} raised only when read, and names no line: {text}") from error


def _is_fair(error: Exception, name: str) -> bool:
    words = str(error)
    if words and isinstance(error, ALSO.get(name, ())):
        return True
    return (
        isinstance(error, ALLOWED)
        and not isinstance(error, REFUSED)
        and (OF_OPERATORS in words or not any(word in words for word in FROM_INSIDE))
    )


# How many elements a result may have to be read as a list, and as a sum.
_LISTED, _SUMMED = 1 << 20, 1 << 26


def _run(function: Callable[..., Any], args: list[Any], options: dict[str, Any]) -> str:
    result = function(*args, **options)
    try:
        outputs = [x if x.layout is lg.strided else x.to_dense() for x in tensors_in(result)]
        for x in outputs:
            if max([x.numel(), *x.shape]) <= _LISTED:
                x.tolist()
            elif x.numel() <= _SUMMED:
                x.sum().item()
    except Exception as error:
        error.late = True  # type: ignore[attr-defined]
        raise
    flowing = [x for x in outputs if x.requires_grad and x.numel() < 1 << 20]
    if flowing:
        total = sum([(x.abs() if x.is_complex() else x).sum() for x in flowing])
        if total.requires_grad:
            total.backward()
            for x in [*args, *options.values()]:
                if isinstance(x, lg.Tensor) and x.is_leaf and x.grad is not None:
                    x.grad.tolist()
        return "gradient"
    return "value"
