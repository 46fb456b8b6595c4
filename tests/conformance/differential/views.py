"""Views: what PyTorch gives without copying, and what it copies only when it must."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .pen import SLIP, Pen, Stuck

View = Callable[[Pen, str, torch.Tensor], str]


def statement(pen: Pen) -> str:
    x = pen.tensor()
    if pen.chance(0.12):
        return several(pen, x, pen.value(x))
    return f"{pen.fresh()} = {view(pen, x)}"


def view(pen: Pen, x: str) -> str:
    """A view of a variable, or of another view of it."""
    make: View = pen.choose(*VIEWS)
    text = make(pen, x, pen.value(x))
    if pen.chance(0.15):  # a view of the view, if it can be had
        name = pen.fresh()
        if pen.writes(f"_{name} = {text}") is None:
            inner = pen.side.variables.pop(f"_{name}")
            make = pen.choose(*VIEWS)
            return make(pen, text, inner)
    return text


# --------------------------------------------------------------------------------- dims


def transpose(pen: Pen, x: str, v: torch.Tensor) -> str:
    name = pen.choose("transpose", "swapaxes", "swapdims", "movedim")
    return f"{x}.{name}({pen.dim(v)}, {pen.dim(v)})"


def transposed(pen: Pen, x: str, v: torch.Tensor) -> str:
    if v.dim() > 2:
        return pen.choose(f"{x}.mT", f"{x}.adjoint()")
    return pen.choose(f"{x}.t()", f"{x}.T", f"{x}.mT", f"T.t({x})")


def permute(pen: Pen, x: str, v: torch.Tensor) -> str:
    order = list(range(v.dim()))
    pen.rng.shuffle(order)
    return f"{x}.permute({tuple(order)})"


def squeeze(pen: Pen, x: str, v: torch.Tensor) -> str:
    return pen.choose(f"{x}.squeeze()", f"{x}.squeeze({pen.dim(v)})")


def unsqueeze(pen: Pen, x: str, v: torch.Tensor) -> str:
    return f"{x}.unsqueeze({pen.rng.randrange(-v.dim() - 1, v.dim() + 1)})"


def diagonal(pen: Pen, x: str, v: torch.Tensor) -> str:
    return pen.choose(f"{x}.diagonal()", f"{x}.diagonal({pen.choose(1, -1)}, -2, -1)")


# --------------------------------------------------------------------------------- shapes


def reshape(pen: Pen, x: str, v: torch.Tensor) -> str:
    shape = list(pen.shape_of_size(v.numel()))
    if shape and pen.chance(0.25):
        shape[pen.rng.randrange(len(shape))] = -1
    if pen.chance(SLIP):
        shape.append(2)
    return f"{x}.{pen.choose('reshape', 'view', 'reshape')}({tuple(shape)})"


def flatten(pen: Pen, x: str, v: torch.Tensor) -> str:
    return pen.choose(
        f"{x}.flatten()", f"{x}.flatten({pen.dim(v)}, -1)", f"{x}.ravel()", f"T.flatten({x}, 0, 1)"
    )


def unflatten(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    size = v.shape[dim] if -v.dim() <= dim < v.dim() else 1
    return f"{x}.unflatten({dim}, {pen.choose((size, 1), (1, size), (-1, 1))})"


def view_as(pen: Pen, x: str, v: torch.Tensor) -> str:
    y = pen.tensor(lambda y: y.numel() == v.numel())
    return f"{x}.{pen.choose('view_as', 'reshape_as')}({y})"


def expand(pen: Pen, x: str, v: torch.Tensor) -> str:
    shape = [3 if n == 1 and pen.chance(0.7) else n for n in v.shape]
    if pen.chance(0.4):
        shape.insert(0, 2)
    if pen.chance(0.3):
        return f"{x}.expand_as({x})"
    if pen.chance(0.2):
        return f"T.broadcast_to({x}, {tuple(shape)})"
    return f"{x}.expand({tuple(shape)})"


def contiguous(pen: Pen, x: str, v: torch.Tensor) -> str:
    return pen.choose(
        f"{x}.contiguous()",
        f"{x}.clone()",
        f"{x}.to({x}.dtype)",
        f"{x}.to(T.{str(v.dtype).split('.')[-1]}, copy={pen.choose(True, False)})",
        f"{x}.type_as({x})",
    )


# --------------------------------------------------------------------------------- parts


def select(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    return f"{x}.select({dim}, {pen.place(size_of(v, dim))})"


def narrow(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    size = size_of(v, dim)
    start = pen.rng.randint(0, size)
    return f"{x}.narrow({dim}, {start}, {pen.rng.randint(0, size - start)})"


def unfold(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    size = pen.rng.randint(1, max(size_of(v, dim), 1))
    return f"{x}.unfold({dim}, {size}, {pen.choose(1, 1, 2)})"


def as_strided(pen: Pen, x: str, v: torch.Tensor) -> str:
    """Windows of the storage, overlapping or not, that stay within it."""
    room = v.untyped_storage().nbytes() // v.element_size()
    shape = [pen.rng.randint(1, 3) for _ in range(pen.rng.randint(0, 2))]
    strides = [pen.choose(0, 1, 1, 2, 3) for _ in shape]
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if reach >= room:
        raise Stuck
    offset = pen.choose("", f", {pen.rng.randint(0, room - 1 - reach)}")
    if not offset and v.storage_offset() + reach >= room:
        raise Stuck
    if v.requires_grad and v._is_view():
        x += ".detach()"  # PyTorch has no gradient for what the window shows beyond the view
    return f"{x}.as_strided({tuple(shape)}, {tuple(strides)}{offset})"


def index(pen: Pen, x: str, v: torch.Tensor) -> str:
    return f"{x}[{basic_key(pen, v)}]"


def basic_key(pen: Pen, v: torch.Tensor) -> str:
    """A key of ints, slices, None, ... and 0-d index tensors, all of which give views."""
    parts = [basic_part(pen, n) for n in v.shape[: pen.rng.randint(0, v.dim())]]
    if pen.chance(0.2):
        parts.insert(pen.rng.randint(0, len(parts)), "None")
    if pen.chance(0.2) or not parts:
        parts.insert(pen.rng.randint(0, len(parts)), "...")
    return ", ".join(parts)


def basic_part(pen: Pen, size: int) -> str:
    kind = pen.rng.random()
    if kind < 0.35:
        return str(pen.place(size))
    if kind < 0.43:
        return f"T.tensor({pen.place(size)})"
    if kind < 0.5:
        return ":"
    bounds = [str(pen.rng.randint(-size, size)) if pen.chance(0.6) else "" for _ in range(2)]
    return ":".join(bounds) + pen.choose("", "", ":2", ":3", ":1")


# --------------------------------------------------------------------------------- dtypes, autograd


def reinterpret(pen: Pen, x: str, v: torch.Tensor) -> str:
    if v.dtype == torch.bool or not v.isfinite().all():
        raise Stuck  # the bits of NaN are not defined, nor is what a bool with other bits does
    if v.is_complex():
        return pen.choose(f"{x}.real", f"{x}.imag", f"T.view_as_real({x})", f"{x}.conj()")
    same_size = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}[v.element_size()]
    other = pen.choose(same_size, same_size, "uint8", "int16", "float32", "complex64")
    return f"{x}.view(T.{other})"


def detached(pen: Pen, x: str, v: torch.Tensor) -> str:
    return pen.choose(f"{x}.detach()", f"{x}.data", f"{x}.view({x}.shape)", f"{x}[:]", f"{x}[...]")


def of_grad(pen: Pen, x: str, v: torch.Tensor) -> str:
    if v.grad is None:
        raise Stuck
    return f"{x}.grad"


def size_of(v: torch.Tensor, dim: int) -> int:
    return v.shape[dim] if -v.dim() <= dim < v.dim() else 1


VIEWS: tuple[View, ...] = (
    *[index] * 8,
    *[reshape] * 4,
    *(transpose, transposed, transposed, permute, squeeze, unsqueeze, diagonal, flatten, unflatten),
    *(view_as, expand, expand, contiguous, contiguous, select, narrow, unfold, as_strided),
    *(reinterpret, detached, detached, of_grad),
)


# --------------------------------------------------------------------------------- several at once


def several(pen: Pen, x: str, v: torch.Tensor) -> str:
    """Parts of a tensor under names of their own."""
    dim = pen.dim(v)
    text = pen.choose(
        f"T.chunk({x}, 2, {dim})",
        f"{x}.chunk(3, {dim})",
        f"{x}.split({pen.choose(1, 2)}, {dim})",
        f"{x}.tensor_split(2, {dim})",
        f"T.unbind({x}, {dim})",
        f"{x}.unbind({dim})",
        f"T.split({x}, {split_sizes(pen, size_of(v, dim))}, {dim})",
        f"list({x})",
    )
    name = pen.fresh()
    if pen.writes(f"_{name} = {text}") is not None:
        return f"{name} = {text}"
    parts = pen.side.variables.pop(f"_{name}")
    if not 1 <= len(parts) <= 4:
        raise Stuck
    names = [name, *[pen.fresh() for _ in parts[1:]]]
    return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {text}"


def split_sizes(pen: Pen, size: int) -> list[int]:
    first = pen.rng.randint(0, size)
    return [first, size - first]
