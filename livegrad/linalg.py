"""Linear algebra under the names and signatures of `torch.linalg`."""

from __future__ import annotations

from livegrad.ops.linalg.cholesky import cholesky as cholesky, cholesky_ex as cholesky_ex
from livegrad.ops.linalg.common import LinAlgError as LinAlgError
from livegrad.ops.linalg.determinants import det as det, slogdet as slogdet
from livegrad.ops.linalg.functions import (
    cross as cross,
    diagonal as diagonal,
    matrix_exp as matrix_exp,
    matrix_power as matrix_power,
    multi_dot as multi_dot,
    vander as vander,
    vecdot as vecdot,
)
from livegrad.ops.linalg.ldl import (
    ldl_factor as ldl_factor,
    ldl_factor_ex as ldl_factor_ex,
    ldl_solve as ldl_solve,
)
from livegrad.ops.linalg.lu import (
    lu as lu,
    lu_factor as lu_factor,
    lu_factor_ex as lu_factor_ex,
    lu_solve as lu_solve,
)
from livegrad.ops.linalg.norms import (
    cond as cond,
    matrix_norm as matrix_norm,
    norm as norm,
    vector_norm as vector_norm,
)
from livegrad.ops.linalg.orthogonal import householder_product as householder_product, qr as qr
from livegrad.ops.linalg.singular import (
    lstsq as lstsq,
    matrix_rank as matrix_rank,
    pinv as pinv,
    svd as svd,
    svdvals as svdvals,
)
from livegrad.ops.linalg.solving import (
    inv as inv,
    inv_ex as inv_ex,
    solve as solve,
    solve_ex as solve_ex,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
)
from livegrad.ops.linalg.spectral import (
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
)
from livegrad.ops.linalg.triangular import solve_triangular as solve_triangular
from livegrad.ops.products.matmul import matmul as matmul
from livegrad.ops.support.public import publish

publish(globals())
