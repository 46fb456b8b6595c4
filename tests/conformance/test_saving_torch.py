"""Files exchanged with torch and with the safetensors package, in both directions."""

from __future__ import annotations

import io
import mmap
import pickle
import warnings
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import dtypes, nn, optim
from livegrad.serialization import LoadError, archive, load_file, save_file, torch_format, walk

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
crc = archive.zlib.crc32


def bits(x: Any) -> bytes:
    """The bytes of a tensor of either library."""
    if isinstance(x, lg.Tensor):
        return x._values("test").tobytes()
    plain = x.detach().resolve_conj().resolve_neg().contiguous()
    return bytes(plain.reshape(-1).view(torch.uint8).numpy()) if x.numel() else b""


def agree(ours: Any, theirs: Any) -> None:
    """Asserts that two values are the same in both libraries, tensors to the bit."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, nn.Parameter) == isinstance(theirs, torch.nn.Parameter)
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.requires_grad == theirs.requires_grad
        assert bits(ours) == bits(theirs)
    elif isinstance(theirs, torch.dtype):
        assert repr(ours).replace("livegrad", "torch") == repr(theirs)
    elif isinstance(theirs, torch.Size):
        assert type(ours) is lg.Size
        assert tuple(ours) == tuple(theirs)
    elif isinstance(theirs, torch.device):
        assert str(ours) == str(theirs)
    elif isinstance(theirs, dict):
        assert type(ours) is type(theirs)
        assert list(ours) == list(theirs)
        for key in theirs:
            agree(ours[key], theirs[key])
        if hasattr(theirs, "_metadata"):
            assert ours._metadata == theirs._metadata
    elif isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            agree(a, b)
    else:
        assert type(ours) is type(theirs)
        assert ours == theirs


def from_torch(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return lg.load(file)


def named(dtype: Any) -> Any:
    return getattr(torch, dtype.name)


def samples(dtype: Any) -> list[Any]:
    """Tensors of torch of one dtype: 0-d, empty, in odd orders."""
    base = (torch.arange(24) % 5).to(named(dtype)).reshape(2, 3, 4)
    return [
        base,
        base[0, 0, 1],
        base[:, :0],
        base.permute(2, 0, 1),
        base[:, 1:, ::2],
        base[0, 0, 0].expand(3, 4),
        base.flatten()[5:],
        torch.zeros(1, 1, 1, dtype=named(dtype)),
    ]


PLAIN: Any = {
    "none": None,
    "numbers": [True, 0, -1, 255, 65535, 2**31, -(2**31), 2**62, 2**100, 1.5, 1 - 2j],
    "text": ["", "añ☃", "\ud800"],
    "bytes": [b"", b"x\xff", bytearray(b"ab")],
    "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "set": {1, "a"},
    "keys": {1: "a", None: "b", 2.5: "c", (1, "x"): "d"} | {"long": [0] * 3000},
    "ordered": OrderedDict([("b", 1), ("a", 2)]),
    "counter": Counter("abca"),
}


# ------------------------------------------------------------------------------ from torch


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_tensors_of_torch(tmp_path: Path, dtype: Any, protocol: int) -> None:
    values = samples(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(from_torch(values, pickle_protocol=protocol), values)
    torch.save(values, tmp_path / "x.pt")
    agree(lg.load(tmp_path / "x.pt"), values)
    agree(lg.load(tmp_path / "x.pt", mmap=False), values)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_of_torch(protocol: int) -> None:
    more = {"dtype": torch.bfloat16, "size": torch.Size([2, 3]), "device": torch.device("cpu")}
    agree(from_torch({**PLAIN, **more}, pickle_protocol=protocol), {**PLAIN, **more})


def test_odd_tensors_of_torch() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    marked = torch.nn.Parameter(torch.ones(2))
    marked.note = "a tensor with an attribute"
    values = {
        "conjugate": z.clone().conj(),
        "negative": z.clone().conj().imag,
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "marked": marked,
        "leaf": torch.ones(2, requires_grad=True),
        "cut": (torch.ones(2, requires_grad=True) * 2).detach(),
        "buffer": torch.nn.Buffer(torch.ones(2)),
    }
    agree(from_torch(values), values)


def test_shared_storages_of_torch(tmp_path: Path) -> None:
    x = torch.arange(6.0)
    back = from_torch({"a": x, "again": x, "alias": x.view(6), "row": x[2:4]})
    back["a"].zero_()
    assert not back["again"].any()
    assert not back["alias"].any()
    assert not back["row"].any()


def made_of_one_storage(module: Any) -> dict[str, Any]:
    x, p = module.arange(6.0), module.nn.Parameter(module.ones(2, 2))
    image = module.arange(16.0).reshape(1, 2, 2, 4)
    return {
        "first": x[:3],
        "last": x[3:],
        "whole": x,
        "flat": x.view(3, 2),
        "turned": x.view(2, 3).t(),
        "expanded": x[1].expand(3),
        "number": x[2],
        "nothing": x[:0],
        "parameter": p,
        "row": p.data[0],
        "alone": module.arange(4)[::2],
        "image": image.contiguous(memory_format=module.channels_last),
        "bools": (x > 2)[1:],
    }


def seen_after_writes(back: dict[str, Any]) -> dict[str, Any]:
    back["whole"].mul_(10)
    back["row"].zero_()
    back["turned"][0, 0] = 7
    return {
        name: (x.tolist(), tuple(x.stride()), x.storage_offset(), x.requires_grad, x._base is None)
        for name, x in back.items()
    }


@pytest.mark.parametrize("old", [False, True])
def test_parts_of_a_storage_share_it(old: bool) -> None:
    def through(writer: Any, reader: Any) -> dict[str, Any]:
        file = io.BytesIO()
        options = {} if writer is torch else {"format": "torch"}
        new = not old
        value = made_of_one_storage(writer)
        writer.save(value, file, _use_new_zipfile_serialization=new, **options)
        file.seek(0)
        return seen_after_writes(reader.load(file))

    want = through(torch, torch)
    assert through(torch, lg) == want
    assert through(lg, torch) == want
    assert through(lg, lg) == want


def test_what_has_no_counterpart_here_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for value, pattern in (
        (torch.nn.Linear(2, 2), r"state_dict\(\)"),
        (np.float64(1.0), "NumPy values"),
        (torch.ones(2).to(torch.float8_e4m3fn), "no tensors of this type"),
        (quantised, "Quantised and nested"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(LoadError, match=pattern):
                from_torch(value)


# ------------------------------------------------------------------- files from before version 1.6

# Those that PyTorch had; it cannot read its own old files of later ones.
OLD_DTYPES = [d for d in dtypes.ALL if d.name not in ("uint16", "uint32", "uint64")]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_old_files_of_torch(tmp_path: Path, dtype: Any, protocol: int) -> None:
    values = samples(dtype)
    options = {"_use_new_zipfile_serialization": False, "pickle_protocol": protocol}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(from_torch(values, **options), values)
        torch.save(values, tmp_path / "x.pt", **options)
    agree(lg.load(tmp_path / "x.pt"), values)
    agree(lg.load(tmp_path / "x.pt", mmap=False), values)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_old_files_of_plain_values(protocol: int) -> None:
    more = {"dtype": torch.bfloat16, "size": torch.Size([2, 3]), "device": torch.device("cuda:1")}
    options = {"_use_new_zipfile_serialization": False, "pickle_protocol": protocol}
    agree(from_torch({**PLAIN, **more}, **options), {**PLAIN, **more})


def test_old_files_of_models_and_shared_storages() -> None:
    net = model(torch)
    optimizer = torch.optim.Adam(net.parameters())
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    x = torch.arange(6.0)
    values = {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "shared": [x, x, x.view(6), x[2:4]],
        "parameter": torch.nn.Parameter(x),
    }
    back = from_torch(values, _use_new_zipfile_serialization=False)
    agree(back, values)
    back["shared"][0].zero_()
    assert not back["shared"][2].any()


@pytest.mark.parametrize("dtype", OLD_DTYPES, ids=lambda d: d.name)
def test_torch_reads_our_old_files(tmp_path: Path, dtype: Any) -> None:
    values = from_torch(samples(dtype))
    lg.save(values, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    agree(values, torch.load(tmp_path / "x.pt", weights_only=True))
    agree(lg.load(tmp_path / "x.pt"), torch.load(tmp_path / "x.pt", weights_only=True))


def test_torch_reads_our_old_files_of_other_values() -> None:
    x = lg.ones(3)
    net = model(lg)
    ours = {**PLAIN, "dtype": lg.bfloat16, "device": lg.device("cpu"), "net": net.state_dict()}
    file = io.BytesIO()
    lg.save({**ours, "x": [x, x]}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    theirs = torch.load(file, weights_only=True)
    first, second = theirs.pop("x")
    agree(ours, theirs)
    assert first.data_ptr() == second.data_ptr()


def test_torchscript_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(tmp_path / "x.pt"))
    with pytest.raises(LoadError, match="TorchScript"):
        lg.load(tmp_path / "x.pt")


# -------------------------------------------------------------------------------- to torch


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_torch_reads_our_tensors(tmp_path: Path, dtype: Any, mapped: bool) -> None:
    values = from_torch(samples(dtype))
    lg.save(values, tmp_path / "x.pt")
    agree(values, torch.load(tmp_path / "x.pt", weights_only=True, mmap=mapped))


def test_torch_reads_our_plain_values() -> None:
    ours = {**PLAIN, "dtype": lg.bfloat16, "size": lg.zeros(2, 3).shape, "device": lg.device("cpu")}
    file = io.BytesIO()
    lg.save(ours, file, format="torch")
    file.seek(0)
    agree(ours, torch.load(file, weights_only=True))


def test_torch_shares_what_we_share(tmp_path: Path) -> None:
    x = lg.ones(3)
    lg.save({"a": x, "b": x.detach(), "c": x.clone()}, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt", weights_only=True)
    back["a"].zero_()
    assert back["b"].tolist() == [0, 0, 0]
    assert back["c"].tolist() == [1, 1, 1]


def test_archives_beyond_four_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One storage is too large for 32 bits, and the next too far away; both are holes."""
    sizes = [5 << 30, 64]

    class Holes:
        def write(self, data: Any) -> None:
            if len(data) == sizes[0]:
                file.seek(len(data), io.SEEK_CUR)
            else:
                file.write(data)

    class Stored:
        dtype = dtypes.uint8

        def __init__(self, number: int) -> None:
            self.number, self.shape = number, (sizes[number],)
            self.node = SimpleNamespace(meta=SimpleNamespace(numel=sizes[number]))

    writer = torch_format.PickleWriter()
    writer.out = [b"\x80\x02]("]
    for number in range(2):
        stored: Any = Stored(number)
        writer._rebuild(walk.Place(stored, 0, stored.shape, (1,)), False)
    monkeypatch.setattr(archive.zlib, "crc32", lambda data: crc(data) if len(data) < 9999 else 0)
    with (tmp_path / "x.pt").open("wb") as file:
        out = archive.ArchiveWriter(Holes())
        out.add("archive/data.pkl", b"".join([*writer.out, b"e."]))
        out.add("archive/byteorder", b"little")
        out.add("archive/data/0", memoryview(mmap.mmap(-1, sizes[0])))
        out.add("archive/data/1", bytes(range(64)))
        out.add("archive/version", b"3\n")
        out.finish()
    for back in (lg.load(tmp_path / "x.pt"), torch.load(tmp_path / "x.pt", mmap=True)):
        assert [x.numel() for x in back] == sizes
        assert back[1].tolist() == list(range(64))
    assert [x.file_size for x in zipfile.ZipFile(tmp_path / "x.pt").infolist()[2:4]] == sizes


