"""Questions about PyTorch's tensors: what they share, and where their gradients go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .undefined import is_stale


def storage(x: torch.Tensor) -> int:
    return int(x.untyped_storage()._cdata)


def is_integer(x: Any) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex)


def has_more(x: Any) -> bool:
    """Whether PyTorch has left a result in a storage that was made for more."""
    whole = x if x._base is None else x._base
    return bool(whole.untyped_storage().nbytes() > whole.numel() * whole.element_size())


def has_left_its_base(x: Any) -> bool:
    """Whether PyTorch takes for a view what was made to show another storage."""
    return isinstance(x, torch.Tensor) and x._base is not None and storage(x._base) != storage(x)


def is_left(x: Any, theirs: dict[str, Any]) -> bool:
    """Whether PyTorch takes something for a view of `x`, which shows another storage by now."""
    tensors = [y for y in theirs.values() if isinstance(y, torch.Tensor)]
    return any(y._base is x and has_left_its_base(y) for y in tensors)


def is_counted_with_left(x: Any, theirs: dict[str, Any]) -> bool:
    """Whether PyTorch counts for `x` what is written to a view that has left their base."""
    tensors = [y for y in theirs.values() if isinstance(y, torch.Tensor)]
    return any(y._base is x._base and has_left_its_base(y) for y in tensors)


def is_hidden_view(x: Any, named: Sequence[Any]) -> bool:
    """Whether PyTorch has made a tensor as a view of something that has no name."""
    return x._base is not None and not any(y is x._base for y in named)


def is_product(x: Any) -> bool:
    """Whether PyTorch has made a tensor as a view of a product of matrices."""
    if is_stale(x) or x._base is None:
        return False
    made = x._base.grad_fn
    while made is not None and "CopySlices" in made.name():  # what was written to it since
        made = made.next_functions[0][0]
    return made is not None and made.name() in ("AddmmBackward0", "MmBackward0")


def is_of_written_base(x: Any) -> bool:
    """Whether a view has gradients, which PyTorch finds out when it is asked, by its base."""
    return not is_stale(x) and x._base is not None and x.grad_fn is not None


def is_its_own_gradient(x: Any) -> bool:
    """Whether PyTorch takes the gradient of `x` for a function of `x`."""
    return any(getattr(f, "variable", None) is x for f in functions_before([x.grad]))


def comes_from_integers(x: Any) -> bool:
    """Whether PyTorch would bring a gradient from `x` to integers."""
    reached = [meta for f in functions_before([x]) for meta in f._input_metadata]
    return any(not (m.dtype.is_floating_point or m.dtype.is_complex) for m in reached)


def has_zero_gradient(x: Any) -> bool:
    """Whether PyTorch has given a tensor a gradient that only says that it is 0."""
    return isinstance(x, torch.Tensor) and x._grad is not None and x._grad._is_zerotensor()


def has_gradient_of_old_shape(x: Any) -> bool:
    """Whether the gradient that PyTorch has given a tensor has another shape."""
    return isinstance(x, torch.Tensor) and x._grad is not None and x._grad.shape != x.shape


def is_unsigned(x: torch.Tensor) -> bool:
    return x.dtype is torch.uint8


def has_large_integers(x: torch.Tensor) -> bool:
    """Whether the square of an integer is none of its dtype."""
    if not is_integer(x) or x.dtype is torch.bool:
        return False
    return any(number * number > torch.iinfo(x.dtype).max for number in x.flatten().tolist())


def has_nan(x: torch.Tensor) -> bool:
    return bool(x.detach().isnan().any())


def has_zero_and_single(x: torch.Tensor) -> bool:
    """Whether a tensor has a 0, and a dim along which there is one number alone."""
    return 1 in x.shape and bool((x.detach() == 0).any())


def is_made_by_set(x: Any) -> bool:
    """Whether PyTorch has no gradient for what a tensor was before `set_`."""
    if not isinstance(x, torch.Tensor) or is_stale(x) or x.grad_fn is None:
        return False
    return "NotImplemented" in x.grad_fn.name()


def are_equal(x: torch.Tensor, places: Sequence[int]) -> bool:
    """Whether several numbers of a tensor, at these places, are all the same one, or all NaN."""
    numbers = [str(number) for number in x.detach().flatten().tolist()]
    found = [numbers[i] for i in places if i < len(numbers)]
    return len(found) == len(places) > 1 and len(set(found)) == 1


def is_sought_elsewhere(x: Any, theirs: Mapping[str, Any]) -> bool:
    """Whether some gradients of a leaf go where PyTorch's autograd.grad does not look for them."""
    if not isinstance(x, torch.Tensor) or is_stale(x) or not (x.is_leaf and x.requires_grad):
        return False
    tensors = [y for y in theirs.values() if isinstance(y, torch.Tensor)]
    place = torch.autograd.graph.get_gradient_edge(x).node
    found = functions_before(tensors)
    return any(getattr(f, "variable", None) is x and f is not place for f in found)


def is_view_of_leaf(x: Any) -> bool:
    """Whether gradients of `x` go to a leaf that it is a view of."""
    return x._base is not None and x._base.is_leaf and x._base.requires_grad


def is_after(tensors: Sequence[Any], name: str) -> bool:
    """Whether gradients from PyTorch's `tensors` go through a function of that name."""
    return any(name in str(function) for function in functions_before(tensors))


def is_after_freed(tensors: Sequence[Any]) -> bool:
    """Whether gradients from PyTorch's `tensors` lead to a function that let go of its values."""
    return any(map(is_freed, functions_before(tensors)))


def functions_before(tensors: Sequence[Any]) -> list[Any]:
    """The functions of PyTorch's that gradients from `tensors` go through."""
    found = [x.grad_fn for x in tensors if not is_stale(x) and x.grad_fn is not None]
    for function in found:  # grows while it is walked
        found += [f for f, _ in function.next_functions if f is not None and f not in found]
    return found


def is_freed(function: Any) -> bool:
    """Whether a function has given up, in a backward, the values that it had saved."""
    for name in dir(function):
        if name.startswith("_saved_"):
            try:
                getattr(function, name)
            except RuntimeError:
                return True
    return False
