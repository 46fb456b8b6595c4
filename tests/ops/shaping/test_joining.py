"""Joining many tensors: in a tree, so that their number is not structure."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.runtime import sight
from livegrad.runtime.counters import counters


@pytest.mark.parametrize("count", [16, 17, 33, 65, 97, 347, 1025])
def test_many_are_joined_as_few_are(count):
    rng = np.random.default_rng(count)
    arrays = [rng.normal(size=(2, 1 + i % 3)).astype(np.float32) for i in range(count)]
    tensors = [lg.tensor(x, requires_grad=True) for x in arrays]
    joined = lg.cat(tensors, -1)
    np.testing.assert_array_equal(joined.detach().numpy(), np.concatenate(arrays, 1))
    weights = lg.arange(joined.numel(), dtype=lg.float32).reshape(joined.shape)
    (joined * weights).sum().backward()
    at = 0
    for x in tensors:
        assert x.grad.tolist() == weights[:, at : at + x.shape[1]].tolist()
        at += x.shape[1]
    with pytest.raises(RuntimeError, match=rf"tensor number {count} in the list"):
        lg.cat([*tensors, lg.ones(3, 1)], 1)


def test_stacks_of_new_lengths_make_no_pieces(monkeypatch):
    monkeypatch.setattr(sight.Policy, "pieces", True)

    def step(count):
        x = lg.ones(3, requires_grad=True)
        (lg.stack([x[i % 3] * 2 for i in range(count)]) * 3).sum().backward()
        return x.grad.tolist()

    for count in (127, 95, 1023):
        step(count)
    before = counters.pieces_made
    for count in (131, 204, 333):
        assert sum(step(count)) == count * 6
    assert counters.pieces_made == before


def test_strides_of_a_stack_along_a_new_last_dim_are_those_of_its_parts():
    windows = lg.arange(16.0).reshape(4, 4).unfold(-1, 4, 1)
    found = [lg.stack([windows] * 3, d).stride() for d in range(4)]
    assert found == [(16, 4, 4, 1), (12, 4, 4, 1), (12, 12, 4, 1), (12, 1, 3, 1)]
