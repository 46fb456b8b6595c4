"""livegrad: a deep-learning framework whose graph is dynamic and whose speed is static.

`from x import y as y` says, to type checkers too, that `y` is public.
"""

from __future__ import annotations

import math
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING, Any

from livegrad import (
    creation,
    linalg as linalg,
    moving as _moving,
    special as special,
)
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
    as_tensor as as_tensor,
    asarray as asarray,
    empty as empty,
    empty_like as empty_like,
    empty_permuted as empty_permuted,
    empty_strided as empty_strided,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    frombuffer as frombuffer,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    scalar_tensor as scalar_tensor,
    zeros as zeros,
    zeros_like as zeros_like,
)
from livegrad.device import Device
from livegrad.dtypes import (
    DType,
    absent as _absent_dtype,
    bfloat16 as bfloat16,
    bool_,
    can_cast as can_cast,
    complex64 as complex64,
    complex128 as complex128,
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
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from livegrad.graph.above import Above as _Above
from livegrad.graph.meta import Size as Size
from livegrad.legacy import set_default_tensor_type as set_default_tensor_type
from livegrad.native.collector import grow_old as _grow_old
from livegrad.ops.elementwise.arithmetic import (
    abs as abs,
    absolute as absolute,
    add as add,
    addcdiv as addcdiv,
    addcmul as addcmul,
    clone as clone,
    lerp as lerp,
    mul as mul,
    multiply as multiply,
    neg as neg,
    negative as negative,
    positive as positive,
    sgn as sgn,
    sign as sign,
    sub as sub,
    subtract as subtract,
    true_divide as true_divide,
)
from livegrad.ops.elementwise.bits_of_floats import (
    copysign as copysign,
    frexp as frexp,
    isneginf as isneginf,
    isposinf as isposinf,
    ldexp as ldexp,
    nan_to_num as nan_to_num,
    nextafter as nextafter,
    signbit as signbit,
)
from livegrad.ops.elementwise.comparison import (
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
from livegrad.ops.elementwise.complex_parts import (
    adjoint as adjoint,
    angle as angle,
    complex as complex,
    conj_physical as conj_physical,
    imag as imag,
    is_complex as is_complex,
    is_conj as is_conj,
    is_neg as is_neg,
    isreal as isreal,
    polar as polar,
    real as real,
    resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from livegrad.ops.elementwise.conjugate import conj_view
from livegrad.ops.elementwise.division import (
    div as div,
    divide as divide,
    floor_divide as floor_divide,
    fmod as fmod,
    remainder as remainder,
)
from livegrad.ops.elementwise.integer_math import (
    gcd as gcd,
    lcm as lcm,
)
from livegrad.ops.elementwise.pointwise_math import (
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
from livegrad.ops.elementwise.power import (
    pow as pow,
)
from livegrad.ops.elementwise.roots import (
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    sqrt as sqrt,
    square as square,
)
from livegrad.ops.layers.activation import (
    hardshrink as hardshrink,
    prelu as prelu,
    relu as relu,
    threshold as threshold,
)
from livegrad.ops.layers.composite import (
    cosine_similarity as cosine_similarity,
    layer_norm as layer_norm,
    log_softmax as log_softmax,
    rms_norm as rms_norm,
    softmax as softmax,
)
from livegrad.ops.layers.dropout import (
    alpha_dropout as alpha_dropout,
    feature_alpha_dropout as feature_alpha_dropout,
    native_dropout as native_dropout,
    native_dropout_backward as native_dropout_backward,
    rrelu as rrelu,
)
from livegrad.ops.layers.gating import bilinear as bilinear
from livegrad.ops.layers.smooth_activation import (
    celu as celu,
    selu as selu,
)
from livegrad.ops.linalg.cholesky import (
    cholesky_inverse as cholesky_inverse,
    cholesky_solve as cholesky_solve,
)
from livegrad.ops.linalg.determinants import (
    det as det,
    logdet as logdet,
    slogdet as slogdet,
)
from livegrad.ops.linalg.extreme import lobpcg as lobpcg
from livegrad.ops.linalg.functions import (
    cross_of_threes as cross,
    matrix_exp as matrix_exp,
    matrix_power as matrix_power,
)
from livegrad.ops.linalg.lowrank import (
    pca_lowrank as pca_lowrank,
    svd_lowrank as svd_lowrank,
)
from livegrad.ops.linalg.lu import lu_unpack as lu_unpack
from livegrad.ops.linalg.norms import (
    frobenius_norm as frobenius_norm,
    nuclear_norm as nuclear_norm,
    old_norm as norm,
)
from livegrad.ops.linalg.orthogonal import (
    geqrf as geqrf,
    ormqr as ormqr,
)
from livegrad.ops.linalg.singular import pinverse as pinverse
from livegrad.ops.linalg.solving import inv as inverse
from livegrad.ops.linalg.toplevel import (
    cholesky as cholesky,
    lu as lu,
    lu_solve as lu_solve,
    qr as qr,
    svd as svd,
)
from livegrad.ops.linalg.triangular import triangular_solve as triangular_solve
from livegrad.ops.making.random import (
    bernoulli as bernoulli,
    dropout as dropout,
    normal as normal,
    rand as rand,
    rand_like as rand_like,
    randint as randint,
    randint_like as randint_like,
    randn as randn,
    randn_like as randn_like,
    randperm as randperm,
)
from livegrad.ops.making.sampling import (
    binomial as binomial,
    multinomial as multinomial,
    poisson as poisson,
)
from livegrad.ops.norms.native_norm import (
    _batch_norm_with_update as _batch_norm_with_update,
    _native_batch_norm_legit as _native_batch_norm_legit,
    _softmax_backward_data as _softmax_backward_data,
    batch_norm as batch_norm,
    instance_norm as instance_norm,
    native_batch_norm as native_batch_norm,
    native_group_norm as native_group_norm,
    native_layer_norm as native_layer_norm,
)
from livegrad.ops.norms.normalisation import group_norm as group_norm
from livegrad.ops.picking.gathering import (
    gather as gather,
    index_select as index_select,
    take as take,
    take_along_dim as take_along_dim,
)
from livegrad.ops.picking.index_writing import (
    index_add as index_add,
    index_copy as index_copy,
    index_fill as index_fill,
    index_reduce as index_reduce,
    put as put,
)
from livegrad.ops.picking.indexing import index_put as index_put
from livegrad.ops.picking.masking import (
    argwhere as argwhere,
    masked_fill as masked_fill,
    masked_scatter as masked_scatter,
    masked_select as masked_select,
    nonzero as nonzero,
    nonzero_static as nonzero_static,
    where as where,
)
from livegrad.ops.picking.scattering import (
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_reduce as scatter_reduce,
)
from livegrad.ops.picking.searching import (
    bucketize as bucketize,
    isin as isin,
    searchsorted as searchsorted,
)
from livegrad.ops.products.contraction import (
    einsum as einsum,
    kron as kron,
    tensordot as tensordot,
)
from livegrad.ops.products.distances import (
    cdist as cdist,
    dist as dist,
    pdist as pdist,
    renorm as renorm,
    vander as vander,
)
from livegrad.ops.products.matmul import (
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
    vdot as vdot,
)
from livegrad.ops.products.pairwise import pairwise_distance as pairwise_distance
from livegrad.ops.reductions.counting import (
    bincount as bincount,
    histc as histc,
    histogram as histogram,
    histogramdd as histogramdd,
    unique as unique,
    unique_consecutive as unique_consecutive,
)
from livegrad.ops.reductions.covariance import (
    corrcoef as corrcoef,
    cov as cov,
)
from livegrad.ops.reductions.differences import (
    cumulative_trapezoid as cumulative_trapezoid,
    diff as diff,
    gradient as gradient,
    trapezoid as trapezoid,
    trapz as trapz,
)
from livegrad.ops.reductions.product import prod as prod
from livegrad.ops.reductions.quantiles import (
    kthvalue as kthvalue,
    median as median,
    mode as mode,
    nanmedian as nanmedian,
    nanquantile as nanquantile,
    quantile as quantile,
)
from livegrad.ops.reductions.reduce import (
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
    sum as sum,
)
from livegrad.ops.reductions.scan import (
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    logcumsumexp as logcumsumexp,
)
from livegrad.ops.reductions.segments import (
    segment_reduce as _segment_reduce,
    segment_reduce as segment_reduce,
)
from livegrad.ops.reductions.sorting import (
    argsort as argsort,
    msort as msort,
    sort as sort,
    topk as topk,
)
from livegrad.ops.reductions.statistics import (
    aminmax as aminmax,
    logsumexp as logsumexp,
    nanmean as nanmean,
    nansum as nansum,
    std as std,
    std_mean as std_mean,
    var as var,
    var_mean as var_mean,
)
from livegrad.ops.shaping.arranging import (
    block_diag as block_diag,
    cartesian_prod as cartesian_prod,
    combinations as combinations,
    diag as diag,
    diag_embed as diag_embed,
    diagflat as diagflat,
    meshgrid as meshgrid,
    repeat_interleave as repeat_interleave,
    trace as trace,
)
from livegrad.ops.shaping.diagonals import (
    diagonal as diagonal,
)
from livegrad.ops.shaping.joining import (
    _chunk_cat as _chunk_cat,
    cat as cat,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    constant_pad_nd as constant_pad_nd,
    dstack as dstack,
    hstack as hstack,
    roll as roll,
    row_stack as row_stack,
    stack as stack,
    tile as tile,
    vstack as vstack,
)
from livegrad.ops.shaping.movement import (
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    broadcast_to as broadcast_to,
    detach as detach,
    moveaxis as moveaxis,
    movedim as movedim,
    permute as permute,
    reshape as reshape,
    squeeze as squeeze,
    swapaxes as swapaxes,
    swapdims as swapdims,
    t as t,
    transpose as transpose,
    unsqueeze as unsqueeze,
)
from livegrad.ops.shaping.reshaping import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    flatten as flatten,
    ravel as ravel,
    unflatten as unflatten,
)
from livegrad.ops.shaping.resizing import (
    fill as fill,
    resize_as_ as resize_as_,
)
from livegrad.ops.shaping.shuffling import (
    channel_shuffle as channel_shuffle,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)
from livegrad.ops.shaping.slicing import (
    chunk as chunk,
    dsplit as dsplit,
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    hsplit as hsplit,
    narrow as narrow,
    rot90 as rot90,
    select as select,
    split as split,
    split_with_sizes as split_with_sizes,
    tensor_split as tensor_split,
    unbind as unbind,
    unsafe_chunk as unsafe_chunk,
    unsafe_split as unsafe_split,
    unsafe_split_with_sizes as unsafe_split_with_sizes,
    vsplit as vsplit,
)
from livegrad.ops.shaping.strided import (
    as_strided as as_strided,
    as_strided_scatter as as_strided_scatter,
)
from livegrad.ops.shaping.triangles import (
    tril as tril,
    tril_indices as tril_indices,
    triu as triu,
    triu_indices as triu_indices,
)
from livegrad.ops.shaping.view_copies import (
    alias_copy as alias_copy,
    as_strided_copy as as_strided_copy,
    detach_copy as detach_copy,
    diagonal_copy as diagonal_copy,
    diagonal_scatter as diagonal_scatter,
    expand_copy as expand_copy,
    narrow_copy as narrow_copy,
    permute_copy as permute_copy,
    select_copy as select_copy,
    select_scatter as select_scatter,
    slice_copy as slice_copy,
    slice_scatter as slice_scatter,
    split_copy as split_copy,
    split_with_sizes_copy as split_with_sizes_copy,
    squeeze_copy as squeeze_copy,
    t_copy as t_copy,
    transpose_copy as transpose_copy,
    unbind_copy as unbind_copy,
    unfold_copy as unfold_copy,
    unsqueeze_copy as unsqueeze_copy,
    view_copy as view_copy,
)
from livegrad.ops.special.bessel import (
    i0 as i0,
)
from livegrad.ops.special.error_functions import (
    erfinv as erfinv,
)
from livegrad.ops.special.gamma import (
    digamma as digamma,
    igamma as igamma,
    igammac as igammac,
    lgamma as lgamma,
    mvlgamma as mvlgamma,
    polygamma as polygamma,
)
from livegrad.ops.special.special_math import (
    deg2rad as deg2rad,
    float_power as float_power,
    heaviside as heaviside,
    logaddexp2 as logaddexp2,
    logit as logit,
    rad2deg as rad2deg,
    rsub as rsub,
    sinc as sinc,
    xlogy as xlogy,
)
from livegrad.ops.support.positions import unravel_index as unravel_index
from livegrad.ops.support.public import publish
from livegrad.ops.support.reading import (
    allclose as allclose,
    equal as equal,
    is_floating_point as is_floating_point,
    is_tensor as is_tensor,
    numel as numel,
    result_type as result_type,
)
from livegrad.ops.transforms.spectral import (
    istft as istft,
    stft as stft,
)
from livegrad.ops.windows.adaptive_pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_max_pool1d as adaptive_max_pool1d,
)
from livegrad.ops.windows.convolution import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    conv_tbc as conv_tbc,
    conv_transpose1d as conv_transpose1d,
    conv_transpose2d as conv_transpose2d,
    conv_transpose3d as conv_transpose3d,
    convolution as convolution,
)
from livegrad.ops.windows.grid_sampling import (
    affine_grid_generator as affine_grid_generator,
    grid_sampler as grid_sampler,
    grid_sampler_2d as grid_sampler_2d,
    grid_sampler_3d as grid_sampler_3d,
)
from livegrad.ops.windows.pooling import (
    avg_pool1d as avg_pool1d,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
)
from livegrad.ops.windows.pooling_indices import (
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d_with_indices_backward as max_pool2d_with_indices_backward,
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
from livegrad.sequences import (
    arange as arange,
    eye as eye,
    linspace as linspace,
    logspace as logspace,
)
from livegrad.settings import (
    Layout,
    MemoryFormat,
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    compile as compile,
    contiguous_format as contiguous_format,
    get_default_device as get_default_device,
    get_float32_matmul_precision as get_float32_matmul_precision,
    get_num_interop_threads as get_num_interop_threads,
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled as is_warn_always_enabled,
    jagged as jagged,
    preserve_format as preserve_format,
    set_default_device as set_default_device,
    set_float32_matmul_precision as set_float32_matmul_precision,
    set_flush_denormal as set_flush_denormal,
    set_num_interop_threads as set_num_interop_threads,
    set_warn_always as set_warn_always,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
    use_deterministic_algorithms as use_deterministic_algorithms,
)
from livegrad.signal.classic import (
    bartlett_window as bartlett_window,
    blackman_window as blackman_window,
    hamming_window as hamming_window,
    hann_window as hann_window,
    kaiser_window as kaiser_window,
)
from livegrad.tensor import Tensor as Tensor
from livegrad.typed import (
    BFloat16Tensor as BFloat16Tensor,
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
)

if TYPE_CHECKING:  # imported when first used: see `__getattr__`
    from livegrad import (
        accelerator as accelerator,
        amp as amp,
        attr as attr,
        autograd as autograd,
        backends as backends,
        compress as compress,
        cuda as cuda,
        debug as debug,
        distributed as distributed,
        distributions as distributions,
        events as events,
        export as export,
        fft as fft,
        func as func,
        functional as functional,
        futures as futures,
        fx as fx,
        hub as hub,
        jit as jit,
        library as library,
        lint as lint,
        masked as masked,
        mps as mps,
        multiprocessing as multiprocessing,
        nested as nested,
        nn as nn,
        onnx as onnx,
        optim as optim,
        overrides as overrides,
        profiler as profiler,
        quasirandom as quasirandom,
        return_types as return_types,
        serialization as serialization,
        signal as signal,
        sparse as sparse,
        testing as testing,
        text as text,
        train as train,
        utils as utils,
        view as view,
        vision as vision,
        xpu as xpu,
    )
    from livegrad.amp import (
        GradScaler as GradScaler,
        autocast as autocast,
        autocast_decrement_nesting as autocast_decrement_nesting,
        autocast_increment_nesting as autocast_increment_nesting,
        clear_autocast_cache as clear_autocast_cache,
        get_autocast_cpu_dtype as get_autocast_cpu_dtype,
        get_autocast_dtype as get_autocast_dtype,
        is_autocast_cache_enabled as is_autocast_cache_enabled,
        is_autocast_cpu_enabled as is_autocast_cpu_enabled,
        is_autocast_enabled as is_autocast_enabled,
        set_autocast_cache_enabled as set_autocast_cache_enabled,
        set_autocast_cpu_dtype as set_autocast_cpu_dtype,
        set_autocast_cpu_enabled as set_autocast_cpu_enabled,
        set_autocast_dtype as set_autocast_dtype,
        set_autocast_enabled as set_autocast_enabled,
    )
    from livegrad.asked import (
        embedding as embedding,
        get_device as get_device,
        is_inference as is_inference,
        is_nonzero as is_nonzero,
        is_same_size as is_same_size,
        is_signed as is_signed,
        is_storage as is_storage,
        range as range,
        typename as typename,
    )
    from livegrad.control_flow import cond as cond, while_loop as while_loop
    from livegrad.debug import (
        blame as blame,
        breakpoint_on as breakpoint_on,
        ensure as ensure,
        live as live,
        memory_report as memory_report,
        predict_peak as predict_peak,
        profile as profile,
        shapes as shapes,
    )
    from livegrad.func.vmap import vmap as vmap
    from livegrad.ops.layers.attention import safe_softmax as _safe_softmax
    from livegrad.ops.windows.interpolation import (
        _upsample_bilinear2d_aa as _upsample_bilinear2d_aa,
    )
    from livegrad.printing import (
        get_printoptions as get_printoptions,
        set_printoptions as set_printoptions,
    )
    from livegrad.serialization import load as load, save as save
    from livegrad.sparse.making import (
        sparse_bsc_tensor as sparse_bsc_tensor,
        sparse_bsr_tensor as sparse_bsr_tensor,
        sparse_compressed_tensor as sparse_compressed_tensor,
        sparse_coo_tensor as sparse_coo_tensor,
        sparse_csc_tensor as sparse_csc_tensor,
        sparse_csr_tensor as sparse_csr_tensor,
    )
    from livegrad.sparse.products import hspmm as hspmm, smm as smm, sspaddmm as sspaddmm

    abs_ = Tensor.abs_
    acos_ = Tensor.acos_
    acosh_ = Tensor.acosh_
    addmv_ = Tensor.addmv_
    arccos_ = Tensor.arccos_
    arccosh_ = Tensor.arccosh_
    arcsin_ = Tensor.arcsin_
    arcsinh_ = Tensor.arcsinh_
    arctan_ = Tensor.arctan_
    arctanh_ = Tensor.arctanh_
    as_strided_ = Tensor.as_strided_
    asin_ = Tensor.asin_
    asinh_ = Tensor.asinh_
    atan_ = Tensor.atan_
    atanh_ = Tensor.atanh_
    ceil_ = Tensor.ceil_
    clamp_ = Tensor.clamp_
    clamp_max_ = Tensor.clamp_max_
    clamp_min_ = Tensor.clamp_min_
    clip_ = Tensor.clip_
    conj_physical_ = Tensor.conj_physical_
    cos_ = Tensor.cos_
    cosh_ = Tensor.cosh_
    deg2rad_ = Tensor.deg2rad_
    detach_ = Tensor.detach_
    erf_ = Tensor.erf_
    erfc_ = Tensor.erfc_
    exp2_ = Tensor.exp2_
    exp_ = Tensor.exp_
    expm1_ = Tensor.expm1_
    fill_ = Tensor.fill_
    fix_ = Tensor.fix_
    floor_ = Tensor.floor_
    frac_ = Tensor.frac_
    gcd_ = Tensor.gcd_
    i0_ = Tensor.i0_
    index_put_ = Tensor.index_put_
    lcm_ = Tensor.lcm_
    ldexp_ = Tensor.ldexp_
    log10_ = Tensor.log10_
    log1p_ = Tensor.log1p_
    log2_ = Tensor.log2_
    log_ = Tensor.log_
    logit_ = Tensor.logit_
    nan_to_num_ = Tensor.nan_to_num_
    neg_ = Tensor.neg_
    negative_ = Tensor.negative_
    rad2deg_ = Tensor.rad2deg_
    reciprocal_ = Tensor.reciprocal_
    relu_ = Tensor.relu_
    round_ = Tensor.round_
    rsqrt_ = Tensor.rsqrt_
    sigmoid_ = Tensor.sigmoid_
    sin_ = Tensor.sin_
    sinc_ = Tensor.sinc_
    sinh_ = Tensor.sinh_
    sqrt_ = Tensor.sqrt_
    square_ = Tensor.square_
    tan_ = Tensor.tan_
    tanh_ = Tensor.tanh_
    trunc_ = Tensor.trunc_
    xlogy_ = Tensor.xlogy_
    zero_ = Tensor.zero_

conj = conj_view
del conj_view
# Packages that tensors need and that are written with tensors are imported when first used.
_Above.advice = lambda: _import_module("livegrad.debug.advice")
_Above.drawing = lambda: _import_module("livegrad.view.drawing")
_Above.array_api = lambda: _import_module("livegrad.array_api")
_Above.blaming = lambda: _import_module("livegrad.debug.blaming")
_Above.data_parallel = lambda: _import_module("livegrad.distributed.data_parallel")
_Above.maskedtensor = lambda: _import_module("livegrad.maskedtensor")
_Above.multiprocessing = lambda: _import_module("livegrad.multiprocessing")
_Above.nested = lambda: _import_module("livegrad.nested")
_Above.sparse = lambda: _import_module("livegrad.sparse")
_Above.sparse_parameters = lambda: _import_module("livegrad.nn.sparse_parameter")
_Above.overrides = lambda: _import_module("livegrad.overrides")

tensor = creation.tensor  # the function, not the submodule of that name
publish(globals())
_grow_old()  # what was imported just now stays

# Each on a line of its own: only then may annotations use it.
device = Device
dtype = DType
layout = Layout
memory_format = MemoryFormat
bool = bool_
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
# There is no complex type of half precision.
cfloat, cdouble, chalf = complex64, complex128, complex64


_SUBPACKAGES = (
    "_C",
    "accelerator",
    "amp",
    "attr",
    "autograd",
    "backends",
    "compress",
    "cuda",
    "debug",
    "distributed",
    "distributions",
    "events",
    "export",
    "fft",
    "func",
    "functional",
    "futures",
    "fx",
    "hub",
    "jit",
    "library",
    "lint",
    "masked",
    "mps",
    "multiprocessing",
    "nested",
    "nn",
    "onnx",
    "optim",
    "overrides",
    "profiler",
    "quasirandom",
    "return_types",
    "serialization",
    "signal",
    "sparse",
    "special",
    "testing",
    "text",
    "train",
    "utils",
    "view",
    "vision",
    "xpu",
)

# What few programs use of subpackages, or of ops that nothing else here needs: where it is found.
_NAMES = {
    "Event": ("cuda", "Event"),
    "GradScaler": ("amp", "GradScaler"),
    "ScriptFunction": ("jit", "ScriptFunction"),
    "ScriptModule": ("jit", "ScriptModule"),
    "Stream": ("cuda", "Stream"),
    "_assert": ("asserting", "_assert"),
    "_assert_async": ("asserting", "_assert_async"),
    "Future": ("futures", "Future"),
    "_safe_softmax": ("ops.layers.attention", "safe_softmax"),
    "_upsample_bilinear2d_aa": ("ops.windows.interpolation", "_upsample_bilinear2d_aa"),
    "get_printoptions": ("printing", "get_printoptions"),
    "load": ("serialization", "load"),
    "save": ("serialization", "save"),
    "set_printoptions": ("printing", "set_printoptions"),
    "vmap": ("func", "vmap"),
    "watch": ("view", "watch"),
}
_MORE = {
    "asked": "SymBool SymFloat SymInt _shape_as_tensor compiled_with_cxx11_abi embedding "
    "get_deterministic_debug_mode get_device get_device_module is_distributed is_inference "
    "is_nonzero is_same_size is_signed is_storage range sym_float sym_int sym_ite sym_max "
    "sym_min sym_not sym_sqrt sym_sum typename",
    "checks": "_check _check_index _check_is_size _check_type _check_value",
    "compress.schemes": "per_channel_affine per_channel_symmetric per_tensor_affine "
    "per_tensor_symmetric qint32 qint8 quint2x4 quint4x2 quint8",
    "control_flow": "cond while_loop",
    "nn.functional": "celu_ rrelu_ selu_ threshold_",
    "debug": "blame breakpoint_on ensure live memory_report predict_peak profile shapes",
    "ops.layers.fake_quantize": "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine",
    "sparse.making": "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor",
    "sparse.products": "hspmm smm sspaddmm",
    "sparse.old": "dsmm hsmm saddmm spmm resize_as_sparse_",
    "storage": "UntypedStorage",
    "utils.dlpack": "to_dlpack",
}
_NAMES |= {name: (module, name) for module, names in _MORE.items() for name in names.split()}


if not TYPE_CHECKING:  # which would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Subpackages are imported when first used, to keep `import livegrad` quick."""
        if name in _SUBPACKAGES:
            return _import_module(f"livegrad.{name}")
        if "autocast" in name:  # `autocast` itself, and what asks about it
            found = getattr(_import_module("livegrad.amp"), name, None)
            if found is not None:
                return found
        if name in _NAMES:
            module, own = _NAMES[name]
            return getattr(_import_module(f"livegrad.{module}"), own)
        if "int" in name or name.startswith(("float", "complex")):
            found = _absent_dtype(name)
            if found is not None:
                return found
        if name.startswith("_foreach_"):
            found = _import_module("livegrad.foreach").foreach(name)
            if found is not None:
                globals()[name] = found
                return found
        if name.endswith("_") and name[0] != "_" and hasattr(Tensor, name):
            return getattr(Tensor, name)  # livegrad.sin_(x) is x.sin_()
        raise AttributeError(f"module 'livegrad' has no attribute {name!r}")


class _Graph(_ModuleType):
    """`livegrad.graph` is what the graph is written in; called, it shows one: `livegrad.view`."""

    def __call__(self, what: Any = None) -> Any:
        return _import_module("livegrad.view").graph(what)


_import_module("livegrad.graph").__class__ = _Graph
