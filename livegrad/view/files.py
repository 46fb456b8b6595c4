"""Records in files: `.lgv` to be opened again, `.html` to be opened by any browser, offline."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from livegrad.view.document import FORMAT, Document, chrome_trace

PAGE = Path(__file__).parent / "page"
# Classic scripts, in the order they are loaded: modules would not load from file://.
SCRIPTS = (
    "vendor/dagre-3.1.3.min.js", "tools.js", "data.js", "shades.js", "outline.js", "canvas.js",
    "graph.js", "source.js", "kernels.js", "timeline.js", "memory.js", "difference.js",
    "training.js", "main.js",
)  # fmt: skip
STYLES = ("style.css",)

# Steps that a file has, and of the last of them, kernels with their code.
MOST_STEPS = 6
MOST_CODE = 10
_LARGEST = 1 << 30


def bundle(document: Document) -> dict[str, Any]:
    """All that a file has: the latest steps, their sources, the code of the slowest kernels."""
    overview = document.overview() | {"live": False, "paused": False}
    numbers = _chosen([step["n"] for step in overview["steps"] if step["graph"]])
    steps = {str(n): document.step(n) for n in numbers}
    for step in overview["steps"]:
        step["graph"] = step["n"] in numbers
    files = sorted({text for step in steps.values() for text in _files(step)})
    return {
        "format": FORMAT,
        "overview": overview,
        "steps": steps,
        "sources": {file: document.source(file) for file in files},
        "code": _codes(document, steps, numbers),
        "limits": document.limits(),
    }


def _chosen(numbers: list[int]) -> list[int]:
    """The first, the last, and some between."""
    if len(numbers) <= MOST_STEPS:
        return numbers
    return [numbers[0], *numbers[-(MOST_STEPS - 1) :]]


def _files(step: dict[str, Any]) -> set[str]:
    table = step["nodes"]
    place = list(table["columns"]).index("file")
    return {table["texts"][row[place]] for row in table["rows"]} - {""}


def _codes(document: Document, steps: dict[str, Any], numbers: list[int]) -> dict[str, Any]:
    if not numbers:
        return {}
    last = numbers[-1]
    kernels = [k for k in steps[str(last)]["kernels"] if k["name"]]
    kernels.sort(key=lambda kernel: -(kernel["seconds"] or 0))
    return {k["name"]: document.code(last, k["number"]) for k in kernels[:MOST_CODE]}


def save(document: Document, path: str | os.PathLike[str]) -> Path:
    """Writes a record: .html, .lgv or, for a time line alone, .json (Chrome's trace format)."""
    target = checked(path)
    if target.suffix == ".json":
        steps = [step["n"] for step in document.overview()["steps"] if step["graph"]]
        target.write_text(json.dumps(chrome_trace(document, steps)), encoding="utf-8")
    elif target.suffix == ".lgv":
        text = json.dumps(bundle(document), separators=(",", ":"))
        target.write_bytes(gzip.compress(text.encode()))
    else:
        target.write_text(page_with([bundle(document)]), encoding="utf-8")
    return target


def checked(path: str | os.PathLike[str]) -> Path:
    """The path of a file to write; ValueError if its name does not say what it is to be."""
    target = Path(path)
    if target.suffix not in (".html", ".htm", ".lgv", ".json"):
        raise ValueError(
            f"save: what kind of file is {target.name!r}? Expected .html, .lgv or .json"
        )
    return target


class FileDocument:
    """A record from a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._data = _read(Path(path))
        self._data["overview"]["title"] = Path(path).name

    def overview(self) -> dict[str, Any]:
        """The run as a whole."""
        found: dict[str, Any] = self._data["overview"]
        return found

    def step(self, number: int) -> dict[str, Any]:
        """One of the steps that the file has."""
        try:
            found: dict[str, Any] = self._data["steps"][str(number)]
        except KeyError:
            raise LookupError(f"this file has no graph of step {number}") from None
        return found

    def code(self, step: int, kernel: int) -> dict[str, str]:
        """The code of a kernel, if it was stored."""
        name = self.step(step)["kernels"][kernel]["name"]
        absent = {"ir": "", "assembly": "", "note": "this file has the code of the slowest alone"}
        found: dict[str, str] = self._data["code"].get(name, absent)
        return found

    def source(self, file: str) -> dict[str, Any]:
        """A file of the program, as it was."""
        try:
            found: dict[str, Any] = self._data["sources"][file]
        except KeyError:
            raise PermissionError("no node of this program was recorded there") from None
        return found

    def limits(self) -> dict[str, float]:
        """What the machine could do that it ran on."""
        found: dict[str, float] = self._data["limits"]
        return found


def _read(path: Path) -> dict[str, Any]:
    problem = f"view: {str(path)!r} is no record of livegrad's"
    try:
        with gzip.open(path) as opened:
            text = opened.read(_LARGEST)
        data = json.loads(text)
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, ValueError):
        raise ValueError(problem) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise ValueError(f"{problem} of this version; got format {found}, expected {FORMAT}")
    return data


# ---------------------------------------------------------------------------------------- pages


@cache
def part(name: str) -> str:
    """A file of the page. The library's link to a map that is not there is left out."""
    text = (PAGE / name).read_text(encoding="utf-8")
    return text.split("//# sourceMappingURL=")[0]


def page_with(bundles: list[dict[str, Any]]) -> str:
    """The page as one file, with its data in it."""
    styles = "".join([f"<style>\n{part(name)}</style>\n" for name in STYLES])
    scripts = "".join([_blocks(number, each) for number, each in enumerate(bundles)])
    scripts += "".join([f"<script>\n{part(name)}</script>\n" for name in SCRIPTS])
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    return _filled(
        styles, scripts, f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    )


def _blocks(number: int, bundle: dict[str, Any]) -> str:
    """A record as blocks of text, each step by itself: the page reads those that it shows."""
    rest = {name: value for name, value in bundle.items() if name != "steps"}
    texts = [_block(f'data-record="{number}"', rest)]
    texts += [
        _block(f'data-of="{number}" data-step="{n}"', step) for n, step in bundle["steps"].items()
    ]
    return "".join(texts)


def _block(attributes: str, data: Any) -> str:
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" {attributes}>{text}</script>\n'


def page_of_server() -> str:
    """The page that asks a server for its data."""
    styles = "".join([f'<link rel="stylesheet" href="page/{name}">\n' for name in STYLES])
    scripts = "".join([f'<script src="page/{name}"></script>\n' for name in SCRIPTS])
    return _filled(styles, scripts, "")


def _filled(styles: str, scripts: str, policy: str) -> str:
    text = part("index.html")
    return (
        text.replace("<!-- policy -->", policy)
        .replace("<!-- styles -->", styles)
        .replace("<!-- scripts -->", scripts)
    )
