"""The loader without workers, and what it says about its arguments."""

import warnings

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    get_worker_info,
)


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return self.count


def lists(loader):
    return [batch.tolist() for batch in loader]


def test_batches_in_order():
    assert lists(DataLoader(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert lists(DataLoader(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert get_worker_info() is None


def test_shuffled_epochs_follow_the_generator():
    def epochs():
        loader = DataLoader(range(20), 4, True, generator=lg.Generator().manual_seed(2))
        return [lists(loader) for _ in range(2)]

    first, second = epochs()
    assert first != second
    assert sorted(i for batch in first for i in batch) == list(range(20))
    assert epochs() == [first, second]


def test_the_order_does_not_depend_on_the_workers():
    def order(workers):
        generator = lg.Generator().manual_seed(2)
        return lists(DataLoader(range(20), 4, True, num_workers=workers, generator=generator))

    assert order(0) == order(1) == order(2)


def test_without_batches():
    loader = DataLoader([np.ones(2), np.zeros(2)], batch_size=None)
    assert lists(loader) == [[1, 1], [0, 0]]
    assert len(loader) == 2


def test_batch_sampler_and_sampler():
    assert lists(DataLoader(range(9), 2, sampler=[8, 1, 5])) == [[8, 1], [5]]
    assert lists(DataLoader(range(9), batch_sampler=BatchSampler([3, 4, 5], 2, True))) == [[3, 4]]


def test_streams():
    loader = DataLoader(Stream(5), 2)
    assert lists(loader) == [[0, 1], [2, 3], [4]]
    assert len(loader) == 3
    assert lists(DataLoader(Stream(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(2), None)) == [0, 1]


def test_a_stream_longer_than_it_said():
    class Liar(Stream):
        def __len__(self):
            return 2

    loader = DataLoader(Liar(3), None)
    len(loader)
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert list(loader) == [0, 1, 2]


def test_getitems_is_preferred():
    class Many(Dataset):
        def __getitems__(self, indices):
            return [10 * i for i in indices]

        def __len__(self):
            return 3

    assert lists(DataLoader(Many(), 3)) == [[0, 10, 20]]


def test_loading_leaves_what_is_pending_pending(counted):
    data = TensorDataset(lg.arange(40).reshape(10, 4).float(), lg.arange(10))
    loader = DataLoader(data, 5, shuffle=True)
    data.tensors[0].tolist(), data.tensors[1].tolist()
    with counted() as rise:
        pending = lg.ones(3) * 2
        assert len([batch for batch in loader]) == 2  # noqa: C416
    assert rise.flushes == 0
    assert pending.tolist() == [2, 2, 2]


def test_what_is_fixed_stays():
    loader = DataLoader(range(3))
    for name in ("batch_size", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
            setattr(loader, name, None)
    loader.timeout = 3


def test_pinned_memory_is_accepted():
    assert lists(DataLoader(range(2), pin_memory=True)) == [[0], [1]]


BAD = [
    ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
    ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, ValueError, "could only be specified in multiprocessing"),
    ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "should be non-negative"),
    ({"persistent_workers": True}, ValueError, "needs num_workers > 0"),
    ({"sampler": [0], "shuffle": True}, ValueError, "mutually exclusive with shuffle"),
    ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "batch_sampler option is mutually"),
    ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "batch_sampler option is mutually"),
    ({"batch_size": None, "drop_last": True}, ValueError, "disables auto-batching"),
    ({"batch_size": 0}, ValueError, "batch_size should be a positive integer"),
    ({"multiprocessing_context": "fork"}, ValueError, "can only be used with multi-process"),
    ({"multiprocessing_context": "x", "num_workers": 1}, ValueError, "valid start method in"),
    ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "valid context object"),
]


@pytest.mark.parametrize(("arguments", "kind", "text"), BAD)
def test_bad_arguments(arguments, kind, text):
    with pytest.raises(kind, match=text):
        DataLoader(range(3), **arguments)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_streams_have_no_order(name):
    with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
        DataLoader(Stream(3), **{name: [True]})


def test_what_only_iterating_shows():
    with pytest.raises(AssertionError, match="timeout == 0"):
        iter(DataLoader(range(3), timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(range(3), num_workers=1, prefetch_factor=0))


def test_too_many_workers():
    with pytest.warns(UserWarning, match="will create 1000 worker processes"):
        DataLoader(range(3), num_workers=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DataLoader(range(3), num_workers=1)
