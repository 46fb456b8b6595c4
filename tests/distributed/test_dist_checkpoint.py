"""Checkpoints in a directory: tensors are filled in place, objects take their state, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad import distributed as dist, nn
from livegrad.distributed import checkpoint as dcp
from livegrad.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from livegrad.distributed.checkpoint.stateful import Stateful
from livegrad.distributed.fsdp import FullyShardedDataParallel, fully_shard
from livegrad.distributed.tensor import DTensor
from livegrad.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.usefixtures("launched")


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def step_of(model: nn.Module, lr: float = 0.1) -> Any:
    step = lg.optim.AdamW(model.parameters(), lr)
    model(lg.randn(5, 3)).sum().backward()
    step.step()
    step.zero_grad()
    return step


def test_saved_and_filled_in_place(tmp_path: Path) -> None:
    model = network()
    dcp.save({"model": model.state_dict(), "epoch": 3, "names": ["a", "b"]}, checkpoint_id=tmp_path)
    other = network()
    weight = other[0].weight
    state = {"model": other.state_dict(), "epoch": 0, "names": ["", ""]}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["epoch"] == 3
    assert state["names"] == ["a", "b"]
    assert other[0].weight is weight
    lg.testing.assert_close(weight, model[0].weight, rtol=0, atol=0)


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    dcp.save({"a": lg.ones(2), "b": lg.zeros(2)}, checkpoint_id=tmp_path)
    state = {"a": lg.zeros(2)}
    dcp.load(state, checkpoint_id=str(tmp_path))
    assert state["a"].tolist() == [1.0, 1.0]
    assert list(state) == ["a"]
    with pytest.raises(dcp.CheckpointException) as error:
        dcp.load({"c": {"d": lg.zeros(1)}}, checkpoint_id=tmp_path)
    assert "Missing key in checkpoint state_dict: c." in str(error.value.failures[0])
    with pytest.raises(ValueError, match="Size mismatch"):
        dcp.load({"a": lg.zeros(3)}, checkpoint_id=tmp_path)


def test_objects_with_a_state(tmp_path: Path) -> None:
    class App:
        def __init__(self, model: nn.Module, step: Any) -> None:
            self.model, self.step = model, step

        def state_dict(self) -> dict[str, Any]:
            model, step = get_state_dict(self.model, self.step)
            return {"model": model, "optim": step}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            set_state_dict(
                self.model,
                self.step,
                model_state_dict=state["model"],
                optim_state_dict=state["optim"],
            )

    model = fully_shard(network())
    app = App(model, step_of(model))
    assert isinstance(app, Stateful)
    dcp.save({"app": app}, checkpoint_id=tmp_path)
    fresh = network()
    other = App(fresh, lg.optim.AdamW(fresh.parameters(), 0.7))
    dcp.load({"app": other}, checkpoint_id=tmp_path)
    lg.testing.assert_close(fresh[2].weight, model[2].weight.full_tensor(), rtol=0, atol=0)
    assert other.step.param_groups[0]["lr"] == 0.1
    mine, theirs = app.step.state[model[2].weight], other.step.state[fresh[2].weight]
    lg.testing.assert_close(theirs["exp_avg"], mine["exp_avg"], rtol=0, atol=0)


def test_places(tmp_path: Path) -> None:
    dcp.save({"a": lg.ones(1)}, storage_writer=dcp.FileSystemWriter(tmp_path / "x"))
    state = {"a": lg.zeros(1)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path / "x"))
    assert state["a"].item() == 1.0
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        dcp.load(state, checkpoint_id=tmp_path / "y")
    with pytest.raises(RuntimeError, match="checkpoint_id"):
        dcp.save(state)
    dcp.async_save({"a": lg.full((1,), 5.0)}, checkpoint_id=tmp_path / "x").result()
    dcp.load(state, checkpoint_id=tmp_path / "x")
    assert state["a"].item() == 5.0
    with pytest.raises(RuntimeError, match="overwrite"):
        dcp.save(state, storage_writer=dcp.FileSystemWriter(tmp_path / "x", overwrite=False))


def test_published_files(tmp_path: Path) -> None:
    model = network()
    dcp.save(model.state_dict(), storage_writer=dcp.HuggingFaceStorageWriter(tmp_path))
    found = lg.serialization.load_file(tmp_path / "model.safetensors")
    assert set(found) == set(model.state_dict())
    other = network()
    dcp.load(other.state_dict(), storage_reader=dcp.HuggingFaceStorageReader(tmp_path))
    lg.testing.assert_close(other[0].weight, model[0].weight, rtol=0, atol=0)
    with pytest.raises(FileNotFoundError):
        dcp.load({}, storage_reader=dcp.HuggingFaceStorageReader(tmp_path / "none"))


def test_pickles_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'echo'\ntR.")
    with pytest.raises(RuntimeError, match="written by PyTorch"):
        dcp.load({"a": lg.zeros(1)}, checkpoint_id=tmp_path)


def test_names_do_not_depend_on_wrappers() -> None:
    dist.init_process_group("gloo")
    expected = list(network().state_dict())
    for model in (
        network(),
        DistributedDataParallel(network()),
        FullyShardedDataParallel(network()),
        fully_shard(network()),
    ):
        state = get_model_state_dict(model)
        assert list(state) == expected
        set_model_state_dict(model, {k: v + 1 for k, v in state.items()})
        again = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        assert not any(isinstance(x, DTensor) for x in again.values())
        names = {n for n, _ in network().named_parameters()}
        assert set(get_optimizer_state_dict(model, step_of(model))["state"]) == names


def test_options() -> None:
    model = network()
    model[0].requires_grad_(False)
    learned = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    assert "0.weight" not in learned
    assert "2.weight" in learned
    result = set_model_state_dict(model, learned, options=StateDictOptions(strict=False))
    assert set(result.missing_keys) == {"0.weight", "0.bias"}
    with pytest.raises(RuntimeError, match="Missing key"):
        set_model_state_dict(model, learned)


def test_optimisers_before_their_first_step() -> None:
    model = network()
    before = model[0].weight.detach().clone()
    step = lg.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
    state = get_optimizer_state_dict(model, step)
    assert state["state"]["0.weight"]["exp_avg"].tolist() == lg.zeros(4, 3).tolist()
    lg.testing.assert_close(model[0].weight, before, rtol=0, atol=0)
    assert model[0].weight.grad is None
    assert step.param_groups[0]["lr"] == 0.1


def test_flat_states_of_optimisers() -> None:
    model, flat = network(), StateDictOptions(flatten_optimizer_state_dict=True)
    step = step_of(model)
    state = get_optimizer_state_dict(model, step, options=flat)
    assert "state.0.weight.exp_avg" in state
    assert state["param_groups.0.weight.lr"] == 0.1
    other = network()
    fresh = lg.optim.AdamW(other.parameters(), 0.9)
    set_optimizer_state_dict(other, fresh, state, options=flat)
    assert fresh.param_groups[0]["lr"] == 0.1
    mine, theirs = step.state[model[0].weight], fresh.state[other[0].weight]
    lg.testing.assert_close(theirs["exp_avg_sq"], mine["exp_avg_sq"], rtol=0, atol=0)
