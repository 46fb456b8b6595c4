"""livegrad: a deep-learning framework whose graph is dynamic and whose speed is static."""

from __future__ import annotations

from typing import Any

from livegrad import creation
from livegrad.__about__ import __version__
from livegrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from livegrad.creation import (
    arange,
    as_tensor,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    linspace,
    logspace,
    meshgrid,
    ones,
    ones_like,
    scalar_tensor,
    zeros,
    zeros_like,
)
from livegrad.device import Device
from livegrad.dtypes import (
    DType,
    bfloat16,
    bool_,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
)
from livegrad.graph.meta import Size
from livegrad.ops.activation import (
    hardshrink,
    prelu,
    relu,
    threshold,
)
from livegrad.ops.arranging import (
    diag,
    diag_embed,
    repeat_interleave,
    trace,
)
from livegrad.ops.comparison import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    clamp,
    clamp_max,
    clamp_min,
    clip,
    eq,
    fmax,
    fmin,
    ge,
    greater,
    greater_equal,
    gt,
    isclose,
    isfinite,
    isinf,
    isnan,
    le,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    ne,
    not_equal,
)
from livegrad.ops.composite import (
    cosine_similarity,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)
from livegrad.ops.elementwise import (
    abs,
    absolute,
    add,
    addcdiv,
    addcmul,
    clone,
    div,
    divide,
    floor_divide,
    fmod,
    lerp,
    mul,
    multiply,
    neg,
    negative,
    positive,
    remainder,
    sgn,
    sign,
    sub,
    subtract,
    true_divide,
)
from livegrad.ops.gathering import (
    gather,
    index_add,
    index_copy,
    index_fill,
    index_select,
    scatter,
    scatter_add,
    take,
    take_along_dim,
)
from livegrad.ops.indexing import (
    argwhere,
    index_put,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero,
    where,
)
from livegrad.ops.joining import (
    cat,
    column_stack,
    concat,
    concatenate,
    hstack,
    roll,
    stack,
    tile,
    tril,
    triu,
    vstack,
)
from livegrad.ops.matmul import (
    addbmm,
    addmm,
    addmv,
    addr,
    baddbmm,
    bmm,
    chain_matmul,
    dot,
    ger,
    inner,
    matmul,
    mm,
    mv,
    outer,
)
from livegrad.ops.movement import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    broadcast_to,
    flatten,
    moveaxis,
    movedim,
    permute,
    ravel,
    reshape,
    squeeze,
    swapaxes,
    swapdims,
    t,
    transpose,
    unflatten,
    unsqueeze,
)
from livegrad.ops.pointwise_math import (
    acos,
    acosh,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    fix,
    floor,
    frac,
    hypot,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    round,
    sigmoid,
    sin,
    sinh,
    tan,
    tanh,
    trunc,
)
from livegrad.ops.power import (
    pow,
    reciprocal,
    rsqrt,
    sqrt,
    square,
)
from livegrad.ops.random import (
    bernoulli,
    dropout,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from livegrad.ops.reading import allclose, equal, is_floating_point, is_tensor, numel
from livegrad.ops.reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    prod,
    sum,
)
from livegrad.ops.slicing import (
    chunk,
    diagonal,
    flip,
    fliplr,
    flipud,
    narrow,
    rot90,
    select,
    split,
    split_with_sizes,
    tensor_split,
    unbind,
)
from livegrad.ops.smooth_activation import (
    celu,
    selu,
)
from livegrad.ops.sorting import (
    argsort,
    sort,
    topk,
)
from livegrad.ops.statistics import (
    logsumexp,
    norm,
    std,
    std_mean,
    var,
    var_mean,
)
from livegrad.printing import get_printoptions, set_printoptions
from livegrad.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from livegrad.runtime import explain, get_num_threads, set_num_threads, stats
from livegrad.tensor import Tensor

tensor = creation.tensor  # the function, not the submodule of that name
device, dtype, bool = Device, DType, bool_
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64

__all__ = [
    "__version__", "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul",
    "addmm", "addmv", "addr", "all", "allclose", "amax", "amin", "any", "arange", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "argwhere", "as_tensor", "asarray", "asin", "asinh", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "baddbmm", "bernoulli", "bfloat16", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bmm", "bool", "broadcast_tensors", "broadcast_to", "cat", "ceil", "celu", "chain_matmul",
    "chunk", "clamp", "clamp_max", "clamp_min", "clip", "clone", "column_stack", "concat",
    "concatenate", "cos", "cosh", "cosine_similarity", "count_nonzero", "default_generator",
    "device", "diag", "diag_embed", "diagonal", "div", "divide", "dot", "double", "dropout",
    "dtype", "empty", "empty_like", "enable_grad", "eq", "equal", "erf", "erfc", "exp", "exp2",
    "explain", "expm1", "eye", "finfo", "fix", "flatten", "flip", "fliplr", "flipud", "float",
    "float16", "float32", "float64", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac",
    "from_dlpack", "from_numpy", "full", "full_like", "gather", "ge", "Generator", "ger",
    "get_default_dtype", "get_num_threads", "get_printoptions", "get_rng_state", "greater",
    "greater_equal", "gt", "half", "hardshrink", "hstack", "hypot", "iinfo", "index_add",
    "index_copy", "index_fill", "index_put", "index_select", "inference_mode", "initial_seed",
    "inner", "int", "int16", "int32", "int64", "int8", "is_floating_point", "is_grad_enabled",
    "is_inference_mode_enabled", "is_tensor", "isclose", "isfinite", "isinf", "isnan",
    "layer_norm", "le", "lerp", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2",
    "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logspace", "logsumexp", "long", "lt", "manual_seed", "masked_fill", "masked_scatter",
    "masked_select", "matmul", "max", "maximum", "mean", "meshgrid", "min", "minimum", "mm",
    "moveaxis", "movedim", "mul", "multinomial", "multiply", "mv", "narrow", "ne", "neg",
    "negative", "no_grad", "nonzero", "norm", "normal", "not_equal", "numel", "ones", "ones_like",
    "outer", "permute", "positive", "pow", "prelu", "prod", "promote_types", "rand", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "randperm", "ravel", "reciprocal", "relu",
    "remainder", "repeat_interleave", "reshape", "rms_norm", "roll", "rot90", "round", "rsqrt",
    "scalar_tensor", "scatter", "scatter_add", "seed", "select", "selu", "set_default_dtype",
    "set_grad_enabled", "set_num_threads", "set_printoptions", "set_rng_state", "sgn", "short",
    "sigmoid", "sign", "sin", "sinh", "Size", "softmax", "sort", "split", "split_with_sizes",
    "sqrt", "square", "squeeze", "stack", "stats", "std", "std_mean", "sub", "subtract", "sum",
    "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh", "Tensor", "tensor",
    "tensor_split", "threshold", "tile", "topk", "trace", "transpose", "tril", "triu",
    "true_divide", "trunc", "uint8", "unbind", "unflatten", "unsqueeze", "var", "var_mean",
    "vstack", "where", "zeros", "zeros_like",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Subpackages are imported when first used, to keep `import livegrad` quick."""
    if name in ("nn", "optim", "autograd"):
        from importlib import import_module

        return import_module(f"livegrad.{name}")
    raise AttributeError(f"module 'livegrad' has no attribute {name!r}")
