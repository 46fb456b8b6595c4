"""Containers, and what modules look like when printed."""

from collections import OrderedDict

import pytest

import livegrad as lg
from livegrad import nn


def test_sequential_as_a_list():
    a, b, c = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    net = nn.Sequential(a, b, c)
    assert net(lg.ones(5, 2)).shape == (5, 1)
    assert len(net) == 3
    assert net[0] is a
    assert net[-1] is c
    assert list(net[1:]) == [b, c]
    assert isinstance(net[:2], nn.Sequential)
    net.append(nn.Tanh()).insert(1, nn.Identity())
    names = [type(m).__name__ for m in net]
    assert names == ["Linear", "Identity", "ReLU", "Linear", "Tanh"]
    del net[1]
    assert list(net._modules) == ["0", "1", "2", "3"]
    net[1] = nn.Sigmoid()
    assert type(net[1]) is nn.Sigmoid
    assert len(net + nn.Sequential(a)) == 5
    assert len(net.extend([a, b])) == 6
    assert type(net.pop(-1)) is nn.ReLU
    with pytest.raises(IndexError, match="out of range"):
        net[10]
    with pytest.raises(TypeError, match="is not a Module subclass"):
        nn.Sequential(3)


def test_sequential_of_named_modules():
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU()))
    assert type(net.act) is nn.ReLU
    assert list(net[1:]._modules) == ["act"]


def test_module_list():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    assert len(list(layers.parameters())) == 6
    layers.append(nn.ReLU())
    layers.insert(0, nn.Identity())
    layers += [nn.Tanh()]
    assert [type(m).__name__ for m in layers][::5] == ["Identity", "Tanh"]
    assert isinstance(layers[1:3], nn.ModuleList)
    del layers[0:2]
    assert len(layers) == 4
    assert list(layers._modules) == ["0", "1", "2", "3"]
    with pytest.raises(NotImplementedError):
        layers(1)
    with pytest.raises(TypeError, match="iterable"):
        layers.extend(3)


def test_module_dict():
    table = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    table["c"] = nn.Tanh()
    assert list(table) == ["a", "b", "c"]
    assert "b" in table
    assert type(table.pop("b")) is nn.ReLU
    assert list(table.keys()) == ["a", "c"]
    table.update([("d", nn.Identity())])
    assert len(table) == 3
    table.clear()
    assert len(table) == 0


def test_parameter_list_and_dict():
    params = nn.ParameterList([lg.zeros(2), nn.Parameter(lg.ones(3))])
    params.append(lg.zeros(1))
    assert len(params) == 3
    assert [p.numel() for p in params] == [2, 3, 1]
    assert len(list(params.parameters())) == 3
    assert params[-1].requires_grad
    assert len(params[:2]) == 2
    table = nn.ParameterDict({"a": lg.zeros(2)})
    table["b"] = lg.ones(1)
    assert [n for n, _ in table.named_parameters()] == ["a", "b"]
    assert table.pop("a").numel() == 2
    assert "a" not in table
    assert list(table.state_dict()) == ["b"]


def test_more_of_what_dicts_and_lists_can():
    table = nn.ParameterDict({"a": lg.zeros(1), "b": lg.ones(1)})
    assert list(reversed(table)) == ["b", "a"]
    assert table.setdefault("c", lg.ones(2)) is table["c"]
    other = table.copy()
    assert other["a"] is table["a"]
    assert other.popitem()[0] == "c"
    assert list((other | nn.ParameterDict({"d": lg.zeros(1)})).keys()) == ["a", "b", "d"]
    other |= nn.ParameterDict({"b": lg.zeros(3)})
    assert other["b"].numel() == 3
    assert list(table.fromkeys(["x", "y"])) == ["x", "y"]
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net *= 2
    assert len(net) == 4
    assert net[2] is net[0]


def test_repr():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)] + [nn.ReLU()])
            self.norm = nn.LayerNorm(2)

    assert repr(Net()) == (
        "Net(\n"
        "  (layers): ModuleList(\n"
        "    (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "    (2): ReLU()\n"
        "  )\n"
        "  (norm): LayerNorm((2,), eps=1e-05, elementwise_affine=True, bias=True)\n"
        ")"
    )
    assert repr(nn.Sequential()) == "Sequential()"
    assert repr(nn.Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"
    assert repr(nn.Embedding(4, 5, padding_idx=-1)) == "Embedding(4, 5, padding_idx=3)"
