"""Imports point one way: each layer knows the ones below it, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "livegrad"


Import = ast.Import | ast.ImportFrom


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def import_statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[Import, bool]]:
    """All imports below a node, and whether they are inside a function; none for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Import):
            yield child, inside
        elif isinstance(child, ast.stmt | ast.excepthandler) and not is_for_types(child):
            yield from import_statements(child, inside or isinstance(child, ast.FunctionDef))


@cache
def imports() -> dict[Path, list[tuple[Import, bool]]]:
    """The imports of every file of the package, and whether they are inside a function."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {f: list(import_statements(ast.parse(f.read_text(encoding="utf-8")))) for f in files}


# From the bottom up; names on one line do not know each other.
LAYERS = (
    {"__about__", "absent", "backends", "checks", "dtypes", "device", "datasets", "environment"}
    | {"export", "futures", "native", "onnx"},
    {"settings", "temporary", "xpu"},
    {"graph"},
    {"random"},
    {"ops"},
    {"compiler"},
    {"runtime"},
    {"creation", "printing"},
    {"sequences"},
    {"autograd", "fft", "linalg", "masked", "methods", "signal", "special"},
    {"introspection", "legacy", "moving", "return_types"},
    {"sparsity"},
    {"subclassing"},
    {"tensor"},
    {"accelerator", "asserting", "control_flow", "events", "foreach", "mps", "profiler"}
    | {"quasirandom", "storage", "typed", "typing", "variable"},
    {"func", "sparse"},
    {"distributions", "nn"},
    {"amp", "asked", "jit", "multiprocessing", "optim", "overrides", "serialization", "testing"},
    {"_C", "distributed", "fx", "maskedtensor", "nested"},
    {"cuda", "hub", "library"},
    {"debug", "lint", "utils"},
    {"train"},
    {"__init__"},
    {"array_api", "attr", "compress", "functional", "text", "view", "vision"},
    {"demo", "porting"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE = {"graph", "ops", "compiler", "runtime"}


def part_of(file: Path) -> str:
    """The name directly below livegrad/ that a file belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(node: Import) -> Iterator[str]:
    """The parts of livegrad that an import statement names."""
    if isinstance(node, ast.ImportFrom) and node.module == "livegrad":
        for alias in node.names:
            yield alias.name if alias.name in LEVEL else "__init__"
    elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("livegrad."):
        yield str(node.module).split(".")[1]
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "livegrad":
                yield (alias.name.split(".")[1:] or ["__init__"])[0]


def test_every_part_has_a_layer() -> None:
    assert {part_of(f) for f in imports()} == set(LEVEL)


def test_imports_point_down() -> None:
    for file, found in imports().items():
        here = part_of(file)
        for node, inside in found:
            for there in [] if inside else imported(node):
                where = f"{file.relative_to(PACKAGE)}:{node.lineno}"
                assert there == here or LEVEL[there] < LEVEL[here], f"{where} imports {there}"


def test_the_core_knows_no_modules() -> None:
    """Not even inside functions, where other imports may point up to break a cycle."""
    for file, found in imports().items():
        if part_of(file) in CORE:
            for node, _ in found:
                assert not {"nn", "optim", "demo"} & set(imported(node)), file


def test_only_the_runtime_knows_the_cpu() -> None:
    knowing = {
        part_of(file)
        for file in PACKAGE.rglob("*.py")
        if "livegrad.runtime.cpu" in file.read_text(encoding="utf-8")
    }
    assert knowing == {"runtime"}


# ------------------------------------------------------------------------------------- cycles


@cache
def names() -> dict[str, Path]:
    """The files of the package by the module's name, without `livegrad.`."""
    found = {}
    for file in imports():
        *parents, last = file.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parents if last == "__init__" else [*parents, last])] = file
    return found


def modules_of(node: Import) -> Iterator[str]:
    """The modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    else:
        found = [f"{node.module}.{alias.name}" for alias in node.names]
        found = [x if x.removeprefix("livegrad.") in names() else str(node.module) for x in found]
    for name in found:
        if f"{name}.".startswith("livegrad."):
            yield name.removeprefix("livegrad").removeprefix(".")


@cache
def all_imports() -> dict[str, set[str]]:
    """What each module imports, anywhere in it."""
    return {
        here: {x for node, _ in imports()[file] for x in modules_of(node)} - {here}
        for here, file in names().items()
    }


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the next, and the last the first; [] if there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_cycles() -> None:
    assert not cycle_in(all_imports())


# Files that import modules by names they make: the lists of what is imported when first used.
BY_NAME = {
    "__init__.py",
    "autograd/__init__.py",
    "graph/lowering.py",  # lowerings know all of the compiler
    "graph/written.py",  # which reads what is of the compiler
    "porting/names.py",  # which knows all modules by their names in PyTorch
    "overrides/catalogue.py",  # which looks at whole namespaces
    "utils/__init__.py",
}


def test_cycles_are_not_hidden_behind_names() -> None:
    found = [f for f in imports() if "import_module(" in f.read_text(encoding="utf-8")]
    assert {str(f.relative_to(PACKAGE)) for f in found} == BY_NAME


# Names that begin with an underscore in PyTorch too, and must be found under them.
TORCH_NAMES = {
    "_InverseTransform",
    "_Loss",
    "_assert",
    "_symbolic_trace",
    "_WeightedLoss",
    "_BatchNorm",
    "_NormBase",
    "_LazyNormBase",
    "_ConvTransposeNd",
    "_ntuple",
    "_batch_norm_with_update",
    "_chunk_cat",
    "_clipped_sigmoid",
    "_native_batch_norm_legit",
    "_softmax_backward_data",
    "_upsample_bilinear2d_aa",
}


def test_private_names_stay_in_their_modules() -> None:
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("livegrad"):
                names = {x.name for x in node.names if x.name[0] == "_" and x.name[:2] != "__"}
                where = f"{file.relative_to(PACKAGE)}:{node.lineno}"
                assert names <= TORCH_NAMES, f"{where} imports {names - TORCH_NAMES}"


# Imports inside functions: they keep `import livegrad`, or that of a package, quick. To become
# fewer.
MOST_HIDDEN = 43


def test_few_imports_are_hidden() -> None:
    hidden = [node for found in imports().values() for node, inside in found if inside]
    ours = [node for node in hidden if any(modules_of(node))]
    assert len(ours) <= MOST_HIDDEN
