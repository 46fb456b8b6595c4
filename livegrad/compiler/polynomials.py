"""The constants behind `VectorMath`: float formats and polynomial coefficients.

Coefficients are minimax fits, constant first, of the expression and interval named above them:
our own Remez exchange at 50 digits, weighted so that the relative error of the function is
level over the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """What exp and log need to know of a float format."""

    integer: str
    fraction_bits: int
    bias: int
    smallest_normal: float
    ln2_high: float
    ln2_low: float
    exp_low: float  # e**x rounds to 0 from here down
    exp_high: float  # and to infinity from here up
    expm1_low: float  # e**x - 1 rounds to -1 from here down
    exp_tail: tuple[float, ...]  # (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2
    root_half_bits: int  # the bits of sqrt(1/2), where the mantissa's range is cut


FLOAT = Format(
    integer="i32",
    fraction_bits=23,
    bias=127,
    smallest_normal=2.0**-126,
    ln2_high=0.693147182464599609375,
    ln2_low=math.log(2) - 0.693147182464599609375,
    exp_low=-104.0,
    exp_high=89.0,
    expm1_low=-18.0,
    exp_tail=(
        0.5,
        0.16666541993618011,
        0.04166628047823906,
        0.008366643451154232,
        0.0013946546241641045,
    ),
    root_half_bits=0x3F3504F3,
)

DOUBLE = Format(
    integer="i64",
    fraction_bits=52,
    bias=1023,
    smallest_normal=2.0**-1022,
    ln2_high=0.6931471805599453,
    ln2_low=2.3190468138462996e-17,
    exp_low=-746.0,
    exp_high=710.0,
    expm1_low=-40.0,
    exp_tail=(
        0.5,
        0.16666666666666677,
        0.0416666666666667,
        0.008333333333321532,
        0.0013888888888866748,
        0.0001984126988639894,
        2.480158736072897e-05,
        2.755724391404075e-06,
        2.7557242611070253e-07,
        2.510914651723695e-08,
        2.0924490337559142e-09,
    ),
    root_half_bits=0x3FE6A09E667F3BCD,
)

# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) <= 1 + f <= sqrt(2), float
LOG_FLOAT = (
    0.33333316445350647,
    -0.25000810623168945,
    0.20002295076847076,
    -0.1662449985742569,
    0.14180965721607208,
    -0.1312909722328186,
    0.12883445620536804,
    -0.07860904932022095,
)
# 2 * (atanh(s) / s - 1) / z with z = s**2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1), double
LOG_DOUBLE = (
    0.6666666666666735,
    0.39999999999407493,
    0.28571428744140154,
    0.22222198378629365,
    0.1818357515669581,
    0.1531375600199877,
    0.14799063532479986,
)
# erf(x) / x - 1 in z = x**2 for |x| <= 1, float
ERF_SMALL = (
    1.1283791670955126 - 1.0,
    -0.3761262595653534,
    0.11283600330352783,
    -0.026854444295167923,
    0.005189535208046436,
    -0.0008020841632969677,
    7.889122207416221e-05,
)
# log2(erfc(x)) for 1 <= x <= 4, float
ERF_LARGE = (
    -0.0005103924195282161,
    -1.6259747743606567,
    -0.9207655787467957,
    -0.14865103363990784,
    0.03145820274949074,
    -0.004240902606397867,
    0.00026772127603180707,
)
# erfc(x) * exp(x**2) * (1 + 2 * x) in u = (x - 4) / (x + 4) for 0 <= x <= 10.5, double
ERFC = (
    1.232995118768943,
    -0.13962111874617483,
    0.01537962505738128,
    0.06809715773556688,
    -0.10103817737700874,
    0.09373171060482502,
    -0.06634125080800643,
    0.0371662978973035,
    -0.016142589625319094,
    0.005087733011360759,
    -0.0008425381161385759,
    -0.00037109064174650823,
    8.050210217994167e-05,
)
# (sin(r) / r - 1) / z and (cos(r) - 1 + z / 2) / z**2 with z = r**2, for |r| <= pi / 4
SIN_FLOAT = (-0.16666655242443085, 0.008332177996635437, -0.00019517235341481864)
COS_FLOAT = (0.04166664555668831, -0.0013887366512790322, 2.4438379114144482e-05)
SIN_DOUBLE = (
    -0.1666666666663159,
    0.008333333325270953,
    -0.00019841263822360452,
    2.7555357598461837e-06,
    -2.4761639388646448e-08,
)
COS_DOUBLE = (
    0.04166666662279407,
    -0.001388888375041027,
    2.4799519202231485e-05,
    -2.721017008732075e-07,
)
# (atan(q) / q - 1) / z with z = q**2 for 0 <= q <= 1, to float's precision
ATAN = (
    -0.3333333223514636,
    0.1999993219236148,
    -0.14284250801324264,
    0.11095202015497699,
    -0.08988790310924405,
    0.07269379774959683,
    -0.05470441342917296,
    0.03470458041548856,
    -0.016471406376075914,
    0.0049992982368976206,
    -0.0007113018603083413,
)
# (asin(q) / q - 1) / z with z = q**2 for 0 <= q <= 1/2, to float's precision
ASIN = (
    0.16666666669708444,
    0.07499999523802947,
    0.044643113327610076,
    0.03037521348057136,
    0.02247155305853965,
    0.016475955161076195,
    0.018637912628733634,
    -0.0028753112684926493,
    0.03197536186149374,
)


def format_of(element: str) -> Format:
    """The constants of `float` or `double`."""
    assert element in ("float", "double"), f"no elementary functions on {element}"
    return FLOAT if element == "float" else DOUBLE
