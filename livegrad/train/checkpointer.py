"""Checkpointer: a directory with the best and the last states of a run."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from livegrad.serialization.files import writing
from livegrad.temporary import remove_left_overs
from livegrad.train.early_stopping import check_mode, is_better
from livegrad.train.run_state import load_run, save_run
from livegrad.utils.reading import number_of

_NAME = re.compile(r"step-(\d+)\.safetensors")
_INDEX = "index.json"


class Saved(NamedTuple):
    """One checkpoint: its step, the value it was saved with, its file."""

    step: int
    value: float | None
    path: Path


class Checkpointer:
    """Keeps the best and the last `keep` checkpoints of a run in a directory.

        keeper = Checkpointer("runs/a", model=model, optimizer=optimizer, loader=loader)
        keeper.save(step, value=validation_loss, epoch=epoch)
        values = keeper.load("last")          # or "best", or the number of a step

    The objects are those of `save_run`, and so is the file: loading continues the run exactly.
    `mode` says whether a smaller or a greater value is better; without values the best is the
    last. Whenever the process is killed, the directory is in order: a file is complete when it
    has its name, and an old one goes after a new one is there. `monitor` names the value in `fit`.

    A directory with checkpoints of an earlier run is continued after `load`, or emptied by the
    first `save` if `overwrite`; otherwise `save` raises FileExistsError.
    """

    def __init__(
        self,
        directory: Any,
        /,
        *,
        mode: str = "min",
        keep: int = 1,
        monitor: str | None = None,
        overwrite: bool = False,
        **objects: Any,
    ) -> None:
        check_mode("Checkpointer", mode)
        if keep < 1:
            raise ValueError(f"Checkpointer: got keep={keep}; expected at least 1")
        self.directory = Path(directory)
        self.mode = mode
        self.keep = keep
        self.monitor = monitor
        self.objects = objects
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_left_overs(str(self.directory), again=True)
        self._saved = self._read()
        self._overwrite = overwrite
        self._continued = not self._saved

    # ---- what there is ---------------------------------------------------------------------

    @property
    def saved(self) -> list[Saved]:
        """All checkpoints there are, by step."""
        return list(self._saved)

    @property
    def last(self) -> Saved | None:
        """The checkpoint of the greatest step."""
        return self._saved[-1] if self._saved else None

    @property
    def best(self) -> Saved | None:
        """The checkpoint with the best value; the last one if none has a value."""
        best = None
        for found in self._saved:
            known = None if best is None else best.value
            if found.value is not None and is_better(found.value, known, self.mode):
                best = found
        return best or self.last

    def _read(self) -> list[Saved]:
        """What the directory holds; files that are not in the index have no value."""
        values: dict[str, float | None] = {}
        path = self.directory / _INDEX
        if path.exists():
            try:
                index = json.loads(path.read_text(encoding="utf-8"))
                values = {entry["file"]: entry["value"] for entry in index["checkpoints"]}
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"Checkpointer: {path} is damaged: {error}") from error
        found = []
        for file in self.directory.iterdir():
            match = _NAME.fullmatch(file.name)
            if match:
                found.append(Saved(int(match[1]), values.get(file.name), file))
        return sorted(found, key=lambda x: x.step)

    # ---- saving ----------------------------------------------------------------------------

    def save(self, step: int, value: Any = None, **extra: Any) -> Path:
        """Saves the objects and `extra`, then lets go of what need not be kept."""
        number = None if value is None else number_of(value)
        going = self._going_back_to(step)
        path = self.directory / f"step-{step:010d}.safetensors"
        save_run(path, **self.objects, step=step, value=number, **extra)
        gone = {old.step for old in going} | {step}
        self._saved = [old for old in self._saved if old.step not in gone]
        self._saved.append(Saved(step, number, path))
        self._continued = True
        kept = {found.step for found in self._saved[-self.keep :]}
        if self.best is not None:
            kept.add(self.best.step)
        going += [old for old in self._saved if old.step not in kept]
        self._saved = [old for old in self._saved if old.step in kept]
        self._write_index()
        for old in going:
            old.path.unlink(missing_ok=True)
        return path

    def _going_back_to(self, step: int) -> list[Saved]:
        """Checkpoints that do not belong to the run that now saves `step`."""
        if self._continued:
            return [old for old in self._saved if old.step > step]
        if self._overwrite:
            return [old for old in self._saved if old.step != step]
        assert self.last is not None
        raise FileExistsError(
            f"Checkpointer: {self.directory} has checkpoints of another run, up to step "
            f"{self.last.step}. Continue it with load(), choose another directory, or give "
            "overwrite=True"
        )

    def _write_index(self) -> None:
        best, last = self.best, self.last
        index = {
            "best": None if best is None else best.path.name,
            "last": None if last is None else last.path.name,
            "checkpoints": [
                {"file": found.path.name, "step": found.step, "value": _finite(found.value)}
                for found in self._saved
            ],
        }
        with writing(self.directory / _INDEX) as file:
            file.write(json.dumps(index, indent=1).encode())

    # ---- loading ---------------------------------------------------------------------------

    def load(self, which: str | int = "last", *, strict: bool = True) -> dict[str, Any]:
        """Puts the objects back to a checkpoint; returns the values saved with it.

        They include "step" and "value". Raises FileNotFoundError if there is no checkpoint.
        """
        found = self._find(which)
        if found is None:
            steps = ", ".join(str(x.step) for x in self._saved) or "none"
            raise FileNotFoundError(
                f"Checkpointer: there is no checkpoint {which!r} in {self.directory}; there are "
                f"the steps {steps}"
            )
        values = load_run(found.path, strict=strict, **self.objects)
        self._continued = True
        return values

    def _find(self, which: str | int) -> Saved | None:
        if which == "last":
            return self.last
        if which == "best":
            return self.best
        if isinstance(which, str):
            raise ValueError(f"Checkpointer: got {which!r}; expected 'best', 'last' or a step")
        return next((found for found in self._saved if found.step == which), None)

    def __repr__(self) -> str:
        steps = [found.step for found in self._saved]
        return f"Checkpointer({str(self.directory)!r}, steps={steps})"


def _finite(value: float | None) -> float | None:
    """The value, if JSON has a word for it."""
    return value if value is not None and math.isfinite(value) else None
