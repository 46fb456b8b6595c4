"""Writes: into variables, through views of them, by keys, `out=`, `.data`, under `no_grad`."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .pen import SLIP, Pen, Stuck, in_range, is_overlapping, overlaps
from .views import basic_key, size_of, view

Write = Callable[[Pen, str, torch.Tensor], str]


def statement(pen: Pen) -> str:
    if pen.chance(0.1):
        return into_out(pen)
    if pen.chance(0.1):
        return of_the_handle(pen)
    if pen.chance(0.06):
        return in_a_loop(pen)
    x = pen.tensor()
    target, v = written_to(pen, x)
    make: Write = pen.choose(*WRITES)
    line = make(pen, target, v)
    return under(pen) + line


def under(pen: Pen) -> str:
    if pen.chance(0.7):
        return ""
    return pen.choose("with T.no_grad(): ", "with T.no_grad(): ", "with T.enable_grad(): ")


def written_to(pen: Pen, x: str) -> tuple[str, torch.Tensor]:
    """What is written to: a variable, a view of it, its data; and what that is."""
    text = x
    if pen.chance(0.35):
        text = view(pen, x)
    if pen.chance(0.15):
        text += pen.choose(".data", ".detach()")
    if text == x:
        return text, pen.value(x)
    if pen.writes(f"_written = {text}") is not None:
        return x, pen.value(x)
    v = pen.side.variables.pop("_written")
    if not isinstance(v, torch.Tensor):
        return x, pen.value(x)
    if is_overlapping(v) and v.requires_grad and not pen.chance(SLIP):
        raise Stuck  # PyTorch counts the gradient of an element once for each of its places
    return text, v


# --------------------------------------------------------------------------------- all elements


def by_number(pen: Pen, x: str, v: torch.Tensor) -> str:
    number = pen.number(v.dtype)
    return pen.choose(
        f"{x}.zero_()",
        f"{x}.fill_({number})",
        f"{x}.add_({number})",
        f"{x}.mul_({number})",
        f"{x}.sub_({number}, alpha={pen.choose(1, 2)})",
        f"{x}.div_({number})",
        f"{x}.pow_({pen.choose(2, 3, 1)})",
        f"{x}.clamp_({pen.choose('-1, 1', 'min=0', 'max=1', '0, 2')})",
        f"{x}.fmod_(3)",
        f"{x}.floor_divide_(2)",
    )


def by_itself(pen: Pen, x: str, v: torch.Tensor) -> str:
    names = "neg_ abs_ relu_ square_ sign_"
    if v.is_floating_point():
        names += " sin_ exp_ sigmoid_ tanh_ round_ floor_ trunc_ nan_to_num_ sqrt_ reciprocal_"
    if v.dtype == torch.bool:
        names = "logical_not_ bitwise_not_ abs_ neg_"
    if v.is_complex():
        names = "neg_ conj_physical_ square_"
    return f"{x}.{pen.choose(*names.split())}()"


def by_operand(pen: Pen, x: str, v: torch.Tensor) -> str:
    other = converted(pen, pen.fitting(v), v)
    method = pen.choose(*"add_ mul_ sub_ copy_ copy_ div_ maximum lerp_ eq_ lt_".split())
    if method == "maximum":
        return f"{x}.copy_(T.maximum({x}, T.as_tensor({other}, dtype={x}.dtype)))"
    if method == "lerp_":
        return f"{x}.lerp_(T.ones_like({x}), {pen.choose('0.5', '0.25')})"
    if method == "copy_" and not other[0].isalpha():
        other = f"T.tensor({other})"
    alpha = f", alpha={pen.choose(2, -1)}" if method in ("add_", "sub_") and pen.chance(0.2) else ""
    return f"{x}.{method}({other}{alpha})"


def ternary(pen: Pen, x: str, v: torch.Tensor) -> str:
    a, b = converted(pen, pen.fitting(v), v), converted(pen, pen.fitting(v), v)
    return pen.choose(
        f"{x}.addcmul_(T.ones_like({x}), T.as_tensor({a}, dtype={x}.dtype), value=2)",
        f"{x}.addcdiv_(T.as_tensor({b}, dtype={x}.dtype), T.full_like({x}, 2))",
        f"{x}.lerp_(T.as_tensor({a}, dtype={x}.dtype), T.as_tensor({b}, dtype={x}.dtype))",
        f"{x}.copy_(T.where({x} > 0, {a}, {b}))" if not v.is_complex() else f"{x}.neg_()",
    )


def converted(pen: Pen, other: str, v: torch.Tensor) -> str:
    """The operand, unless to convert its numbers to the dtype of v, or to read it meanwhile, is
    not defined."""
    operand = pen.side.variables.get(other)
    if not isinstance(operand, torch.Tensor):
        return other
    undefined = overlaps(v, operand) or not (v.is_floating_point() or in_range(operand))
    return "2" if undefined else other


def augmented(pen: Pen, x: str, v: torch.Tensor) -> str:
    if not x.isidentifier() and not x.endswith(("]", ".data")):
        raise Stuck
    operator = pen.choose("+=", "+=", "*=", "-=", "/=", "//=", "**=", "%=", "&=", "|=")
    other = "2" if operator in ("**=", "%=", "//=") else converted(pen, pen.fitting(v), v)
    return f"{x} {operator} {other}"


# --------------------------------------------------------------------------------- by key


def set_item(pen: Pen, x: str, v: torch.Tensor) -> str:
    key = any_key(pen, v)
    if pen.writes(f"_part = {x}[{key}]") is not None:
        return f"{x}[{key}] = 1"
    part = pen.side.variables.pop("_part")
    operator = pen.choose("=", "=", "=", "+=", "*=")
    return f"{x}[{key}] {operator} {converted(pen, pen.fitting(part), v)}"


def any_key(pen: Pen, v: torch.Tensor) -> str:
    """A key: basic, or with index tensors, lists, masks, alone or mixed."""
    if pen.chance(0.4):
        return basic_key(pen, v)
    if pen.chance(0.25) and v.dim():
        return mask_for(pen, v)
    parts = []
    count = pen.choose(1, 2, 3)
    for n in v.shape[: pen.rng.randint(1, max(v.dim(), 1))]:
        kind = pen.rng.random()
        if kind < 0.25:
            parts.append(pen.indices(count, n))
        elif kind < 0.5:
            parts.append(pen.index(count, n, negative=True))
        elif kind < 0.6:
            parts.append(f"T.tensor([[{pen.place(n)}], [{pen.place(n)}]])")
        elif kind < 0.7:
            parts.append(pen.literal((n,), "bool"))
        elif kind < 0.8:
            parts.append(str(pen.place(n)))
        else:
            parts.append(":")
    if pen.chance(0.15):
        parts.insert(pen.rng.randint(0, len(parts)), pen.choose("None", "..."))
    return ", ".join(parts) or "..."


def mask_for(pen: Pen, v: torch.Tensor) -> str:
    masks = pen.named(
        lambda m: (
            isinstance(m, torch.Tensor) and m.dtype == torch.bool and m.shape == v.shape[: m.dim()]
        )
    )
    if masks and pen.chance(0.5):
        return str(pen.choose(*masks))
    shape = list(v.shape[: pen.rng.randint(1, v.dim())])
    if pen.chance(SLIP):
        shape[-1] += 1
    return pen.literal(shape, "bool")


def masked(pen: Pen, x: str, v: torch.Tensor) -> str:
    mask = mask_for(pen, v) if v.dim() else "T.tensor(True)"
    dtype = str(v.dtype).split(".")[-1]
    return pen.choose(
        f"{x}.masked_fill_({pen.literal(v.shape[-1:], 'bool')}, {pen.number(v.dtype)})",
        f"{x}.masked_scatter_({pen.literal(v.shape, 'bool')}, {pen.literal((v.numel(),), dtype)})",
        f"{x}.index_put_(({mask},), {pen.literal((), dtype)})",
        f"{x}.masked_fill_({pen.literal(v.shape, 'bool')}, {pen.literal((), dtype)})",
    )


def indexed(pen: Pen, x: str, v: torch.Tensor) -> str:
    """`index_…_` and `scatter_…` along a dim."""
    dim = pen.dim(v)
    size = size_of(v, dim)
    count = pen.rng.randint(0, 3)
    shape = list(v.shape)
    if shape and -len(shape) <= dim < len(shape):
        shape[dim] = count
    dtype = str(v.dtype).split(".")[-1]
    index = pen.index(count if v.dim() else 1, size)
    wide = f"T.tensor({places(pen, shape, size)}).reshape({tuple(shape)})"
    if 0 in shape:
        wide = f"T.zeros({tuple(shape)}, dtype=T.int64)"
    source = pen.literal(shape, dtype)
    return pen.choose(
        f"{x}.index_fill_({dim}, {index}, {pen.number(v.dtype)})",
        f"{x}.index_add_({dim}, {index}, {source})",
        f"{x}.index_copy_({dim}, {distinct(pen, count, size)}, {source})",
        f"{x}.scatter_({dim}, {wide}, {pen.number(v.dtype)})",
        f"{x}.scatter_add_({dim}, {wide}, {source})",
        f"{x}.scatter_reduce_({dim}, {wide}, {source}, '{pen.choose('sum', 'amax', 'amin')}')",
        f"{x}.index_put_(({pen.index(2, v.shape[0] if v.dim() else 1, negative=True)},), "
        f"{pen.literal((), dtype)}, accumulate={pen.choose(True, False)})",
    )


def places(pen: Pen, shape: list[int], size: int) -> list[int]:
    """Places for an index of a shape: in a flat list, not negative."""
    count = 1
    for n in shape:
        count *= n
    return [pen.rng.randrange(max(size, 1)) for _ in range(count)]


def distinct(pen: Pen, count: int, size: int) -> str:
    """An index without repetitions: which of two writes to one place wins is not defined."""
    return f"T.tensor({pen.rng.sample(range(size), min(count, size))}, dtype=T.int64)"


def shaped(pen: Pen, x: str, v: torch.Tensor) -> str:
    """Parts that are named by their place in a matrix, and folds along a dim."""
    return pen.choose(
        f"{x}.fill_diagonal_({pen.number(v.dtype)})",
        f"{x}.tril_()",
        f"{x}.triu_(1)",
        f"{x}.cumsum_({pen.dim(v)})",
        f"{x}.t_().mul_(2)",
        f"{x}.transpose_({pen.dim(v)}, {pen.dim(v)})",
        f"{x}.unsqueeze_(0)",
        f"{x}.squeeze_()",
    )


WRITES: tuple[Write, ...] = (
    *[by_number] * 4,
    *[by_operand] * 4,
    *[set_item] * 6,
    *(
        by_itself,
        by_itself,
        ternary,
        augmented,
        augmented,
        masked,
        masked,
        indexed,
        indexed,
        shaped,
    ),
)


# --------------------------------------------------------------------------------- out=, the handle


FOLDS = ("sum", "cat", "cumsum", "stack")
"""Functions whose result, written over what they read, is not defined."""


def into_out(pen: Pen) -> str:
    """Results written into a tensor that is there: of the right shape and dtype, mostly."""
    x = pen.tensor()
    v = pen.value(x)
    name, text = pen.fresh(), None
    dim = pen.dim(v)
    function, arguments = pen.choose(
        ("add", f"{x}, {pen.fitting(v)}"),
        ("mul", f"{x}, {pen.fitting(v)}"),
        ("exp", x),
        ("sum", f"{x}, {dim}"),
        ("cat", f"[{x}, {x}], {dim}"),
        ("cumsum", f"{x}, {dim}"),
        ("clamp", f"{x}, 0, 1"),
        ("eq", f"{x}, {pen.fitting(v)}"),
        ("stack", f"[{x}, {x}]"),
    )
    text = f"T.{function}({arguments})"
    if pen.writes(f"_{name} = {text}") is not None:
        return text
    result = pen.side.variables.pop(f"_{name}")
    outs = pen.named(
        lambda y: (
            isinstance(y, torch.Tensor)
            and y.shape == result.shape
            and (y.dtype == result.dtype or pen.chance(0.1))
            and not overlaps(y, v)
            and (function not in FOLDS or y.data_ptr() != v.data_ptr())
        )
    )
    if outs and pen.chance(0.7):
        return under(pen) + f"T.{function}({arguments}, out={pen.choose(*outs)})"
    made = f"T.empty_like({text})" if pen.chance(0.7) else "T.empty(0)"
    return f"{name} = T.{function}({arguments}, out={made})"


def in_a_loop(pen: Pen) -> str:
    """Writes to one part after another."""
    x = pen.tensor(lambda x: x.dim() > 0 and len(x) > 0)
    n = len(pen.value(x))
    number = pen.number(pen.value(x).dtype)
    return str(
        pen.choose(
            f"for _part in {x}: _part.add_({number})",
            f"for _i in range({n}): {x}[_i] += {number}",
            f"for _i in {pen.index(2, n)}: {x}[_i].mul_({number})",
            f"for _i, _part in enumerate({x}.unbind()): _part.fill_(_i)",
            f"for _part in {x}.split(1): _part += {number}",
        )
    )


def of_the_handle(pen: Pen) -> str:
    """What changes a tensor itself, not its numbers."""
    x = pen.tensor()
    v = pen.value(x)
    alike = pen.named(
        lambda y: (
            isinstance(y, torch.Tensor)
            and (y.shape == v.shape or pen.chance(SLIP))
            and y.dtype == v.dtype
        )
    )
    y = pen.choose(*alike) if alike else x
    options = [
        f"{x}.data = {y}",
        f"{x}.data = {y}.detach().clone()",
        f"{x}.detach_()",
        f"{x}.requires_grad_({pen.choose('', 'True', 'False')})",
        f"{x}.requires_grad = {pen.choose(True, False)}",
        f"{x}.grad = None",
        f"{x}.grad = T.ones_like({x})",
        f"{x}.grad = {y}",
        f"{x}.set_({y})",
        f"{x} = {y}",
        f"del {x}",
    ]
    if v.numel():  # what a larger storage holds is not defined
        options.append(f"{x}.resize_({tuple(v.shape[1:])})" if v.dim() else f"{x}.resize_(1)")
    if v.grad is not None:
        options += [f"{x}.grad.zero_()", f"{x}.grad.mul_(2)", f"{x}.grad.detach_().add_(1)"]
    return str(pen.choose(*options))
