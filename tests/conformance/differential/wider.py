"""What the other statements leave thin: forms of keys, of `out=`, of gradients; more functions."""

from __future__ import annotations

import torch

from .autograd import differentiable, result, scalar
from .inplace import converted, places, under
from .pen import Pen, Stuck, in_range
from .views import size_of

NUMPY = "__import__('numpy')"


def statement(pen: Pen) -> str:
    make = pen.choose(
        *[keyed, keyed, written_by_key, written_by_key, stored, stored, stored_pair],
        *[written_copy, several_gradients, transformed, graph_hook, checkpointed],
        *[computed, computed, folded, folded, joined, layered, layered],
    )
    return str(make(pen))


# --------------------------------------------------------------------------------- keys


def key(pen: Pen, x: str, v: torch.Tensor) -> str:
    """A key of another form than integers, slices, and tensors or lists of one dim."""
    n = v.shape[0] if v.dim() else 1
    some = [pen.place(n) for _ in range(pen.choose(1, 2))]
    rows = [[pen.place(n) for _ in range(2)] for _ in range(2)]
    options = [
        "True",
        "False",
        "None, True",
        "..., None",
        f"{some}",
        f"{rows}",
        f"T.tensor({some}, dtype=T.int32)",
        f"T.tensor({some}, dtype=T.int64), None",
        f"None, {some}",
        f"..., {pen.indices(2, v.shape[-1] if v.dim() else 1)}",
        f"{NUMPY}.array({some})",
        f"{NUMPY}.int64({some[0]})",
        f"range({min(n, 2)})",
        f"(slice(None), {pen.place(size_of(v, 1) if v.dim() > 1 else 1)})",
        "T.tensor([], dtype=T.int64)",
        f"T.tensor({rows})",
        f"{some}, ..., {pen.place(v.shape[-1] if v.dim() else 1)}",
        f":, {pen.indices(2, v.shape[1] if v.dim() > 1 else 1)}",
        f"{pen.place(n)}, {pen.indices(2, v.shape[1] if v.dim() > 1 else 1)}",
        f"T.tensor({pen.place(n)}), T.tensor({some})",
        f"{pen.literal(v.shape[:1], 'bool')}, ..., None",
    ]
    if not v.is_complex():
        options += [f"{x} > 0", f"~({x} > 0)", f"({x} == {x}).nonzero(as_tuple=True)"]
    return str(pen.choose(*options))


def keyed(pen: Pen) -> str:
    x = pen.tensor()
    return f"{pen.fresh()} = {x}[{key(pen, x, pen.value(x))}]"


def written_by_key(pen: Pen) -> str:
    x = pen.tensor()
    v = pen.value(x)
    chosen = key(pen, x, v)
    if pen.writes(f"_part = {x}[{chosen}]") is not None:
        return f"{x}[{chosen}] = 1"
    part = pen.side.variables.pop("_part")
    value = converted(pen, pen.fitting(part), v)
    if pen.chance(0.2):
        value = f"T.tensor({pen.number(v.dtype)})"
    return under(pen) + f"{x}[{chosen}] {pen.choose('=', '=', '+=', '-=')} {value}"


