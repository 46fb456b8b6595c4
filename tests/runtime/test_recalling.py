"""What one process has planned, the next finds on disk: it plans nothing, and says the same."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from livegrad.compiler.plan import Plan
from livegrad.graph.numbers import Specialised
from livegrad.runtime import recalling
from livegrad.runtime.cpu.loading import is_image
from tests.packs import remove_packs

pytestmark = pytest.mark.slow

# Graphs that are new at every step, an optimiser whose update is planned, and what was done.
PROGRAM = """
import json, sys
import numpy as np
import livegrad as lg
from livegrad import nn, optim

random = np.random.default_rng(0)
lg.manual_seed(0)
layers = [nn.Linear(8, 8) for _ in range(3)]
optimizer = optim.Adam([p for layer in layers for p in layer.parameters()], lr=0.01)
losses = []
for step in range(12):
    x = lg.tensor(random.standard_normal((SIZE + step % 2, 8)).astype(np.float32))
    for number in random.integers(0, 3, 2 + step % 5):
        x = lg.tanh(layers[number](x)) + x[:, :1] * 0.5
    loss = (x.softmax(-1) * x).sum() / len(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
"""
TELL = """
s = lg.stats()
modules = [name for name in ("livegrad.compiler.pipeline", "llvmlite") if name in sys.modules]
print(json.dumps({
    "losses": losses, "compiled": s.kernels_compiled, "modules": modules,
    "plans": s.plan_misses, "plans loaded": s.plans_loaded,
    "pieces": s.pieces_made, "pieces loaded": s.pieces_loaded,
}))
"""
MODES = ["pieces", "whole"]
IS_LOADED_BY_US = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.fixture
def run(python, tmp_path):
    def run(mode: str, before: str = "", size: int = 4, directory: str = "") -> Any:
        program = before + PROGRAM.replace("SIZE", str(size)) + TELL
        where = directory or str(tmp_path)
        done = python(program, LIVEGRAD_CACHE_DIR=where, LIVEGRAD_MODE=mode, LIVEGRAD_NATIVE="off")
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize("mode", MODES)
def test_the_next_process_plans_nothing(run, mode):
    first, second = run(mode), run(mode)
    assert second["losses"] == first["losses"]
    assert first["plans"] > 0
    assert first["plans loaded"] == 0
    assert (second["compiled"], second["pieces"]) == (0, 0)
    assert second["plans loaded"] == second["plans"] > 0
    assert second["pieces loaded"] == first["pieces"]
    assert (first["pieces"] > 0) == (mode == "pieces")
    assert second["modules"] == ([] if IS_LOADED_BY_US else ["llvmlite"])


def test_plans_that_numpy_runs_a_part_of_are_found_too(python, tmp_path):
    program = """
import json, sys
import livegrad as lg
x = (lg.arange(9.0).reshape(3, 3).sin() + 3 * lg.eye(3)).requires_grad_()
losses = []
for shift in range(4):
    y = lg.linalg.solve(x, lg.ones(3)) + lg.fft.rfft(x, 3 + shift % 2).abs().sum(1)
    (lg.logdet(x) + y.roll(shift).sum() + lg.polygamma(2, x[0] ** 2 + shift).sum()).backward()
    losses.append(x.grad.sum().item().hex())
"""
    first, second = [
        json.loads(python(program + TELL, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout)
        for _ in range(2)
    ]
    assert second["losses"] == first["losses"]
    assert first["plans loaded"] == 0 < first["plans"]
    assert second["plans loaded"] == second["plans"]
    assert "livegrad.compiler.pipeline" not in second["modules"]


def test_what_is_proven_is_not_proven_again(run):
    """Sizes that an earlier process has not seen: a piece is compared with plans for some."""
    run("pieces")
    for size in (40, 50, 60, 70):
        run("pieces", size=size)
    last = run("pieces", size=90)
    assert (last["pieces"], last["modules"]) == (0, [] if IS_LOADED_BY_US else ["llvmlite"])
    off = run("pieces", size=90, directory="off")
    assert last["losses"] == off["losses"]
    assert (off["plans loaded"], off["pieces loaded"]) == (0, 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?"])
def test_damaged_entries_are_made_again(run, tmp_path, mode, damage):
    first = run(mode)
    for path in Path(tmp_path).rglob("*.o"):
        path.write_bytes(damage(path.read_bytes()))
    again = run(mode)
    assert again == first
    assert run(mode)["compiled"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_that_is_gone_is_compiled_again(run, tmp_path, mode):
    """The plans are there, and say what it is; planning them is not needed for that."""
    first = run(mode)
    remove_packs(tmp_path)
    for path in Path(tmp_path).rglob("*.o"):
        if is_image(path.read_bytes()[40:]) or b"\x7fELF" in path.read_bytes()[:48]:
            path.unlink()
    again = run(mode)
    assert again["losses"] == first["losses"]
    assert again["compiled"] > 0
    assert again["plans loaded"] == again["plans"]
    assert again["modules"] == ["llvmlite"]


@pytest.mark.parametrize("mode", MODES)
def test_another_version_of_the_package_finds_nothing(run, mode):
    first = run(mode)
    changed = "from livegrad.runtime.cpu import known; known.sources = lambda: 'another'\n"
    second = run(mode, before=changed)
    assert second["losses"] == first["losses"]
    assert (second["plans loaded"], second["pieces loaded"]) == (0, 0)
    assert second["compiled"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_two_processes_at_once(run, tmp_path, mode, child_environment):
    """Both write what both need; a third finds it."""
    source = PROGRAM.replace("SIZE", "4") + TELL
    settings = {"LIVEGRAD_CACHE_DIR": str(tmp_path), "LIVEGRAD_MODE": mode}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", source],
            env=child_environment(LIVEGRAD_NATIVE="off", **settings),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [json.loads(process.communicate()[0]) for process in started]
    third = run(mode)
    assert told[0]["losses"] == told[1]["losses"] == third["losses"]
    assert (third["compiled"], third["pieces"]) == (0, 0)


# ------------------------------------------------------------------------------- what is said


SAID = """
import json
import livegrad as lg
from livegrad.runtime.report import explanation
x = lg.ones(4, 3, requires_grad=True)
y = (x * 2).exp().sum()
y.backward()
y.item()
said = [explanation()]
z = x.detach()[lg.tensor([0, 7]) + 0] * 2
try:
    z.tolist()
except IndexError as error:
    said.append(str(error))
print(json.dumps(said))
"""


@pytest.mark.parametrize("mode", MODES)
def test_messages_are_the_same(python, tmp_path, mode):
    program = tmp_path / "program.py"
    program.write_text(SAID)
    source = f"import runpy; runpy.run_path({str(program)!r})"
    settings = {"LIVEGRAD_CACHE_DIR": str(tmp_path / "cache"), "LIVEGRAD_MODE": mode}
    first, second = [json.loads(python(source, **settings).stdout) for _ in range(2)]
    assert "program.py:5" in first[0]
    assert f"{program}:10: z = x.detach()[lg.tensor([0, 7]) + 0] * 2" in first[1]
    assert "index 7 is out of bounds for dimension 0 with size 4" in first[1]
    assert "plan found on disk" in second[0] or mode == "pieces"
    assert [without_times(x) for x in first] == [without_times(x) for x in second]


def without_times(text: str) -> str:
    text = re.sub(r"plan made|plan found on disk", "plan", text)
    return re.sub(r"[\d.,]+ µs|\d+ kernels compiled", "", text)


def test_events_tell_of_plans_from_disk(python, tmp_path):
    source = """
import json
import livegrad as lg
told = []
lg.events.listen("planned", lambda event: told.append([s.kind for s in event.steps]))
(lg.ones(3).exp() + 1).sum().item()
print(json.dumps([told, lg.stats().plans_loaded]))
"""
    settings = {"LIVEGRAD_CACHE_DIR": str(tmp_path), "LIVEGRAD_MODE": "whole"}
    first, second = [json.loads(python(source, **settings).stdout) for _ in range(2)]
    assert first[0] == second[0]
    assert (first[1], second[1]) == (0, len(second[0]))


def test_what_holds_for_its_numbers_only_is_not_stored(monkeypatch):
    """No rule of ours looks at a number; one that did would make such plans."""
    stored: list[str] = []
    monkeypatch.setattr(recalling, "keep", lambda kind, text, data: stored.append(text))
    plan = Plan([], [], [], [], [], 0, 0, 1, 0, 0, [])
    for seen in (True, False):
        monkeypatch.setattr(Specialised, "seen", seen)
        recalling.store("text", plan)
        assert stored == [] if seen else ["text"]


REPEATED = """
import livegrad as lg
from livegrad.runtime import sight
from livegrad.runtime.cpu.pieces.desk import native

native(waits=True)
sight.Policy.price = PRICE
x = lg.ones(5)
for _ in range(4):
    y = (x * 3).tanh().sum().item()
print(lg.stats().plans_loaded, lg.stats().plan_misses)
"""


def test_what_repeats_is_not_run_piece_by_piece_if_its_plan_is_on_disk(python, tmp_path):
    def run(price):
        program = REPEATED.replace("PRICE", price)
        done = python(program, LIVEGRAD_CACHE_DIR=str(tmp_path), LIVEGRAD_NATIVE="off")
        return done.stdout.split()

    assert run("1 << 60") == ["0", "0"]
    assert run("1") == ["0", "1"]
    assert run("1 << 60") == ["1", "1"]


ONCE = """
import sys
import livegrad as lg
from livegrad.runtime.cpu.pieces.desk import native

native(waits=True)
(lg.ones(5) * 3).tanh().sum().item()
s = lg.stats()
plans = "livegrad.compiler.pipeline" in sys.modules
print(s.plans_loaded, s.pieces_made, s.flushes_by_pieces, plans)
"""


def test_no_piece_is_learnt_for_what_has_a_plan_on_disk(python, tmp_path):
    """An earlier process may have planned while there was no native code for pieces yet."""

    def run(mode):
        settings = {"LIVEGRAD_CACHE_DIR": str(tmp_path), "LIVEGRAD_NATIVE": "off"}
        return python(ONCE, LIVEGRAD_MODE=mode, **settings).stdout.split()

    assert run("whole")[0] == "0"
    assert run("") == ["1", "0", "0", "False"]