def test_safetensors_of_torch(tmp_path: Path) -> None:
    theirs = {
        f"{dtype.name}.{i}": x.contiguous().clone()
        for dtype in dtypes.ALL
        if dtype is not dtypes.complex128
        for i, x in enumerate(samples(dtype))
    }
    safetensors.save_file(theirs, tmp_path / "theirs", metadata={"format": "pt"})
    ours = lg.load(tmp_path / "theirs")
    agree(dict(sorted(ours.items())), dict(sorted(theirs.items())))
    save_file(ours, tmp_path / "ours")
    agree(ours, {name: safetensors.load_file(tmp_path / "ours")[name] for name in ours})
    lg.save(ours, tmp_path / "saved")
    agree(load_file(tmp_path / "saved"), safetensors.load_file(tmp_path / "saved"))


# --------------------------------------------------------------------- models and optimisers


def model(library: Any) -> Any:
    net = library.nn
    return net.Sequential(
        net.Embedding(10, 8),
        net.Linear(8, 8),
        net.LayerNorm(8),
        net.Sequential(net.ReLU(), net.Linear(8, 3)),
    )


@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
def test_models_go_to_torch_and_back(tmp_path: Path, name: str) -> None:
    ours, theirs = model(lg), model(torch)
    words = [[1, 2, 3], [4, 5, 9]]
    lg.save(ours.state_dict(), tmp_path / name)
    if name.endswith(".pt"):
        theirs.load_state_dict(torch.load(tmp_path / name, weights_only=True))
    else:
        theirs.load_state_dict(safetensors.load_file(tmp_path / name))
    expected = theirs(torch.tensor(words)).detach().numpy()
    np.testing.assert_allclose(ours(lg.tensor(words)).detach().numpy(), expected, atol=1e-6)
    if name.endswith(".pt"):
        torch.save(theirs.state_dict(), tmp_path / name)
    else:
        safetensors.save_file(theirs.state_dict(), tmp_path / name)
    for assign in (False, True):
        again = model(lg)
        assert not any(again.load_state_dict(lg.load(tmp_path / name), assign=assign))
        np.testing.assert_allclose(again(lg.tensor(words)).detach().numpy(), expected, atol=1e-6)