def written_copy(pen: Pen) -> str:
    """A copy with a part of it written: what `x[...] = y` is without changing anything."""
    x = pen.tensor(lambda x: x.dim() > 0)
    v = pen.value(x)
    dim, dtype = pen.dim(v), str(v.dtype).split(".")[-1]
    size = size_of(v, dim)
    shape = list(v.shape)
    within = -v.dim() <= dim < v.dim()
    if within:
        shape[dim] = pen.rng.randint(0, 2)
    index = pen.index(shape[dim] if within else 1, size)
    without = [n for d, n in enumerate(v.shape) if d != dim % v.dim()] if within else shape
    wide = f"T.tensor({places(pen, shape, size)}, dtype=T.int64).reshape({tuple(shape)})"
    source = pen.literal(shape, dtype)
    return f"{pen.fresh()} = " + pen.choose(
        f"T.select_scatter({x}, {pen.literal(without, dtype)}, {dim}, {pen.place(size)})",
        f"T.slice_scatter({x}, {pen.literal(shape, dtype)}, {dim}, 0, {shape[dim % v.dim()]})",
        f"{x}.index_add({dim}, {index}, {source})",
        f"{x}.scatter_reduce({dim}, {wide}, {source}, "
        f"'{pen.choose('sum', 'prod', 'mean', 'amax')}', include_self={pen.chance(0.5)})",
        f"{x}.index_put(({pen.index(2, v.shape[0], negative=True)},), {pen.literal((), dtype)})",
        f"{x}.masked_scatter({pen.literal(v.shape, 'bool')}, {pen.literal((v.numel(),), dtype)})",
        f"{x}.put({pen.index(1, v.numel())}, {pen.literal((1,), dtype)})",
        f"{x}.index_copy({dim}, T.tensor([], dtype=T.int64), {pen.literal(shape, dtype)})",
    )


# --------------------------------------------------------------------------------- out=


def stored(pen: Pen) -> str:
    """A result that is written into a tensor that is there, which may have another dtype."""
    x = pen.tensor()
    v = pen.value(x)
    dim = pen.dim(v)
    function, arguments = pen.choose(
        ("sub", f"{x}, {pen.fitting(v)}"),
        ("div", f"{x}, {pen.fitting(v)}"),
        ("maximum", f"{x}, {x}"),
        ("pow", f"{x}, 2"),
        ("where", f"{x} == {x}, {x}, {x}"),
        ("neg", x),
        ("abs", x),
        ("sqrt", x),
        ("sigmoid", x),
        ("floor", x),
        ("sign", x),
        ("logical_not", x),
        ("mean" if v.is_floating_point() else "sum", f"{x}, {dim}"),
        ("amax", f"{x}, {dim}"),
        ("any", f"{x}, {dim}"),
        ("prod", f"{x}, {dim}"),
        ("amin" if v.is_complex() else "logsumexp", f"{x}, {dim}"),  # PyTorch's drops a part
        ("argmax", f"{x}, {dim}"),
        ("cumprod", f"{x}, {dim}"),
        ("tril", x),
        ("hstack", f"[{x}, {x}]"),
        ("index_select", f"{x}, {dim}, {pen.index(2, size_of(v, dim))}"),
        ("take", f"{x}, {pen.index(2, v.numel())}"),
        ("matmul", f"{x}, {x}.mT" if v.dim() > 1 else f"{x}, {x}"),
        ("addcmul", f"{x}, {x}, {x}"),
        ("clamp", f"{x}, min=0"),
        ("lerp", f"{x}, {x}, 0.5"),
    )
    name = pen.fresh()
    text = f"T.{function}({arguments})"
    if pen.writes(f"_{name} = {text}") is not None:
        return text
    made = pen.side.variables.pop(f"_{name}")
    outs = pen.named(
        lambda y: (
            isinstance(y, torch.Tensor)
            and (y.shape == made.shape or pen.chance(0.03))
            and (y.dtype == made.dtype or (pen.chance(0.3) and is_wide(y, made)))
            and not shares(y, v)
        )
    )
    if outs:
        return under(pen) + f"T.{function}({arguments}, out={pen.choose(*outs)})"
    into = pen.choose(f"T.empty_like({text})", "T.empty(0)", f"T.empty_like({text}).mT.clone()")
    return f"{name} = T.{function}({arguments}, out={into})"


