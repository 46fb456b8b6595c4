"""What is saved comes back: every kind of value, every dtype, and what shares its values."""

from __future__ import annotations

import io
import random
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import livegrad as lg
from livegrad import dtypes, nn, optim
from livegrad.graph.handle import leaf
from livegrad.graph.meta import meta_of
from livegrad.runtime.memory import copied
from livegrad.serialization import LoadError, load_file, save_file

FORMATS = ("safetensors", "torch")


def through(obj: Any, format: str, mmap: bool | None = None) -> Any:
    """`obj` after it was saved and loaded."""
    file = io.BytesIO()
    lg.save(obj, file, format=format)
    file.seek(0)
    return lg.load(file, mmap=mmap)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal in type, values and bits of tensors."""
    if type(a) is not type(b):
        return False
    if isinstance(a, lg.Tensor):
        bits = a._values("test").tobytes() == b._values("test").tobytes()
        alike = (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad)
        return bits and alike
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        metadata = same(getattr(a, "_metadata", None), getattr(b, "_metadata", None))
        return metadata and same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all([same(x, y) for x, y in zip(a, b, strict=True)])
    if isinstance(a, float | complex | np.generic):
        return repr(a) == repr(b)  # NaN is NaN, -0.0 is not 0.0
    return bool(a == b)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1, 1, 5)], ids=str)
def test_every_dtype_and_shape(tmp_path: Path, format: str, dtype: Any, shape: Any) -> None:
    count = int(np.prod(shape))
    raw = np.random.default_rng(0).integers(0, 2, count * dtype.itemsize, np.uint8)
    values = leaf(meta_of(shape, dtype), copied(raw.view(dtype.storage).reshape(shape)))
    path = tmp_path / "x"
    lg.save(values, path, format=format)
    for mmap in (True, False):
        assert same(lg.load(path, mmap=mmap), values)


PLAIN: Any = {
    "none": None,
    "numbers": [True, 0, -1, 2**62, 1.5, -0.0, float("nan"), float("inf"), 1e300, 1 - 2j],
    "large": [2**64, -(2**200)],
    "text": ["", "añ☃\U0001f600", '\0\n"\\', "\ud800", "$x"],
    "bytes": [b"", bytes(range(256)), bytearray(b"ab")],
    "tuple": (1, (2, [3, ()])),
    "sets": [set(), {1, "a", (2, 3), None}],
    "keys": {1: "a", None: "b", 2.5: "c", (1, "x"): "d", "$tensor": "f", b"g": 1},
    "ordered": OrderedDict([("b", 1), ("a", 2)]),
    "counter": Counter("abca"),
    "ours": [lg.float32, lg.bool, lg.zeros(2, 3).shape, lg.device("cpu")],
}
ONLY_HERE: Any = {
    "frozen": frozenset([1, 2]),
    "default": [defaultdict(list, {3: [1]}), defaultdict(None, {"x": 1})],
    "arrays": [
        np.arange(5, dtype=np.uint32),
        np.float32([[1, 2]]).T,
        np.array(True),
        np.zeros((0, 2)),
    ],
    "complex array": np.array([1 + 2j]),
    "scalars": [np.float64(0.1), np.int8(-3), np.bool_(True), np.complex64(1j)],
    "numpy state": np.random.RandomState(3).get_state(),
    "python state": random.Random(3).getstate(),
    "ranges": [range(3), slice(1, None, 2)],
}


@pytest.mark.parametrize("format", FORMATS)
def test_plain_values(format: str) -> None:
    assert same(through(PLAIN, format), PLAIN)


def test_values_that_only_our_format_has() -> None:
    assert same(through(ONLY_HERE, "safetensors"), ONLY_HERE)


keys = st.one_of(st.text(max_size=4), st.integers(-9, 9), st.none(), st.floats(allow_nan=False))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.binary(max_size=8),
    st.builds(lambda x: lg.tensor(x), st.lists(st.floats(width=32), max_size=3)),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
    ),
    max_leaves=12,
)


@given(values, st.sampled_from(FORMATS))
def test_any_nesting(value: Any, format: str) -> None:
    assert same(through(value, format), value)


# -------------------------------------------------------------------- modules and optimisers


@pytest.mark.parametrize("format", FORMATS)
def test_a_whole_run(tmp_path: Path, format: str) -> None:
    """Model, optimiser, scheduler and random state: the resumed run has the same weights."""

    def start() -> tuple[Any, Any, Any]:
        lg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    def train(model: Any, optimizer: Any, scheduler: Any, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            model(lg.randn(5, 4)).square().mean().backward()
            optimizer.step()
            scheduler.step()

    run = start()
    train(*run, 3)
    state = [part.state_dict() for part in run]
    lg.save({"run": state, "random": lg.get_rng_state(), "epoch": 3}, tmp_path / "r", format=format)
    train(*run, 3)
    resumed = start()
    train(*resumed, 1)
    saved = lg.load(tmp_path / "r")
    for part, values in zip(resumed, saved["run"], strict=True):
        part.load_state_dict(values)
    lg.set_rng_state(saved["random"])
    train(*resumed, 3)
    assert same(resumed[0].state_dict(), run[0].state_dict())
    assert same(resumed[1].state_dict(), run[1].state_dict())
    assert resumed[2].state_dict() == run[2].state_dict()


def test_parameters_stay_parameters() -> None:
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    for format in FORMATS:
        back = through([layer.weight, layer.bias, layer.weight.detach()], format)
        assert [type(x) for x in back] == [nn.Parameter, nn.Parameter, lg.Tensor]
        assert [x.requires_grad for x in back] == [True, False, False]


def test_saving_computes_what_is_pending() -> None:
    x = lg.ones(3).requires_grad_()
    y = (x * 2).exp()
    back = through({"y": y, "view": y.detach()[1:]}, "safetensors")
    assert back["y"].is_leaf
    assert back["y"].requires_grad
    assert lg.equal(back["y"], y)
    assert lg.equal(back["view"], y[1:])


# ------------------------------------------------------------------------------ shared values


@pytest.mark.parametrize("format", FORMATS)
def test_shared_tensors_are_saved_once_and_shared_again(tmp_path: Path, format: str) -> None:
    tied = nn.Linear(100, 100, bias=False)
    both = nn.ModuleDict({"a": tied, "b": nn.Linear(100, 100, bias=False)})
    both["b"].weight = tied.weight
    path = tmp_path / "x"
    lg.save(both.state_dict(), path, format=format)
    assert path.stat().st_size < 42_000
    back = lg.load(path)
    back["a.weight"].zero_()
    assert not back["b.weight"].any()


@pytest.mark.parametrize("format", FORMATS)
def test_equal_tensors_that_share_nothing_stay_apart(format: str) -> None:
    x = lg.ones(4)
    back = through([x, x.clone(), lg.ones(4)], format)
    back[0].zero_()
    assert back[1].sum().item() == 4
    assert back[2].sum().item() == 4


# -------------------------------------------------------------------------------- the format


def test_equal_objects_make_equal_files() -> None:
    files = []
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        file = io.BytesIO()
        lg.save({"set": set(order), "x": lg.ones(2)}, file)
        files.append(file.getvalue())
    assert files[0] == files[1]


def test_the_safetensors_package_reads_our_files_and_we_read_its(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    state = OrderedDict(w=lg.randn(3, 4), b=lg.arange(5), s=lg.tensor(2.0), e=lg.zeros(0, 7))
    lg.save(state, tmp_path / "ours")
    theirs = safetensors.load_file(tmp_path / "ours")
    assert set(theirs) == set(state)
    for name, value in state.items():
        assert theirs[name].shape == tuple(value.shape)
        assert theirs[name].tobytes() == value.numpy().tobytes()
    safetensors.save_file(theirs, tmp_path / "theirs", metadata={"made": "there"})
    back = lg.load(tmp_path / "theirs")
    assert all([same(back[name], value) for name, value in state.items()])


def test_plain_files_without_structure(tmp_path: Path) -> None:
    tensors = {"a.b": lg.ones(2), "c": lg.ones(2, dtype=lg.bfloat16)}
    save_file(tensors, tmp_path / "x", {"key": "value"})
    assert same(load_file(tmp_path / "x"), dict(sorted(tensors.items())))
    assert same(lg.load(tmp_path / "x"), load_file(tmp_path / "x"))
    lg.save({"deep": [lg.ones(2)]}, tmp_path / "y")
    assert list(load_file(tmp_path / "y")) == ["deep.0"]
    with pytest.raises(TypeError, match="names to tensors"):
        save_file({"a": 1}, tmp_path / "z")


def test_names_of_tensors_never_collide() -> None:
    x = {"a.b": lg.ones(1), "a": {"b": lg.zeros(1), "": lg.ones(2)}, "__metadata__": lg.ones(3)}
    assert same(through({**x, "\ud800": lg.ones(4)}, "safetensors"), {**x, "\ud800": lg.ones(4)})


def test_the_name_of_the_file_decides_the_format(tmp_path: Path) -> None:
    for name in ("x.pt", "x.pth", "x.safetensors", "x"):
        lg.save({}, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"PK") == (".pt" in name)
        assert lg.load(tmp_path / name) == {}
    with pytest.raises(ValueError, match="format must be one of"):
        lg.save({}, tmp_path / "x", format="pickle")


# --------------------------------------------------------------------------- what is refused


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    class Own:
        pass

    deep: Any = []
    for _ in range(200):
        deep = [deep]
    cycle: Any = [1]
    cycle.append(cycle)
    cases: list[tuple[Any, type[Exception], str]] = [
        ({"a": [1, Own()]}, TypeError, r"obj\['a'\]\[1\] is of type .*Own"),
        (lambda: 0, TypeError, "function"),
        ({lg.ones(1): 1}, TypeError, "key .* Tensor"),
        ({2**80: 1}, TypeError, "61 bits"),
        ([1 << 9000], ValueError, "integer of 9001 bits"),
        ({1j: 1}, TypeError, "type complex"),
        (deep, ValueError, "nests deeper"),
        (cycle, ValueError, "contains itself"),
        (nn.LazyLinear(2).weight, ValueError, "uninitialized"),
        (np.array(["a"]), TypeError, "ndarray"),
    ]
    plain = [
        ({"m": nn.Linear(1, 1)}, TypeError, r"obj\['m'\].*state_dict\(\)"),
        (Counter, TypeError, "type"),
    ]
    for format in FORMATS:
        path = tmp_path / "x"
        path.write_bytes(b"old")
        for value, error, pattern in cases + plain * (format == "torch"):
            with pytest.raises(error, match=pattern):
                lg.save(value, path, format=format)
        assert path.read_bytes() == b"old"
        assert [p.name for p in tmp_path.iterdir()] == ["x"]
    with pytest.raises(TypeError, match='format="safetensors" keeps it'):
        lg.save(np.ones(2), tmp_path / "x.pt", format="torch")


@pytest.mark.parametrize("format", FORMATS)
def test_the_deepest_that_is_saved_is_loaded(format: str) -> None:
    for wrap in (lambda x: [x], lambda x: (x,), lambda x: {"x": x}, lambda x: {1: x}):
        value: Any = [complex(float("nan"), 0), lg.ones(1)]
        back = None
        for _ in range(200):
            value = wrap(value)
            try:
                back = through(value, format)
            except ValueError as error:
                deepest = error
                break
        assert "nests deeper than 100" in str(deepest)
        assert back is not None


def test_arguments(tmp_path: Path) -> None:
    path = tmp_path / "x"
    lg.save([1], path)
    assert lg.load(str(path), "cpu", weights_only=False) == [1]
    assert lg.load(path, map_location=lg.device("cpu"), encoding="latin1") == [1]
    with pytest.raises(TypeError, match="unexpected keyword argument 'maplocation'"):
        lg.load(path, maplocation="cpu")
    assert lg.load(path, map_location=lambda storage, location: storage) == [1]
    with path.open("rb") as file:
        assert lg.load(file) == [1]
    with pytest.raises(RuntimeError, match="no such device"):
        lg.load(path, map_location="cuda")
    values = {"a": [lg.ones(2), (nn.Parameter(lg.ones(3)), 5)]}
    lg.save(values, path)
    back = lg.load(path, map_location="meta")["a"]
    assert [back[0].is_meta, back[1][0].is_meta, back[1][1]] == [True, True, 5]
    assert isinstance(back[1][0], nn.Parameter)
    lg.save([1], path)
    with pytest.raises(FileNotFoundError):
        lg.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        lg.load(tmp_path)
    with pytest.raises(TypeError, match="expected a path or a file"):
        lg.load(3)
    with pytest.raises(AttributeError, match="string, path, or a file-like object"):
        lg.save([], 3)
    with pytest.raises(TypeError, match="'rb'"):
        lg.load(io.StringIO("x"))
    with pytest.raises(LoadError, match="not a regular file"):
        lg.load("/dev/null")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mmap", [None, False])
def test_parts_of_a_storage_share_it_again(format: str, mmap: bool | None) -> None:
    x, p = lg.arange(6.0), nn.Parameter(lg.ones(2, 2))
    parts = [x[:3], x[3:], x.view(2, 3).t(), x[1].expand(2), p, p.data[0], p.data[0]]
    back = through(parts, format, mmap)
    assert [y.tolist() for y in back] == [y.tolist() for y in parts]
    assert [y.stride() for y in back] == [y.stride() for y in parts]
    assert back[5] is not back[6]
    back[2].mul_(10)
    assert [y.tolist() for y in back[:4]] == [
        [0, 10, 20],
        [30, 40, 50],
        [[0, 30], [10, 40], [20, 50]],
        [10, 10],
    ]
    back[5].zero_()
    assert back[4].tolist() == [[0, 0], [1, 1]]
    assert back[6].tolist() == [0, 0]
    assert back[4].is_leaf
    assert (back[4] * 2).sum().requires_grad


def test_the_whole_of_a_storage_has_its_name_in_the_file(tmp_path: Path) -> None:
    x = lg.arange(6.0).view(2, 3).clone()
    lg.save({"row": x[0], "all": x, "other": x[1, :2]}, tmp_path / "x.safetensors")
    assert {name: y.shape for name, y in load_file(tmp_path / "x.safetensors").items()} == {
        "all": (2, 3)
    }
    lg.save({"row": x[0], "alone": lg.arange(4)[1:]}, tmp_path / "y.safetensors")
    assert sorted(load_file(tmp_path / "y.safetensors")) == ["alone", "row"]
