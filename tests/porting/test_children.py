"""Processes that a program starts know livegrad as torch, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.porting.support import run, write

pytestmark = pytest.mark.slow  # other processes

PROGRAM = """
import multiprocessing, sys
import torch

def work(x, queue):
    import torch as again
    assert "livegrad" in again.__version__
    queue.put((again.__version__, float((x * 2).sum())))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.Queue()
    process = context.Process(target=work, args=(torch.ones(3), queue))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    sys.exit(process.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_of_multiprocessing(tmp_path: Path, method: str) -> None:
    write(tmp_path, script=PROGRAM)
    ran = run("script.py", method, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "('2.13.0+livegrad', 6.0)\n"


def test_workers_of_a_loader(tmp_path: Path) -> None:
    text = """
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        import torch.nn.functional as F
        return F.relu(torch.tensor(float(i))) ** 2

if __name__ == "__main__":
    loader = DataLoader(Squares(), 4, num_workers=2, multiprocessing_context="spawn")
    print([batch.tolist() for batch in loader])
"""
    write(tmp_path, script=text)
    ran = run("script.py", cwd=tmp_path)
    assert ran.stdout == "[[0.0, 1.0, 4.0, 9.0], [16.0, 25.0, 36.0, 49.0]]\n", ran.stderr


def test_other_python_programs(tmp_path: Path) -> None:
    """Started by the same interpreter; those of another one, or without torch, notice nothing."""
    write(
        tmp_path,
        child="import sys, torch\nprint(torch.__version__, 'site' in sys.modules)",
        plain="import sys\nprint([x for x in sys.modules if x.startswith('livegrad')])",
        sitecustomize="print('their own')",
        script="import os, subprocess, sys\n"
        "for name in ('child.py', 'plain.py'):\n"
        "    subprocess.run([sys.executable, name], env={**os.environ, 'LIVEGRAD_RUN': \n"
        "        os.environ['LIVEGRAD_RUN'], 'PYTHONPATH': os.environ['PYTHONPATH'] + ':.'})",
    )
    ran = run("script.py", cwd=tmp_path)
    assert ran.stdout.splitlines() == [
        "their own", "2.13.0+livegrad True", "their own", "[]",
    ]  # fmt: skip
