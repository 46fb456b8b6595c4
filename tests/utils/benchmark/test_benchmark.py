"""Timers measure what is computed; tables compare it."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest

import livegrad as lg
from livegrad.porting.hook import Torch
from livegrad.utils import benchmark


class Clock:
    """A clock that a test moves; every look at it takes a nanosecond."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-9
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def test_each_run_is_computed(counted: Any) -> None:
    x = lg.ones(4)
    timer = benchmark.Timer("x.exp() + 1", globals={"x": x})  # nobody keeps the result
    with counted() as c:
        timer.timeit(20)
    assert c.flushes >= 20
    assert c.nodes_recorded > 0
    with counted() as c:
        benchmark.Timer("pass").timeit(20)
    assert c.kernels_run == 0


def test_setup_runs_once_a_block_and_names_are_found() -> None:
    seen: list[str] = []
    timer = benchmark.Timer(
        stmt="""
            y = x * 2
            seen.append("run")
        """,
        setup="""
            x = livegrad.ones(3)
            seen.append("setup")
        """,
        globals={"seen": seen},
        num_threads=2,
    )
    threads = lg.get_num_threads()
    m = timer.timeit(5)
    assert lg.get_num_threads() == threads
    assert seen == ["setup", "run", "run", "setup", *["run"] * 5]  # the first two warm up
    assert m.number_per_run == 5
    assert m.num_threads == 2


def test_statements_may_say_torch(monkeypatch: Any) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert benchmark.Timer("torch.ones(2)").timeit(1).number_per_run == 1
    monkeypatch.setitem(sys.modules, "torch", Torch())  # as programs of PyTorch's have it
    assert benchmark.Timer("torch.ones(2)").timeit(1).number_per_run == 1
    monkeypatch.setitem(sys.modules, "torch", sys)  # another one is there
    with pytest.raises(NameError):
        benchmark.Timer("torch.ones(2)").timeit(1)


def test_times_are_those_of_the_clock() -> None:
    clock = Clock()
    timer = benchmark.Timer("clock.pass_by(0.25)", globals={"clock": clock}, timer=clock)
    assert timer.timeit(4).median == pytest.approx(0.25)
    m = timer.blocked_autorange(min_run_time=2)
    assert m.number_per_run * sum(m.times) >= 2
    assert m.median == pytest.approx(0.25)
    blocks: list[Any] = []
    timer.blocked_autorange(callback=lambda n, t: blocks.append((n, t)), min_run_time=1)
    assert all(t == pytest.approx(0.25 * n) for n, t in blocks)


def test_adaptive_measuring_goes_on_until_times_agree() -> None:
    clock = Clock()
    steps = itertools.chain([0.1, 1.0, 0.2, 2.0, 0.5, 3.0] * 5, itertools.repeat(1.0))
    names = {"clock": clock, "steps": steps}
    timer = benchmark.Timer("clock.pass_by(next(steps))", globals=names, timer=clock)
    m = timer.adaptive_autorange(max_run_time=1000)
    assert m.meets_confidence()
    assert len(m.raw_times) > 10
    unsteady = benchmark.Timer(
        "clock.pass_by(next(steps))",
        globals={"clock": clock, "steps": itertools.cycle([0.1, 2.0])},
        timer=clock,
    )
    m = unsteady.adaptive_autorange(max_run_time=5)
    assert not m.meets_confidence()
    assert 5 <= sum(m.raw_times) < 10


def test_errors_show_the_statement() -> None:
    with pytest.raises(SyntaxError):
        benchmark.Timer("x = = 3")
    with pytest.raises(NameError, match="nothing"):
        benchmark.Timer("nothing + 1").timeit(1)
    with pytest.raises(ValueError, match="only a `str`"):
        benchmark.Timer(lambda: 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="only Python"):
        benchmark.Timer("int x;", language="c++")


def test_real_measurements_in_a_table(capsys: Any) -> None:
    results = []
    for size in (4, 64):
        x = lg.ones(size, size)
        for way in ("x @ x", "lg.matmul(x, x)"):
            timer = benchmark.Timer(
                way, globals={"x": x, "lg": lg}, label="product", sub_label=f"{size}",
                description=way,
            )  # fmt: skip
            results.append(timer.blocked_autorange(min_run_time=0.001))
    table = benchmark.Compare(results)
    table.trim_significant_figures()
    table.colorize(rowwise=True)
    table.print()
    lines = capsys.readouterr().out.splitlines()
    assert " product " in lines[0]
    assert "x @ x" in lines[1]
    assert lines[2].startswith("1 threads: ---")
    assert len(lines) == 8
    with pytest.raises(ValueError, match="Measurement"):
        table.extend_results([3])  # type: ignore[list-item]


def fuzzer(**options: Any) -> benchmark.Fuzzer:
    return benchmark.Fuzzer(
        parameters=[
            benchmark.FuzzedParameter("k0", 4, 64, distribution="loguniform"),
            benchmark.FuzzedParameter("k1", 2, 9, distribution="uniform"),
            benchmark.FuzzedParameter("step", distribution={1: 0.5, 2: 0.5}),
            benchmark.FuzzedParameter(
                "same", distribution={benchmark.ParameterAlias("k0"): 1.0}
            ),
        ],
        tensors=[
            benchmark.FuzzedTensor(
                "x", size=("k0", "k1"), steps=("step", 1), max_elements=256,
                probability_contiguous=0.5,
            ),
            benchmark.FuzzedTensor("y", size=("same",), dtype=lg.int64),
        ],
        seed=0,
        **options,
    )  # fmt: skip


def test_random_tensors() -> None:
    drawn = fuzzer()
    taken = list(drawn.take(20))
    for tensors, known, params in taken:
        assert tensors["x"].shape == (params["k0"], params["k1"])
        assert tensors["y"].shape == (params["k0"],)
        assert tensors["y"].dtype is lg.int64
        assert known["x"]["numel"] == tensors["x"].numel() <= 256
        assert known["x"]["is_contiguous"] == tensors["x"].is_contiguous()
    assert len({known["x"]["is_contiguous"] for _, known, _ in taken}) == 2
    assert 0 < drawn.rejection_rate < 1
    again = [params for _, _, params in fuzzer().take(20)]
    assert again == [params for _, _, params in taken]
    few = fuzzer(constraints=[lambda k0, **others: k0 > 32])
    assert all(params["k0"] > 32 for _, _, params in few.take(5))
    with pytest.raises(ValueError, match="valid parameters"):
        next(fuzzer(constraints=[lambda **params: False]).take(1))
    with pytest.raises(AssertionError, match="normalized"):
        benchmark.FuzzedParameter("p", distribution={1: 0.5})
