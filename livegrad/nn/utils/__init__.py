"""Tools for gradients and parameters."""

from __future__ import annotations

from livegrad.nn.utils.clip_grad import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    get_total_norm as get_total_norm,
)
from livegrad.nn.utils.vector import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
