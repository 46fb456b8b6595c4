"""Whole modules, optimisers and objects of a program's own classes: saved as names and state."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import io
import math
import pathlib
import sys
import types
from collections import OrderedDict, deque, namedtuple
from enum import Enum
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.serialization import LoadError, add_safe_globals, load_file, safe_globals

CALLS: list[str] = []


class Block(nn.Module):
    """A module that tells when it is constructed."""

    def __init__(self, size: int) -> None:
        CALLS.append("Block")
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        self.act = F.gelu
        self.scale = 0.5
        self.sizes = (size, [size, {"a": None}])
        self.dtype = lg.float32
        self.device = lg.device("cpu")
        self.shape = lg.Size([2, 3])
        self.register_buffer("steps", lg.arange(3))
        self.register_buffer("mask", lg.ones(size, dtype=lg.bool), persistent=False)
        self.register_parameter("none", None)

    def forward(self, x: Any) -> Any:
        return self.act(self.norm(self.linear(x))) * self.scale * self.mask


class Tied(nn.Module):
    """Shares weights, modules, and holds itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.first = Block(4)
        self.second = self.first
        self.alias = nn.Parameter(self.embed.weight.data)
        self.own = [self]

    def forward(self, x: Any) -> Any:
        return self.head(self.second(self.embed(x)))


class Kind(Enum):
    SMALL = 1
    LARGE = 2


Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Config:
    width: int
    kind: Kind
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


class Slotted:
    __slots__ = ("a", "b")


class Ordered(OrderedDict):  # type: ignore[type-arg]
    """An ordered dict of another class."""


class Names(dict):  # type: ignore[type-arg]
    """A dict with attributes."""


