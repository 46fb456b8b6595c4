"""Worker processes: what they bring, how they are seeded, what happens when they fail."""

import functools
import gc
import multiprocessing
import os
import pickle
import random
import signal
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
    memory,
)

Pair = namedtuple("Pair", "a b")
LARGE = memory.INLINE_BYTES  # elements of a byte: more than travels through the socket
FOR_EVER = 3600  # seconds


class Made(Dataset):
    """Samples by a function, for as many indices."""

    def __init__(self, function, count=8):
        self.function = function
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.function(i)


class Stream(IterableDataset):
    """Each worker gives its share, worker 0 one half of it."""

    def __init__(self, count, cut=False):
        self.count, self.cut = count, cut

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        stop = self.count // 2 if self.cut and first == 0 else self.count
        return iter(range(first, stop, step))


def lists(loader):
    return [batch.tolist() for batch in loader]


def row(i, size=LARGE):
    return np.full(size, i, np.float32)


def test_batches_come_in_order_from_both():
    def slow(i):
        if i == 0:
            time.sleep(0.3)
        return i, get_worker_info().id

    got = [(i.tolist(), w.tolist()) for i, w in DataLoader(Made(slow), 2, num_workers=2)]
    assert [i for i, _ in got] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [w[0] for _, w in got] == [0, 1, 0, 1]


def test_out_of_order(tmp_path):
    seen = tmp_path / "one has come"

    def slow(i):
        while i == 0 and not seen.exists():
            time.sleep(0.01)
        return i

    batches = iter(DataLoader(Made(slow), 1, num_workers=2, in_order=False))
    first = next(batches)
    seen.touch()
    assert first.tolist() != [0]
    assert sorted([first.tolist(), *lists(batches)]) == [[i] for i in range(8)]


def collate_all_kinds(rows):
    i = rows[0]
    return {
        "tensor": lg.tensor(row(i)),
        "bfloat16": lg.full((LARGE,), i, dtype=lg.bfloat16),
        "pending": lg.tensor(row(i)) * 2 + 1,
        "small": lg.tensor([i]),
        "empty": lg.zeros(0, 3),
        "array": row(i).reshape(2, -1),
        "transposed": row(i).reshape(2, -1).T,
        "strided": np.arange(4 * LARGE).reshape(4, -1)[::2, 1::3] + i,
        "readonly": np.broadcast_to(np.float64(i), (3, LARGE)),
        "pair": Pair(b"x" * i, [str(i), None, (1, {2})]),
        "text": "word " * LARGE,
        "parameter": lg.nn.Parameter(lg.tensor(row(i))),
    }


def test_nested_containers_of_everything():
    loader = DataLoader(range(6), num_workers=2, collate_fn=collate_all_kinds)
    for i, got in enumerate(loader):
        want = collate_all_kinds([i])
        assert got.keys() == want.keys()
        for name, value in want.items():
            if isinstance(value, lg.Tensor):
                assert type(got[name]) is type(value)
                assert got[name].dtype is value.dtype
                assert got[name].shape == value.shape
                assert got[name].requires_grad == value.requires_grad
                assert got[name].tolist() == value.tolist()
            elif isinstance(value, np.ndarray):
                assert got[name].dtype == value.dtype
                assert np.array_equal(got[name], value)
            else:
                assert got[name] == value


def test_batches_lie_in_shared_memory_that_is_used_again():
    loader = DataLoader(Made(row, 60), 2, num_workers=2)
    addresses = set()
    for number, batch in enumerate(loader):
        address = batch._node.buffer.ptr
        assert batch[0][0].item() == 2 * number
        assert address % 64 == 0
        assert any(start <= address < end for start, end in shared_ranges())
        addresses.add(address)
    assert len(addresses) < 16


def shared_ranges():
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "livegrad-batch" in line:
            yield tuple(int(x, 16) for x in line.split()[0].split("-"))


def test_shared_memory_without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)  # as on macOS
    for number, batch in enumerate(DataLoader(Made(row, 20), 2, num_workers=2)):
        assert batch[1].tolist() == [2 * number + 1] * LARGE


def test_batches_that_are_kept_stay_as_they_are():
    loader = DataLoader(Made(row, 40), 2, num_workers=2)
    batches = list(loader)
    shared = sum([end - start for start, end in shared_ranges()])
    assert shared < 30 * 2 * LARGE * 4
    assert [b.tolist() for b in batches] == [
        [[i] * LARGE, [i + 1] * LARGE] for i in range(0, 40, 2)
    ]


def test_a_batch_outlives_its_loader():
    batch = next(iter(DataLoader(Made(row), 2, num_workers=1)))
    gc.collect()
    assert (batch * 2).tolist() == [[0] * LARGE, [2] * LARGE]


def keep_and_collate(kept, rows):
    kept.append(default_collate(rows))
    return kept[0]


