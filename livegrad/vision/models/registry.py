"""Models by name, and where their weights come from.

resnet18 = model("resnet18", ResNet, BasicBlock, [2, 2, 2, 2])     makes a builder
resnet18(weights="file.pth", num_classes=10)                       what programs call

`weights` is a path, a state dict, or a name of torchvision's (`ResNet18_Weights.DEFAULT`). Nothing
is downloaded: a name means the file that is in PyTorch's directory of checkpoints already.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from livegrad import hub, nn, serialization
from livegrad.vision.transforms.presets import preset_of

Builder = Callable[..., Any]
BUILTIN_MODELS: dict[str, Builder] = {}


class Weights:
    """One set of weights of torchvision's for a model, such as `ResNet18_Weights.IMAGENET1K_V1`."""

    def __init__(self, model: str, name: str) -> None:
        self.model, self.name = model, name

    def __repr__(self) -> str:
        return f"{WeightsEnum(self.model).title}.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    def transforms(self) -> Callable[..., Any]:
        """Makes the transform that images need before this model."""
        return preset_of(self.model)

    def path(self) -> Path:
        """The file, where PyTorch's programs put it."""
        directory = Path(hub.get_dir()) / "checkpoints"
        found = sorted(directory.glob(f"{self.model}-*.pth")) + sorted(
            directory.glob(f"{self.model}.*")
        )
        if found:
            return found[-1]
        raise FileNotFoundError(
            f"{self!r} is not in {directory}, and livegrad downloads no weights. Put torchvision's "
            f"file {self.model}-….pth there, or pass weights='path/to/file' or a state dict"
        )

    def get_state_dict(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """The weights, from the file."""
        return _read(self.path())


class WeightsEnum:
    """What torchvision calls `ResNet18_Weights`: each upper-case name of it is a `Weights`."""

    def __init__(self, model: str) -> None:
        self.model = model

    @property
    def title(self) -> str:
        """The name in torchvision's style, as far as it follows from the model's."""
        return f"{self.model}_Weights"

    def __getattr__(self, name: str) -> Weights:
        if not name.isupper():
            raise AttributeError(f"{self.title} has no weights {name!r}")
        return Weights(self.model, name)

    def __getitem__(self, name: str) -> Weights:
        return Weights(self.model, name)

    def __repr__(self) -> str:
        return self.title


def weights_named(name: str) -> WeightsEnum | None:
    """What torchvision means by `ResNet18_Weights`; None if there is no such model."""
    if not name.endswith("_Weights"):
        return None
    wanted = name.removesuffix("_Weights").replace("_", "").lower()
    found = [known for known in BUILTIN_MODELS if known.replace("_", "") == wanted]
    return WeightsEnum(found[0]) if found else None


def model(
    name: str, build: Builder, *args: Any, tell_trained: bool = False, **fixed: Any
) -> Builder:
    """A builder called `name`: `build(*args, **fixed)` with what is given, then its weights.

    With `tell_trained` it is told as `trained` whether there are any.
    """

    def builder(
        weights: Any = None, progress: bool = True, *, pretrained: bool = False, **kwargs: Any
    ) -> Any:
        weights = pretrained or None if weights is None else weights
        if tell_trained:
            kwargs["trained"] = weights is not None
        return load_weights(build(*args, **{**fixed, **kwargs}), weights, name)

    builder.__name__ = builder.__qualname__ = name
    builder.__module__ = build.__module__
    builder.__doc__ = f"{build.__name__}, as `{name}`. {build.__doc__ or ''}".strip()
    BUILTIN_MODELS[name] = builder
    return builder


def load_weights(made: nn.Module, weights: Any, name: str) -> Any:
    """The model with weights from a path, a state dict, or one of torchvision's names."""
    if weights is None:
        return made
    if weights is True or _is_a_name(weights):
        weights = Weights(name, "DEFAULT" if weights is True else str(weights).split(".")[-1])
    if isinstance(weights, Weights):
        weights = weights.get_state_dict()
    if not isinstance(weights, Mapping):
        weights = _read(Path(weights))
    adapt = getattr(made, "adapt_state_dict", None)
    made.load_state_dict(adapt(weights) if adapt else weights)
    return made


def _is_a_name(weights: Any) -> bool:
    """Whether a string is "DEFAULT" or "ResNet18_Weights.IMAGENET1K_V1", and no path."""
    if not isinstance(weights, str) or os.path.exists(weights):
        return False
    return weights.split(".")[-1].isupper() and "/" not in weights


def _read(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r} with weights")
    found = serialization.load(path)
    return found.get("state_dict", found) if isinstance(found, Mapping) else found


# ---------------------------------------------------------------------- what programs ask by name


def list_models(
    module: ModuleType | None = None,
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] | None = None,
) -> list[str]:
    """The names of all models, of those of a module, of those that fit patterns ("vit*")."""
    names = set(BUILTIN_MODELS)
    if module is not None:
        inside = set(map(id, vars(module).values()))
        names = {name for name in names if id(BUILTIN_MODELS[name]) in inside}
    if include:
        names = {x for pattern in _patterns(include) for x in fnmatch.filter(names, pattern)}
    for pattern in _patterns(exclude or ()):
        names -= set(fnmatch.filter(names, pattern))
    return sorted(names)


def _patterns(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def get_model_builder(name: str) -> Builder:
    """The function that makes a model."""
    try:
        return BUILTIN_MODELS[name.lower()]
    except KeyError:
        raise ValueError(f"Unknown model {name}") from None


def get_model(name: str, **config: Any) -> Any:
    """The model of that name."""
    return get_model_builder(name)(**config)


def get_model_weights(name: str | Builder) -> WeightsEnum:
    """The weights that a model can have."""
    found = name if isinstance(name, str) else name.__name__
    get_model_builder(found)
    return WeightsEnum(found.lower())


def get_weight(name: str) -> Weights:
    """The weights called "ResNet18_Weights.DEFAULT"."""
    enum, _, entry = name.partition(".")
    found = weights_named(enum)
    if found is None or not entry:
        raise ValueError(f"Invalid weight name provided: {name!r}")
    return found[entry]
