"""Writes the pages of the API reference from the package's docstrings, as Markdown for Sphinx.

Docstrings here are Markdown, so `sphinx.ext.autodoc`, which reads reStructuredText, is of no use.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Page(NamedTuple):
    """One page: the public names of one module, or the members of one class of it."""

    module: str
    title: str
    class_name: str = ""

    @property
    def name(self) -> str:
        return f"{self.module}.{self.class_name}" if self.class_name else self.module

    @property
    def file(self) -> str:
        return f"{self.name}.md"


PAGES = [
    Page("livegrad", "Functions of tensors"),
    Page("livegrad", "Tensor", "Tensor"),
    Page("livegrad.autograd", "Gradients"),
    Page("livegrad.func", "Transforms of functions"),
    Page("livegrad.nn", "Layers and losses"),
    Page("livegrad.nn.functional", "Layers as functions"),
    Page("livegrad.nn.init", "Initialisers"),
    Page("livegrad.nn.utils", "Utilities of layers"),
    Page("livegrad.optim", "Optimisers"),
    Page("livegrad.optim.lr_scheduler", "Schedules of learning rates"),
    Page("livegrad.utils.data", "Data sets and loaders"),
    Page("livegrad.utils.checkpoint", "Recomputing instead of keeping"),
    Page("livegrad.train", "Training kit"),
    Page("livegrad.amp", "Mixed precision"),
    Page("livegrad.linalg", "Linear algebra"),
    Page("livegrad.fft", "Fourier transforms"),
    Page("livegrad.special", "Special functions"),
    Page("livegrad.distributions", "Distributions"),
    Page("livegrad.sparse", "Sparse tensors"),
    Page("livegrad.nested", "Nested tensors"),
    Page("livegrad.masked", "Masked tensors"),
    Page("livegrad.vision.models", "Networks for images"),
    Page("livegrad.vision.transforms", "Transforms of images"),
    Page("livegrad.vision.datasets", "Data sets of images"),
    Page("livegrad.vision.ops", "Boxes and regions"),
    Page("livegrad.text", "Text"),
    Page("livegrad.attr", "Attributions"),
    Page("livegrad.compress", "Smaller and faster models"),
    Page("livegrad.view", "The live graph"),
    Page("livegrad.debug", "Debugging"),
    Page("livegrad.fx", "Programs as graphs"),
    Page("livegrad.profiler", "Profiler"),
    Page("livegrad.lint", "Warnings for the usual mistakes"),
    Page("livegrad.serialization", "Files"),
    Page("livegrad.testing", "Comparing in tests"),
]

_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Example|Examples):$")
_SEE = re.compile(r"^See `livegrad\.([\w.]+)`\.$")
_ARGUMENT = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)$")


def write(folder: Path) -> None:
    """All pages, and an index of them; a page that has not changed is left alone."""
    folder.mkdir(exist_ok=True)
    for page in PAGES:
        update(folder / page.file, "\n".join(_page(page)))
    update(folder / "index.md", _index())


def update(file: Path, text: str) -> None:
    """Writes a page. Sphinx reads again what is newer than its last build: equal text stays."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _index() -> str:
    rows = [f"| [{page.name}]({page.file}) | {page.title} |" for page in PAGES]
    toc = ["```{toctree}", ":hidden:", "", *[page.name for page in PAGES], "```"]
    text = "Names, arguments and defaults are PyTorch's wherever PyTorch has them."
    return "\n".join(["# Reference", "", text, "", "| | |", "|---|---|", *rows, "", *toc, ""])


def _page(page: Page) -> Iterator[str]:
    yield f"# {page.title}"
    yield ""
    module = importlib.import_module(page.module)
    yield f"```{{py:currentmodule}} {page.module}\n```\n"
    if page.class_name:
        yield from _class(getattr(module, page.class_name), page.name)
    else:
        yield from _markdown(inspect.getdoc(module) or "")
        yield ""
        for name in public_names(module):
            value = getattr(module, name)
            if (page.module, name) in {(p.module, p.class_name) for p in PAGES}:
                continue
            if inspect.isclass(value):
                yield from _class(value, f"{page.module}.{name}")
            else:
                yield from _object("function", f"{page.module}.{name}", value)


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: functions and classes of livegrad's, without its modules."""
    names = {name for name in dir(module) if not name.startswith("_")}
    return sorted([x for x in names - _borrowed(module) if _is_ours(getattr(module, x))])


