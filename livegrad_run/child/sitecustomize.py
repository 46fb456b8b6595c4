"""`import torch` finds livegrad: in `livegrad run`, and in the processes that a program starts.

In those, this is the first that Python runs. Nothing of livegrad is imported before the process
imports torch: most never do.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any


_OURS = {
    "torch",
    "torchvision",
    "torchtext",
    "functorch",
}  # the hook knows which of them are elsewhere


class Waiting:
    """Puts `livegrad.porting.hook` in its place when torch is asked for."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Where torch is: the hook knows."""
        if fullname not in _OURS:
            return None
        return self._finder().find_spec(fullname, path, target)

    def find_distributions(self, context: Any) -> Any:
        """What packaging is told of torch: the hook knows."""
        return self._finder().find_distributions(context) if context.name == "torch" else ()

    def _finder(self) -> Any:
        sys.meta_path.remove(self)
        try:
            hook = importlib.import_module("livegrad.porting.hook")
        except ImportError:  # it was found where the parent looked
            sys.path.append(os.environ["LIVEGRAD_RUN_PATH"])
            hook = importlib.import_module("livegrad.porting.hook")
        hook.install()
        return hook.FINDER


def wait() -> None:
    """From now on, `torch` is livegrad in this process."""
    if "torch" in sys.modules:  # ours, or one that is not to be exchanged
        importlib.import_module("livegrad.porting.hook").install()
    elif not any(isinstance(finder, Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, Waiting())


def make_way() -> None:
    """Takes this directory off the path, and runs the `sitecustomize` that it hides, if any."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    this = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize":
    # Other interpreters may have a torch of their own.
    if os.environ.get("LIVEGRAD_RUN") == sys.prefix:
        wait()
    make_way()
