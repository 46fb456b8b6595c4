"""The documentation is true: its programs run, its ops pass the tests, its links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import livegrad

ROOT = Path(__file__).parents[1]
GENERATED = {ROOT / "docs" / "reference", ROOT / "docs" / "examples"}  # by `make docs`
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED.isdisjoint(page.parents)),
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
    assert [x for x in links if not x.exists() and GENERATED.isdisjoint(x.parents)] == []


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
    """Of all modules, also where a method or property is shown to users as another's."""
    for name, file in modules():
        text = file.read_text(encoding="utf-8")
        if ">>>" in text:
            names = {**vars(importlib.import_module(name)), **NAMES_OF_EXAMPLES}
            ran = [
                run_examples(node.value, names, f"{name}:{node.lineno}")
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
            assert sum(ran), name


def run_examples(text: str, names: dict[str, Any], where: str) -> int:
    """Runs the examples of a docstring, which must print what it says; how many there are."""
    parser = doctest.DocTestParser()
    test = parser.get_doctest(inspect.cleandoc(text), dict(names), where, None, None)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert not doctest.DocTestRunner(verbose=False, optionflags=flags).run(test).failed, where
    return len(test.examples)


# The 200 names that most of 61 public PyTorch programs and tutorials use, counted by repository;
# without dtypes, devices other than the CPU, and several processes.
USED_MOST = """
    nn.Module nn.Linear Tensor.backward Tensor.size Tensor.data zeros Tensor.view Tensor.shape
    Tensor.item cat sum mean detach unsqueeze Tensor.to save optim.Adam ones nn.Sequential load
    sqrt device tensor nn.Parameter nn.ModuleList transpose no_grad nn.ReLU nn.Embedding
    Tensor.numpy max Tensor.contiguous randn Tensor.float Tensor.cpu arange squeeze reshape log
    fill_ nn.functional.softmax manual_seed Tensor.dtype from_numpy utils.data.DataLoader
    nn.Dropout nn.Conv2d Tensor.dim clone Tensor.tolist t copy_ stack nn.functional.relu
    Tensor.requires_grad Tensor.grad Tensor.expand exp cos nn.LayerNorm zero_ softmax numel
    utils.data.Dataset nn.init.normal_ norm argmax abs zeros_like nn.utils.clip_grad_norm_
    nn.CrossEntropyLoss empty Tensor.type sin Tensor.repeat relu pow masked_fill
    Tensor.expand_as clamp where tanh rand nn.functional.cross_entropy nn.BatchNorm2d std eq
    optim.SGD nn.init.zeros_ nn.Tanh nn.Sigmoid nn.MaxPool2d matmul einsum permute normal_ min
    Tensor.long flatten add_ optim.AdamW nn.functional.log_softmax nn.functional.linear nn.LSTM
    uniform_ Tensor.type_as mul_ gather clip randperm randint nn.functional.mse_loss nn.Softmax
    nn.ConvTranspose2d full Tensor.view_as triu tril nn.init.constant_
    nn.functional.scaled_dot_product_attention nn.functional.pad multinomial allclose
    Tensor.stride scatter_ Tensor.ndim masked_fill_ floor Tensor.double clamp_ chunk add topk
    optim.Optimizer ones_like nn.init.uniform_ nn.functional.dropout nn.LeakyReLU nn.Identity
    nn.GELU nn.BatchNorm1d eye distributions.Categorical var sigmoid mul div_ Tensor.T
    randn_like nn.functional.max_pool2d nn.functional.conv2d nn.ModuleDict nn.MSELoss nn.GRU
    nn.Conv1d equal amp.autocast Generator unbind scatter requires_grad_ all prod
    nn.init.orthogonal_ nn.functional.sigmoid nn.functional.avg_pool2d nn.LogSoftmax
    nn.DataParallel nn.BCELoss linspace inference_mode diag autograd.grad Size nonzero
    Tensor.int flip div testing.assert_close rsqrt optim.RMSprop nn.init.xavier_uniform_
    nn.init.kaiming_normal_ nn.RNN nn.AvgPool2d nn.AdaptiveAvgPool2d is_tensor cumsum bmm
    autograd.Function sub narrow masked_select detach_ ceil Tensor.byte Tensor.bool any
    utils.data.random_split utils.data.TensorDataset
""".split()
# Arguments that mean the same everywhere, or are there for old programs.
KNOWN = set(
    """
    self input other x tensor obj out dtype device layout requires_grad pin_memory memory_format
    generator inplace size_average reduce foreach capturable differentiable fused old implicit
    """.split()
)
_DESCRIBED = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): ", re.MULTILINE)


def test_the_names_used_most_are_200() -> None:
    assert len(set(USED_MOST)) == 200


@pytest.mark.filterwarnings("ignore:NaN was read")
@pytest.mark.parametrize("name", USED_MOST)
def test_the_names_used_most_have_arguments_and_an_example(name: str) -> None:
    value = attrgetter(name)(livegrad)
    text = inspect.cleandoc(value.__doc__ or "")
    form_of = re.match(r"In-place form of `(\w+)`", text)
    if form_of:  # which has its arguments
        value = getattr(livegrad, form_of[1])
        text = inspect.cleandoc(value.__doc__ or "")
    assert set(_arguments(value)) <= _described(text) | KNOWN
    assert run_examples(text, NAMES_OF_EXAMPLES, name)


def _described(text: str) -> set[str]:
    """Names under "Args:"; `*sizes` are described by whatever is."""
    _, _, arguments = text.partition("Args:\n")
    lines = _DESCRIBED.findall(arguments.partition("Example")[0])
    return {part.strip().lstrip("*") for line in lines for part in line.split(",")}


def _arguments(value: object) -> Iterator[str]:
    """Names of arguments, without those that any function takes."""
    if not callable(value):
        return
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind.name.startswith("VAR_"):
            continue
        if not parameter.name.startswith("_"):
            yield parameter.name


def test_the_reference_has_what_modules_offer_and_not_what_they_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    reference = importlib.import_module("reference")
    assert {"normal_", "orthogonal_"} <= set(reference.public_names(livegrad.nn.init))
    assert "Tensor" not in reference.public_names(livegrad.nn.init)
    assert "node_of" not in reference.public_names(livegrad.fft)
    assert {"Tensor", "relu", "no_grad"} <= set(reference.public_names(livegrad))


def test_every_example_has_a_page_of_the_site(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    importlib.import_module("gallery").write(tmp_path)
    pages = {page.stem for page in tmp_path.iterdir()}
    assert pages == {x.stem for x in (ROOT / "examples").glob("*.py")} | {"index"}
    assert "**Result:** " in (tmp_path / "06_lenet.md").read_text(encoding="utf-8")
