"""The methods of Tensor that are functions of `ops`: one line each, nothing generated.

x.exp() is livegrad.exp(x)        x.add_(y) is inplace(add): the handle takes the new value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self

import numpy as np

from livegrad import creation
from livegrad.graph.handle import BareHandle, Handle, node_of, path_of, wrap
from livegrad.graph.layout import may_overlap
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.overlap import AT_ALL, PARTLY, check_overlap
from livegrad.graph.record import binary
from livegrad.graph.writes import (
    next_index,
    prepare_write,
    rebind,
    wrote_plainly,
    wrote_to_own_node,
)
from livegrad.ops.bookkeeping.in_place import also_of, overwriting
from livegrad.ops.elementwise import (
    arithmetic as elementwise,
    bits_of_floats,
    comparison,
    complex_parts,
    conjugate,
    division,
    integer_math,
    pointwise_math,
    power,
    roots,
)
from livegrad.ops.layers import activation, composite
from livegrad.ops.linalg import (
    cholesky as cholesky_factors,
    determinants,
    functions as matrix_functions,
    norms,
    orthogonal,
    singular,
    solving,
    toplevel as factorisations,
    triangular,
)
from livegrad.ops.making import random as random_ops, random_fill, sampling
from livegrad.ops.making.constants import from_array
from livegrad.ops.picking import gathering, index_writing, indexing, masking, scattering
from livegrad.ops.products import contraction, distances, matmul as products
from livegrad.ops.reductions import (
    counting,
    covariance,
    differences,
    product,
    quantiles,
    reduce,
    scan,
    sorting,
    statistics,
)
from livegrad.ops.shaping import (
    arranging,
    diagonals,
    joining,
    movement,
    reshaping,
    resizing,
    slicing,
    strided,
    triangles,
    view_copies,
)
from livegrad.ops.special import bessel, error_functions, gamma, special_math
from livegrad.ops.support import reading
from livegrad.ops.support.numbers import OPERANDS
from livegrad.ops.support.public import publish_methods
from livegrad.ops.support.strangers import strangers
from livegrad.ops.transforms import spectral

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Array, Operand

P = ParamSpec("P")
# Of two operands, one of them a tensor.
Binary = Callable[[Any, Any], "Tensor"]
# `x + other`: NumPy's arrays are taken for tensors.
Operator = Callable[["Tensor", "Operand | Array"], "Tensor"]


_NUMBERS = (int, float)


# --------------------------------------------------------------------- operators, in-place forms


def operator(function: Binary) -> Operator:
    """The method of a binary operator: foreign types on the right are left to their own class."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            known = _operand(other)
            return _ask(method, self, other) if known is None else function(self, known)

    return method


def reflected(function: Binary) -> Operator:
    """The method of a binary operator whose left side is a number."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return function(other, self)
        except TypeError:
            known = _operand(other)
            return _ask(method, self, other) if known is None else function(known, self)

    return method


def recorded(op: Op) -> Operator:
    """Like `operator`, for the commonest ones: records `op` without a call in between."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return binary(op, self, other)
        except TypeError:
            known = _operand(other)
            return _ask(method, self, other) if known is None else binary(op, self, known)

    return method


def _operand(x: Any) -> Any:
    """What an operator can work with: tensors, numbers, arrays as tensors; None for the rest."""
    if isinstance(x, OPERANDS):
        return x
    return from_array(x) if isinstance(x, np.ndarray) else None


def _ask(method: Any, self: Any, other: Any) -> Any:
    """What a class that answers for functions makes of an operator; else NotImplemented."""
    if not strangers((other,)):
        return NotImplemented
    return getattr(Methods, method.__name__)(self, other)


