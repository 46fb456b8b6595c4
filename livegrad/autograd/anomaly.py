"""Finding the operation whose gradient is NaN: `with livegrad.autograd.detect_anomaly(): ...`

While it is on, backward computes each operation's gradients at once and looks at them, so it is
slow; the error names the line that recorded the operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from livegrad.graph.node import Node, quote_site
from livegrad.ops.support.parts import backward_name


class Anomaly:
    """Whether gradients are looked at, for all threads."""

    enabled = False
    check_nan = True


class set_detect_anomaly:
    """Switches anomaly detection on or off: at once, and back at the end of a `with` block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = Anomaly.enabled, Anomaly.check_nan
        Anomaly.enabled, Anomaly.check_nan = bool(mode), bool(check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        Anomaly.enabled, Anomaly.check_nan = self.before


class detect_anomaly:
    """Within it, a backward whose gradients become NaN raises RuntimeError, naming the operation.

    >>> import livegrad as lg
    >>> x = lg.zeros(1, requires_grad=True)
    >>> with lg.autograd.detect_anomaly():
    ...     (x / x).sum().backward()
    Traceback (most recent call last):
    ...
    RuntimeError: Function 'DivBackward0' returned nan values in its 0th output...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def __enter__(self) -> None:
        self.setting = set_detect_anomaly(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        self.setting.__exit__()


def check_gradients(node: Node, gradients: Iterable[Any]) -> None:
    """RuntimeError if one of the gradients that `node` gave its inputs has a NaN."""
    if not Anomaly.check_nan:
        return
    for i, g in enumerate(gradients):
        if g is not None and not isinstance(g, dict) and g.isnan().any().item():
            raise RuntimeError(
                f"Function '{backward_name(node)}' returned nan values in its {i}th output; the "
                f"operation was recorded at {quote_site(node.site)}"
            )
