"""Devices, and tensors without data (the meta device), against PyTorch."""

from __future__ import annotations

import copy
import importlib
import itertools
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

db = importlib.import_module("tests.conformance.module_db")

LIBRARIES = (lg, torch)

# -------------------------------------------------------------------------------------- devices

NAMES = ["cpu", "cuda", "meta", "mps", "xpu", "hip", "hpu", "xla", "mtia", "privateuseone"]
DEVICES: list[tuple[Any, ...]] = [
    *[(name,) for name in NAMES],
    *[(name, 1) for name in NAMES],
    *[(f"{name}:2",) for name in NAMES],
    ("cuda:1", 2), ("cuda", -1), ("cuda:-1",), ("cuda:01",), ("cuda:",), ("",), (1,), (-1,),
    (None,), (1.5,), ("cuda", None), (None, 1), ("CUDA",), ("cuda:a",), ("cuda:1:2",), ("gpu",),
]  # fmt: skip


def outcome(make: Any) -> Any:
    """What a call gives, or the class of its error."""
    try:
        return make()
    except Exception as error:
        return type(error)


def described(device: Any) -> Any:
    return device if isinstance(device, type) else (device.type, device.index, str(device))


@pytest.mark.parametrize("args", DEVICES, ids=str)
def test_devices(args: tuple[Any, ...]) -> None:
    ours, theirs = [outcome(lambda t=t: t.device(*args)) for t in LIBRARIES]
    assert described(ours) == described(theirs)
    if not isinstance(theirs, type):
        assert repr(ours) == repr(theirs)
        for again in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), lg.device(ours)):
            assert again == ours
            assert hash(again) == hash(ours)


def test_which_devices_are_equal() -> None:
    names = ["cpu", "cpu:0", "cuda", "cuda:0", "cuda:1", "meta"]
    for a, b in itertools.product(names, names):
        assert (lg.device(a) == lg.device(b)) == (torch.device(a) == torch.device(b))
    assert lg.device("cuda") != "cuda"
    assert str(lg.device(type="cuda", index=2)) == str(torch.device(type="cuda", index=2))
    assert str(lg.device(device="cuda:2")) == str(torch.device(device="cuda:2"))


USES = [
    lambda t, d: t.ones(2, device=d),
    lambda t, d: t.ones(2).to(d),
    lambda t, d: t.ones(2).to(t.device(d)),
    lambda t, d: t.tensor([1.0], device=d),
    lambda t, d: t.arange(3, device=d),
    lambda t, d: t.nn.Linear(2, 2, device=d),
    lambda t, d: t.nn.Linear(2, 2).to(d),
    lambda t, d: inside(t, d),
]


def inside(t: Any, device: Any) -> Any:
    with t.device(device):
        return t.zeros(2)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "xpu"])
@pytest.mark.parametrize("use", USES)
def test_devices_that_are_not_there(use: Any, device: str) -> None:
    for t in LIBRARIES:
        with pytest.raises(AssertionError):
            use(t, device)


def test_what_is_asked_of_cuda() -> None:
    for t in LIBRARIES:
        assert not t.cuda.is_available()
        assert t.cuda.device_count() == 0
        for ask in (t.cuda.current_device, t.cuda.synchronize, t.ones(2).cuda):
            with pytest.raises(AssertionError):
                ask()
        with pytest.raises(AssertionError):
            t.nn.Linear(2, 2).cuda()


# ------------------------------------------------------------------------- what tensors say


def form(x: Any, strides: bool = False) -> Any:
    """What can be known of a result without its values."""
    if isinstance(x, lg.Tensor | torch.Tensor):
        dtype = str(x.dtype).rpartition(".")[2]
        found = str(x.device), tuple(x.shape), dtype, x.requires_grad, x.is_leaf
        return (*found, x.stride()) if strides else found
    if isinstance(x, tuple | list):
        return [form(part, strides) for part in x]
    return x


def meta(t: Any, *shape: int, **options: Any) -> Any:
    return t.ones(shape, device="meta", **options)


def learned(t: Any) -> Any:
    x = meta(t, 3, requires_grad=True)
    (x * 2).sum().backward()
    return x.grad


def clipped(t: Any) -> Any:
    module = t.nn.Linear(2, 3, device="meta")
    module(meta(t, 4, 2)).sum().backward()
    return t.nn.utils.clip_grad_norm_(module.parameters(), 1.0)


