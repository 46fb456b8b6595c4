"""Runs one workload in all frameworks, in turns, so that the machine's noise hits all alike."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from benchmarks import frameworks
from benchmarks.child import Answer, Child, ChildFailed
from benchmarks.workloads.base import Workload

SETTLE = 0.005  # seconds between bursts, for the last one's threads to fall asleep
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # how far losses may differ between frameworks


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    rounds: int = 30
    steps: int | None = None  # in one burst; the workload's own number if None
    threads: int = 2
    seed: int = 0
    read_every: int = 1
    check_steps: int = 20
    groups: int = 3  # of processes
    cold_cache: bool = False


@dataclass
class Result:
    """What one framework did on one workload."""

    version: str = "?"
    error: str | None = None
    starts: list[Answer] = field(default_factory=list)
    cold_starts: list[Answer] = field(default_factory=list)  # with an empty kernel cache
    losses: list[float] = field(default_factory=list)
    us: list[float] = field(default_factory=list)  # per step, one value a round
    last_loss: float = float("nan")
    peak_bytes: int = 0
    agrees: bool | None = None  # with the losses of the reference framework


def compare(workload: Workload, names: list[str], settings: Settings) -> dict[str, Result]:
    """Results by framework; one that cannot run carries its error and does not stop the others.

    Two processes with the same code were seen to differ by 10 % and more for as long as they lived,
    which rounds alone cannot show. So the rounds are shared out among groups of fresh processes.
    """
    results = {name: Result() for name in names}
    for number in range(settings.groups):
        rounds = range(settings.rounds)[number :: settings.groups]
        run_group(results, workload, settings, len(rounds))
    check_losses(results)
    return results


def run_group(
    results: dict[str, Result], workload: Workload, settings: Settings, rounds: int
) -> None:
    """Start a process for each framework, let them take turns, and end them."""
    children: dict[str, Child] = {}
    with cache_directories(list(results), settings) as environments:
        try:
            for name, result in results.items():
                if result.error is not None:
                    continue
                with failure_noted(result):
                    if settings.cold_cache:
                        cold = first_step(name, workload, settings, environments[name])
                        result.cold_starts.append(cold)
                    children[name] = start(name, workload, settings, environments[name])
                    warm_up(result, children[name], workload, settings)
            run_rounds(results, children, workload, settings, rounds)
        finally:
            for child in children.values():
                child.close()


@contextmanager
def cache_directories(names: list[str], settings: Settings) -> Iterator[dict[str, dict[str, str]]]:
    """The environment of each framework; with `cold_cache`, each has an empty cache of its own."""
    environment = frameworks.environment(settings.threads)
    with tempfile.TemporaryDirectory(prefix="livegrad-bench-", ignore_cleanup_errors=True) as root:
        if settings.cold_cache:
            yield {name: with_cache(environment, f"{root}/{name}") for name in names}
        else:
            yield dict.fromkeys(names, environment)


def with_cache(environment: dict[str, str], directory: str) -> dict[str, str]:
    return {**environment, "LIVEGRAD_CACHE_DIR": directory, "TORCHINDUCTOR_CACHE_DIR": directory}


@contextmanager
def failure_noted(result: Result) -> Iterator[None]:
    """A framework that fails is out: its figures so far would not pair with the others'."""
    try:
        yield
    except ChildFailed as failure:
        result.error = str(failure)
        result.us.clear()


def start(name: str, workload: Workload, settings: Settings, environment: dict[str, str]) -> Child:
    arguments = (name, workload.name, str(settings.seed), str(settings.threads))
    return Child("benchmarks.worker", *arguments, environment=environment)


def first_step(
    name: str, workload: Workload, settings: Settings, environment: dict[str, str]
) -> Answer:
    """The first step of a process that does nothing else."""
    child = start(name, workload, settings, environment)
    try:
        return child.ask("first")
    finally:
        child.close()


def warm_up(result: Result, child: Child, workload: Workload, settings: Settings) -> None:
    """The first step (timed), the steps whose losses are compared, and two bursts not counted."""
    first = child.ask("first")
    result.starts.append(first)
    result.version = first["version"]
    result.losses = [first["loss"], *child.ask("losses", count=settings.check_steps)["losses"]]
    for _ in range(2):
        burst(child, workload, settings)


def run_rounds(
    results: dict[str, Result],
    children: dict[str, Child],
    workload: Workload,
    settings: Settings,
    rounds: int,
) -> None:
    """Bursts in turns; who begins changes from round to round."""
    for number in range(rounds):
        running = [name for name in children if results[name].error is None]
        shift = number % max(len(running), 1)
        for name in running[shift:] + running[:shift]:
            with failure_noted(results[name]):
                answer = burst(children[name], workload, settings)
                results[name].us.append(answer["us"])
                results[name].last_loss = answer["loss"]
    for name, child in children.items():
        if results[name].error is None:
            peak = child.ask("memory")["peak_bytes"]
            results[name].peak_bytes = max(peak, results[name].peak_bytes)


def burst(child: Child, workload: Workload, settings: Settings) -> Answer:
    time.sleep(SETTLE)
    count = settings.steps or workload.steps
    return child.ask("burst", count=count, read_every=settings.read_every)


def reference_of(results: dict[str, Result]) -> str | None:
    """Who the others are compared with: torch eager, or else the first that ran."""
    ran = [name for name, result in results.items() if result.us]
    return frameworks.TORCH if frameworks.TORCH in ran else next(iter(ran), None)


def check_losses(results: dict[str, Result]) -> None:
    """Whoever skips work shows a different loss."""
    reference = reference_of(results)
    if reference is None:
        return
    expected = results[reference].losses
    for result in results.values():
        if result.us:
            close = np.allclose(result.losses, expected, rtol=RELATIVE, atol=ABSOLUTE)
            result.agrees = bool(close)