class Chosen(nn.Module):
    """Says itself what is saved of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: Any = lambda: 0
        self.p = nn.Parameter(lg.ones(2))

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"cache": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        CALLS.append("__setstate__")
        super().__setstate__(state)
        self.cache = "restored"


class Dropping:
    """Says what is saved, and takes it back as it is."""

    def __init__(self) -> None:
        self.kept, self.file = 3, sys.stdout

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": self.kept}


class Deleting(nn.Module):
    def __del__(self) -> None:
        CALLS.append("__del__")


def double(x: Any) -> Any:
    return x * 2


def twice_hook(module: Any, args: Any, output: Any) -> Any:
    return output * 2


def through(x: Any, **options: Any) -> Any:
    file = io.BytesIO()
    lg.save(x, file)
    file.seek(0)
    return lg.load(file, **options)


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    CALLS.clear()


# ------------------------------------------------------------------------------------- modules


def test_a_module_comes_back_without_its_constructor() -> None:
    model = Block(4).eval()
    x = lg.randn(3, 4)
    CALLS.clear()
    back = through(model)
    assert CALLS == []
    assert type(back) is Block
    assert not back.training
    assert not back.norm.training
    assert lg.equal(back(x), model(x))
    assert list(back.state_dict()) == list(model.state_dict())
    assert "mask" not in back.state_dict()
    assert back.mask.tolist() == [True] * 4
    assert back.sizes == (4, [4, {"a": None}])
    assert type(back.sizes) is tuple
    assert back.dtype is lg.float32
    assert back.device == lg.device("cpu")
    assert back.shape == lg.Size([2, 3])
    assert type(back.shape) is lg.Size
    assert back.act is F.gelu
    assert back.none is None
    assert all([isinstance(p, nn.Parameter) and p.requires_grad for p in back.parameters()])
    back(x).sum().backward()
    assert back.linear.weight.grad is not None
    back.linear = nn.Linear(1, 1)  # it is a module like any other
    assert back.get_submodule("linear").in_features == 1


def test_what_is_shared_stays_shared() -> None:
    model = Tied()
    back = through(model)
    assert back.head.weight is back.embed.weight
    assert back.second is back.first
    assert back.own[0] is back
    assert [n for n, _ in back.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert back.alias is not back.embed.weight
    with lg.no_grad():
        back.alias.fill_(7)
    assert back.head.weight.eq(7).all()
    tokens = lg.tensor([[1, 2], [3, 4]]).flatten()
    assert back.eval()(tokens).shape == (4, 5)


@pytest.mark.parametrize("name", ["m.pt", "m.pth", "m", "m.safetensors"])
def test_files_of_any_name(tmp_path: pathlib.Path, name: str) -> None:
    model = nn.Sequential(OrderedDict(a=nn.Linear(2, 3), b=nn.ReLU(), c=nn.ModuleList([Block(3)])))
    lg.save({"model": model, "epoch": 4}, tmp_path / name)
    back = lg.load(tmp_path / name)
    assert back["epoch"] == 4
    assert repr(back["model"]) == repr(model)
    for old, new in zip(
        model.state_dict().values(), back["model"].state_dict().values(), strict=True
    ):
        assert lg.equal(old, new)
    with pytest.raises(TypeError, match=r"obj\['model'\] is of type .*; save its state_dict\(\)"):
        lg.save({"model": model}, tmp_path / name, format="torch")
    old_format = {"_use_new_zipfile_serialization": False}
    lg.save(model, tmp_path / name, **old_format)  # type: ignore[arg-type]
    assert type(lg.load(tmp_path / name)) is nn.Sequential


def test_other_tools_see_the_names_of_the_state_dict(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), Block(3))
    lg.save(model, tmp_path / "x")
    assert set(model.state_dict()) <= set(load_file(tmp_path / "x"))


def test_modules_of_ours_of_all_kinds() -> None:
    models = [
        nn.LSTM(3, 4, 2, bidirectional=True),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        nn.MultiheadAttention(8, 2, batch_first=True),
        nn.ParameterList([lg.ones(2), lg.zeros(1)]),
        nn.ParameterDict({"a": lg.ones(2)}),
        nn.ModuleDict({"a": nn.GRUCell(2, 2)}),
        nn.Conv2d(1, 2, 3, padding="same"),
        nn.CrossEntropyLoss(weight=lg.ones(3)),
    ]
    for model in models:
        back = through(model.eval())
        assert type(back) is type(model)
        assert repr(back) == repr(model)
        assert all(
            [lg.equal(a, b) for a, b in zip(model.parameters(), back.parameters(), strict=True)]
        )
    x = lg.randn(5, 2, 3)
    assert lg.equal(through(models[0])(x)[0], models[0](x)[0])
    y = lg.randn(2, 5, 8)
    assert lg.equal(through(models[1])(y), models[1](y))


def test_map_location_and_frozen_parameters(tmp_path: pathlib.Path) -> None:
    model = Block(2)
    model.linear.weight.requires_grad_(False)
    lg.save(model, tmp_path / "x")
    back = lg.load(tmp_path / "x", map_location="meta")
    assert all([t.is_meta for t in (*back.parameters(), *back.buffers())])
    assert not back.linear.weight.requires_grad
    assert back.linear.bias.requires_grad
    assert not lg.load(tmp_path / "x", mmap=False).linear.bias.is_meta


def test_attributes_of_parameters() -> None:
    model = nn.Linear(1, 1)
    model.weight.no_decay = True  # type: ignore[attr-defined]
    assert through(model).weight.no_decay is True


def test_hooks() -> None:
    model = nn.Linear(2, 2)
    model.register_forward_hook(twice_hook)
    x = lg.ones(1, 2)
    back = through(model, weights_only=False)
    assert lg.equal(back(x), model(x))
    handle = back.register_forward_hook(lambda m, a, out: out + 1)
    assert lg.equal(back(x), model(x) + 1)  # another number than the hook that was loaded
    handle.remove()
    assert lg.equal(back(x), model(x))
    model.register_forward_hook(lambda *_: None)
    with pytest.raises(TypeError, match="is the function .*<lambda>, which load could not find"):
        through(model)
    parameter = nn.Linear(1, 1)
    parameter.weight.register_hook(double)
    with pytest.warns(UserWarning, match=r"hook <function double .* of obj\.weight is not saved"):
        through(parameter)


# ------------------------------------------------------------------------ optimisers, schedulers


@pytest.mark.parametrize("kind", [lg.optim.SGD, lg.optim.Adam, lg.optim.RMSprop])
def test_training_goes_on_where_it_was(kind: Any) -> None:
    def step(model: Any, optimizer: Any, scheduler: Any) -> None:
        optimizer.zero_grad()
        model(lg.ones(4, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()

    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    more = {} if kind is lg.optim.Adam else {"momentum": 0.9}
    optimizer = kind(model.parameters(), lr=0.01, **more)
    scheduler = lg.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        step(model, optimizer, scheduler)
    back = through({"m": model, "o": optimizer, "s": scheduler})
    assert back["s"].optimizer is back["o"]
    assert back["o"].param_groups[0]["params"][0] is back["m"][0].weight
    for _ in range(3):
        step(model, optimizer, scheduler)
        step(back["m"], back["o"], back["s"])
    for old, new in zip(model.parameters(), back["m"].parameters(), strict=True):
        assert lg.equal(old, new)
    assert back["s"].get_last_lr() == scheduler.get_last_lr()


# ------------------------------------------------------------------------------- other objects


def test_values_that_need_no_leave() -> None:
    values = {
        "enum": Kind.LARGE,
        "pair": Pair(1, lg.ones(2)),
        "path": pathlib.Path("a/b"),
        "deque": deque([1, 2], maxlen=5),
        "args": argparse.Namespace(lr=0.1, names=["a"]),
        "simple": types.SimpleNamespace(x=1),
        "class": nn.LayerNorm,
        "type": int,
        "function": lg.relu,
        "sqrt": math.sqrt,
        "partial": functools.partial(nn.LayerNorm, 3, eps=1e-6),
        "format": lg.channels_last,
    }
    back = through(values)
    assert back["enum"] is Kind.LARGE
    assert type(back["pair"]) is Pair
    assert back["pair"].left == 1
    assert back["deque"] == values["deque"]
    assert back["deque"].maxlen == 5
    assert back["partial"]().eps == 1e-6
    for same in ("path", "args", "simple", "class", "type", "function", "sqrt"):
        assert back[same] == values[same]
    assert back["format"] is lg.channels_last


def test_objects_of_other_classes_need_leave() -> None:
    config = Config(3, Kind.SMALL, {"x": lg.ones(1)})
    slotted = Slotted()
    slotted.a = 5
    names = Names(a=1)
    names.note = "n"
    value = [config, slotted, names, config, Dropping(), double, Ordered(b=1, a=2)]
    with pytest.raises(LoadError, match=r"objects of .*Config.*add_safe_globals\(\[Config\]\)"):
        through(value)
    with safe_globals([Config, Slotted, Names, Dropping, double, Ordered]):
        allowed = through(value)
    for back in (allowed, through(value, weights_only=False)):
        assert type(back[0]) is Config
        assert back[0].kind is Kind.SMALL
        assert back[3] is back[0]
        assert back[1].a == 5
        assert not hasattr(back[1], "b")
        assert type(back[2]) is Names
        assert back[2] == {"a": 1}
        assert back[2].note == "n"
        assert vars(back[4]) == {"kept": 3}
        assert back[5] is double
        assert list(back[6].items()) == [("b", 1), ("a", 2)]


def test_setstate_runs_only_with_leave() -> None:
    model = Chosen()
    with pytest.raises(LoadError, match=r"whose __setstate__ would run; .*\(\[Chosen\]\)"):
        through(model)
    assert CALLS == []
    assert through(model, weights_only=False).cache == "restored"
    with safe_globals([Chosen]):
        back = through(model)
    assert back.cache == "restored"
    assert CALLS == ["__setstate__"] * 2
    assert back.p.tolist() == [1, 1]


def test_methods() -> None:
    model = nn.Linear(1, 1)
    model.score = model.extra_repr  # type: ignore[assignment]
    with pytest.raises(LoadError, match="the method 'extra_repr'"):
        through(model)
    back = through(model, weights_only=False)
    assert back.score() == model.extra_repr()
    assert back.score.__self__ is back


def test_a_class_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    lg.save(Block(2), file)
    module = sys.modules[__name__]
    monkeypatch.delattr(module, "Block")
    file.seek(0)
    name = f"{__name__}.Block"
    with pytest.raises(LoadError, match=f"the class '{name}', which this program does not have"):
        lg.load(file)
    file.seek(0)
    with safe_globals([(Tied, name)]):
        assert type(lg.load(file)) is Tied
    with pytest.raises(ValueError, match="expected a class"):
        add_safe_globals([(Tied, 3)])


def test_nothing_is_imported() -> None:
    file = io.BytesIO()
    module = types.ModuleType("gone_since")
    sys.modules["gone_since"] = module
    module.Net = type("Net", (nn.Module,), {"__module__": "gone_since"})  # type: ignore[attr-defined]
    lg.save(module.Net(), file)
    del sys.modules["gone_since"]
    file.seek(0)
    with pytest.raises(LoadError, match=r"gone_since\.Net.*load imports nothing"):
        lg.load(file, weights_only=False)


def test_what_cannot_be_found_again_is_not_saved(tmp_path: pathlib.Path) -> None:
    class Local(nn.Module):
        pass

    path = tmp_path / "x.pt"
    path.write_bytes(b"old")
    cases: list[tuple[Any, str]] = [
        (Local(), r"obj is of type .*Local, which load could not find"),
        (nn.Sequential(Local()), r"obj\.0 is of type"),
        ({"f": lambda: 0}, r"obj\['f'\] is the function"),
        (io.StringIO(), "says by itself how it is made"),
    ]
    for value, pattern in cases:
        with pytest.raises(TypeError, match=pattern):
            lg.save(value, path)
    broken = nn.Linear(1, 1)
    broken.file = open(path)  # type: ignore[assignment]  # noqa: SIM115
    with broken.file, pytest.raises(TypeError, match=r"obj\.file is of type .*TextIOWrapper"):
        lg.save(broken, path)
    assert path.read_bytes() == b"old"


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.pt"
    model = nn.Linear(2, 2)
    lg.save(model, path)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("livegrad.serialization.document.write_layout", fail)
    with pytest.raises(KeyboardInterrupt):
        lg.save(nn.Linear(3, 3), path)
    assert lg.load(path).in_features == 2
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]
