"""What a public function takes besides its own arguments is said where it is defined.

    @casting                            livegrad.exp(x, out=y): the result, cast to the dtype of y
    def exp(input): ...

    @numpy_names                        livegrad.chunk(x, 2, axis=1)
    def chunk(input, chunks, dim=0): ...

The function stays as it is: ops call it, and tensors have it as a method, where PyTorch has no
`out`. What users call is made from it by `publish` (`ops/support/public.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Out(NamedTuple):
    """How a result gets into `out`."""

    exact: bool = False  # it must have the dtype of the result
    sizes: bool = False  # of complex numbers, it may have their dtype, or any real one
    truths: bool = False  # it must have bools, or bytes, whichever the result has
    refusal: type[Exception] = RuntimeError  # if its dtype does not hold the result's values
    gives_dtype: bool = False  # the function's `dtype`, if none is given
    apart: bool = False  # it must not share memory with the arguments at all
    # Whether an expanded one is refused that is to get another shape, and so is expanded no more.
    # PyTorch does where it computes elements one by one; None: as the op of the result has it.
    as_it_is: bool | None = None


_CASTING = Out()
_EXACT = Out(exact=True)
_SIZES = Out(exact=True, sizes=True)
_TRUTHS = Out(truths=True)
_JOINING = Out(refusal=TypeError, apart=True)
_FOLDING = Out(gives_dtype=True)
_CREATING = Out(exact=True, gives_dtype=True)


# Each takes and gives a function, and nothing else: only so does mypy know the types of decorated
# functions in the rules above them.


def casting(function: F) -> F:
    """Decorates a function whose `out` takes the result cast to its dtype, if that holds it."""
    function.__dict__["out"] = _CASTING
    return function


def exact(function: F) -> F:
    """Decorates a function whose `out` must have the dtype of the result."""
    function.__dict__["out"] = _EXACT
    return function


def sizes(function: F) -> F:
    """As `exact`; but the sizes of complex numbers may be stored as those, or as any reals."""
    function.__dict__["out"] = _SIZES
    return function


def truths(function: F) -> F:
    """Decorates a function whose `out` takes what is true or not: as bools, or as bytes."""
    function.__dict__["out"] = _TRUTHS
    return function


def joining(function: F) -> F:
    """As `casting`; an `out` that does not hold the result's values is of the wrong type.

    It must not be one of what is joined, nor share memory with that.
    """
    function.__dict__["out"] = _JOINING
    return function


def folding(function: F) -> F:
    """Decorates a function that computes in the dtype of `out`, unless it is given another."""
    function.__dict__["out"] = _FOLDING
    return function


def creating(function: F) -> F:
    """Decorates a function that makes a tensor: of the dtype of `out`, or `out` must have it."""
    function.__dict__["out"] = _CREATING
    return function


def refusing_expanded(function: F) -> F:
    """Decorates, above one of those, a function that looks at `out` before it gets its shape."""
    function.__dict__["out"] = function.__dict__["out"]._replace(as_it_is=True)
    return function


def taking_expanded(function: F) -> F:
    """Decorates, above one of those, a function that gives `out` its shape before it looks at it.

    As most do that are not elementwise; but the last op of this one is.
    """
    function.__dict__["out"] = function.__dict__["out"]._replace(as_it_is=False)
    return function


def numpy_names(function: F) -> F:
    """Decorates a function without `out` that takes `axis` for its `dim`, as those with it do."""
    function.__dict__["out"] = None
    return function


def plain(function: F) -> F:
    """Decorates a function that records the op of its name, of `input`, or of `input` and `other`.

    As it does nothing else, its public form does the same by itself: no call is added to those
    that cost least.
    """
    function.__dict__["plain"] = True
    return function
