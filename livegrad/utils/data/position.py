"""Where a loader is: what its epoch started from, and what it has delivered since.

An epoch is a function of the generators' states when it starts. So its position is these states
and a count, and resuming means starting the same epoch again and leaving out what was delivered.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from livegrad.creation import tensor
from livegrad.random import Generator, default_generator

VERSION = 1
State = dict[str, Any]

# Samplers of these types draw nothing.
_PLAIN = (list, tuple, range, np.ndarray)


def _samplers(loader: Any) -> list[Any]:
    """The loader's samplers: of batches, of samples, and the one that batches are made of."""
    batches = loader.batch_sampler
    return [batches, loader.sampler, getattr(batches, "sampler", None)]


def _own_generators(loader: Any) -> list[Generator]:
    """Generators of the loader and its samplers, each once; the default one is the program's."""
    found: list[Generator] = []
    for holder in [loader, *_samplers(loader)]:
        generator = getattr(holder, "generator", None)
        known = [default_generator, *found]
        if isinstance(generator, Generator) and not any(generator is x for x in known):
            found.append(generator)
    return found


def _stateful(loader: Any) -> list[Any]:
    """Samplers that can save and load a state themselves, each once."""
    found: list[Any] = []
    for sampler in _samplers(loader):
        if hasattr(sampler, "load_state_dict") and not any(sampler is x for x in found):
            found.append(sampler)
    return found


def _draws_elsewhere(loader: Any) -> bool:
    """Whether code that is not ours may draw from generators of Python or NumPy in this process."""
    if loader._streaming and loader.num_workers == 0:
        return True
    return any(
        sampler is not None
        and not isinstance(sampler, _PLAIN)
        and not type(sampler).__module__.startswith("livegrad.")
        for sampler in _samplers(loader)
    )


# ------------------------------------------------------------------------------------- snapshots


def _numbers(generator: Generator) -> list[int]:
    numbers: list[int] = generator.get_state().tolist()
    return numbers


def _set_numbers(generator: Generator, numbers: list[int]) -> None:
    generator.set_state(tensor(numbers, device="cpu"))


def _globals(elsewhere: bool) -> State:
    """States of the program's generators, as lists of numbers."""
    state: State = {"livegrad": _numbers(default_generator)}
    if elsewhere:
        version, words, gauss = random.getstate()
        state["python"] = [version, list(words), gauss]
        name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
        state["numpy"] = [name, np.asarray(keys).tolist(), *rest]
    return state


def _set_globals(state: State) -> None:
    _set_numbers(default_generator, state["livegrad"])
    if "python" in state:
        version, words, gauss = state["python"]
        random.setstate((version, tuple(words), gauss))
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, np.array(keys, np.uint32), *rest))  # noqa: NPY002


def snapshot(loader: Any) -> State:
    """All that the next epoch of a loader depends on."""
    return {
        "globals": _globals(_draws_elsewhere(loader)),
        "generators": [_numbers(generator) for generator in _own_generators(loader)],
        "samplers": [sampler.state_dict() for sampler in _stateful(loader)],
    }


def restore_own(loader: Any, start: State) -> None:
    """Puts the loader's own generators and samplers back to a snapshot."""
    generators = _own_generators(loader)
    if len(generators) != len(start["generators"]):
        raise ValueError(
            f"load_state_dict: the state has {len(start['generators'])} generators; this loader "
            f"and its samplers have {len(generators)}"
        )
    for generator, numbers in zip(generators, start["generators"], strict=True):
        _set_numbers(generator, numbers)
    for sampler, state in zip(_stateful(loader), start["samplers"], strict=False):
        sampler.load_state_dict(state)


@contextmanager
def program_as_of(start: State) -> Iterator[None]:
    """Within it, the program's generators are as in a snapshot; afterwards as before."""
    before = _globals("python" in start["globals"])
    _set_globals(start["globals"])
    try:
        yield
    finally:
        _set_globals(before)


# ---------------------------------------------------------------------------------------- epochs


class Epoch:
    """One pass over the data.

    `start` is the snapshot it began from. `delivered` counts batches that the program has got; in
    `beyond` are numbers of such batches that came before earlier ones (`in_order=False`). `counts`
    are the batches of each worker's stream, and `turn` is whose batch comes next.
    """

    def __init__(self, start: State, workers: int) -> None:
        self.start = start
        self.delivered = 0
        self.beyond: set[int] = set()
        self.counts = [0] * workers
        self.turn = 0
        self.finished = False

    def has_delivered(self, number: int) -> bool:
        """Whether the program has got batch `number`."""
        return number < self.delivered or number in self.beyond

    def deliver(self, number: int) -> None:
        """Batch `number` goes to the program."""
        self.beyond.add(number)
        while self.delivered in self.beyond:
            self.beyond.remove(self.delivered)
            self.delivered += 1

    def deliver_of(self, worker: int) -> None:
        """The next batch of a worker's stream goes to the program."""
        self.delivered += 1
        self.counts[worker] += 1
        self.turn = (worker + 1) % len(self.counts)

    def state(self, loader: Any) -> State:
        """The position as numbers, strings, lists and dicts."""
        return {
            "version": VERSION,
            "running": True,
            "batch_size": loader.batch_size,
            "num_workers": loader.num_workers,
            "delivered": self.delivered,
            "beyond": sorted(self.beyond),
            "counts": list(self.counts),
            "turn": self.turn,
            "start": self.start,
        }

    @staticmethod
    def resumed(state: State, loader: Any) -> Epoch:
        """The epoch that `state` is a position in."""
        epoch = Epoch(state["start"], loader.num_workers)
        epoch.delivered = state["delivered"]
        epoch.beyond = set(state["beyond"])
        if loader._streaming:
            epoch.counts = list(state["counts"])
            epoch.turn = state["turn"]
        return epoch


def idle_state(loader: Any) -> State:
    """The state between epochs: only what the next one will depend on."""
    return {
        "version": VERSION,
        "running": False,
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "start": snapshot(loader),
    }


def check_state(state: State, loader: Any) -> None:
    """Raises ValueError if a state cannot be a position of this loader."""
    if state.get("version") != VERSION:
        raise ValueError(
            f"load_state_dict: got version {state.get('version')!r}; expected {VERSION}, a state "
            "that DataLoader.state_dict gave"
        )
    fixed = ["batch_size", "num_workers"] if loader._streaming else ["batch_size"]
    for name in fixed if state["running"] else []:
        if state[name] != getattr(loader, name):
            raise ValueError(
                f"load_state_dict: the state is of a loader with {name}={state[name]}; "
                f"this one has {name}={getattr(loader, name)}, so its batches are not the same"
            )