def test_a_worker_may_keep_what_it_collated():
    loader = DataLoader(
        Made(row, 30), 2, num_workers=1, collate_fn=functools.partial(keep_and_collate, [])
    )
    for batch in loader:
        assert batch.tolist() == [[0] * LARGE, [1] * LARGE]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_keeps_the_batches_it_saw():
    iterator = iter(DataLoader(Made(row, 40), 2, num_workers=1))
    batch = next(iterator)
    wake, woken = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(wake, 1)
        os._exit(0 if batch.tolist() == [[0] * LARGE, [1] * LARGE] else 1)
    del batch
    for later in iterator:
        assert later.shape == (2, LARGE)
    os.write(woken, b"x")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(wake), os.close(woken)


def test_sizes_that_grow():
    loader = DataLoader(Made(lambda i: row(i, 100 + i * LARGE), 12), 1, num_workers=2)
    for i, batch in enumerate(loader):
        assert batch.shape == (1, 100 + i * LARGE)
        assert batch[0][-1].item() == i


def test_long_index_lists_do_not_block():
    loader = DataLoader(range(400_000), 100_000, num_workers=2, collate_fn=bytes_of)
    assert [len(b) for b in loader] == [3_000_000] * 4


def bytes_of(rows):
    return ["x" * 30] * len(rows) if len(rows) < 10 else b"x" * (30 * len(rows))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start(method):
    data = TensorDataset(lg.arange(6 * LARGE).reshape(6, LARGE).float(), lg.arange(6))
    loader = DataLoader(data, 2, num_workers=1, multiprocessing_context=method)
    for number, (x, y) in enumerate(loader):
        assert y.tolist() == [2 * number, 2 * number + 1]
        assert x[1][-1].item() == (2 * number + 2) * LARGE - 1


def test_workers_compute_with_livegrad_after_threads_ran():
    lg.set_num_threads(2)
    big = lg.ones(1 << 20)
    assert (big + 1).sum(0).item() == 2 << 20
    pending = lg.ones(5) * 3
    loader = DataLoader(
        Made(lambda i: (big[: 1 << 19] * i).sum() + pending[0] + lg.get_num_threads()),
        num_workers=2,
    )
    assert lists(loader) == [[(1 << 19) * i + 4.0] for i in range(8)]
    assert (big * 2).sum(0).item() == 2 << 20


# ---------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("workers", [1, 2])
def test_streams(workers):
    got = lists(DataLoader(Stream(10), 2, num_workers=workers))
    assert got == ([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]] if workers == 1 else
                   [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]])  # fmt: skip


@pytest.mark.parametrize("persistent", [False, True])
def test_streams_of_different_length(persistent):
    loader = DataLoader(Stream(20, cut=True), 2, num_workers=2, persistent_workers=persistent)
    want = [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9, 11], [13, 15], [17, 19]]
    assert lists(loader) == want
    assert lists(loader) == want


# ------------------------------------------------------------------------------------------ seeds


def draws(i):
    return random.random(), np.random.random(), lg.rand(()).item()  # noqa: NPY002


def numbers(loader):
    return [[v.tolist() for v in batch] for batch in loader]


def test_draws_follow_the_generator_not_the_workers():
    def run(workers, seed=1):
        generator = lg.Generator().manual_seed(seed)
        loader = DataLoader(Made(draws), 2, num_workers=workers, generator=generator)
        return [numbers(loader), numbers(loader)]

    first, second = run(1)
    assert run(2) == [first, second]
    flat = [v for epoch in (first, second) for batch in epoch for kind in batch for v in kind]
    assert len(set(flat)) == 2 * 8 * 3
    assert run(2, seed=2) != [first, second]


def test_worker_info():
    seen = []

    def init(worker):
        info = get_worker_info()
        assert (info.id, info.num_workers, info.dataset.count) == (worker, 2, 8)
        assert lg.initial_seed() == info.seed
        info.dataset.function = lambda i: info.seed - worker

    loader = DataLoader(Made(seen.append), 2, num_workers=2, worker_init_fn=init)
    base = {v for batch in lists(loader) for v in batch}
    assert len(base) == 1
    assert base != {v for batch in lists(loader) for v in batch}
    assert get_worker_info() is None


def test_persistent_workers_stay_and_draw_anew():
    loader = DataLoader(Made(lambda i: (os.getpid(), *draws(i))), 4, num_workers=2,
                        persistent_workers=True)  # fmt: skip
    first, second = numbers(loader), numbers(loader)
    assert [b[0] for b in first] == [b[0] for b in second]
    assert [b[1] for b in first] != [b[1] for b in second]
    del loader
    gc.collect()
    assert not multiprocessing.active_children()


