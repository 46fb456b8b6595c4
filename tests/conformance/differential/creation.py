"""New tensors."""

from __future__ import annotations

from .pen import COMPLEX, FLOATS, SHAPES, Pen


def statement(pen: Pen) -> str:
    make = pen.choose(*[literal] * 6, filled, like, parameter, ranged)
    return f"{pen.fresh()} = {make(pen)}"


def leaf(pen: Pen) -> str:
    """Something to differentiate by."""
    dtype = pen.choose("float32", "float32", "float64")
    return f"{pen.fresh()} = {pen.literal(pen.choose(*SHAPES), dtype, ', requires_grad=True')}"


def plain(pen: Pen) -> str:
    """Something to look at and to write to."""
    return f"{pen.fresh()} = {pen.literal(pen.choose(*SHAPES), pen.dtype())}"


def literal(pen: Pen) -> str:
    shape, dtype = pen.choose(*SHAPES), pen.dtype()
    grad = dtype in (*FLOATS, *COMPLEX) and pen.chance(0.6)
    return pen.literal(shape, dtype, ", requires_grad=True" if grad else "")


def filled(pen: Pen) -> str:
    shape, dtype = pen.choose(*SHAPES), pen.dtype()
    make = pen.choose("zeros", "ones", "full")
    number = ", " + pen.number() if make == "full" else ""
    return f"T.{make}({shape}{number}, dtype=T.{dtype})"


def like(pen: Pen) -> str:
    x = pen.tensor()
    return pen.choose(
        f"T.zeros_like({x})",
        f"T.ones_like({x}, dtype=T.{pen.dtype()})",
        f"T.full_like({x}, {pen.number(pen.value(x).dtype)})",
        f"{x}.new_zeros({pen.choose(*SHAPES)})",
        f"{x}.new_full({pen.choose(*SHAPES)}, {pen.number(pen.value(x).dtype)})",
        f"{x}.new_tensor([1, 2, 3])",
        f"T.empty_like({x}).fill_({pen.number(pen.value(x).dtype)})",
        f"T.tensor({x}.tolist())",
        f"T.as_tensor({x})",
    )


def parameter(pen: Pen) -> str:
    x = pen.floats()
    return pen.choose(f"T.nn.Parameter({x})", f"T.nn.Parameter({x}.detach().clone())")


def ranged(pen: Pen) -> str:
    return pen.choose(
        "T.arange(6)",
        "T.arange(6.0).reshape(2, 3)",
        "T.arange(12.0).reshape(3, 4)",
        "T.arange(1, 7, 2)",
        "T.linspace(0, 1, 5)",
        "T.eye(3)",
        "T.eye(2, 3, dtype=T.int64)",
        "T.tensor(2)",
        "T.tensor(True)",
        "T.tensor(1.5, dtype=T.float64)",
        "T.tensor([])",
        "T.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)",
    )
