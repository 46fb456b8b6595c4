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
    argsort,
    argwhere,
    diag,
    diag_embed,
    index_put,
    masked_fill,
    masked_scatter,
    masked_select,
    nonzero,
    repeat_interleave,
    sort,
    topk,
    trace,
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
    chunk,
    diagonal,
    flatten,
    flip,
    fliplr,
    flipud,
    moveaxis,
    movedim,
    narrow,
    permute,
    ravel,
    reshape,
    rot90,
    select,
    split,
    split_with_sizes,
    squeeze,
    swapaxes,
    swapdims,
    t,
    tensor_split,
    transpose,
    unbind,
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
from livegrad.ops.smooth_activation import (
    celu,
    selu,
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


def __getattr__(name: str) -> Any:
    """Subpackages are imported when first used, to keep `import livegrad` quick."""
    if name in ("nn", "optim", "autograd"):
        from importlib import import_module

        return import_module(f"livegrad.{name}")
    raise AttributeError(f"module 'livegrad' has no attribute {name!r}")
