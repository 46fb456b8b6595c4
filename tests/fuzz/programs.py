"""Random tensor programs as data, and machines that run them in different ways.

A program is a list of leaves and a list of instructions over a growing list of values. Everything
in it is small integers, taken modulo what is there, so that any list of numbers is a valid program
and a failing one shrinks well. What an instruction does depends on shapes and dtypes only, never on
values; branches on values are decided once and then followed in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import livegrad as lg
from livegrad import Tensor
from livegrad.graph import record as recording
from livegrad.graph.handle import node_of
from livegrad.graph.node import Node
from livegrad.graph.state import LOCAL, flush as graph_flush, reference_mode
from livegrad.nn import functional as F
from livegrad.runtime.reference import reference_value
from livegrad.runtime.values import array_of, from_compute, to_compute

Code = tuple[str, int, int, int, int]

SHAPES: tuple[tuple[int, ...], ...] = (
    (3,),
    (2, 3),
    (),
    (1,),
    (5, 3),
    (3, 5),
    (17,),
    (33,),
    (2, 3, 5),
    (3, 17),
    (17, 3),
    (5, 33),
    (1, 5),
    (5, 1),
    (3, 1, 5),
    (2, 17, 3),
    (2, 3, 5, 3),
    (1, 3, 1, 17),
    (33, 17),
    (0,),
    (0, 3),
    (3, 0, 2),
    (3, 3),
    (5, 5),
    (2, 2, 3, 3),
    (64,),
    (17, 33),
    (2, 1, 17),
)
FLOATS = (lg.float32, lg.float64)
HALVES = (lg.float16, lg.bfloat16)
INTEGERS = (lg.int64, lg.bool, lg.int32, lg.uint8, lg.int8, lg.int16)
DTYPES = (*FLOATS, *HALVES, *INTEGERS)

# Past this many elements a value is not made larger any more.
MOST_ELEMENTS = 20_000


class Leaf(NamedTuple):
    """Data: numbers of SHAPES, DTYPES, a seed, and whether a gradient is wanted."""

    shape: int
    dtype: int
    seed: int
    grad: bool


class Program(NamedTuple):
    """Leaves, instructions, after which instructions a value is read, which results are kept.

    `tame` keeps values bounded and functions smooth, so that even the end result can be compared
    with the reference's.
    """

    leaves: tuple[Leaf, ...]
    code: tuple[Code, ...]
    reads: frozenset[int] = frozenset()
    keep: int = -1
    tame: bool = False


class Machine:
    """Runs one program; `values` grows with every instruction that gives something."""

    def __init__(self, program: Program, decisions: list[bool] | None = None) -> None:
        self.program = program
        self.tame = program.tame
        self.default = lg.float64 if program.tame else lg.float32
        self.values: list[Tensor] = []
        self.leaves: list[Tensor] = []
        self.refused: list[tuple[int, str]] = []
        self.decided = decisions
        self.decisions: list[bool] = []

    # ------------------------------------------------------------------------- choosing

    def any(self, a: int) -> Tensor:
        """A value; small numbers name recent ones."""
        return self.values[-1 - a % len(self.values)]

    def float(self, a: int) -> Tensor:
        """A float value."""
        found = [x for x in self.values if x.dtype.is_floating_point]
        if not found:
            x = self.any(a)
            return x.to(self.default)
        return found[-1 - a % len(found)]

    def like(self, x: Tensor, a: int) -> Tensor:
        """A value that broadcasts with `x` (perhaps `x` itself), any dtype."""
        found = [v for v in self.values if fits(x.shape, v.shape)]
        return found[-1 - a % len(found)] if found else x

    def integers(self, shape: tuple[int, ...], high: int, a: int) -> Tensor:
        """Indices below `high`: a fixed array, or computed from a value."""
        rng = np.random.default_rng(a)
        made = lg.tensor(rng.integers(0, max(high, 1), shape))
        if a % 3 == 1 and shape:
            made = (made + lg.arange(shape[-1])) % max(high, 1)
        return made.to(lg.int32) if a % 5 == 4 else made

    def squash(self, x: Tensor) -> Tensor:
        """`x` bounded, if the program is to be tame."""
        return lg.tanh(x) if self.tame else x

    # -------------------------------------------------------------------------- running

    def run(self) -> None:
        """All instructions, then gradients."""
        lg.manual_seed(7)
        for leaf in self.program.leaves:
            x = make_leaf(leaf)
            self.values.append(x)
            if x.requires_grad:
                self.leaves.append(x)
        for number, (name, a, b, c, d) in enumerate(self.program.code):
            self.step(number, name, a, b, c, d)
            if number in self.program.reads:
                self.read(number)

    def step(self, number: int, name: str, a: int, b: int, c: int, d: int) -> None:
        """One instruction; errors of the user's making are noted, and must be the same always."""
        try:
            made = INSTRUCTIONS[name](self, a, b, c, d)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
            self.refused.append((number, type(error).__name__))
            made = ()
        if isinstance(made, lg.Tensor):
            made = (made,)
        for x in made or ():
            if x.numel() <= MOST_ELEMENTS:
                self.values.append(x)
        self.values = [x for x in self.values if is_usable(x)]
        del self.values[:-12]

    def read(self, number: int) -> None:
        """Looks at a value, which flushes; only machines that cut do."""

    def decide(self, x: Tensor) -> bool:
        """A branch on a value: read now, but always taken as in the first run."""
        found = bool(x)
        if self.decided is not None:
            found = self.decided[len(self.decisions)]
        self.decisions.append(found)
        return found

    # -------------------------------------------------------------------------- results

    def kept(self) -> list[Tensor]:
        """The results that the program keeps; the others are dropped."""
        self.values = [x for i, x in enumerate(self.values) if self.program.keep >> i & 1]
        return self.values

    def finish(self) -> tuple[list[Tensor], list[Tensor]]:
        """Results, and the gradients of all leaves of a summary of the results."""
        results = self.kept()
        parts = [summary(x, i) for i, x in enumerate(results) if x.requires_grad]
        if parts and self.leaves:
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            total.backward()
        grads = [x.grad for x in self.leaves]
        return results, grads


