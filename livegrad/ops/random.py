"""Random numbers: ops that draw from a counter-based generator, and the functions made of them.

Element i of a draw has counter offset + i; see philox.py and livegrad/random.py.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import as_device
from livegrad.dtypes import DType
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import Handle, node_of, rebind, record
from livegrad.ops import samples as s
from livegrad.ops.elementwise import add, cast, div, mul, neg, sub, where
from livegrad.ops.generate import to_register
from livegrad.ops.movement import sizes_of
from livegrad.ops.philox import (
    emit_philox,
    emit_unit32,
    emit_unit64,
    is_double,
    philox,
    unit32,
    unit64,
    words_of,
)
from livegrad.random import Generator, default_generator

Tensor = Any
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
        lambda: s.Sample((), lambda: _draw(RAND, (3, 37), dtypes.float32, _at(5)), smooth=False),
        lambda: s.Sample((), lambda: _draw(RAND, (5,), dtypes.float64, _at(6)), smooth=False),
        lambda: s.Sample((), lambda: _draw(RAND, (), dtypes.float32, _at(-1)), smooth=False),
        lambda: s.Sample((), lambda: _draw(RAND, (0, 3), dtypes.float32, _at(1)), smooth=False),
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
    b = e.b
    if is_double(e.dtype):
        first, second = emit_unit64(e, *words[:2]), emit_unit64(e, *words[2:])
    else:
        first, second = emit_unit32(e, words[0]), emit_unit32(e, words[1])
    radius = b.sqrt(b.fmul(b.log(b.fsub(1.0, first)), -2.0))
    return b.fmul(radius, b.cos(b.fmul(second, 2 * pi)))


RANDN: Op = Op(
    "randn",
    "generate",
    # Standard normal, by Box and Muller's transform of two uniform numbers: args (seed, offset).
    infer=_infer,
    ref=_randn_ref,
    emit=_randn_emit,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: _draw(RANDN, (3, 37), dtypes.float32, _at(5)), smooth=False),
        lambda: s.Sample((), lambda: _draw(RANDN, (5,), dtypes.float64, _at(6)), smooth=False),
    ),
)


def _randint_ref(n: Any) -> Array:
    low, count = n.args[:2]
    drawn: Array = (words_of(n)[0] * np.uint64(count)) >> np.uint64(32)
    return np.asarray(low + drawn.astype(np.int64))


def _randint_emit(e: Any, position: Any, low: Any, count: Any, seed: Any, offset: Any) -> Any:
    w = e.of(dtypes.int64)
    word = emit_philox(e, position, seed, offset)[0]
    return to_register(e, w.add(e.b.lshr(w.mul(word, count), 32), low))


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
    w, b = e.of(dtypes.int64), e.b
    words = emit_philox(e, position, seed, offset)
    bits = b.lshr(w.or_(words[0], b.shl(words[1], 32)), 1)
    return to_register(e, w.add(w.remainder(bits, count), low))


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


def _randperm_ref(n: Any) -> Array:
    words = words_of(n)
    return np.argsort((words[0] << np.uint64(32)) | words[1], kind="stable")


RANDPERM = Op(
    "randperm",
    "host",
    # 0 … n-1 in random order: args (seed, offset).
    infer=_infer,
    ref=_randperm_ref,
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


def _draw(op: Op, shape: Shape, dtype: DType, generator: Generator | None, *numbers: Any) -> Tensor:
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


def _float_dtype(name: str, dtype: Any) -> DType:
    target = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if not target.is_floating_point:
        raise RuntimeError(f'"{name}" not implemented for {target.name}; expected a floating type')
    return target


# A uniform number of half precision has as many bits as its significand, so that it stays below 1.
_UNIT_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8}


def uniform(shape: Shape, dtype: DType, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1) of any floating dtype."""
    bits = _UNIT_BITS.get(dtype)
    if bits is None:
        return _draw(RAND, shape, dtype, generator)
    from livegrad.ops.pointwise_math import floor

    wide = mul(_draw(RAND, shape, dtypes.float32, generator), 2.0**bits)
    return cast(mul(floor(wide), 2.0**-bits), dtype)


def gaussian(shape: Shape, dtype: DType, generator: Generator | None = None) -> Tensor:
    """Standard normal numbers of any floating dtype."""
    return cast(_draw(RANDN, shape, dtype.compute, generator), dtype)


