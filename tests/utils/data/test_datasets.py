"""Datasets: made of tensors, of one another, split."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return i * i


class Count(IterableDataset):
    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __iter__(self):
        return iter(range(self.start, self.stop))

    def __len__(self):
        return self.stop - self.start


def test_tensor_dataset():
    x, y = lg.arange(12).reshape(4, 3), lg.arange(4)
    data = TensorDataset(x, y)
    assert len(data) == 4
    assert [v.tolist() for v in data[2]] == [[6, 7, 8], 2]
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(x, lg.arange(3))


@pytest.mark.parametrize("dtype", [lg.float32, lg.bfloat16, lg.int64, lg.bool])
def test_rows_are_gathered_as_they_would_be_collated(dtype):
    data = TensorDataset((lg.arange(24).reshape(4, 3, 2) % 7).to(dtype), lg.arange(4))
    indices = [3, 0, 3]
    gathered = data.__getbatch__(indices)
    plain = DataLoader(data, sampler=indices, batch_size=3, collate_fn=lambda rows: rows)
    for got, want in zip(gathered, zip(*next(iter(plain)), strict=True), strict=True):
        assert got.dtype is want[0].dtype
        assert got.tolist() == [row.tolist() for row in want]


def test_gathered_rows_are_the_present_ones():
    x = lg.zeros(3, 2)
    data = Subset(TensorDataset(x), [2, 1])
    x[1] = 5
    assert next(iter(DataLoader(data, 2)))[0].tolist() == [[0, 0], [5, 5]]


def test_rows_keep_gradients():
    x = lg.ones(3, 2, requires_grad=True)
    (batch,) = next(iter(DataLoader(TensorDataset(x), 2)))
    batch.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_subclass_of_tensor_dataset_is_asked():
    class Doubled(TensorDataset):
        def __getitem__(self, i):
            return tuple(2 * v for v in super().__getitem__(i))

    (batch,) = next(iter(DataLoader(Doubled(lg.arange(3)), 3)))
    assert batch.tolist() == [0, 2, 4]


def test_stack_dataset():
    assert StackDataset(Squares(3), Squares(3))[2] == (4, 4)
    assert StackDataset(a=Squares(3), b=Squares(3))[2] == {"a": 4, "b": 4}
    named = StackDataset(a=Squares(4), b=Subset(Squares(9), [1, 3, 5, 7]))
    assert named.__getitems__([0, 3]) == [{"a": 0, "b": 1}, {"a": 9, "b": 49}]
    assert StackDataset(Squares(4), Squares(4)).__getitems__([1, 2]) == [(1, 1), (4, 4)]
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset(Squares(3), Squares(4))


def test_concat_dataset():
    data = Squares(2) + Squares(3)
    assert isinstance(data, ConcatDataset)
    assert [data[i] for i in range(5)] == [0, 1, 0, 1, 4]
    assert data[-1] == 4
    with pytest.raises(ValueError, match="absolute value"):
        data[-6]
    with pytest.raises(IndexError):
        ConcatDataset([[1, 2], [3]])[3]
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Squares(2), Count(0, 2)])


def test_chain_dataset():
    data = Count(0, 2) + Count(5, 7)
    assert list(data) == [0, 1, 5, 6]
    assert len(data) == 4
    with pytest.raises(AssertionError, match="only supports"):
        list(ChainDataset([Squares(2)]))


def test_subset():
    data = Subset(Squares(10), [3, 5])
    assert (len(data), data[1]) == (2, 25)
    assert Subset(np.arange(10) * 10, [3, 5, 7])[[0, 2]].tolist() == [30, 70]

    class Half(Subset):
        def __getitem__(self, i):
            return 0

    with pytest.raises(NotImplementedError, match="__getitems__"):
        Half(Squares(3), [0])


def test_random_split():
    parts = random_split(range(10), [3, 7], lg.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [3, 7]
    assert sorted(v for p in parts for v in p) == list(range(10))
    again = random_split(range(10), [3, 7], lg.Generator().manual_seed(1))
    assert [list(p) for p in parts] == [list(p) for p in again]


def test_random_split_by_fractions():
    assert [len(p) for p in random_split(range(11), [0.3, 0.3, 0.4])] == [4, 3, 4]
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        random_split(range(1), [0.9, 0.1])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        random_split(range(10), [1.5, -0.5])
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(range(10), [3, 8])
