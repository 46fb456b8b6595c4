"""Writes the site's pages of the examples: README's section about them, and each with its code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from reference import update

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SHARED = ("common", "cartpole")

_ROW = re.compile(r"^\| \[(\w+)\]\(examples/\w+\.py\) \|.*\| (.*) \|$", re.MULTILINE)
_SECTION = re.compile(r"^## Examples\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def write(folder: Path) -> None:
    """A page for each example, and an index of them."""
    folder.mkdir(exist_ok=True)
    section = _SECTION.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert section, "README has no section about examples"
    results = dict(_ROW.findall(section[1]))
    for name in [*results, *SHARED]:
        update(folder / f"{name}.md", _page(EXAMPLES / f"{name}.py", results.get(name, "")))
    update(folder / "index.md", _index(section[1], [*results, *SHARED]))


def _index(text: str, names: list[str]) -> str:
    text = re.sub(r"\(examples/(\w+)\.py\)", r"(\1.md)", text)
    text = re.sub(r"\(docs/", "(../", text)
    toc = ["```{toctree}", ":hidden:", "", *names, "```"]
    return "\n".join(["# Examples", text, *toc, ""])


def _page(file: Path, result: str) -> str:
    """Its name, what it says about itself, the result in README, and the code below."""
    source = file.read_text(encoding="utf-8")
    about = ast.parse(source).body[0]
    text = ast.get_docstring(ast.parse(source)) or ""
    lines = [f"# {file.stem}", "", text, ""]
    if result:
        lines += [f"**Result:** {result}", ""]
    path = Path("..", "..", "examples", file.name)
    code = [f"```{{literalinclude}} {path}", ":language: python"]
    code += [f":lines: {(about.end_lineno or 0) + 2}-", "```"]
    return "\n".join([*lines, *code, ""])
