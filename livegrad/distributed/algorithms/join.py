"""Join: processes may have unequal numbers of inputs."""

from __future__ import annotations

from typing import Any


class Join:
    """`with Join([model, optimizer]):`; one process is never waited for."""

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self.joinables = joinables

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


__all__ = ["Join"]
