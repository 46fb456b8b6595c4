"""Gradients of convolutions by themselves."""

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.nn import grad

CASES = {
    "conv1d": ((2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    "conv2d": ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": 2}),
    "conv3d": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_what_backward_gives(name):
    size, weight_size, options = CASES[name]
    x, weight = [lg.randn(*shape, requires_grad=True) for shape in (size, weight_size)]
    y = getattr(F, name)(x, weight, **options)
    g = lg.randn(*y.shape)
    y.backward(g)
    for_input = getattr(grad, f"{name}_input")(size, weight.detach(), g, **options)
    for_weight = getattr(grad, f"{name}_weight")(x.detach(), weight_size, g, **options)
    assert lg.equal(for_input, x.grad)
    assert lg.equal(for_weight, weight.grad)
    assert not for_input.requires_grad


def test_is_differentiable_itself():
    x, g = lg.randn(1, 2, 6), lg.randn(1, 3, 4, requires_grad=True)
    found = grad.conv1d_weight(x, (3, 2, 3), g)
    assert found.requires_grad
    found.sum().backward()
    assert lg.allclose(g.grad, F.conv1d(x, lg.ones(3, 2, 3)))
    with lg.no_grad():
        assert not grad.conv1d_weight(x, (3, 2, 3), g).requires_grad
