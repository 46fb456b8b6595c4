"""Programs for several processes, run by one."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import livegrad as lg
from livegrad import distributed as dist, nn, optim
from livegrad.distributed import run as launching
from livegrad.distributed.algorithms.ddp_comm_hooks import default_hooks
from livegrad.distributed.algorithms.join import Join
from livegrad.distributed.elastic.multiprocessing.errors import record
from livegrad.distributed.optim import ZeroRedundancyOptimizer
from livegrad.nn.parallel import DistributedDataParallel as DDP
from livegrad.utils.data import DistributedSampler

LAUNCHED = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.fixture
def group(monkeypatch: Any) -> Iterator[None]:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group("gloo")
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def ended() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("backend", ["gloo", "nccl", "NCCL", "mpi", "cpu:gloo,cuda:nccl", None])
@pytest.mark.parametrize(
    "how",
    [
        {"init_method": "env://"},
        {},
        {"init_method": "tcp://localhost:29501", "rank": 0, "world_size": 1},
        {"init_method": "tcp://localhost:29501?rank=0&world_size=1"},
        {"init_method": "file:///tmp/nowhere", "rank": 0, "world_size": 1},
        {"store": dist.HashStore(), "rank": 0, "world_size": 1},
    ],
)
def test_ways_to_begin(backend: Any, how: Any, monkeypatch: Any, ended: None) -> None:
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group(backend, timeout=timedelta(seconds=5), **how)
    assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    assert dist.get_backend() == (backend.lower() if backend else "undefined")
    assert dist.group.WORLD is dist.GroupMember.WORLD is not None


def test_more_processes_are_refused(ended: None) -> None:
    with pytest.raises(RuntimeError, match=r"world_size=4; livegrad runs programs of one process"):
        dist.init_process_group("gloo", "tcp://localhost:1", rank=0, world_size=4)
    assert not dist.is_initialized()


def test_a_training_loop_of_several_processes(group: None) -> None:
    lg.manual_seed(0)
    model = DDP(nn.Linear(3, 1))
    sampler = DistributedSampler(range(8))
    assert (sampler.num_replicas, sampler.rank, len(sampler)) == (1, 0, 8)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optim.SGD, lr=0.1)
    losses = []
    for epoch in range(5):
        sampler.set_epoch(epoch)
        x = lg.tensor([[i / 8, 1.0, -i / 4] for i in sampler])
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        losses.append((total / dist.get_world_size()).item())
        dist.barrier()
    assert losses[-1] < losses[0] / 2
    if dist.get_rank() == 0:
        names = list(model.state_dict())
    assert names == ["module.weight", "module.bias"]
    optimizer.consolidate_state_dict()
    optimizer.load_state_dict(optimizer.state_dict())


def test_collectives_write_what_they_are_given(group: None) -> None:
    x = lg.arange(3.0)
    out = [lg.zeros(3)]
    dist.all_gather(out, x)
    assert out[0].tolist() == [0, 1, 2]
    flat = lg.zeros(1, 3)
    dist.all_gather_into_tensor(flat, x)
    assert flat.tolist() == [[0, 1, 2]]
    to = lg.zeros(3, requires_grad=True)
    dist.scatter(to, [x])
    assert to.tolist() == [0, 1, 2]
    assert to.is_leaf
    work = dist.all_to_all_single(to, x * 2, async_op=True)
    assert work.wait()
    assert work.get_future().wait()[0].tolist() == [0, 2, 4]
    assert dist.all_reduce(x) is None


def test_objects_are_copies(group: None) -> None:
    given = {"a": [1, lg.ones(2)]}
    out: list[Any] = [None]
    dist.all_gather_object(out, given)
    assert out[0]["a"][0] == 1
    assert out[0]["a"] is not given["a"]
    dist.broadcast_object_list(out, src=0)
    assert out[0]["a"][1].tolist() == [1, 1]


def test_gradients_go_through_a_hook(group: None) -> None:
    seen = []

    def hook(state: Any, bucket: dist.GradBucket) -> Any:
        seen.append((state, bucket.index(), bucket.buffer().numel(), bucket.is_last()))
        assert bucket.parameters()[0].shape == bucket.gradients()[0].shape
        future: lg.futures.Future[Any] = lg.futures.Future()
        future.set_result(bucket.buffer() * 2)
        return future.then(lambda f: f.value() + 1)

    model = DDP(nn.Linear(2, 2))
    model.register_comm_hook("state", hook)
    model(lg.ones(1, 2)).sum().backward()
    assert sorted(seen) == [("state", 0, 2, False), ("state", 1, 4, True)]
    assert model.module.weight.grad.tolist() == [[3, 3], [3, 3]]
    with model.no_sync():
        model(lg.ones(1, 2)).sum().backward()
    assert model.module.weight.grad.tolist() == [[4, 4], [4, 4]]
    assert len(seen) == 2
    model(lg.ones(1, 2)).sum().backward()
    assert model.module.weight.grad.tolist() == [[11, 11], [11, 11]]


def test_hooks_in_smaller_dtypes(group: None) -> None:
    model = DDP(nn.Linear(1, 1))
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    model(lg.tensor([[1.001]])).sum().backward()
    assert model.module.weight.grad.item() == 1
    assert model.module.weight.grad.dtype is lg.float32


def test_models_in_it_are_copied_and_pickled(group: None) -> None:
    model = DDP(nn.Linear(2, 2), find_unused_parameters=True, static_graph=True)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin(lg.ones(2)).tolist() == model(lg.ones(2)).tolist()
    with model.join(), Join([model]):
        model(lg.ones(2))
    assert isinstance(model, nn.parallel.DistributedDataParallel)
    assert isinstance(model, nn.parallel.distributed.DistributedDataParallel)


def test_groups(group: None) -> None:
    other = dist.new_group([0], backend="mpi")
    assert (dist.get_rank(other), dist.get_world_size(other)) == (0, 1)
    assert dist.get_backend(other) == "mpi"
    assert dist.get_process_group_ranks(other) == [0]
    assert dist.get_rank(dist.new_group([])) == -1
    dist.barrier(other)
    dist.destroy_process_group(other)
    assert dist.is_initialized()
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()


def test_launchers_are_noticed(monkeypatch: Any) -> None:
    assert not dist.is_torchelastic_launched()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert dist.is_torchelastic_launched()
    assert dist.get_node_local_rank() == 0


def test_errors_of_main_are_left_for_the_launcher(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    @record
    def main(x: int) -> int:
        return 1 // x

    assert main(1) == 1
    with pytest.raises(ZeroDivisionError):
        main(0)
    said = json.loads((tmp_path / "error.json").read_text())["message"]
    assert said["message"].startswith("ZeroDivisionError")
    assert "main" in said["extraInfo"]["py_callstack"]


def test_stores_of_one_place_are_one_store() -> None:
    a, b = dist.TCPStore("localhost", 29502, 2, True), dist.TCPStore("localhost", 29502, 2, False)
    a.set("key", "value")
    assert b.get("key") == b"value"
    assert dist.TCPStore("localhost", 29503).check(["key"]) is False
    inner = dist.PrefixStore("one", dist.PrefixStore("two", a))
    inner.set("x", b"1")
    assert a.get("two/one/x") == b"1"


def test_reading_waits_for_another_thread() -> None:
    store = dist.HashStore()
    thread = threading.Timer(0.05, lambda: store.set("late", "there"))
    thread.start()
    assert store.get("late") == b"there"
    thread.join()
    store.set_timeout(timedelta(milliseconds=10))
    with pytest.raises(dist.DistStoreError, match="never"):
        store.get("never")


def test_torchrun_reads_its_options() -> None:
    line = "--nnodes=1:4 --nproc_per_node auto --rdzv_id job train.py --lr 1".split()
    options = launching.get_args_parser().parse_args(line)
    assert (options.training_script, options.training_script_args) == ("train.py", ["--lr", "1"])
    found = launching.environment(options)
    assert (found["WORLD_SIZE"], found["TORCHELASTIC_RUN_ID"]) == ("1", "job")
    assert [launching.count(x) for x in ("auto", "3", "2:4")] == [1, 3, 2]
    for wrong in ("gpu", "none", "0"):
        with pytest.raises(SystemExit):
            launching.count(wrong)


@pytest.mark.slow  # another process
def test_a_script_is_launched(tmp_path: Any, python: Any) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("value = 3")
    launch = "from livegrad.distributed.run import main; main({})"
    options = ["--standalone", "--nproc_per_node=1", str(tmp_path / "script.py"), "--lr", "0.1"]
    said = python(launch.format(options)).stdout.split()
    assert said == ["0", "1", "True", "3", "--lr", "0.1"]
    refused = python(launch.format(["--nproc-per-node", "4", "script.py"]), check=False)
    assert refused.returncode == 1
    assert "programs of one process" in refused.stderr


SCRIPT = """
import sys
import beside
from livegrad import distributed as dist

