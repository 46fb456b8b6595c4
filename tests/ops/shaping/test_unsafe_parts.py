"""`unsafe_chunk` and its like: parts that share memory, and that may be written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

PARTS: dict[str, Callable[[Any], Any]] = {
    "unsafe_chunk": lambda x: x.unsafe_chunk(2),
    "unsafe_split": lambda x: x.unsafe_split(3),
    "unsafe_split_with_sizes": lambda x: x.unsafe_split_with_sizes([3, 3]),
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=list(PARTS))
def test_parts_share_memory(parts: Callable[[Any], Any]) -> None:
    x = lg.arange(6.0)
    first, last = parts(x)
    first.add_(10)
    last.zero_()
    assert x.tolist() == [10.0, 11.0, 12.0, 0.0, 0.0, 0.0]
    assert last.storage_offset() == 3


@pytest.mark.parametrize("parts", PARTS.values(), ids=list(PARTS))
def test_parts_with_a_history_may_be_written_to(parts: Callable[[Any], Any]) -> None:
    x = lg.arange(6.0, requires_grad=True)
    first, last = parts(x * 1)
    first.mul_(2)
    (first.sum() + last.sum()).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0, 1.0, 1.0, 1.0]


def test_a_diagonal_of_one_element_lies_as_others_do() -> None:
    assert lg.diag(lg.ones(3, 5), -2).stride() == (1,)
