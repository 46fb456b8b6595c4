"""Pruning: parameters of which a part is held at zero by a mask.

    weight        the attribute that the module reads: weight_orig * weight_mask
    weight_orig   the parameter that is learned
    weight_mask   the buffer of ones and zeros

Masks of several prunings of one parameter are combined: each chooses among what is left.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from livegrad.autograd import no_grad
from livegrad.creation import ones_like, zeros_like
from livegrad.nn.module import Module
from livegrad.ops.making.random import rand, rand_like
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.shaping.joining import cat


class BasePruningMethod(ABC):
    """A way to choose what is pruned; also the hook that masks before every call.

    Subclasses say by `PRUNING_TYPE` what they choose among ("unstructured": elements,
    "structured": channels, "global": all parameters) and define `compute_mask`.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for the importance scores `t`, within `default_mask`."""

    def apply_mask(self, module: Any) -> Any:
        """The masked parameter."""
        name = self._tensor_name
        return getattr(module, name + "_mask") * getattr(module, name + "_orig")

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prunes a parameter of a module, on top of what is pruned already."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        before = [
            (number, hook)
            for number, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(before) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}"
            )
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                "importance_scores should have the same shape as parameter "
                f"{name} of {module}; got {scores.shape} and {original.shape}"
            )
        number, other = before[0] if before else (None, None)
        if other is not None:  # both together from now on
            method = _together(other, method, name)
            original = getattr(module, name + "_orig")
            default = getattr(module, name + "_mask").detach().clone()
        else:
            default = ones_like(original)
        with no_grad():
            mask = method.compute_mask(scores.detach(), default).to(original.dtype)
        if other is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        else:
            del module._forward_pre_hooks[number]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """`t` masked, without any module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t; got "
                f"{scores.shape} and {t.shape}"
            )
        default = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default)

    def remove(self, module: Any) -> None:
        """Makes the masked values those of the parameter, which is an ordinary one again."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original = module._parameters[name + "_orig"]
        original.data = weight.detach()
        delattr(module, name)
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        module.register_parameter(name, original)


def _together(before: BasePruningMethod, method: BasePruningMethod, name: str) -> PruningContainer:
    if isinstance(before, PruningContainer):
        before.add_pruning_method(method)
        return before
    container = PruningContainer(before)
    container.add_pruning_method(method)
    container._tensor_name = name
    return container


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            if not hasattr(self, "_tensor_name"):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Adds a pruning of the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of the last pruning, which chooses among what the others have left."""
        method = self._pruning_methods[-1]
        mask = default_mask.clone().to(t.dtype)
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            chosen: Any = mask == 1
        elif kind == "structured":
            dim = method.dim % t.ndim
            rest = tuple([d for d in range(t.ndim) if d != dim])
            kept = (mask.sum(rest) if rest else mask) != 0
            chosen = tuple([slice(None)] * dim + [kept])
        elif kind == "global":
            chosen = tuple([slice(None)] * t.ndim)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        mask[chosen] = method.compute_mask(t[chosen], mask[chosen]).to(mask.dtype)
        return mask


# ----------------------------------------------------------------------------------------- ways


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """`default_mask`."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: `amount` of them, or that share."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """0 at random places."""
        return _without_least(rand_like(t), default_mask, _count(self.amount, t.numel()))


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of least magnitude: `amount` of them, or that share."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """0 where the magnitude is least."""
        return _without_least(t.abs(), default_mask, _count(self.amount, t.numel()))

    @classmethod
    def apply(cls, module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:  # type: ignore[override]
        """Prunes a parameter of a module."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes channels along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """0 in random channels."""
        channels = _channels(t, self.dim)
        count = _count(self.amount, channels)
        return _without_channels(rand(channels), t, default_mask, count, self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` of least n-norm."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """0 in the channels of least norm."""
        count = _count(self.amount, _channels(t, self.dim))
        dim = self.dim % t.ndim
        rest = tuple([d for d in range(t.ndim) if d != dim])
        return _without_channels(norm(t, self.n, rest), t, default_mask, count, self.dim)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Any,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Any = None,
    ) -> Any:
        """Prunes a parameter of a module."""
        options = {"amount": amount, "n": n, "dim": dim}
        return super().apply(module, name, importance_scores=importance_scores, **options)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The given mask within the default one."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                "shape of default_mask must match shape of mask; got "
                f"{default_mask.shape} and {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _count(amount: Any, size: int) -> int:
    """How many of `size` are pruned."""
    if not isinstance(amount, int):
        return round(float(amount) * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount


def _channels(t: Any, dim: int) -> int:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return int(t.shape[dim])


def _without_least(scores: Any, mask: Any, count: int) -> Any:
    """`mask` with 0 at the `count` least scores."""
    if not count:
        return mask.clone()
    least = scores.flatten().topk(count, largest=False).indices
    return mask.flatten().index_fill(0, least, 0).reshape(mask.shape)


def _without_channels(scores: Any, t: Any, mask: Any, count: int, dim: int) -> Any:
    """`mask` with 0 in all channels along `dim` but those of the greatest scores."""
    if not count:
        return mask
    keep = scores.topk(scores.numel() - count).indices
    return mask * zeros_like(t).index_fill(dim, keep, 1)


# ------------------------------------------------------------------------------------ functions


def identity(module: Any, name: str) -> Module:
    """Gives a parameter a mask of ones."""
    Identity.apply(module, name)
    return module  # type: ignore[no-any-return]


def random_unstructured(module: Any, name: str, amount: float) -> Module:
    """Prunes `amount` elements of a parameter (or that share of them) at random."""
    RandomUnstructured.apply(module, name, amount)
    return module  # type: ignore[no-any-return]


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Module:
    """Prunes `amount` elements of a parameter (or that share) of least magnitude."""
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module  # type: ignore[no-any-return]


def random_structured(module: Any, name: str, amount: float, dim: int) -> Module:
    """Prunes `amount` channels along `dim` (or that share) at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module  # type: ignore[no-any-return]


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Module:
    """Prunes `amount` channels along `dim` (or that share) of least n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module  # type: ignore[no-any-return]


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prunes several parameters, (module, name) each, as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    given: Any = importance_scores if importance_scores is not None else {}
    if not isinstance(given, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[tuple[Any, str]] = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    scores = [given.get(pair, x) for pair, x in zip(pairs, tensors, strict=True)]
    masks: list[Any] = [
        getattr(module, name + "_mask", ones_like(x))
        for (module, name), x in zip(pairs, tensors, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    with no_grad():
        flat = cat([x.detach().flatten() for x in scores])
        final = container.compute_mask(flat, cat([m.flatten() for m in masks]))
    start = 0
    for (module, name), x in zip(pairs, tensors, strict=True):
        part = final[start : start + x.numel()].reshape(x.shape)
        custom_from_mask(module, name, part)
        start += x.numel()


def custom_from_mask(module: Any, name: str, mask: Any) -> Module:
    """Prunes a parameter where `mask` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module  # type: ignore[no-any-return]


def remove(module: Any, name: str) -> Module:
    """Makes pruning permanent: the parameter has the masked values, and no mask."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module  # type: ignore[no-any-return]
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module, or below it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for below in module.modules()
        for hook in below._forward_pre_hooks.values()
    )
