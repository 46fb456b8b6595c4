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

# One of each kind, small: the others of a kind are slow, and as right.
KINDS = {
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2",
    "squeezenet1_0", "squeezenet1_1", "densenet121", "googlenet", "inception_v3", "mobilenet_v2",
    "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet0_75", "shufflenet_v2_x0_5",
    "efficientnet_b0", "efficientnet_b5", "efficientnet_v2_s", "regnet_x_400mf", "regnet_y_400mf",
    "convnext_tiny", "vit_b_32", "swin_t", "swin_v2_t", "fcn_resnet50",
    "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large",
}  # fmt: skip
DETECTORS = {"ssd300_vgg16", "retinanet_resnet50_fpn"}  # these are in test_vision_ops_torch.py
NETWORKS = [
    name if name in KINDS else pytest.param(name, marks=pytest.mark.slow)
    for name in SHARED
    if name not in DETECTORS
]

# The size of images for networks of these beginnings, where it is not 64.
SIZES = {"vgg": 32, "wide": 32, "inception": 96, "vit": 224, "swin": 96, "fcn": 40}


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


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs(name):
    their = randomised(theirs(name))
    state = {key: lg.from_numpy(value.numpy()) for key, value in their.state_dict().items()}
    with lg.device("meta"):
        our = models.get_model(name).eval()
    our.load_state_dict(state, assign=True)  # the largest have 5 GB of numbers: one set will do
    size = next((size for begin, size in SIZES.items() if name.startswith(begin)), 64)
    x = np.random.default_rng(0).standard_normal((2, 3, size, size))
    with torch.no_grad():
        expected = outputs(their(torch.tensor(x)))
    with lg.no_grad():
        found = outputs(our(lg.tensor(x)))
    for a, b in zip(found, expected, strict=True):
        scale = float(b.abs().max())
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11 * scale)
