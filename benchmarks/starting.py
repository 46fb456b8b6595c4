"""What `livegrad run` adds to the start of a script: `python -m benchmarks.starting`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 15


def seconds(line: list[str]) -> float:
    """Processor time of a process."""
    process = subprocess.Popen([sys.executable, *line])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    assert status == 0
    return used.ru_utime + used.ru_stime


RUN = ["-c", "from livegrad_run.command import main; main()", "run"]  # what the command does


def compare(name: str, by_hand: str, program: str) -> None:
    """Prints the least of some rounds for both, in turns."""
    with tempfile.TemporaryDirectory() as place:
        plain, mapped = Path(place) / "plain.py", Path(place) / "mapped.py"
        plain.write_text(by_hand)
        mapped.write_text(program)
        pairs = [(seconds([str(plain)]), seconds([*RUN, str(mapped)])) for _ in range(ROUNDS)]
    theirs, ours = (1e3 * min(x) for x in zip(*pairs, strict=True))
    print(
        f"{name}: python {theirs:.0f} ms, livegrad run {ours:.0f} ms: adds {ours - theirs:.0f} ms"
    )


def main() -> None:
    """A script with torch, beside one that imports livegrad itself; and one without."""
    print(f"processor time, least of {ROUNDS}")
    compare("with torch", "import livegrad as torch\n", "import torch\n")
    compare("without", "", "")


if __name__ == "__main__":
    main()
