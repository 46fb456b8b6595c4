"""Attributions of an input with noise, taken together."""

from __future__ import annotations

from typing import Any

from livegrad import randn_like
from livegrad.attr.asking import as_tuple, like, repeated

KINDS = ("smoothgrad", "smoothgrad_sq", "vargrad")


class NoiseTunnel:
    """Another method asked about an input with noise, several times.

    `smoothgrad` is the mean of what it says, `smoothgrad_sq` of the squares, `vargrad` the
    variance.
    """

    def __init__(self, attribution_method: Any) -> None:
        self.attribution_method = attribution_method

    def attribute(
        self,
        inputs: Any,
        nt_type: str = "smoothgrad",
        nt_samples: int = 5,
        nt_samples_batch_size: int | None = None,
        stdevs: float | tuple[float, ...] = 1.0,
        **kwargs: Any,
    ) -> Any:
        """A value for each element of the inputs; `kwargs` are the other method's."""
        if nt_type not in KINDS:
            raise ValueError(f"nt_type {nt_type!r} is not one of {', '.join(KINDS)}")
        given = as_tuple(inputs)
        spread = stdevs if isinstance(stdevs, tuple) else (stdevs,) * len(given)
        if len(spread) != len(given):
            raise ValueError(f"there are {len(given)} inputs, but {len(spread)} stdevs")
        rows = given[0].size(0)
        together = nt_samples if nt_samples_batch_size is None else nt_samples_batch_size
        sums: list[list[Any]] = [[0, 0] for _ in given]
        for begin in range(0, nt_samples, together):
            count = min(together, nt_samples - begin)
            noisy = [_noisy(x, stdev, count) for x, stdev in zip(given, spread, strict=True)]
            found = self.attribution_method.attribute(
                like(inputs, noisy), **_for_copies(kwargs, rows, count)
            )
            for totals, x in zip(sums, as_tuple(found), strict=True):
                copies = x.unflatten(0, (count, rows))
                totals[0] = totals[0] + copies.sum(0)
                totals[1] = totals[1] + (copies * copies).sum(0)
        return like(
            inputs, [_joined(nt_type, total, squares, nt_samples) for total, squares in sums]
        )


def _noisy(x: Any, stdev: float, count: int) -> Any:
    """Copies of a batch, one after the other, with noise."""
    copies = repeated(x.detach(), x.size(0), count)
    return copies + stdev * randn_like(copies)


def _for_copies(kwargs: dict[str, Any], rows: int, count: int) -> dict[str, Any]:
    """Arguments that have something for each example, for all copies."""
    found = {}
    for name, value in kwargs.items():
        if isinstance(value, tuple) and name != "target":
            found[name] = tuple([repeated(x, rows, count) for x in value])
        else:
            found[name] = repeated(value, rows, count)
    return found


def _joined(kind: str, total: Any, squares: Any, count: int) -> Any:
    mean = total / count
    if kind == "smoothgrad":
        return mean
    return squares / count - (mean * mean if kind == "vargrad" else 0)
