"""Attributions equal Captum's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
captum = pytest.importorskip("captum.attr")

import livegrad as lg  # noqa: E402
from livegrad import attr  # noqa: E402

# What Captum says about its own doings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require gradients"),
    pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU activations"),
]


def dense(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def convolutional(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 3)),
        *(nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)),
    )


def recurrent(lib: Any) -> Any:
    class Net(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = lib.nn.GRU(4, 6, batch_first=True)
            self.head = lib.nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.head(self.rnn(x)[0][:, -1])

    return Net()


NETWORKS = {
    "dense": (dense, (4, 6)),
    "conv": (convolutional, (3, 2, 8, 8)),
    "rnn": (recurrent, (3, 5, 4)),
}
LAYERS = {"dense": 2, "conv": 3}


def both(name: str) -> tuple[Any, Any, Any]:
    """Theirs, ours with its weights, and an input."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    theirs, ours = make(torch).eval(), make(lg).eval()
    ours.load_state_dict({k: lg.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours, np.random.default_rng(0).normal(size=shape).astype("f")


def check(a: Any, b: Any) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=2e-4, atol=2e-6)


def compare(name: str, kind: str, *args: Any, **kwargs: Any) -> None:
    theirs, ours, x = both(name)
    a = getattr(captum, kind)(theirs).attribute(torch.tensor(x), *args, target=1, **kwargs)
    b = getattr(attr, kind)(ours).attribute(lg.tensor(x), *args, target=1, **kwargs)
    check(a, b)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_of_inputs(name: str) -> None:
    compare(name, "Saliency")
    compare(name, "InputXGradient")
    compare(name, "IntegratedGradients", n_steps=20)
    compare(name, "IntegratedGradients", method="riemann_trapezoid", n_steps=7)
    compare(name, "IntegratedGradients", method="riemann_left", n_steps=7)
    compare(name, "FeatureAblation", perturbations_per_eval=3)


@pytest.mark.parametrize("name", ["dense", "conv"])
def test_rectified(name: str) -> None:
    compare(name, "GuidedBackprop")
    compare(name, "Deconvolution")


def test_occlusion() -> None:
    compare("dense", "Occlusion", (4,), strides=(3,))
    compare("conv", "Occlusion", (2, 3, 3), strides=(2, 2, 2), perturbations_per_eval=2)
    compare("rnn", "Occlusion", (2, 4))


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_of_layers(name: str) -> None:
    theirs, ours, x = both(name)
    a, b, place = torch.tensor(x), lg.tensor(x), LAYERS[name]
    for method in ("LayerGradCam", "LayerGradientXActivation", "LayerIntegratedGradients"):
        check(
            getattr(captum, method)(theirs, theirs[place]).attribute(a, target=1),
            getattr(attr, method)(ours, ours[place]).attribute(b, target=1),
        )
    neuron = (3,) if name == "dense" else (2, 1, 1)
    for method in ("NeuronGradient", "NeuronIntegratedGradients"):
        check(
            getattr(captum, method)(theirs, theirs[place]).attribute(a, neuron),
            getattr(attr, method)(ours, ours[place]).attribute(b, neuron),
        )


def test_guided_grad_cam() -> None:
    theirs, ours, x = both("conv")
    a = captum.GuidedGradCam(theirs, theirs[3]).attribute(torch.tensor(x), 1)
    check(a, attr.GuidedGradCam(ours, ours[3]).attribute(lg.tensor(x), 1))