def test_persistent_workers_after_a_break():
    loader = DataLoader(Made(row, 40), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for number, batch in enumerate(loader):
            assert batch[1][-1].item() == 2 * number + 1
            if number == 5:
                break
    old, new = iter(loader), iter(loader)
    assert next(new)[0][0].item() == 0
    with pytest.raises(RuntimeError, match="newer iteration"):
        next(old)


# ----------------------------------------------------------------------------------------- errors


class Odd(Exception):
    """Cannot be made from a message."""

    def __init__(self, a, b):
        super().__init__(a, b)


def fail(kind, i):
    if i == 3:
        raise kind
    return i


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad sample"), ValueError),
        (KeyError("bad sample"), KeyError),
        (FileNotFoundError(2, "bad sample"), FileNotFoundError),
        (Odd("bad", "sample"), RuntimeError),
    ],
)
def test_errors_come_with_class_and_traceback(error, kind):
    iterator = iter(DataLoader(Made(functools.partial(fail, error)), 2, num_workers=2))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(kind) as caught:
        next(iterator)
    text = str(caught.value)
    assert f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Trace" in text
    assert "\n    raise kind\n" in text
    assert "bad" in text
    assert "\\n" not in text
    assert next(iterator).tolist() == [4, 5]


def test_errors_of_local_classes():
    class Here(Exception):
        pass

    loader = DataLoader(Made(functools.partial(fail, Here("text"))), 8, num_workers=1)
    with pytest.raises(RuntimeError, match="Caught Here in DataLoader worker process 0"):
        list(loader)


def test_errors_when_a_worker_starts():
    def init(worker):
        raise ZeroDivisionError("start")

    iterator = iter(DataLoader(range(4), num_workers=2, worker_init_fn=init))
    for _ in range(4):
        with pytest.raises(ZeroDivisionError, match="start"):
            next(iterator)


def test_results_that_cannot_be_sent():
    with pytest.raises(TypeError, match=r"cannot send this batch: .*<lambda>"):
        list(DataLoader(range(2), num_workers=1, collate_fn=lambda rows: lambda: 0))
    weight = lg.ones(2, requires_grad=True)
    loader = DataLoader(range(2), num_workers=1, collate_fn=lambda rows: weight * 2)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize"):
        list(loader)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_killed_worker_is_named(signum, persistent, tmp_path):
    def die(i):
        if i == 3 and not (tmp_path / "dead").exists():
            (tmp_path / "dead").touch()
            os.kill(os.getpid(), signum)
        return i, os.getpid()

    loader = DataLoader(Made(die), 2, num_workers=2, persistent_workers=persistent)
    iterator = iter(loader)
    pattern = (
        rf"worker \(pid (\d+)\) is killed by signal: {signal.strsignal(signum)}. It was worker 1"
    )
    with pytest.raises(RuntimeError, match=pattern):
        list(iterator)
    assert not multiprocessing.active_children()
    with pytest.raises(RuntimeError, match="shut down"):
        next(iterator)
    if persistent:
        assert next(iter(loader))[0].tolist() == [0, 1]


def test_an_idle_worker_that_is_killed():
    iterator = iter(DataLoader(range(40), num_workers=2))
    next(iterator)
    (victim, _) = [p.pid for p in multiprocessing.active_children()]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=f"pid {victim}"):
        list(iterator)


def test_a_worker_that_exits():
    def leave(i):
        os._exit(7)

    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code 7"):
        list(DataLoader(Made(leave), num_workers=1))


def test_timeout():
    def slow(i):
        time.sleep(FOR_EVER)

    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.2 seconds"):
        list(DataLoader(Made(slow), num_workers=2, timeout=0.2))


# -------------------------------------------------------------------------------------- shut down


def test_a_break_ends_the_workers_at_once():
    def slow(i):
        if i > 2:
            time.sleep(FOR_EVER)
        return i

    for _ in DataLoader(Made(slow), num_workers=2):
        break
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_worker_that_will_not_go_is_killed(monkeypatch, tmp_path):
    from livegrad.utils.data import crew

    monkeypatch.setattr(crew, "_FIRM_SECONDS", 0.3)

    def stubborn(i):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (tmp_path / "deaf").touch()
        time.sleep(FOR_EVER)

    iterator = iter(DataLoader(Made(stubborn), num_workers=1))
    while not (tmp_path / "deaf").exists():
        time.sleep(0.01)
    del iterator
    gc.collect()
    assert not multiprocessing.active_children()


def test_cleaning_up_is_possible(tmp_path):
    def careful(i):
        try:
            (tmp_path / "in").touch()
            time.sleep(FOR_EVER)
        finally:
            (tmp_path / "out").touch()

    iterator = iter(DataLoader(Made(careful), num_workers=1))
    while not (tmp_path / "in").exists():
        time.sleep(0.01)
    del iterator
    gc.collect()
    assert (tmp_path / "out").exists()


def test_datasets_that_cannot_be_pickled_are_reported():
    with (
        pytest.warns(UserWarning, match="Got pickle error"),
        pytest.raises((AttributeError, TypeError, pickle.PicklingError)),
    ):
        iter(DataLoader(Made(lambda i: i), num_workers=2, multiprocessing_context="spawn"))
