"""Every registered op on a device that follows plans: nothing in a plan is the CPU's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.op import REGISTRY
from livegrad.graph.state import reference_mode
from tests.devices.planned import DEVICE
from tests.ops.test_registry import OPS, as_inputs, call, samples_of, values


def there(x: Any) -> Any:
    return x.to(DEVICE) if isinstance(x, lg.Tensor) else x


@pytest.mark.parametrize("name", OPS)
def test_plans_mean_the_same_there(name: str) -> None:
    op = REGISTRY[name]
    for sample in samples_of(op):
        with reference_mode():
            try:
                wanted = call(op, sample, as_inputs(sample, lg.float32))
            except RuntimeError as error:
                if "not implemented for" in str(error):
                    continue  # integer ops
                raise
            expected = values(wanted)
        got = call(op, sample, [there(x) for x in as_inputs(sample, lg.float32)])
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(values(got.cpu()), expected, rtol=2e-5, atol=2e-5)