def _borrowed(module: ModuleType) -> set[str]:
    """What it imports for its own use; what it offers is in `__all__`, or imported `as` itself."""
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {x.name for node in imports for x in node.names if x.asname is None}
    return names - set(getattr(module, "__all__", ()))


def _is_ours(value: Any) -> bool:
    return callable(value) and str(getattr(value, "__module__", "")).startswith("livegrad")


def _class(value: type, name: str) -> Iterator[str]:
    members = [x for x in vars(value) if not x.startswith("_") and _is_documented(vars(value)[x])]
    inner: list[str] = []
    for member in sorted(members):
        inner += _member(member, inspect.getattr_static(value, member))
    yield from _object("class", name, value, inner)


def _is_documented(member: Any) -> bool:
    wanted = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod | property)
    return wanted and bool(inspect.getdoc(member))


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        yield from _directive("py:attribute", name, inspect.getdoc(member) or "", [], fence=4)
        return
    function = getattr(member, "__func__", member)
    call = name + _signature(function, method=not isinstance(member, staticmethod))
    yield from _directive("py:method", call, inspect.getdoc(function) or "", [], fence=4)


def _object(kind: str, name: str, value: Any, inner: list[str] | None = None) -> Iterator[str]:
    call = name + _signature(value, method=False)
    yield from _directive(f"py:{kind}", call, _documentation(value), inner or [], fence=5)


def _directive(kind: str, call: str, doc: str, inner: list[str], fence: int) -> Iterator[str]:
    marks = ":" * fence
    yield f"{marks}{{{kind}}} {call}"
    yield ""
    yield from _markdown(doc)
    yield ""
    yield from inner
    yield marks
    yield ""


def _signature(function: Any, *, method: bool) -> str:
    """Arguments and their defaults, without types: the text says what an argument may be."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "()"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters[method:]]
    text = str(inspect.Signature(bare))
    return re.sub(r"<([\w.]+)[^<>]*>", r"\1", text)  # a default that prints as <function f at 0x..>


def _documentation(value: Any) -> str:
    """The docstring; where it points to that of a function, what stands there, too."""
    doc = inspect.getdoc(value) or ""
    if not (see := _SEE.match(doc)):
        return doc
    *path, name = see[1].split(".")
    function = getattr(importlib.import_module(".".join(["livegrad", *path])), name)
    return f"{doc}\n\n{inspect.getdoc(function) or ''}"


def _markdown(doc: str) -> Iterator[str]:
    """A docstring as Markdown: its sections become lists, its examples blocks of code."""
    section, in_example = "", False
    for line in doc.splitlines():
        starts = line.lstrip().startswith(">>>")
        if in_example and not line.strip():
            in_example = False
            yield "```"
        elif starts and not in_example:
            in_example = True
            yield "\n```pycon"
        if in_example:
            yield line[4:] if section.startswith("Example") else line
            continue
        if match := _SECTION.match(line):
            section = match[1]
            if not section.startswith("Example"):
                yield f"\n**{'Arguments' if section == 'Args' else section}**\n"
        elif section and (argument := _ARGUMENT.match(line)):
            names = ", ".join(f"`{name.strip()}`" for name in argument[1].split(","))
            yield f"- {names}: {_escaped(argument[2])}"
        else:
            yield _escaped(line[4:] if section and line.startswith("    ") else line)
    if in_example:
        yield "```"


def _escaped(line: str) -> str:
    """Outside of `code`, a `*` or `<` is meant as it is written."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"([*<])", r"\\\1", p) for p in parts)
