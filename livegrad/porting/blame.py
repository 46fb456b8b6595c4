"""What ended a program, said once more when a name of torch was missing, or a package.

```
Traceback (most recent call last):
  File "train.py", line 7, in <module>
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
AttributeError: module 'torch' has no attribute 'quantize_per_tensor' (livegrad in its place)
livegrad has no torch.quantize_per_tensor, which train.py uses in line 7: there are no …
```
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from types import ModuleType, TracebackType

from livegrad.porting import names
from livegrad.porting.advice import PACKAGES, instead_of
from livegrad.tensor import Tensor

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def explain(error: BaseException) -> None:
    """Adds a line to an error that comes from a name livegrad does not have, or a package."""
    name = missing(error)
    if name:
        error.add_note(sentence(name, _place(error.__traceback__)))
    elif isinstance(error, ModuleNotFoundError) and error.name:
        package, place = error.name.partition(".")[0], _place(error.__traceback__)
        if importlib.util.find_spec(package) is None and _is_about_torch(place):
            error.add_note(uninstalled(package, place))


def _is_about_torch(place: tuple[str, int] | None) -> bool:
    """Whether a program has imported torch, or is about to: others end as under Python."""
    if "torch" in sys.modules or place is None:
        return "torch" in sys.modules
    try:
        with open(place[0], encoding="utf-8", errors="replace") as file:
            return re.search(r"\btorch\b", file.read()) is not None
    except OSError:
        return False


def uninstalled(package: str, place: tuple[str, int] | None) -> str:
    """Which package is not there, where it is wanted, and how to get it without PyTorch."""
    where = f", which {place[0]} imports in line {place[1]}" if place else ""
    return (
        f"{package} is not installed in {sys.prefix}{where}: pip install {package}, "
        "with --no-deps if it would bring PyTorch along"
    )


def missing(error: BaseException) -> str:
    """The name of torch that was asked for and is not there; "" if that is not what happened."""
    if isinstance(error, AttributeError):
        return _missing_attribute(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        known = names.is_torch(error.name) or error.name.split(".")[0] in PACKAGES
        return error.name if known else ""
    if isinstance(error, ImportError) and error.name:
        found = re.match(r"cannot import name '(\w+)'", str(error))
        if found and _is_ours(error.name):
            return f"{names.theirs(error.name)}.{found[1]}"
    return ""


def _missing_attribute(error: AttributeError) -> str:
    owner = error.obj
    if isinstance(owner, ModuleType) and _is_ours(owner.__name__):
        return f"{names.theirs(owner.__name__)}.{error.name}"
    if type(owner) is Tensor or owner is Tensor:
        return f"torch.Tensor.{error.name}"
    return ""


def _is_ours(module: str) -> bool:
    return names.is_torch(module) or f"{module}.".startswith(f"{names.OURS}.")


def sentence(name: str, place: tuple[str, int] | None) -> str:
    """What is missing, where, and what to use instead."""
    where = f", which {place[0]} uses in line {place[1]}" if place else ""
    advice = instead_of(name)
    return f"livegrad has no {name}{where}" + (f": {advice}" if advice else "")


def _place(traceback: TracebackType | None) -> tuple[str, int] | None:
    """The file and line of the innermost frame that is not of the import system or livegrad."""
    found = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<frozen") and not file.startswith(PACKAGE):
            found = (file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
