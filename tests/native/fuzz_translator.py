"""Random functions, in the subset and a little outside, by the translator and by Python.

    python tests/native/fuzz_translator.py --programs 2000 --seed 7

A function either is refused, or does what Python does with it: the same result or error, the same
calls in the same order, the same arguments afterwards, and no reference too many or too few.
"""

from __future__ import annotations

import argparse
import copy
import gc
import linecache
import random
import sys
from types import FunctionType
from typing import Any

from random_functions import (
    BIG,
    GLOBALS,
    HUGE,
    Box,
    Marker,
    Odd,
    OutOfFuel,
    Plain,
    World,
    Writer,
    visible,
)

from livegrad.native.install import translate
from livegrad.native.subset import Untranslatable
from livegrad.native.translate import translate_unit
from livegrad.runtime.cpu import jit

# -------------------------------------------------------------------------------- comparisons


def arguments(rng: random.Random, marker: Marker) -> tuple[Any, ...]:
    """Arguments of a function."""
    sequences: list[Any] = [
        [], [1, 2, 3], (4, 5), "text", {1: 2, 3: 4}, [marker, None, [marker]], {7}, range(3),
        [BIG, HUGE, -1], 5, None, [(1, 2), (marker, 4)], Odd(), Plain(marker), [0, "s", 2.5],
    ]  # fmt: skip
    anything = [0, 1, 2, -1, 3, BIG, HUGE, 2.5, None, "b", [marker], marker, Odd(), True, (1, 2)]
    boxes = [Box(1, [marker]), Box(marker, 2), Box(BIG, None), Plain([1]), Box([1, 2], (3, marker))]
    a, b, p = rng.choice(sequences), rng.choice(anything), rng.choice(boxes)
    return copy.deepcopy((a, b, p))


def outcome(function: Any, given: tuple[Any, ...]) -> Any:
    """What a call does, as far as it can be seen."""
    World.log, World.fuel = [], 8
    try:
        result = visible(function(*given))
    except (Exception, OutOfFuel) as error:
        result = visible(error)
    return result, World.log, visible(given)


class Mismatch(AssertionError):
    """The translation does something else."""


def check_same(source: str, function: FunctionType, native: Any, rng: random.Random) -> None:
    """Runs both on the same arguments."""
    for _ in range(8):
        given = arguments(rng, Marker())
        shown = visible(given)
        wanted = outcome(function, copy.deepcopy(given))
        found = outcome(native, given)
        if found != wanted:
            raise Mismatch(f"{source}\n{shown}\nwanted {wanted}\nfound  {found}")


def check_references(source: str, native: Any, rng: random.Random) -> None:
    """Runs the translation often: what it took, it gives back."""
    marker, runs = Marker(), 40
    given = arguments(rng, marker)
    constants = [None, True, False, (), 0, 1, GLOBALS["PAIR"]]

    def run() -> None:
        outcome(native, copy.deepcopy(given))
        World.log = []

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(x) for x in constants] + [sys.getallocatedblocks()]

    for _ in range(20):  # others come and go meanwhile, but not for ever
        run()
        before, mine = counts(), sys.getrefcount(marker)
        for _ in range(runs):
            run()
        drift = [b - a for a, b in zip(before, counts(), strict=True)]
        mine = sys.getrefcount(marker) - mine
        if not mine and max(map(abs, drift)) < runs // 2:
            return
    raise Mismatch(f"{source}\n{visible(given)}\nreferences drift by {drift}, {mine}")


def load(sources: list[str], name: str) -> list[FunctionType]:
    """The functions of source text, which `inspect` finds."""
    text = "\n\n".join(sources) + "\n"
    filename = f"<fuzz {name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    names: dict[str, Any] = dict(GLOBALS)
    names["__name__"] = __name__
    exec(compile(text, filename, "exec"), names)
    return [names[f"f{i}"] for i in range(len(sources))]


def translatable(functions: list[FunctionType]) -> list[FunctionType]:
    """Those that are not refused."""
    found = []
    for function in functions:
        try:
            translate_unit({}, [function])
        except Untranslatable:
            continue
        found.append(function)
    return found


def fuzz(seed: int, programs: int) -> tuple[int, int]:
    """Tries `programs` functions; how many were translated, and how many refused."""
    translated = 0
    gc.collect()
    gc.freeze()  # only what the functions make is to be looked at
    for first in range(0, programs, 25):
        rng = random.Random(f"{seed}/{first}")
        sources: list[str] = []
        for i in range(min(25, programs - first)):
            others = [f"f{j}" for j in range(max(0, i - 2), i)] if rng.random() < 0.3 else []
            sources.append(Writer(rng, f"f{i}", others).function())
        functions = load(sources, f"{seed}/{first}")
        good = translatable(functions)
        native = translate(good, [Box], jit.compile_kernel)
        for function in good:
            source = sources[functions.index(function)]
            check_same(source, function, native[function], rng)
            check_references(source, native[function], rng)
        translated += len(good)
    return translated, programs - translated


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1000)
    options = parser.parse_args()
    translated, refused = fuzz(options.seed, options.programs)
    print(f"translated {translated}, refused {refused}")
