"""Every example reaches its quick result, in a process of its own, and saves its picture."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(path: Path, *options: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-W", "error", str(path), *options],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_there_are_examples_with_numbers_of_their_own() -> None:
    numbers = [path.name[:2] for path in EXAMPLES]
    assert numbers == [f"{i + 1:02}" for i in range(len(EXAMPLES))]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_readme_lists_it(path: Path) -> None:
    assert f"examples/{path.name}" in README
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_quick_run_reaches_its_result(path: Path, tmp_path: Path) -> None:
    done = run(path, "--quick", "--out", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "result: " in done.stdout
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / f"{path.stem}.png").stat().st_size > 1000
    else:
        assert "pip install matplotlib" in done.stdout


def test_a_missed_result_is_exit_code_1(tmp_path: Path) -> None:
    program = tmp_path / "99_missed.py"
    program.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
        "from common import arguments, result\n"
        "arguments('about')\n"
        "result('low', 0.5, at_least=0.4)\n"
        "result('not a number', float('nan'), at_most=0.4)\n"
    )
    done = run(program, "--quick", cwd=tmp_path)
    assert done.returncode == 1
    assert "result: low: 0.5 (at least 0.4)" in done.stdout
    assert "missed" in done.stderr


def test_without_matplotlib_a_line_says_how_to_get_pictures(tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not installed')\n")
    program = tmp_path / "99_no_picture.py"
    program.write_text(
        f"import sys; sys.path.insert(1, {str(ROOT / 'examples')!r})\n"
        "from common import pyplot\n"
        "assert pyplot() is None\n"
    )
    done = run(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "no picture: `pip install matplotlib` gives one\n"


def test_help_says_what_it_is_and_which_data_it_takes(tmp_path: Path) -> None:
    done = run(ROOT / "examples" / "06_lenet.py", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "livegrad data get mnist" in done.stdout
    assert "--quick" in done.stdout


def test_data_that_were_not_fetched_are_replaced_and_it_says_so(tmp_path: Path) -> None:
    program = tmp_path / "99_data.py"
    program.write_text(
        f"import sys; sys.path.insert(1, {str(ROOT / 'examples')!r})\n"
        "from common import fetched\n"
        "from livegrad.datasets import fetching\n"
        f"fetching.data_dir = lambda: __import__('pathlib').Path({str(tmp_path)!r})\n"
        "assert fetched('mnist', 'generated images', quick=False) is None\n"
    )
    done = run(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = "data: generated images; for mnist run `livegrad data get mnist` first\n"
    assert done.stdout == wanted


def test_a_place_where_no_picture_can_be_written_is_refused_before_the_training(
    tmp_path: Path,
) -> None:
    (tmp_path / "taken").write_text("a file")
    done = run(ROOT / "examples" / "07_resnet.py", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2
    assert "argument --out" in done.stderr.splitlines()[-1]
    assert done.stdout == ""
