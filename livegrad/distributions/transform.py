"""The base of transforms, and transforms made of others.

`y = transform(x)`, `x = transform.inv(y)`, and `log_abs_det_jacobian(x, y)` is how much the
transform stretches volumes, as a logarithm. A transform of vectors takes the last dims as one
event, as many as `domain.event_dim` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad.distributions import constraints
from livegrad.distributions.utils import as_size, sum_rightmost
from livegrad.ops.shaping.joining import cat, stack
from livegrad.tensor import Tensor

if TYPE_CHECKING:
    from livegrad.distributions.distribution import Distribution


class Transform:
    """A differentiable map with a known change of volume.

    A transform defines `_call`, `_inverse` and `log_abs_det_jacobian`. With `cache_size` 1 it
    remembers its last argument and result, so that inverting the result gives the argument itself.

    Attributes:
        domain, codomain: constraints on arguments and results.
        bijective: whether `inv` gives back the argument exactly.
        sign: 1 or -1 of a monotone map of numbers: whether it rises or falls.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1; got {cache_size}")
        self._cache_size = cache_size
        self._inv: Any = None
        self._last: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """How many dims make up one event, if it is as many before as after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        inverse: Transform = self._inv
        return inverse

    @property
    def sign(self) -> Any:
        """1 where the transform rises, -1 where it falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The transform with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._cache_size, new._inv, new._last = cache_size, None, (None, None)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        """The transformed value."""
        if self._cache_size and x is self._last[0]:
            y: Tensor = self._last[1]
            return y
        y = self._call(x)
        if self._cache_size:
            self._last = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._last[1]:
            x: Tensor = self._last[0]
            return x
        x = self._inverse(y)
        if self._cache_size:
            self._last = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of how much volumes grow at `x`, where the transform gives `y`."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an argument of `shape`."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the argument for a result of `shape`."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """The inverse of a transform, in terms of the transform itself."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv: Transform = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}({self._inv!r})"


# ---------------------------------------------------------------------------------- of transforms


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]

    def _outer(self, first: bool) -> Any:
        """The constraint at one end, with the batch dims that the other parts need."""
        if not self.parts:
            return constraints.real
        ends = [(p.domain, p.codomain) for p in self.parts]
        if first:
            ends = [(b, a) for a, b in reversed(ends)]
        end = ends[-1][1]
        # Walking from the other end: how many dims an event has had at most, seen from here.
        dims = ends[0][0].event_dim
        for start, stop in ends:
            dims = max(dims, start.event_dim) + stop.event_dim - start.event_dim
        extra = dims - end.event_dim
        return constraints.independent(end, extra) if extra > 0 else end

    @property
    def domain(self) -> Any:
        return self._outer(first=True)

    @property
    def codomain(self) -> Any:
        return self._outer(first=False)

    @property
    def bijective(self) -> Any:
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv._inv = self
        inverse: Transform = self._inv
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        return self if self._cache_size == cache_size else type(self)(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        stretches = []
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            stretch = part.log_abs_det_jacobian(before, after)
            stretches.append(sum_rightmost(stretch, dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
        return sum(stretches, x.new_zeros(()))

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform with some of the batch dims counted into the event."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return type(self)(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretch = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(stretch, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """The last dims of a value in another shape."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = as_size(in_shape), as_size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                "in_shape, out_shape have different numbers of elements; got "
                f"{list(self.in_shape)} and {list(self.out_shape)}"
            )
        super().__init__(cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _swap_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _swap_end(shape, self.out_shape, self.in_shape)


def _swap_end(shape: Any, old: Any, new: Any) -> Any:
    cut = len(shape) - len(old)
    if cut < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {list(shape[cut:])} but got {list(old)}")
    return as_size((*shape[:cut], *new))


# ---------------------------------------------------------------------------------- side by side


class CatTransform(Transform):
    """Transforms of parts of a value that lie one after the other along `dim`."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of `dim`."""
        return sum(self.lengths)

    def _parts(self, x: Tensor) -> Any:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != self.length:
            raise ValueError(
                f"CatTransform: dim {self.dim} must have size {self.length}; got {list(x.shape)}"
            )
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return cat([t(part) for t, part in pairs], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return cat([t.inv(part) for t, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        stretches = []
        most = self.event_dim
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            stretch = t.log_abs_det_jacobian(a, b)
            stretches.append(sum_rightmost(stretch, most - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        dim += most
        return cat(stretches, dim) if dim < 0 else sum(stretches, x.new_zeros(()))


class StackTransform(Transform):
    """Transforms of the parts of a value along `dim`, one each."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)

    def _parts(self, x: Tensor) -> Any:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: dim {self.dim} must have size {len(self.transforms)}; got "
                f"{list(x.shape)}"
            )
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x), strict=True)
        return stack([t(part) for t, part in pairs], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(y), strict=True)
        return stack([t.inv(part) for t, part in pairs], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        triples = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([t.log_abs_det_jacobian(a, b) for t, a, b in triples], self.dim)


class CumulativeDistributionTransform(Transform):
    """`y = distribution.cdf(x)`."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution: Distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