ASKED = {
    "add": lambda t: meta(t, 2, 3) + meta(t, 3),
    "number": lambda t: t.tensor(2.0) * meta(t, 2),
    "mixed": lambda t: meta(t, 2) + t.ones(2),
    "mixed the other way": lambda t: t.ones(2) + meta(t, 2),
    "mixed cat": lambda t: t.cat([meta(t, 2), t.ones(2)]),
    "mixed stack": lambda t: t.stack([meta(t, 2), t.ones(2)]),
    "mixed where": lambda t: t.where(t.ones(2) > 0, meta(t, 2), meta(t, 2)),
    "a number of it": lambda t: t.ones(2) + meta(t),
    "matmul": lambda t: meta(t, 2, 3) @ meta(t, 3, 4),
    "reduce": lambda t: meta(t, 2, 3).sum(1),
    "max": lambda t: tuple(meta(t, 2, 3).max(1)),
    "sort": lambda t: tuple(meta(t, 2, 3).sort()),
    "argmax": lambda t: meta(t, 2, 3).argmax(),
    "softmax": lambda t: meta(t, 2, 3).softmax(-1),
    "cast": lambda t: meta(t, 2).to(t.int32),
    "double": lambda t: meta(t, 2).double(),
    "bool": lambda t: meta(t, 2) > 0,
    "view": lambda t: meta(t, 2, 3).view(3, 2).t()[1:, None],
    "index": lambda t: meta(t, 4, 3)[t.tensor([0, 2])],
    "iterate": lambda t: list(meta(t, 2, 3)),
    "chunk": lambda t: list(meta(t, 4, 3).chunk(2)),
    "einsum": lambda t: t.einsum("ij,jk->ik", meta(t, 2, 3), meta(t, 3, 4)),
    "svd": lambda t: tuple(t.linalg.svd(meta(t, 4, 3))),
    "inv": lambda t: t.linalg.inv(meta(t, 3, 3)),
    "fft": lambda t: t.fft.rfft(meta(t, 8)),
    "conv": lambda t: t.nn.functional.conv2d(meta(t, 1, 2, 5, 5), meta(t, 3, 2, 3, 3)),
    "cross_entropy": lambda t: t.nn.functional.cross_entropy(
        meta(t, 4, 3), meta(t, 4, dtype=t.int64)
    ),
    "attention": lambda t: t.nn.functional.scaled_dot_product_attention(
        meta(t, 2, 4, 5, 8), meta(t, 2, 4, 6, 8), meta(t, 2, 4, 6, 8)
    ),
    "embedding": lambda t: t.nn.functional.embedding(meta(t, 4, dtype=t.int64), meta(t, 9, 3)),
    "dropout": lambda t: t.nn.functional.dropout(meta(t, 4)),
    "clone": lambda t: meta(t, 2, requires_grad=True).clone(),
    "detach": lambda t: meta(t, 2, requires_grad=True).detach(),
    "deepcopy": lambda t: copy.deepcopy(meta(t, 2, requires_grad=True)),
    "pickle": lambda t: pickle.loads(pickle.dumps(meta(t, 2))),
    "parameter": lambda t: t.nn.Parameter(meta(t, 2)),
    "gradient": learned,
    "wrong sizes": lambda t: meta(t, 2) + meta(t, 3),
    "wrong matmul": lambda t: meta(t, 2, 3) @ meta(t, 2, 3),
    "wrong dim": lambda t: meta(t, 2).sum(1),
    "in place": lambda t: meta(t, 2, 3).add_(1).mul_(2).clamp_(0),
    "in place wrong": lambda t: meta(t, 2).add_(meta(t, 3, 2)),
    "in place leaf": lambda t: meta(t, 2, requires_grad=True).add_(1),
    "fill": lambda t: meta(t, 2).zero_().fill_(3).normal_().uniform_().bernoulli_(),
    "copy in": lambda t: meta(t, 2).copy_(t.ones(2)),
    "copy out": lambda t: t.ones(2).copy_(meta(t, 2)),
    "write a part": lambda t: meta(t, 2, 3).__setitem__(0, 1.0),
    "write a tensor": lambda t: meta(t, 2, 3).__setitem__(0, t.ones(3)),
    "write out": lambda t: t.ones(2, 3).__setitem__(0, meta(t, 3)),
    "item": lambda t: meta(t).item(),
    "float": lambda t: float(meta(t)),
    "int": lambda t: int(meta(t)),
    "truth": lambda t: bool(meta(t)),
    "numpy": lambda t: meta(t, 2).numpy(),
    "array": lambda t: np.asarray(meta(t, 2)),
    "tolist": lambda t: meta(t, 2).tolist(),
    "cpu": lambda t: meta(t, 2).cpu(),
    "to cpu": lambda t: meta(t, 2).to("cpu"),
    "to cpu and dtype": lambda t: meta(t, 2).to("cpu", t.float64),
    "to another": lambda t: t.ones(2).to(meta(t, 2, dtype=t.float64)),
    "to meta": lambda t: t.ones(2).to("meta"),
    "to meta and dtype": lambda t: t.ones(2).to("meta", t.int32),
    "to where it is": lambda t: (x := meta(t, 2)).to("meta") is x,
    "nonzero": lambda t: meta(t, 2).nonzero(),
    "mask": lambda t: meta(t, 2)[meta(t, 2) > 0],
    "masked_select": lambda t: meta(t, 2).masked_select(meta(t, 2) > 0),
    "unique": lambda t: meta(t, 2).unique(),
    "allclose": lambda t: t.allclose(meta(t, 2), meta(t, 2)),
    "data of numbers": lambda t: t.tensor([meta(t), meta(t)]),
    "data_ptr": lambda t: meta(t, 2).data_ptr(),
    "counts": lambda t: (meta(t, 2, 3).numel(), meta(t, 2, 3).nbytes, meta(t, 2, 3).is_meta),
    "where it is": lambda t: (meta(t, 2).is_cpu, meta(t, 2).is_cuda, t.ones(2).is_meta),
    "print": lambda t: repr(meta(t, 2, 3)),
    "print a number": lambda t: f"{meta(t)}",
    "print integers": lambda t: repr(meta(t, 2, dtype=t.int64)).replace("torch", t.__name__),
    "print a leaf": lambda t: repr(meta(t, 2, requires_grad=True)),
    "print a result": lambda t: repr(meta(t, 2, requires_grad=True) * 2),
    "vmap": lambda t: t.func.vmap(lambda x: x.exp().sum())(meta(t, 3, 4)),
    "grad": lambda t: t.func.grad(lambda x: (x**2).sum())(meta(t, 3)),
    "write at indices": lambda t: (x := meta(t, 3)).__setitem__(t.tensor([0, 1]), 1.0) or x,
    "write where": lambda t: (x := meta(t, 3)).__setitem__(x > 0, 1.0) or x,
    "write through a view": lambda t: meta(t, 3, 4)[1:].mul_(2),
    "as_strided": lambda t: meta(t, 3, 4).as_strided((2, 2), (1, 2)),
    "resize_": lambda t: meta(t, 3, 4).resize_(2, 2),
    "storage": lambda t: meta(t, 3, 4).untyped_storage().nbytes(),
    "storage's device": lambda t: str(meta(t, 3, 4).untyped_storage().device),
    "assert_close": lambda t: t.testing.assert_close(meta(t, 3), meta(t, 3)),
    "assert_close elsewhere": lambda t: t.testing.assert_close(meta(t, 3), t.ones(3)),
    "clip_grad_norm_": lambda t: clipped(t),
    "a branch": lambda t: 1 if meta(t, 1) > 0 else 2,
    "huge": lambda t: (meta(t, 1 << 40, 8).double() * 2).sum(0),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_tensors_without_data_say(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = [outcome(lambda t=t: ASKED[name](t)) for t in LIBRARIES]
    if isinstance(theirs, str):
        theirs = theirs.replace("torch.", "livegrad.")
    assert form(ours, name not in COLUMN_MAJOR) == form(theirs, name not in COLUMN_MAJOR)


# LAPACK's results lie column by column there.
COLUMN_MAJOR = ("svd", "inv")


MADE = {
    "zeros": lambda t, **o: t.zeros(2, 3, **o),
    "ones": lambda t, **o: t.ones(2, dtype=t.int32, **o),
    "empty": lambda t, **o: t.empty((2, 3), **o),
    "full": lambda t, **o: t.full((2,), 3, **o),
    "tensor": lambda t, **o: t.tensor([[1, 2]], **o),
    "as_tensor": lambda t, **o: t.as_tensor([1.0], **o),
    "asarray": lambda t, **o: t.asarray([1.0], **o),
    "arange": lambda t, **o: t.arange(2, 9, 2, **o),
    "linspace": lambda t, **o: t.linspace(0, 1, 4, **o),
    "logspace": lambda t, **o: t.logspace(0, 1, 4, **o),
    "eye": lambda t, **o: t.eye(2, 3, **o),
    "rand": lambda t, **o: t.rand(2, **o),
    "randn": lambda t, **o: t.randn(2, requires_grad=True, **o),
    "randint": lambda t, **o: t.randint(0, 9, (2,), **o),
    "randperm": lambda t, **o: t.randperm(4, **o),
    "tril_indices": lambda t, **o: t.tril_indices(3, 3, **o),
    "triu_indices": lambda t, **o: t.triu_indices(3, 3, **o),
    "hann_window": lambda t, **o: t.hann_window(5, **o),
    "gaussian": lambda t, **o: t.signal.windows.gaussian(5, **o),
    "fftfreq": lambda t, **o: t.fft.fftfreq(5, **o),
    "scalar_tensor": lambda t, **o: t.scalar_tensor(5, **o),
    "empty_strided": lambda t, **o: t.empty_strided((2, 3), (3, 1), **o),
    "zeros_like": lambda t, **o: t.zeros_like(t.ones(2), **o),
    "full_like": lambda t, **o: t.full_like(t.ones(2), 3.0, **o),
    "rand_like": lambda t, **o: t.rand_like(t.ones(2), **o),
    "randn_like": lambda t, **o: t.randn_like(t.ones(2), **o),
    "randint_like": lambda t, **o: t.randint_like(t.ones(2), 3, **o),
    "new_zeros": lambda t, **o: t.ones(2, device="cpu").new_zeros(3, **o),
    "new_tensor": lambda t, **o: t.ones(2, device="cpu").new_tensor([3], **o),
    "normal": lambda t, **o: t.normal(0.0, 1.0, (3,), **o),
    "Tensor": lambda t, **o: t.Tensor(2, 3),
    "from_numpy": lambda t, **o: t.from_numpy(np.ones(2)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_where(name: str) -> None:
    before = lg.get_rng_state().tolist()

    def within(t: Any, **options: Any) -> Any:
        with t.device("meta"):
            return MADE[name](t, **options)

    for options in ({}, {"device": "cpu"}, {"device": "meta"}):
        ours, theirs = [form(within(t, **options)) for t in LIBRARIES]
        assert ours == theirs, options
        ours, theirs = [form(MADE[name](t, **options)) for t in LIBRARIES]
        assert ours == theirs, options
    if name.startswith("rand"):
        with lg.device("meta"):
            after = lg.get_rng_state()
            MADE[name](lg, device="meta")
            assert lg.get_rng_state().tolist() == after.tolist() != before


def test_like_a_tensor_without_data() -> None:
    for make in (
        lambda t: t.zeros_like(meta(t, 2)),
        lambda t: t.randn_like(meta(t, 2)),
        lambda t: meta(t, 2, dtype=t.int32).new_ones(3),
        lambda t: meta(t, 2).new_tensor([1, 2]),
        lambda t: t.zeros_like(meta(t, 2), device="cpu"),
        lambda t: t.tensor(meta(t, 2)),
        lambda t: t.as_tensor(t.ones(2), device="meta"),
        lambda t: t.normal(meta(t, 2), 1.0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = [form(make(t)) for t in LIBRARIES]
        assert ours == theirs


def test_the_default_device() -> None:
    for t in LIBRARIES:
        t.set_default_device("meta")
        try:
            assert t.get_default_device() == t.device("meta")
            assert t.ones(2).is_meta
            with t.device("cpu"):
                assert not t.ones(2).is_meta
                with t.device("meta"):
                    assert t.ones(2).is_meta
            t.set_default_device("cuda:1")
            assert str(t.get_default_device()) == "cuda:1"
            with pytest.raises(AssertionError):
                t.ones(2)
        finally:
            t.set_default_device(None)
        assert t.get_default_device() == t.device("cpu")
        assert not t.ones(2).is_meta


# -------------------------------------------------------------------------------------- modules


def on_meta(t: Any, x: Any) -> Any:
    if isinstance(x, t.Tensor):
        return x.detach().to("meta").requires_grad_(x.requires_grad)
    if isinstance(x, dict):
        return {k: on_meta(t, v) for k, v in x.items()}
    return type(x)([on_meta(t, v) for v in x]) if type(x) in (tuple, list) else x


def state_form(module: Any) -> Any:
    return {k: form(v) for k, v in module.state_dict().items()}


def run(t: Any, module: Any, args: Any, kwargs: Any) -> Any:
    """Forms of the outputs and gradients of a module without data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = [y for y in db.flat(module(*args, **kwargs)) if y is not None]
        total = [y.sum() for y in outputs if y.requires_grad]
        if total:
            sum(total).backward()
    grads = [None if p.grad is None else form(p.grad) for p in module.parameters()]
    return [form(y) for y in outputs], grads


@pytest.mark.parametrize("place", range(len(db.module_db)), ids=lambda i: db.module_db[i].name)
def test_modules_without_data(place: int) -> None:
    info = db.module_db[place]
    ours = db.counterpart(info)
    if ours is None or "Lazy" in info.name:
        pytest.skip("no such module here, or one that has no shapes")
    compared = 0
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=True
    )
    for sample in itertools.islice(samples, 3):
        built, given = sample.constructor_input, sample.forward_input
        translate = db.Translator()
        options = translate(built.args), translate(built.kwargs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.device("meta"):
                theirs = info.module_cls(*built.args, **built.kwargs)
            with lg.device("meta"):
                mine = ours(*options[0], **options[1])
        assert state_form(mine) == state_form(theirs)
        assert repr(mine) == repr(theirs) or "function" in repr(theirs)
        args, kwargs = translate(given.args), translate(given.kwargs)
        try:
            wanted = run(torch, theirs, on_meta(torch, given.args), on_meta(torch, given.kwargs))
        except Exception:  # not every module of PyTorch works there
            continue
        assert run(lg, mine, on_meta(lg, args), on_meta(lg, kwargs)) == wanted
        compared += 1
    assert compared or info.name in REFUSED


# Modules that PyTorch itself refuses there, or that are made of tensors that have data.
REFUSED = {
    "nn.FractionalMaxPool2d",
    "nn.FractionalMaxPool3d",
    "nn.TransformerEncoder",
    "nn.MultiLabelMarginLoss",
    "nn.MultiMarginLoss",
    "nn.GaussianNLLLoss",
    "nn.LinearCrossEntropyLoss",
    "nn.CTCLoss",
}


def test_the_way_of_a_large_model() -> None:
    """Made without data, given memory, loaded; or made without data, and given the values."""
    for t in LIBRARIES:

        def make(t: Any = t) -> Any:
            return t.nn.Sequential(
                t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Embedding(5, 2, padding_idx=1)
            )

        source = make().state_dict()
        with t.device("meta"):
            model = make()
        assert all(p.is_meta for p in model.parameters())
        assert sum(p.numel() for p in model.parameters()) == 34
        model.to_empty(device="cpu")
        assert not any(x.is_meta for x in model.state_dict().values())
        model.load_state_dict(source)
        with t.device("meta"):
            other = make()
        assert "Sequential" in repr(other)
        with pytest.warns(UserWarning, match="which is a no-op"):
            other.load_state_dict(source)
        assert next(other.parameters()).is_meta
        other[0].weight.requires_grad_(False)
        other.load_state_dict(source, assign=True)
        for found in (model, other):
            for key, value in source.items():
                assert t.equal(found.state_dict()[key], value)
        assert not other[0].weight.requires_grad
        assert isinstance(other[0].weight, t.nn.Parameter)
        model.to("meta")
        assert all(x.is_meta for x in model.state_dict().values())
        with pytest.raises(NotImplementedError, match="no data"):
            model.to("cpu")
        with pytest.raises(RuntimeError, match="While copying the parameter named"):
            make().load_state_dict(model.state_dict())


def test_initialisers_do_nothing() -> None:
    for t in LIBRARIES:
        init = t.nn.init
        weight = t.nn.Parameter(t.empty(4, 3, device="meta"))
        kernel = t.empty(4, 3, 3, device="meta")
        before = t.get_rng_state().tolist()
        for name in (
            "uniform_ normal_ trunc_normal_ ones_ zeros_ eye_ xavier_uniform_ xavier_normal_ "
            "kaiming_uniform_ kaiming_normal_ orthogonal_"
        ).split():
            assert getattr(init, name)(weight) is weight
        init.constant_(weight, 2.0)
        assert init.dirac_(kernel).is_meta
        assert weight.is_meta
        assert weight.requires_grad
        assert t.get_rng_state().tolist() == before


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_optimisers_step_without_data(name: str) -> None:
    for t in LIBRARIES:
        p = t.nn.Parameter(t.ones(2, 3, device="meta"))
        optimizer = getattr(t.optim, name)([p], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (p * 2).sum().backward()
            optimizer.step()
        assert p.is_meta
        assert p.is_leaf
        state = {k: v for k, v in optimizer.state[p].items() if k != "step"}
        assert all(v.is_meta for v in state.values())


def test_files(tmp_path: Path) -> None:
    """Both libraries read what either has saved."""
    for t, other in itertools.permutations(LIBRARIES, 2):
        with t.device("meta"):
            module = t.nn.Linear(3, 2)
        path = tmp_path / f"{t.__name__}.pt"
        t.save({"state": module.state_dict(), "p": module.weight, "d": t.device("cuda:1")}, path)
        for reader in (t, other):
            back = reader.load(path)
            assert {k: form(v) for k, v in back["state"].items()} == state_form(module)
            assert form(back["p"]) == form(module.weight)
            assert isinstance(back["p"], reader.nn.Parameter)
            assert str(back["d"]) == "cuda:1"