def inplace(
    function: Callable[Concatenate[Any, P], Any],
    expanded: bool = False,
    refused: str | None = PARTLY,
) -> Callable[Concatenate[Tensor, P], Tensor]:
    """The in-place form of a function: the tensor takes the result's value.

    `expanded` says that it also writes to tensors several elements of which lie in one place;
    `refused`, which operands that overlap with the tensor it does not take.
    """

    def method(self: Tensor, /, *args: P.args, **options: P.kwargs) -> Tensor:
        node, first = node_of(self), -1
        if node.grad_to is not None:
            prepare_write(self, expanded)
            if self._node is not node:  # hooks were left behind, which as an operand it has
                args, options = _of_former(self, node, args, options)
            first = next_index()
        elif self._share is not None:
            first = next_index()
        if refused is not None and (self._share is not None or refused is AT_ALL):
            is_number = not options and len(args) == 1 and type(args[0]) in _NUMBERS
            if not is_number:
                check_overlap(self, (*args, *options.values()), refused)
        strides = node.meta.strides
        try:
            if strides is not None and may_overlap(node.meta.shape, strides):
                return _write_overlapping(self, lambda: function(self, *args, **options), expanded)
            value = function(self, *args, **options)
            if wrote_plainly(self, value) or wrote_to_own_node(self, value, first):
                return self
            return assign(self, value, expanded)
        except TypeError:
            if not strangers((*args, *options.values())):
                raise
        answer: Tensor = getattr(Methods, method.__name__)(self, *args, **options)
        return answer

    method.__name__ = f"{getattr(function, '__name__', 'method')}_"
    method.__doc__ = f"In-place form of `{getattr(function, '__name__', '')}`."
    return method


def _of_former(x: Tensor, node: Node, args: Any, options: Any) -> tuple[Any, Any]:
    """Arguments of which `x` is the value that it was before it was shown anew."""
    args = tuple([wrap(node) if a is x else a for a in args])
    return args, {name: wrap(node) if a is x else a for name, a in options.items()}


def comparing(function: Binary) -> Callable[[Tensor, Operand], Tensor]:
    """The in-place form of a comparison, which depends on its operand, with a gradient of zeros."""

    def compared(input: Tensor, other: Operand) -> Tensor:
        result = function(input, other)
        if not isinstance(other, Handle):
            return result
        dtype = node_of(input).meta.dtype
        value = elementwise.cast(result, dtype)
        if node_of(other).grad_to is not None:
            value = also_of(elementwise.cast(other, dtype), value)
        return overwriting(input, value)

    compared.__name__ = function.__name__
    return inplace(compared)


