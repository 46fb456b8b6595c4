"""Small questions about tensors."""

from __future__ import annotations

import pytest

import livegrad as lg


def test_answers() -> None:
    x = lg.tensor([1.0, 2.0])
    assert lg.is_nonzero(lg.tensor(2))
    with pytest.raises(RuntimeError):
        lg.is_nonzero(x)
    assert (lg.is_signed(x), lg.is_signed(x.to(lg.uint8))) == (True, False)
    assert lg.is_same_size(x, x + 1)
    assert not lg.is_same_size(x, x[:1])
    with lg.inference_mode():
        assert lg.is_inference(x * 2)
    assert not lg.is_inference(x)
    assert lg.get_device(x) == -1
    assert lg.is_storage(x.untyped_storage())
    assert not lg.is_storage(x)
    assert (lg.typename(x), lg.typename(3)) == ("torch.FloatTensor", "int")


def test_range_has_its_end() -> None:
    assert lg.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert lg.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]
    assert lg.range(2).tolist() == [0.0, 1.0, 2.0]
    assert lg.range(0, 3, 2, dtype=lg.int64).tolist() == [0, 2]


def test_embedding_takes_the_table_first() -> None:
    table = lg.eye(3).requires_grad_()
    rows = lg.embedding(table, lg.tensor([[1, 0]]), 0)
    assert rows.tolist() == [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]
    rows.sum().backward()
    assert table.grad is not None
    assert table.grad.tolist() == [[0.0] * 3, [1.0] * 3, [0.0] * 3]


def test_sizes_are_numbers() -> None:
    assert (lg.sym_int(3.5), lg.sym_max(1, 2), lg.sym_ite(True, 1, 2)) == (3, 2, 1)
    assert isinstance(lg.ones(2).shape[0], lg.SymInt)


def test_optimisers_written_elsewhere_find_their_names() -> None:
    from livegrad.optim.optimizer import Optimizer, _use_grad_for_differentiable

    class Halving(Optimizer):
        def __init__(self, params: object) -> None:
            super().__init__(params, {})

        @_use_grad_for_differentiable
        def step(self, closure: object = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.mul_(0.5)

    x = lg.ones(2, requires_grad=True)
    Halving([x]).step()
    assert x.tolist() == [0.5, 0.5]