class Cutting(Machine):
    """Reads values along the way."""

    def read(self, number: int) -> None:
        x = self.values[number * 7 % len(self.values)].detach()
        kind = number % 3
        if kind == 0 and x.numel():
            x.reshape(-1)[0].item()
        elif kind == 1:
            repr(x)
        else:
            x.sum().item()


def is_usable(x: Tensor) -> bool:
    """Whether a value was not given up: one of several views whose base was written to is."""
    try:
        x.is_leaf
    except RuntimeError:
        return False
    return True


def fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(m == n or m == 1 or n == 1 for m, n in pairs)


def make_leaf(leaf: Leaf) -> Tensor:
    """A tensor of random numbers: floats in [-2, 2], some of them halves or zeros."""
    shape, dtype = SHAPES[leaf.shape % len(SHAPES)], DTYPES[leaf.dtype % len(DTYPES)]
    rng = np.random.default_rng(leaf.seed)
    if dtype.is_floating_point:
        data = rng.uniform(-2, 2, shape)
        if leaf.seed % 4 == 3:
            data = np.round(data * 2) / 2
        x = lg.tensor(data).to(dtype)
        return x.detach().requires_grad_() if leaf.grad else x
    return lg.tensor(rng.integers(-3 if dtype.signed else 0, 4, shape)).to(dtype)


def summary(x: Tensor, seed: int) -> Tensor:
    """A scalar in which every element of `x` counts differently."""
    weights = np.cos(np.arange(x.numel(), dtype=np.float64) + seed).reshape(x.shape)
    return (x.to(lg.float64) * lg.tensor(weights)).sum()


# -------------------------------------------------------------------------------- instructions

Rule = Callable[[Machine, int, int, int, int], Any]
INSTRUCTIONS: dict[str, Rule] = {}


def instruction(rule: Rule) -> Rule:
    """Registers a rule under its function's name."""
    INSTRUCTIONS[rule.__name__] = rule
    return rule


