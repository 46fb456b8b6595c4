"""The expression that a site stands for: which part of its line."""

from __future__ import annotations

import ast
import linecache
from typing import NamedTuple

from livegrad.graph.node import Site, site_location


class Expression(NamedTuple):
    """The source of a line without its indent, and the columns of an expression in it."""

    line: str
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether the expression is all that the line has, or unknown."""
        return not self.line[: self.start].strip() and self.end >= len(self.line.rstrip())

    @property
    def called(self) -> str | None:
        """The name of the function or method that the expression calls, if it does."""
        try:
            tree = ast.parse(self.line[self.start : self.end], mode="eval").body
        except (SyntaxError, ValueError):
            return None
        if not isinstance(tree, ast.Call):
            return None
        name = tree.func
        if isinstance(name, ast.Attribute):
            return name.attr
        return name.id if isinstance(name, ast.Name) else None

    def marked(self, indent: str) -> str:
        """The line, with the expression marked below it if it is a part."""
        told = indent + self.line.rstrip()
        if self.is_whole:
            return told
        return f"{told}\n{indent}{' ' * self.start}{'~' * (self.end - self.start)}"


def expression_at(site: Site | None) -> Expression:
    """The expression at a site; of one over several lines, its first line."""
    file, line = site_location(site)
    text = linecache.getline(file, line).rstrip() if line else ""
    indent = len(text) - len(text.lstrip())
    whole = Expression(text[indent:], 0, len(text) - indent)
    if site is None or not text:
        return whole
    positions = list(site[0].co_positions())
    place = site[1] // 2
    first, last, start, end = positions[place] if place < len(positions) else (None,) * 4
    if first != line or start is None or end is None:
        return whole
    # Columns count bytes.
    stored = text.encode()
    start = len(stored[:start].decode(errors="ignore"))
    end = len(stored[:end].decode(errors="ignore")) if last == line else len(text)
    return Expression(text[indent:], start - indent, end - indent)


__all__ = ["Expression", "expression_at"]
