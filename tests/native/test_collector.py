"""Python's garbage collector while things are made that stay."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from livegrad.native.collector import grow_old, lasting


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """The tests freeze what they import."""
    gc.unfreeze()
    yield
    gc.freeze()


class Ring:
    """An object that refers to itself: only the collector can free it."""

    def __init__(self) -> None:
        self.me = self


def generation(x: object) -> int:
    return next(n for n in range(3) if any(y is x for y in gc.get_objects(generation=n)))


def test_what_is_made_within_counts_as_old() -> None:
    assert gc.isenabled()
    with lasting():
        assert not gc.isenabled()
        made = [Ring()]
    assert gc.isenabled()
    assert generation(made) == 2


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with lasting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_is_on_again_after_an_error() -> None:
    with pytest.raises(KeyError), lasting():
        raise KeyError
    assert gc.isenabled()


def test_garbage_that_grew_old_is_collected() -> None:
    ring = Ring()
    seen = weakref.ref(ring)
    del ring
    grow_old()
    gc.collect()
    assert seen() is None


def test_what_the_program_froze_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    grow_old()
    assert gc.get_freeze_count() == frozen > 0
