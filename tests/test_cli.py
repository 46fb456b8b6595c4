"""The command `livegrad` itself; what its commands do is tested where they are."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from livegrad import __version__, cli


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_said_as_a_command_and_as_an_option(argument: str) -> None:
    said = CliRunner().invoke(cli.commands, [argument])

    assert (said.exit_code, said.output) == (0, f"livegrad {__version__}\n")
