"""`out=`: the functions of a namespace can write their result into a tensor they are given.

Ops know nothing of it. `install` puts a wrapper around each function that has `out=` in PyTorch:

    add(input, other, *, alpha)  ──►  add(input, other, *, alpha, out=None)

Operators stay as they are, and a wrapper has the very parameters of its function, so that a call
without `out` costs little more than the function itself. Wrappers also know NumPy's names of
arguments (`ops/support/numpy_names.py`); those of methods know only these.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import update_wrapper
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import TYPE_CHECKING, Any

from livegrad.dtypes import FLOAT
from livegrad.graph.handle import Handle, node_of, path_of
from livegrad.graph.record import unary
from livegrad.graph.site import is_inside
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.writes import rebind
from livegrad.native import hot
from livegrad.ops.elementwise.arithmetic import CLONE, cast, clone
from livegrad.ops.support.numpy_names import FUNCTIONS, METHODS, has_other_names, understand
from livegrad.ops.support.public import as_given, note, strangers

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Function = Callable[..., Any]

# By namespace, the functions whose result is cast to the dtype of `out`, as PyTorch's are that
# work element by element.
CASTING = {
    "": """
        acos acosh add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh arctan arctan2
        arctanh asin asinh atan atan2 atanh bernoulli bitwise_and bitwise_left_shift bitwise_or
        bitwise_right_shift bitwise_xor cholesky cholesky_inverse cholesky_solve clamp clamp_max
        clamp_min clip copysign cos cosh deg2rad
        digamma div divide eq erf erfc erfinv exp exp2 expm1 floor_divide fmax fmin fmod gcd
        ge geqrf ger greater greater_equal gt hypot i0 igamma igammac kron lcm ldexp le lerp
        less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
        logical_or logical_xor logit logsumexp lt lu matrix_power maximum mean minimum mul multiply
        mvlgamma nanmean ne nextafter not_equal orgqr outer polygamma pow rad2deg
        reciprocal remainder rsqrt sigmoid sin sinc sinh sqrt square std sub
        subtract tan tanh true_divide var xlogy
    """,
    "fft": """
        fft fft2 fftn hfft hfft2 hfftn ifft2 ifftn ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2
        rfftn
    """,
    "linalg": """
        cond eig eigvals householder_product lstsq matrix_power matrix_rank pinv tensorinv
        tensorsolve
    """,
    "nn.functional": "normalize",
    "special": """
        airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t
        chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc
        erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln hermite_polynomial_h
        hermite_polynomial_he i0 i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log1p
        log_ndtr logit logsumexp modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
        modified_bessel_k1 multigammaln ndtr ndtri polygamma psi scaled_modified_bessel_k0
        scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
        shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w sinc spherical_bessel_j0
        xlog1py xlogy zeta
    """,
}
# The functions whose `out` must have the dtype of the result.
EXACT = {
    "": """
        _chunk_cat _native_batch_norm_legit
        abs absolute addbmm addmm addmv alias_copy all amax amin aminmax any argmax argmin argsort
        as_strided_copy baddbmm bitwise_not bmm bucketize ceil complex conj_physical cross cummax
        cummin diag diagonal_copy diff dot expand_copy fix float_power floor frac frexp gather
        hardshrink heaviside histc histogram index_add index_copy index_reduce index_select inner
        inverse isin isneginf isposinf kthvalue log_softmax logcumsumexp lu_solve lu_unpack
        masked_select matmul max median min mm mode msort multinomial mv nan_to_num nanmedian
        nanquantile narrow_copy native_batch_norm neg negative nonzero nonzero_static norm normal
        ormqr permute_copy polar qr quantile renorm round scatter scatter_add scatter_reduce
        searchsorted select_copy sgn sign signbit slice_copy slice_scatter slogdet softmax sort
        split_copy split_with_sizes_copy squeeze_copy svd t_copy take take_along_dim tensordot
        threshold topk transpose_copy triangular_solve tril triu trunc unbind_copy unfold_copy
        unsqueeze_copy vdot view_as_complex_copy view_as_real_copy view_copy where
    """,
    "fft": "ifft ihfft",
    "linalg": """
        cholesky cholesky_ex cross det eigh eigvalsh inv inv_ex ldl_factor ldl_factor_ex ldl_solve
        lu lu_factor lu_factor_ex lu_solve matmul matrix_norm multi_dot norm qr slogdet solve
        solve_ex solve_triangular svd svdvals vecdot vector_norm
    """,
    # Not linear, where every microsecond counts.
    "nn.functional": "avg_pool2d avg_pool3d gelu hardshrink logsigmoid softplus softshrink",
    "special": "round",
}
# The functions that cast to the dtype of `out`, and refuse one that does not hold the result's
# values with another class of error.
JOINING = {"": "cat column_stack concat concatenate dstack hstack row_stack stack vstack"}
# The functions that compute in the dtype of `out`, unless they are given another.
FOLDING = {"": "cumprod cumsum nansum prod sum"}
# The functions that make a tensor: without a `dtype` they take that of `out`.
CREATING = {
    "": "arange empty eye full linspace logspace ones rand randint randn randperm range zeros",
    "fft": "fftfreq rfftfreq",
}


def install(namespace: dict[str, Any], name: str = "") -> None:
    """Gives the functions in `namespace` (a module's globals) that have it in PyTorch an `out`.

    `name` is what follows "livegrad." in the name of the module.
    """
    made: dict[Any, Any] = {}  # two names of one function stay one function
    for table, wrap in KINDS:
        for each in table.get(name, "").split():
            function = namespace.get(each)
            if not isinstance(function, FunctionType) or takes_out(function):
                continue
            if function not in made:
                made[function] = wrap(function)
                made[function].__module__ = namespace["__name__"]  # where pickle finds it
                made[function].__name__ = made[function].__qualname__ = each
                note(function, made[function])
            namespace[each] = made[function]
    for each in FUNCTIONS.split() if not name else ():
        function = namespace[each]
        namespace[each] = accepts_names(function)
        namespace[each].__module__ = namespace["__name__"]
        note(function, namespace[each])


def install_methods(methods: type) -> None:
    """Lets methods take NumPy's names of arguments."""
    for each in METHODS.split():
        method = accepts_names(getattr(methods, each))
        method.__module__ = methods.__module__
        method.__qualname__ = f"{methods.__qualname__}.{each}"
        setattr(methods, each, method)


def takes_out(function: FunctionType) -> bool:
    """Whether a function has an `out` of its own."""
    code = function.__code__
    return "out" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


# ------------------------------------------------------------------------------------- wrappers


def accepts_out(function: Any, store: Function | None, as_out: bool = False) -> Any:
    """`function` with one more keyword, `out`; if given, `store(result, out)` is the result.

    With `as_out`, its `dtype` is that of `out` then, unless one is given.

    The wrapper gets its code when it is first called: to compile hundreds of them would make
    `import livegrad` slow.
    """
    own: dict[str, Any] = {
        "settle": _settle,
        "store": store,
        "as_out": as_out,
        "dtype_of": _dtype_of,
        "plainly": _plainly,
        "as_given": as_given,
        "strangers": strangers,
    }
    wrapper: Any = update_wrapper(FunctionType(_first_call.__code__, own), function)
    own["wrapper"] = own["public"] = wrapper
    wrapper.__kwdefaults__ = {"out": None} if store is not None else None
    return wrapper


def accepts_names(function: Any) -> Any:
    """`function` with NumPy's names of its arguments, and no `out`."""
    return accepts_out(function, None)


def _first_call(*args: Any, **kwargs: Any) -> Any:
    # What stands here are the globals of a wrapper, made by `accepts_out`.
    settle(wrapper)  # type: ignore[name-defined]  # noqa: F821
    return wrapper(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def _settle(wrapper: Any) -> None:
    """Gives a wrapper the parameters of its function, and the code to go with them.

    It is compiled from text, because `*args, **kwargs` would cost every call twice as much.
    """
    own, function = wrapper.__globals__, wrapper.__wrapped__
    described = _undecorated(function)
    code = described.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    positional, keywords = (
        code.co_varnames[: code.co_argcount],
        code.co_varnames[code.co_argcount : count],
    )
    out = ["out"] if own["store"] is not None else []
    starred = ["*", *keywords, *out] if keywords or out else []
    parameters = [*positional, *starred]
    arguments = [*positional, *[f"{k}={k}" for k in keywords]]
    if code.co_flags & CO_VARARGS:
        parameters[len(positional)] = "*args"
        arguments.insert(len(positional), "*args")
    if code.co_flags & CO_VARKEYWORDS:
        parameters.append("**kwargs")
        arguments.append("**kwargs")
    recorder = _recorder_of(function)
    own["function"], own["op"] = recorder or (function, None)
    hot.NAMESPACES.append(own)
    if recorder is not None:
        arguments.insert(0, "op")
    source = _STORING if out else _PASSING
    defaults = described.__defaults__ or ()
    if has_other_names(described):
        renaming, defaults = understand(described, own)
        source = renaming + source
        parameters.append("**names")
    scope: dict[str, Any] = {}
    source = _HEAD + source + _TAIL
    source = source.format(
        parameters=", ".join(parameters),
        arguments=", ".join(arguments),
        settling=_AS_OUT if own["as_out"] else "",
    )
    exec(compile(source, __file__, "exec"), scope)  # the file, so that it is livegrad's own
    wrapper.__code__ = scope["with_out"].__code__
    wrapper.__defaults__ = defaults
    wrapper.__kwdefaults__ = {**(described.__kwdefaults__ or {}), **dict.fromkeys(out)}


def _undecorated(function: Any) -> Any:
    """The function that has the parameters, if a decorator only passes them on."""
    code = function.__code__
    own = code.co_argcount + code.co_kwonlyargcount
    if own or not code.co_flags & CO_VARARGS or not code.co_flags & CO_VARKEYWORDS:
        return function
    return getattr(function, "__wrapped__", function)


_HEAD = """
def with_out({parameters}):
"""
_STORING = """
    try:
        if out is None:
            return function({arguments})
        {settling}
        return store(plainly(function, {arguments}), out)
"""
_AS_OUT = "if dtype is None: dtype = dtype_of(out)"
_PASSING = """
    try:
        return function({arguments})
"""
# Costs nothing unless the call has failed.
_TAIL = """
    except Exception:
        given = locals()
        call = as_given(public, given)
        if not strangers(given.values()):
            raise
    return public(*call[0], **call[1])
"""


def _plainly(function: Function, *args: Any, **kwargs: Any) -> Any:
    """A result of the dtype it has outside of autocast, as PyTorch's with `out` are."""
    with setting(caster=None):
        return function(*args, **kwargs)


def _recorder_of(function: Any) -> tuple[Any, Any] | None:
    """(record, OP) of a function that is just `return record(OP, *its arguments)`.

    Its wrapper records by itself, so that no call is added to those that cost least.
    """
    code = function.__code__
    plain = _PLAIN.get(code.co_argcount)
    if plain is None or code.co_code != plain.co_code or len(code.co_consts) != 1:
        return None
    record, op = code.co_names
    return function.__globals__[record], function.__globals__[op]


# The code of such functions, by how many arguments they have.
_PLAIN = {
    1: (lambda x: unary(CLONE, x)).__code__,
    2: (lambda x, y: unary(CLONE, x, y)).__code__,  # type: ignore[call-arg]
}


def casting(function: Any) -> Any:
    """`function` with an `out` of any dtype that holds the result's values."""
    return accepts_out(function, lambda result, out: store(result, out, exact=False))


def joining(function: Any) -> Any:
    """`function` with an `out` of any dtype that holds the result's values, or a TypeError."""
    return accepts_out(function, lambda result, out: store(result, out, False, TypeError))


def folding(function: Any) -> Any:
    """`function` with an `out` in whose dtype it computes."""
    return accepts_out(function, lambda result, out: store(result, out, exact=False), as_out=True)


def exact(function: Any) -> Any:
    """`function` with an `out` of the result's dtype."""
    return accepts_out(function, lambda result, out: store(result, out, exact=True))


def creating(function: Any) -> Any:
    """`function`, which makes a tensor, with an `out` that gives the dtype if `dtype` does not."""

    def with_out(*args: Any, out: Any = None, **options: Any) -> Any:
        if out is None:
            return function(*args, **options)
        if options.get("dtype") is None:
            options["dtype"] = _dtype_of(out)
        return store(function(*args, **options), out, exact=True)

    return update_wrapper(with_out, function)


KINDS = (
    (CASTING, casting),
    (JOINING, joining),
    (FOLDING, folding),
    (EXACT, exact),
    (CREATING, creating),
)


# -------------------------------------------------------------------------------------- storing


def store(result: Any, out: Any, exact: bool, refusal: type[Exception] = RuntimeError) -> Any:
    """Writes `result`, a tensor or a tuple of them, into `out` and returns `out`."""
    if isinstance(result, Handle):
        return _put(result, _checked(out), exact, refusal)
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise TypeError(
            f"out: got {_described(out)}; expected a tuple of {len(result)} tensors, one for each "
            "result"
        )
    stored = [store(value, room, exact, refusal) for value, room in zip(result, out, strict=True)]
    named = hasattr(result, "_fields")
    return type(result)(*stored) if named else tuple(stored)


def _checked(out: Any) -> Tensor:
    if not isinstance(out, Handle):
        raise TypeError(f"out: argument 'out' must be Tensor, not {type(out).__name__}")
    return out


def _dtype_of(out: Any) -> Any:
    return node_of(_checked(out)).meta.dtype


def _described(out: Any) -> str:
    return f"{len(out)} of them" if isinstance(out, tuple | list) else type(out).__name__


def _put(value: Tensor, out: Tensor, exact: bool, refusal: type[Exception]) -> Tensor:
    made, room = node_of(value), node_of(out)
    flows = made.grad_to is not None or room.grad_to is not None
    # A result that has no gradient, such as that of a comparison, leaves the history alone.
    differentiable = made.meta.dtype.category >= FLOAT or made.op.grads is not None
    if flows and LOCAL.state.grad and differentiable:
        raise RuntimeError(
            "out: functions with out=... arguments don't support automatic differentiation, but "
            "one of the arguments requires grad. Leave out= out, or use livegrad.no_grad()"
        )
    dtype = room.meta.dtype
    if exact and made.meta.dtype is not dtype:
        raise RuntimeError(
            f"out: Expected out tensor to have dtype {made.meta.dtype.name}, but got {dtype.name} "
            "instead"
        )
    if made.meta.dtype.category > dtype.category:
        raise refusal(
            f"out: result type {made.meta.dtype.name} can't be cast to the desired output type "
            f"{dtype.name}"
        )
    # A value of its own: a result may be, or be a view of, one of the arguments.
    value = clone(cast(value, dtype))
    if made.meta.shape == room.meta.shape:
        return _unrecorded(out, value)
    return _resized(out, value)


def _unrecorded(out: Tensor, value: Tensor) -> Tensor:
    """A write that leaves `out` the leaf, or the place in the graph, that it is."""
    with setting(grad=False):
        return rebind(out, value)


def _levels_to_user() -> int:
    """How many frames above its caller the user's line is, for a warning to name it."""
    frame: Any = sys._getframe(1)
    levels = 1
    while frame.f_back is not None and is_inside(frame.f_code.co_filename):
        frame, levels = frame.f_back, levels + 1
    return levels


def _resized(out: Tensor, value: Tensor) -> Tensor:
    """`out` with another shape; PyTorch warns that it should have been empty."""
    meta, wanted = node_of(out).meta, node_of(value).meta
    if meta.numel:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(meta.shape)}, which does not match the required output shape "
            f"{list(wanted.shape)}. Give an empty tensor, or one of that shape",
            stacklevel=_levels_to_user(),
        )
    if path_of(out):
        raise RuntimeError(
            f"out: got a view of shape {list(meta.shape)}, which cannot be resized to "
            f"{list(wanted.shape)}. Give a tensor of that shape"
        )
    # Views of the tensor keep what they saw.
    out._share = None
    out._node = value._node
    handles = LOCAL.state.handles
    if handles and handles[-1] is value:
        handles[-1] = out
    return out
