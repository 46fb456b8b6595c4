"""The position of a loader: saved in the middle of an epoch, continued in another program."""

import json
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    LengthBucketSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

pytestmark = pytest.mark.slow


class Noisy(Dataset):
    """Samples with draws from every generator, as augmentations make them."""

    def __len__(self):
        return 30

    def __getitem__(self, i):
        return i, random.random(), np.random.random(), lg.rand(()).item()  # noqa: NPY002


class NoisyStream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        stop = 15 if info is not None and info.id == 0 else 60
        level = random.random()
        for i in range(first, stop, step):
            level += random.random()
            yield i, level, np.random.random(), lg.rand(()).item()  # noqa: NPY002


def numbers(batches):
    return [
        [part.tolist() if isinstance(part, lg.Tensor) else part for part in batch]
        for batch in batches
    ]


def generator(seed=5):
    return lg.Generator().manual_seed(seed)


def map_style(**options):
    return DataLoader(Noisy(), 4, generator=generator(), **options)


LOADERS = {
    "in order": lambda: map_style(num_workers=2),
    "shuffled": lambda: map_style(shuffle=True, num_workers=2),
    "one worker": lambda: map_style(shuffle=True, num_workers=1, prefetch_factor=5),
    "persistent": lambda: map_style(shuffle=True, num_workers=2, persistent_workers=True),
    "replacement": lambda: map_style(
        sampler=RandomSampler(Noisy(), True, 30, generator(2)), num_workers=2
    ),
    "default generator": lambda: DataLoader(Noisy(), 4, True, num_workers=2),
    "sampler on the default generator": lambda: DataLoader(
        Noisy(), 4, sampler=SubsetRandomSampler(range(30)), num_workers=2
    ),
    "weighted": lambda: DataLoader(
        Noisy(), 4, sampler=WeightedRandomSampler(range(30), 30), num_workers=2
    ),
    "buckets": lambda: DataLoader(
        Noisy(), batch_sampler=LengthBucketSampler([i % 7 for i in range(30)], 4), num_workers=2
    ),
    "stream": lambda: DataLoader(NoisyStream(), 4, generator=generator(), num_workers=2),
    "persistent stream": lambda: DataLoader(
        NoisyStream(), 4, generator=generator(), num_workers=2, persistent_workers=True
    ),
    "batches of one": lambda: DataLoader(Noisy(), None, True, num_workers=2),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("delivered", [0, 3, 7])
def test_the_rest_of_the_epoch_and_the_next(name, delivered):
    lg.manual_seed(1)
    loader = LOADERS[name]()
    list(loader)
    iterator = iter(loader)
    for _ in range(delivered):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    program = lg.get_rng_state()
    rest, later = numbers(iterator), numbers(loader)
    assert rest

    lg.manual_seed(99)
    random.seed(99)
    other = LOADERS[name]()
    other.load_state_dict(state)
    lg.set_rng_state(program)
    assert numbers(other) == rest
    assert numbers(other) == later


def test_another_number_of_workers_gives_the_same_batches():
    loader = map_style(shuffle=True, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), numbers(iterator)
    other = map_style(shuffle=True, num_workers=1)
    other.load_state_dict(state)
    assert numbers(other) == rest


def test_without_workers_batches_draw_from_the_program():
    def program_state():
        return lg.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002

    def set_program_state(state):
        lg.set_rng_state(state[0])
        random.setstate(state[1])
        np.random.set_state(state[2])  # noqa: NPY002

    for make in (
        lambda: DataLoader(Noisy(), 4, shuffle=True),
        lambda: DataLoader(NoisyStream(), 4),
        lambda: DataLoader(Noisy(), 4, sampler=OwnSampler()),
    ):
        loader = make()
        iterator = iter(loader)
        next(iterator), next(iterator)
        state, program = loader.state_dict(), program_state()
        rest = numbers(iterator)
        other = make()
        random.seed(7)
        other.load_state_dict(json.loads(json.dumps(state)))
        set_program_state(program)
        assert numbers(other) == rest


class OwnSampler(Sampler):
    """Draws from NumPy's and Python's global generators, when it starts."""

    def __iter__(self):
        order = np.random.permutation(30).tolist()  # noqa: NPY002
        random.shuffle(order)
        return iter(order)

    def __len__(self):
        return 30


def test_own_samplers_with_workers():
    loader = DataLoader(Noisy(), 4, sampler=OwnSampler(), num_workers=2)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), numbers(iterator)
    other = DataLoader(Noisy(), 4, sampler=OwnSampler(), num_workers=2)
    other.load_state_dict(json.loads(json.dumps(state)))
    assert numbers(other) == rest


