"""`torch.functional`: functions of several tensors, by the file they are in there."""

from __future__ import annotations

import livegrad
from livegrad import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    cdist as cdist,
    chain_matmul as chain_matmul,
    einsum as einsum,
    istft as istft,
    lu as lu,
    meshgrid as meshgrid,
    split as split,
    stft as stft,
    tensordot as tensordot,
    unique as unique,
    unique_consecutive as unique_consecutive,
    unravel_index as unravel_index,
)

norm = vars(livegrad)["norm"]  # which has another name where it is defined
