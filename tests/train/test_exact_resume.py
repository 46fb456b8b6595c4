"""A run that is killed and resumed ends with the very same weights."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

# Everything that a run may depend on: shuffled data, two workers that add noise with NumPy and
# Python, dropout, running statistics, an optimiser with numbers of its own, a schedule, generators
# of the program, gradients that wait for the next step, a running metric.
PROGRAM = """
import os, random, sys, time
import numpy as np
import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.utils.data import DataLoader, Dataset

folder, name, last = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Noisy(Dataset):
    def __len__(self):
        return 203

    def __getitem__(self, i):
        base = np.sin(np.arange(12) * (i + 1)).astype(np.float32)
        noise = np.random.standard_normal(12).astype(np.float32)
        return base + 0.1 * noise + 0.1 * random.random(), i % 3

train.seed_everything(5)
loader = DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=2,
                    multiprocessing_context="fork")
model = nn.Sequential(
    nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)
)
optimizer = optim.NAdam(model.parameters(), lr=3e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=200)
accumulate = train.Accumulate(optimizer, steps=2)
mean = train.Mean()
own = np.random.default_rng(1)
parts = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader,
             accumulate=accumulate, mean=mean, own=own)
saved = os.path.join(folder, name + ".run")
first, batch = 0, 0
if os.path.exists(saved):
    values = train.load_run(saved, **parts)
    first, batch = values["epoch"], values["batch"]
    print("resumed", batch, flush=True)
for epoch in range(first, 4):
    for x, y in loader:
        x = x + 0.05 * (own.random() + np.random.random() + random.random())
        loss = F.cross_entropy(model(x), y)
        if accumulate.backward(loss, weight=len(y)):
            scheduler.step()
        mean.update(loss)
        batch += 1
        if batch % 3 == 0:
            train.save_run(saved, epoch=epoch, batch=batch, **parts)
        print("batch", batch, flush=True)
        if batch == last:
            time.sleep(3600)
    accumulate.finish()
state = {**model.state_dict(), "mean": lg.tensor(mean.compute(), dtype=lg.float64)}
lg.save(state, os.path.join(folder, name + ".safetensors"))
print("done", flush=True)
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, child_environment: Callable[..., dict[str, str]]) -> Iterator[Start]:
    """Starts the program under a name; whatever is left of it is ended with the test.

    After the batch `last` it only waits: a kill that comes late on a busy machine must not find
    it finished.
    """
    processes = []

    def run(name: str, last: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), name, str(last)]
        env = child_environment()
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """What a program prints until it prints `wanted`."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line.strip())
        if seen[-1] == wanted:
            return seen
    raise AssertionError(f"the program ended without {wanted!r}; it printed {seen}")


def finish(process: subprocess.Popen[str]) -> list[str]:
    seen = until(process, "done")
    assert process.wait(60) == 0
    return seen


def test_killed_runs_end_as_the_uninterrupted_one(start: Start, tmp_path: Path) -> None:
    finish(start("whole"))
    # Killed three times, wherever it happens to be: within a step, or while saving.
    steps = [random.randrange(first, first + 12) for first in (4, 20, 36)]
    pauses = [random.random() * 0.01 for _ in steps]
    for step, pause in zip(steps, pauses, strict=True):
        process = start("killed", last=step + 4)
        until(process, f"batch {step}")
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    seen = finish(start("killed"))
    assert seen[0].startswith("resumed "), seen[0]
    assert int(seen[0].split()[1]) >= steps[-1] - 2, (seen[0], steps)
    whole, killed = [
        (tmp_path / f"{name}.safetensors").read_bytes() for name in ("whole", "killed")
    ]
    assert whole == killed, f"killed after batches {steps}, and {pauses} seconds more"
