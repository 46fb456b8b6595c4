"""`python -m benchmarks.changing`: programs with another structure at every step, against torch."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import changing, report
from benchmarks.changing.turns import NAMES, Outcome, Settings, compare

SPANS, CLOCKS = ("first", "last"), ("wall", "cpu")


def chosen(context: Any, parameter: Any, value: str | None) -> list[str]:
    """Names between commas; all programs if there are none."""
    names = value.split(",") if value else list(changing.ALL)
    unknown = [name for name in names if name not in changing.ALL]
    if unknown:
        known = ", ".join(changing.ALL)
        raise click.BadParameter(f"no such program: {', '.join(unknown)}; there are {known}")
    return names


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--programs", callback=chosen, help="Only these, with commas between them.")
@click.option("--threads", default=1, type=click.IntRange(min=1), help="For both frameworks.")
@click.option("--steps", type=click.IntRange(min=3), help="In each process; usually 150.")
@click.option("--rounds", default=3, type=click.IntRange(min=1), help="Processes of each.")
@click.option("--seed", default=0, help="Of the weights, the data and the structures.")
@click.option("--prepare-seed", type=int, help="Of the process that fills livegrad's cache.")
@click.option("--hot", is_flag=True, help="That process also compiles the hot functions.")
@click.option("--cold-cache", is_flag=True, help="An empty cache for every process.")
@click.option("--limit", default=300, help="Seconds until a process is killed.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(programs: list[str], path: Path | None, **options: Any) -> None:
    """Compare steps per second, each framework in fresh processes, taking turns."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    settings = Settings(**options)
    outcomes = {}
    for name in programs:
        outcomes[name] = compare(name, settings)
        # A line as soon as it is known: all programs together take a while.
        console.print(line(name, outcomes[name]), markup=False, soft_wrap=True)
    console.print(table(outcomes, settings))
    if path is not None:
        written = report.write_json(as_json(outcomes, settings), path, "changing")
        console.print(f"written to {written}", markup=False, soft_wrap=True)
    sys.exit(0 if all(is_right(outcome) for outcome in outcomes.values()) else 1)


def is_right(outcome: Outcome) -> bool:
    return outcome.is_complete and outcome.disagreement is None


def line(name: str, outcome: Outcome) -> str:
    """The ratios of one program, or what went wrong."""
    wrong = [f"{who} failed: {error}" for who, error in outcome.errors.items()]
    if outcome.disagreement is not None:
        step, expected, found = outcome.disagreement
        wrong.append(f"DIFFERS at step {step}: torch {expected!r}, livegrad {found!r}")
    parts = []
    if outcome.is_complete:
        ratios = {span: [outcome.ratio(span, clock) for clock in CLOCKS] for span in SPANS}
        parts = [f"{s} {wall.median:.3g}× ({cpu.median:.3g}×)" for s, (wall, cpu) in ratios.items()]
    return f"{name}: {', '.join(parts + wrong)}"


def table(outcomes: dict[str, Outcome], settings: Settings) -> Table:
    cache = "empty cache" if settings.cold_cache else "second process"
    cache += ", hot functions prepared" if settings.hot else ""
    title = f"steps/s, livegrad : torch by wall clock and by CPU time; {cache}, "
    title += f"{settings.threads} thread(s), median of {settings.rounds} rounds, and quartiles"
    found = Table(title=title, title_justify="left")
    found.add_column("program")
    for span in SPANS:
        for heading in (*NAMES, "ratio", "CPU ratio"):
            found.add_column(f"{span}: {heading}", justify="right")
    for name, outcome in outcomes.items():
        if outcome.is_complete:
            found.add_row(name, *[cell for span in SPANS for cell in cells(outcome, span)])
    return found


def cells(outcome: Outcome, span: str) -> list[str]:
    """Speeds of both and their ratios, to about three digits."""
    speeds = [outcome.speed(name, span) for name in NAMES]
    ratios = [outcome.ratio(span, clock) for clock in CLOCKS]
    return [s.format("{:.0f}" if s.median >= 100 else "{:.3g}") for s in (*speeds, *ratios)]


def as_json(outcomes: dict[str, Outcome], settings: Settings) -> dict[str, Any]:
    """All that was measured, with the machine and the settings it was measured with."""
    return {
        "machine": report.machine(),
        "settings": asdict(settings),
        "programs": {name: summary(outcome) for name, outcome in outcomes.items()},
    }


def summary(outcome: Outcome) -> dict[str, Any]:
    values = asdict(outcome)
    if outcome.is_complete:
        values["ratio"] = {
            span: {clock: asdict(outcome.ratio(span, clock)) for clock in CLOCKS} for span in SPANS
        }
    return values


if __name__ == "__main__":
    main()
