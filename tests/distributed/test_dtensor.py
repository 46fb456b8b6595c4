"""Meshes of one process, and tensors that lie on them."""

from __future__ import annotations

import copy
import pickle

import pytest

import livegrad as lg
from livegrad import distributed as dist, nn
from livegrad.distributed.device_mesh import DeviceMesh, init_device_mesh
from livegrad.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    ones,
    randn,
    zeros,
)
from livegrad.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

pytestmark = pytest.mark.usefixtures("launched")


@pytest.fixture
def mesh() -> DeviceMesh:
    return init_device_mesh("cpu", (1,))


def test_a_mesh_begins_a_group() -> None:
    assert not dist.is_initialized()
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert dist.is_initialized()
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.size(1)) == (2, (1, 1), 1, 1)
    assert mesh.mesh.tolist() == [[0]]
    assert mesh.get_rank() == mesh.get_local_rank("tp") == mesh.get_local_rank(0) == 0
    assert mesh.get_coordinate() == [0, 0]
    assert mesh["tp"].mesh_dim_names == ("tp",)
    assert mesh["tp"] == mesh["tp"]
    assert mesh["tp"] != mesh["dp"]
    assert mesh["dp", "tp"] == mesh
    assert dist.get_world_size(mesh.get_group("dp")) == 1
    assert "dp=1" in repr(mesh)
    assert len({mesh, mesh["dp", "tp"]}) == 1


def test_meshes_that_cannot_be() -> None:
    with pytest.raises(RuntimeError, match="one process"):
        init_device_mesh("cpu", (2,))
    with pytest.raises(RuntimeError, match="one process"):
        DeviceMesh("cpu", [0, 1])
    with pytest.raises(RuntimeError, match="same length"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a",))
    with pytest.raises(RuntimeError, match="unique"):
        init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a"))
    named = init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b"))
    with pytest.raises(KeyError):
        named["c"]
    with pytest.raises(RuntimeError, match="mesh_dim"):
        named.get_local_rank()
    with pytest.raises(RuntimeError, match="without mesh_dim_names"):
        init_device_mesh("cpu", (1,))["a"]


def test_distribute_tensor(mesh: DeviceMesh) -> None:
    x = lg.arange(6.0).reshape(2, 3).requires_grad_()
    d = distribute_tensor(x, mesh, [Shard(-1)])
    assert isinstance(d, DTensor)
    assert isinstance(d, lg.Tensor)
    assert not isinstance(x, DTensor)
    assert d.placements == (Shard(1),)
    assert d.device_mesh is mesh
    assert d.is_leaf
    assert d.requires_grad
    assert type(d.to_local()) is lg.Tensor
    assert d.full_tensor().tolist() == x.tolist()
    assert distribute_tensor(lg.ones(2), mesh).placements == (Replicate(),)


def test_what_is_computed_from_dtensors(mesh: DeviceMesh) -> None:
    d = distribute_tensor(lg.ones(2, 3).requires_grad_(), mesh, [Shard(0)])
    y = (d * 2 + 1).relu()
    assert isinstance(y, DTensor)
    assert y.placements == (Shard(0),)
    total = y.sum()
    assert isinstance(total, DTensor)
    assert float(total.full_tensor()) == 18.0
    total.backward()
    assert d.grad is not None
    assert d.grad.tolist() == [[2.0] * 3] * 2
    values, indices = d.max(1)
    assert isinstance(values, DTensor)
    assert isinstance(indices, DTensor)
    assert d.shape == (2, 3)
    assert isinstance(lg.ones(3) + d, DTensor)
    assert isinstance(nn.functional.linear(d, lg.ones(4, 3)), DTensor)


def test_local_parts_keep_their_history(mesh: DeviceMesh) -> None:
    x = lg.ones(3, requires_grad=True)
    d = DTensor.from_local(x * 2, mesh, [Replicate()])
    (d.to_local() * lg.arange(3.0)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0, 4.0]


def test_redistribute(mesh: DeviceMesh) -> None:
    d = distribute_tensor(lg.arange(4.0), mesh, [Partial()])
    again = d.redistribute(placements=[Shard(0)])
    assert again.placements == (Shard(0),)
    assert again.to_local().tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="placements"):
        d.redistribute(mesh)


