"""Names of public functions and methods that compute each element for itself."""

from __future__ import annotations

# Each element for itself; other arguments are options.
UNARY = """
    abs absolute acos acosh alpha_dropout angle arccos arccosh arcsin arcsinh arctan arctanh asin
    asinh atan atanh bernoulli bfloat16 bitwise_not bool byte ceil celu char clip clone conj
    conj_physical contiguous cos cosh cpu deg2rad detach digamma double dropout elu empty_like erf
    erfc erfinv exp exp2 expm1 fix float floor frac full_like gelu half hardshrink hardsigmoid
    hardswish hardtanh i0 int isfinite isinf isnan isneginf isposinf isreal leaky_relu lgamma log
    log10 log1p log2 logical_not logit logsigmoid long mish nan_to_num neg negative ones_like
    positive rad2deg rand_like randint_like randn_like reciprocal relu relu6 requires_grad_ round
    rrelu rsqrt selu sgn short sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign
    sqrt square tan tanh tanhshrink threshold to to_dense trunc type type_as zeros_like
    __invert__ __neg__ __abs__ __pos__ feature_alpha_dropout data fill fill_ zero_ normal_ uniform_
    bernoulli_ random_ exponential_ cuda xpu pin_memory view_as_real
""".split()
# Of two or three operands, which are nested alike, or dense and broadcast.
BINARY = """
    add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow float_power
    maximum minimum fmax fmin atan2 arctan2 hypot copysign nextafter logaddexp logaddexp2 xlogy
    eq ne lt le gt ge equal not_equal less less_equal greater greater_equal isclose
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift heaviside where masked_fill addcmul addcdiv lerp clamp
    clamp_min clamp_max rsub prelu copy_ mse_loss smooth_l1_loss l1_loss huber_loss
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
    __rfloordiv__ __pow__ __rpow__ __mod__ __rmod__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __iadd__ __isub__ __imul__ __itruediv__ __ipow__
    __iand__ __ior__ __ixor__ __rdiv__ __lshift__ __rshift__
""".split()
