"""The shortest program that still shows a difference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .program import CHECK, complete

RUNS = 400  # at most, for one program


class Shrinker:
    """Leaves out lines, then simplifies those that remain, as long as `fails` says so."""

    def __init__(self, fails: Callable[[Sequence[str]], bool]):
        self.fails = fails
        self.runs = 0

    def shrink(self, lines: Sequence[str]) -> list[str]:
        found, before = list(lines), None
        while found != before and self.runs < RUNS:
            before = found
            found = self.simpler_lines(self.fewer_lines(found))
        return found

    def fewer_lines(self, lines: list[str]) -> list[str]:
        """Leaves out runs of lines, long ones first, and what depends on them."""
        size = max(len(lines) // 2, 1)
        while size:
            start = len(lines) - size
            while start >= 0:
                shorter = complete(lines[:start] + lines[start + size :])
                if self.shows(shorter):
                    lines = shorter
                start = min(start, len(lines)) - size
            size //= 2
        return lines

    def simpler_lines(self, lines: list[str]) -> list[str]:
        for at in reversed(range(len(lines))):
            for line in simpler(lines[at]):
                changed = complete([*lines[:at], line, *lines[at + 1 :]])
                if len(changed) == len(lines) and self.shows(changed):
                    lines = changed
                    break
        return lines

    def shows(self, lines: Sequence[str]) -> bool:
        if self.runs >= RUNS or not lines:
            return False
        self.runs += 1
        return self.fails(lines)


def simpler(line: str) -> Iterator[str]:
    """Lines that do less than this one."""
    if line == CHECK:
        return
    for pattern, replacement in SIMPLER:
        for match in re.finditer(pattern, line):
            shorter = line[: match.start()] + match.expand(replacement) + line[match.end() :]
            if shorter != line and parses(shorter):
                yield shorter


SIMPLER = (
    (r"^with T\.\w+\([^)]*\): ", r""),
    (r", requires_grad=True", r""),
    (r"(?<!\bp)\.(detach|data|clone|contiguous)(\(\))?(?=\.)", r""),  # not `p.data` of a module
    (r", (retain_graph|create_graph|keepdim|accumulate|alpha|value)=[\w.-]+", r""),
    (r"T\.(float16|bfloat16|float64|int8|int16|int32|uint8|complex64)\b", r"T.float32"),
    (r"^(\w+) = \1\.", r"\1."),
)


def parses(line: str) -> bool:
    try:
        compile(line, "<program>", "exec")
    except SyntaxError:
        return False
    return True
