"""compare(): accuracy, size on disk and time of models, before and after, as a table."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from livegrad.autograd import no_grad
from livegrad.graph.handle import Handle
from livegrad.nn.module import Module
from livegrad.serialization import save
from livegrad.train.summary import size

HEADINGS = ("model", "score", "change", "on disk", "smaller", "packed", "time", "faster")


@dataclass
class Entry:
    """One model: its score, bytes of its saved state, and seconds of its quickest call.

    `packed`: bytes of the same file saved with a name that ends in .gz.
    """

    name: str
    score: float | None
    nbytes: int
    packed: int
    seconds: float


@dataclass
class Report:
    """Models side by side; the first is what the others are compared with. Print it."""

    entries: list[Entry]

    def __getitem__(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def smaller(self, name: str) -> float:
        """How many times smaller than the first a model is."""
        return self.entries[0].nbytes / max(self[name].nbytes, 1)

    def faster(self, name: str) -> float:
        """How many times faster than the first a model is."""
        return self.entries[0].seconds / max(self[name].seconds, 1e-12)

    def __str__(self) -> str:
        table = [HEADINGS, *[self._cells(entry) for entry in self.entries]]
        shown = [i for i in range(len(HEADINGS)) if i not in (1, 2) or self._has_scores]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(HEADINGS))]
        lines = []
        for cells in table:
            texts = [cells[i].rjust(widths[i]) if i else cells[i].ljust(widths[i]) for i in shown]
            lines.append("  ".join(texts).rstrip())
        return "\n".join([lines[0], "─" * max(map(len, lines)), *lines[1:]])

    __repr__ = __str__

    @property
    def _has_scores(self) -> bool:
        return any([entry.score is not None for entry in self.entries])

    def _cells(self, entry: Entry) -> tuple[str, ...]:
        first = self.entries[0]
        change = ""
        if entry is not first and entry.score is not None and first.score is not None:
            change = f"{entry.score - first.score:+.4f}"
        ratios = [f"{f(entry.name):.2f}×" if entry is not first else "" for f in self._ratios]
        return (
            entry.name,
            "" if entry.score is None else f"{entry.score:.4f}",
            change,
            size(entry.nbytes),
            ratios[0],
            size(entry.packed),
            f"{entry.seconds * 1e3:.3f} ms",
            ratios[1],
        )

    @property
    def _ratios(self) -> tuple[Callable[[str], float], Callable[[str], float]]:
        return self.smaller, self.faster


def size_on_disk(model: Module, packed: bool = False) -> int:
    """Bytes of the model's state, saved as safetensors; or `packed`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors" + (".gz" if packed else ""))
        save(model.state_dict(), path)
        return os.path.getsize(path)


def compare(
    models: Mapping[str, Module],
    *inputs: Any,
    score: Callable[[Any], float] | None = None,
    repeats: int = 20,
    warm_up: int = 5,
) -> Report:
    """Accuracy, size and time of models, the first of which the others are compared with.

        print(compare({"float": model, "int8": small}, images, score=accuracy))

    Args:
        models: by the names they are to have in the table.
        inputs: what each is called with to be timed, in eval mode and without gradients. Calls of
            all models take turns, so that what else a machine does meets all alike.
        score: a function of a model, such as its accuracy on some data.
        repeats: how often each is called; the quickest call counts.
    """
    if not models or repeats < 1:
        raise ValueError("compare: there is nothing to compare; expected models and repeats >= 1")
    modes = {name: model.training for name, model in models.items()}
    for model in models.values():
        model.eval()
    try:
        with no_grad():
            scores = {k: None if score is None else float(score(m)) for k, m in models.items()}
            times = _times(models, inputs, repeats, warm_up)
    finally:
        for name, model in models.items():
            model.train(modes[name])
    entries = []
    for name, model in models.items():
        sizes = size_on_disk(model), size_on_disk(model, packed=True)
        entries.append(Entry(name, scores[name], *sizes, min(times[name])))
    return Report(entries)


def _times(
    models: Mapping[str, Module], inputs: tuple[Any, ...], repeats: int, warm_up: int
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(warm_up + repeats):
        for name, model in models.items():
            start = time.perf_counter()
            _read(model(*inputs))
            if turn >= warm_up:
                found[name].append(time.perf_counter() - start)
    return found


def _read(result: Any) -> None:
    """Has a result computed: one of its tensors is read."""
    if isinstance(result, Handle):
        tensor: Any = result
        if tensor.numel():
            tensor.detach().numpy()
        return
    values = result.values() if isinstance(result, dict) else result
    for value in values if isinstance(values, list | tuple) or values is not result else [values]:
        if isinstance(value, Handle):
            _read(value)
            return
