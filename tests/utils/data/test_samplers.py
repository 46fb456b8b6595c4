"""Samplers: what they give, and that it depends on their generator alone."""

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    LengthBucketSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(seed=0):
    return lg.Generator().manual_seed(seed)


def test_sequential():
    assert list(SequentialSampler("abc")) == [0, 1, 2]


def test_random_is_randperm_of_the_generator():
    assert (
        list(RandomSampler(range(50), generator=seeded()))
        == lg.randperm(50, generator=seeded()).tolist()
    )


def test_random_with_replacement_is_randint_of_the_generator():
    got = list(RandomSampler(range(7), True, 100, seeded()))
    assert got == lg.randint(7, (100,), generator=seeded()).tolist()
    many = list(RandomSampler(range(3), True, 10_000, seeded()))
    assert len(many) == 10_000
    assert np.bincount(many).min() > 3000


def test_random_follows_the_default_seed_and_differs_by_epoch():
    sampler = RandomSampler(range(30))
    lg.manual_seed(3)
    first, second = list(sampler), list(sampler)
    assert first != second
    lg.manual_seed(3)
    assert list(sampler) == first


def test_more_samples_than_data():
    got = list(RandomSampler(range(4), num_samples=10, generator=seeded()))
    assert sorted(got[:4]) == sorted(got[4:8]) == [0, 1, 2, 3]
    assert len(got) == 10


def test_subset_random():
    assert sorted(SubsetRandomSampler([5, 9, 7], seeded())) == [5, 7, 9]


def test_weighted():
    drawn = list(WeightedRandomSampler([1, 0, 3], 8000, generator=seeded()))
    counts = np.bincount(drawn, minlength=3)
    assert counts[1] == 0
    assert 0.72 < counts[2] / 8000 < 0.78
    without = list(WeightedRandomSampler(lg.tensor([1.0, 2.0, 3.0]), 3, False, seeded()))
    assert sorted(without) == [0, 1, 2]


def test_batches():
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(5), 2, d)) for d in (False, True)] == [3, 2]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [3, 10, 12])
def test_distributed_shares(count, drop_last):
    shares = [DistributedSampler(range(count), 4, rank, drop_last=drop_last) for rank in range(4)]
    for share in shares:
        share.set_epoch(5)
    lists = [list(share) for share in shares]
    assert {len(share) for share in lists} == {len(shares[0])}
    given = [i for share in lists for i in share]
    assert set(given) <= set(range(count))
    assert len(set(given)) == (count // 4 * 4 if drop_last else count)
    shares[0].set_epoch(6)
    assert count < 10 or list(shares[0]) != lists[0]


def test_distributed_takes_rank_from_the_environment(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]
    monkeypatch.delenv("RANK")
    with pytest.raises(RuntimeError, match="RANK"):
        DistributedSampler(range(4))
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler(range(4), 2, 2)


def lengths(count=1000):
    return np.random.default_rng(0).integers(1, 200, count).tolist()


def test_buckets_hold_everything_once_and_pad_little():
    sizes = lengths()
    sampler = LengthBucketSampler(sizes, 16, generator=seeded())
    batches = list(sampler)
    assert len(batches) == len(sampler) == 63
    assert sorted(i for batch in batches for i in batch) == list(range(1000))

    def padded(batches):
        return sum(len(b) * max(sizes[i] for i in b) for b in batches) / sum(sizes)

    assert padded(batches) < 1.05
    assert padded(BatchSampler(RandomSampler(sizes, generator=seeded()), 16, False)) > 1.6
    # The order of the batches says nothing about their lengths.
    means = [np.mean([sizes[i] for i in b]) for b in batches]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4


def test_buckets_differ_by_epoch_and_repeat_by_seed():
    sampler = LengthBucketSampler(lengths(), 16, pool_size=5, generator=seeded())
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.generator = seeded()
    assert list(sampler) == first


def test_buckets_in_order_and_without_the_last():
    sampler = LengthBucketSampler([5, 1, 4, 2, 3], 2, shuffle=False)
    assert list(sampler) == [[1, 3], [4, 2], [0]]
    short = LengthBucketSampler([5, 1, 4, 2, 3], 2, drop_last=True)
    assert [len(b) for b in short] == [2, 2]
    assert len(short) == 2


def test_buckets_in_a_loader():
    words = ["a" * n for n in lengths(40)]
    loader = DataLoader(
        words, batch_sampler=LengthBucketSampler([len(w) for w in words], 8), num_workers=2
    )
    assert sorted(w for batch in loader for w in batch) == sorted(words)