def test_refused(mesh: DeviceMesh) -> None:
    with pytest.raises(ValueError, match="same length"):
        distribute_tensor(lg.ones(2), mesh, [Shard(0), Shard(0)])
    with pytest.raises(ValueError, match="dim 1"):
        distribute_tensor(lg.ones(2), mesh, [Shard(1)])
    with pytest.raises(RuntimeError, match="leaf"):
        distribute_tensor(lg.ones(2, requires_grad=True) * 2, mesh)
    with pytest.raises(RuntimeError, match="No device mesh"):
        distribute_tensor(lg.ones(2))
    with mesh:
        assert distribute_tensor(lg.ones(2)).device_mesh is mesh


def test_making_and_copying(mesh: DeviceMesh) -> None:
    assert zeros(2, 3, device_mesh=mesh).to_local().tolist() == [[0.0] * 3] * 2
    assert ones((2,), device_mesh=mesh, placements=[Shard(0)]).placements == (Shard(0),)
    assert randn(4, requires_grad=True, device_mesh=mesh).requires_grad
    d = ones(2, device_mesh=mesh, placements=[Shard(0)])
    for other in (pickle.loads(pickle.dumps(d)), copy.copy(d), copy.deepcopy(d)):
        assert isinstance(other, DTensor)
        assert other.placements == (Shard(0),)
        assert other.to_local().tolist() == [1.0, 1.0]
    assert "placements=(Shard(dim=0),)" in repr(d)


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 2)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        return self.down(self.up(self.norm(self.tokens(x))).relu())


def test_parallelize_module_trains_as_before(mesh: DeviceMesh) -> None:
    lg.manual_seed(0)
    plain, spread = Toy(), Toy()
    spread.load_state_dict(plain.state_dict())
    parallelize_module(
        spread,
        mesh,
        {
            "tokens": RowwiseParallel(input_layouts=Replicate()),
            "norm": SequenceParallel(),
            "u*": ColwiseParallel(),
            "down": RowwiseParallel(),
        },
    )
    assert spread.tokens.weight.placements == (Shard(0),)
    assert spread.up.weight.placements == spread.up.bias.placements == (Shard(0),)
    assert spread.down.weight.placements == (Shard(1),)
    assert spread.down.bias.placements == (Replicate(),)
    x = lg.tensor([[0, 1, 2], [3, 4, 0]])
    for model in (plain, spread):
        step = lg.optim.Adam(model.parameters(), 0.1)
        for _ in range(3):
            out = model(x)
            assert type(out) is lg.Tensor
            (out**2).sum().backward()
            step.step()
            step.zero_grad()
    for ours, theirs in zip(spread.parameters(), plain.parameters(), strict=True):
        lg.testing.assert_close(ours.to_local(), theirs.detach())


def test_what_goes_in_and_comes_out(mesh: DeviceMesh) -> None:
    seen: list[type] = []

    class Looks(nn.Module):
        def forward(self, x: lg.Tensor, scale: lg.Tensor) -> lg.Tensor:
            seen.extend([type(x), type(scale)])
            return x * scale

    given = PrepareModuleInput(
        input_layouts=(Shard(0),),
        desired_input_layouts=(Replicate(),),
        desired_input_kwarg_layouts={"scale": Replicate()},
    )
    taken = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    model = parallelize_module(parallelize_module(Looks(), mesh, given), mesh, taken)
    out = model(lg.ones(2), scale=lg.tensor(3.0))
    assert seen == [DTensor, DTensor]
    assert type(out) is lg.Tensor
    assert out.tolist() == [3.0, 3.0]


def test_distribute_module(mesh: DeviceMesh) -> None:
    def part(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        if name == "0":
            weight = distribute_tensor(module.weight.detach(), mesh, [Shard(0)])
            module.weight = nn.Parameter(weight)

    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = model(lg.ones(1, 2)).detach()
    distribute_module(
        model, mesh, part, lambda m, inputs, mesh: inputs, lambda m, out, mesh: out * 2
    )
    assert all(isinstance(p, DTensor) for p in model.parameters())
    out = model(lg.ones(1, 2))
    lg.testing.assert_close(lg.tensor(out.tolist()), before * 2)