def test_the_epoch_of_a_distributed_sampler():
    def make():
        return DataLoader(Noisy(), 2, sampler=DistributedSampler(Noisy(), 2, 1), num_workers=1)

    loader = make()
    loader.sampler.set_epoch(4)
    iterator = iter(loader)
    next(iterator)
    state, rest = loader.state_dict(), [batch[0].tolist() for batch in iterator]
    other = make()
    other.load_state_dict(state)
    assert [batch[0].tolist() for batch in other] == rest


def test_out_of_order():
    def make():
        return map_style(shuffle=True, num_workers=2, in_order=False)

    loader = make()
    iterator = iter(loader)
    first = [next(iterator)[0].tolist() for _ in range(3)]
    state = json.loads(json.dumps(loader.state_dict()))
    del iterator
    other = make()
    other.load_state_dict(state)
    rest = [batch[0].tolist() for batch in other]
    assert sorted(i for batch in first + rest for i in batch) == list(range(30))


def test_at_the_end_of_an_epoch():
    loader = map_style(shuffle=True, num_workers=2)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    last = loader.state_dict()  # inside the loop, after the last batch
    assert list(iterator) == []
    after = loader.state_dict()
    later = numbers(loader)
    for state, rest in ((last, []), (after, None)):
        other = map_style(shuffle=True, num_workers=2)
        other.load_state_dict(state)
        assert rest is None or numbers(other) == rest
        assert numbers(other) == later


def test_a_state_that_was_loaded_can_be_saved_again():
    loader = map_style(shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    other = map_style(shuffle=True)
    other.load_state_dict(state)
    assert other.state_dict() == state


def test_states_of_other_loaders():
    loader = map_style()
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(ValueError, match=r"batch_size=4; this one has batch_size=8"):
        DataLoader(Noisy(), 8, generator=generator()).load_state_dict(state)
    with pytest.raises(ValueError, match="version"):
        loader.load_state_dict({})
    stream = DataLoader(NoisyStream(), 4, num_workers=2)
    next(iter(stream))
    with pytest.raises(ValueError, match="num_workers=2; this one has num_workers=1"):
        DataLoader(NoisyStream(), 4, num_workers=1).load_state_dict(stream.state_dict())
    other = DataLoader(Noisy(), 4)
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="1 generators"):
        iter(other)


PROGRAM = """
import json, os, signal, sys
import numpy as np
import livegrad as lg
from livegrad.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i): return np.full(30_000, i + np.random.random(), np.float32)

if __name__ == "__main__":
    path, stop = sys.argv[1], int(sys.argv[2])
    lg.manual_seed(8)
    loader = DataLoader(Noisy(), 4, shuffle=True, num_workers=2)
    epoch, step = 0, 0
    if os.path.exists(path):
        saved = json.load(open(path))
        loader.load_state_dict(saved["loader"])
        epoch, step = saved["epoch"], saved["step"]
        lg.set_rng_state(lg.tensor(saved["random"]))
    while epoch < 2:
        for batch in loader:
            noise = lg.rand(()).item()      # the program draws too, as dropout does
            step += 1
            print(step, batch.sum().item() + noise, flush=True)
            with open(path + ".new", "w") as file:
                json.dump({"loader": loader.state_dict(), "epoch": epoch, "step": step,
                           "random": lg.get_rng_state().tolist()}, file)
            os.replace(path + ".new", path)
            if step == stop:
                os.kill(os.getpid(), signal.SIGKILL)
        epoch += 1
"""


@pytest.mark.parametrize("stop", [6, 13])
def test_killed_and_resumed(tmp_path, child_environment, stop):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(name, stop):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "program.py"), str(tmp_path / name), str(stop)],
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == (-signal.SIGKILL if stop else 0), done.stderr
        return done.stdout.splitlines()

    whole = run("whole", 0)
    assert len(whole) == 20
    assert run("killed", stop) + run("killed", 0) == whole
    assert os.path.exists(tmp_path / "killed")
