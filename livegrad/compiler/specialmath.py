"""Special functions on vectors of float and double: the gamma and error functions' relatives.

All are polynomials in double lanes; a float is widened first and its result rounded once. Parts
that few arguments need (far tails, reflections at 0) run only when a lane needs them. Bounds are in
units in the last place (ULP), held by `tests/compiler/test_specialmath.py`; float results are
within 0.51 ULP but next to the roots of lgamma and digamma below 0, where they are within 1e-14.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from livegrad.compiler import polynomials as P
from livegrad.compiler.values import Operand, Value, with_element
from livegrad.compiler.vectormath import VectorMath, in_double, only_float

_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
# The series of log-gamma, digamma and trigamma at infinity in 1 / y**2: Bernoulli's numbers
# B(2k), divided by 2k * (2k - 1), by -2k, and by 1.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:5], 1))
_DIGAMMA_TAIL = tuple(-b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))


class SpecialMath(VectorMath):
    """Special functions; `x` is a float or double, vector or scalar, and so is the result."""

    __slots__ = ()

    # ---- gamma ---------------------------------------------------------------------------

    @only_float
    def lgamma(self, x: Value) -> Value:
        """log |gamma(x)|, infinite at 0, -1, -2, …; double as libm."""
        negative = self.fcmp("olt", x, 0.0)
        a = self.select(negative, self.fsub(1.0, x), x)
        near, factor = self._lgamma_near(a)
        far, far_factor = self._lgamma_far(a)
        is_far = self.fcmp("oge", a, 2.5)
        value = self.select(is_far, far, near)
        factor = self.select(is_far, far_factor, factor)

        def reflected() -> Value:
            # gamma(x) * gamma(1 - x) = pi / sin(pi * x)
            turned = self.fdiv(self.fmul(factor, math.pi), self.fabs(self._sin_pi(x)))
            return self.fsub(self.log(turned), value)

        positive = self.fsub(value, self.log(factor))
        result = self.where_rare(negative, reflected, positive)
        infinite = self.fcmp("oeq", self.fabs(x), math.inf)
        return self.select(infinite, math.inf, result)

    def _lgamma_near(self, a: Value) -> tuple[Value, Value]:
        """`v` and `f` with lgamma(a) = v - log(f) for 0 < a < 5/2, from lgamma around 2."""
        below_half, below = self.fcmp("olt", a, 0.5), self.fcmp("olt", a, 1.5)
        t = self.fsub(a, self.select(below_half, 0.0, self._choose(below, 1.0, 2.0)))
        factor = self.select(below_half, self.fma(a, a, a), self.select(below, a, 1.0))
        return self.fmul(t, self._poly(t, P.LGAMMA)), factor

    def _lgamma_far(self, a: Value) -> tuple[Value, Value]:
        """`v` and `f` with lgamma(a) = v - log(f) for a >= 5/2: Stirling's series from 8 on."""
        low = self.fcmp("olt", a, 8.0)
        product = a
        for step in range(1, 6):
            product = self.fmul(product, self.fadd(a, float(step)))
        y = self.select(low, self.fadd(a, 6.0), a)
        inverse = self.fdiv(1.0, y)
        tail = self.fmul(self._poly(self.fmul(inverse, inverse), _STIRLING), inverse)
        main = self.fsub(self.fmul(self.fsub(y, 0.5), self.fsub(self.log(y), 1.0)), 0.5)
        value = self.fadd(self.fadd(main, _HALF_LOG_TWO_PI), tail)
        return value, self.select(low, product, 1.0)

    @in_double
    def digamma(self, x: Value) -> Value:
        """The derivative of lgamma, NaN at -1, -2, …, infinite at 0.

        Double 8 ULP for positive x; below 0 within 8 ULP of the larger of |result| and 1.
        """
        negative = self.fcmp("olt", x, 0.0)
        a = self.select(negative, self.fsub(1.0, x), x)
        is_far = self.fcmp("ogt", a, 3.0)
        result = self.select(is_far, self._digamma_far(a), self._digamma_near(a))

        def reflected() -> Value:
            rest = self._turn(x)
            slope = self.fdiv(math.pi, self.tan(self.fmul(rest, math.pi)))
            value = self.fsub(result, slope)
            return self.select(self.fcmp("oeq", rest, 0.0), math.nan, value)

        result = self.where_rare(negative, reflected, result)
        zero = self.copysign(math.inf, self.fneg(x))
        result = self.select(self.fcmp("oeq", x, 0.0), zero, result)
        return self.select(self.fcmp("oeq", x, -math.inf), math.nan, result)

    def _digamma_near(self, a: Value) -> Value:
        """digamma for 0 < a <= 3, from the interval [1, 2] around its root."""
        below, above = self.fcmp("olt", a, 1.0), self.fcmp("ogt", a, 2.0)
        step = self.select(below, 1.0, self._choose(above, -1.0, 0.0))
        inside = self.fadd(a, step)
        high, low = P.DIGAMMA_ROOT
        from_root = self.fsub(self.fsub(inside, high), low)
        value = self.fmul(from_root, self._poly(self.fsub(inside, 1.5), P.DIGAMMA))
        # digamma(a + 1) = digamma(a) + 1 / a
        neighbour = self.select(below, a, inside)
        change = self.fdiv(self.fneg(step), neighbour)
        return self.select(self.fcmp("oeq", step, 0.0), value, self.fadd(value, change))

    def _digamma_far(self, a: Value) -> Value:
        """digamma for a > 3: its series at infinity from 10 on, and the way up to there."""
        low = self.fcmp("olt", a, 10.0)
        top, bottom = self.const(a.type, 1.0), a
        for step in range(1, 7):
            term = self.fadd(a, float(step))
            top, bottom = self.fma(top, term, bottom), self.fmul(bottom, term)
        way = self.select(low, self.fdiv(top, bottom), 0.0)
        y = self.select(low, self.fadd(a, 7.0), a)
        inverse = self.fdiv(1.0, y)
        square = self.fmul(inverse, inverse)
        tail = self.fmul(square, self._poly(square, _DIGAMMA_TAIL))
        value = self.fadd(self.log(y), self.fma(inverse, -0.5, tail))
        return self.fsub(value, way)

    @in_double
    def trigamma(self, x: Value) -> Value:
        """The derivative of digamma, infinite at 0, -1, -2, …; double 4 ULP."""
        negative = self.fcmp("olt", x, 0.0)
        a = self.select(negative, self.fsub(1.0, x), x)
        low = self.fcmp("olt", a, 9.0)
        top, bottom = self.const(a.type, 0.0), self.const(a.type, 1.0)
        for step in range(1, 9):
            term = self.fadd(a, float(step))
            square = self.fmul(term, term)
            top, bottom = self.fma(top, square, bottom), self.fmul(bottom, square)
        first = self.fdiv(self.fdiv(1.0, a), a)
        way = self.select(low, self.fadd(self.fdiv(top, bottom), first), 0.0)
        y = self.select(low, self.fadd(a, 9.0), a)
        inverse = self.fdiv(1.0, y)
        square = self.fmul(inverse, inverse)
        tail = self.fmul(self.fmul(square, inverse), self._poly(square, _BERNOULLI))
        result = self.fadd(way, self.fadd(inverse, self.fma(square, 0.5, tail)))

        def reflected() -> Value:
            sine = self._sin_pi(x)
            ratio = self.fdiv(math.pi, sine)
            return self.fsub(self.fmul(ratio, ratio), result)

        return self.where_rare(negative, reflected, result)

    def _turn(self, x: Value) -> Value:
        """`x` less the nearest integer, exactly."""
        return self.fsub(x, self.rint(x))

    def _sin_pi(self, x: Value) -> Value:
        """|sin(pi * x)| with any sign, exactly 0 at integers."""
        return self.sin(self.fmul(self._turn(x), math.pi))

    # ---- error functions -----------------------------------------------------------------

    @in_double
    def erfcx(self, x: Value) -> Value:
        """exp(x**2) * erfc(x); double 8 ULP."""
        a = self.fabs(x)
        result = self._erfcx_positive(a)

        def below() -> Value:
            growth = self._exp_of_square(a, 1.0)
            value = self.fsub(self.fadd(growth, growth), result)
            return self.select(self.fcmp("ogt", a, 26.63), math.inf, value)

        return self.where_rare(self.fcmp("olt", x, 0.0), below, result)

    def _erfcx_positive(self, a: Value) -> Value:
        """erfcx of a >= 0."""
        finite = self._clamp_above(a, 1e300)
        u = self.fdiv(self.fsub(finite, 4.0), self.fadd(finite, 4.0))
        result = self.fdiv(self._poly(u, P.ERFCX), self.fma(finite, 2.0, 1.0))
        return self.select(self.fcmp("oeq", a, math.inf), 0.0, result)

    def _exp_of_square(self, x: Value, factor: float) -> Value:
        """exp(factor * x**2), `factor` a power of two, with the rounding of the square undone."""
        square = self.fmul(x, x)
        lost = self.fma(x, x, self.fneg(square))
        value = self.exp(self.fmul(square, factor))
        return self.fma(value, self.fmul(lost, factor), value)

    @in_double
    def ndtr(self, x: Value) -> Value:
        """The area below `x` under the standard normal curve; double 6 ULP."""
        tail = self._normal_tail(x)
        return self.select(self.fcmp("olt", x, 0.0), tail, self.fsub(1.0, tail))

    def _normal_tail(self, x: Value) -> Value:
        """The area beyond |x| on one side."""
        a = self.fabs(x)
        bell = self._exp_of_square(self._clamp_above(a, 40.0), -0.5)
        return self.fmul(self.fmul(self._erfcx_positive(self.fmul(a, _ROOT_HALF)), 0.5), bell)

    @in_double
    def log_ndtr(self, x: Value) -> Value:
        """log(ndtr(x)), also where ndtr(x) is too small for a float; double 6 ULP."""
        scaled = self._erfcx_positive(self.fmul(self.fabs(x), _ROOT_HALF))
        low = self.fsub(self.log(self.fmul(scaled, 0.5)), self.fmul(self.fmul(x, x), 0.5))
        high = self.log1p(self.fneg(self._normal_tail(x)))
        return self.select(self.fcmp("olt", x, 0.0), low, high)

    @in_double
    def erfinv(self, x: Value) -> Value:
        """The inverse of erf: infinite at -1 and 1, NaN beyond; double 3 ULP."""
        a = self.fabs(x)
        tail = self._erfc_inverse(self.fsub(1.0, a), far_below=False)
        return self.copysign(self._erfinv_from(a, tail), x)

    @in_double
    def ndtri(self, x: Value) -> Value:
        """The inverse of ndtr: infinite at 0 and 1, NaN outside; double 4 ULP."""
        signed = self.fsub(self.fadd(x, x), 1.0)
        upper = self.fcmp("ogt", x, 0.5)
        q = self.fmul(self.select(upper, self.fsub(1.0, x), x), 2.0)
        value = self._erfinv_from(self.fabs(signed), self._erfc_inverse(q, far_below=True))
        return self.copysign(self.fmul(value, math.sqrt(2)), signed)

    def _erfinv_from(self, a: Value, tail: Value) -> Value:
        """erfinv of a >= 0, given erfinv for a > 3/4."""
        t = self.fma(self.fmul(a, a), 32 / 9, -1.0)
        near = self.fmul(a, self._poly(t, P.ERFINV))
        return self.select(self.fcmp("ole", a, 0.75), near, tail)

    def _erfc_inverse(self, q: Value, far_below: bool) -> Value:
        """erfc's inverse of 0 <= q <= 1/4; `far_below`: also for q < 2**-53."""
        s = self.sqrt(self.fneg(self.log(q)))
        inverse = self.fdiv(1.0, s)

        def piece(scale: tuple[float, float], coefficients: Sequence[float]) -> Value:
            t = self.fma(inverse, scale[0], self.const(inverse.type, scale[1]))
            return self.fmul(s, self._poly(t, coefficients))

        result = piece(P.ERFCINV_NEAR_SCALE, P.ERFCINV_NEAR)
        result = self.where_rare(
            self.fcmp("ogt", s, 3.0), lambda: piece(P.ERFCINV_FAR_SCALE, P.ERFCINV_FAR), result
        )
        if far_below:
            result = self.where_rare(
                self.fcmp("ogt", s, 6.1),
                lambda: piece(P.ERFCINV_FARTHEST_SCALE, P.ERFCINV_FARTHEST),
                result,
            )
        return result

    # ---- Bessel functions ----------------------------------------------------------------

    @in_double
    def i0(self, x: Value) -> Value:
        """The modified Bessel function of order 0; double 4 ULP."""
        return self._modified_bessel(x, P.I0_SMALL, P.I0_LARGE, False)

    @in_double
    def i0e(self, x: Value) -> Value:
        """exp(-|x|) * i0(x); double 4 ULP."""
        return self._modified_bessel(x, P.I0_SMALL, P.I0_LARGE, True)

    @in_double
    def i1(self, x: Value) -> Value:
        """The modified Bessel function of order 1; double 4 ULP."""
        return self._odd_bessel(x, False)

    @in_double
    def i1e(self, x: Value) -> Value:
        """exp(-|x|) * i1(x); double 4 ULP."""
        return self._odd_bessel(x, True)

    def _odd_bessel(self, x: Value, scaled: bool) -> Value:
        size = self._modified_bessel(x, P.I1_SMALL, P.I1_LARGE, scaled, self.fabs(x))
        return self.copysign(size, x)

    def _modified_bessel(
        self,
        x: Value,
        small: Sequence[float],
        large: Sequence[float],
        scaled: bool,
        factor: Operand = 1.0,
    ) -> Value:
        """From `small` up to 8: function / factor in x**2; then `large`: scaled, in 16 / x - 1."""
        a = self.fabs(x)
        low = self.fmul(self._poly(self.fmul(a, a), small), factor)
        if scaled:
            low = self.fmul(low, self.exp(self.fneg(a)))
        high = self.fdiv(self._poly(self.fsub(self.fdiv(16.0, a), 1.0), large), self.sqrt(a))
        if not scaled:
            # In two steps: the function is finite a little farther than e**x is.
            root = self.exp(self.fmul(a, 0.5))
            high = self.fmul(self.fmul(high, root), root)
            high = self.select(self.fcmp("oeq", a, math.inf), math.inf, high)
        return self.select(self.fcmp("ole", a, 8.0), low, high)

    # ---- the bits of a float -------------------------------------------------------------

    def signbit(self, x: Value) -> Value:
        """A mask: whether `x` has a minus sign, as -0 has."""
        return self.icmp("slt", self.bitcast(x, P.format_of(x.element).integer), 0)

    def nextafter(self, x: Value, y: Value) -> Value:
        """The next float after `x` towards `y`; NaN if either is."""
        bits = self.bitcast(x, P.format_of(x.element).integer)
        # Floats of one sign are ordered as their bits are, by magnitude.
        upward, positive = self.fcmp("olt", x, y), self.fcmp("ogt", x, 0.0)
        grows = self.icmp("eq", upward, positive)
        one = self.const(bits.type, 1)
        moved = self.bitcast(self.add(bits, self.select(grows, one, -1)), x.element)
        smallest = self.bitcast(one, x.element)
        moved = self.select(self.fcmp("oeq", x, 0.0), self.copysign(smallest, y), moved)
        moved = self.select(self.fcmp("oeq", x, y), y, moved)
        return self.select(self.isnan(x), x, self.select(self.isnan(y), y, moved))

    def frexp(self, x: Value) -> tuple[Value, Value]:
        """Mantissa in [1/2, 1) and exponent, a float, with x = mantissa * 2**exponent.

        0, infinities and NaN are their own mantissas, with exponent 0.
        """
        f = P.format_of(x.element)
        size = self.fabs(x)
        small = self.fcmp("olt", size, f.smallest_normal)
        grown = self.fmul(size, 2.0**f.fraction_bits)
        bits = self.bitcast(self.select(small, grown, size), f.integer)
        power = self.sub(self.lshr(bits, f.fraction_bits), f.bias - 1)
        power = self.sub(power, self.select(small, self.const(bits.type, f.fraction_bits), 0))
        fraction = self.and_(bits, (1 << f.fraction_bits) - 1)
        mantissa = self.bitcast(self.or_(fraction, (f.bias - 1) << f.fraction_bits), x.element)
        ordinary = self.and_(self.fcmp("olt", size, math.inf), self.fcmp("ogt", size, 0.0))
        exponent = self.select(ordinary, self.sitofp(power, x.element), 0.0)
        return self.select(ordinary, self.copysign(mantissa, x), x), exponent

    # ---- small helpers -------------------------------------------------------------------

    def _choose(self, mask: Value, x: float, y: float) -> Value:
        """One of two numbers, as doubles."""
        type = with_element(mask.type, "double")
        return self.select(mask, self.const(type, x), self.const(type, y))
