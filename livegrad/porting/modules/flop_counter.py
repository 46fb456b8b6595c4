"""`torch.utils.flop_counter`: it stands on PyTorch's dispatcher; `train.summary` counts here."""

from __future__ import annotations

from typing import Any, NoReturn


class FlopCounterMode:
    """Counts operations of what runs in its block: it can be made and asked, not entered."""

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = {}

    def get_total_flops(self) -> int:
        """None were counted."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """None were counted."""
        return self.flop_counts

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            "FlopCounterMode: livegrad has no dispatcher below autograd to count in. "
            "livegrad.train.summary(model, x).flops are those of a forward pass"
        )

    def __exit__(self, *raised: object) -> None:
        """Nothing was begun."""
