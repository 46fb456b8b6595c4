"""Lines after which PyTorch's own values hang on an order, or on memory, that it does not promise.

They are told by PyTorch's tensors: what a program writes with indices, or as `out`, to a tensor
several elements of which lie in one place, what it reads through one storage while it writes the
same memory through another, and gradients that PyTorch has given the same memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Any

import torch

OVERLAPPING = "places of one memory are written twice: which write comes last is not promised"
TWO_STORAGES = "what is read is being written, through another storage: PyTorch cannot see it"
ONE_GRADIENT = "two gradients lie in the same memory in PyTorch, and each grows with the other"
GONE = "a graph that is gone is refused at once; PyTorch runs hooks on the way to where it is gone"
SIBLINGS = (
    "hooks of one of several outputs run, in PyTorch, where a gradient of another is asked for"
)

ZERO_BELOW = "a number over complex 0 is infinite; PyTorch multiplies it by 1 / 0, which is NaN"

NUMBER_OVER = re.compile(r"= [^=]*[\dj]\)? / (\w+)")
IN_PLACE = re.compile(r"\w_\(")
IN_NO_ORDER = re.compile(
    r"\](\[[^=]*)? *[-+*/]?= |(index_(put|copy|add|reduce)|scatter|masked_scatter|put)\w*_\(|"
    r"\bout=\w"
)


def notes(
    line: str, named: Iterable[Any], refusal: Exception | None, known: Iterable[Any] = ()
) -> set[str]:
    """What is not promised after a line that named these of the `known` tensors.

    `refusal` is what both raised, in the words of livegrad.
    """
    tensors = list(named)
    found = set()
    if "autograd.grad(" in line and any(have_siblings(tensors, known)):
        found.add(SIBLINGS)
    if refusal is not None:
        return found | ({GONE} if "the graph was spent by backward" in str(refusal) else set())
    if NUMBER_OVER.search(line) and any(x.is_complex() and (x == 0).any() for x in tensors):
        found.add(ZERO_BELOW)
    in_no_order = IN_NO_ORDER.search(line) is not None
    if in_no_order and any(overlaps_itself(x) for x in tensors):
        found.add(OVERLAPPING)
    if (in_no_order or IN_PLACE.search(line)) and any(
        share_unseen(x, y) for x, y in combinations(tensors, 2)
    ):
        found.add(TWO_STORAGES)
    return found


def overlaps_itself(x: Any) -> bool:
    """Whether several elements lie in one place."""
    places = places_of(x)
    return places.numel() > places.unique().numel()


def places_of(x: Any) -> torch.Tensor:
    """Where each element lies, counted from the first."""
    places = torch.zeros((), dtype=torch.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * step
    return places


def have_siblings(tensors: Iterable[Any], known: Iterable[Any]) -> Iterator[bool]:
    """For each pair of tensors: whether one function of PyTorch's returned both."""
    for x, y in product(tensors, known):
        if x is not y and not is_stale(x) and not is_stale(y):
            yield x.grad_fn is not None and x.grad_fn is y.grad_fn


def is_stale(x: Any) -> bool:
    """Whether PyTorch has given up the history of a view, one of several."""
    try:
        x.is_leaf
    except RuntimeError:
        return True
    return False


def share_unseen(x: Any, y: Any) -> bool:
    """Whether two tensors lie in the same memory, but not in the same storage."""
    if x.untyped_storage()._cdata == y.untyped_storage()._cdata:
        return False
    (a, b), (c, d) = stretch(x), stretch(y)
    return a < d and c < b


def stretch(x: Any) -> tuple[int, int]:
    storage = x.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def share_gradients(tensors: Iterable[Any]) -> bool:
    """Whether two tensors have been given one memory for their gradients."""
    grads = {id(x._grad): x._grad for x in tensors if x._grad is not None}
    known = [g.untyped_storage().data_ptr() for g in grads.values() if g.numel()]
    return len(known) > len(set(known))
