"""What the models share: configurations, weights in folders, outputs, caches, masks."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from livegrad import Tensor, arange
from livegrad.nn import Embedding, Linear, Module, functional as F, init
from livegrad.serialization import load, save_file
from livegrad.serialization.files import writing
from livegrad.text.generation.cache import Cache


@dataclass
class Config:
    """Sizes of a model, under Hugging Face's names."""

    model_type: ClassVar[str] = ""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """From the content of a config.json; names that the model does not have are left out."""
        names = {x.name for x in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})

    @classmethod
    def from_file(cls, path: Any) -> Self:
        """From a config.json."""
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        kind = values.get("model_type", cls.model_type)
        if kind != cls.model_type:
            raise ValueError(f"{path} is of a model of the type {kind!r}, not {cls.model_type!r}")
        return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """As a config.json has it."""
        return {"model_type": self.model_type, **dataclasses.asdict(self)}


@dataclass
class Output:
    """What a model gives; what it does not have is None."""

    logits: Any = None
    loss: Any = None
    last_hidden_state: Any = None
    pooler_output: Any = None
    past_key_values: Cache | None = None
    encoder_last_hidden_state: Any = None


class Pretrained(Module):
    """A model with a configuration, whose weights come from a folder and go to one."""

    config_class: ClassVar[type[Config]]
    base_prefix: ClassVar[str] = ""  # of the names, in a model with a head, of what it is put on
    tied: tuple[str, ...] = ()  # names of weights that are others' as well

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config: Any = config

    @classmethod
    def from_pretrained(cls, folder: Any) -> Self:
        """The model of a folder with config.json and model.safetensors, or files of PyTorch.

        Weights may be those of the model without its head, or of a model with another head: what
        is not there is drawn, with a warning that says what it is.
        """
        model = cls(cls.config_class.from_file(Path(folder) / "config.json"))
        missing = model.load_weights(load(str(folder)))
        if missing:
            import warnings

            warnings.warn(f"{folder} has no {', '.join(missing)}: drawn anew", stacklevel=2)
        return model.eval()

    def load_weights(self, weights: dict[str, Any]) -> list[str]:
        """Takes weights by name; the names of the model's own that are not among them."""
        own, prefix = self.state_dict(), f"{self.base_prefix}."
        found = {}
        for name, value in weights.items():
            name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            name = name.replace("LayerNorm.beta", "LayerNorm.bias")
            for known in (name, prefix + name, name.removeprefix(prefix)):
                if known in own:
                    found[known] = value
                    break
        self.load_state_dict(found, strict=False)
        return [name for name in own if name not in found and name not in self.tied]

    def save_pretrained(self, folder: Any) -> None:
        """Writes config.json and model.safetensors."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        values = self.config.to_dict() | {"architectures": [type(self).__name__]}
        with writing(Path(folder) / "config.json") as file:
            file.write(json.dumps(values, indent=2).encode())
        weights = {name: x for name, x in self.state_dict().items() if name not in self.tied}
        save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})

    def draw_weights(self, std: float) -> None:
        """Normal weights of this deviation; biases are 0."""
        for module in self.modules():
            if isinstance(module, Linear | Embedding):
                init.normal_(module.weight, std=std)
            if isinstance(module, Linear) and module.bias is not None:
                init.zeros_(module.bias)


def heads(x: Tensor, count: int) -> Tensor:
    """(batch, positions, count × size) as (batch, count, positions, size)."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """The reverse of `heads`."""
    return x.transpose(1, 2).flatten(2)


def allowed_pairs(
    padding: Tensor | None, queries: int, keys: int, causal: bool, device: Any
) -> Tensor | None:
    """Which of `keys` positions the last `queries` of them may look at; None if all.

    `padding` (batch, keys) is 0 where there is no token. A position may always look at itself: of
    padding nobody reads what comes out, but it must not be NaN.
    """
    at = arange(keys - queries, keys, device=device).unsqueeze(1)
    to = arange(keys, device=device)
    allowed = at >= to if causal and queries > 1 else None  # (queries, keys)
    if padding is None:
        return allowed
    real = padding.bool()[:, None, None, :] | (at == to)
    return real if allowed is None else real & allowed


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    allowed: Tensor | None,
    dropout: float,
    scale: float | None = None,
) -> Tensor:
    """Attention of heads, of which those of keys may be fewer; (batch, positions, width)."""
    few = k.size(1) != q.size(1)
    return joined(
        F.scaled_dot_product_attention(q, k, v, allowed, dropout, scale=scale, enable_gqa=few)
    )
