"""Function transforms: derivatives and batches of functions, as functions.

    grad  vjp  jvp  linearize  jacrev  jacfwd  hessian      derivatives.py, jacobians.py
    vmap                                                    vmap.py, replay.py, batching.py
    functional_call  stack_module_state                     modules.py

They compose, and everything they record is compiled like any other program:

    per_example = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, targets)
"""

from __future__ import annotations

from livegrad.func.derivatives import (
    grad as grad,
    grad_and_value as grad_and_value,
    jvp as jvp,
    linearize as linearize,
    value_and_grad as value_and_grad,
    vjp as vjp,
)
from livegrad.func.jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from livegrad.func.modules import (
    functional_call as functional_call,
    stack_module_state as stack_module_state,
)
from livegrad.func.vmap import vmap as vmap
