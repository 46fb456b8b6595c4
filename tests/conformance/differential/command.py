"""The command line of the differential fuzzer."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence

from .campaign import Campaign, Finding
from .compare import LAYOUT, WHAT
from .generate import program
from .processes import campaigns
from .program import source
from .run import quietly

EVERY = 100  # programs, between two lines of progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the programs of a seed; 1 if one shows a difference that nothing explains."""
    options = parser().parse_args(arguments)
    if options.show is not None:
        with quietly():
            print(source(program(options.show)))
        return 0
    seeds = [f"{options.seed}:{options.first + i}" for i in range(options.programs)]
    whole, begin = Campaign(left_out(options.without), not options.no_shrink), time.monotonic()
    seen: Counter[str] = Counter()
    for done in campaigns(seeds, whole, options.jobs):
        whole.add(done)
        for finding in done.findings:
            report(finding, seen)
        if whole.programs % EVERY == 0:
            spent = time.monotonic() - begin
            print(f"-- {whole.programs} programs, {len(whole.findings)} unexplained, {spent:.0f} s")
    print(whole.summary())
    for signature, count in seen.most_common():
        print(f"  {count:5d}  {signature}")
    return 1 if whole.findings else 0


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m tests.conformance.differential")
    p.add_argument("--programs", type=int, default=1000, help="how many (default: 1000)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="the number of the first program")
    p.add_argument("--jobs", type=int, default=1, help="processes that run programs")
    p.add_argument(
        "--without",
        default="",
        help=f"what not to compare: a list of {', '.join(WHAT)}, or layout",
    )
    p.add_argument("--no-shrink", action="store_true", help="report programs whole")
    p.add_argument("--show", metavar="SEED:N", help="print the program of that number")
    return p


def left_out(text: str) -> frozenset[str]:
    words = set(filter(None, text.split(",")))
    if "layout" in words:
        words |= set(LAYOUT)
    return frozenset(words)


def report(finding: Finding, seen: Counter[str]) -> None:
    """Prints a finding, unless one like it was printed before."""
    signature = finding.signature()
    seen[signature] += 1
    if seen[signature] == 1:
        print("=" * 100)
        print(finding.text(), flush=True)
