"""Plans are plain data: saved, loaded where nothing was recorded, run there, printed, compared."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording import data, recorded_of

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.plan_text import plan_text, read_plan
from livegrad.runtime import recalling
from livegrad.runtime.memory import Buffer
from livegrad.runtime.running import run_plan
from livegrad.runtime.snapshot import numbers_of
from livegrad.runtime.values import array_of


def _trained(x: Any, w: Any) -> Any:
    loss = F.cross_entropy(F.dropout(x @ w, 0.5), lg.tensor([1, 0, 3]))
    loss.backward()
    return loss, w.grad


PROGRAMS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x, w: lg.tanh(x * 2.5) + w[0, 0],
    "softmax of a product": lambda x, w: lg.softmax(x @ w, -1),
    "parts": lambda x, w: lg.cat([F.pad(x, (1, 2)), x @ w], 1),
    "scatter and scan": lambda x, w: (
        w.index_add(0, lg.tensor([2, 0, 2]), x @ w).cumsum(0),
        w.gather(1, lg.tensor([[0], [3], [1], [2], [0]])),
    ),
    "NumPy's": lambda x, w: (x.sort(1)[0] * 2, lg.fft.rfft(x).abs(), lg.linalg.inv(w @ w.T + 9)),
    "a training step": _trained,
}


def inputs_of() -> tuple[lg.Tensor, lg.Tensor]:
    lg.manual_seed(7)
    return data(3, 5), data(5, 4).requires_grad_()


def arrays(plan: Any, leaves: list[Any], ints: list[int], floats: list[float]) -> list[bytes]:
    buffers = [Buffer.from_array(np.array(x)) for x in leaves]
    return [b.view(np.uint8, (b.nbytes,)).tobytes() for b in run_plan(plan, buffers, ints, floats)]


def saved(name: str) -> dict[str, Any]:
    """A plan, and what it is run with."""
    recorded = recorded_of(PROGRAMS[name], *inputs_of())
    ints, floats = numbers_of(recorded.nodes)
    leaves = [array_of(x).copy() for x in recorded.leaves]
    return {"plan": compile_plan(recorded), "leaves": leaves, "ints": ints, "floats": floats}


ELSEWHERE = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from test_plan import arrays
with open(sys.argv[2], "rb") as file:
    all_saved = pickle.load(file)
sys.stdout.buffer.write(pickle.dumps({name: arrays(**each) for name, each in all_saved.items()}))
"""


def test_plans_run_in_another_process(tmp_path: Path) -> None:
    everything = {name: saved(name) for name in PROGRAMS}
    (tmp_path / "plans").write_bytes(pickle.dumps(everything))
    command = [sys.executable, "-c", ELSEWHERE, str(Path(__file__).parent), str(tmp_path / "plans")]
    found = pickle.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    for name, each in everything.items():
        assert found[name] == arrays(**each), name


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_computes_what_a_flush_does(name: str) -> None:
    first, *_ = arrays(**saved(name))
    results = PROGRAMS[name](*inputs_of())
    result = results[0] if isinstance(results, tuple) else results
    assert first == result.detach().numpy().tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_are_compared(name: str) -> None:
    plan, again = (saved(name)["plan"] for _ in range(2))
    loaded = pickle.loads(pickle.dumps(plan))
    assert plan == again == loaded
    assert str(plan) == str(loaded)
    assert loaded.notes is None
    loaded.steps[0].shape = (9, 9, 9)
    assert plan != loaded


@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_are_written_and_read(name: str) -> None:
    given = saved(name)
    read = read_plan(plan_text(given["plan"]))
    assert plan_text(read) == plan_text(given["plan"])
    assert [step.host for step in read.steps] == [step.host for step in given["plan"].steps]
    assert arrays(**{**given, "plan": read}) == arrays(**given)


def test_a_plan_with_an_op_that_is_not_imported_counts_as_absent() -> None:
    told = plan_text(saved("NumPy's")["plan"])
    assert recalling._read(told.encode()) is not None
    assert recalling._read(told.replace('"op":"', '"op":"later_').encode()) is None


def test_a_fault_without_notes() -> None:
    """Of a plan that was loaded, nothing is known but the step."""
    x, index = data(4), lg.tensor([0, 3, 1])
    recorded = recorded_of(lambda x: x[index], x)
    plan = pickle.loads(pickle.dumps(compile_plan(recorded)))
    leaves = [np.array([0, 3, 9]) if n.meta.shape == (3,) else x.numpy() for n in recorded.leaves]
    with pytest.raises(Exception, match="a value was refused"):
        arrays(plan, leaves, *numbers_of(recorded.nodes))
