"""What differs from PyTorch, line by line of docs/coming_from_pytorch.md."""

from __future__ import annotations

import io
import pickle
import re
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.porting.modules import ops

DOCUMENT = Path(__file__).parents[2] / "docs" / "coming_from_pytorch.md"


def test_every_line_of_the_document_has_its_test() -> None:
    lines = re.findall(r"\| `(\w+)` \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) > 15
    assert {f"test_{name}" for name in lines} <= set(globals())


def test_waiting() -> None:
    before = lg.stats().flushes
    x = lg.ones(100, 100)
    for _ in range(5):
        x = (x @ x) / 100
    assert lg.stats().flushes == before
    assert x.sum().item() == pytest.approx(10000.0)
    assert lg.stats().flushes == before + 1


def test_faults() -> None:
    index = lg.tensor([1]) * 7
    table = lg.zeros(3)
    line = test_faults.__code__.co_firstlineno + 4
    rows = table[index]
    with pytest.raises(IndexError) as caught:
        rows.tolist()
    assert caught.traceback[-1].lineno + 1 == line


def test_weak_references() -> None:
    x = lg.ones(3)
    for later in (lambda: x.sum().item(), lambda: [x + i for i in range(128)]):
        y = x * 2
        seen = weakref.ref(y)
        del y
        later()
        assert seen() is None


def test_seeds() -> None:
    lg.manual_seed(3)
    first = lg.rand(4).tolist()
    lg.manual_seed(3)
    assert lg.rand(4).tolist() == first


def test_written_values() -> None:
    x = lg.tensor([2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y += 5
    z.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0]


def test_negative_steps() -> None:
    assert lg.arange(4)[::-1].tolist() == [3, 2, 1, 0]


def test_sizes() -> None:
    x = lg.ones(2, 3)
    assert x.size == 6
    assert x.size() == (2, 3)


def test_devices() -> None:
    assert not lg.cuda.is_available()
    assert lg.ones(2, device="meta").device.type == "meta"
    with pytest.raises(AssertionError, match="no device 'cuda'"):
        lg.ones(2, device="cuda")


def test_compiling() -> None:
    net = nn.Linear(2, 2)
    assert lg.compile(net, backend="whatever") is net


def test_tracing() -> None:
    def f(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    assert lg.jit.trace(f, lg.ones(2))(-lg.ones(2)).tolist() == [1.0, 1.0]


def test_script_files() -> None:
    with pytest.raises(RuntimeError, match="TorchScript"):
        lg.jit.save(nn.Linear(1, 1), io.BytesIO())


def test_exporting() -> None:
    with pytest.raises(RuntimeError, match="ONNX"):
        lg.onnx.export(nn.Linear(1, 1), lg.ones(1), "x.onnx")


class Shouts:
    """A class that must not be called by a file."""

    called = False

    def __init__(self) -> None:
        Shouts.called = True

    def __reduce__(self) -> Any:
        return Shouts, ()


def test_loading(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(pickle.dumps(Shouts()))
    Shouts.called = False
    with (
        lg.serialization.safe_globals([Shouts]),
        pytest.raises((RuntimeError, ValueError, TypeError)),
    ):
        lg.load(tmp_path / "x.pt", weights_only=False)
    assert not Shouts.called


def test_saved_values() -> None:
    shapes: list[tuple[int, ...]] = []
    x = lg.randn(2, 3, requires_grad=True)
    with lg.autograd.graph.saved_tensors_hooks(
        lambda t: shapes.append(tuple(t.shape)) or t, lambda t: t
    ):
        loss = nn.functional.cross_entropy(x, lg.tensor([0, 1]))
    loss.backward()
    assert (2, 3) in shapes
    assert x.grad is not None


def test_saving_modules(tmp_path: Path) -> None:
    model = nn.Linear(1, 1)
    lg.save(model, tmp_path / "x.pt")
    back = lg.load(tmp_path / "x.pt")
    assert type(back) is nn.Linear
    assert back.weight.tolist() == model.weight.tolist()
    assert not (tmp_path / "x.pt").read_bytes().startswith(b"PK")


def test_scalers() -> None:
    assert lg.amp.GradScaler().is_enabled()


def test_old_scalers() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert not lg.cuda.amp.GradScaler().is_enabled()
    assert "no GPU" in str(heard[0].message)


def test_switches() -> None:
    with pytest.raises(AttributeError, match="no switch"):
        lg.backends.cudnn.benchmrak = True


def test_overloads() -> None:
    x = lg.ones(2)
    assert ops.aten.add.Scalar(x, x).tolist() == ops.aten.add.Tensor(x, 1).tolist()


def test_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match="fetches no code"):
        lg.hub.load("pytorch/vision", "resnet18")


def test_half_complex() -> None:
    assert lg.chalf is lg.complex64


def test_printing(monkeypatch: pytest.MonkeyPatch) -> None:
    from livegrad.dtypes import Namespace

    assert str(lg.float32) == "livegrad.float32"
    monkeypatch.setattr(Namespace, "name", "torch")
    assert (str(lg.float32), str(lg.ones(2).shape)) == ("torch.float32", "torch.Size([2])")


def test_sparse_gradients() -> None:
    a = lg.tensor([[1.0, 0], [0, 2]]).to_sparse().requires_grad_()
    b = lg.tensor([[0.0, 3], [0, 4]]).to_sparse()
    (a + b).to_dense().sum().backward()
    assert a.grad is not None
    assert a.grad.indices().tolist() == a.detach().indices().tolist()
    assert a.grad.values().tolist() == [1, 1]


def test_sparse_layouts() -> None:
    a = lg.tensor([[1.0, 0], [0, 2]])
    assert (a.to_sparse_csr() / 2).to_dense().tolist() == [[0.5, 0], [0, 1]]
    assert a.to_sparse()[1:].to_dense().tolist() == [[0, 2]]
    with pytest.raises(RuntimeError, match="must be equal to nnz"):
        lg.sparse_csr_tensor([0, 1, 2], [0, 1, 1], lg.ones(2), (2, 2))


def test_small_types() -> None:
    assert lg.float8_e4m3fn != lg.uint8
    assert lg.finfo(lg.float8_e4m3fn).max == 448
    with pytest.raises(TypeError, match="no tensors of uint4"):
        lg.zeros(2, dtype=lg.uint4)


def test_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    from livegrad import distributed
    from livegrad.distributed.tensor import Partial, Shard, distribute_tensor

    launched = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="one process"):
        distributed.init_device_mesh("cpu", (2,))
    mesh = distributed.init_device_mesh("cpu", (1,))
    x = distribute_tensor(lg.arange(4.0), mesh, [Shard(0)])
    moved = x.redistribute(placements=[Partial()])
    assert moved.placements == (Partial(),)
    assert moved.to_local().data_ptr() == x.to_local().data_ptr()
    distributed.destroy_process_group()


def test_distributed_checkpoints(tmp_path: Path) -> None:
    from livegrad.distributed import checkpoint

    checkpoint.save({"a": lg.ones(2)}, checkpoint_id=tmp_path / "ours")
    assert [file.suffix for file in (tmp_path / "ours").iterdir()] == [".safetensors"]
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / ".metadata").write_bytes(pickle.dumps(0))
    with pytest.raises(RuntimeError, match="written by PyTorch"):
        checkpoint.load({"a": lg.zeros(2)}, checkpoint_id=tmp_path / "theirs")
