"""The journal of a search: a line of JSON for what it is, and one for each result.

A line is written in one go, and counts once it is complete: a search that is killed at any moment
loses at most the trials that were running.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1


@dataclass
class Result:
    """What came of a trial: with these parameters, after `budget`, this value; or an error."""

    number: int
    params: dict[str, Any]
    budget: int | None
    value: float | None
    seconds: float
    error: str | None = None
    reports: list[list[float]] = field(default_factory=list)


class Journal:
    """A file that results are appended to; without a path, nothing is kept."""

    def __init__(self, path: Any, described: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.header = {"livegrad_search": VERSION, **described}
        self.results: list[Result] = []
        if self.path is not None:
            self._open(self.path)

    def _open(self, path: Path) -> None:
        if path.is_dir():
            raise IsADirectoryError(f"search: {path} is a directory; expected a file for results")
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = self._read(path) if path.exists() else 0
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(whole)  # a line that was being written when the search was killed
        if not whole:
            self._append(self.header)

    def _read(self, path: Path) -> int:
        """Reads complete lines; how many bytes they are."""
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        if not lines:
            if data and not data.startswith(b'{"livegrad_search"'[: len(data)]):
                raise ValueError(f"search: {path} is not the journal of a search")
            return 0
        try:
            header, *rest = [json.loads(line) for line in lines]
            found = header["livegrad_search"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"search: {path} is not the journal of a search") from None
        if found != VERSION:
            raise ValueError(f"search: {path} has version {found}; expected {VERSION}")
        wanted = json.loads(json.dumps(self.header))
        changed = sorted(k for k in {*header, *wanted} if header.get(k) != wanted.get(k))
        if changed:
            raise ValueError(
                f"search: {path} is of another search: {', '.join(changed)} differ. Give another "
                "journal, or remove it"
            )
        self.results = [Result(**line) for line in rest]
        return whole

    def add(self, result: Result) -> None:
        """Notes a result; it is on disk when this returns."""
        self.results.append(result)
        if self.path is not None:
            self._append(asdict(result))

    def _append(self, line: dict[str, Any]) -> None:
        assert self.path is not None
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")
            os.fsync(file.fileno())
