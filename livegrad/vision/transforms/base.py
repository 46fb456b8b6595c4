"""What all transforms share: samples are images, or whatever holds images, masks and boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livegrad import Tensor, nn
from livegrad.vision import tv_tensors as tv
from livegrad.vision.pictures import is_pil
from livegrad.vision.transforms import draws


def leaves(sample: Any) -> list[Any]:
    """What is in lists, tuples and dicts, in order."""
    if isinstance(sample, Mapping):
        return [x for value in sample.values() for x in leaves(value)]
    if isinstance(sample, list | tuple):
        return [x for value in sample for x in leaves(value)]
    return [sample]


def rebuilt(sample: Any, values: Any) -> Any:
    """The same lists, tuples and dicts, around other values."""
    if isinstance(sample, Mapping):
        found = {key: rebuilt(value, values) for key, value in sample.items()}
        return found if type(sample) is dict else type(sample)(found)  # type: ignore[call-arg]
    if isinstance(sample, list | tuple):
        parts = [rebuilt(value, values) for value in sample]
        if hasattr(sample, "_fields"):
            return type(sample)(*parts)
        return type(sample)(parts)
    return next(values)


def is_plain(value: Any) -> bool:
    """Whether this is a tensor that does not say what it is."""
    return isinstance(value, Tensor) and not isinstance(value, tv.TVTensor)


def transformable(flat: list[Any]) -> list[bool]:
    """Which leaves are transformed: the first plain tensor only if nothing says it is an image."""
    has_image = any(isinstance(x, tv.Image | tv.Video) or is_pil(x) for x in flat)
    found = []
    for value in flat:
        if is_plain(value):
            found.append(not has_image)
            has_image = True
        else:
            found.append(isinstance(value, tv.TVTensor) or is_pil(value))
    return found


class Transform(nn.Module):
    """Draws its parameters once per sample, and transforms everything in it alike.

    A class of your own says `transform(inpt, params)`, and `make_params(flat_inputs)` if needed.
    """

    shown: tuple[str, ...] = ()
    between = ", "

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raises an error for samples that cannot be transformed."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """What is drawn, or found out from the inputs."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """One input, transformed."""
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        """Images, or samples: any nesting of tuples, lists and dicts."""
        sample = inputs[0] if len(inputs) == 1 else inputs
        if not isinstance(sample, list | tuple | Mapping):  # the usual case
            self.check_inputs([sample])
            if self._applies([sample]):
                return self.transform(sample, self.make_params([sample]))
            return sample
        flat = leaves(sample)
        self.check_inputs(flat)
        if not self._applies(flat):
            return sample
        chosen = transformable(flat)
        images = [x for x, is_chosen in zip(flat, chosen, strict=True) if is_chosen]
        params = self.make_params(images)
        pairs = zip(flat, chosen, strict=True)
        found = [self.transform(x, params) if is_chosen else x for x, is_chosen in pairs]
        return rebuilt(sample, iter(found))

    def _applies(self, flat: list[Any]) -> bool:
        return True

    def __repr__(self) -> str:
        values = self.between.join(f"{name}={_text(getattr(self, name))}" for name in self.shown)
        return f"{type(self).__name__}({values})"


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


class RandomTransform(Transform):
    """A transform that happens with probability `p`."""

    shown: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def _applies(self, flat: list[Any]) -> bool:
        return draws.chance(self.p)
