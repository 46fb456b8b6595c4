"""Functions under the names of `torch.special`."""

from __future__ import annotations

from livegrad.ops.elementwise.pointwise_math import (
    erf as erf,
    erfc as erfc,
    exp2 as exp2,
    expm1 as expm1,
    log1p as log1p,
    round as round,
    sigmoid as expit,
)
from livegrad.ops.layers.composite import log_softmax as log_softmax, softmax as softmax
from livegrad.ops.reductions.statistics import logsumexp as logsumexp
from livegrad.ops.special.bessel import (
    airy_ai as airy_ai,
    bessel_j0 as bessel_j0,
    bessel_j1 as bessel_j1,
    bessel_y0 as bessel_y0,
    bessel_y1 as bessel_y1,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    modified_bessel_i0 as modified_bessel_i0,
    modified_bessel_i1 as modified_bessel_i1,
    modified_bessel_k0 as modified_bessel_k0,
    modified_bessel_k1 as modified_bessel_k1,
    scaled_modified_bessel_k0 as scaled_modified_bessel_k0,
    scaled_modified_bessel_k1 as scaled_modified_bessel_k1,
)
from livegrad.ops.special.error_functions import (
    erfcx as erfcx,
    erfinv as erfinv,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
)
from livegrad.ops.special.gamma import (
    digamma as digamma,
    igamma as gammainc,
    igammac as gammaincc,
    lgamma as gammaln,
    mvlgamma as multigammaln,
    polygamma as polygamma,
    zeta as zeta,
)
from livegrad.ops.special.polynomial_families import (
    chebyshev_polynomial_t as chebyshev_polynomial_t,
    chebyshev_polynomial_u as chebyshev_polynomial_u,
    chebyshev_polynomial_v as chebyshev_polynomial_v,
    chebyshev_polynomial_w as chebyshev_polynomial_w,
    hermite_polynomial_h as hermite_polynomial_h,
    hermite_polynomial_he as hermite_polynomial_he,
    laguerre_polynomial_l as laguerre_polynomial_l,
    legendre_polynomial_p as legendre_polynomial_p,
    shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w,
)
from livegrad.ops.special.special_math import (
    entr as entr,
    logit as logit,
    sinc as sinc,
    spherical_bessel_j0 as spherical_bessel_j0,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from livegrad.ops.support.public import publish

psi = digamma

publish(globals())

__all__ = ["expit", "gammainc", "gammaincc", "gammaln", "multigammaln", "psi"]
