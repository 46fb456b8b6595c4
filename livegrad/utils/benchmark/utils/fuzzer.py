"""Fuzzer: tensors of random sizes, for benchmarks over many shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.ops.making.random import randint, randn
from livegrad.random import manual_seed


class ParameterAlias:
    """In a distribution: the value of another parameter."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number that is drawn: "uniform" or "loguniform" in a range, or by a dict of chances."""

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name = name
        self._minval, self._maxval = minval, maxval
        self._distribution = _checked(distribution)
        self.strict = strict

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    def sample(self, state: np.random.RandomState) -> Any:
        """One value."""
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            place = state.choice(len(values), p=list(self._distribution.values()))
            return values[int(place)]
        assert self._minval is not None
        assert self._maxval is not None
        if self._distribution == "loguniform":
            drawn = 2 ** state.uniform(math.log2(self._minval), math.log2(self._maxval))
            return int(drawn) if isinstance(self._minval, int) else drawn
        if isinstance(self._minval, int) and isinstance(self._maxval, int):
            return int(state.randint(self._minval, self._maxval + 1))
        return state.uniform(self._minval, self._maxval)


def _checked(distribution: Any) -> Any:
    if not isinstance(distribution, dict):
        if distribution not in ("uniform", "loguniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        return distribution
    if any([p < 0 for p in distribution.values()]):
        raise AssertionError("Probabilities must be non-negative")
    if abs(sum(distribution.values()) - 1) > 1e-5:
        raise AssertionError("Distribution is not normalized")
    return {value: p for value, p in distribution.items() if p > 0}


class FuzzedTensor:
    """A tensor whose sizes are numbers or names of parameters; at times not contiguous."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = dtypes.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ) -> None:
        if cuda:
            raise ValueError("FuzzedTensor: got cuda=True; there are no GPUs")
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = dim_parameter
        self._dtype = dtype
        self._tensor_constructor = tensor_constructor or self.default_tensor_constructor

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Any, dtype: Any, **kwargs: Any) -> Any:
        """Random numbers."""
        if dtype.is_floating_point or dtype.is_complex:
            return randn(size, dtype=dtype)
        return randint(1, 127, size, dtype=dtype)

    def _get_size_and_steps(self, params: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
        dim = int(params[self._dim_parameter]) if self._dim_parameter else len(self._size)

        def resolved(values: Any) -> tuple[int, ...]:
            found = [params.get(v, v) for v in values][:dim]
            return tuple([int(v) for v in found] + [1] * (dim - len(found)))

        size = resolved(self._size)
        steps = resolved(self._steps or ())
        return size, steps, tuple([a * b for a, b in zip(size, steps, strict=True)])

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the tensor is as large as it may be."""
        size, _, allocation = self._get_size_and_steps(params)
        count = reduce(mul, size, 1)
        nbytes = reduce(mul, allocation, 1) * self._dtype.itemsize
        return not (
            (self._max_allocation_bytes and nbytes > self._max_allocation_bytes)
            or (self._max_elements and count > self._max_elements)
            or (self._min_elements and count < self._min_elements)
        )

    def _make_tensor(
        self, params: dict[str, Any], state: np.random.RandomState
    ) -> tuple[Any, dict[str, Any]]:
        size, steps, allocation = self._get_size_and_steps(params)
        raw = self._tensor_constructor(size=allocation, dtype=self._dtype, **params)
        order = np.arange(len(size))
        if state.uniform() > self._probability_contiguous and len(size) > 1:
            order = state.permutation(len(size))
            raw = raw.permute(*order.tolist()).contiguous()
            raw = raw.permute(*np.argsort(order).tolist())
        tensor = raw[tuple([slice(0, a * s, s) for a, s in zip(size, steps, strict=True)])]
        return tensor, {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws parameters until all constraints hold, and makes the tensors: `take(n)`."""

    def __init__(
        self,
        parameters: list[Any],
        tensors: list[Any],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        drawn = int(np.random.default_rng().integers(2**31 - 1))
        self._seed = drawn if seed is None else seed
        self._parameters: list[FuzzedParameter] = _flat(parameters)
        self._tensors: list[FuzzedTensor] = _flat(tensors)
        self._constraints = constraints or []
        names = [x.name for x in self._parameters] + [x.name for x in self._tensors]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"Duplicate names: {repeated}")
        self._rejections = self._total = 0

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
        """`n` times: tensors by name, what is known of them, and the parameters."""
        state = np.random.RandomState(self._seed)
        manual_seed(int(state.randint(0, 2**31 - 1)))
        for _ in range(n):
            params = self._generate(state)
            tensors, known = {}, {}
            for tensor in self._tensors:
                tensors[tensor.name], known[tensor.name] = tensor._make_tensor(params, state)
            yield tensors, known, params

    @property
    def rejection_rate(self) -> float:
        """The part of the drawn parameters that did not fit."""
        return self._rejections / self._total if self._total else 0.0

    def _generate(self, state: np.random.RandomState) -> dict[str, Any]:
        strict: dict[str, Any] = {}
        for _ in range(1000):
            drawn = {p.name: p.sample(state) for p in self._parameters if p.name not in strict}
            drawn.update(strict)
            strict = {p.name: drawn[p.name] for p in self._parameters if p.strict}
            params = _without_aliases(drawn)
            self._total += 1
            fits = all([c(**params) for c in self._constraints])
            if fits and all([t.satisfies_constraints(params) for t in self._tensors]):
                return params
            self._rejections += 1
        raise ValueError("Failed to generate a set of valid parameters.")


def _flat(values: list[Any]) -> list[Any]:
    return [x for value in values for x in (value if isinstance(value, list | tuple) else [value])]


def _without_aliases(params: dict[str, Any]) -> dict[str, Any]:
    found = dict(params)
    while any([isinstance(v, ParameterAlias) for v in found.values()]):
        before = dict(found)
        for name, value in found.items():
            if isinstance(value, ParameterAlias):
                found[name] = found[value.alias_to]
        if before == found:
            raise ValueError("ParameterAlias: these stand for each other in a circle")
    return found


__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]
