"""Objects that give a state and take it back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """What a checkpoint asks for its state, instead of keeping the object."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state back."""