def stepping(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of a step: its gradient of zeros is, through a view, one of the whole."""

    def stepped(input: Tensor, *args: Any, **options: Any) -> Tensor:
        value = function(input, *args, **options)
        return overwriting(input, value) if path_of(input) else value

    stepped.__name__ = function.__name__
    return inplace(stepped)


def putting(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of `index_put`, which fills where a mask says so, or else takes apart."""
    fill = inplace(function, expanded=True, refused=None)
    put = inplace(function, expanded=True, refused=AT_ALL)

    def method(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
        if not accumulate and indexing.fills_a_mask(indices, values):
            indexing.check_mask(self, indices)
            return fill(self, indices, values)
        if not accumulate:
            return put(self, indices, values)
        meta = node_of(self).meta
        if meta.strides is None or not may_overlap(meta.shape, meta.strides):
            return put(self, indices, values, True)
        check_overlap(self, (indices, values), AT_ALL)
        added = function(creation.zeros_like(self), indices, values, True)
        return strided.add_to_places(self, added)

    method.__name__, method.__doc__ = put.__name__, put.__doc__
    return method


def filling(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place form of `masked_fill`, whose mask must not lie partly in what is written."""
    fill = inplace(function, expanded=True, refused=None)

    def method(self: Tensor, mask: Tensor, value: Any) -> Tensor:
        node_of(self)  # a TypeError for what is no tensor
        if self._share is not None:
            check_overlap(self, (mask,))
        return fill(self, mask, value)

    method.__name__, method.__doc__ = fill.__name__, fill.__doc__
    return method


def _write_overlapping(x: Tensor, compute: Callable[[], Tensor], expanded: bool) -> Tensor:
    """Writes to a tensor several elements of which may lie in one place."""
    if not expanded:
        return strided.element_by_element(x, compute)
    return strided.write_changed(x, elementwise.fitted(compute(), node_of(x).meta))


def assign(x: Tensor, value: Tensor, expanded: bool = False) -> Tensor:
    """In-place write of a value that must have the shape of `x` and is cast to its dtype."""
    meta, new = node_of(x).meta, node_of(value).meta
    if new is not meta:
        value = elementwise.fitted(value, meta)
    return x if value is x else rebind(x, value, expanded)


class Methods(BareHandle):
    """What a Tensor can do that a function of `ops` does."""

    __slots__ = ()

    # ---- operators -----------------------------------------------------------------------

    __add__ = recorded(elementwise.ADD)
    __radd__ = __add__
    __sub__ = recorded(elementwise.SUB)
    __rsub__ = reflected(elementwise.sub)
    __mul__ = recorded(elementwise.MUL)
    __rmul__ = __mul__
    __truediv__ = recorded(elementwise.DIV)
    __rtruediv__ = reflected(roots.number_over)
    __rdiv__ = __rtruediv__
    __floordiv__ = operator(division.floor_divide)
    __rfloordiv__ = reflected(division.floor_divide)
    __mod__ = operator(division.remainder)
    __rmod__ = reflected(division.remainder)
    __pow__ = operator(power.pow)
    __rpow__ = reflected(power.pow)
    __matmul__ = operator(products.matmul)
    __rmatmul__ = reflected(products.matmul)
    __and__ = operator(comparison.bitwise_and)
    __rand__ = __and__
    __or__ = operator(comparison.bitwise_or)
    __ror__ = __or__
    __xor__ = operator(comparison.bitwise_xor)
    __rxor__ = __xor__
    __lshift__ = operator(comparison.bitwise_left_shift)
    __rlshift__ = reflected(comparison.bitwise_left_shift)
    __rshift__ = operator(comparison.bitwise_right_shift)
    __rrshift__ = reflected(comparison.bitwise_right_shift)
    # Not a bool, as that of every object.
    __eq__ = operator(comparison.eq)  # type: ignore[assignment]
    __ne__ = operator(comparison.ne)  # type: ignore[assignment]
    __lt__ = operator(comparison.lt)
    __le__ = operator(comparison.le)
    __gt__ = operator(comparison.gt)
    __ge__ = operator(comparison.ge)
    __neg__ = elementwise.neg
    __abs__ = elementwise.abs
    __invert__ = comparison.invert

    def __pos__(self) -> Self:
        return self

    __iadd__ = inplace(elementwise.add)
    __isub__ = inplace(elementwise.sub)
    __imul__ = inplace(elementwise.mul)
    __itruediv__ = inplace(elementwise.div)
    __ifloordiv__ = inplace(division.floor_divide)
    __imod__ = inplace(division.remainder)
    __ipow__ = inplace(power.pow)
    __iand__ = inplace(comparison.bitwise_and)
    __ior__ = inplace(comparison.bitwise_or)
    __ixor__ = inplace(comparison.bitwise_xor)
    __ilshift__ = inplace(comparison.bitwise_left_shift)
    __irshift__ = inplace(comparison.bitwise_right_shift)

    # ---- elementwise -------------------------------------------------------------------

    abs = elementwise.abs
    absolute = elementwise.abs
    neg = elementwise.neg
    negative = elementwise.neg
    sign = elementwise.sign
    sgn = elementwise.sgn
    angle = complex_parts.angle
    conj = conjugate.conj_view
    conj_physical = complex_parts.conj_physical
    is_conj = complex_parts.is_conj
    resolve_conj = complex_parts.resolve_conj
    resolve_neg = complex_parts.resolve_neg
    adjoint = complex_parts.adjoint
    stft = spectral.stft
    istft = spectral.istft
    isreal = complex_parts.isreal
    reciprocal = roots.reciprocal
    exp = pointwise_math.exp
    exp2 = pointwise_math.exp2
    expm1 = pointwise_math.expm1
    log = pointwise_math.log
    log2 = pointwise_math.log2
    log10 = pointwise_math.log10
    log1p = pointwise_math.log1p
    sqrt = roots.sqrt
    rsqrt = roots.rsqrt
    square = roots.square
    sin = pointwise_math.sin
    cos = pointwise_math.cos
    tan = pointwise_math.tan
    asin = pointwise_math.asin
    acos = pointwise_math.acos
    atan = pointwise_math.atan
    arcsin = pointwise_math.asin
    arccos = pointwise_math.acos
    arctan = pointwise_math.atan
    sinh = pointwise_math.sinh
    cosh = pointwise_math.cosh
    tanh = pointwise_math.tanh
    asinh = pointwise_math.asinh
    acosh = pointwise_math.acosh
    atanh = pointwise_math.atanh
    arcsinh = pointwise_math.asinh
    arccosh = pointwise_math.acosh
    arctanh = pointwise_math.atanh
    erf = pointwise_math.erf
    erfc = pointwise_math.erfc
    sigmoid = pointwise_math.sigmoid
    floor = pointwise_math.floor
    ceil = pointwise_math.ceil
    trunc = pointwise_math.trunc
    fix = pointwise_math.trunc
    round = pointwise_math.round
    frac = pointwise_math.frac
    hardshrink = activation.hardshrink
    prelu = activation.prelu
    relu = activation.relu
    logical_not = comparison.logical_not
    bitwise_not = comparison.bitwise_not
    add = elementwise.add
    sub = elementwise.sub
    subtract = elementwise.sub
    mul = elementwise.mul
    multiply = elementwise.mul
    div = division.divide
    divide = division.divide
    true_divide = elementwise.true_divide
    floor_divide = division.floor_divide
    remainder = division.remainder
    fmod = division.fmod
    pow = power.pow
    atan2 = pointwise_math.atan2
    arctan2 = pointwise_math.atan2
    hypot = pointwise_math.hypot
    lerp = elementwise.lerp
    clamp = comparison.clamp
    clip = comparison.clamp
    clamp_min = comparison.clamp_min
    clamp_max = comparison.clamp_max
    addcmul = elementwise.addcmul
    addcdiv = elementwise.addcdiv
    eq = comparison.eq
    ne = comparison.ne
    lt = comparison.lt
    le = comparison.le
    gt = comparison.gt
    ge = comparison.ge
    not_equal = comparison.ne
    less = comparison.lt
    less_equal = comparison.le
    greater = comparison.gt
    greater_equal = comparison.ge
    logical_and = comparison.logical_and
    logical_or = comparison.logical_or
    logical_xor = comparison.logical_xor
    bitwise_and = comparison.bitwise_and
    bitwise_or = comparison.bitwise_or
    bitwise_xor = comparison.bitwise_xor
    bitwise_left_shift = comparison.bitwise_left_shift
    bitwise_right_shift = comparison.bitwise_right_shift
    positive = elementwise.positive
    maximum = comparison.maximum
    minimum = comparison.minimum
    fmax = comparison.fmax
    fmin = comparison.fmin
    logaddexp = pointwise_math.logaddexp
    isnan = comparison.isnan
    isinf = comparison.isinf
    isfinite = comparison.isfinite
    isclose = comparison.isclose

    # ---- special functions ---------------------------------------------------------------

    i0 = bessel.i0
    copysign = bits_of_floats.copysign
    frexp = bits_of_floats.frexp
    isneginf = bits_of_floats.isneginf
    isposinf = bits_of_floats.isposinf
    ldexp = bits_of_floats.ldexp
    nan_to_num = bits_of_floats.nan_to_num
    nextafter = bits_of_floats.nextafter
    signbit = bits_of_floats.signbit
    erfinv = error_functions.erfinv
    digamma = gamma.digamma
    igamma = gamma.igamma
    igammac = gamma.igammac
    lgamma = gamma.lgamma
    mvlgamma = gamma.mvlgamma
    polygamma = gamma.polygamma_of
    gcd = integer_math.gcd
    lcm = integer_math.lcm
    deg2rad = special_math.deg2rad
    float_power = special_math.float_power
    heaviside = special_math.heaviside
    logaddexp2 = special_math.logaddexp2
    logit = special_math.logit
    rad2deg = special_math.rad2deg
    sinc = special_math.sinc
    xlogy = special_math.xlogy
    i0_ = inplace(bessel.i0)
    copysign_ = inplace(bits_of_floats.copysign)
    ldexp_ = inplace(bits_of_floats.ldexp, refused=None)
    nan_to_num_ = inplace(bits_of_floats.nan_to_num)
    nextafter_ = inplace(bits_of_floats.nextafter)
    erfinv_ = inplace(error_functions.erfinv)
    digamma_ = inplace(gamma.digamma)
    igamma_ = inplace(gamma.igamma)
    igammac_ = inplace(gamma.igammac)
    lgamma_ = inplace(gamma.lgamma)
    mvlgamma_ = inplace(gamma.mvlgamma)
    polygamma_ = inplace(gamma.polygamma_of)
    gcd_ = inplace(integer_math.gcd)
    lcm_ = inplace(integer_math.lcm)
    deg2rad_ = inplace(special_math.deg2rad)
    float_power_ = inplace(special_math.float_power_in_place)
    heaviside_ = inplace(special_math.heaviside)
    logit_ = inplace(special_math.logit)
    rad2deg_ = inplace(special_math.rad2deg)
    sinc_ = inplace(special_math.sinc)
    xlogy_ = inplace(special_math.xlogy)

    # ---- elementwise, in place ---------------------------------------------------------

    abs_ = inplace(elementwise.abs)
    absolute_ = inplace(elementwise.abs)
    neg_ = inplace(elementwise.neg)
    negative_ = inplace(elementwise.neg)
    sign_ = stepping(elementwise.sign)
    sgn_ = stepping(elementwise.sgn)
    conj_physical_ = inplace(complex_parts.conj_physical)
    reciprocal_ = inplace(roots.reciprocal)
    exp_ = inplace(pointwise_math.exp)
    exp2_ = inplace(pointwise_math.exp2)
    expm1_ = inplace(pointwise_math.expm1)
    log_ = inplace(pointwise_math.log)
    log2_ = inplace(pointwise_math.log2)
    log10_ = inplace(pointwise_math.log10)
    log1p_ = inplace(pointwise_math.log1p)
    sqrt_ = inplace(roots.sqrt)
    rsqrt_ = inplace(roots.rsqrt)
    square_ = inplace(roots.square)
    sin_ = inplace(pointwise_math.sin)
    cos_ = inplace(pointwise_math.cos)
    tan_ = inplace(pointwise_math.tan)
    asin_ = inplace(pointwise_math.asin)
    acos_ = inplace(pointwise_math.acos)
    atan_ = inplace(pointwise_math.atan)
    arcsin_ = inplace(pointwise_math.asin)
    arccos_ = inplace(pointwise_math.acos)
    arctan_ = inplace(pointwise_math.atan)
    sinh_ = inplace(pointwise_math.sinh)
    cosh_ = inplace(pointwise_math.cosh)
    tanh_ = inplace(pointwise_math.tanh)
    asinh_ = inplace(pointwise_math.asinh)
    acosh_ = inplace(pointwise_math.acosh)
    atanh_ = inplace(pointwise_math.atanh)
    arcsinh_ = inplace(pointwise_math.asinh)
    arccosh_ = inplace(pointwise_math.acosh)
    arctanh_ = inplace(pointwise_math.atanh)
    erf_ = inplace(pointwise_math.erf)
    erfc_ = inplace(pointwise_math.erfc)
    sigmoid_ = inplace(pointwise_math.sigmoid)
    floor_ = stepping(pointwise_math.floor)
    ceil_ = stepping(pointwise_math.ceil)
    trunc_ = stepping(pointwise_math.trunc)
    fix_ = stepping(pointwise_math.trunc)
    round_ = stepping(pointwise_math.round)
    frac_ = inplace(pointwise_math.frac)
    relu_ = inplace(activation.relu)
    logical_not_ = inplace(comparison.logical_not)
    bitwise_not_ = inplace(comparison.bitwise_not)
    add_ = inplace(elementwise.add)
    sub_ = inplace(elementwise.sub)
    subtract_ = inplace(elementwise.sub)
    mul_ = inplace(elementwise.mul)
    multiply_ = inplace(elementwise.mul)
    div_ = inplace(division.divide)
    divide_ = inplace(division.divide)
    true_divide_ = inplace(elementwise.true_divide)
    floor_divide_ = inplace(division.floor_divide)
    remainder_ = inplace(division.remainder)
    fmod_ = inplace(division.fmod)
    pow_ = inplace(power.pow)
    atan2_ = inplace(pointwise_math.atan2)
    arctan2_ = inplace(pointwise_math.atan2)
    hypot_ = inplace(pointwise_math.hypot)
    lerp_ = inplace(elementwise.lerp)
    clamp_ = inplace(comparison.clamp)
    clip_ = inplace(comparison.clamp)
    clamp_min_ = inplace(comparison.clamp_min)
    clamp_max_ = inplace(comparison.clamp_max)
    addcmul_ = inplace(elementwise.addcmul)
    addcdiv_ = inplace(elementwise.addcdiv)
    eq_ = comparing(comparison.eq)
    ne_ = comparing(comparison.ne)
    lt_ = comparing(comparison.lt)
    le_ = comparing(comparison.le)
    gt_ = comparing(comparison.gt)
    ge_ = comparing(comparison.ge)
    not_equal_ = comparing(comparison.ne)
    less_ = comparing(comparison.lt)
    less_equal_ = comparing(comparison.le)
    greater_ = comparing(comparison.gt)
    greater_equal_ = comparing(comparison.ge)
    logical_and_ = inplace(comparison.logical_and)
    logical_or_ = inplace(comparison.logical_or)
    logical_xor_ = inplace(comparison.logical_xor)
    bitwise_and_ = inplace(comparison.bitwise_and)
    bitwise_or_ = inplace(comparison.bitwise_or)
    bitwise_xor_ = inplace(comparison.bitwise_xor)
    bitwise_left_shift_ = inplace(comparison.bitwise_left_shift)
    bitwise_right_shift_ = inplace(comparison.bitwise_right_shift)

    # ---- reductions --------------------------------------------------------------------

    sum = reduce.sum
    mean = reduce.mean
    prod = product.prod
    max = reduce.max
    min = reduce.min
    amax = reduce.amax
    amin = reduce.amin
    argmax = reduce.argmax
    argmin = reduce.argmin
    any = reduce.any
    all = reduce.all
    count_nonzero = reduce.count_nonzero
    var = statistics.var
    std = statistics.std
    var_mean = statistics.var_mean
    std_mean = statistics.std_mean
    nansum = statistics.nansum
    nanmean = statistics.nanmean
    aminmax = statistics.aminmax
    sum_to_size = statistics.sum_to_size
    logsumexp = statistics.logsumexp
    norm = norms.old_norm
    softmax = composite.softmax
    log_softmax = composite.log_softmax

    # ---- scans -------------------------------------------------------------------------

    cumsum = scan.cumsum
    cumsum_ = inplace(scan.in_own_dtype(scan.cumsum))
    cumprod = scan.cumprod
    cumprod_ = inplace(scan.in_own_dtype(scan.cumprod))
    cummax = scan.cummax
    cummin = scan.cummin
    logcumsumexp = scan.logcumsumexp
    diff = differences.diff

    # ---- counting, searching -----------------------------------------------------------

    bincount = counting.bincount
    histc = counting.histc
    histogram = counting.histogram
    unique = counting.unique
    unique_consecutive = counting.unique_consecutive
    cov = covariance.cov
    corrcoef = covariance.corrcoef
    cross = matrix_functions.cross_of_threes
    dist = distances.dist
    renorm = distances.renorm
    renorm_ = inplace(distances.renorm)

    # ---- movement ----------------------------------------------------------------------

    detach = movement.detach
    clone = elementwise.clone
    reshape = movement.reshape
    view = reshaping.view
    view_as = reshaping.view_as
    reshape_as = reshaping.reshape_as
    flatten = reshaping.flatten
    unflatten = reshaping.unflatten
    ravel = reshaping.ravel
    permute = movement.permute
    transpose = movement.transpose
    t = movement.t
    swapaxes = movement.swapaxes
    swapdims = movement.swapdims
    movedim = movement.movedim
    moveaxis = movement.moveaxis
    squeeze = movement.squeeze
    unsqueeze = movement.unsqueeze
    expand = movement.expand
    expand_as = movement.expand_as
    broadcast_to = movement.broadcast_to
    flip = slicing.flip
    fliplr = slicing.fliplr
    flipud = slicing.flipud
    rot90 = slicing.rot90

    def split(self: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Views of runs along `dim`: of one size, or of the sizes listed."""
        return slicing.split(self, split_size, dim)

    split_with_sizes = slicing.split_with_sizes
    chunk = slicing.chunk
    unbind = slicing.unbind
    tensor_split = slicing.tensor_split
    narrow = slicing.narrow
    select = slicing.select
    diagonal = diagonals.diagonal
    hsplit = slicing.hsplit
    vsplit = slicing.vsplit
    dsplit = slicing.dsplit
    unsafe_chunk = slicing.unsafe_chunk
    unsafe_split = slicing.unsafe_split
    unsafe_split_with_sizes = slicing.unsafe_split_with_sizes
    as_strided = strided.as_strided
    as_strided_scatter = strided.as_strided_scatter
    select_scatter = view_copies.select_scatter
    slice_scatter = view_copies.slice_scatter
    diagonal_scatter = view_copies.diagonal_scatter
    narrow_copy = view_copies.narrow_copy
    squeeze_ = resizing.inplace_view(movement.squeeze)
    unsqueeze_ = resizing.inplace_view(movement.unsqueeze)
    transpose_ = resizing.inplace_view(movement.transpose)
    t_ = resizing.inplace_view(movement.t)
    swapaxes_ = resizing.inplace_view(movement.swapaxes)
    swapdims_ = resizing.inplace_view(movement.swapdims)
    as_strided_ = resizing.inplace_view(strided.as_strided)
    resize_ = resizing.resize_
    set_ = resizing.set_
    resize_as_ = resizing.resize_as_
    repeat = joining.repeat
    tile = joining.tile
    roll = joining.roll
    tril = triangles.tril
    triu = triangles.triu

    # ---- indexing ----------------------------------------------------------------------

    __getitem__ = indexing.getitem
    __setitem__ = indexing.setitem
    gather = gathering.gather
    scatter = scattering.scatter
    scatter_add = scattering.scatter_add
    scatter_reduce = scattering.scatter_reduce
    index_select = gathering.index_select
    index_add = index_writing.index_add
    index_copy = index_writing.index_copy
    index_fill = index_writing.index_fill
    index_reduce = index_writing.index_reduce
    put = index_writing.put
    index_put = indexing.index_put
    masked_fill = masking.masked_fill
    masked_select = masking.masked_select
    masked_scatter = masking.masked_scatter
    take = gathering.take
    take_along_dim = gathering.take_along_dim
    nonzero = masking.nonzero
    nonzero_static = masking.nonzero_static
    allclose = reading.allclose
    equal = reading.equal
    argwhere = masking.argwhere
    sort = sorting.sort
    argsort = sorting.argsort
    topk = sorting.topk
    msort = sorting.msort
    kthvalue = quantiles.kthvalue
    median = quantiles.median
    nanmedian = quantiles.nanmedian
    mode = quantiles.mode
    quantile = quantiles.quantile
    nanquantile = quantiles.nanquantile
    diag = arranging.diag
    diag_embed = arranging.diag_embed
    diagflat = arranging.diagflat
    fill_diagonal_ = arranging.fill_diagonal_
    new_empty_strided = creation.new_empty_strided
    trace = arranging.trace
    unfold = strided.unfold
    repeat_interleave = arranging.repeat_interleave
    scatter_ = inplace(scattering.scatter, refused=AT_ALL)
    scatter_add_ = inplace(scattering.scatter_add, refused=AT_ALL)
    scatter_reduce_ = inplace(scattering.scatter_reduce, refused=AT_ALL)
    index_add_ = inplace(index_writing.index_add, refused=AT_ALL)
    index_copy_ = inplace(index_writing.index_copy, refused=AT_ALL)
    index_fill_ = inplace(index_writing.index_fill, expanded=True, refused=None)
    index_reduce_ = inplace(index_writing.index_reduce, refused=AT_ALL)
    put_ = inplace(index_writing.put, refused=AT_ALL)
    index_put_ = putting(indexing.index_put)
    masked_fill_ = filling(masking.masked_fill)
    masked_scatter_ = inplace(masking.masked_scatter, refused=None)
    tril_ = inplace(triangles.tril, expanded=True)
    triu_ = inplace(triangles.triu, expanded=True)

    # ---- linear algebra ----------------------------------------------------------------

    cholesky = factorisations.cholesky
    cholesky_inverse = cholesky_factors.cholesky_inverse
    cholesky_solve = cholesky_factors.cholesky_solve
    det = determinants.det
    geqrf = orthogonal.geqrf
    inverse = solving.inv
    logdet = determinants.logdet
    lu = factorisations.lu
    lu_solve = factorisations.lu_solve
    matrix_exp = matrix_functions.matrix_exp
    matrix_power = matrix_functions.matrix_power
    ormqr = orthogonal.ormqr
    pinverse = singular.pinverse
    qr = factorisations.qr
    slogdet = determinants.slogdet
    svd = factorisations.svd
    triangular_solve = triangular.triangular_solve

    # ---- matrix products ---------------------------------------------------------------

    matmul = products.matmul
    mm = products.mm
    bmm = products.bmm
    mv = products.mv
    dot = products.dot
    inner = products.inner
    outer = products.outer
    ger = products.ger
    vdot = products.vdot
    kron = contraction.kron
    addmm = products.addmm
    addmv = products.addmv
    addr = products.addr
    baddbmm = products.baddbmm
    addbmm = products.addbmm
    addmm_ = inplace(products.addmm, refused=None)
    addmv_ = inplace(products.addmv, refused=None)
    addr_ = inplace(products.addr)
    baddbmm_ = inplace(products.baddbmm, refused=None)
    addbmm_ = inplace(products.addbmm, refused=None)

    # ---- random ------------------------------------------------------------------------

    bernoulli = random_ops.bernoulli
    multinomial = sampling.multinomial
    bernoulli_ = random_fill.bernoulli_
    cauchy_ = random_fill.cauchy_
    exponential_ = random_fill.exponential_
    geometric_ = random_fill.geometric_
    log_normal_ = random_fill.log_normal_
    normal_ = random_fill.normal_
    random_ = random_fill.random_
    uniform_ = random_fill.uniform_


for _name, _method in vars(Methods).items():
    if getattr(_method, "__name__", "") == "method":  # of an operator
        _method.__name__ = _name
publish_methods(Methods, "Tensor", "livegrad.tensor")
