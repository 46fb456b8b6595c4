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


def main() -> None:
    """Prints the least of some rounds for both, in turns."""
    with tempfile.TemporaryDirectory() as place:
        plain, mapped = Path(place) / "plain.py", Path(place) / "mapped.py"
        plain.write_text("import livegrad as torch\n")
        mapped.write_text("import torch\n")
        pairs = [
            (seconds([str(plain)]), seconds(["-m", "livegrad", "run", str(mapped)]))
            for _ in range(ROUNDS)
        ]
    ours, theirs = min(x for _, x in pairs), min(x for x, _ in pairs)
    print(f"python: {1e3 * theirs:.0f} ms, livegrad run: {1e3 * ours:.0f} ms")
    print(f"livegrad run adds {1e3 * (ours - theirs):.0f} ms (least of {ROUNDS}, processor time)")


if __name__ == "__main__":
    main()