def steps(library: Any, net: Any, optimizer: Any, scheduler: Any, count: int) -> None:
    for _ in range(count):
        optimizer.zero_grad()
        net(library.tensor([[1, 2, 3]])).square().sum().backward()
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(
    "kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adadelta"]
)
def test_a_run_goes_on_in_the_other_library(tmp_path: Path, kind: str) -> None:
    """Model, optimiser and scheduler saved by one library and loaded by the other."""
    options: dict[str, Any] = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}

    def start(library: Any) -> tuple[Any, ...]:
        net = model(library)
        optimizer = getattr(library.optim, kind)(net.parameters(), lr=0.01, **options)
        schedulers = optim if library is lg else torch.optim
        return net, optimizer, schedulers.lr_scheduler.StepLR(optimizer, 2, 0.5)

    first, there, back = start(lg), start(torch), start(lg)
    steps(lg, *first, 3)
    lg.save([part.state_dict() for part in first], tmp_path / "ours.pt")
    for part, state in zip(there, torch.load(tmp_path / "ours.pt", weights_only=True), strict=True):
        part.load_state_dict(state)
    steps(torch, *there, 3)
    torch.save([part.state_dict() for part in there], tmp_path / "theirs.pt")
    for part, state in zip(back, lg.load(tmp_path / "theirs.pt"), strict=True):
        part.load_state_dict(state)
    steps(lg, *back, 3)
    steps(lg, *first, 6)
    for (name, x), (_, y) in zip(
        first[0].named_parameters(), back[0].named_parameters(), strict=True
    ):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), atol=2e-5, err_msg=name)


