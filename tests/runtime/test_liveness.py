"""One rule of what is alive and what may be overwritten, for Python and for the follower."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pytest

import livegrad as lg
from livegrad.graph.handle import leaf_node
from livegrad.graph.node import Interior, LeafRef
from livegrad.native import layout
from livegrad.native.words import compile_words
from livegrad.runtime.cpu import follow, jit
from livegrad.runtime.liveness import is_claim, is_kept, may_overwrite
from livegrad.runtime.memory import Buffer, allocate

RULES: list[Any] = [is_kept, is_claim, may_overwrite]


def native(function: Any) -> Any:
    """The function as the follower calls it, of ints and the addresses of objects."""
    address = compile_words(RULES, jit.compile_kernel)[function]
    words = [ctypes.c_int64] * (1 + function.__code__.co_argcount)
    called = ctypes.PYFUNCTYPE(*words)(address)
    return lambda *given: called(*[x if type(x) is int else id(x) for x in given])


pytestmark = pytest.mark.skipif(not layout.is_known(), reason="an interpreter we do not know")


def nodes() -> list[Any]:
    node, other = lg.ones(2)._node, lg.ones(2)._node
    return [node, other]


def test_what_is_kept() -> None:
    node, other = nodes()
    for others, stands_for in itertools.product((-1, 0, 1, 7), (node, other, None)):
        assert native(is_kept)(others, stands_for, node) == is_kept(others, stands_for, node)
    assert is_kept(1, node, node)


def test_what_is_claimed() -> None:
    tensor = lg.ones(2)
    for to in (None, True, LeafRef(tensor), Interior()):
        for spent in (False, True):
            node = leaf_node(tensor._node.meta, None)
            node.grad_to, node.spent = to, spent
            assert native(is_claim)(node) == is_claim(node)
            assert is_claim(node) == (not spent and (to is True or isinstance(to, Interior)))


def test_what_may_be_overwritten() -> None:
    own, mapped = allocate(64), Buffer(0, 64, None)
    for buffer in (own, mapped):
        for others, of_buffer in itertools.product((-1, 0, 1), (-1, 0, 1)):
            found = may_overwrite(others, buffer, of_buffer)
            assert native(may_overwrite)(others, buffer, of_buffer) == found
            assert found == (buffer is own and others <= 0 and of_buffer <= 0)


def test_the_follower_asks_the_same_functions() -> None:
    assert set(RULES) <= set(follow.FUNCTIONS)
