"""Whether a value hangs on roundings, or on the bits of NaN: PyTorch run again, with others.

Two right libraries differ in the last bits of `exp`, a quotient or a sum. A program can blow that
up: `floor`, a comparison, a difference of nearly equal numbers. Where PyTorch itself gives
something else when its roundings are moved a little, nothing is known to be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .compare import ATTRIBUTES, TOLERANCE, close, flat, numbers
from .program import CHECK
from .sides import TorchSide

INEXACT = frozenset(
    """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh sigmoid erf erfc lgamma digamma sqrt rsqrt pow div reciprocal mean var std var_mean norm
    linalg_vector_norm softmax _softmax log_softmax _log_softmax logsumexp logaddexp logaddexp2 mm
    bmm addmm addmv mv dot addcdiv lerp cumsum cumprod prod sum gelu silu elu selu celu softplus
    logit xlogy sinc hypot native_layer_norm native_batch_norm native_group_norm convolution
    binary_cross_entropy binary_cross_entropy_with_logits huber_loss smooth_l1_loss mse_loss
    mish hardswish log_sigmoid_forward upsample_bilinear2d avg_pool1d avg_pool2d embedding_bag
    _cdist_forward index_add scatter_add scatter_reduce remainder fmod floor_divide
    soft_margin_loss multi_margin_loss multilabel_margin_loss_forward nll_loss_forward
    nll_loss2d_forward hardsigmoid glu erfinv nansum logcumsumexp addr baddbmm renorm trace
    _adaptive_avg_pool2d upsample_linear1d upsample_bicubic2d _fused_rms_norm _safe_softmax
    _scaled_dot_product_flash_attention_for_cpu
    """.split()
)
# What these add may cancel, and leaves a rounding, of either sign, or nothing.
NORMS = frozenset("native_batch_norm native_layer_norm native_group_norm".split())
# These subtract a mean, or round on the way: inputs that are moved, too, tell what that does.
ROUNDING_WITHIN = NORMS | frozenset("var std var_mean std_mean ldexp gelu sinc".split())
# Of complex numbers, to which one rounding is several.
INEXACT_COMPLEX = frozenset({"abs", "angle", "mul", "sgn"})
ULPS = 4
COARSE = 1e-4  # where one rounding is that large, more would pass for any fault
# Numbers that differ by less may be equal by other roundings, which moving them seldom hits upon.
NEAR = 64
PRODUCTS = frozenset("mm bmm addmm addmv mv dot".split())  # a sum of 0 has the sign it began with
SUMS = frozenset("sum nansum cumsum mean var_mean logsumexp trace avg_pool1d avg_pool2d".split())
# Of numbers that may be large, and as near to each other as so many of their roundings.
DIFFERENCES = {"binary_cross_entropy_with_logits": ULPS, "_log_softmax": 1}
REACHING = range(1, 61)  # of what jumps, and seldom
EXTREMES = frozenset("min max amin amax aminmax".split())  # which of 0 and -0 is taken is open
MORE = {"gelu": 400}  # PyTorch's vectors of it are right to some 2e-5


# They compute, or convert: what a NaN that comes of it looks like is open.
MAKING_NANS = INEXACT | frozenset(
    """
    add sub rsub mul neg abs relu clamp clamp_min clamp_max maximum minimum fmax fmin addcmul
    floor ceil trunc round sign _to_copy
    """.split()
)
# For each size of an element: integers as wide, a quiet NaN, and what may be in it besides.
NANS = {
    2: (torch.int16, 0x7FC0, 0x3F),
    4: (torch.int32, 0x7FC00000, 0x3FFFFF),
    8: (torch.int64, 0x7FF8 << 48, 0x3FFFFF),
}


class OtherRoundings(TorchDispatchMode):
    """Moves the results of inexact operations, forward and backward, by units of the last place."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[-1].rstrip("_")
        if name not in INEXACT and torch.is_inference_mode_enabled():
            # Where no gradients are recorded, it is told what others are written with as a whole.
            with self:
                out = func.decompose(*args, **(kwargs or {}))
            if out is not NotImplemented:
                return out
        if name.removesuffix("_backward") in ROUNDING_WITHIN:
            args = [self.moved(x) for x in args]
        near = are_near(*args[:2]) if name in ("eq", "ne") else None
        out = func(*args, **(kwargs or {}))
        if near is not None:
            chosen = torch.from_numpy(np.asarray(self.rng.random(tuple(out.shape)) < 0.5))
            out.copy_(torch.where(near & chosen, (out == 0).to(out.dtype), out))
        if name in INEXACT or name.endswith("_backward") or is_complex(name, args):
            coarse = computed_in(args) if "out" in (kwargs or {}) else None
            for x in out if isinstance(out, tuple | list) else (out,):
                self.move(x, MORE.get(name, ULPS), coarse)
                if isinstance(x, torch.Tensor) and x.is_complex():
                    self.cancel_parts(x)
                if name in SUMS:
                    self.cancel(x, args[0])
                if name in DIFFERENCES:
                    self.move_by_terms(x, args[0], DIFFERENCES[name])
                if name in PRODUCTS or is_sum_of_one(name, args, x):
                    self.turn_zeros(x)
            if name in NORMS:
                self.turn_small(out[0], args[0], out[2])
            if name == "sinc":  # of a whole number, which is 0
                self.turn_small(out)
        if name in EXTREMES and has_both_zeros(args[0]):
            for x in out if isinstance(out, tuple) else (out,):
                self.turn_zeros(x)
        return out

    def turn_small(self, x: torch.Tensor, *normalised: torch.Tensor) -> None:
        """Turns what is a rounding next to the largest number, or makes it 0.

        What was `normalised` had the roundings of its own largest, times 1 over its deviation.
        """
        most = x.abs().nan_to_num(0, posinf=0).amax() if x.numel() else 0
        if x.numel() and all(y.numel() for y in normalised):
            before = [y.abs().nan_to_num(0, posinf=0).amax() for y in normalised]
            most = max(most, math.prod(before))
        small = x.abs() <= ULPS * torch.finfo(x.dtype).eps * most
        signs = torch.from_numpy(self.rng.choice([-1.0, 0.0, 1.0], tuple(x.shape))).to(x.dtype)
        x.copy_(torch.where(small, x * signs, x))

    def move_by_terms(self, x: torch.Tensor, terms: torch.Tensor, ulps: int) -> None:
        """Moves numbers by as much as roundings of the largest term."""
        most = terms.abs().nan_to_num(0, posinf=0).amax() if terms.numel() else 0
        steps = torch.from_numpy(np.asarray(self.rng.uniform(-1, 1, tuple(x.shape)))).to(x.dtype)
        x.add_(steps * (ulps * torch.finfo(x.dtype).eps * most))

    def turn_zeros(self, x: torch.Tensor) -> None:
        if x.is_floating_point():
            signs = torch.from_numpy(self.rng.choice([-1.0, 1.0], tuple(x.shape))).to(x.dtype)
            x.copy_(torch.where(x == 0, x * signs, x))

    def cancel(self, x: torch.Tensor, terms: torch.Tensor) -> None:
        """Makes some sums 0 that are smaller than the roundings of their largest term."""
        if x.is_floating_point() and terms.numel():
            least = ULPS * torch.finfo(x.dtype).eps * terms.to(x.dtype).abs().amax()
            chosen = torch.from_numpy(np.asarray(self.rng.random(tuple(x.shape)) < 0.5))
            x.masked_fill_((x.abs() <= least) & chosen, 0)

    def cancel_parts(self, x: torch.Tensor) -> None:
        """Makes some parts of complex numbers 0 that are less than the roundings of the other."""
        parts = torch.view_as_real(x.resolve_conj())
        least = ULPS * torch.finfo(x.dtype).eps * x.abs().unsqueeze(-1)
        chosen = torch.from_numpy(np.asarray(self.rng.random(tuple(parts.shape)) < 0.5))
        x.copy_(torch.view_as_complex(torch.where((parts.abs() <= least) & chosen, 0, parts)))

    def moved(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            self.move(x := x.clone())
        return x

    def move(self, x: Any, ulps: int = ULPS, coarse: torch.dtype | None = None) -> None:
        """Moves numbers by units of the last place; of a `coarse` dtype, if they were that."""
        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return
        eps = max(torch.finfo(x.dtype).eps, torch.finfo(coarse or x.dtype).eps)
        if eps > COARSE:
            ulps = 1
        steps = self.rng.integers(-ulps, ulps + 1, tuple(x.shape))
        factor = torch.tensor(1 + steps * eps, dtype=torch.float64)
        moved = x.to(torch.complex128 if x.is_complex() else torch.float64) * factor
        if not x.is_complex():  # of what is less than normal numbers, units of the last place
            least = torch.finfo(x.dtype)
            small = (x != 0) & (x.abs() < least.smallest_normal)
            unit = least.smallest_normal * least.eps
            moved = torch.where(small, moved + torch.tensor(steps) * unit, moved)
        x.copy_(moved.to(x.dtype))


class OtherNans(TorchDispatchMode):
    """Gives each NaN that an operation makes other bits."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name.split("::")[-1].rstrip("_") in MAKING_NANS:
            for x in out if isinstance(out, tuple | list) else (out,):
                self.turn(x)
        return out

    def turn(self, x: Any) -> None:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or not x.isnan().any():
            return
        integers, quiet, payload = NANS[x.element_size()]
        bits = quiet | self.rng.integers(0, payload, tuple(x.shape), endpoint=True)
        bits = torch.from_numpy(np.asarray(bits)).to(integers)
        shown = x.view(integers)
        chosen = torch.from_numpy(np.asarray(self.rng.random(tuple(x.shape)) < 0.5))
        turned = torch.where(chosen, bits, ~0)
        shown.copy_(torch.where(x.isnan(), turned.to(integers), shown))


def are_near(x: Any, y: Any) -> torch.Tensor | None:
    """Where numbers are unequal by a few roundings; None if they are not rounded at all."""
    dtypes = [z.dtype for z in (x, y) if isinstance(z, torch.Tensor) and z.is_floating_point()]
    if not dtypes:
        return None
    eps = max(torch.finfo(dtype).eps for dtype in dtypes)
    a, b = (torch.as_tensor(z).to(torch.float64) for z in (x, y))
    return (a != b) & ((a - b).abs() <= NEAR * eps * torch.maximum(a.abs(), b.abs()))


def computed_in(args: Any) -> torch.dtype:
    """The dtype in which a function of tensors computes, whatever it is to be stored as."""
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor)]
    found = reduce(torch.promote_types, dtypes, torch.bool)
    return found if found.is_floating_point or found.is_complex else torch.get_default_dtype()


def is_sum_of_one(name: str, args: Any, out: torch.Tensor) -> bool:
    """Whether each of the sums is one of a single number: 0 to PyTorch, which begins with 0, if -0.

    Here it is that number, and nothing is computed.
    """
    return name in SUMS and args[0].numel() == out.numel()


def has_both_zeros(x: Any) -> bool:
    """Whether a tensor has a 0 and a -0, neither of which is the less."""
    return x.is_floating_point() and bool((1 / x == -math.inf).any() and (1 / x == math.inf).any())


def is_complex(name: str, args: Any) -> bool:
    """Whether an operation rounds because its operand is complex."""
    return name in INEXACT_COMPLEX and isinstance(args[0], torch.Tensor) and args[0].is_complex()


def hangs_on(
    others: type[OtherRoundings | OtherNans],
    lines: Sequence[str],
    name: str,
    seeds: Sequence[int] = range(1, 13),
) -> bool:
    """Whether what a program leaves in a variable changes with PyTorch's roundings, or its NaN."""
    steady = value_after(lines, name)
    for seed in seeds:
        with others(seed):
            moved = value_after(lines, name)
        with suppress(RuntimeError):  # a tensor that only exists under the mode cannot be read
            if differs(steady, moved):
                return True
    return False


def may_become(mine: Sequence[float], lines: Sequence[str], name: str, of_gradient: bool) -> bool:
    """Whether other roundings bring PyTorch's numbers, or its gradient's, as far as livegrad's.

    True as well where that is not known: of what is no tensor of as many real numbers.
    """
    goal = np.array(mine, dtype=np.float64)
    reached = Reached(goal)
    for seed in (0, *REACHING):
        with OtherRoundings(seed) if seed else nullcontext():
            moved = value_after(lines, name)
        shown = getattr(moved, "grad", None) if of_gradient else moved
        if not isinstance(shown, torch.Tensor) or shown.is_complex() or shown.numel() != goal.size:
            return True
        with suppress(RuntimeError):  # a tensor that only exists under the mode cannot be read
            reached.add(numbers(shown.tolist()).real, TOLERANCE.get(ATTRIBUTES["dtype"](shown), 0))
        if seed and reached.everywhere():
            return True
    return False


class Reached:
    """Where numbers that differ from run to run have come near to those of a goal."""

    def __init__(self, goal: np.ndarray):
        self.goal = goal
        self.least, self.most = np.full(goal.shape, np.inf), np.full(goal.shape, -np.inf)
        self.not_finite = np.zeros(goal.shape, dtype=bool)  # in some run: anything may be there
        self.tolerance = 0.0

    def add(self, numbers: np.ndarray, tolerance: float) -> None:
        finite = np.isfinite(numbers)
        self.not_finite |= ~finite
        self.least[finite] = np.minimum(self.least, numbers)[finite]
        self.most[finite] = np.maximum(self.most, numbers)[finite]
        largest = np.abs(self.most[np.isfinite(self.most)]).max(initial=0)
        self.tolerance = tolerance * max(largest, 1e-3)

    def everywhere(self) -> bool:
        shown = 1e-6 * np.abs(self.goal)  # with seven digits
        slack = 2 * (self.most - self.least) + self.tolerance + shown
        near = (self.least - slack <= self.goal) & (self.goal <= self.most + slack)
        return bool((near | self.not_finite).all())


def size_hangs_on_roundings(lines: Sequence[str], name: str) -> bool:
    """Whether a variable has another shape with other roundings: it is one of what differs."""
    steady = getattr(value_after(lines, name), "shape", None)
    for seed in range(1, 13):
        with OtherRoundings(seed):
            moved = value_after(lines, name)
        if getattr(moved, "shape", None) != steady:
            return True
    return False


def value_after(lines: Sequence[str], name: str) -> Any:
    side = TorchSide(keeping=True)
    for line in lines:
        if line != CHECK:
            side.run(line)
    return side.variables.get(name)  # also the log


def differs(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return True
        if not a.is_floating_point() and not a.is_complex():
            return a.tolist() != b.tolist()
        tolerance = TOLERANCE.get(ATTRIBUTES["dtype"](a), 0) / 4
        if not close(numbers(a.tolist()), numbers(b.tolist()), tolerance):
            return True
        return a.grad is not None and differs(a.grad, b.grad)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool | int | float | complex):
        return not isinstance(b, type(a)) or not close(
            numbers(list(flat(a))), numbers(list(flat(b))), TOLERANCE["float32"] / 4
        )
    return False