dist.init_process_group("gloo")
print(dist.get_rank(), dist.get_world_size(), dist.is_torchelastic_launched())
print(beside.value, *sys.argv[1:])
"""


# ------------------------------------------------------------------- collectives with gradients


@pytest.mark.parametrize(
    "collective",
    [
        lambda x: dist.nn.all_reduce(x, dist.ReduceOp.AVG),
        lambda x: dist.nn.reduce(x, 0),
        lambda x: dist.nn.broadcast(x, 0),
        lambda x: dist.nn.all_gather(x)[0],
        lambda x: dist.nn.gather(x)[0],
        lambda x: dist.nn.scatter([x]),
        lambda x: dist.nn.functional.reduce_scatter(lg.zeros(3), [x]),
        lambda x: dist.nn.all_to_all([lg.zeros(3)], [x])[0],
        lambda x: dist.nn.all_to_all_single(lg.zeros(3), x),
    ],
)
def test_gradients_go_through_collectives(group: None, collective: Any) -> None:
    x = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    given = x * 2
    found = collective(given)
    assert found is not given
    assert found.tolist() == [2.0, 4.0, 6.0]
    (found * lg.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 20.0, 200.0]
    found.detach().zero_()
    assert given.tolist() == [2.0, 4.0, 6.0]


def test_collectives_with_gradients_check_what_they_get(group: None) -> None:
    out = lg.zeros(3)
    dist.nn.reduce_scatter(out, [lg.ones(3)])
    assert out.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="root rank"):
        dist.nn.broadcast(lg.ones(3), 1)
    with pytest.raises(RuntimeError, match="expected length 1, got 2"):
        dist.nn.reduce_scatter(out, [lg.ones(3), lg.ones(3)])


def test_collectives_with_gradients_need_a_group() -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.nn.all_reduce(lg.ones(3))


def test_backends_of_devices() -> None:
    assert dist.get_default_backend_for_device("cpu") == "gloo"
    assert dist.get_default_backend_for_device(lg.device("cuda", 1)) == "nccl"
    with pytest.raises(ValueError, match="not registered for device : meta"):
        dist.get_default_backend_for_device("meta")
