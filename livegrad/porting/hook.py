"""`import torch` finds livegrad: from `install()` on, in this process.

```
 import torch.nn.init ──► sys.meta_path[0]: Finder ──► names.find ──► livegrad.nn.init
                                                                          │
                          sys.modules["torch.nn.init"] = the same object ◄┘
```

Modules are not copied: `torch.nn.Linear` is `livegrad.nn.Linear`, whoever asks. Only `torch` itself
is an object of its own, because its version is that of the PyTorch that is followed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

import livegrad
from livegrad.dtypes import Namespace
from livegrad.porting import names
from livegrad.porting.modules import version


class Torch(ModuleType):
    """The module `torch`: what livegrad has, and modules that are only torch's."""

    def __init__(self) -> None:
        super().__init__(names.ROOT, "livegrad, as the module torch.")
        self.__dict__.update({k: v for k, v in vars(livegrad).items() if _is_public(k, v)})
        self.__file__ = livegrad.__file__
        self.__path__: list[str] = []
        self.__version__ = version.__version__
        self.torch = self  # PyTorch imports itself, and some write `torch.torch.Tensor`

    def __getattr__(self, name: str) -> Any:
        value = _found(name)
        if value is None:
            raise AttributeError(
                f"module 'torch' has no attribute {name!r} (livegrad in its place)",
                name=name,
                obj=self,
            )
        if not isinstance(value, ModuleType):
            setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(livegrad)})


def _is_public(name: str, value: Any) -> bool:
    """Whether something of livegrad is torch's too."""
    if isinstance(value, ModuleType) and name in names.PRIVATE:  # `device` is also a class
        return False
    return not name.startswith("__") and name not in _OWN


# What livegrad is written with, and has more than torch.
_OWN = {"Any", "TYPE_CHECKING", "annotations", "math", "explain", "stats", "view", "watch"}


def _found(name: str) -> Any:
    """What `torch` has under a name that is looked up for the first time; None for nothing."""
    path = f"{names.ROOT}.{name}"
    if name.startswith("__") or path in names.MOVED:
        return names.find(path) if path in names.MOVED else None
    value = getattr(livegrad, name, None)
    if value is not None and _is_public(name, value):
        return value
    # `torch` has what `torch._C` has.
    return names.find(path) or getattr(names.find(f"{names.ROOT}._C"), name, None)


class Loader:
    """Gives out one of our modules, which is imported already, under torch's name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has run. It keeps the spec by which it was found."""
        module.__spec__ = self._spec
        if not hasattr(module, "__all__"):  # which torch's modules have
            module.__all__ = [k for k, v in vars(module).items() if _is_own(k, v)]  # type: ignore[attr-defined]

    def get_source(self, fullname: str) -> str | None:
        """The text of our module."""
        loader: Any = self._spec.loader if self._spec else None
        return loader.get_source(self._module.__name__) if loader else None

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m torch.…`."""
        loader: Any = self._spec.loader if self._spec else None
        return loader.get_code(self._module.__name__) if loader else None

    def is_package(self, fullname: str) -> bool:
        """Whether there are modules in it."""
        return hasattr(self._module, "__path__")


def _is_own(name: str, value: Any) -> bool:
    """Whether a name is there for others, and not what a module is written with."""
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    return str(getattr(value, "__module__", names.OURS)).partition(".")[0] == names.OURS


class Keeping(ModuleType):
    """A module that keeps a function when a module of the same name is imported.

    Python puts a module that it loads into the one above. `torch.nn.utils.weight_norm` is both: in
    PyTorch the function came later, and stays.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _is_function(self.__dict__.get(name)):
            return
        super().__setattr__(name, value)


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, ModuleType)


def _keep_function(name: str) -> None:
    """Sees to it that loading a module does not hide the function of its name."""
    above, _, last = name.rpartition(".")
    package = sys.modules.get(above)
    if type(package) is ModuleType and _is_function(package.__dict__.get(last)):
        package.__class__ = Keeping


class Empty:
    """Loads nothing, in the place of a module that only speaks to PyTorch's C++."""

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing."""


class TorchLoader(Loader):
    """Gives out `torch`, whose spec is its own."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has been filled."""


class Finder:
    """Finds `torch` and what is in it; leaves everything else to others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of torch is: here, or nowhere."""
        if not names.is_found_here(fullname):
            skipped = fullname in names.SKIPPED
            return _spec(fullname, Empty(), __file__, False) if skipped else None
        if fullname == names.ROOT:
            return _spec(fullname, TorchLoader(Torch()), __file__, True)
        module = names.find(fullname)
        if module is None:
            return None
        _keep_function(fullname)
        place = getattr(module, "__file__", None)
        return _spec(fullname, Loader(module), place, hasattr(module, "__path__"))

    def find_distributions(self, context: Any) -> list[Any]:
        """So that `importlib.metadata.version("torch")` is what `torch.__version__` says."""
        if context.name == names.ROOT:
            return [_distribution(names.ROOT, version.__version__)]
        if context.name == "torchvision" and not names.has_torchvision():
            return [_distribution(context.name, livegrad.vision.__version__)]
        return []


def _spec(name: str, loader: Any, place: str | None, package: bool) -> ModuleSpec:
    spec = ModuleSpec(name, loader, origin=place, is_package=package)
    spec.has_location = place is not None
    return spec


def _distribution(name: str, its_version: str) -> Any:
    """What packaging is told of torch, or of torchvision."""
    from importlib.metadata import Distribution  # which takes 10 ms

    class Installed(Distribution):
        def read_text(self, filename: str) -> str | None:
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {its_version}\n"
            return text if filename == "METADATA" else None

        def locate_file(self, path: Any) -> Any:
            raise FileNotFoundError(f"{name} is livegrad here, and has no file {path}")

    return Installed()


FINDER = Finder()


def install() -> None:
    """From now on, `torch` is livegrad in this process."""
    if FINDER in sys.meta_path:
        return
    if names.ROOT in sys.modules:
        raise RuntimeError("PyTorch itself is imported in this process already")
    sys.meta_path.insert(0, FINDER)
    Namespace.name = names.ROOT  # programs print shapes and dtypes


def is_installed() -> bool:
    """Whether `torch` is livegrad in this process."""
    return FINDER in sys.meta_path
