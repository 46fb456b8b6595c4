"""Runs the programs, and writes the table."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.conformance.programs import data
from tests.conformance.programs.catalogue import Program, programs
from tests.conformance.programs.report import page, table

SAME = Path(__file__).with_name("same.py")
LOSSES = 20
SLOWER = 4  # what is drawn by NumPy, and written at once, takes longer


@dataclass
class Run:
    """How a program went under one of the two."""

    code: int | None  # None: it was still running when its time was over
    seconds: float  # of the processor
    last: str  # the last line of its errors

    @property
    def ran(self) -> bool:
        """Whether it ended well, or was running well when its time was over."""
        return not self.code


@dataclass
class Result:
    """How a program went under both, and its first losses from the same weights and batches."""

    name: str
    args: str
    torch: Run
    livegrad: Run
    losses: dict[str, list[float]] = field(default_factory=dict)


def command(which: str, script: list[str]) -> list[str]:
    """How a script is started."""
    ours = ["-c", "from livegrad_run.command import main; main()", "run"]
    return [sys.executable, *(ours if which == "livegrad" else []), *script]


def environment(cwd: Path, which: str) -> dict[str, str]:
    """One thread for each, no windows, livegrad where it is now, the repository on the path."""
    here = str(Path(__file__).parents[3])
    repo = next((str(p) for p in [cwd, *cwd.parents] if "+" in p.name), "")
    alone = os.environ.get("TORCH_ONLY") if which == "torch" else None
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), alone, here, repo]))
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "LIVEGRAD_NUM_THREADS"), "1")
    settled = {"PYTHONPATH": path, "MPLBACKEND": "agg", "PYTHONHASHSEED": "0"}
    return {**os.environ, **one, **settled}


def start(which: str, script: list[str], cwd: Path, limit: float) -> Run:
    """Runs a script for at most `limit` seconds."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command(which, script), cwd=cwd, env=environment(cwd, which), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
        )  # fmt: skip
        end = time.monotonic() + limit
        done, code, used = 0, 0, None
        while not done and time.monotonic() < end:
            done, code, used = os.wait4(process.pid, os.WNOHANG)
            time.sleep(0.02)
        if not done:
            os.killpg(process.pid, 9)
            _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines() or [""]
    assert used is not None
    status = os.waitstatus_to_exitcode(code) if done else None
    return Run(status, used.ru_utime + used.ru_stime, lines[-1][:300] if status else "")


def prepare(program: Program, checkouts: Path, into: Path) -> Path:
    """A copy of the repository with the data, and the path of the script in it."""
    copy = into / program.repo
    shutil.copytree(checkouts / program.repo, copy, ignore=shutil.ignore_patterns(".git", "*.gif"))
    for kind, place in program.data:
        data.make(kind, copy / place)
    if program.text is None:
        return copy / program.path
    script = copy / "block.py"
    script.write_text(program.text)
    return script


def losses(which: str, script: Path, args: tuple[str, ...], limit: float) -> list[float]:
    """The first values on which `backward` was called, from the same start."""
    with tempfile.NamedTemporaryFile("r") as file:
        line = [str(SAME), file.name, str(LOSSES), script.name, *args]
        start(which, line, script.parent, limit)
        return [float(x) for x in file.read().split()]


def run(program: Program, checkouts: Path, limit: float, warm: bool) -> Result:
    """Runs a program under both; if `warm`, livegrad twice, and the second run counts."""
    runs, first = {}, {}
    for which in ("torch", "livegrad"):
        with tempfile.TemporaryDirectory() as place:
            script = prepare(program, checkouts, Path(place))
            if program.first:
                maker = Path(place) / program.repo / program.first
                start(which, [maker.name], maker.parent, limit)
            line = [script.name, *program.args]
            if warm and which == "livegrad":
                start(which, line, script.parent, limit)
            runs[which] = start(which, line, script.parent, limit)
            if program.text is None:
                first[which] = losses(which, script, program.args, SLOWER * limit)
    return Result(program.name, " ".join(program.args), runs["torch"], runs["livegrad"], first)


def main() -> None:
    """Runs what was asked for; results are kept as they come, one a line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="", help="words, one of which the name has")
    parser.add_argument("--warm", action="store_true", help="run livegrad twice; time the second")
    parser.add_argument("--limit", type=float, default=60, help="seconds per run")
    parser.add_argument("--results", type=Path, default=Path("programs.jsonl"))
    parser.add_argument("--report", type=Path, help="write the table of the results there")
    options = parser.parse_args()
    words = options.only.split()
    for program in programs(options.checkouts):
        if words and not any(word in program.name for word in words):
            continue
        result = run(program, options.checkouts, options.limit, options.warm)
        print(table([asdict(result)])[-1], flush=True)
        with options.results.open("a") as file:
            print(json.dumps(asdict(result)), file=file)
    if options.report:
        found = [json.loads(line) for line in options.results.read_text().splitlines()]
        before = options.report.read_text(encoding="utf-8") if options.report.exists() else ""
        options.report.write_text(page(found, before), encoding="utf-8")


if __name__ == "__main__":
    main()
