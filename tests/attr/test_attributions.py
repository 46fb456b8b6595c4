"""Attributions: of functions whose answers are known, and of what networks must add up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.attr import (
    Deconvolution,
    FeatureAblation,
    GuidedBackprop,
    GuidedGradCam,
    InputXGradient,
    IntegratedGradients,
    LayerActivation,
    LayerAttribution,
    LayerGradCam,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    NeuronGradient,
    NeuronIntegratedGradients,
    NoiseTunnel,
    Occlusion,
    Saliency,
)
from livegrad.attr.paths import METHODS, places

LINEAR = lg.tensor([[1.0, -2.0, 3.0], [0.0, 4.0, -1.0]])  # two answers of three elements


def linear(x: Any) -> Any:
    return x @ LINEAR.t()


X = lg.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])


def network() -> Any:
    lg.manual_seed(1)
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(3 * 4 * 4, 5)),
    )


def images() -> Any:
    lg.manual_seed(2)
    return lg.randn(2, 2, 6, 6)


def same(a: Any, b: Any, tolerance: float = 1e-5) -> bool:
    return np.allclose(np.asarray(a.detach()), np.asarray(b), atol=tolerance)


def test_slopes_of_a_linear_model() -> None:
    assert same(Saliency(linear).attribute(X, 0), LINEAR[:1].abs().expand(2, 3))
    assert same(Saliency(linear).attribute(X, [0, 1], abs=False), LINEAR)
    assert same(InputXGradient(linear).attribute(X, lg.tensor([1, 0])), X * LINEAR.flip(0))


def test_which_answer() -> None:
    grid = lambda x: x.reshape(2, 3, 1) * lg.tensor([1.0, 10.0])
    assert same(Saliency(grid).attribute(X, (1, 1)), [[0, 10, 0]] * 2)
    assert same(Saliency(grid).attribute(X, [(0, 0), (2, 1)]), [[1, 0, 0], [0, 0, 10]])
    with pytest.raises(ValueError, match="`target` says"):
        Saliency(linear).attribute(X)
    with pytest.raises(ValueError, match="2 examples, but 3 targets"):
        Saliency(linear).attribute(X, [0, 1, 0])
    with pytest.raises(TypeError, match="not ndarray"):
        Saliency(linear).attribute(np.ones((1, 3)))


def test_several_inputs_and_more() -> None:
    model = lambda a, b, power, factor: (a * b**power * factor).sum(1)
    a, b = X, X + 1
    for method in (InputXGradient, IntegratedGradients, FeatureAblation):
        of_a, of_b = method(model).attribute((a, b), additional_forward_args=(1, 2.0))
        assert of_a.shape == of_b.shape == X.shape
    assert same(
        InputXGradient(model).attribute((a, b), additional_forward_args=(1, 2.0))[0], 2 * a * b
    )


@pytest.mark.parametrize("method", METHODS)
def test_ways_to_integrate(method: str) -> None:
    points, weights = places(method, 64)
    assert sum([w * p**2 for p, w in zip(points, weights, strict=True)]) == pytest.approx(
        1 / 3, abs=0.02
    )
    found = IntegratedGradients(linear).attribute(X, target=0, method=method)
    if method != "riemann_trapezoid":  # whose weights do not add up to 1
        assert same(found, X * LINEAR[:1])


def test_integrated_gradients_add_up() -> None:
    model, x = network(), images()
    base = lg.ones(1, 2, 6, 6) * 0.1
    whole, delta = IntegratedGradients(model).attribute(
        x, base, target=[1, 2], n_steps=200, return_convergence_delta=True
    )
    change = model(x)[[0, 1], [1, 2]] - model(base.expand_as(x))[[0, 1], [1, 2]]
    assert same(whole.flatten(1).sum(1), change.detach(), 2e-3)
    assert same(delta, [0, 0], 2e-3)
    some = IntegratedGradients(model).attribute(
        x, base, target=[1, 2], n_steps=200, internal_batch_size=30
    )
    assert same(some, whole.detach())
    plain = IntegratedGradients(model, multiply_by_inputs=False).attribute(
        x, base, [1, 2], n_steps=200
    )
    assert same(plain * (x - base), whole.detach())


def test_noise() -> None:
    tunnel = NoiseTunnel(Saliency(linear))
    assert same(tunnel.attribute(X, target=0, abs=False), LINEAR[:1].expand(2, 3))
    lg.manual_seed(0)
    square = NoiseTunnel(InputXGradient(lambda x: x.sum(1)))
    mean = square.attribute(X, nt_samples=4000, stdevs=0.5)
    assert same(mean, X, 0.05)
    var = square.attribute(X, "vargrad", 4000, stdevs=0.5, nt_samples_batch_size=1500)
    assert same(var, lg.full((2, 3), 0.25), 0.03)
    squares = square.attribute(X, "smoothgrad_sq", 4000, stdevs=0.5)
    assert same(squares, X * X + 0.25, 0.15)
    with pytest.raises(ValueError, match="nt_type 'other'"):
        tunnel.attribute(X, "other", target=0)


def test_ablation_of_a_linear_model() -> None:
    ablation = FeatureAblation(linear)
    for together in (1, 2, 8):
        found = ablation.attribute(X, target=0, perturbations_per_eval=together)
        assert same(found, X * LINEAR[:1])
    mask = lg.tensor([0, 0, 1])
    grouped = ablation.attribute(X, target=0, feature_mask=mask)
    assert same(grouped, [[-3, -3, 9], [-2, -2, 6]])
    moved = ablation.attribute(X, baselines=1.0, target=[0, 1])
    assert same(moved, (X - 1) * LINEAR)


def test_one_answer_for_a_batch() -> None:
    found = FeatureAblation(lambda x: linear(x).sum()).attribute(X)
    assert same(found, (X * LINEAR.sum(0)).sum(0, keepdim=True))
    with pytest.raises(ValueError, match="perturbations_per_eval=1"):
        FeatureAblation(lambda x: linear(x).sum()).attribute(X, perturbations_per_eval=2)


def test_occlusion() -> None:
    line = lg.arange(1.0, 6.0).reshape(1, 5)
    occlusion = Occlusion(lambda x: x.sum(1))
    assert same(occlusion.attribute(line, (1,)), line)
    # Windows 0-1, 2-3 and 4-5 of five elements: the last has one.
    assert same(occlusion.attribute(line, (2,), 2, perturbations_per_eval=2), [[3, 3, 7, 7, 5]])
    # Those of 0-1, 1-2, ... overlap.
    assert same(occlusion.attribute(line, (2,)), [[3, 4, 6, 8, 9]])
    model, x = network(), images()
    found = occlusion_of(model).attribute(x, (2, 3, 3), (2, 2, 2), target=1)
    assert found.shape == x.shape
    for bad in ((3,), (2, 3, 9)):
        with pytest.raises(ValueError, match="window"):
            occlusion_of(model).attribute(x, bad, target=1)


def occlusion_of(model: Any) -> Occlusion:
    return Occlusion(model)


def test_layers() -> None:
    model, x = network(), images()
    layer = model[2]
    values = LayerActivation(model, layer).attribute(x)
    assert same(values, model[:3](x).detach())
    assert same(
        LayerActivation(model, layer).attribute(x, attribute_to_layer_input=True),
        model[:2](x).detach(),
    )
    times = LayerGradientXActivation(model, layer).attribute(x, 1)
    leaf = values.detach().requires_grad_()
    model[3:](leaf)[:, 1].sum().backward()
    assert same(times, (leaf * leaf.grad).detach())
    cam = LayerGradCam(model, layer).attribute(x, 1)
    wanted = (leaf.grad.mean((2, 3), keepdim=True) * leaf).sum(1, keepdim=True)
    assert same(cam, wanted.detach())
    assert (LayerGradCam(model, layer).attribute(x, 1, relu_attributions=True) >= 0).all()
    assert LayerAttribution.interpolate(cam, (6, 6)).shape == (2, 1, 6, 6)
    assert GuidedGradCam(model, layer).attribute(x, 1).shape == x.shape
    with pytest.raises(ValueError, match="does not use the layer ReLU"):
        LayerGradCam(model, nn.ReLU()).attribute(x, 1)


def test_integrated_gradients_of_a_layer_add_up() -> None:
    model, x = network(), images()
    for before in (False, True):
        found, delta = LayerIntegratedGradients(model, model[2]).attribute(
            x, target=1, n_steps=200, return_convergence_delta=True, attribute_to_layer_input=before
        )
        assert same(delta, [0, 0], 2e-3)
        wanted = model(x)[:, 1] - model(x * 0)[:, 1]
        assert same(found.flatten(1).sum(1), wanted.detach(), 2e-3)


def test_neurons() -> None:
    model, x = network(), images()
    leaf = x.clone().requires_grad_()
    model[:3](leaf)[:, 2, 1, 3].sum().backward()
    neuron = NeuronGradient(model, model[2])
    assert same(neuron.attribute(x, (2, 1, 3)), leaf.grad)
    assert same(neuron.attribute(x, lambda values: values[:, 2, 1, 3]), leaf.grad)
    paths = NeuronIntegratedGradients(model, model[2]).attribute(x, (2, 1, 3), n_steps=200)
    change = model[:3](x)[:, 2, 1, 3] - model[:3](x * 0)[:, 2, 1, 3]
    assert same(paths.flatten(1).sum(1), change.detach(), 2e-3)


def test_gradients_that_are_rectified() -> None:
    weight = lg.tensor([[1.0, -1.0], [2.0, 1.0]])
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    with lg.no_grad():
        model[0].weight.copy_(weight)
        model[2].weight.copy_(lg.tensor([[1.0, -1.0]]))
    x = lg.tensor([[2.0, 1.0]])  # both units are on: their slopes are 1 and -1
    assert same(Saliency(model).attribute(x, 0, abs=False), [[-1, -2]])
    assert same(GuidedBackprop(model).attribute(x, 0), [[1, -1]])
    off = lg.tensor([[-2.0, -1.0]])  # both are off
    assert same(GuidedBackprop(model).attribute(off, 0), [[0, 0]])
    assert same(Deconvolution(model).attribute(off, 0), [[1, -1]])
    assert same(Saliency(model).attribute(x, 0, abs=False), [[-1, -2]])  # hooks are gone
    with pytest.raises(TypeError, match="needs a Module"):
        GuidedBackprop(linear)
