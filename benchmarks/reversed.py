"""Programs of livegrad under torch: what they import as `livegrad` is torch.

The reverse of `livegrad run`. What livegrad has and torch has not (data sets, texts, images,
attributions) are livegrad's own files, which then compute with torch too.

    install()  ──►  import livegrad.nn       is  torch.nn
                    import livegrad.text     is  livegrad/text, on top of torch
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent.parent / "livegrad"
# Packages whose files are livegrad's, and single files that these need.
OWN = ("attr", "datasets", "text", "vision", "nn.tuples", "temporary")
OWN += ("serialization.files", "serialization.errors")
# Where torch has the names of a module of livegrad's.
ELSEWHERE = {
    "creation": "torch",
    "dtypes": "torch",
    "random": "torch",
    "tensor": "torch",
    "nn.module": "torch.nn",
    "subclassing": "torch._C",
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `livegrad` and all that is below it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] != "livegrad":
            return None
        inner = name.partition(".")[2]
        if any([inner == own or inner.startswith(own + ".") for own in OWN]):
            return _own_spec(name, inner)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        inner = spec.name.partition(".")[2]
        module = ModuleType(spec.name)
        try:
            theirs = importlib.import_module(ELSEWHERE.get(inner, f"torch.{inner}".rstrip(".")))
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f"torch has nothing like {spec.name}") from None
        # Names that a module makes when it is asked for them are asked for by __getattr__.
        module.__dict__.update({k: v for k, v in vars(theirs).items() if not k.startswith("__")})
        module.__dict__["__getattr__"] = lambda name: getattr(theirs, name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """All is there."""


def _own_spec(name: str, inner: str) -> Any:
    path = HERE.joinpath(*inner.split("."))
    if path.is_dir():
        return importlib.util.spec_from_file_location(
            name, path / "__init__.py", submodule_search_locations=[str(path)]
        )
    return importlib.util.spec_from_file_location(name, path.with_suffix(".py"))


def install() -> None:
    """From now on `livegrad` is torch; none of it may have been imported."""
    import torch

    from benchmarks import kit

    loaded = [name for name in sys.modules if name.split(".")[0] == "livegrad"]
    if loaded:
        raise RuntimeError(f"livegrad is imported already: {loaded[0]}")
    sys.meta_path.insert(0, _Finder())
    root = importlib.import_module("livegrad")
    for name, values in {"train": vars(kit), "compress": {}}.items():
        module = ModuleType(f"livegrad.{name}")
        module.__dict__.update({k: v for k, v in values.items() if not k.startswith("__")})
        sys.modules[module.__name__] = module
        setattr(root, name, module)
    _add("livegrad", explain=lambda *_: "")
    _add("livegrad.utils.data", LengthBucketSampler=kit.LengthBucketSampler)
    _add("livegrad.serialization", save_file=torch.save)
    _add("livegrad.subclassing", disabled_torch_function=torch._C.DisableTorchFunctionSubclass)


def _add(name: str, **values: Any) -> None:
    """What programs import from a module that torch has without it."""
    importlib.import_module(name).__dict__.update(values)
