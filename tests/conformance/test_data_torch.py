"""Datasets, samplers, collation and the loader against PyTorch's."""

import collections
import functools

import numpy as np
import pytest

import livegrad as lg
from livegrad.utils import data as ours

torch = pytest.importorskip("torch")
theirs = torch.utils.data

Point = collections.namedtuple("Point", "x y")


class Bag(collections.UserDict):
    pass


def plain(value):
    """A batch as plain Python: tensors become (dtype, shape, values)."""
    if isinstance(value, lg.Tensor | torch.Tensor):
        return str(value.dtype).split(".")[1], tuple(value.shape), value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {key: plain(value[key]) for key in value}
    if isinstance(value, list | tuple | collections.UserList):
        return type(value).__name__, [plain(x) for x in value]
    if isinstance(value, np.ndarray):
        return "array", value.tolist()
    return value


RNG = np.random.default_rng(0)
BATCHES = {
    "ints": [1, 2, 3],
    "floats": [1.5, 2.0],
    "ints then floats": [1, 2.5],
    "bools": [True, False],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named tuples": [Point(1, [2]), Point(3, [4])],
    "dicts": [{"a": 1, "b": {"c": 2.0}}, {"a": 3, "b": {"c": 4.0}}],
    "ordered": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "user dicts": [Bag(a=1), Bag(a=2)],
    "user lists": [collections.UserList([1, 2]), collections.UserList([3, 4])],
    "ranges": [range(3), range(3)],
    "empty lists": [[], []],
    **{
        f"arrays of {kind}": [np.arange(6).reshape(2, 3).astype(kind) for _ in range(2)]
        for kind in "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64".split()
    },
    "arrays of two types": [np.ones(2, np.float32), np.ones(2, np.int64)],
    "arrays without dims": [np.array(1.0), np.array(2.0)],
    "transposed arrays": [RNG.normal(size=(2, 3)).T, RNG.normal(size=(2, 3)).T],
    **{
        f"numbers of {kind}": [np.dtype(kind).type(i) for i in range(3)]
        for kind in "bool uint8 int16 int64 float16 float32 float64".split()
    },
    "a set": [{1}, {2}],
    "none": [None, None],
    "complex": [1j, 2j],
    "string arrays": [np.array(["a"]), np.array(["b"])],
    "object arrays": [np.array([None]), np.array([None])],
    "unequal lists": [[1], [2, 3]],
    "unequal arrays": [np.ones(2), np.ones(3)],
}


def outcome(function, *arguments, **options):
    try:
        return plain(function(*arguments, **options))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", BATCHES)
def test_default_collate(name):
    got, want = (outcome(side.default_collate, BATCHES[name]) for side in (ours, theirs))
    assert got == want


@pytest.mark.parametrize("name", BATCHES)
def test_default_convert(name):
    got, want = (outcome(side.default_convert, BATCHES[name]) for side in (ours, theirs))
    assert got == want


@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_collate_tensors(shape):
    values = [np.full(shape, i, np.float32) for i in range(3)]
    got = ours.default_collate([(lg.tensor(v), {"a": lg.tensor(v)}) for v in values])
    want = theirs.default_collate([(torch.tensor(v), {"a": torch.tensor(v)}) for v in values])
    assert plain(got) == plain(want)


class Numbers:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return i, float(i), {"name": str(i), "array": np.full((2,), i, np.int16)}


def stream_of(side, count):
    class Stream(side.IterableDataset):
        def __iter__(self):
            info = side.get_worker_info()
            first, step = (0, 1) if info is None else (info.id, info.num_workers)
            return iter([(i, float(i)) for i in range(first, count, step)])

        def __len__(self):
            return count

    return Stream()


OPTIONS = [
    {"batch_size": 4},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": None},
    {"batch_size": 3, "num_workers": 2},
    {"batch_size": 3, "num_workers": 2, "drop_last": True, "prefetch_factor": 1},
    {"batch_size": None, "num_workers": 1},
    {"num_workers": 1, "persistent_workers": True},
]


def epochs(side, data, options):
    loader = side.DataLoader(data, **options)
    return [len(loader), [plain(b) for b in loader], [plain(b) for b in loader]]


@pytest.mark.parametrize("options", OPTIONS)
def test_loaders(options):
    got, want = (epochs(side, Numbers(11), options) for side in (ours, theirs))
    assert got == want


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("count", [11, 12, 1])
def test_loaders_of_streams(options, count):
    got, want = (epochs(side, stream_of(side, count), options) for side in (ours, theirs))
    assert got == want


BAD = [
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True},
    {"sampler": [0], "shuffle": True},
    {"batch_sampler": [[0]], "batch_size": 3},
    {"batch_sampler": [[0]], "shuffle": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": 2.0},
    {"drop_last": 1},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "nothing", "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
]


@pytest.mark.parametrize("options", BAD)
@pytest.mark.parametrize("stream", [False, True])
def test_bad_arguments(options, stream):
    def made(side):
        data = stream_of(side, 3) if stream else Numbers(3)
        return outcome(functools.partial(side.DataLoader, data), **options)

    assert made(ours) == made(theirs)


SAMPLERS = [
    ("RandomSampler", (range(3),), {"replacement": 1}),
    ("RandomSampler", (range(3),), {"num_samples": 0}),
    ("RandomSampler", (range(3),), {"num_samples": 2.5}),
    ("RandomSampler", ([],), {}),
    ("WeightedRandomSampler", ([1.0], 0), {}),
    ("WeightedRandomSampler", ([1.0], 1, "yes"), {}),
    ("WeightedRandomSampler", ([[1.0]], 1), {}),
    ("BatchSampler", (range(3), True, False), {}),
    ("BatchSampler", (range(3), 2, 0), {}),
    ("DistributedSampler", (range(3), 2, 2), {}),
    ("StackDataset", (), {}),
    ("StackDataset", (range(3), range(4)), {}),
    ("StackDataset", (range(3),), {"a": range(3)}),
    ("ConcatDataset", ([],), {}),
    ("random_split", (range(3), [1, 1]), {}),
    ("random_split", (range(3), [0.5, 0.7, -0.2]), {}),
]


@pytest.mark.parametrize(("name", "arguments", "options"), SAMPLERS)
def test_bad_arguments_of_others(name, arguments, options):
    got, want = (
        outcome(functools.partial(getattr(side, name), *arguments, **options))
        for side in (ours, theirs)
    )
    assert got == want


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [1, 7, 8])
@pytest.mark.parametrize("replicas", [1, 3, 4])
def test_distributed_sampler(count, replicas, drop_last):
    for rank in range(replicas):
        got, want = (
            side.DistributedSampler(range(count), replicas, rank, False, drop_last=drop_last)
            for side in (ours, theirs)
        )
        assert (len(got), list(got)) == (len(want), list(want))


@pytest.mark.parametrize("fractions", [[0.3, 0.3, 0.4], [0.5, 0.25, 0.25], [1.0]])
def test_random_split_sizes(fractions):
    got, want = (
        [len(p) for p in side.random_split(range(23), fractions)] for side in (ours, theirs)
    )
    assert got == want


def test_every_public_name_is_there():
    pipes = {
        "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation",
        "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
        "runtime_validation", "runtime_validation_disabled",
    }  # fmt: skip
    public = {name for name in theirs.__all__ if not name.startswith("_")} - pipes
    assert public <= set(dir(ours))
