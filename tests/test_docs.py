"""The documentation is true: its programs run, its ops pass the tests, its links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import livegrad

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "reference"  # what `make docs` writes from docstrings
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED not in page.parents),
]
ADD_AN_OP = ROOT / "docs" / "add_an_op.md"

# A line `<!-- word: text -->` right above a Python block says what is done with it:
#   run           it is a program
#   then          it goes on with the program above
#   fails         it goes on with the program above, or is one, and raises an error
#   file: path    it is the file of an op, which is tested as the registry's ops are
#   after: path   it is a program that uses the op of that file
# A block of text marked `<!-- prints -->` is what the block above it prints, or the error's text.
_BLOCK = re.compile(
    r"(?:<!-- (\w+)(?:: (\S+))? -->\n)?```python\n(.*?)```"
    r"(?:\n\n<!-- prints -->\n```text\n(.*?)```)?",
    re.DOTALL,
)
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


class Block(NamedTuple):
    """One Python block of a page."""

    page: Path
    line: int
    mark: str
    path: str
    code: str
    prints: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            mark, path, code, prints = match.groups(default="")
            yield Block(page, text.count("\n", 0, match.start(3)) + 1, mark, path, code, prints)


def programs() -> Iterator[list[Block]]:
    """Blocks that are run one after the other, in one process."""
    program: list[Block] = []
    for block in BLOCKS:
        if block.mark in ("then", "fails") and program and program[0].page == block.page:
            program.append(block)
        elif block.mark in ("run", "fails"):
            if program:
                yield program
            program = [block]
    yield program


BLOCKS = list(blocks())
FILES = {b.path: b for b in BLOCKS if b.mark == "file"}
Environment = Callable[..., dict[str, str]]


def run_python(
    source: str, cwd: Path, env: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", source, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def loading(block: Block, folder: Path) -> str:
    """Source text that adds the op of `block` to livegrad, as its file and its line would."""
    file = folder / Path(block.path).name
    file.write_text(block.code, encoding="utf-8")
    return (
        "import importlib.util as iu, sys, livegrad\n"
        f"spec = iu.spec_from_file_location('livegrad.ops.{file.stem}', {str(file)!r})\n"
        "module = sys.modules[spec.name] = iu.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        f"livegrad.{file.stem} = module.{file.stem}\n"
    )


def test_every_block_is_accounted_for() -> None:
    assert {b.mark for b in BLOCKS} <= {"", "run", "then", "fails", "file", "after"}
    assert sum(len(program) for program in programs()) == sum(
        b.mark in ("run", "then", "fails") for b in BLOCKS
    )
    for page in PAGES:
        shown = sum(bool(b.prints) for b in BLOCKS if b.page == page)
        assert shown == page.read_text(encoding="utf-8").count("<!-- prints -->"), page
    assert any(b.mark == "run" and b.page.name == "README.md" for b in BLOCKS)
    assert any(b.page == ADD_AN_OP for b in FILES.values())
    for block in BLOCKS:
        compile(block.code, block.name, "exec")


_RUN_BLOCKS = """
import contextlib, io, json, linecache, sys
def run(name, code, fails, space):
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(code, name, "exec"), space)
        except Exception as error:
            if not fails:
                raise
            return f"{type(error).__name__}: {error}"
    assert not fails, f"{name} should have failed"
    return out.getvalue()
space = {"__name__": "__main__"}
print(json.dumps([run(*block, space) for block in json.loads(sys.argv[1])]))
"""


@pytest.mark.parametrize("program", list(programs()), ids=lambda program: program[0].name)
def test_program_runs(program: list[Block], tmp_path: Path, child_environment: Environment) -> None:
    blocks = [(b.name, b.code, b.mark == "fails") for b in program]
    done = run_python(_RUN_BLOCKS, tmp_path, child_environment(), json.dumps(blocks))
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert any(printed)
    for block, text in zip(program, printed, strict=True):
        if block.prints:
            assert _lines(text) == _lines(block.prints), block.name


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


_TEST_AS_REGISTERED = """
sys.path.insert(0, {tests!r})
import test_registry as t
assert {name!r} in t.OPS and {name!r} in t.DIFFERENTIABLE
for dtype in t.TOLERANCE:
    t.test_compiled_equals_reference({name!r}, dtype)
if t.REGISTRY[{name!r}].kind == "elementwise":
    t.test_integers_and_bools({name!r})
t.test_gradients({name!r})
print("tested")
"""


@pytest.mark.parametrize("block", FILES.values(), ids=lambda b: b.path)
def test_op_of_the_page(block: Block, tmp_path: Path, child_environment: Environment) -> None:
    tests = str(ROOT / "tests" / "ops")
    check = _TEST_AS_REGISTERED.format(tests=tests, name=Path(block.path).stem)
    done = run_python(loading(block, tmp_path) + check, tmp_path, child_environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "tested"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.mark == "after"], ids=lambda b: b.name)
def test_use_of_the_op(block: Block, tmp_path: Path, child_environment: Environment) -> None:
    source = loading(FILES[block.path], tmp_path) + block.code
    done = run_python(source, tmp_path, child_environment())
    assert done.returncode == 0, done.stderr
    assert Path(block.path).stem in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [page.parent / link for link in _LINK.findall(page.read_text(encoding="utf-8"))]
    assert [x for x in links if not x.exists() and GENERATED not in x.parents] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    """`graph/node.py` is one of the package, or of the project."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))
    folders = (ROOT, ROOT / "livegrad")
    assert [x for x in sorted(named) if not any((f / x).exists() for f in folders)] == []


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of livegrad, and its file."""
    for module in pkgutil.walk_packages(livegrad.__path__, "livegrad."):
        base = ROOT.joinpath(*module.name.split("."))
        yield module.name, base / "__init__.py" if module.ispkg else base.with_suffix(".py")


NAMES_OF_EXAMPLES = {
    "lg": livegrad,
    "nn": livegrad.nn,
    "F": livegrad.nn.functional,
    "optim": livegrad.optim,
}


def test_docstring_examples() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for name, file in modules():
        if ">>>" in file.read_text(encoding="utf-8"):
            module = importlib.import_module(name)
            result = doctest.testmod(module, optionflags=flags, extraglobs=NAMES_OF_EXAMPLES)
            assert result.attempted, name
            assert not result.failed, name


def test_the_names_used_most_have_examples() -> None:
    spaces = [livegrad, livegrad.Tensor, livegrad.nn, livegrad.nn.functional, livegrad.optim]
    spaces += [livegrad.optim.lr_scheduler, livegrad.utils.data]
    shown = {id(x) for space in spaces for x in vars(space).values() if _has_example(x)}
    assert len(shown) >= 200


def _has_example(value: object) -> bool:
    return callable(value) and ">>>" in (value.__doc__ or "")
