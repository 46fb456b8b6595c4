"""Profiles tell which ops ran, in which blocks; what is measured has been computed."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.autograd import profiler as autograd_profiler
from livegrad.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)
from livegrad.runtime.counters import TIMING


def averages(prof: Any) -> dict[str, Any]:
    return {e.key: e for e in prof.key_averages()}


def test_ops_are_counted_where_they_ran() -> None:
    x = lg.ones(8, 8)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        with record_function("block"):
            (x @ x).relu()  # nobody keeps it, and it is computed all the same
        with record_function("other"):
            kept = x.exp()
    found = averages(prof)
    assert {"matmul", "relu", "exp", "block", "other", "livegrad::flush"} <= set(found)
    assert found["matmul"].count == 1
    assert kept.tolist()[0][0] == pytest.approx(2.71828, rel=1e-4)
    events = prof.events()
    block = next(e for e in events if e.name == "block")
    flushes = [c for c in block.cpu_children if c.name == "livegrad::flush"]
    ran = [e for flush in flushes for e in flush.cpu_children]
    assert {"matmul", "relu"} <= {e.name for e in ran}
    assert "exp" not in {e.name for e in ran}
    matmul = next(e for e in events if e.name == "matmul")
    assert matmul.input_shapes == [[8, 8], [8, 8]]
    assert matmul.cpu_parent in flushes
    for flush in flushes:
        assert flush.cpu_time_total >= sum(e.cpu_time_total for e in flush.cpu_children) - 1e-3
    assert block.cpu_time_total >= sum(flush.cpu_time_total for flush in flushes) - 1e-3


def test_what_was_pending_before_is_not_counted() -> None:
    before = lg.ones(4).sin()
    with profile() as prof:
        after = lg.ones(4).cos()
    assert "sin" not in averages(prof)
    assert "cos" in averages(prof)
    assert before.sum() != after.sum()


def test_the_time_of_a_kernel_is_shared_by_work() -> None:
    x = lg.ones(64, 64)
    for _ in range(2):  # the second time, kernels are there and are timed
        with profile() as prof:
            (x @ x).relu()
    found = averages(prof)
    kernel = next(e for e in prof.events() if e.name == "matmul").metadata
    if "relu" in kernel["with"]:
        assert found["matmul"].cpu_time_total > 10 * found["relu"].cpu_time_total
    total = sum(e.self_cpu_time_total for e in prof.key_averages())
    assert prof.key_averages().self_cpu_time_total == pytest.approx(total)


@pytest.mark.usefixtures("whole_plans")
def test_tables() -> None:
    options = {"profile_memory": True, "record_shapes": True, "with_stack": True}
    with profile(**options) as prof, record_function("block"):
        lg.ones(8, 8).exp().sum()
    table = prof.key_averages(group_by_stack_n=1).table(sort_by="cpu_time_total", row_limit=2)
    lines = table.splitlines()
    assert len([line for line in lines if line.startswith("---")]) == 3
    assert len(lines) == 3 + 1 + 2 + 1
    assert lines[-1].startswith("Self CPU time total: ")
    for head in ("Name", "Self CPU %", "CPU total", "CPU Mem", "# of Calls"):
        assert head in lines[1]
    assert "block" in lines[3]
    grouped = prof.key_averages(group_by_input_shape=True, group_by_stack_n=1)
    everything = grouped.table(row_limit=-1)
    assert "[[8, 8]]" in everything
    assert "test_profiler.py" in everything
    assert averages(prof)["block"].cpu_memory_usage > 0
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="nothing")


def train(steps: int, prof: Any) -> None:
    model = nn.Linear(4, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(lg.ones(3, 4)), lg.zeros(3, 2)).backward()
        optimizer.step()
        prof.step()


def test_schedules_decide_which_steps_are_kept(tmp_path: Any) -> None:
    seen = []

    def ready(prof: Any) -> None:
        steps = [e.name for e in prof.events() if e.name.startswith("ProfilerStep")]
        seen.append((prof.step_num, steps))
        assert averages(prof)["matmul"].count >= len(steps)

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=ready) as prof:
        train(9, prof)
    assert seen == [
        (4, ["ProfilerStep#2", "ProfilerStep#3"]),
        (8, ["ProfilerStep#6", "ProfilerStep#7"]),
    ]
    actions = [plan(i).name for i in range(5)]
    assert actions == ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE"]
    handler = tensorboard_trace_handler(str(tmp_path), worker_name="me", use_gzip=True)
    with profile(schedule=plan, on_trace_ready=handler) as prof:
        train(4, prof)
    (written,) = tmp_path.glob("me.*.pt.trace.json.gz")
    trace = json.loads(gzip.decompress(written.read_bytes()))
    assert any(e["name"] == "matmul" for e in trace["traceEvents"])


def test_a_profile_that_ends_early_is_saved() -> None:
    seen = []
    with profile(
        schedule=schedule(wait=0, warmup=1, active=5), on_trace_ready=lambda p: seen.append(p)
    ) as prof:
        train(3, prof)
    assert seen == [prof]
    actions = [ProfilerAction.RECORD, ProfilerAction.NONE]
    prof = profile(schedule=lambda i: actions[min(i, 1)])
    prof.start()
    with pytest.warns(UserWarning, match="RECORD followed by NONE"):
        prof.step()
    prof.stop()


def test_traces_for_chrome(tmp_path: Any) -> None:
    with profile(with_stack=True) as prof, record_function("block", "with text"):
        lg.ones(64).exp()
    prof.add_metadata_json("numbers", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["numbers"] == [1, 2]
    by_name = {e["name"]: e for e in trace["traceEvents"]}
    block, exp = by_name["block"], by_name["exp"]
    assert block["args"]["args"] == "with text"
    assert block["ts"] <= exp["ts"]
    assert exp["ts"] + exp["dur"] <= block["ts"] + block["dur"] + 1e-3
    assert "test_profiler.py" in exp["args"]["Call stack"]
    prof.export_stacks(str(tmp_path / "stacks"))
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(str(tmp_path / "stacks"), "nothing")


def test_the_old_name() -> None:
    with autograd_profiler.profile() as prof:
        lg.ones(4).exp()
    assert "exp" in str(prof)
    assert prof.total_average().count == len(prof.function_events)
    with autograd_profiler.profile(enabled=False) as off:
        lg.ones(4).exp()
    assert off is None
    with pytest.warns(UserWarning, match="CUDA is not available"):
        autograd_profiler.profile(use_cuda=True)


def test_names_for_functions() -> None:
    @record_function("double")
    def double(x: Any) -> Any:
        return x * 2

    assert double(lg.ones(())).item() == 2  # without a profile it does nothing
    with profile() as prof:
        double(lg.ones(2))
        double(lg.ones(2))
    assert averages(prof)["double"].count == 2


def test_averages_come_in_the_order_in_which_they_begin() -> None:
    with profile() as prof, record_function("mine"):
        (lg.ones(3, 3) @ lg.ones(3, 3)).sum().item()
    assert prof.key_averages()[0].key == "mine"
    assert "mine" in prof.key_averages().table(row_limit=1)


def test_what_is_not_emitted_is_said() -> None:
    with pytest.warns(UserWarning, match="there is no NVTX"), autograd_profiler.emit_nvtx():
        pass


def test_profiles_end_with_everything_as_before() -> None:
    timed = TIMING.enabled
    with pytest.raises(ZeroDivisionError), profile():
        1 / 0
    assert TIMING.enabled is timed
    assert autograd_profiler.Collector.now is None
    with pytest.raises(RuntimeError, match="already enabled"), profile(), profile():
        pass
    assert autograd_profiler.Collector.now is None