class Pickled(torch.nn.Module):
    """A module that PyTorch pickles."""


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("legacy", [True, False])
def test_pickled_modules_of_torch_are_refused(
    tmp_path: Path, weights_only: bool, legacy: bool
) -> None:
    for model in (torch.nn.Linear(2, 2), Pickled()):
        torch.save({"model": model}, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
        with pytest.raises(lg.serialization.LoadError, match=r"save its state_dict\(\) instead"):
            lg.load(tmp_path / "x.pt", weights_only=weights_only)


def through_pickle(T: Any, value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def through_a_file(T: Any, value: Any) -> Any:
    file = io.BytesIO()
    T.save(value, file)
    file.seek(0)
    return T.load(file)


@pytest.mark.parametrize("through", [through_pickle, through_a_file])
def test_tensors_lie_as_they_did(through: Any) -> None:
    def run(T: Any) -> Any:
        x = T.arange(24.0).reshape(2, 3, 4)
        made = [x.transpose(0, 2).clone(), x.permute(1, 2, 0).clone(), x[0].t().clone()]
        made.append(T.nn.Parameter(T.arange(6.0).reshape(2, 3).t()))
        made.append(T.ones(2, 1, 3).transpose(0, 1))
        made.append(x[None].to(memory_format=T.channels_last).requires_grad_())
        back = through(T, made)
        return [(y.tolist(), y.stride(), y.is_leaf, y.requires_grad, y._base) for y in back]

    assert run(lg) == run(torch)
