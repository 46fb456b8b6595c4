"""Networks that are changed while they are trained: replace, insert, remove, freeze, unfreeze."""

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim

X = lg.tensor(np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32))
Y = X.sum(1, keepdim=True)


def train(net, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(X), Y)
        loss.backward()
        optimizer.step()
    return loss.item()


def values(module):
    return {key: value.clone().numpy() for key, value in module.state_dict().items()}


def changed(before, after):
    return {key for key in after if key in before and not np.array_equal(before[key], after[key])}


def test_a_layer_is_inserted_replaced_and_removed():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    train(net, optimizer)

    net.insert(1, nn.LayerNorm(8))
    optimizer.add_param_group({"params": net[1].parameters(), "lr": 0.1})
    before = values(net)
    train(net, optimizer)
    assert changed(before, values(net)) == set(before)

    net[2] = nn.Tanh()
    old, net[3] = net[3], nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    before, left = values(net), values(old)
    train(net, optimizer)
    assert changed(before, values(net)) == set(before)
    assert changed(left, values(old)) == set()

    del net[1]
    assert list(net.state_dict())[:3] == ["0.weight", "0.bias", "2.0.weight"]
    assert train(net, optim.SGD(net.parameters(), lr=0.05), 200) < 0.5


def test_frozen_layers_stay_and_learn_again():
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net[0].requires_grad_(False)
    before = values(net)
    train(net, optimizer)
    assert changed(before, values(net)).isdisjoint({"0.weight", "0.bias"})
    assert net[0].weight.grad is None
    net[0].requires_grad_(True)
    net[1].eval()  # its statistics are frozen, its weights are not
    before = values(net)
    train(net, optimizer)
    moved = changed(before, values(net))
    assert {"0.weight", "1.weight"} <= moved
    assert moved.isdisjoint({"1.running_mean", "1.num_batches_tracked"})


def test_a_parameter_is_replaced_and_tied():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    net[1].weight = net[0].weight
    net[0].bias = None
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    train(net, optimizer)
    assert net[0].weight is net[1].weight
    assert len(list(net.parameters())) == 4
    net[1].weight = nn.Parameter(lg.eye(4))
    train(net, optim.SGD(net.parameters(), lr=0.1))
    assert not np.array_equal(net[0].weight.detach().numpy(), net[1].weight.detach().numpy())


def test_the_shape_of_the_network_follows_the_loop():
    """Each step runs another part of the network, which also grows."""
    lg.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(4, 4)])
    head = nn.Linear(4, 1)
    losses = []
    for step in range(12):
        if step % 4 == 3:
            layers.append(nn.Linear(4, 4))
        depth = 1 + step % len(layers)
        optimizer = optim.SGD([*layers.parameters(), *head.parameters()], lr=0.05)
        x = X
        for layer in layers[:depth]:
            x = lg.tanh(layer(x))
        loss = nn.functional.mse_loss(head(x), Y)
        loss.backward()
        assert all((p.grad is None) == (i >= depth) for i, m in enumerate(layers)
                   for p in m.parameters())  # fmt: skip
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_a_hook_added_and_removed_in_between():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.0)
    plain = train(net, optimizer, 1)
    with net[0].register_forward_hook(lambda module, args, out: out * 0):
        assert train(net, optimizer, 1) != pytest.approx(plain)
    assert train(net, optimizer, 1) == pytest.approx(plain)
