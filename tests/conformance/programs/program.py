"""What a program is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A script of a repository, its arguments, and the data it looks for: (kind, place)."""

    repo: str
    path: str
    args: tuple[str, ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    text: str | None = None  # of a script that is a block of a document
    first: str = ""  # another script that makes its data

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.repo.replace('+', '/')}: {self.path}"


def several(repo: str, lines: str, *data: tuple[str, str], below: str = "") -> list[Program]:
    """One program for each line: a path, and its arguments."""
    found = []
    for line in lines.strip().splitlines():
        path, *args = line.split("|")
        found.append(Program(repo, below + path.strip(), tuple(" ".join(args).split()), data))
    return found
