"""Code that changes while it is watched: the page's switch for `livegrad.live`, and what happened.

the page ──► turn(True), between two steps ──► live(model, optimiser) for all that are trained
a file was edited ──► told ──► the next steps are watched in full, to be compared with before
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from livegrad.debug.reloading import CHANGED, Change, Live
from livegrad.view.calls import NAMES

if TYPE_CHECKING:
    from livegrad.view.record import Recorder

MOST_CHANGES = 100


class Changes:
    """What has changed since a recorder was started, whoever has switched it on."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._changes: list[dict[str, Any]] = []
        self._own: list[Live] = []

    def start(self) -> None:
        """Begins to listen."""
        CHANGED.append(self._changed)

    def stop(self) -> None:
        """Ends; what the page has switched on goes off."""
        CHANGED.remove(self._changed)
        for each in self._own:
            each.stop()
        self._own = []

    def turn(self, on: bool) -> dict[str, Any]:
        """Has changes of the code taken over from now on, or no longer."""
        for each in [] if on else list(Live.running):
            each.stop()
        followed = [each.model for each in Live.running]
        for root in NAMES.roots() if on else []:
            if not any([root is model for model in followed]):
                made = Live(root, self._optimizer_of(root), {})
                if made.files:
                    self._own.append(made)
                else:
                    made.stop()
        told = self.told()
        if on and not told["on"]:
            told["problem"] = "no class of the models that run is defined in a file of the program"
        return told

    def _optimizer_of(self, model: Any) -> Any:
        mine = {id(p) for p in model.parameters()}
        for optimizer in list(self._recorder.training.optimizers):
            if any([id(p) in mine for group in optimizer.param_groups for p in group["params"]]):
                return optimizer
        return None

    def _changed(self, live: Live, change: Change) -> None:
        before, after = self._recorder.look_closely()
        self._changes.append(
            {
                "before": before,
                "after": after,
                "file": change.file,
                "replaced": list(change.replaced),
                "appeared": list(change.appeared),
                "vanished": list(change.vanished),
                "renamed": list(change.renamed),
                "error": change.error[-8000:],
            }
        )
        del self._changes[:-MOST_CHANGES]

    def told(self) -> dict[str, Any]:
        """For the page."""
        files = {os.path.basename(file) for each in Live.running for file in each.files}
        return {"on": bool(files), "files": sorted(files), "changes": list(self._changes)}