def _as_leaf(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    as_device(device)
    shape = sizes_of("rand", size)
    return _as_leaf(uniform(shape, _float_dtype("rand", dtype), generator), requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers of the standard normal distribution."""
    as_device(device)
    shape = sizes_of("randn", size)
    return _as_leaf(gaussian(shape, _float_dtype("randn", dtype), generator), requires_grad)


def randint(
    *bounds: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size)."""
    as_device(device)
    given = list(bounds)
    if given and not isinstance(given[-1], int) and size is None:
        size = given.pop()
    if len(given) == 1 and high is None:
        high = given[0]
    elif len(given) == 1:
        low = given[0]
    elif len(given) == 2:
        low, high = given
    first = 0 if low is None else int(low)
    if high is None or size is None:
        raise TypeError("randint(): expected (high, size) or (low, high, size)")
    if first >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={first} >= to={high}"
        )
    return _integers(first, int(high), sizes_of("randint", (size,)), dtype, generator)


def _integers(low: int, high: int, shape: Shape, dtype: Any, generator: Generator | None) -> Tensor:
    target = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    count = high - low
    op = RANDINT if count <= 1 << 32 else RANDINT_WIDE
    drawn = target if target.category == dtypes.INT else dtypes.int64
    return cast(_draw(op, shape, drawn, generator, low, count), target)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = dtypes.int64,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The integers 0 … n-1 in random order."""
    as_device(device)
    if n < 0:
        raise RuntimeError(f"randperm: n must be non-negative; got {n}")
    return _draw(RANDPERM, (n,), dtypes.as_dtype(dtype), generator)


def _like(x: Tensor, dtype: Any) -> tuple[Shape, Any]:
    meta = node_of(x).meta
    return meta.shape, meta.dtype if dtype is None else dtype


def rand_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    """Uniform numbers of the shape and dtype of `input`."""
    shape, target = _like(input, dtype)
    return rand(shape, dtype=target, **options)


def randn_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    """Normal numbers of the shape and dtype of `input`."""
    shape, target = _like(input, dtype)
    return randn(shape, dtype=target, **options)


def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, **options: Any
) -> Tensor:
    """Random integers of the shape and dtype of `input`."""
    shape, target = _like(input, dtype)
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, shape, dtype=target, **options)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with the given mean and standard deviation, each a number or a tensor."""
    tensors = [x for x in (mean, std) if isinstance(x, Handle)]
    if size is not None:
        shape, target = sizes_of("normal", (size,)), _float_dtype("normal", dtype)
    elif tensors:
        from livegrad.graph.record import broadcast_shapes

        metas = [node_of(x).meta for x in tensors]
        shape, target = broadcast_shapes("normal", [m.shape for m in metas]), metas[0].dtype
    else:
        raise TypeError("normal(): expected a size when mean and std are numbers")
    if not isinstance(std, Handle) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _as_leaf(add(mul(gaussian(shape, target, generator), std), mean), requires_grad)


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability that each element gives (or `p`), else 0."""
    from livegrad.ops.comparison import lt

    meta = node_of(input).meta
    chance = input if p is None else p
    if p is None:
        _float_dtype("bernoulli", meta.dtype)
    draw = _draw(RAND, meta.shape, dtypes.float32, generator)
    return cast(lt(draw, chance), meta.dtype)


# ----------------------------------------------------------------------------------- in place


def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes uniform numbers in [from, to)."""
    if from_ > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}"
        )
    meta = node_of(self).meta
    draw = uniform(meta.shape, _float_dtype("uniform_", meta.dtype), generator)
    return rebind(self, add(mul(draw, to - from_), from_))


def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes normal numbers."""
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    meta = node_of(self).meta
    draw = gaussian(meta.shape, _float_dtype("normal_", meta.dtype), generator)
    return rebind(self, add(mul(draw, std), mean))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Takes numbers of the exponential distribution."""
    from livegrad.ops.pointwise_math import log

    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    meta = node_of(self).meta
    dtype = _float_dtype("exponential_", meta.dtype)
    draw = _draw(RAND, meta.shape, dtype.compute, generator)
    return rebind(self, cast(div(neg(log(sub(1, draw))), lambd), dtype))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Takes 1 with probability `p` (a number or a tensor), else 0."""
    from livegrad.ops.comparison import lt

    if isinstance(p, int | float) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p}")
    meta = node_of(self).meta
    draw = _draw(RAND, meta.shape, dtypes.float32, generator)
    return rebind(self, cast(lt(draw, p), meta.dtype))


# Integers up to here are exact in a floating dtype.
_EXACT = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def random_(
    self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Takes integers in [from, to); without `to`, random_(to) or the whole range of the dtype."""
    meta = node_of(self).meta
    if to is None and from_:
        from_, to = 0, from_
    elif to is None:
        bits = _EXACT.get(meta.dtype, meta.dtype.bits - int(meta.dtype.signed))
        to = (1 << bits) + int(meta.dtype in _EXACT)
        to = min(to, (1 << 63) - 1)
    return rebind(self, _integers(from_, to, meta.shape, meta.dtype, generator))


