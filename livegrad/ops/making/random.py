"""Random numbers: ops that draw from a counter-based generator, and the functions made of them.

Element i of a draw has counter offset + i; see philox.py and livegrad/random.py. What fills tensors
in place is in random_fill.py, samples of given probabilities and rates in sampling.py.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU, META, has_data
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.blame import as_index, check_number
from livegrad.graph.events import DROPPED, tell
from livegrad.graph.family import node_to_read
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import broadcast_shapes, not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_iterated
from livegrad.graph.record import record, unary
from livegrad.graph.state import LOCAL
from livegrad.graph.writes import prepare_write, rebind
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise.arithmetic import add, cast, mul, where, zero_gradient
from livegrad.ops.elementwise.comparison import ge, lt
from livegrad.ops.elementwise.conjugate import VIEW_AS_COMPLEX
from livegrad.ops.elementwise.pointwise_math import floor
from livegrad.ops.making.generate import filled, to_register
from livegrad.ops.making.philox import (
    emit_philox,
    emit_unit32,
    emit_unit64,
    is_double,
    unit32,
    unit64,
    words_of,
)
from livegrad.ops.picking.checking import CHECK_DEVIATION, CHECK_PROBABILITY
from livegrad.ops.reductions.sorting import ARGSORT
from livegrad.ops.shaping.movement import detach, sizes_of
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import limits
from livegrad.ops.support.out import casting, creating, exact
from livegrad.random import Generator, default_generator
from livegrad.settings import check_layout

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

# ------------------------------------------------------------------------------ the generate ops


def _infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    return meta_of(shape, attrs[0])


def _rand_ref(n: Any) -> Array:
    words = words_of(n)
    return unit64(words[0], words[1]) if is_double(n.meta.dtype) else unit32(words[0])


def _rand_emit(e: Any, position: Any, seed: Any, offset: Any) -> Any:
    words = emit_philox(e, position, seed, offset)
    if is_double(e.dtype):
        return emit_unit64(e, words[0], words[1])
    return emit_unit32(e, words[0])


RAND: Op = Op(
    "rand",
    "generate",
    # Uniform in [0, 1): args (seed, offset), attrs (float32 or float64,).
    infer=_infer,
    ref=_rand_ref,
    emit=_rand_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: draw(RAND, (3, 37), dtypes.float32, _at(5)), smooth=False),
        lambda: s.Sample((), lambda: draw(RAND, (5,), dtypes.float64, _at(6)), smooth=False),
        lambda: s.Sample((), lambda: draw(RAND, (), dtypes.float32, _at(-1)), smooth=False),
        lambda: s.Sample((), lambda: draw(RAND, (0, 3), dtypes.float32, _at(1)), smooth=False),
    ),
)


def _randn_ref(n: Any) -> Array:
    words = words_of(n)
    if is_double(n.meta.dtype):
        radius = np.sqrt(-2.0 * np.log(1.0 - unit64(words[0], words[1])))
        return np.asarray(radius * np.cos(2 * pi * unit64(words[2], words[3])))
    f = np.float32
    radius = np.sqrt(f(-2) * np.log(f(1) - unit32(words[0])))
    return np.asarray(radius * np.cos(f(2 * pi) * unit32(words[1])))


def _randn_emit(e: Any, position: Any, seed: Any, offset: Any) -> Any:
    words = emit_philox(e, position, seed, offset)
    if is_double(e.dtype):
        first, second = emit_unit64(e, *words[:2]), emit_unit64(e, *words[2:])
    else:
        first, second = emit_unit32(e, words[0]), emit_unit32(e, words[1])
    radius = e.sqrt(e.mul(e.log(e.sub(1.0, first)), -2.0))
    return e.mul(radius, e.cos(e.mul(second, 2 * pi)))


RANDN: Op = Op(
    "randn",
    "generate",
    # Standard normal, by Box and Muller's transform of two uniform numbers: args (seed, offset).
    infer=_infer,
    ref=_randn_ref,
    emit=_randn_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: draw(RANDN, (3, 37), dtypes.float32, _at(5)), smooth=False),
        lambda: s.Sample((), lambda: draw(RANDN, (5,), dtypes.float64, _at(6)), smooth=False),
    ),
)


def _randint_ref(n: Any) -> Array:
    low, count = n.args[:2]
    drawn: Array = (words_of(n)[0] * np.uint64(count)) >> np.uint64(32)
    return np.asarray(low + drawn.astype(np.int64))


def _randint_emit(e: Any, position: Any, low: Any, count: Any, seed: Any, offset: Any) -> Any:
    w = e.of(dtypes.uint64)
    word = emit_philox(e, position, seed, offset)[0]
    return to_register(e, w.add(w.shr(w.mul(word, count), 32), low))


RANDINT = Op(
    "randint",
    "generate",
    # Integers in [low, low + count), count at most 2**32: args (low, count, seed, offset).
    infer=_infer,
    ref=_randint_ref,
    emit=_randint_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: randint(3, 9, (40,), generator=Generator(1)), smooth=False),
        lambda: s.Sample(
            (),
            lambda: randint(-5, 5, (7,), generator=Generator(1), dtype=dtypes.int8),
            smooth=False,
        ),
    ),
)


def _randint_wide_ref(n: Any) -> Array:
    low, count = n.args[:2]
    words = words_of(n)
    bits = (words[0] | (words[1] << np.uint64(32))) >> np.uint64(1)
    return np.asarray(low + (bits % np.uint64(count)).astype(np.int64))


def _randint_wide_emit(e: Any, position: Any, low: Any, count: Any, seed: Any, offset: Any) -> Any:
    w = e.of(dtypes.uint64)
    words = emit_philox(e, position, seed, offset)
    bits = w.shr(w.or_(words[0], w.shl(words[1], 32)), 1)
    return to_register(e, w.add(e.of(dtypes.int64).remainder(bits, count), low))


RANDINT_WIDE = Op(
    "randint_wide",
    "generate",
    # Integers in [low, low + count) from 63 bits: args (low, count, seed, offset).
    infer=_infer,
    ref=_randint_wide_ref,
    emit=_randint_wide_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (), lambda: randint(0, 1 << 40, (9,), generator=Generator(1)), smooth=False
        )
    ),
)


def _random_bits_ref(n: Any) -> Array:
    words = words_of(n)
    return (((words[0] << np.uint64(32)) | words[1]) >> np.uint64(1)).astype(np.int64)


def _random_bits_emit(e: Any, position: Any, seed: Any, offset: Any) -> Any:
    w = e.of(dtypes.uint64)
    words = emit_philox(e, position, seed, offset)
    return w.shr(w.or_(w.shl(words[0], 32), words[1]), 1)


RANDOM_BITS = Op(
    "random_bits",
    "generate",
    # 63 random bits, as int64: args (seed, offset). In their order, indices are a permutation.
    infer=_infer,
    ref=_random_bits_ref,
    emit=_random_bits_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: randperm(9, generator=Generator(1)), smooth=False),
        lambda: s.Sample((), lambda: randperm(0, generator=Generator(1)), smooth=False),
    ),
)


def _at(seed: int) -> Generator:
    """A generator for samples: a seed, and an offset beyond 32 bits."""
    generator = Generator(seed)
    generator.draw((1 << 32) - 3)
    return generator


# ---------------------------------------------------------------------------------- functions


def draw(op: Op, shape: Shape, dtype: DType, generator: Generator | None, *numbers: Any) -> Tensor:
    """Records a draw of `shape` and moves the generator on."""
    count = 1
    for size in shape:
        if size < 0:
            raise RuntimeError(
                f"{op.name}: trying to create tensor with negative dimension {size}: {list(shape)}"
            )
        count *= size
    source = default_generator if generator is None else generator
    return record(op, (), (dtype,), (*numbers, *source.draw(count)), shape)


def float_dtype(name: str, dtype: Any, or_complex: bool = False) -> DType:
    """`dtype`, or the default one, which must be a floating type, or a complex one if allowed."""
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not target.is_floating_point and not (or_complex and target.is_complex):
        raise not_implemented(name, target)
    return target


# A uniform number of half precision has as many bits as its significand, so that it stays below 1.
_UNIT_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8}


def uniform(shape: Shape, dtype: DType, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1) of any floating dtype; both parts of complex ones are such."""
    if dtype.is_complex:
        return record(VIEW_AS_COMPLEX, (uniform((*shape, 2), dtype.to_real(), generator),))
    bits = _UNIT_BITS.get(dtype)
    if bits is None:
        return draw(RAND, shape, dtype, generator)
    wide = mul(draw(RAND, shape, dtypes.float32, generator), 2.0**bits)
    return cast(mul(floor(wide), 2.0**-bits), dtype)


