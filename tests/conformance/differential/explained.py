"""Differences that are meant: what PyTorch refuses and livegrad does, with the reason.

They are recognised by PyTorch's own message. A program ends at one, because the two go on from
different states; but where values are kept, the whole of it is run again by a PyTorch that keeps
them too, and must then agree.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    reason: str
    torch_says: str


KEPT = "values that backward needs are kept as they were: there is nothing to refuse"

EXPLAINED = (
    Explained(KEPT, "modified by an inplace operation"),
    Explained(
        "a second backward computes again what the first one dropped",
        "Trying to backward through the graph a second time",
    ),
    Explained(
        "slices may have negative steps, as the array API wants",
        "step must be greater than zero",
    ),
    Explained(
        "full backward hooks of modules put no view of a Function between: outputs may be written",
        "Output 0 of BackwardHookFunction is a view and is being modified inplace",
    ),
    Explained("PyTorch has no kernel for this dtype on the CPU", "not implemented for '"),
)


SUBCLASS = "NotImplementedError is a RuntimeError: whoever catches PyTorch's catches it"
SPENT = "an update overwrote in place what a graph that backward had walked would need"


def explanation(wrong: Exception | None, found: Exception | None) -> str | None:
    """Why livegrad did not raise what PyTorch raised; None if it should have."""
    if type(wrong) is RuntimeError and isinstance(found, NotImplementedError):
        return SUBCLASS
    if wrong is None and found is not None and "the graph was spent by backward" in str(found):
        return SPENT
    if wrong is None or found is not None:
        return None
    message = str(wrong)
    for known in EXPLAINED:
        if known.torch_says in message:
            return known.reason
    return None
