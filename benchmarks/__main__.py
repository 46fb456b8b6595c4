"""`python -m benchmarks`: training steps of livegrad against torch, torch.compile and JAX."""

import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks import frameworks, report, workloads
from benchmarks.compare import Settings, compare


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--workload",
    "chosen",
    multiple=True,
    type=click.Choice(list(workloads.ALL)),
    help="Only this one; may be repeated.",
)
@click.option(
    "--framework",
    "names",
    multiple=True,
    type=click.Choice(frameworks.ALL),
    help="Only this one; may be repeated. Otherwise all that are installed.",
)
@click.option("--rounds", default=30, type=click.IntRange(min=2), help="Turns of each framework.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps in one turn.")
@click.option("--threads", default=2, type=click.IntRange(min=1), help="For every framework.")
@click.option("--seed", default=0, help="Of the weights and the data.")
@click.option("--read-every", default=1, type=click.IntRange(min=1), help="Steps between reads.")
@click.option("--groups", default=3, type=click.IntRange(min=1), help="Groups of processes.")
@click.option("--control", is_flag=True, help="torch against itself too: what noise alone does.")
@click.option("--cold-cache", is_flag=True, help="Also time the first step from empty caches.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(
    chosen: tuple[str, ...],
    names: tuple[str, ...],
    control: bool,
    path: Path | None,
    **options: int,
) -> None:
    """Compare training steps, each framework in a process of its own, taking turns."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    settings = Settings(**options)
    selected = list(names) or [name for name in frameworks.ALL if frameworks.installed(name)]
    if control:
        selected.append(frameworks.CONTROL)
    comparisons = []
    for name in chosen or workloads.ALL:
        workload = workloads.ALL[name]
        results = compare(workload, selected, settings)
        report.print_comparison(console, workload, results)
        comparisons.append((workload, results))
    written = report.write_json(report.as_json(comparisons, settings), path, "steps")
    note = (
        f"median [quartiles] of {settings.rounds} rounds in {settings.groups} groups of processes"
    )
    console.print(f"{note}; written to {written}", markup=False, soft_wrap=True)
    wrong = [r for _, results in comparisons for r in results.values() if r.agrees is False]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
