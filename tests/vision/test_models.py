"""Networks: torchvision's names and sizes of weights, weights from files, training."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.vision import models
from livegrad.vision.models._utils import IntermediateLayerGetter, make_divisible

# Written from torchvision: the number of parameters, a digest of names and shapes in order.
EXPECTED = json.loads(Path(__file__).with_name("state_dicts.json").read_text())
QUICK = {
    "alexnet", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2",
    "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "efficientnet_v2_s", "densenet121",
    "squeezenet1_1", "vit_b_16", "convnext_tiny", "googlenet", "inception_v3", "mnasnet0_5",
    "shufflenet_v2_x0_5", "regnet_y_400mf", "swin_t", "swin_v2_t", "fcn_resnet50",
    "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "ssd300_vgg16",
    "retinanet_resnet50_fpn",
}  # fmt: skip
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in EXPECTED]


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_torchvisions(name: str) -> None:
    with lg.device("meta"):
        net = models.get_model(name)
    text = "".join(f"{key}{tuple(value.shape)}" for key, value in net.state_dict().items())
    found = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert [sum(p.numel() for p in net.parameters()), found] == EXPECTED[name]


def test_every_model_is_listed() -> None:
    assert set(models.list_models()) == {*EXPECTED, "lenet", "unet"}
    assert models.list_models(include="vit*", exclude=["*_l_*"]) == [
        "vit_b_16",
        "vit_b_32",
        "vit_h_14",
    ]
    assert models.list_models(models.segmentation, include="fcn*") == [
        "fcn_resnet101",
        "fcn_resnet50",
    ]
    assert models.get_model_builder("ResNet18") is models.resnet18
    with pytest.raises(ValueError, match="Unknown model nothing"):
        models.get_model("nothing")


def test_weights_from_a_file_and_from_a_dict(tmp_path: Path) -> None:
    net = models.lenet(num_classes=3)
    path = tmp_path / "lenet.pt"
    lg.save(net.state_dict(), path)
    x = lg.randn(2, 1, 28, 28)
    for weights in (path, str(path), net.state_dict()):
        other = models.lenet(weights=weights, num_classes=3)
        assert (other(x) == net(x)).all()
    with pytest.raises(RuntimeError, match="size mismatch"):
        models.lenet(weights=path)
    with pytest.raises(FileNotFoundError, match="nowhere.pth"):
        models.lenet(weights="nowhere.pth")


def test_names_of_weights_say_where_the_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for weights in (models.SqueezeNet1_1_Weights.DEFAULT, "IMAGENET1K_V1", True):
        with pytest.raises(FileNotFoundError, match=r"squeezenet1_1-….pth there, or pass weights="):
            models.squeezenet1_1(weights=weights)
    with pytest.raises(FileNotFoundError):
        models.squeezenet1_1(pretrained=True)
    assert isinstance(models.squeezenet1_1(pretrained=False), models.SqueezeNet)
    directory = tmp_path / "hub" / "checkpoints"
    directory.mkdir(parents=True)
    lg.save(models.squeezenet1_1().state_dict(), directory / "squeezenet1_1-b8a52dc0.pth")
    models.squeezenet1_1(weights=models.get_weight("SqueezeNet1_1_Weights.DEFAULT"))
    with pytest.raises(AttributeError):
        models.Nothing_Weights


def test_lenet_learns() -> None:
    lg.manual_seed(0)
    net = models.lenet(in_channels=1, image_size=16, num_classes=4)
    optimizer = optim.Adam(net.parameters(), lr=3e-3)
    labels = lg.arange(32) % 4
    images = lg.zeros(32, 1, 16, 16)
    for i in range(32):  # a bright corner
        images[i, 0, 8 * (i % 4 // 2) :, 8 * (i % 2) :] = 1.0 + 0.01 * i
    first = None
    for _ in range(25):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        first = first or loss.item()
    assert loss.item() < 0.5 * first
    with pytest.raises(ValueError, match="too small"):
        models.lenet(image_size=8)


@pytest.mark.parametrize("size", [(16, 16), (17, 13)])
def test_unet_keeps_the_size(size: tuple[int, int]) -> None:
    net = models.unet(in_channels=2, num_classes=3, features=(4, 8, 8))
    assert net(lg.randn(2, 2, *size)).shape == (2, 3, *size)


def test_unet_trains() -> None:
    net = models.UNet(1, 1, (4, 8))
    net(lg.randn(1, 1, 8, 8)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_small_resnet_trains_on_any_number_of_classes() -> None:
    net = models.resnet.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], 5, zero_init_residual=True)
    x = lg.randn(2, 3, 32, 32)
    F.cross_entropy(net(x), lg.tensor([0, 4])).backward()
    assert all(p.grad is not None for p in net.parameters())
    with pytest.raises(ValueError, match="3-element"):
        models.resnet18(replace_stride_with_dilation=[True])
    with pytest.raises(NotImplementedError, match="Dilation > 1"):
        models.resnet18(replace_stride_with_dilation=[False, True, True])


def test_googlenet_gives_three_results_while_training() -> None:
    with lg.device("meta"):
        net = models.googlenet(num_classes=5)
        found = net(lg.empty(2, 3, 64, 64))
    assert [tuple(x.shape) for x in found] == [(2, 5)] * 3
    assert found._fields == ("logits", "aux_logits2", "aux_logits1")
    with lg.device("meta"):
        assert net.eval()(lg.empty(2, 3, 64, 64)).shape == (2, 5)


def test_segmentation_gives_a_dict_of_the_size_of_the_images() -> None:
    with lg.device("meta"):
        net = models.segmentation.fcn_resnet50(num_classes=4, aux_loss=True)
        found = net(lg.empty(1, 3, 40, 33))
    assert {name: tuple(x.shape) for name, x in found.items()} == {
        "out": (1, 4, 40, 33),
        "aux": (1, 4, 40, 33),
    }


def test_layers_inside_a_network() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
    inner = IntermediateLayerGetter(net, {"0": "first", "1": "second"})
    found = inner(lg.ones(1, 2))
    assert list(found) == ["first", "second"]
    assert (found["second"] == found["first"].relu()).all()
    assert len(inner) == 2
    with pytest.raises(ValueError, match="not present"):
        IntermediateLayerGetter(net, {"7": "x"})


@pytest.mark.parametrize(("width", "expected"), [(32, 32), (33, 32), (3, 8), (11, 16), (38.4, 40)])
def test_widths(width: float, expected: int) -> None:
    assert make_divisible(width, 8) == expected
