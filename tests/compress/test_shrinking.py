"""Models with less in them: pruned, factorised, distilled, and what is learnt beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import compress, nn
from livegrad.vision.models import lenet, resnet18


def close(found: Any, wanted: Any, within: float = 1e-5) -> None:
    np.testing.assert_allclose(
        found.detach().numpy(), wanted.detach().numpy(), rtol=within, atol=within
    )


# -------------------------------------------------------------------------------- pruning


def test_channels_of_nothing_can_go() -> None:
    """What is taken out is what was weakest, with all that read it: the rest computes the same."""
    lg.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4, 8), nn.Tanh(), nn.Linear(8, 3),
    ).eval()  # fmt: skip
    with lg.no_grad():
        for layer, rows in ((net[0], [1, 4, 5]), (net[4], [0, 2]), (net[7], [0, 1, 2, 7])):
            for row in rows:
                layer.weight[row] = 0.0
                layer.bias[row] = 0.0
    x = lg.randn(3, 2, 10, 10)
    small = compress.prune_structured(net, 0.5)
    close(small(x), net(x))
    assert [tuple(small[i].weight.shape) for i in (0, 1, 4, 7, 9)] == [
        (3, 2, 3, 3), (3,), (2, 3, 3, 3), (4, 8), (3, 4),
    ]  # fmt: skip
    assert small[1].num_features == 3
    assert small[9].in_features == 4
    assert net[0].out_channels == 6


def test_lenet_gets_smaller_and_still_learns() -> None:
    lg.manual_seed(0)
    small = compress.prune_structured(lenet(), 0.5)
    assert sum(p.numel() for p in small.parameters()) < 61_706 / 3
    loss = small(lg.randn(4, 1, 28, 28)).square().mean()
    loss.backward()
    assert all(p.grad is not None for p in small.parameters())


def test_sums_stay_whole() -> None:
    """Outputs that meet others are not taken out; those inside a block are."""
    net = resnet18(num_classes=10).eval()
    small = compress.prune_structured(net, 0.25)
    assert small.layer1[0].conv1.out_channels == 48
    assert small.layer1[0].conv2.in_channels == 48
    assert small.layer1[0].conv2.out_channels == 64
    assert small(lg.randn(1, 3, 32, 32)).shape == (1, 10)


def test_refused_pruning() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="expected 0 <= amount < 1"):
        compress.prune_structured(net, 1.0)
    with pytest.raises(ValueError, match="'2' cannot be taken out; there are: 0"):
        compress.prune_structured(net, 0.5, names=["2"])

    class Asking(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match="Asking cannot be traced"):
        compress.prune_structured(Asking(), 0.5)


# ------------------------------------------------------------------------------- low rank


def test_all_of_the_energy_is_the_same_model() -> None:
    lg.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 12))
    with lg.no_grad():
        net[0].weight.copy_(lg.randn(30, 3) @ lg.randn(3, 20))
    small = compress.factorize(net, energy=1.0)
    assert [type(part) for part in small] == [nn.Sequential, nn.ReLU, nn.Linear]
    assert small[0][0].out_features == 3
    x = lg.randn(4, 20)
    close(small(x), net(x), 1e-4)


def test_factors_of_convolutions() -> None:
    lg.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(4, 16, 3, stride=2, padding=1))
    with lg.no_grad():
        net[0].weight.copy_((lg.randn(16, 2) @ lg.randn(2, 36)).reshape(16, 4, 3, 3))
    small = compress.factorize(net, rank=2)
    x = lg.randn(2, 4, 9, 9)
    close(small(x), net(x), 1e-4)
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in net.parameters())


def test_rank_as_a_share_and_refusals() -> None:
    net = nn.Linear(64, 64)
    assert compress.factorize(net, rank=0.25)[0].out_features == 16
    assert compress.factorize(net, rank=60) is not None  # would be larger: left as it is
    assert type(compress.factorize(net, rank=60)) is nn.Linear
    for wrong in ({}, {"rank": 2, "energy": 0.5}, {"energy": 1.5}, {"rank": 0}):
        with pytest.raises(ValueError, match="factorize"):
            compress.factorize(net, **wrong)
    with pytest.raises(ValueError, match="no module is named z"):
        compress.factorize(nn.Sequential(net), rank=2, names=["z"])


# ------------------------------------------------------------------------------- additions


def net_of_two() -> Any:
    lg.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 4))


def step_of(net: Any, x: Any) -> None:
    optimizer = lg.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (net(x) - 1).square().mean().backward()
        optimizer.step()


def test_lora(tmp_path: Path) -> None:
    x, plain = lg.randn(5, 6), net_of_two()
    net = compress.inject_lora(net_of_two(), r=2, alpha=4)
    close(net(x), plain(x))
    step_of(net, x)
    assert net[0].weight.tolist() == plain[0].weight.tolist()
    learnt = net(x)
    assert (learnt - plain(x)).abs().max().item() > 1e-3
    added = compress.added_state_dict(net)
    assert sorted(added) == ["0.lora_A", "0.lora_B", "2.lora_A", "2.lora_B"]
    lg.save(added, tmp_path / "added.safetensors")
    again = compress.inject_lora(net_of_two(), r=2, alpha=4)
    compress.load_added(again, lg.load(tmp_path / "added.safetensors"))
    assert again(x).tolist() == learnt.tolist()
    merged = compress.merge_lora(net)
    assert type(merged[0]) is nn.Linear
    assert sorted(merged.state_dict()) == sorted(plain.state_dict())
    close(merged(x), learnt)


def test_adapters() -> None:
    x, plain = lg.randn(5, 6), net_of_two()
    net = compress.inject_adapters(net_of_two(), ["0"], bottleneck=3)
    close(net(x), plain(x))
    step_of(net, x)
    assert net[0].weight.tolist() == plain[0].weight.tolist()
    assert (net(x) - plain(x)).abs().max().item() > 1e-3
    assert all(name.startswith("0.adapter.") for name in compress.added_state_dict(net))
    again = compress.inject_adapters(net_of_two(), ["0"], bottleneck=3)
    compress.load_added(again, compress.added_state_dict(net))
    close(again(x), net(x))


def test_refused_additions() -> None:
    with pytest.raises(ValueError, match="no module of Sequential is named"):
        compress.inject_lora(net_of_two(), ["query"])
    with pytest.raises(TypeError, match="1 is a GELU; expected a Linear"):
        compress.inject_lora(net_of_two(), ["1"])
    with pytest.raises(ValueError, match="Give width="):
        compress.inject_adapters(net_of_two(), ["1"])
    with pytest.raises(ValueError, match="missing 0.lora_A"):
        compress.load_added(compress.inject_lora(net_of_two(), ["0"]), {})


# ------------------------------------------------------------------------------ distillation


def test_distillation_loss() -> None:
    lg.manual_seed(0)
    scores, labels = lg.randn(6, 4), lg.tensor([0, 1, 2, 3, 0, 1])
    alone = F.cross_entropy(scores, labels)
    close(compress.distillation_loss(scores, scores, labels, alpha=0.0), alone)
    assert compress.distillation_loss(scores, scores).item() == pytest.approx(0, abs=1e-6)
    t = 3.0
    other = lg.randn(6, 4)
    p, q = F.softmax(other / t, 1), F.softmax(scores / t, 1)
    wanted = (p * (p / q).log()).sum(1).mean() * t * t
    close(compress.distillation_loss(scores, other, temperature=t), wanted)
    with pytest.raises(ValueError, match="temperature"):
        compress.distillation_loss(scores, other, temperature=0)


def test_a_student_learns_from_answers() -> None:
    lg.manual_seed(0)
    x = lg.randn(128, 6)
    teacher, student = nn.Linear(6, 4), nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = lg.optim.Adam(student.parameters(), lr=2e-2)
    seen: list[int] = []
    losses = compress.distill(
        student, teacher, [x[:64], x[64:]], optimizer, 25, on_epoch=lambda e, _: seen.append(e)
    )
    assert losses[-1] < losses[0] * 0.3
    assert seen == list(range(25))
    assert teacher.training
    assert student.training
    with pytest.raises(ValueError, match="no batches"):
        compress.distill(student, teacher, [], optimizer)
