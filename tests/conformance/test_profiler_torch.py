"""Schedules, names and parameters of profiles, and futures, are those of PyTorch."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

import livegrad as lg
import livegrad.autograd.profiler
import livegrad.futures
import livegrad.profiler

torch = pytest.importorskip("torch")


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 1, "warmup": 1, "active": 2},
        {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 3},
        {"wait": 2, "warmup": 0, "active": 1, "repeat": 1},
        {"wait": 2, "warmup": 1, "active": 1, "skip_first_wait": 1},
        {"wait": -1, "warmup": 0, "active": 0},
    ],
)
def test_schedules(options: Any) -> None:
    def actions(m: Any) -> Any:
        plan = m.profiler.schedule(**options)
        return [plan(i).name for i in range(15)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(lambda: actions(torch)) == outcome(lambda: actions(lg))


@pytest.mark.parametrize(
    "path",
    [
        "profiler.profile", "profiler.schedule", "profiler.record_function",
        "profiler.tensorboard_trace_handler", "autograd.profiler.profile",
        "autograd.profiler.emit_nvtx", "autograd.profiler.emit_itt",
    ],
)  # fmt: skip
def test_parameters(path: str) -> None:
    def parameters(m: Any) -> Any:
        for name in path.split("."):
            m = getattr(m, name)
        found = inspect.signature(m).parameters.values()
        return [(p.name, p.kind, p.default) for p in found]

    assert parameters(lg) == parameters(torch)


def test_names_of_what_is_found() -> None:
    with lg.profiler.profile() as prof:
        lg.ones(2).exp()
    theirs = torch.autograd.profiler_util
    wanted = {"key", "count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "input_shapes"}
    wanted |= {"stack", "cpu_memory_usage", "self_cpu_memory_usage", "device_time_total", "flops"}
    average = theirs.FunctionEventAvg()
    for name in wanted:
        assert hasattr(average, name)
        assert hasattr(prof.key_averages()[0], name)
    heads = prof.key_averages().table().splitlines()[1]
    for head in ("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU time avg", "# of Calls"):
        assert head in heads
    for us in (0.1234, 12.0, 1234.5, 2345678.0):
        assert lg.autograd.profiler_util.format_time(us) == theirs._format_time(us)
    for nbytes in (0, 100, 5000, -3 << 20, 7 << 30):
        assert lg.autograd.profiler_util.format_memory(nbytes) == theirs._format_memory(nbytes)


def test_futures() -> None:
    def seen(m: Any) -> Any:
        f = m.futures.Future()
        chained = f.then(lambda x: x.wait() + 1)
        states = [f.done(), chained.done()]
        f.set_result(1)
        both = m.futures.collect_all([f, chained]).wait()
        states += [f.done(), chained.wait(), [x.value() for x in both]]
        states.append(m.futures.wait_all([f, chained]))
        states.append(type(outcome(lambda: f.set_result(2))).__name__)
        return states

    assert seen(lg) == seen(torch)
