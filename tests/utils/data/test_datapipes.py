"""Pipes: classes of data sets that are methods of all pipes."""

from __future__ import annotations

from typing import Any

import pytest

from livegrad.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe


class Numbers(IterDataPipe[int]):
    def __iter__(self) -> Any:
        return iter(range(5))


def test_a_pipe_is_made_of_another_by_its_name() -> None:
    @functional_datapipe("scaled_by")
    class Scaled(IterDataPipe[int]):
        def __init__(self, source: Any, factor: int) -> None:
            self.source, self.factor = source, factor

        def __iter__(self) -> Any:
            return (self.factor * x for x in self.source)

    assert list(Numbers().scaled_by(2).scaled_by(5)) == [0, 10, 20, 30, 40]
    batches = [batch.tolist() for batch in DataLoader(Numbers().scaled_by(3), batch_size=2)]
    assert batches == [[0, 3], [6, 9], [12]]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("scaled_by")(Scaled)
    with pytest.raises(AttributeError, match="no attribute 'scaled_by'"):
        _ = MapDataPipe().scaled_by
