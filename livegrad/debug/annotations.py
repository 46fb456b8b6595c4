"""`@livegrad.shapes`: annotations of shapes that are checked at every call.

    @livegrad.shapes
    def attend(q: Float["b t d"], k: Float["b s d"]) -> Float["b t s"]: ...

A dim is a number, a name (the same size wherever it appears in the call), `_` (any), `...` or
`*name` (any number of dims), or sums, differences and products of these: `2*n`, `t+1`.
Annotations of jaxtyping, `Float[Tensor, "b t d"]`, are read too.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from livegrad import dtypes
from livegrad.graph.drawing import Shown, in_a_row
from livegrad.graph.handle import Handle, node_of

_KINDS: dict[str, Callable[[Any], bool]] = {
    "Shaped": lambda dtype: True,
    "Float": lambda dtype: bool(dtype.is_floating_point),
    "Complex": lambda dtype: bool(dtype.is_complex),
    "Int": lambda dtype: dtypes.BOOL < dtype.category < dtypes.FLOAT,
    "Bool": lambda dtype: dtype is dtypes.bool_,
}


class Wanted(NamedTuple):
    """What an annotation asks for: a kind of dtype, and dims."""

    kind: str
    dims: str

    def __repr__(self) -> str:
        return f'{self.kind}["{self.dims}"]'

    def __or__(self, other: Any) -> Any:
        """`Float["b c"] | None`: what is None is never looked at."""
        return self if other is None else NotImplemented


class _Kind(type):
    def __getitem__(cls, dims: Any) -> Any:
        if isinstance(dims, tuple):  # as jaxtyping has it: Float[Tensor, "b c"]
            dims = dims[-1]
        if not isinstance(dims, str):
            raise TypeError(f"{cls.__name__}[…]: dims are a text such as 'b c h w', not {dims!r}")
        return Wanted(cls.__name__, dims)


class Shaped(metaclass=_Kind):
    """Annotation for a tensor of any dtype: `Shaped["b c"]`."""


class Float(metaclass=_Kind):
    """Annotation for a floating-point tensor: `Float["b c h w"]`."""


class Complex(metaclass=_Kind):
    """Annotation for a complex tensor."""


class Int(metaclass=_Kind):
    """Annotation for a tensor of integers."""


class Bool(metaclass=_Kind):
    """Annotation for a tensor of bools."""


class ShapeError(TypeError):
    """A tensor has not the shape, or the kind of dtype, that an annotation asks for."""


def shapes(function: Any) -> Any:
    """Has the annotations of a function checked at each call; of a module's class, of `forward`."""
    if isinstance(function, type):
        kind: Any = function
        kind.forward = shapes(kind.forward)
        return function
    wanted: dict[str, Wanted] | None = None
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        nonlocal wanted
        if wanted is None:  # at the first call: annotations may name what comes later in the file
            wanted = _annotations(function)
        call = _Call(function.__qualname__)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in wanted:
                call.check(f"argument '{name}'", value, wanted[name])
        result = function(*args, **kwargs)
        if "return" in wanted:
            call.check("the result", result, wanted["return"])
        return result

    return checked


def _annotations(function: Any) -> dict[str, Wanted]:
    found = {}
    scope = getattr(sys.modules.get(function.__module__), "__dict__", {})
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, function, scope)
        read = _wanted(annotation)
        if read is not None:
            found[name] = read
    return found


def _evaluated(text: str, function: Any, scope: dict[str, Any]) -> Any:
    """An annotation that is kept as text (`from __future__ import annotations`)."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    local = {name: cell.cell_contents for name, cell in cells}
    try:
        return eval(text, {**globals(), **scope}, local)
    except NameError:  # something that only type checkers know
        return None


def _wanted(annotation: Any) -> Wanted | None:
    if isinstance(annotation, Wanted):
        return annotation
    dims = getattr(annotation, "dim_str", None)  # jaxtyping's
    if isinstance(dims, str):
        name = getattr(annotation, "__name__", "").split("[")[0]
        return Wanted(name if name in _KINDS else "Shaped", dims)
    return None


class _Call:
    """The sizes that names have in one call, and by which argument."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.sizes: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def check(self, what: str, value: Any, wanted: Wanted) -> None:
        if value is None:
            return
        if not isinstance(value, Handle):
            raise ShapeError(
                f"{self.function}(): {what} is {type(value).__name__}; expected {wanted}"
            )
        meta = node_of(value).meta
        if not _KINDS[wanted.kind](meta.dtype):
            raise ShapeError(
                f"{self.function}(): {what} has dtype {meta.dtype.name}; expected {wanted}"
            )
        self._check_dims(what, meta.shape, wanted)

    def _check_dims(self, what: str, shape: tuple[int, ...], wanted: Wanted) -> None:
        dims = wanted.dims.split()
        many = [i for i, dim in enumerate(dims) if dim == "..." or dim.startswith("*")]
        fixed = len(dims) - len(many)
        if len(many) > 1:
            raise ShapeError(f"{wanted}: more than one of `...` and `*name`")
        if len(shape) < fixed or (not many and len(shape) != fixed):
            at_least = "at least " if many else ""
            raise ShapeError(
                f"{self.function}(): {what} has {len(shape)} dims, {list(shape)}; expected "
                f"{wanted}, {at_least}{fixed}"
            )
        if many:
            place = many[0]
            taken = len(shape) - fixed
            self._bind(what, shape, place, dims[place], shape[place : place + taken], wanted)
            dims[place : place + 1] = ["_"] * taken
        for i, dim in enumerate(dims):
            self._bind(what, shape, i, dim, shape[i], wanted)

    def _bind(
        self, what: str, shape: tuple[int, ...], i: int, dim: str, size: Any, wanted: Wanted
    ) -> None:
        """Gives a name its size, or compares."""
        dim = dim.split("=")[-1].lstrip("*")
        if dim in ("_", "...", ""):
            return
        if dim.isidentifier():
            expected = self.sizes.setdefault(dim, size)
            self.origins.setdefault(dim, f"{what} {tuple(shape)}")
        else:
            expected = _computed(dim, self.sizes)
        if expected == size:
            return
        why = f"'{dim}' is {expected}"
        if dim in self.origins:
            why += f" by {self.origins[dim]}"
        drawing = in_a_row(Shown(what, shape, {i}))
        raise ShapeError(
            f"{self.function}(): {what} does not fit {wanted}: dim {i} is {size}, but {why}\n"
            f"{drawing}"
        )


def _computed(text: str, sizes: dict[str, Any]) -> int:
    """The value of a dim such as `2*n`."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in sizes:
            return int(sizes[node.id])
        if isinstance(node, ast.BinOp):
            a, b = value(node.left), value(node.right)
            if isinstance(node.op, ast.Add):
                return a + b
            if isinstance(node.op, ast.Sub):
                return a - b
            if isinstance(node.op, ast.Mult):
                return a * b
            if isinstance(node.op, ast.FloorDiv):
                return a // b
        raise ShapeError(
            f"the dim {text!r} is no number, name, or sum, difference or product of them"
        )

    return value(ast.parse(text, mode="eval").body)


__all__ = ["Bool", "Complex", "Float", "Int", "ShapeError", "Shaped", "shapes"]