def is_wide(y: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether what was made can be stored in `y` without a number that it cannot stand for."""
    return y.is_floating_point() or y.is_complex() or in_range(made)


def shares(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def stored_pair(pen: Pen) -> str:
    """Functions with two results, stored in two tensors."""
    x = pen.tensor(lambda x: not x.requires_grad)
    dim = pen.dim(pen.value(x))
    function = pen.choose("max", "min", "cummax", "cummin", "median", "sort")
    a, b = pen.fresh(), pen.fresh()
    pair = f"(T.empty(0, dtype={x}.dtype), T.empty(0, dtype=T.int64))"
    stable = ", stable=True" if function == "sort" else ""
    arguments = f"{x}, dim={dim}{stable}"
    if function == "median" and len(set(pen.value(x).reshape(-1).tolist())) < 2:
        raise Stuck
    return f"{a}, {b} = T.{function}({arguments}, out={pair})"


# --------------------------------------------------------------------------------- gradients


def several_gradients(pen: Pen) -> str:
    y, x, z = result(pen), pen.tensor(differentiable), pen.tensor(differentiable)
    v = pen.value(y)
    unused = ", allow_unused=True"
    options = pen.choose("", ", create_graph=True", ", retain_graph=True")
    a, b = pen.fresh(), pen.fresh()
    zeros = ", materialize_grads=True" if pen.chance(0.3) else unused
    first = f"T.autograd.grad(({y} ** 3).sum(), {x}, create_graph=True)[0]"
    second = f"T.autograd.grad(({first}).sum(), {x}, create_graph=True)[0]"
    return str(
        pen.choose(
            f"{a}, {b} = T.autograd.grad({scalar(y, v)}, [{x}, {z}]{zeros}{options})",
            f"{a}, = T.autograd.grad({y}, {x}, T.ones_like({y}){unused}{options})",
            f"{a}, = T.autograd.grad([{y}, {y}], [{x}], [T.ones_like({y})] * 2{unused}{options})",
            f"{y}.backward(T.ones_like({y}), inputs=[{x}], retain_graph=True)",
            f"T.autograd.backward([{scalar(y, v)}, {y}.sum()], inputs=[{x}, {z}])",
            f"T.autograd.backward([{y}], [T.ones_like({y})]{options.replace(', ', ', ', 1)})",
            f"{a}, = T.autograd.grad(({second}).sum(), {x}{unused})",
        )
    )


FUNCTIONS = (
    "(t ** 3).sum()",
    "(t * t).mean() + t.sum()",
    "t.exp().sum()",
    "(t.sin() * t.flip(0)).sum()",
)
ROWS = ("t * 2 + 1", "t.sum()", "t.softmax(0)", "t.clone().mul_(3)", "t.cumsum(0)")


def transformed(pen: Pen) -> str:
    x = pen.floats(lambda x: x.dim() > 0 and x.numel() > 0)
    f, row = f"lambda t: {pen.choose(*FUNCTIONS)}", f"lambda t: {pen.choose(*ROWS)}"
    a, b = pen.fresh(), pen.fresh()
    ones = f"T.ones_like({x})"
    return str(
        pen.choose(
            f"{a} = T.func.grad({f})({x})",
            f"{a} = T.func.vmap({row})({x}.unsqueeze(-1))",
            f"{a} = T.func.vmap(T.func.grad({f}))({x}.unsqueeze(-1))",
            # Of what is linear PyTorch's require a gradient, which is 0.
            f"{a} = T.func.jacrev({row})({x}.detach().flatten())",
            f"{a} = T.func.hessian({f})({x}.detach().flatten())",
            f"{a}, {b} = T.func.grad_and_value({f})({x})",
            f"{a}, {b} = T.func.jvp({f}, ({x},), ({ones},))",
            f"{a} = T.autograd.functional.jacobian({row}, {x}.detach().flatten())",
            f"{a} = T.autograd.functional.hessian({f}, {x}.detach())",
            f"{a}, {b} = T.autograd.functional.vjp({f}, {x}.detach())",
            f"{a}, {b} = T.autograd.functional.hvp({f}, {x}.detach(), {ones})",
        )
    )


def graph_hook(pen: Pen) -> str:
    """Hooks on what computes gradients, rather than on tensors."""
    # PyTorch has one function for the parts of a tensor, and shows it all their gradients.
    x = pen.tensor(lambda x: differentiable(x) and not x.is_leaf)
    y = pen.tensor(differentiable)
    functions = [f for f in (pen.value(x).grad_fn, pen.value(y).grad_fn) if f is not None]
    if any(len(f._input_metadata) > 1 for f in functions):
        raise Stuck
    log = f"log.append(('{x}', [None if t is None else t.clone() for t in g]))"
    return str(
        pen.choose(
            f"{x}.grad_fn.register_prehook(lambda g: {log})",
            f"{x}.grad_fn.register_prehook(lambda g: tuple([t * 2 for t in g]))",
            f"{x}.grad_fn; {y}.grad_fn; "
            f"T.autograd.graph.register_multi_grad_hook(({x}, {y}), lambda g: {log})",
            f"{x}.grad_fn; {x}.retain_grad(); {x}.register_hook(lambda g: g * 3)",
        )
    )


def checkpointed(pen: Pen) -> str:
    x = pen.tensor(lambda x: differentiable(x) and x.is_floating_point())
    f = pen.choose("t * t", "t.sin() * 2", "t.exp() + t", "(t * 3).relu()")
    return (
        f"{pen.fresh()} = __import__('importlib').import_module(T.__name__ + '.utils.checkpoint')"
        f".checkpoint(lambda t: {f}, {x}, use_reentrant=False)"
    )


# --------------------------------------------------------------------------------- functions


def computed(pen: Pen) -> str:
    x = pen.tensor()
    v = pen.value(x)
    other = pen.fitting(v)
    names = "trunc ceil signbit isinf positive sgn"
    if v.is_floating_point():
        names += " atan sinh cosh asinh exp2 log2 log10 erfc sinc deg2rad softplus logit tan"
    elif v.is_complex():
        names = "sin cos tanh isfinite conj_physical sgn positive exp"
    else:
        names += " cos float_power_2 isfinite"
    name = pen.choose(*names.split())
    if name == "float_power_2":
        return f"{pen.fresh()} = T.float_power({x}, 2)"
    if name == "softplus":
        return f"{pen.fresh()} = F.softplus({x}, 2, 5)"
    if pen.chance(0.5) or v.is_complex():
        return f"{pen.fresh()} = T.{name}({x})"
    function = pen.choose(*"copysign gcd lcm bitwise_and rsub float_power logical_xor".split())
    if not other[0].isalpha():
        other = f"T.tensor({other})"
    return f"{pen.fresh()} = T.{function}({x}, {other})"


def folded(pen: Pen) -> str:
    x = pen.tensor()
    v = pen.value(x)
    dim = pen.dim(v)
    dims = pen.dims(v)
    distinct = len(set(v.reshape(-1).tolist())) == v.numel()
    options = [
        f"{x}.nansum({dim})",
        f"{x}.cummin({dim}).values",
        f"{x}.sum({dims}, dtype=T.float64)",
        f"{x}.argmin({dim}, keepdim=True)",
        f"{x}.all({dim})",
        f"{x}.any()",
        f"T.rot90({x})" if v.dim() > 1 else f"{x}.flip(0)",
        f"{x}.flip({dims})",
        f"{x}.roll({tuple(1 for _ in dims)}, {dims})",
        f"{x}.tile((2, 1))",
        f"T.trapezoid({x}, dim={dim})",
        f"{x}.unique()",
        f"T.diff({x}, 2, {dim})",
        f"{x}.trace()",
        f"T.isin({x}, T.tensor([0, 1, 2]))",
    ]
    if v.is_floating_point():
        options += [
            f"{x}.var({dim}, correction={pen.choose(0, 1, 2)})",
            f"{x}.std({dims}, unbiased=False, keepdim=True)",
            f"{x}.nanmean({dim})",
            f"{x}.logcumsumexp({dim})" if in_range(v) else f"{x}.amax()",  # PyTorch's cancels
            f"{x}.norm({pen.choose(1, 2, 3)}, {dim})",
            f"T.std_mean({x}, {dim})[0]",
            f"{x}.softmax({dim}, dtype=T.float64)",
            f"{x}.median()" if distinct else f"{x}.amax()",
            f"{x}.quantile(0.5, {dim})" if distinct else f"{x}.amin({dims})",
        ]
    return f"{pen.fresh()} = {pen.choose(*options)}"


def joined(pen: Pen) -> str:
    x = pen.tensor(lambda x: x.dim() > 0)
    v = pen.value(x)
    dtype = str(v.dtype).split(".")[-1]
    inner = v.shape[-1]
    options = [
        f"T.cat([{x}, {x}.to(T.{pen.dtype()})], {pen.dim(v)})",
        f"T.stack([{x}, {x}.to(T.{pen.dtype()})], -1)",
        f"T.dstack([{x}, {x}])",
        f"T.column_stack([{x}, {x}])",
        f"T.atleast_3d({x})",
        f"T.meshgrid({x}.flatten(), {x}.flatten(), indexing='ij')[0]",
        f"T.block_diag({x}, {x})" if v.dim() < 3 else f"{x}.flatten()",
        f"T.kron({x}, T.ones(2))",
        f"T.addmv(T.zeros(1, dtype={x}.dtype), {x}, {pen.literal((inner,), dtype)})"
        if v.numel()  # PyTorch's result of nothing is not expanded
        else f"{x}.mT",
        f"T.addmm(T.zeros(2, dtype={x}.dtype), {x}, {pen.literal((inner, 2), dtype)}, beta=0)",
        f"T.bmm({x}.reshape(1, -1, {inner}), {pen.literal((1, inner, 2), dtype)})",
        f"T.where({x} == {x}, {x}, {pen.number()})",
        f"T.broadcast_tensors({x}, T.zeros(2, 1, 1))[0]",
        f"T.movedim({x}, 0, -1)",
        f"{x}.select({pen.dim(v)}, 0).index_fill(0, T.tensor([0]), 2)",
        f"T.einsum('...i,i->...', {x}, {pen.literal((inner,), dtype)})",
        f"T.combinations({x}.flatten()[:3])",
    ]
    return f"{pen.fresh()} = {pen.choose(*options)}"


def layered(pen: Pen) -> str:
    x = pen.floats(lambda x: x.dim() > 0 and x.numel() > 0)
    v = pen.value(x)
    dtype = str(v.dtype).split(".")[-1]
    dim = pen.dim(v)
    reduction = pen.choose("", ", reduction='sum'", ", reduction='none'")
    activations = "logsigmoid hardswish mish celu selu softsign tanhshrink relu6 softmin"
    other = pen.literal(v.shape, dtype)
    options = [
        f"F.{pen.choose(*activations.split())}({x})",
        f"F.threshold({x}, 0.5, 2)",
        f"F.glu({x}, {dim})",
        f"F.dropout({x}, 0.5, training=False)",
        f"F.one_hot(T.tensor([0, 2, 1])) * {x}.sum()",
        f"F.soft_margin_loss({x}, T.ones_like({x}){reduction})",
        f"F.poisson_nll_loss({x}, {other}{reduction})",
        f"F.hinge_embedding_loss({x}, T.ones_like({x}){reduction})",
        f"F.margin_ranking_loss({x}, {other}, T.ones_like({x}){reduction})",
        f"F.pairwise_distance({x}, {other})",
        f"F.rms_norm({x}, ({v.shape[-1]},))",
        f"F.pad({x}, (1, 1), mode='{pen.choose('constant', 'reflect', 'circular')}')",
    ]
    if v.dim() in (3, 4):
        options += [
            f"F.group_norm({x}, 1)",
            f"F.interpolate({x}.reshape(1, 1, -1), scale_factor=2)",
            f"F.adaptive_avg_pool1d({x}, 1)" if v.dim() == 3 else f"F.adaptive_avg_pool2d({x}, 1)",
            f"F.scaled_dot_product_attention({x}, {x}, {x})",
            f"F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)",
            f"F.instance_norm({x})",
            f"F.conv2d({x}.reshape(1, 1, {v.shape[-2]}, -1), T.ones(2, 1, 1, 1, dtype={x}.dtype))",
            f"F.conv_transpose1d({x}.reshape(1, 1, -1), T.ones(1, 2, 2, dtype={x}.dtype))",
            f"F.lp_pool1d({x}.reshape(1, 1, -1), 2, 2)",
        ]
    return f"{pen.fresh()} = {pen.choose(*options)}"
