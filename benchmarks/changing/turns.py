"""Runs one program under both frameworks, in fresh processes that take turns."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from benchmarks import changing, frameworks
from benchmarks.child import Answer, Child, ChildFailed
from benchmarks.spread import Spread, paired_ratio, spread

NAMES = (frameworks.TORCH, frameworks.LIVEGRAD)
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # how far losses may differ between frameworks
# How livegrad runs unless the environment says otherwise. To be removed with `with_mode` once
# tiers are the default.
MODE = "tiers"


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    threads: int = 1
    steps: int | None = None  # the program's own number if None
    rounds: int = 3
    seed: int = 0
    prepare_seed: int | None = None  # of the process that fills the cache; `seed` if None
    cold_cache: bool = False
    limit: int = 300  # seconds that a process may take


@dataclass
class Outcome:
    """What the frameworks did on one program, round by round."""

    rounds: dict[str, list[Answer]] = field(default_factory=lambda: {name: [] for name in NAMES})
    errors: dict[str, str] = field(default_factory=dict)
    # The first step whose losses differ too much, and these losses; None if all agree.
    disagreement: tuple[int, float, float] | None = None

    @property
    def is_complete(self) -> bool:
        return not self.errors and all(self.rounds.values())

    def speed(self, name: str, span: str, clock: str = "wall") -> Spread:
        """Steps per second."""
        return spread([a["steps"][span] / a["seconds"][span][clock] for a in self.rounds[name]])

    def ratio(self, span: str, clock: str) -> Spread:
        """How many times as fast livegrad is, from the processes that ran side by side."""
        times = [[a["seconds"][span][clock] for a in self.rounds[name]] for name in NAMES]
        return paired_ratio(*times)


def compare(program: str, settings: Settings) -> Outcome:
    """All rounds; a framework that fails is left out of those that follow."""
    outcome = Outcome()
    with environments(program, settings, outcome) as environment_of:
        for number in range(settings.rounds):
            for name in NAMES:
                if name in outcome.errors:
                    continue
                try:
                    answer = run_child(name, program, settings, environment_of(name, number))
                except ChildFailed as failure:
                    outcome.errors[name] = str(failure)
                else:
                    outcome.rounds[name].append(answer)
    if outcome.is_complete:
        outcome.disagreement = disagreement(program, outcome)
    return outcome


@contextmanager
def environments(program: str, settings: Settings, outcome: Outcome) -> Iterator:
    """A function from (framework, round) to the variables of that process.

    livegrad's cache is one that a process before has filled, or with `cold_cache` an empty one
    for each process.
    """
    common = with_mode(frameworks.environment(settings.threads))
    with tempfile.TemporaryDirectory(prefix="livegrad-bench-", ignore_cleanup_errors=True) as root:
        prepared = {**common, "LIVEGRAD_CACHE_DIR": f"{root}/prepared"}
        if not settings.cold_cache:
            prepare(program, settings, prepared, outcome)

        def environment_of(name: str, number: int) -> dict[str, str]:
            if settings.cold_cache:
                return {**common, "LIVEGRAD_CACHE_DIR": f"{root}/{name}-{number}"}
            return prepared

        yield environment_of


def with_mode(environment: dict[str, str]) -> dict[str, str]:
    return {**environment, "LIVEGRAD_MODE": os.environ.get("LIVEGRAD_MODE", MODE)}


def prepare(
    program: str, settings: Settings, environment: dict[str, str], outcome: Outcome
) -> None:
    """Let a process that is not measured fill the cache; one that fails shows below as well."""
    seed = settings.seed if settings.prepare_seed is None else settings.prepare_seed
    try:
        run_child(frameworks.LIVEGRAD, program, settings, environment, seed)
    except ChildFailed as failure:
        outcome.errors[frameworks.LIVEGRAD] = str(failure)


def run_child(
    name: str,
    program: str,
    settings: Settings,
    environment: dict[str, str],
    seed: int | None = None,
) -> Answer:
    """All steps in a fresh process, which is killed if it takes too long."""
    seed = settings.seed if seed is None else seed
    arguments = (name, program, seed, settings.threads, steps_of(program, settings))
    child = Child("benchmarks.changing.worker", *map(str, arguments), environment=environment)
    watch = threading.Timer(settings.limit, child.process.kill)
    watch.start()
    try:
        return child.ask("run")
    except ChildFailed as failure:
        if child.process.returncode == -9:
            raise ChildFailed(f"killed after {settings.limit} s") from failure
        raise
    finally:
        watch.cancel()
        child.close()


def steps_of(program: str, settings: Settings) -> int:
    return settings.steps or changing.STEPS.get(program, changing.USUAL_STEPS)


def disagreement(program: str, outcome: Outcome) -> tuple[int, float, float] | None:
    """Whoever skips work shows a different loss."""
    torch, livegrad = (np.array(outcome.rounds[name][0]["losses"]) for name in NAMES)
    compared = changing.COMPARED.get(program, len(torch))
    close = np.isclose(livegrad, torch, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)[:compared]
    if close.all():
        return None
    step = int(np.argmin(close))
    return step, float(torch[step]), float(livegrad[step])