def gaussian(shape: Shape, dtype: DType, generator: Generator | None = None) -> Tensor:
    """Standard normal numbers of any floating dtype; the parts of complex ones have variance ½."""
    if dtype.is_complex:
        parts = gaussian((*shape, 2), dtype.to_real(), generator)
        return record(VIEW_AS_COMPLEX, (mul(parts, sqrt(0.5)),))
    return cast(draw(RANDN, shape, dtype.compute, generator), dtype)


def _as_leaf(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


@creating
def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Uniform random numbers in [0, 1).

    Args:
        size: the shape, as numbers or as one tuple.
        generator: another stream than the default one.
        dtype: None: the default float.

    Example:
        >>> x = lg.rand(2, 3)
        >>> bool(((x >= 0) & (x < 1)).all())
        True
    """
    check_layout("rand", layout)
    shape, target = sizes_of("rand", size), float_dtype("rand", dtype, True)
    if not has_data(device):
        return _as_leaf(elsewhere.empty(shape, target), requires_grad)
    return _as_leaf(elsewhere.placed(uniform(shape, target, generator), device), requires_grad)


@creating
def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Random numbers of the standard normal distribution.

    Args:
        size: the shape, as numbers or as one tuple.
        generator: another stream than the default one.
        dtype: None: the default float.

    Example:
        >>> lg.randn(2, 3).shape
        livegrad.Size([2, 3])
    """
    check_layout("randn", layout)
    shape, target = sizes_of("randn", size), float_dtype("randn", dtype, True)
    if not has_data(device):
        return _as_leaf(elsewhere.empty(shape, target), requires_grad)
    return _as_leaf(elsewhere.placed(gaussian(shape, target, generator), device), requires_grad)


@creating
def randint(
    *bounds: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size).

    Args:
        low: the least; 0 if only `high` is given.
        high: above the greatest.
        size: the shape, as a tuple.
        generator: another stream than the default one.

    Example:
        >>> bool((lg.randint(10, (5,)) < 10).all())
        True
    """
    check_layout("randint", layout)
    given = list(bounds)
    if given and not isinstance(given[-1], int) and size is None:
        size = given.pop()
    if len(given) == 1 and high is None:
        high = given[0]
    elif len(given) == 1:
        low = given[0]
    elif len(given) == 2:
        low, high = given
    if high is None or size is None:
        raise TypeError("randint(): expected (high, size) or (low, high, size)")
    first, high = 0 if low is None else as_index(low), as_index(high)
    if first >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={first} >= to={high}"
        )
    shape = sizes_of("randint", (size,))
    if not has_data(device):
        return elsewhere.empty(shape, dtypes.int64 if dtype is None else dtypes.as_dtype(dtype))
    return elsewhere.placed(integers(first, high, shape, dtype, generator), device)


def _check_drawn(low: int, high: int, dtype: dtypes.DType) -> None:
    """RuntimeError unless `dtype` has all integers in [low, high)."""
    if dtype.category >= dtypes.FLOAT:
        return
    least, most = (0, 1) if dtype is dtypes.bool_ else limits(dtype)
    for word, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= most:
            raise RuntimeError(f"{word} is out of bounds for {dtype.name}; got {bound}")


def integers(low: int, high: int, shape: Shape, dtype: Any, generator: Generator | None) -> Tensor:
    """Integers in [low, high) as any dtype."""
    target = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    _check_drawn(low, high, target)
    count = high - low
    op = RANDINT if count <= 1 << 32 else RANDINT_WIDE
    drawn = target if target.category == dtypes.INT else dtypes.int64
    return cast(draw(op, shape, drawn, generator, low, count), target)


@creating
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = dtypes.int64,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """The integers 0 … n-1 in random order.

    Args:
        n: how many.
        generator: another stream than the default one.

    Example:
        >>> lg.randperm(5).sort().values
        tensor([0, 1, 2, 3, 4])
    """
    check_layout("randperm", layout)
    n = as_index(n)
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative; got {n}")
    target = dtypes.as_dtype(dtype)
    if not has_data(device):
        return elsewhere.empty((n,), target)
    keys = draw(RANDOM_BITS, (n,), dtypes.int64, generator)
    return elsewhere.placed(cast(record(ARGSORT, (keys,), (0, False), (), (n,)), target), device)


def _drawn_like(
    function: Any, bounds: tuple[int, ...], x: Tensor, dtype: Any, options: dict[str, Any]
) -> Tensor:
    """Numbers of the shape, dtype and strides of `x`."""
    meta = node_to_read(x).meta
    if options.get("device") is None:
        options["device"] = meta.device
    memory_format, learned = options.pop("memory_format", None), options.pop("requires_grad", False)
    out = function(*bounds, meta.shape, dtype=meta.dtype if dtype is None else dtype, **options)
    out = placed_like(out, x, memory_format)
    return out.requires_grad_() if learned else out


def rand_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    """Uniform numbers of the shape and dtype of `input`."""
    return _drawn_like(rand, (), input, dtype, options)


def randn_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    """Normal numbers of the shape and dtype of `input`.

    Args:
        input: a tensor.
        dtype: a dtype, if not that of `input`.
        **options: `device`, `requires_grad`, `memory_format`, `layout`.

    Example:
        >>> lg.randn_like(lg.zeros(2, 3)).shape
        livegrad.Size([2, 3])
    """
    return _drawn_like(randn, (), input, dtype, options)


def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: Any = None,
    **options: Any,
) -> Tensor:
    """Random integers of the shape and dtype of `input`: from 0 if one bound is given."""
    if high is None:
        low, high = 0, low
    if high is None:
        raise TypeError('randint_like() missing 1 required positional arguments: "high"')
    bounds = (low or 0, high)
    return _drawn_like(randint, bounds, input, dtype, options)


@exact
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **layout: Any,
) -> Tensor:
    """Normal numbers with the given mean and standard deviation, each a number or a tensor.

    Example:
        >>> lg.normal(0.0, 1.0, (2, 3)).shape
        livegrad.Size([2, 3])
    """
    check_layout("normal", layout)
    tensors = [x for x in (mean, std) if isinstance(x, Handle)]
    if size is not None:
        shape, target = sizes_of("normal", (size,)), float_dtype("normal", dtype)
        device = CPU if device is None else device  # as PyTorch, whatever the default is
    elif tensors:
        metas = [node_of(x).meta for x in tensors]
        shape = broadcast_shapes("normal", [m.shape for m in metas])
        target = float_dtype("normal", metas[0].dtype)
    else:
        raise TypeError("normal(): expected a size when mean and std are numbers")
    check_number(*[x for x in (mean, std) if not isinstance(x, Handle)])
    if not isinstance(std, Handle) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if any([node_of(x).meta.device is META for x in tensors]) or not has_data(device):
        return _as_leaf(elsewhere.empty(shape, target), requires_grad)
    mean, std = (detach(x) if isinstance(x, Handle) else x for x in (mean, std))
    if isinstance(std, Handle):
        std = unary(CHECK_DEVIATION, std)
    place = device if device is not None or not tensors else node_of(tensors[0]).meta.device
    drawn = elsewhere.placed(gaussian(shape, target, generator), place)
    return _as_leaf(add(mul(drawn, std), mean), requires_grad)


def _bernoulli_expand(n: Any, chance: Tensor) -> Tensor:
    unit = record(RAND, (), (dtypes.float32,), n.args, n.meta.shape)
    return cast(lt(unit, unary(CHECK_PROBABILITY, chance)), n.meta.dtype)


BERNOULLI = Op(
    "bernoulli",
    "composite",
    # 1 with the probability that each element gives: args (seed, offset).
    infer=lambda metas, attrs, shape: metas[0],
    expand=_bernoulli_expand,
    grads=(zero_gradient,),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5, low=0, high=1),),
                         lambda x: bernoulli(x, generator=_at(1)), smooth=False),
        lambda: s.Sample((s.uniform(low=0, high=1),),
                         lambda x: bernoulli(x, generator=_at(1)), smooth=False),
    ),
)  # fmt: skip


@casting
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability that each element gives (or `p`), else 0; its gradient is 0.

    Example:
        >>> lg.bernoulli(lg.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    meta = node_of(input).meta
    if p is not None and meta.device is not META:
        check_number(p)
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        input = filled(meta.shape, p, dtypes.float32)
        return cast(bernoulli(input, generator=generator), meta.dtype)
    float_dtype("bernoulli", meta.dtype)
    source = default_generator if generator is None else generator
    return record(BERNOULLI, (input,), (), source.draw(meta.numel))


# ------------------------------------------------------------------------------------ dropout


def _dropout_expand(n: Any, x: Tensor) -> Tensor:
    p, scale, seed, offset = n.args
    unit = record(RAND, (), (dtypes.float32,), (seed, offset), n.meta.shape)
    return where(ge(unit, p), mul(x, scale), 0)


DROPOUT: Op = Op(
    "dropout",
    "composite",
    # Zero with probability p, else times scale: args (p, scale, seed, offset). The gradient draws
    # the same numbers again, so that no mask is kept.
    infer=lambda metas, attrs, shape: metas[0],
    expand=_dropout_expand,
    layout=as_iterated,
    grads=(lambda g, y, x: record(DROPOUT, (g,), (), y._node.args),),
    saves="",
    grad_fn=parts.dropout,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 37),), lambda x: _dropout(x, 0.25, Generator(1))),
        lambda: s.Sample((s.uniform(),), lambda x: _dropout(x, 0.5, Generator(2))),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: _dropout(x, 0.5, Generator(3))),
    ),
)


def _dropout(x: Tensor, p: float, generator: Generator) -> Tensor:
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    args = (float(p), scale, *generator.draw(node_of(x).meta.numel))
    return record(DROPOUT, (x,), (), args)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability `p` and scales the others by 1 / (1 - p).

    Args:
        input: a tensor.
        p: the probability of 0.
        training: False: nothing happens.
        inplace: write to `input`.

    Example:
        >>> x = F.dropout(lg.ones(100), p=0.5)
        >>> sorted(x.unique().tolist())
        [0.0, 2.0]
    """
    if type(p) is not float:
        check_number(p)
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not node_of(input).meta.numel:
        return input
    if DROPPED and not LOCAL.state.grad:
        tell(DROPPED)
    if not node_of(input).meta.dtype.is_floating_point:
        raise RuntimeError(
            f"dropout: got {node_of(input).meta.dtype.name}; expected a floating-point tensor"
        )
    if inplace:
        prepare_write(input, expanded=False)
    out = _dropout(input, p, default_generator)
    return rebind(input, out) if inplace else out
