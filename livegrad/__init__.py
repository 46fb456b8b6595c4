"""livegrad: a deep-learning framework whose graph is dynamic and whose speed is static.

`from x import y as y` says, to type checkers too, that `y` is public.
"""

from __future__ import annotations

from typing import Any

from livegrad import creation
from livegrad.__about__ import __version__ as __version__
from livegrad.autograd.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from livegrad.creation import (
    arange as arange,
    as_tensor as as_tensor,
    asarray as asarray,
    empty as empty,
    empty_like as empty_like,
    eye as eye,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    full as full,
    full_like as full_like,
    linspace as linspace,
    logspace as logspace,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    scalar_tensor as scalar_tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)
from livegrad.device import Device
from livegrad.dtypes import (
    DType,
    bfloat16 as bfloat16,
    bool_,
    finfo as finfo,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    iinfo as iinfo,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as promote_types,
    set_default_dtype as set_default_dtype,
    uint8 as uint8,
)
from livegrad.graph.meta import Size as Size
from livegrad.ops.activation import (
    hardshrink as hardshrink,
    prelu as prelu,
    relu as relu,
    threshold as threshold,
)
from livegrad.ops.arranging import (
    diag as diag,
    diag_embed as diag_embed,
    repeat_interleave as repeat_interleave,
    trace as trace,
)
from livegrad.ops.comparison import (
    bitwise_and as bitwise_and,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    clamp as clamp,
    clamp_max as clamp_max,
    clamp_min as clamp_min,
    clip as clip,
    eq as eq,
    fmax as fmax,
    fmin as fmin,
    ge as ge,
    greater as greater,
    greater_equal as greater_equal,
    gt as gt,
    isclose as isclose,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    le as le,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    lt as lt,
    maximum as maximum,
    minimum as minimum,
    ne as ne,
    not_equal as not_equal,
)
from livegrad.ops.composite import (
    cosine_similarity as cosine_similarity,
    layer_norm as layer_norm,
    log_softmax as log_softmax,
    rms_norm as rms_norm,
    softmax as softmax,
)
from livegrad.ops.elementwise import (
    abs as abs,
    absolute as absolute,
    add as add,
    addcdiv as addcdiv,
    addcmul as addcmul,
    clone as clone,
    div as div,
    divide as divide,
    floor_divide as floor_divide,
    fmod as fmod,
    lerp as lerp,
    mul as mul,
    multiply as multiply,
    neg as neg,
    negative as negative,
    positive as positive,
    remainder as remainder,
    sgn as sgn,
    sign as sign,
    sub as sub,
    subtract as subtract,
    true_divide as true_divide,
)
from livegrad.ops.gathering import (
    gather as gather,
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_select as index_select,
    scatter as scatter,
    scatter_add as scatter_add,
    take as take,
    take_along_dim as take_along_dim,
)
from livegrad.ops.indexing import (
    argwhere as argwhere,
    index_put as index_put,
    masked_fill as masked_fill,
    masked_scatter as masked_scatter,
    masked_select as masked_select,
    nonzero as nonzero,
    where as where,
)
from livegrad.ops.joining import (
    cat as cat,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    hstack as hstack,
    roll as roll,
    stack as stack,
    tile as tile,
    tril as tril,
    triu as triu,
    vstack as vstack,
)
from livegrad.ops.matmul import (
    addbmm as addbmm,
    addmm as addmm,
    addmv as addmv,
    addr as addr,
    baddbmm as baddbmm,
    bmm as bmm,
    chain_matmul as chain_matmul,
    dot as dot,
    ger as ger,
    inner as inner,
    matmul as matmul,
    mm as mm,
    mv as mv,
    outer as outer,
)
from livegrad.ops.movement import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    broadcast_tensors as broadcast_tensors,
    broadcast_to as broadcast_to,
    flatten as flatten,
    moveaxis as moveaxis,
    movedim as movedim,
    permute as permute,
    ravel as ravel,
    reshape as reshape,
    squeeze as squeeze,
    swapaxes as swapaxes,
    swapdims as swapdims,
    t as t,
    transpose as transpose,
    unflatten as unflatten,
    unsqueeze as unsqueeze,
)
from livegrad.ops.pointwise_math import (
    acos as acos,
    acosh as acosh,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    erf as erf,
    erfc as erfc,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    fix as fix,
    floor as floor,
    frac as frac,
    hypot as hypot,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    logaddexp as logaddexp,
    round as round,
    sigmoid as sigmoid,
    sin as sin,
    sinh as sinh,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from livegrad.ops.power import (
    pow as pow,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    sqrt as sqrt,
    square as square,
)
from livegrad.ops.random import (
    bernoulli as bernoulli,
    dropout as dropout,
    multinomial as multinomial,
    normal as normal,
    rand as rand,
    rand_like as rand_like,
    randint as randint,
    randint_like as randint_like,
    randn as randn,
    randn_like as randn_like,
    randperm as randperm,
)
from livegrad.ops.reading import (
    allclose as allclose,
    equal as equal,
    is_floating_point as is_floating_point,
    is_tensor as is_tensor,
    numel as numel,
)
from livegrad.ops.reduce import (
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    sum as sum,
)
from livegrad.ops.slicing import (
    chunk as chunk,
    diagonal as diagonal,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    narrow as narrow,
    rot90 as rot90,
    select as select,
    split as split,
    split_with_sizes as split_with_sizes,
    tensor_split as tensor_split,
    unbind as unbind,
)
from livegrad.ops.smooth_activation import (
    celu as celu,
    selu as selu,
)
from livegrad.ops.sorting import (
    argsort as argsort,
    sort as sort,
    topk as topk,
)
from livegrad.ops.statistics import (
    logsumexp as logsumexp,
    norm as norm,
    std as std,
    std_mean as std_mean,
    var as var,
    var_mean as var_mean,
)
from livegrad.printing import (
    get_printoptions as get_printoptions,
    set_printoptions as set_printoptions,
)
from livegrad.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from livegrad.runtime import (
    explain as explain,
    get_num_threads as get_num_threads,
    set_num_threads as set_num_threads,
    stats as stats,
)
from livegrad.tensor import Tensor as Tensor

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
