"""Elementary functions on vectors of float and double, inlined into the kernel.

    exp, expm1, log, log1p, tanh, sigmoid   polynomials, in the value's own precision
    float erf, sin, cos                     polynomials, in float (sin, cos reduce in double)
    the other float functions               polynomials in double lanes, rounded once at the end
    the other double functions              one libm call per lane

Every function is right for zeros of both signs, denormals, infinities and NaN. The bounds in
the docstrings are in units in the last place (ULP), held by `tests/compiler/test_vectormath.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar, cast

from livegrad.compiler import polynomials as P
from livegrad.compiler.control import ControlFlow
from livegrad.compiler.values import Value, lanes_of

_HALF_PI = 1.5707963267948966
_HALF_PI_LOW = 6.123233995736766e-17
_LARGEST_REDUCED = 1e9  # beyond it, two doubles of pi are too few

Rule = TypeVar("Rule", bound=Callable[..., Value])


def in_double(rule: Rule) -> Rule:
    """A function of doubles, for floats too: these are widened, and the result is rounded once."""

    @wraps(rule)
    def function(self: VectorMath, *xs: Value) -> Value:
        if xs[0].element == "double":
            return rule(self, *xs)
        return self._to_float(rule(self, *[self.fpext(x, "double") for x in xs]))

    return cast(Rule, function)


def or_libm(rule: Rule) -> Rule:
    """A function whose doubles are left to the C library; floats are computed by `rule`."""

    @wraps(rule)
    def function(self: VectorMath, *xs: Value) -> Value:
        return self.libm(rule.__name__, *xs) if xs[0].element == "double" else rule(self, *xs)

    return cast(Rule, function)


def only_float(rule: Rule) -> Rule:
    """A function whose doubles are left to the C library; floats are widened for `rule`."""
    return or_libm(in_double(rule))


class VectorMath(ControlFlow):
    """Elementary functions; `x` is a float or double, vector or scalar, and so is the result."""

    __slots__ = ()

    # ---- exponentials --------------------------------------------------------------------

    def exp(self, x: Value) -> Value:
        """e**x; float 1.1 ULP, double 1.1 ULP."""
        f = P.format_of(x.element)
        x = self._clamp(x, f.exp_low, f.exp_high)
        rest, power = self._reduce_exp(x)
        return self._scale(self.fadd(1.0, self._exp_rest(rest)), power)

    @or_libm
    def exp2(self, x: Value) -> Value:
        """2**x; float 1.2 ULP, double as libm."""
        x = self._clamp(x, -151.0, 129.0)
        whole, power = self._nearest(x)
        rest = self.fmul(self.fsub(x, whole), math.log(2))
        return self._scale(self.fadd(1.0, self._exp_rest(rest)), power)

    def expm1(self, x: Value) -> Value:
        """e**x - 1 without cancellation; float 1.8 ULP, double 1.8 ULP."""
        f = P.format_of(x.element)
        tiny = self.fcmp("olt", self.fabs(x), 2.0 ** (-f.fraction_bits - 2))
        rest, power = self._reduce_exp(self._clamp(x, f.expm1_low, f.exp_high))
        # Half the result first: the full power of two overflows before the result does.
        half = self._power_of_two(self.sub(power, 1))
        result = self.fma(half, self._exp_rest(rest), self.fsub(half, 0.5))
        return self.select(tiny, x, self.fadd(result, result))

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + e**-x), also for very negative x; float 2.4 ULP, double 2.4 ULP."""
        # Of -|x|, so that nothing overflows and a small result keeps its digits.
        small = self.exp(self.fneg(self.fabs(x)))
        top = self.select(self.fcmp("olt", x, 0.0), small, 1.0)
        return self.fdiv(top, self.fadd(small, 1.0))

    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent; float 3 ULP, double 3 ULP."""
        # E / (E + 2) with E = e**2|x| - 1 keeps the relative accuracy of small x.
        size = self._clamp_above(self.fabs(x), 20.0)
        rest, power = self._reduce_exp(self.fadd(size, size))
        scale = self._power_of_two(power)
        growth = self.fma(scale, self._exp_rest(rest), self.fsub(scale, 1.0))
        return self.copysign(self.fdiv(growth, self.fadd(growth, 2.0)), x)

    @only_float
    def sinh(self, x: Value) -> Value:
        """Hyperbolic sine; float 0.51 ULP, double as libm."""
        growth = self.expm1(self._clamp_above(self.fabs(x), 100.0))
        twice = self.fadd(growth, self.fdiv(growth, self.fadd(growth, 1.0)))
        return self.copysign(self.fmul(twice, 0.5), x)

    @only_float
    def cosh(self, x: Value) -> Value:
        """Hyperbolic cosine; float 0.51 ULP, double as libm."""
        growth = self.exp(self._clamp_above(self.fabs(x), 100.0))
        return self.fmul(self.fadd(growth, self.fdiv(1.0, growth)), 0.5)

    def _reduce_exp(self, x: Value) -> tuple[Value, Value]:
        """`rest` and integer `power` with x = rest + power * ln 2, |rest| <= ln(2) / 2."""
        f = P.format_of(x.element)
        whole, power = self._nearest(self.fmul(x, 1 / math.log(2)))
        rest = self.fma(whole, -f.ln2_high, x)
        return self.fma(whole, -f.ln2_low, rest), power

    def _exp_rest(self, r: Value) -> Value:
        """e**r - 1 for |r| <= ln(2) / 2."""
        return self.fma(self.fmul(r, r), self._poly(r, P.format_of(r.element).exp_tail), r)

    def _nearest(self, x: Value) -> tuple[Value, Value]:
        """The integer nearest to `x`, as a float and as an integer; any |x| < 2**21."""
        # Adding 1.5 * 2**bits leaves the integer in the low bits: cheaper than a conversion
        # and, unlike it, defined for NaN (whose lanes turn NaN elsewhere).
        f = P.format_of(x.element)
        magic = 1.5 * 2.0**f.fraction_bits
        shifted = self.fadd(x, magic)
        magic_bits = ((f.bias + f.fraction_bits) << f.fraction_bits) + (1 << (f.fraction_bits - 1))
        whole = self.sub(self.bitcast(shifted, f.integer), magic_bits)
        return self.fsub(shifted, magic), whole

    def _power_of_two(self, power: Value) -> Value:
        """2**power as the float of the integer's width, for normal results only."""
        element = "float" if power.element == "i32" else "double"
        f = P.format_of(element)
        bits = self.shl(self.add(power, f.bias), f.fraction_bits)
        return self.bitcast(bits, element)

    def _scale(self, x: Value, power: Value) -> Value:
        """`x * 2**power`, in two steps since the power itself may overflow or be denormal."""
        half = self.ashr(power, 1)
        first = self.fmul(x, self._power_of_two(half))
        return self.fmul(first, self._power_of_two(self.sub(power, half)))

    # ---- logarithms ----------------------------------------------------------------------

    def log(self, x: Value) -> Value:
        """Natural logarithm; float 1 ULP, double 1 ULP."""
        return self._log_edges(x, x, self._log_finite(*self._split(x)))

    @only_float
    def log2(self, x: Value) -> Value:
        """Logarithm to base 2; float 0.51 ULP, double as libm."""
        return self.fmul(self.log(x), 1 / math.log(2))

    @only_float
    def log10(self, x: Value) -> Value:
        """Logarithm to base 10; float 0.51 ULP, double as libm."""
        return self.fmul(self.log(x), 1 / math.log(10))

    @in_double
    def log1p(self, x: Value) -> Value:
        """log(1 + x) without cancellation; float 0.51 ULP, double 1 ULP."""
        sum = self.fadd(x, 1.0)
        # What the sum lost, exactly (Knuth's two-sum).
        part = self.fsub(sum, 1.0)
        lost = self.fadd(self.fsub(1.0, self.fsub(sum, part)), self.fsub(x, part))
        excess, power = self._split(sum)
        small = self.fcmp("oeq", power, 0.0)
        correction = self.select(small, 0.0, self.fdiv(lost, sum))
        result = self._log_finite(self.select(small, x, excess), power, correction)
        # Copied for the sign of -0; elsewhere the signs agree but where the result is NaN.
        return self._log_edges(x, sum, self.copysign(result, x))

    def _split(self, x: Value) -> tuple[Value, Value]:
        """`f` and `e` with x = (1 + f) * 2**e and sqrt(1/2) <= 1 + f < sqrt(2), for x > 0."""
        f = P.format_of(x.element)
        denormal = self.fcmp("olt", x, f.smallest_normal)
        grown = self.fmul(x, 2.0**f.fraction_bits)
        bits = self.bitcast(self.select(denormal, grown, x), f.integer)
        power = self.ashr(self.sub(bits, f.root_half_bits), f.fraction_bits)
        mantissa = self.bitcast(self.sub(bits, self.shl(power, f.fraction_bits)), x.element)
        shift = self.select(denormal, self.const(x.type, f.fraction_bits), 0.0)
        return self.fsub(mantissa, 1.0), self.fsub(self.sitofp(power, x.element), shift)

    def _log_finite(self, f: Value, power: Value, extra: Value | None = None) -> Value:
        """log((1 + f) * 2**power) + extra for the ranges of `_split`."""
        format = P.format_of(f.element)
        low = self.fmul(power, format.ln2_low)
        if extra is not None:
            low = self.fadd(low, extra)
        square = self.fmul(f, f)
        if f.element == "float":
            curve = self.fma(f, self._poly(f, P.LOG_FLOAT), -0.5)
            return self.fma(power, format.ln2_high, self.fadd(f, self.fma(square, curve, low)))
        # log(1 + f) = 2 atanh(s) = f - f**2/2 + s * (f**2/2 + the series beyond 2s)
        s = self.fdiv(f, self.fadd(f, 2.0))
        z = self.fmul(s, s)
        half = self.fmul(square, 0.5)
        tail = self.fma(s, self.fma(z, self._poly(z, P.LOG_DOUBLE), half), low)
        return self.fma(power, format.ln2_high, self.fsub(f, self.fsub(half, tail)))

    def _log_edges(self, x: Value, argument: Value, result: Value) -> Value:
        """The logarithm of `argument` where it is 0, negative, infinite or NaN."""
        result = self.select(self.fcmp("olt", argument, math.inf), result, x)
        result = self.select(self.fcmp("oeq", argument, 0.0), -math.inf, result)
        return self.select(self.fcmp("olt", argument, 0.0), math.nan, result)

    @only_float
    def asinh(self, x: Value) -> Value:
        """Inverse hyperbolic sine; float 0.51 ULP, double as libm."""
        a = self.fabs(x)
        root = self.sqrt(self.fma(a, a, 1.0))
        grown = self.fma(a, self.fdiv(a, self.fadd(root, 1.0)), a)
        result = self.copysign(self.log1p(grown), x)
        return self.select(self.fcmp("oeq", a, math.inf), x, result)

    @only_float
    def acosh(self, x: Value) -> Value:
        """Inverse hyperbolic cosine, NaN below 1; float 0.51 ULP, double as libm."""
        t = self.fsub(x, 1.0)
        root = self.sqrt(self.fmul(t, self.fadd(t, 2.0)))
        return self.select(self.fcmp("olt", x, 1.0), math.nan, self.log1p(self.fadd(t, root)))

    @only_float
    def atanh(self, x: Value) -> Value:
        """Inverse hyperbolic tangent; float 0.51 ULP, double as libm."""
        a = self.fabs(x)
        ratio = self.fdiv(self.fadd(a, a), self.fsub(1.0, a))
        return self.copysign(self.fmul(self.log1p(ratio), 0.5), x)

    @only_float
    def pow(self, x: Value, y: Value) -> Value:
        """x**y with C's edge cases; float 0.51 ULP, double as libm."""
        size = self.fabs(x)
        result = self.exp(self.fmul(y, self.log(size)))
        # 1**inf is 0 * inf inside the exponential.
        unit = self.and_(self.fcmp("oeq", size, 1.0), self.fcmp("ord", y, y))
        result = self.select(unit, 1.0, result)
        half = self.fmul(y, 0.5)
        whole = self.fcmp("oeq", self.trunc(y), y)
        odd = self.and_(whole, self.fcmp("une", self.trunc(half), half))
        result = self.select(odd, self.copysign(result, x), result)
        finite_negative = self.and_(self.fcmp("olt", x, 0.0), self.fcmp("ogt", x, -math.inf))
        fraction = self.and_(finite_negative, self.not_(whole))
        result = self.select(fraction, math.nan, result)
        one = self.or_(self.fcmp("oeq", x, 1.0), self.fcmp("oeq", y, 0.0))
        return self.select(one, 1.0, result)

    # ---- the error function --------------------------------------------------------------

    @or_libm
    def erf(self, x: Value) -> Value:
        """The error function; float 1.5 ULP, double as libm."""
        small = self.fma(x, self._poly(self.fmul(x, x), P.ERF_SMALL), x)
        size = self._clamp_above(self.fabs(x), 4.0)
        exponent = self._poly(size, P.ERF_LARGE)
        whole, power = self._nearest(exponent)
        rest = self._exp_rest(self.fmul(self.fsub(exponent, whole), math.log(2)))
        scale = self._power_of_two(power)
        large = self.fsub(self.fsub(1.0, scale), self.fmul(scale, rest))
        return self.select(self.fcmp("olt", size, 1.0), small, self.copysign(large, x))

    @only_float
    def erfc(self, x: Value) -> Value:
        """1 - erf(x) without cancellation; float 0.51 ULP, double as libm."""
        a = self._clamp_above(self.fabs(x), 10.5)
        u = self.fdiv(self.fsub(a, 4.0), self.fadd(a, 4.0))
        shape = self.fdiv(self._poly(u, P.ERFC), self.fma(a, 2.0, 1.0))
        tail = self.fmul(self.exp(self.fneg(self.fmul(a, a))), shape)
        negative = self.fcmp("olt", x, 0.0)
        return self.select(negative, self.fsub(2.0, tail), tail)

    # ---- angles --------------------------------------------------------------------------

    @or_libm
    def sin(self, x: Value) -> Value:
        """Sine; float 1.6 ULP, double as libm."""
        return self._sine("sin", x, 0)

    @or_libm
    def cos(self, x: Value) -> Value:
        """Cosine; float 1.6 ULP, double as libm."""
        return self._sine("cos", x, 1)

    @or_libm
    def tan(self, x: Value) -> Value:
        """Tangent; float 0.51 ULP, double as libm."""
        rest, quadrant = self._reduce_angle(x)
        sine, cosine = self._sin_cos(rest, P.SIN_DOUBLE, P.COS_DOUBLE)
        even = self.icmp("eq", self.and_(quadrant, 1), 0)
        top = self.select(even, sine, self.fneg(cosine))
        result = self._to_float(self.fdiv(top, self.select(even, cosine, sine)))
        return self._huge_angles("tan", x, result)

    def _sine(self, name: str, x: Value, quarter_turns: int) -> Value:
        rest, quadrant = self._reduce_angle(x)
        sine, cosine = self._sin_cos(self._to_float(rest), P.SIN_FLOAT, P.COS_FLOAT)
        turn = self.add(self.trunc_int(quadrant, "i32"), quarter_turns)
        odd = self.icmp("ne", self.and_(turn, 1), 0)
        value = self.bitcast(self.select(odd, cosine, sine), "i32")
        # The second bit of the turn is the sign.
        sign = self.shl(self.and_(turn, 2), 30)
        return self._huge_angles(name, x, self.bitcast(self.xor(value, sign), "float"))

    def _reduce_angle(self, x: Value) -> tuple[Value, Value]:
        """The double `rest` and integer `quadrant` with x = rest + quadrant * pi / 2."""
        wide = self.fpext(x, "double")
        whole, quadrant = self._nearest(self.fmul(wide, 1 / _HALF_PI))
        rest = self.fma(whole, -_HALF_PI, wide)
        return self.fma(whole, -_HALF_PI_LOW, rest), quadrant

    def _sin_cos(
        self, r: Value, sine: Sequence[float], cosine: Sequence[float]
    ) -> tuple[Value, Value]:
        """Both functions of |r| <= pi / 4."""
        z = self.fmul(r, r)
        cube = self.fmul(z, r)
        # The sum turns -0 into +0.
        sin = self.copysign(self.fma(cube, self._poly(z, sine), r), r)
        cos = self.fma(z, self.fma(z, self._poly(z, cosine), -0.5), 1.0)
        return sin, cos

    def _huge_angles(self, name: str, x: Value, result: Value) -> Value:
        huge = self.fcmp("ogt", self.fabs(x), _LARGEST_REDUCED)
        return self.where_rare(huge, lambda: self.libm(name, x), result)

    @only_float
    def asin(self, x: Value) -> Value:
        """Inverse sine, NaN outside [-1, 1]; float 0.51 ULP, double as libm."""
        angle, outer = self._asin_parts(self.fabs(x))
        angle = self.select(outer, self.fsub(_HALF_PI, self.fmul(angle, 2.0)), angle)
        return self.copysign(angle, x)

    @only_float
    def acos(self, x: Value) -> Value:
        """Inverse cosine, NaN outside [-1, 1]; float 0.51 ULP, double as libm."""
        angle, outer = self._asin_parts(self.fabs(x))
        twice = self.fmul(angle, 2.0)
        negative = self.fcmp("olt", x, 0.0)
        far = self.select(negative, self.fsub(2 * _HALF_PI, twice), twice)
        return self.select(outer, far, self.fsub(_HALF_PI, self.copysign(angle, x)))

    def _asin_parts(self, a: Value) -> tuple[Value, Value]:
        """asin(a) up to 1/2; beyond, marked by the mask, (pi / 2 - asin(a)) / 2."""
        outer = self.fcmp("ogt", a, 0.5)
        square = self.fmul(self.fsub(1.0, a), 0.5)
        z = self.select(outer, square, self.fmul(a, a))
        q = self.select(outer, self.sqrt(square), a)
        return self.fma(self.fmul(z, q), self._poly(z, P.ASIN), q), outer

    @only_float
    def atan(self, x: Value) -> Value:
        """Inverse tangent; float 0.51 ULP, double as libm."""
        a = self.fabs(x)
        steep = self.fcmp("ogt", a, 1.0)
        angle = self._atan_unit(self.select(steep, self.fdiv(1.0, a), a))
        return self.copysign(self.select(steep, self.fsub(_HALF_PI, angle), angle), x)

    @only_float
    def atan2(self, y: Value, x: Value) -> Value:
        """The angle of the point (x, y); float 0.51 ULP, double as libm."""
        a, b = self.fabs(y), self.fabs(x)
        steep = self.fcmp("ogt", a, b)
        ratio = self.fdiv(self.select(steep, b, a), self.select(steep, a, b))
        # 0 / 0 is the angle 0, and inf / inf the diagonal; other equal sizes are too.
        equal = self.fcmp("oeq", a, b)
        diagonal = self.select(self.fcmp("oeq", a, 0.0), self.const(a.type, 0.0), 1.0)
        angle = self._atan_unit(self.select(equal, diagonal, ratio))
        angle = self.select(steep, self.fsub(_HALF_PI, angle), angle)
        # By the sign bit, for atan2(0, -0) is pi.
        left = self.icmp("slt", self.bitcast(x, "i64"), 0)
        angle = self.select(left, self.fsub(2 * _HALF_PI, angle), angle)
        return self.copysign(angle, y)

    def _atan_unit(self, q: Value) -> Value:
        """atan(q) for 0 <= q <= 1, to float's precision."""
        z = self.fmul(q, q)
        return self.fma(self.fmul(z, q), self._poly(z, P.ATAN), q)

    # ---- shared --------------------------------------------------------------------------

    def libm(self, name: str, *xs: Value) -> Value:
        """The C library's function, lane by lane (its name for float gains an `f`)."""
        first = xs[0]
        symbol = name if first.element == "double" else f"{name}f"
        if first.type == first.element:
            return self.call(first.type, symbol, xs, pure=True)
        result = self.poison(first.type)
        for lane in range(lanes_of(first.type)):
            args = [self.extract(x, lane) for x in xs]
            result = self.insert(result, self.call(first.element, symbol, args, pure=True), lane)
        return result

    def _poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial with these coefficients, constant first (Horner's rule)."""
        result = self.const(x.type, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.const(x.type, coefficient))
        return result

    def _clamp_above(self, x: Value, high: float) -> Value:
        """The lesser of `x` and `high`; NaN stays."""
        return self.select(self.fcmp("ogt", x, high), high, x)

    def _clamp(self, x: Value, low: float, high: float) -> Value:
        x = self._clamp_above(x, high)
        return self.select(self.fcmp("olt", x, low), low, x)

    def _to_float(self, x: Value) -> Value:
        return self.fptrunc(x, "float")
