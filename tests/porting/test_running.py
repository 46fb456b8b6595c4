"""`livegrad run` runs a program as Python does: same names, arguments, tracebacks, exit codes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from livegrad_run import command, running
from tests.porting.support import python, run, write

pytestmark = pytest.mark.slow  # other processes

# What differs between the two is replaced before they are compared.
PLACE = """
import sys, os
import beside
print(__name__, __file__, sys.argv, os.path.basename(sys.path[0]), __package__, __doc__)
print(__builtins__, __spec__ is None or __spec__.name)
print(sys.modules["__main__"].__dict__ is globals())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path, script=PLACE, beside="")
    return tmp_path


def same(place: Path, *args: str, text: str | None = None) -> None:
    """Both run the program, and nobody can tell which."""
    ours, theirs = (f(*args, cwd=place, text=text) for f in (run, python))
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    assert ours.returncode == theirs.returncode


def test_a_script_sees_what_it_sees_under_python(place: Path) -> None:
    same(place, "script.py", "a", "--flag", "-m", "--report", "--help")


def test_a_module_too(place: Path) -> None:
    same(place, "-m", "script", "a", "-c", "b")


def test_a_text_too(place: Path) -> None:
    same(place, "-c", "import sys; print(sys.argv, __name__, sys.path[0] == '')", "a", "-x")


def test_standard_input_too(place: Path) -> None:
    same(place, "-", "a", text="import sys\nprint(sys.argv, __name__)")


def test_a_directory_with_a_main(place: Path) -> None:
    (place / "__main__.py").write_text(PLACE)
    same(place, ".", "a")
    same(place.parent, place.name, "a")


def test_a_package_with_a_main(place: Path) -> None:
    (place / "package").mkdir()
    (place / "package" / "__init__.py").write_text("")
    (place / "package" / "__main__.py").write_text(
        "import sys; from . import x; print(sys.argv, __package__, x.here)"
    )
    (place / "package" / "x.py").write_text("here = __name__")
    same(place, "-m", "package", "a")


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    return 1 / 0\n\nf()",
        "import beside\nbeside.f()",
        "try:\n    1 / 0\nexcept ValueError:\n    pass\n",
        "raise SystemExit(3)",
        "raise SystemExit('a reason')",
        "import sys\nsys.exit()",
        "x = (1\n",
        "import nothing_of_the_kind",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[0], a[2].tb_lineno)\n1 / 0",
        "import atexit\natexit.register(print, 'bye')\nraise KeyError('k')",
        "raise ValueError('outer') from KeyError('inner')",
        "import os\nos._exit(5)",
        "import sys\nprint('last words')\nsys.stdout.close()",
        "import threading\nthreading.Thread(target=lambda: 1 / 0).start()",
    ],
)
def test_errors_and_exit_codes_are_those_of_python(place: Path, text: str) -> None:
    write(place, script=text, beside="def f():\n    raise ValueError('beside')")
    same(place, "script.py")


def test_an_interrupt_ends_it_by_the_signal(place: Path) -> None:
    write(place, script="import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    same(place, "script.py")
    assert run("script.py", cwd=place).returncode == -signal.SIGINT


def test_what_cannot_be_run_is_said_as_python_does(place: Path) -> None:
    for args in (["absent.py"], ["-m", "absent"], ["-m", "script.absent"]):
        ours, theirs = run(*args, cwd=place), python(*args, cwd=place)
        assert ours.returncode == theirs.returncode
        assert ours.stderr == theirs.stderr


def test_torchrun_starts_one_process(place: Path) -> None:
    write(
        place,
        script="import os, sys\n"
        "print([os.environ[x] for x in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_PORT')])\n"
        "print(__name__, sys.argv, os.path.basename(sys.path[0]) == os.path.basename(os.getcwd()))",
    )
    line = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=1"]
    ran = run(*line, "--master-port", "123", "script.py", "--epochs", "3", cwd=place)
    assert ran.stdout == "['0', '1', '0', '123']\n__main__ ['script.py', '--epochs', '3'] True\n"
    many = run(*line[:2], "--nproc-per-node", "2", "script.py", cwd=place)
    assert many.returncode == 1
    assert "one process" in many.stderr


def test_a_program_without_torch_waits_for_nothing(tmp_path: Path) -> None:
    """What is imported before a program that imports nothing, beyond what Python has by itself."""
    write(tmp_path, names="import sys\nprint(*sorted(sys.modules))")
    command = "import livegrad_run.command as c; c.main()"
    alone = set(python("-c", "exec(open('names.py').read())", cwd=tmp_path).stdout.split())
    ours = set(python("-c", command, "run", "names.py", cwd=tmp_path).stdout.split())
    more = {name for name in ours - alone if not name.startswith(("livegrad_run", "importlib"))}
    assert more <= {"__future__", "atexit", "_warnings", "warnings"}  # and not typing, re, numpy


@pytest.mark.parametrize("name", ["torch", "torch.nn", "torchvision", "functorch"])
def test_torch_is_found_whatever_is_asked_for_first(tmp_path: Path, name: str) -> None:
    text = f"import {name}, torch\nprint('livegrad' in torch.__version__)"
    write(tmp_path, script=text, parent="import subprocess, sys\n"
          "subprocess.run([sys.executable, 'script.py'])")  # fmt: skip
    for program in ("script.py", "parent.py"):
        ran = run(program, cwd=tmp_path)
        assert ran.stdout == "True\n", ran.stderr


def test_the_command_knows_what_is_a_program() -> None:
    of = command.program_of
    assert of(["run", "a.py", "-m", "x"]) == (running.run_script, "a.py", ["-m", "x"])
    assert of(["run", "-m", "a", "--report"]) == (running.run_module, "a", ["--report"])
    assert of(["run", "-c", "1"]) == (running.run_text, "1", [])
    assert of(["run", "-"]) == (running.run_script, "-", [])
    # Options, mistakes and other commands are for click.
    for other in (
        ["run"],
        ["run", "--report", "a.py"],
        ["run", "-m"],
        ["run", "-h"],
        ["check"],
        [],
    ):
        assert of(other) is None
