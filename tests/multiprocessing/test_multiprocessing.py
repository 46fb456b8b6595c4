"""Processes that share tensors: spawn, queues, pools, and a model that several train."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import multiprocessing as mp
from tests.multiprocessing import programs

pytestmark = pytest.mark.slow  # other processes


def test_spawned_processes_write_to_one_tensor() -> None:
    shared = lg.zeros(2)
    assert mp.spawn(programs.add_index, (shared,), nprocs=2) is None
    assert shared.tolist() == [1, 2]


def test_an_error_ends_all() -> None:
    with pytest.raises(mp.ProcessRaisedException, match="number one fails") as error:
        mp.spawn(programs.fail_in_one, nprocs=2)
    assert error.value.error_index == 1
    assert "-- Process 1 terminated with the following error" in str(error.value)
    assert isinstance(error.value.error_pid, int)
    again = pickle.loads(pickle.dumps(error.value))
    assert (again.error_index, again.error_pid) == (1, error.value.error_pid)


@pytest.mark.parametrize(
    ("program", "code", "name"), [("leave", 3, None), ("be_killed", -9, "SIGKILL")]
)
def test_exits_are_told(program: str, code: int, name: Any) -> None:
    with pytest.raises(mp.ProcessExitedException, match=name or "exit code 3") as error:
        mp.start_processes(getattr(programs, program), nprocs=1, start_method="fork")
    assert (error.value.exit_code, error.value.signal_name) == (code, name)


def test_waiting_later() -> None:
    context = mp.start_processes(programs.sleep, (0.2,), nprocs=2, join=False, start_method="fork")
    assert isinstance(context, mp.ProcessContext)
    assert len(set(context.pids())) == 2
    assert context.join(timeout=0) is False
    while not context.join():
        pass
    assert context.join() is True
    assert [p.exitcode for p in context.processes] == [0, 0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_hogwild_trains_one_model(method: str) -> None:
    lg.manual_seed(1)
    model = programs.Net()
    model.share_memory()
    x, y = programs.examples()
    before = F.cross_entropy(model(x), y).item()
    context = mp.get_context(method)
    workers = [
        context.Process(target=programs.hogwild, args=(rank, model, 30)) for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert all(p.is_shared() for p in model.parameters())
    assert F.cross_entropy(model(x), y).item() < before * 0.8


def test_queues_carry_the_memory() -> None:
    context: Any = mp.get_context("spawn")
    questions, answers, done = context.Queue(), context.Queue(), context.Event()
    worker = context.Process(target=programs.answer, args=(questions, answers, done))
    worker.start()
    x = lg.arange(3.0)
    questions.put(x)
    got = answers.get()
    assert x.tolist() == [0, 2, 4]  # written by the other process
    assert got["sum"] == 6
    assert got["new"].tolist() == [1, 3, 5]
    assert isinstance(got["parameter"], lg.nn.Parameter)
    assert got["parameter"].requires_grad
    got["same"].zero_()
    assert x.tolist() == [0, 0, 0]
    done.set()
    questions.put(None)
    worker.join()


def test_pools_take_and_give_tensors() -> None:
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(programs.doubled, [lg.ones(2) * i for i in range(3)])
    assert [r.tolist() for r in results] == [[0, 0], [2, 2], [4, 4]]


def test_what_needs_a_graph_is_not_sent() -> None:
    x = lg.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        mp.reductions.ForkingPickler.dumps(x)


def test_names_of_strategies() -> None:
    before = mp.get_sharing_strategy()
    assert before == "file_descriptor"
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy(before)
    with pytest.raises(AssertionError, match="telepathy"):
        mp.set_sharing_strategy("telepathy")


def test_only_spawn_spawns() -> None:
    with pytest.warns(FutureWarning, match="start_processes"):
        mp.spawn(programs.sleep, (0,), start_method="fork")


def test_the_names_of_python_are_there() -> None:
    for name in ("Process", "Queue", "Pool", "Manager", "Lock", "Event", "Value", "cpu_count"):
        assert hasattr(mp, name)
    assert "spawn" in mp.get_all_start_methods()
