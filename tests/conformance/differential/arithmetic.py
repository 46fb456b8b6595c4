"""Results that are new tensors: elementwise, folds, products, joins, conversions, layers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .inplace import any_key, places
from .pen import Pen, Stuck, in_range
from .views import size_of, view

Expression = Callable[[Pen, str, torch.Tensor], str]


def statement(pen: Pen) -> str:
    if pen.chance(0.07):
        return read(pen)
    if pen.chance(0.06):
        return pairs(pen)
    return f"{pen.fresh()} = {under(pen, expression(pen))}"


def expression(pen: Pen) -> str:
    make: Expression = pen.choose(*EXPRESSIONS)
    x = pen.tensor()
    return make(pen, x, pen.value(x))


def under(pen: Pen, text: str) -> str:
    """The expression, now and then cut off from its graph, copied, or made a leaf."""
    if pen.chance(0.85):
        return text
    return f"({text})." + pen.choose("detach()", "requires_grad_()", "clone()", "contiguous()")


# --------------------------------------------------------------------------------- elementwise


def unary(pen: Pen, x: str, v: torch.Tensor) -> str:
    names = "neg abs square sign relu clone"
    if v.is_floating_point():
        names += (
            " exp sin cos tanh sigmoid sqrt log floor round frac reciprocal isnan erf log1p"
            " rsqrt expm1 isfinite nan_to_num logical_not"
        )
    elif v.is_complex():
        names = "neg abs angle exp square conj resolve_conj real imag"
    elif v.dtype == torch.bool:
        names = "logical_not bitwise_not abs isnan sqrt exp"
    else:
        names += " bitwise_not exp sqrt sigmoid reciprocal logical_not floor"
    name = pen.choose(*names.split())
    return (
        pen.choose(f"T.{name}({x})", f"{x}.{name}()")
        if name not in ("real", "imag")
        else (f"{x}.{name}")
    )


def binary(pen: Pen, x: str, v: torch.Tensor) -> str:
    other = pen.fitting(v)
    operator = pen.choose(*"+ + + - - * * * / / // % ** == < > <= != & | ^".split())
    if operator == "**":
        other = pen.choose("2", "3", "0.5", "-1", "0")
    if pen.chance(0.2):
        return f"{other} {operator} {x}"
    return f"{x} {operator} {other}"


def binary_function(pen: Pen, x: str, v: torch.Tensor) -> str:
    name = pen.choose(
        *"add mul sub maximum minimum atan2 fmod remainder div logical_and eq hypot fmax".split(),
        *"logaddexp xlogy floor_divide true_divide ldexp dist isclose heaviside".split(),
    )
    other = pen.fitting(v)
    if not other[0].isalpha() and name not in ("add", "mul", "sub", "div"):
        other = f"T.tensor({other})"
    option = ""
    if name == "ldexp":
        x += ".detach()"  # PyTorch's gradient is 0 where the exponents are negative integers
    if name in ("add", "sub") and pen.chance(0.3):
        option = f", alpha={pen.choose(2, 0.5, -1)}"
    if name == "div" and pen.chance(0.5):
        option = f", rounding_mode='{pen.choose('floor', 'trunc')}'"
    return f"T.{name}({x}, {other}{option})"


def choice(pen: Pen, x: str, v: torch.Tensor) -> str:
    if v.is_complex():
        raise Stuck
    return pen.choose(
        f"T.where({x} > 0, {x}, {pen.fitting(v)})",
        f"T.where({x} == {x}, {pen.fitting(v)}, {pen.fitting(v)})",
        f"{x}.clamp({pen.choose('-1, 1', 'min=0', 'max=0.5')})",
        f"{x}.masked_fill({x} < 0, {pen.number(v.dtype)})",
        f"T.lerp({x}, T.zeros_like({x}), 0.5)",
        f"T.addcmul({x}, {x}, {x}, value=2)",
    )


def conversion(pen: Pen, x: str, v: torch.Tensor) -> str:
    dtype = pen.dtype()
    if not dtype.startswith(("float", "bfloat", "complex", "bool")) and not in_range(v):
        dtype = "float64"
    shorts = [f"{x}.float()", f"{x}.double()", f"{x}.bool()", f"{x}.half()"]
    return pen.choose(
        f"{x}.to(T.{dtype})", f"{x}.type(T.{dtype})", *shorts[:2], pen.choose(*shorts)
    )


# --------------------------------------------------------------------------------- folds


def fold(pen: Pen, x: str, v: torch.Tensor) -> str:
    name = pen.choose(
        *"sum sum mean prod amax amin all any logsumexp var std norm count_nonzero".split()
    )
    if not v.is_floating_point() and name in ("mean", "var", "std", "norm", "logsumexp"):
        name = "sum"
    if pen.chance(0.4) and name not in ("logsumexp",):
        return f"{x}.{name}()"
    several = name in ("sum", "mean", "amax", "amin", "logsumexp", "var", "std", "norm")
    dim = str(pen.dims(v)) if several and v.dim() and pen.chance(0.4) else str(pen.dim(v))
    if name in ("norm",):
        return f"T.linalg.vector_norm({x}, dim={dim})"
    if name == "count_nonzero":
        return f"T.count_nonzero({x}, {dim})"
    return (
        f"{x}.{name}({dim}, keepdim={pen.choose(True, False)})"
        if pen.chance(0.6)
        else (f"{x}.{name}({dim})")
    )


def scan(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    return pen.choose(
        f"{x}.cumsum({dim})",
        f"{x}.cumprod({dim})",
        f"{x}.argmax({dim})",
        f"{x}.argmin()",
        f"{x}.max()",
        f"{x}.min()",
        f"{x}.max({dim}).values",
        f"{x}.sort(dim={dim}, stable=True).values",
        f"{x}.argsort(dim={dim}, stable=True)",
        f"{x}.softmax({dim})" if v.is_floating_point() else f"{x}.flip({dim})",
        f"{x}.log_softmax({dim})" if v.is_floating_point() else f"{x}.roll(1, {dim})",
        f"{x}.flip({dim})",
        f"{x}.roll({pen.choose(1, -1, 2)}, {dim})",
        f"T.diff({x}, dim={dim})",
    )


# --------------------------------------------------------------------------------- products


def product(pen: Pen, x: str, v: torch.Tensor) -> str:
    dtype = str(v.dtype).split(".")[-1]
    if v.dim() == 0:
        raise Stuck
    inner = v.shape[-1]
    others = pen.named(
        lambda y: (
            isinstance(y, torch.Tensor)
            and y.dim() in (1, 2)
            and y.dtype == v.dtype
            and inner == y.shape[0]
        )
    )
    other = pen.choose(*others) if others else pen.literal(pen.choose((inner,), (inner, 2)), dtype)
    return pen.choose(
        f"{x} @ {other}",
        f"T.matmul({x}, {other})",
        f"F.linear({x}, {pen.literal((2, inner), dtype)}, {pen.literal((2,), dtype)})",
        f"T.einsum('...i,...i->...', {x}, {x})",
        f"T.outer({x}.flatten(), {pen.literal((2,), dtype)})",
        f"{x}.mT @ {x}" if v.dim() > 1 else f"{x}.dot({x})",
        f"T.tensordot({x}, {pen.literal((inner, 2), dtype)}, 1)",
    )


# --------------------------------------------------------------------------------- parts and joins


def gathered(pen: Pen, x: str, v: torch.Tensor) -> str:
    dim = pen.dim(v)
    size = size_of(v, dim)
    shape = list(v.shape)
    if shape and -len(shape) <= dim < len(shape):
        shape[dim] = pen.rng.randint(1, 3)
    wide = f"T.tensor({places(pen, shape, size)}, dtype=T.int64).reshape({tuple(shape)})"
    return pen.choose(
        f"{x}[{any_key(pen, v)}]",
        f"{x}[{any_key(pen, v)}]",
        f"{x}.index_select({dim}, {pen.index(2, size)})",
        f"{x}.gather({dim}, {wide})",
        f"T.take_along_dim({x}, {wide}, {dim})",
        f"{x}.take({pen.index(3, v.numel(), negative=True)})",
        f"{x}.masked_select({pen.literal(v.shape, 'bool')})",
        f"{x}.repeat_interleave(2, {dim})",
        f"{x}.repeat({(2, *[1] * v.dim())})",
        f"{x}.tril()" if v.dim() > 1 else f"{x}.diag()",
        f"{x}.nonzero()",
        f"F.pad({x}, ({pen.choose(0, 1, -1)}, 1))",
        f"{x}.scatter({dim}, {wide}, {pen.number(v.dtype)})",
        f"{x}.index_fill({dim}, {pen.index(1, size)}, {pen.number(v.dtype)})",
        f"T.diag_embed({x})",
        f"{view(pen, x)} * 1",
    )


def joined(pen: Pen, x: str, v: torch.Tensor) -> str:
    others = pen.named(lambda y: isinstance(y, torch.Tensor) and y.shape == v.shape)
    parts = ", ".join(pen.choose(*others, x) for _ in range(pen.choose(1, 2, 2, 3)))
    return pen.choose(
        f"T.cat([{parts}], {pen.dim(v)})",
        f"T.stack([{parts}], {pen.rng.randrange(-v.dim() - 1, v.dim() + 1)})",
        f"T.hstack([{parts}])",
        f"T.vstack([{parts}])",
    )


# --------------------------------------------------------------------------------- layers, losses


def layer(pen: Pen, x: str, v: torch.Tensor) -> str:
    if not v.is_floating_point() or v.dim() == 0 or v.numel() == 0:
        raise Stuck
    dtype = str(v.dtype).split(".")[-1]
    last, reduction = v.shape[-1], pen.choose("", ", reduction='sum'", ", reduction='none'")
    options = [
        f"F.layer_norm({x}, ({last},))",
        f"F.{pen.choose('gelu', 'silu', 'softplus', 'elu', 'leaky_relu', 'relu', 'hardtanh')}({x})",
        f"F.{pen.choose('mse_loss', 'l1_loss', 'smooth_l1_loss', 'huber_loss')}"
        f"({x}, {pen.literal(v.shape, dtype)}{reduction})",
        f"F.binary_cross_entropy_with_logits({x}, T.sigmoid({x}).detach(){reduction})",
        f"F.normalize({x}, dim={pen.dim(v)})",
        f"F.cosine_similarity({x}, T.ones_like({x}), dim=-1)",
        f"F.kl_div({x}, T.ones_like({x}){reduction})",
    ]
    if v.dim() == 2:
        rows, classes = v.shape
        targets = f"T.tensor({[pen.rng.randrange(classes) for _ in range(rows)]})"
        options += [
            f"F.cross_entropy({x}, {targets}{reduction})",
            f"F.nll_loss({x}, {targets}{reduction})",
            f"F.embedding(T.tensor([0, {rows - 1}, 0]), {x})",
            f"F.batch_norm({x}, None, None, training=True)",
        ]
    if v.dim() == 3:
        weight = pen.literal(
            (2, v.shape[1], 2), dtype, finite=True
        )  # inf times padding is anything
        options += [
            f"F.conv1d({x}, {weight}, padding=1)",
            f"F.max_pool1d({x}, 2)",
            f"F.avg_pool1d({x}, 2)",
            f"F.batch_norm({x}, None, None, training=True)",
        ]
    return str(pen.choose(*options))


EXPRESSIONS: tuple[Expression, ...] = (
    *[binary] * 8,
    *[unary] * 4,
    *[fold] * 4,
    *(binary_function, binary_function, choice, conversion, conversion, scan, scan, product),
    *(product, gathered, gathered, gathered, joined, joined, layer, layer),
)


# --------------------------------------------------------------------------------- reads, pairs


def read(pen: Pen) -> str:
    """Python values: each is a flush."""
    x = pen.tensor()
    name = pen.fresh()
    return pen.choose(
        f"{name} = {x}.sum().item()",
        f"{name} = {x}.tolist()",
        f"{name} = bool({x})",
        f"{name} = float({x})",
        f"{name} = int({x}.numel())",
        f"{name} = len({x})",
        f"{name} = {x}.equal({x})",
        f"{name} = T.allclose({x}, {x})",
        f"{name} = {x}.max().item()",
    )


def pairs(pen: Pen) -> str:
    """Functions with two results."""
    x = pen.tensor()
    dim = pen.dim(pen.value(x))
    # Which of equal elements topk takes, and gives a gradient to, is not defined.
    distinct = len(set(pen.value(x).reshape(-1).tolist())) == pen.value(x).numel()
    largest = f"{x}.topk(2, {dim}).values, 0" if distinct else f"{x}.sort(dim={dim}, stable=True)"
    return f"{pen.fresh()}, {pen.fresh()} = " + pen.choose(
        f"{x}.max({dim})",
        f"{x}.min({dim}, keepdim=True)",
        f"{x}.sort(dim={dim}, stable=True)",
        largest,
        f"T.var_mean({x}.nan_to_num(0, 0, 0), {dim})",  # PyTorch's mean of inf is NaN here
        f"{x}.aminmax()",
        f"{x}.cummax({dim})",
    )
