"""Programs that are blocks of a document."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(document: Path) -> list[tuple[int, str]]:
    """The line and text of each block of Python that imports torch, and so stands for itself."""
    if not document.exists():
        return []
    text = document.read_text(encoding="utf-8")
    found = [(text.count("\n", 0, m.start()) + 2, m[1]) for m in _BLOCK.finditer(text)]
    return [(line, block) for line, block in found if "import torch" in block]
