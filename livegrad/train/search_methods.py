"""How trials are chosen: all of a grid, by chance, by halving, or by Optuna.

A method is asked for the next job while a worker is free, and told what came of each.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from livegrad.train.search_journal import Result
from livegrad.train.search_space import Choice, Float, Params, Space, drawn


class Job(NamedTuple):
    """A trial to be run: its number, parameters, and budget, if there are any."""

    number: int
    params: Params
    budget: int | None = None


class Method:
    """Gives jobs one after the other; subclasses say with which parameters."""

    budget: int | None = None

    def __init__(self, space: Space, trials: int, seed: int, sign: int) -> None:
        self.space, self.trials, self.seed, self.sign = space, trials, seed, sign
        self.begun: set[int] = set()

    def params(self, number: int) -> Params:
        """Those of a trial."""
        return drawn(self.space, self.seed, number)

    def next(self) -> Job | None:
        """A job that is not begun; None if there is none now."""
        for number in range(self.trials):
            if number not in self.begun:
                self.begun.add(number)
                return Job(number, self.params(number), self.budget)
        return None

    def tell(self, result: Result) -> None:
        """What came of a job; also those of a search that goes on."""
        self.begun.add(result.number)

    def total(self) -> int:
        """How many jobs there are to be, by what is known now."""
        return self.trials


class Random(Method):
    """Each trial by itself."""


class Grid(Method):
    """All combinations; of ranges, `points` values each."""

    def __init__(self, space: Space, trials: int | None, seed: int, sign: int, points: int) -> None:
        axes = [part.grid(points) for part in space.values()]
        self.combinations = list(itertools.product(*axes))
        count = len(self.combinations)
        super().__init__(space, count if trials is None else min(trials, count), seed, sign)

    def params(self, number: int) -> Params:
        """The next combination."""
        return dict(zip(self.space, self.combinations[number], strict=True))


class Halving(Method):
    """Many trials of a small budget; of these, one in `factor` gets `factor` times as much.

    Nobody waits: a trial goes on as soon as it is among the best of those that got as far.
    """

    def __init__(
        self, space: Space, trials: int, seed: int, sign: int, budget: tuple[int, int], factor: int
    ) -> None:
        super().__init__(space, trials, seed, sign)
        least, most = budget
        if not 0 < least <= most or factor < 2:
            raise ValueError(
                f"search: got budget={budget}, factor={factor}; expected 0 < least <= most and "
                "factor >= 2"
            )
        self.factor = factor
        steps = int(math.log(most / least, factor) + 1e-9)
        self.budgets = [least * factor**i for i in range(steps)] + [most]
        if steps and self.budgets[-2] >= most:
            self.budgets.pop()
        if not steps:
            self.budgets = [least] if least == most else [least, most]
        self.rungs: list[dict[int, float]] = [{} for _ in self.budgets]
        self.promoted: list[set[int]] = [set() for _ in self.budgets]
        self.known: dict[int, Params] = {}

    def next(self) -> Job | None:
        """One that goes on, from the farthest; else a new one."""
        for rung in reversed(range(len(self.budgets) - 1)):
            values = self.rungs[rung]
            best = sorted(values, key=lambda n: (values[n], n))[: len(values) // self.factor]
            for number in best:
                if number not in self.promoted[rung]:
                    self.promoted[rung].add(number)
                    return Job(number, self.known[number], self.budgets[rung + 1])
        job = super().next()
        if job is None:
            return None
        self.known[job.number] = job.params
        return job._replace(budget=self.budgets[0])

    def tell(self, result: Result) -> None:
        """Notes how far a trial got."""
        super().tell(result)
        self.known[result.number] = result.params
        rung = self.budgets.index(result.budget or self.budgets[0])
        for below in range(rung):
            self.promoted[below].add(result.number)
        value = math.inf if result.value is None else self.sign * result.value
        self.rungs[rung][result.number] = math.inf if math.isnan(value) else value

    def total(self) -> int:
        """As far as can be said: a rung has a part of the one before, or more.

        Some go on early, and are not among the best of their rung in the end.
        """
        jobs = [self.trials]
        for promoted in self.promoted[:-1]:
            jobs.append(max(len(promoted), jobs[-1] // self.factor))
        return sum(jobs)


class Bayes(Method):
    """Trials that Optuna suggests."""

    def __init__(self, space: Space, trials: int, seed: int, sign: int) -> None:
        super().__init__(space, trials, seed, sign)
        try:
            import optuna
        except ImportError:
            raise ImportError(
                "search: method='bayes' needs Optuna, which is not installed: pip install optuna"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna = optuna
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self.study = optuna.create_study(sampler=sampler, direction="minimize")
        self.asked: dict[int, Any] = {}
        self.distributions = {name: self._distribution(part) for name, part in space.items()}

    def _distribution(self, part: Any) -> Any:
        made = self.optuna.distributions
        if isinstance(part, Choice):
            return made.CategoricalDistribution(part.options)
        kind = made.FloatDistribution if isinstance(part, Float) else made.IntDistribution
        return kind(part.low, part.high, log=part.log)

    def params(self, number: int) -> Params:
        """What is suggested after all results so far."""
        self.asked[number] = self.study.ask(self.distributions)
        return {name: self.asked[number].params[name] for name in self.space}

    def tell(self, result: Result) -> None:
        """Has Optuna know a result; one of a search that goes on is added."""
        super().tell(result)
        state = self.optuna.trial.TrialState
        bad = result.value is None or math.isnan(result.value)
        value = None if bad else self.sign * float(result.value or 0.0)
        trial = self.asked.pop(result.number, None)
        if trial is not None:
            self.study.tell(trial, value, state=state.FAIL if bad else state.COMPLETE)
        elif not bad:
            made = self.optuna.trial.create_trial(
                params=result.params, distributions=self.distributions, value=value
            )
            self.study.add_trial(made)