SMOOTH: tuple[Callable[[Tensor], Tensor], ...] = (
    lg.tanh,
    lg.sigmoid,
    lg.sin,
    lg.cos,
    lambda x: lg.exp(lg.tanh(x)),
    lambda x: lg.log(x * x + 0.5),
    lambda x: lg.sqrt(x * x + 0.25),
    lg.erf,
    lambda x: -x,
    lambda x: x * x,
    lg.atan,
    lambda x: F.gelu(x),
    lambda x: F.silu(x),
    lambda x: F.softplus(x),
    lambda x: x * 0.5,
    lambda x: 1.0 - x,
    lambda x: x + 0.25,
    lambda x: 2 / (x * x + 1),
    lambda x: x.clone(),
)
ROUGH: tuple[Callable[[Tensor], Tensor], ...] = (
    *SMOOTH,
    lg.exp,
    lg.log,
    lg.abs,
    lg.sqrt,
    lg.relu,
    lambda x: x.clamp(-1, 1),
    lambda x: x.clamp(min=-0.5),
    lg.sign,
    lg.floor,
    lambda x: lg.round(x * 3),
    lg.reciprocal,
    lg.rsqrt,
    lg.expm1,
    lg.log1p,
    lg.tan,
    lg.isnan,
    lambda x: x > 0,
    lambda x: x == 0,
    lambda x: x**3,
    lambda x: x**0.5,
    lambda x: x % 2,
    lambda x: lg.div(x, 2, rounding_mode="floor"),  # not x // 2: that has no derivative
    lambda x: x * 3 - 1,
    lambda x: 0 * x,
    lambda x: F.leaky_relu(x),
    lambda x: F.elu(x),
)


@instruction
def unary(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    if m.tame:
        return SMOOTH[b % len(SMOOTH)](m.float(a))
    return ROUGH[b % len(ROUGH)](m.any(a))


@instruction
def chain(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    """Several functions in a row, only the last of which is kept."""
    x = m.float(a)
    for k in range(2 + d % 4):
        x = SMOOTH[(b + k * (c + 1)) % len(SMOOTH)](x)
    return x


BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lg.add,
    lg.sub,
    lg.mul,
    lambda x, y: x / (y * y + 0.5),
    lambda x, y: lg.hypot(x.to(lg.float64), y.to(lg.float64) + 3),
)


def divisor(y: Tensor) -> Tensor:
    """`y`, or odd numbers made of it if it has integers: dividing them by 0 raises.

    But not where the result is dropped before anything computes it, as it is op by op.
    """
    return y if y.dtype.is_floating_point else y | y.new_ones(())


ROUGH_BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    *BINARY,
    lg.maximum,
    lg.minimum,
    lg.div,
    lambda x, y: x > y,
    lambda x, y: x <= y,
    lambda x, y: x == y,
    lambda x, y: lg.remainder(x, divisor(y)),
    lambda x, y: lg.div(x, divisor(y), rounding_mode="floor"),
    lambda x, y: lg.fmod(x, divisor(y)),
    lg.atan2,
    lambda x, y: lg.pow(lg.abs(x.to(lg.float32)), y),
    lambda x, y: x & y,
    lambda x, y: x ^ y,
    lg.logical_or,
    lg.logaddexp,
)