# ------------------------------------------------------------------------------------ dropout


def _dropout_expand(n: Any, x: Tensor) -> Tensor:
    from livegrad.ops.comparison import ge

    p, scale, seed, offset = n.args
    draw = record(RAND, (), (dtypes.float32,), (seed, offset), n.meta.shape)
    return where(ge(draw, p), mul(x, scale), 0)


DROPOUT: Op = Op(
    "dropout",
    "composite",
    # Zero with probability p, else times scale: args (p, scale, seed, offset). The gradient draws
    # the same numbers again, so that no mask is kept.
    infer=lambda metas, attrs, shape: metas[0],
    expand=_dropout_expand,
    grads=(lambda g, y, x: record(DROPOUT, (g,), (), y._node.args),),
    saves="",
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
    """Zeroes elements with probability `p` and scales the others by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if not node_of(input).meta.dtype.is_floating_point:
        raise RuntimeError(
            f"dropout: got {node_of(input).meta.dtype.name}; expected a floating-point tensor"
        )
    out = _dropout(input, p, default_generator)
    return rebind(input, out) if inplace else out


# -------------------------------------------------------------------------------- multinomial


def _multinomial_ref(n: Any, weights: Array) -> Array:
    (replacement,) = n.attrs
    seed, offset = n.args
    rows = weights.reshape(-1, weights.shape[-1]).astype(np.float64)
    if (rows < 0).any() or not np.isfinite(rows).all() or (rows.sum(1) <= 0).any():
        raise RuntimeError(
            "multinomial: probability tensor contains either `inf`, `nan` or element < 0, or a row "
            "that sums to 0"
        )
    count = n.meta.shape[-1]
    if not replacement:
        if ((rows > 0).sum(1) < count).any():
            raise RuntimeError(
                "multinomial: fewer categories have positive probability than samples are wanted "
                "without replacement"
            )
        words = philox(seed, np.arange(rows.size).reshape(rows.shape) + offset)
        # The smallest of exponential numbers with these rates, then the next, …
        waits = -np.log(1.0 - unit64(words[0], words[1]))
        order = np.argsort(np.where(rows > 0, waits / np.where(rows > 0, rows, 1), np.inf), 1)
        return order[:, :count].reshape(n.meta.shape)
    words = philox(seed, np.arange(rows.shape[0] * count).reshape(-1, count) + offset)
    share = np.cumsum(rows, 1)
    draws = unit64(words[0], words[1]) * share[:, -1:]
    picked = [np.searchsorted(c, d, side="right") for c, d in zip(share, draws, strict=True)]
    return np.stack(picked).reshape(n.meta.shape) if picked else np.zeros(n.meta.shape, np.int64)


MULTINOMIAL = Op(
    "multinomial",
    "host",
    # Categories drawn with the weights of each row: attrs (replacement,), args (seed, offset).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_multinomial_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5, low=0.1),),
            lambda x: multinomial(x, 2, generator=Generator(1)),
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(5, low=0.1),),
            lambda x: multinomial(x, 9, True, generator=Generator(1)),
            smooth=False,
        ),
    ),
)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers of categories drawn with the probabilities (or weights) in each row."""
    meta = node_of(input).meta
    if meta.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim; got {meta.ndim}")
    _float_dtype("multinomial", meta.dtype)
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples; got {num_samples}")
    if not replacement and num_samples > meta.shape[-1]:
        raise RuntimeError(
            "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement; "
            f"got {num_samples} and {meta.shape[-1]}"
        )
    source = default_generator if generator is None else generator
    shape = (*meta.shape[:-1], num_samples)
    rows = meta.numel // meta.shape[-1] if meta.numel else 0
    drawn = rows * (num_samples if replacement else meta.shape[-1])
    return record(MULTINOMIAL, (input,), (replacement,), source.draw(drawn), shape)
