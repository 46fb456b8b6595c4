"""Programs that go wrong at a line we know: each fault is marked by `# here`, with its operation.

A fault takes the values of a layer and `bad`, a number that is 0 as long as all is well, and 1 in
the step that goes wrong; the structure of the program stays the same, so the step is a fused plan.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import livegrad as lg
import livegrad.nn.functional as F

Fault = Callable[[Any, Any], Any]
INF = float("inf")


class Planted(NamedTuple):
    """A fault, and what is to be found: the operation, and whether in a backward pass."""

    function: Fault
    op: str
    how: str = "forward"

    @property
    def line(self) -> int:
        return marked_line(self.function)


def marked_line(function: Any) -> int:
    """The number of the line of a function, or class, that is marked."""
    lines, first = inspect.getsourcelines(function)
    (place,) = [i for i, text in enumerate(lines) if "# here" in text]
    return first + place


FAULTS: dict[str, Planted] = {}


def planted(op: str, how: str = "forward") -> Callable[[Fault], Fault]:
    def add(function: Fault) -> Fault:
        FAULTS[function.__name__] = Planted(function, op, how)
        return function

    return add


@planted("log")
def log_of_zero(z: Any, bad: Any) -> Any:
    p = z.sigmoid() * (1 - bad)
    return p.log()  # here


@planted("div")
def zero_by_zero(z: Any, bad: Any) -> Any:
    above, below = z * (1 - bad), (z.abs() + 1) * (1 - bad)
    return above / below  # here


@planted("exp")
def overflow_in_exp(z: Any, bad: Any) -> Any:
    large = z.tanh() + 200 * bad
    e = large.exp()  # here
    return e / e.sum(1, keepdim=True)


@planted("softmax")
def bad_mask(z: Any, bad: Any) -> Any:
    mask = lg.arange(z.shape[1]) < z.shape[1] * bad + 2
    scores = z.masked_fill(mask, -INF)
    return scores.softmax(1)  # here


@planted("softmax")
def bad_additive_mask(z: Any, bad: Any) -> Any:
    mask = lg.zeros(z.shape[1]).masked_fill(lg.arange(z.shape[1]) < z.shape[1] * bad, -INF)
    scores = z + mask
    weights = scores.softmax(-1)  # here
    return weights * z


@planted("reciprocal")
def hidden_by_tanh(z: Any, bad: Any) -> Any:
    x = (z.abs() + 0.5) * (1 - bad)
    y = x.reciprocal()  # here
    return y.tanh()


@planted("mul", "backward")
def exploding_gradient(z: Any, bad: Any) -> Any:
    nothing = z - z.detach()
    scaled = nothing * (bad * 1e30)  # here
    return z + scaled * 1e30


@planted("sqrt", "backward")
def root_of_zero(z: Any, bad: Any) -> Any:
    distance = (z * z) * (1 - bad)
    return distance.sqrt()  # here


@planted("pow", "backward")
def power_of_zero(z: Any, bad: Any) -> Any:
    return (z.abs() * (1 - bad)) ** 0.75  # here


@planted("div")
def where_does_not_help(z: Any, bad: Any) -> Any:
    below = (z.abs() + 1) * (1 - bad)
    ratio = z / below  # here
    return lg.where(below > 0, ratio, lg.zeros_like(z))


@planted("reciprocal")
def reciprocal_of_zero(z: Any, bad: Any) -> Any:
    x = (z.abs() + 0.5) * (1 - bad)
    return x.reciprocal()  # here


@planted("rsqrt")
def root_of_negative(z: Any, bad: Any) -> Any:
    x = z.abs() + 0.5 - 100 * bad
    return x.rsqrt()  # here


@planted("pow")
def power_of_negative(z: Any, bad: Any) -> Any:
    x = z.abs() + 0.5 - 100 * bad
    return x**1.5  # here


@planted("sum")
def overflow_in_sum(z: Any, bad: Any) -> Any:
    x = z.sigmoid() + 2e38 * bad
    total = x.sum()  # here
    return z + total


@planted("matmul")
def overflow_in_product(z: Any, bad: Any) -> Any:
    x = z.sigmoid() + 1e30 * bad
    y = x @ x.T  # here
    return z + y.mean()


@planted("std")
def deviation_of_one(z: Any, bad: Any) -> Any:
    rows = z[: 1 if float(bad) else 2]
    s = rows.std(0)  # here
    return z * s


@planted("log_softmax")
def infinite_logits(z: Any, bad: Any) -> Any:
    logits = z + lg.full_like(z, INF) if float(bad) else z
    return F.log_softmax(logits, 1)  # here


@planted("cross_entropy")
def weights_of_zero(z: Any, bad: Any) -> Any:
    target = lg.zeros(z.shape[0], dtype=lg.int64)
    weight = lg.ones(z.shape[1]) * (1 - bad)
    loss = F.cross_entropy(z, target, weight=weight)  # here
    return z + loss


@planted("mean")
def mean_of_nothing(z: Any, bad: Any) -> Any:
    some = z[: 0 if float(bad) else 3]
    m = some.mean()  # here
    return z - m


@planted("logsumexp")
def sum_of_no_exponentials(z: Any, bad: Any) -> Any:
    x = z * 1.0
    if float(bad):
        x = x.masked_fill(x == x, -INF)
    total = x.logsumexp(1, keepdim=True)  # here
    return z - total


@planted("asin")
def out_of_range(z: Any, bad: Any) -> Any:
    x = z.tanh() * 0.9 + 3 * bad
    return x.asin()  # here


@planted("log1p")
def log_of_one_less(z: Any, bad: Any) -> Any:
    x = z.sigmoid() * (1 - bad) - bad
    return x.log1p()  # here


@planted("lgamma")
def pole(z: Any, bad: Any) -> Any:
    x = (z.abs() + 0.5) * (1 - bad)
    return x.lgamma()  # here


@planted("cast")
def overflow_in_half(z: Any, bad: Any) -> Any:
    x = z.sigmoid() + 1e6 * bad
    half = x.half()  # here
    return half.float() + z


@planted("mul")
def times_nan(z: Any, bad: Any) -> Any:
    factor = float("nan") if float(bad) else 1.0
    return z * factor  # here


class Inverse(lg.autograd.Function):
    """Divides by what may be zero."""

    @staticmethod
    def forward(ctx: Any, x: Any, bad: Any) -> Any:
        return x / (1 - bad)  # here

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, None


class Wrong(lg.autograd.Function):
    """Has a gradient that may be infinite."""

    @staticmethod
    def forward(ctx: Any, x: Any, bad: Any) -> Any:
        ctx.bad = bad
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g / (1 - ctx.bad), None  # here


def in_function(z: Any, bad: Any) -> Any:
    return Inverse.apply(z, bad)


def in_backward_of_function(z: Any, bad: Any) -> Any:
    return Wrong.apply(z, bad)


def in_hook(z: Any, bad: Any) -> Any:
    y = z * 2
    if y.requires_grad:
        y.register_hook(lambda g: g / (1 - bad))  # here
    return y
