"""Elementwise functions of integers: greatest common divisor and least common multiple."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from livegrad.ops.elementwise.host_functions import apply, define_on_host, need_tensors
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting, refusing_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


_SAMPLES = s.calls(
    lambda: s.Sample((s.integers(3, 4, low=-30, high=30), s.integers(4, low=-9)), smooth=False),
    lambda: s.Sample((s.integers(5, high=30), 12), smooth=False),
    lambda: s.Sample((s.integers(0), s.integers(1)), smooth=False),
)
GCD = define_on_host("gcd", np.gcd, result="shift", samples=_SAMPLES)
LCM = define_on_host("lcm", np.lcm, result="shift", samples=_SAMPLES)


@refusing_expanded
@casting
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise greatest common divisor of integers, not negative; gcd(0, 0) is 0."""
    need_tensors("gcd", input=input, other=other)
    return apply(GCD, input, other)


@refusing_expanded
@casting
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise least common multiple of integers, not negative."""
    need_tensors("lcm", input=input, other=other)
    return apply(LCM, input, other)
