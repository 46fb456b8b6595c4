"""torchvision's models with random weights: their state dicts load here, and results are equal."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import vision_oracle

import livegrad as lg
from livegrad.vision import models

torchvision = vision_oracle.torchvision()
torch = pytest.importorskip("torch")

OURS = {"lenet", "unet"}
SHARED = [name for name in models.list_models() if name not in OURS]

# One of each kind, small, and the size of its images.
RUN = {
    "alexnet": 64,
    "vgg11_bn": 32,
    "resnet18": 64,
    "resnet50": 64,
    "resnext50_32x4d": 64,
    "wide_resnet50_2": 32,
    "squeezenet1_0": 64,
    "squeezenet1_1": 64,
    "densenet121": 64,
    "googlenet": 64,
    "inception_v3": 96,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "mobilenet_v3_large": 64,
    "mnasnet0_75": 64,
    "shufflenet_v2_x0_5": 64,
    "efficientnet_b0": 64,
    "efficientnet_b5": 32,
    "efficientnet_v2_s": 32,
    "regnet_x_400mf": 64,
    "regnet_y_400mf": 64,
    "convnext_tiny": 64,
    "vit_b_32": 224,
    "swin_t": 96,
    "swin_v2_t": 96,
    "fcn_resnet50": 40,
    "deeplabv3_mobilenet_v3_large": 64,
    "lraspp_mobilenet_v3_large": 64,
}


def theirs(name, **options):
    build = torchvision.models.get_model_builder(name)
    if "weights_backbone" in inspect.signature(build).parameters:
        options["weights_backbone"] = None
    with warnings.catch_warnings():  # of weights that will start differently
        warnings.simplefilter("ignore")
        return build(weights=None, **options)


def randomised(net):
    """Weights and statistics that keep values near 1, whatever the network starts with.

    With weights of twice the variance, `efficientnet_v2_s` is too ill-conditioned to be compared:
    torchvision's own results move by 6e-7 when the input moves by one rounding.
    """
    torch.manual_seed(0)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if "running_var" in key:
                value.uniform_(0.5, 1.5)
            elif "running_mean" in key or key.endswith("bias"):
                value.normal_(0, 0.1)
            elif value.ndim == 1 and value.is_floating_point():
                value.uniform_(0.5, 1.5)
            elif value.is_floating_point() and "relative_coords" not in key:
                value.normal_(0, (1 / max(1, value[0].numel())) ** 0.5)
    return net.double().eval()  # so that equal means equal


def outputs(found):
    return list(found.values()) if isinstance(found, dict) else [found]


@pytest.mark.parametrize("name", SHARED)
def test_structure(name):
    """Names, order, shapes and everything that modules print."""
    if "regnet" in name and not name.endswith("_400mf"):
        pytest.skip("torchvision's RegNet cannot be made on the meta device; 400mf stands for all")
    options = {"aux_loss": True} if name.startswith(("fcn", "deeplab")) else {}
    with torch.device("cpu" if "regnet" in name else "meta"):
        their = theirs(name, **options)
    with lg.device("meta"):
        our = models.get_model(name, **options)
    assert repr(our) == repr(their)
    expected = [(key, tuple(value.shape)) for key, value in their.state_dict().items()]
    assert [(key, tuple(value.shape)) for key, value in our.state_dict().items()] == expected


@pytest.mark.parametrize("name", RUN)
def test_outputs(name):
    their = randomised(theirs(name))
    state = {key: lg.tensor(value.numpy()) for key, value in their.state_dict().items()}
    our = models.get_model(name).double().eval()
    our.load_state_dict(state)
    size = RUN[name]
    x = np.random.default_rng(0).standard_normal((2, 3, size, size))
    with torch.no_grad():
        expected = outputs(their(torch.tensor(x)))
    with lg.no_grad():
        found = outputs(our(lg.tensor(x)))
    for a, b in zip(found, expected, strict=True):
        scale = float(b.abs().max())
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11 * scale)
