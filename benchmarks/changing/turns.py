"""Runs one program under both frameworks, in fresh processes that take turns."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks import changing, frameworks
from benchmarks.child import Answer, Child, ChildFailed
from benchmarks.spread import Spread, paired_ratio, spread

NAMES = (frameworks.TORCH, frameworks.LIVEGRAD)
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # how far losses may differ between frameworks


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    threads: int = 1
    steps: int | None = None  # the program's own number if None
    rounds: int = 3
    seed: int = 0
    prepare_seed: int | None = None  # of the process that fills the cache; `seed` if None
    hot: bool = False  # that process also compiles the hot functions
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
    with tempfile.TemporaryDirectory(prefix="livegrad-bench-", ignore_cleanup_errors=True) as root:
        if not settings.cold_cache:
            with failure_noted(outcome, frameworks.LIVEGRAD):
                prepare(program, settings, environment(settings, root))
        for number in range(settings.rounds):
            cache = f"{root}/{number}" if settings.cold_cache else root
            for name in NAMES:
                if name not in outcome.errors:
                    with failure_noted(outcome, name):
                        answer = run_child(name, program, settings, environment(settings, cache))
                        outcome.rounds[name].append(answer)
    if outcome.is_complete:
        outcome.disagreement = disagreement(program, outcome)
    return outcome


@contextmanager
def failure_noted(outcome: Outcome, name: str) -> Iterator[None]:
    try:
        yield
    except ChildFailed as failure:
        outcome.errors[name] = str(failure)


def environment(settings: Settings, cache: str) -> dict[str, str]:
    """The variables of a process."""
    common = frameworks.environment(settings.threads)
    # An installed package has its bytecode; without, a first step would be that of Python's parser.
    return {**common, "LIVEGRAD_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}


def prepare(program: str, settings: Settings, variables: dict[str, str]) -> None:
    """Let a process that is not measured fill the cache."""
    if settings.prepare_seed is not None:
        settings = replace(settings, seed=settings.prepare_seed)
    commands = ("run", "hot") if settings.hot else ("run",)
    run_child(frameworks.LIVEGRAD, program, settings, variables, commands)


def run_child(
    name: str,
    program: str,
    settings: Settings,
    variables: dict[str, str],
    commands: tuple[str, ...] = ("run",),
) -> Answer:
    """All steps in a fresh process, which is killed if it takes too long."""
    steps = steps_of(program, settings)
    arguments = (name, program, settings.seed, settings.threads, steps)
    child = Child("benchmarks.changing.worker", *map(str, arguments), environment=variables)
    watch = threading.Timer(settings.limit, child.process.kill)
    watch.start()
    try:
        answers = [child.ask(command) for command in commands]
        return answers[0]
    except ChildFailed as failure:
        if child.process.returncode == -signal.SIGKILL:
            raise ChildFailed(f"killed after {settings.limit} s, or for memory") from failure
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
