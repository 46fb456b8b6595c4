"""Where in the program something was recorded: file, line and function."""

from __future__ import annotations

from typing import NamedTuple

from livegrad.graph.node import Site, site_location


class Place(NamedTuple):
    """A place in a program, as people say it."""

    file: str
    line: int
    function: str


NOWHERE = Place("", 0, "")

# By the code's address, which stays the code's as long as it is kept here beside the place.
_KNOWN: dict[tuple[int, int], tuple[object, Place]] = {}
_MOST_KNOWN = 1 << 16


def place_of(site: Site | None) -> Place:
    """The place that a site stands for."""
    if site is None:
        return NOWHERE
    key = id(site[0]), site[1]
    known = _KNOWN.get(key)
    if known is None:
        file, line = site_location(site)
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.clear()
        known = _KNOWN[key] = site[0], Place(file, line, site[0].co_qualname)
    return known[1]