@instruction
def binary(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    if m.tame:
        x = m.float(a)
        return m.squash(BINARY[c % len(BINARY)](x, m.like(x, b)))
    x = m.any(a)
    return ROUGH_BINARY[c % len(ROUGH_BINARY)](x, m.like(x, b))


@instruction
def ternary(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    y = m.like(x, b)
    z = m.like(lg.broadcast_tensors(x, y)[0], c)
    kind = d % 5
    if kind == 0:
        return lg.where(x > y, y, z) if not m.tame else lg.where(lg.arange(1) == 0, y, z)
    if kind == 1:
        return lg.lerp(x, y.to(x.dtype), 0.3)
    if kind == 2:
        return m.squash(lg.addcmul(x, y, z, value=0.5))
    if kind == 3:
        return lg.where(m.integers(tuple(x.shape), 2, c) > 0, x, z)
    return lg.where(z.detach() > 0, x, 0.5) if not m.tame else x + 2 * y


REDUCTIONS: tuple[Callable[..., Tensor], ...] = (lg.sum, lg.mean)
ROUGH_REDUCTIONS: tuple[Callable[..., Tensor], ...] = (
    *REDUCTIONS,
    lg.amax,
    lg.amin,
    lg.prod,
    lg.any,
    lg.all,
    lambda x, dims, keep: lg.argmax(x, dims[0] if len(dims) == 1 else None, keep),
    lambda x, dims, keep: lg.argmin(x, dims[0] if len(dims) == 1 else None, keep),
    lg.var,
    lg.logsumexp,
    lambda x, dims, keep: lg.norm(x, 2, dims, keep),
    lg.count_nonzero,
)


def some_dims(ndim: int, b: int) -> tuple[int, ...]:
    """A subset of the dims (all if it would be empty)."""
    chosen = tuple([d for d in range(ndim) if b >> d & 1])
    return chosen or tuple(range(ndim))


@instruction
def reduce(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a) if m.tame else m.any(a)
    table = REDUCTIONS if m.tame else ROUGH_REDUCTIONS
    rule = table[c % len(table)]
    dims = some_dims(x.ndim, b)
    if rule is lg.count_nonzero:
        return lg.count_nonzero(x, dims)
    return m.squash(rule(x, dims, bool(d & 1)))


@instruction
def centre(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    """A value less its mean: reads the same memory in two passes."""
    x = m.float(a)
    dims = some_dims(x.ndim, b)
    if not dims:
        return x * 2
    y = x - x.mean(dims, True)
    return y / (1 + (y * y).sum(dims, True)) if c & 1 else y


# ---- movement


@instruction
def reshape(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return x.reshape(factored(x.numel(), b, tuple(x.shape), c))


def factored(count: int, b: int, shape: tuple[int, ...], c: int) -> tuple[int, ...]:
    """Another shape of so many elements."""
    if not count:
        return shape[::-1] if b & 1 else (*shape, 1)
    kind = b % 6
    if kind == 0:
        return (count,)
    if kind == 1 and len(shape) > 1:
        k = c % (len(shape) - 1)
        return (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])
    if kind == 2:
        k = c % (len(shape) + 1)
        return (*shape[:k], 1, *shape[k:])
    if kind == 3:
        return tuple([size for size in shape if size != 1])
    for divisor in (2, 3, 5, 17):
        if count % divisor == 0:
            return (divisor, count // divisor) if kind == 4 else (count // divisor, 1, divisor)
    return (1, count)


@instruction
def permute(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    order = list(np.random.default_rng(b).permutation(x.ndim))
    return x.permute([int(k) for k in order])


@instruction
def transpose(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return x.transpose(b % max(x.ndim, 1), c % max(x.ndim, 1))


@instruction
def expand(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    shape = [3 if size == 1 and b >> k & 1 else size for k, size in enumerate(x.shape)]
    if c & 1 and x.ndim < 4:
        shape = [2, *shape]
    return x.expand(shape)


@instruction
def slices(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return x[some_key(x.shape, b, c, d)]


def some_key(shape: tuple[int, ...], b: int, c: int, d: int) -> tuple[Any, ...]:
    """A basic index."""
    key: list[Any] = []
    for k, size in enumerate(shape):
        kind = (b >> 2 * k) & 3
        start = (c + k) % (size + 1)
        if kind == 1:
            key.append(slice(start, None, 1 + (d + k) % 3))
        elif kind == 2 and size:
            key.append((c + 3 * k) % size)
        elif kind == 3:
            key.append(slice(start // 2, start // 2 + 1 + d % 4))
        else:
            key.append(slice(None))
    if d % 7 == 6:
        key.insert(d % (len(key) + 1), None)
    return tuple(key)


@instruction
def flip(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return lg.flip(x, some_dims(x.ndim, b))


@instruction
def join(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if not x.ndim:
        return lg.stack([x, m.any(b).reshape(-1).sum().to(x.dtype)])
    dim = c % x.ndim
    same = [
        v
        for v in m.values
        if v.ndim == x.ndim and all(v.shape[k] == x.shape[k] for k in range(x.ndim) if k != dim)
    ]
    others = [same[-1 - (b + k) % len(same)] for k in range(1 + d % 3)]
    if d % 4 == 3:
        return lg.stack([x, x * 2, x.flip(0)], dim)
    return lg.cat([x, *others], dim)


@instruction
def pad(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if not x.ndim:
        return x + 1
    amounts = [(b >> k) % 3 for k in range(2 * (1 + c % x.ndim))]
    return F.pad(x, amounts, value=d % 3) if hasattr(F, "pad") else lg.cat([x, x], 0)


@instruction
def diagonal(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if x.ndim < 2:
        return lg.diag(x) if x.ndim == 1 and x.numel() < 40 else x.reshape(1, 1)
    return lg.diagonal(x, b % 5 - 2, c % x.ndim, d % x.ndim)


@instruction
def triangle(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if x.ndim < 2:
        return x.unsqueeze(0)
    return (lg.tril if c & 1 else lg.triu)(x, b % 5 - 2)


@instruction
def squeeze(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return x.squeeze() if b & 1 else x.unsqueeze(c % (x.ndim + 1)) if x.ndim < 5 else x.flatten()


@instruction
def roll(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    return lg.roll(x, b % 7, c % x.ndim) if x.ndim else lg.roll(x.reshape(1), 1, 0)


@instruction
def split(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    x = m.any(a)
    if not x.ndim:
        return x
    return lg.chunk(x, 2 + c % 2, b % x.ndim)


# ---- products, norms, losses


@instruction
def product(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    """A matrix product in one of several ranks, of values or views of values."""
    x = m.float(a)
    if not x.ndim:
        x = x.reshape(1, 1)
    if d & 1 and x.ndim > 1:
        x = x.transpose(-1, -2)
    if d & 2 and x.ndim > 1:
        x = x[..., ::2] if d & 4 else x[..., 1:]
    found = [
        v
        for v in m.values
        if v.dtype is x.dtype
        and v.ndim
        and v.shape[max(v.ndim - 2, 0)] == x.shape[-1]
        and fits(x.shape[:-2], v.shape[:-2])
    ]
    if found:
        y = found[-1 - b % len(found)]
    elif c & 1:
        y = x.transpose(-1, -2) if x.ndim > 1 else x
    else:
        data = np.random.default_rng(b).uniform(-1, 1, (x.shape[-1], (1, 3, 5, 17)[c % 4]))
        y = lg.tensor(data).to(x.dtype)
    return m.squash(lg.matmul(x, y))


@instruction
def linear(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    if not x.ndim:
        return x * 2
    rng = np.random.default_rng(b)
    size = (1, 3, 5, 17)[c % 4]
    weight = lg.tensor(rng.uniform(-1, 1, (size, x.shape[-1]))).to(x.dtype)
    bias = lg.tensor(rng.uniform(-1, 1, (size,))).to(x.dtype)
    return m.squash(F.linear(x, weight, bias if d & 1 else None))


@instruction
def normalise(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    if not x.ndim:
        return x + 1
    dim = b % x.ndim
    kind = c % 4
    if kind == 0:
        return lg.softmax(x, dim)
    if kind == 1:
        return lg.log_softmax(x, dim)
    if kind == 2:
        weight = lg.cos(lg.arange(x.shape[-1], dtype=x.dtype))
        return lg.layer_norm(x, (x.shape[-1],), weight, weight * 0.5, 1e-1)
    return lg.layer_norm(x, x.shape[dim:], eps=0.1)


@instruction
def loss(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    reduction = ("mean", "sum", "none")[c % 3]
    if x.ndim == 2 and d & 1 and x.shape[1]:
        return F.cross_entropy(x, m.integers((x.shape[0],), x.shape[1], b), reduction=reduction)
    y = m.like(x, b).to(x.dtype)
    if y.shape != x.shape:
        y = lg.tanh(x.detach() * 2)
    return F.mse_loss(x, y, reduction=reduction)


# ---- indexing


@instruction
def gather(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if not x.ndim or not x.numel():
        return x
    dim = b % x.ndim
    kind = c % 4
    if kind == 0:
        return lg.index_select(x, dim, m.integers((1 + d % 6,), x.shape[dim], b))
    if kind == 1:
        shape = [4 if k == dim else size for k, size in enumerate(x.shape)]
        return lg.gather(x, dim, m.integers(tuple(shape), x.shape[dim], d))
    if kind == 2:
        base = x * 2
        return lg.index_add(base, dim, m.integers((x.shape[dim],), x.shape[dim], b), x)
    return lg.scatter_add(x * 2, dim, m.integers(tuple(x.shape), x.shape[dim], b), x)


@instruction
def embedding(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    if x.ndim != 2 or not x.shape[0]:
        return x * 3
    shape = ((4,), (2, 3), (), (0,))[c % 4]
    return F.embedding(m.integers(shape, x.shape[0], b), x)


# ---- dtypes, creation


@instruction
def convert(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.any(a)
    if m.tame:
        return x.to(lg.float64)
    target = DTYPES[b % len(DTYPES)]
    if x.dtype.is_floating_point and not target.is_floating_point and target is not lg.bool:
        # Outside their range casts are the machine's business.
        x = lg.where(lg.isnan(x), 0.5, x).clamp(-100 if target.signed else 0, 100)
    return x.to(target)


@instruction
def create(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    shape = tuple(m.any(a).shape)
    kind = b % 6
    if kind == 0:
        return lg.full(shape, 0.5 + c % 3, dtype=m.default)
    if kind == 1:
        return lg.arange(lg.Size(shape).numel(), dtype=lg.float64).reshape(shape) * 0.125
    if kind == 2:
        return lg.zeros(shape, dtype=m.default)
    if kind == 3:
        return lg.rand(shape, dtype=m.default)
    if kind == 4:
        return lg.eye(1 + c % 5, 1 + d % 5, dtype=m.default)
    return lg.arange(c % 7, 40, 1 + d % 5) if not m.tame else lg.ones(shape, dtype=m.default)


@instruction
def dropout(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    return F.dropout(m.float(a), 0.3 + 0.1 * (b % 4), training=True)


# ---- views and in-place writes


def writable(m: Machine, a: int) -> Tensor:
    """A value that may be written: not a leaf that wants a gradient, nor a view of one."""
    x = m.any(a)
    found = x.clone() if x.requires_grad and x.is_leaf else x
    if found is not x:
        m.values.append(found)
    return found


@instruction
def write(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    """`x[key] = value`."""
    x = writable(m, a)
    key = some_key(x.shape, b, c, d)
    kind = d % 3
    if kind == 0:
        x[key] = 0.5 if x.dtype.is_floating_point else 1
    elif kind == 1:
        x[key] = x[key] * 2 if x.dtype is not lg.bool else ~x[key]
    else:
        x[key] = m.like(x[key], c).to(x.dtype).expand(x[key].shape)
    return ()


@instruction
def write_view(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    """In-place arithmetic through a view; the base and other views see it."""
    x = writable(m, a)
    kind = b % 5
    if kind == 0:
        v = x[some_key(x.shape, c, d, a)]
    elif kind == 1 and x.ndim > 1:
        v = x.transpose(0, -1)
    elif kind == 2:
        v = x.reshape(-1)
    elif kind == 3 and x.ndim > 1:
        v = lg.diagonal(x)
    else:
        v = x
    if x.dtype is lg.bool:
        v.copy_(~v)
    elif c % 3 == 0:
        v.add_(1)
    elif c % 3 == 1:
        v.mul_(2 if not x.dtype.is_floating_point else 0.5)
    elif x.dtype.is_floating_point:
        v.copy_(lg.cos(v))
    return (v,) if d & 1 else ()


@instruction
def accumulate(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    """`x += y`."""
    x = writable(m, a)
    if not x.dtype.is_floating_point:
        return ()
    y = m.like(x, b)
    if lg.broadcast_tensors(x, y)[0].shape == x.shape and (m.tame or y.dtype is not lg.float64):
        x.add_(y)
        if m.tame:
            x.copy_(lg.tanh(x))
    return ()


# ---- Python


@instruction
def branch(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    x = m.float(a)
    return x * 2 if m.decide(x.sum() > 0) else x - 1


@instruction
def drop(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    """A value goes out of scope."""
    if len(m.values) > 2:
        del m.values[a % len(m.values)]
    return ()


@instruction
def stop(m: Machine, a: int, b: int, c: int, d: int) -> Tensor:
    return m.any(a).detach()


@instruction
def again(m: Machine, a: int, b: int, c: int, d: int) -> Any:
    """The same computation as before, on the same values, seen under two names."""
    x = m.float(a)
    return lg.sin(x) * 2, lg.sin(x) + x


# ------------------------------------------------------------------------------------- running


class Outcome(NamedTuple):
    """What a run gave: arrays, their dtypes, decisions and refusals."""

    results: list[Any]
    grads: list[Any]
    kinds: list[tuple[Any, Any]]
    decisions: list[bool]
    refused: list[tuple[int, str]]


def execute(
    program: Program, decisions: list[bool] | None = None, machine: type[Machine] = Machine
) -> Outcome:
    """Runs a program and reads everything it kept."""
    m = machine(program, decisions)
    m.run()
    results, grads = m.finish()
    return Outcome(
        [stored(x) for x in results],
        [None if g is None else stored(g) for g in grads],
        [(tuple(x.shape), x.dtype) for x in results],
        m.decisions,
        m.refused,
    )


def stored(x: Tensor) -> Any:
    """The numbers of a tensor, those of bfloat16 as float32."""
    node = node_of(x)
    if node.buffer is None:
        graph_flush("fuzz", node)
    values = np.array(array_of(node))
    return to_compute(values, x.dtype) if x.dtype is lg.bfloat16 else values


class Mismatch(AssertionError):
    """A compiled op gave something else than its reference."""


@contextmanager
def one_op_at_a_time(check: Callable[[Node, Any], None] | None = None) -> Any:
    """Every recorded op, of backward too, is flushed by itself; `check` gets its reference."""

    def flush(root: Node) -> None:
        before = [(n, n.inputs, n.args) for n in LOCAL.state.nodes]
        graph_flush("one op at a time", root)
        state.most = -1
        if check is None:
            return
        for node, inputs, args in before:
            if node.buffer is not None and all(x.buffer is not None for x in inputs):
                check(node, expected_value(node, inputs, args))

    state, original = LOCAL.state, recording.flush_many
    most, state.most, recording.flush_many = state.most, -1, flush
    try:
        yield
    finally:
        state.most, recording.flush_many = most, original


def expected_value(node: Node, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Any:
    """What the reference of one op gives for the values its inputs have."""
    copy = object.__new__(Node)
    copy.spec, copy.meta, copy.inputs, copy.args = node.spec, node.meta, inputs, args
    copy.grad_to = copy.buffer = copy.cut = None
    copy.spent, copy.index, copy.site = False, -1, node.site
    return reference_value(copy)


# Agreement of one op with its reference, relative to the largest number involved.
LOCAL_BOUND = {lg.float64: 1e-11, lg.float32: 4e-5, lg.float16: 8e-3, lg.bfloat16: 6e-2}


def check_op(node: Node, expected: Any) -> None:
    """Raises Mismatch unless a node's value is what its reference gives."""
    got = to_compute(array_of(node), node.meta.dtype)
    shape = np.shape(expected)
    if shape != got.shape:
        raise Mismatch(f"{node}: shape {got.shape}, reference {shape}")
    stored = from_compute(expected, node.meta.dtype).reshape(shape)
    expected = to_compute(stored, node.meta.dtype)
    bound = LOCAL_BOUND.get(node.meta.dtype)
    with np.errstate(all="ignore"):
        if bound is None:
            good = got == expected.astype(got.dtype)
        else:
            wide, wanted = got.astype(np.float64), expected.astype(np.float64)
            good = close(wide, wanted, bound * scale_of(node, wanted))
    if not np.all(good):
        bad = np.argwhere(~np.asarray(good))[:3]
        raise Mismatch(
            f"{node}: attrs {node.attrs} args {node.args} at {bad.tolist()}\n got {got}\n "
            f"expected {expected}"
        )


def scale_of(node: Node, wanted: Any) -> Any:
    """The magnitude that an op's rounding errors are relative to."""
    finite = np.where(np.isfinite(wanted), np.abs(wanted), 0)
    if node.op.kind == "elementwise" or not finite.size:
        return finite + 1e-6
    return finite.max() + 1


def close(a: Any, b: Any, bound: Any) -> Any:
    """Whether numbers agree within a bound; infinities and NaN must be the same."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return same | (np.abs(a - b) <= bound)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have the same bits, all NaN being one."""
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    bits = f"u{a.dtype.itemsize}"
    equal = (a.view(bits) if a.ndim else a.reshape(1).view(bits)) == (
        b.view(bits) if b.ndim else b.reshape(1).view(bits)
    )
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))


def reference(program: Program, decisions: list[bool] | None = None) -> Outcome:
    """The program run with NumPy, op by op."""
    with reference_mode():
        return execute(program, decisions)
