"""Lazy modules, and parameters before they have a shape."""

import copy
import pickle

import pytest

import livegrad as lg
from livegrad import nn

CASES = [
    (lambda: nn.LazyLinear(5), (2, 3), "Linear(in_features=3, out_features=5, bias=True)"),
    (lambda: nn.LazyConv2d(4, 3, groups=2), (1, 2, 5, 5), "groups=2"),
    (lambda: nn.LazyConv1d(4, 3), (2, 5), "Conv1d(2, 4"),
    (lambda: nn.LazyConvTranspose3d(2, 2), (1, 3, 2, 2, 2), "ConvTranspose3d(3, 2"),
    (lambda: nn.LazyBatchNorm2d(), (2, 3, 2, 2), "BatchNorm2d(3"),
    (lambda: nn.LazyInstanceNorm1d(affine=True), (2, 3, 4), "InstanceNorm1d(3"),
]


@pytest.mark.parametrize(("build", "shape", "text"), CASES, ids=[c[2] for c in CASES])
def test_the_first_input_gives_the_sizes(build, shape, text):
    layer = build()
    assert layer.has_uninitialized_params()
    duplicate = copy.deepcopy(layer)
    layer.double()
    y = layer(lg.ones(*shape, dtype=lg.float64))
    assert text in repr(layer)
    assert not type(layer).__name__.startswith("Lazy")
    assert not layer._forward_pre_hooks
    assert y.dtype is lg.float64
    y.sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    # A state dict gives the shapes, too.
    duplicate.load_state_dict(layer.state_dict())
    assert not duplicate.has_uninitialized_params()
    assert duplicate(lg.ones(*shape)).shape == y.shape


def test_before_the_first_input():
    layer = nn.LazyLinear(2)
    with pytest.raises(ValueError, match="uninitialized parameter"):
        layer.weight + 1
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        layer.weight.shape
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert nn.parameter.is_lazy(layer.state_dict()["weight"])
    with pytest.raises(RuntimeError, match="not initialised yet"):
        nn.Linear(2, 2).load_state_dict(layer.state_dict())
    other = pickle.loads(pickle.dumps(layer))
    other.load_state_dict(layer.state_dict())
    assert other(lg.ones(1, 7)).shape == (1, 2)
    assert len(list(layer.parameters())) == 2
