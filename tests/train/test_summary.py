"""summary(): shapes, parameters, FLOPs and memory, without computing anything."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad import nn, train


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 4 * 4, 10))
        self.tied = nn.Linear(10, 10)
        self.tied_again = nn.Linear(10, 10)
        self.tied_again.weight = self.tied.weight
        self.unused = nn.Linear(2, 2)
        self.conv.weight.requires_grad_(False)

    def forward(self, x):
        x = lg.relu(self.norm(self.conv(x)))
        x = self.head(x)
        for _ in range(2):
            x = self.tied(x)
        return self.tied_again(x) @ lg.ones(10, 6)


@pytest.fixture
def found():
    return train.summary(Net(), (2, 3, 4, 4))


def row(found, name):
    return next(r for r in found.rows if r.name == name)


def test_rows(found):
    conv = row(found, "conv")
    assert conv.outputs == [(2, 8, 4, 4)]
    assert conv.parameters == 8 * 3 * 9
    assert conv.flops == 2 * (2 * 8 * 16) * (3 * 9)
    assert conv.memory == 2 * 8 * 16 * 4
    linear = row(found, "head.1")
    assert (linear.parameters, linear.flops) == (1290, 2 * 2 * 128 * 10)
    tied = row(found, "tied")
    assert (tied.parameters, tied.calls, tied.flops) == (110, 2, 2 * 2 * 2 * 100)
    assert row(found, "tied_again").parameters == 10  # the weight is counted above
    assert row(found, "unused").calls == 0
    assert row(found, "").flops == 2 * 2 * 10 * 6  # what the model does itself
    assert row(found, "").outputs == [(2, 6)]


def test_totals(found):
    net = Net()
    assert found.parameters == sum(p.numel() for p in net.parameters())
    assert found.trainable == found.parameters - 8 * 3 * 9
    assert found.flops == sum(r.flops for r in found.rows)
    assert sum(r.parameters for r in found.rows) == found.parameters
    assert found.parameter_bytes == 4 * found.parameters
    assert found.input_bytes == 4 * 2 * 3 * 16
    text = str(found)
    assert "  conv (Conv2d)" in text
    assert "[2, 8, 4, 4]" in text
    assert "tied (Linear) ×2" in text
    assert "not called" in text


def test_nothing_is_computed_and_nothing_changes(counted):
    net = Net()
    net.norm.train()
    before = {name: value.tolist() for name, value in net.state_dict().items()}
    state = lg.get_rng_state().tolist()
    with counted() as c:
        train.summary(net, lg.zeros(2, 3, 4, 4))
    assert c.flushes == 0
    assert lg.get_rng_state().tolist() == state
    assert {name: value.tolist() for name, value in net.state_dict().items()} == before
    assert all(module.training for module in net.modules())
    assert "forward" not in vars(net.conv)


def test_a_model_that_looks_at_values():
    class Looking(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x, *, scale):
            x = self.inner(x * scale)
            while x.abs().sum().item() > 1e-3:
                x = self.inner(x) * 0
            return {"out": x, "more": [x, x]}

    found = train.summary(Looking(), lg.ones(1, 4), scale=2.0)
    assert row(found, "inner").calls == 2
    assert row(found, "").outputs == [(1, 4)] * 3


def test_recurrent_layers():
    found = train.summary(nn.LSTM(8, 16, bidirectional=True), (7, 2, 8))
    # Of each direction: 14 rows through the weights of 4 gates, from input and from state.
    assert found.flops == 2 * (2 * 14 * 64 * 8 + 2 * 14 * 64 * 16)
    assert found.rows[0].outputs == [(7, 2, 32), (2, 2, 16), (2, 2, 16)]


def test_an_error_in_the_model_leaves_no_trace():
    net = Net()
    with pytest.raises(RuntimeError):
        train.summary(net, (2, 5, 4, 4))
    assert "forward" not in vars(net)
    assert net(lg.zeros(2, 3, 4, 4)).shape == (2, 6)
