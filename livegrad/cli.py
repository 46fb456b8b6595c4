"""The `livegrad` command."""

import os
from pathlib import Path

import click

from livegrad.__about__ import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """livegrad: dynamic graphs at the speed of static ones."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(f"livegrad {__version__}")


@main.command()
@click.option("--epochs", default=40, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--out",
    default=Path("livegrad-demo-loss.svg"),
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where to save the loss curve.",
)
def demo(epochs: int, seed: int, out: Path) -> None:
    """Train a network with control flow on handwritten digits."""
    if not os.access(out.parent, os.W_OK):  # said now, not after the training
        problem = f"cannot write to the directory {str(out.parent)!r}"
        raise click.BadParameter(problem, param_hint="--out")
    from livegrad import demo  # imported here so that `livegrad version` starts at once

    demo.run(epochs=epochs, seed=seed, out=out)
