"""Sampling for programs of several processes."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Iterator, Sized
from typing import Any

from livegrad.random import Generator
from livegrad.utils.data.drawing import permutation
from livegrad.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The share of one of several processes: every `num_replicas`-th index, from `rank` on.

    All processes shuffle alike, by `seed` and the epoch that `set_epoch` tells. They get equally
    many indices: some are given twice, or dropped with `drop_last`. Number and rank are those of
    the process group, or come from the environment (`WORLD_SIZE`, `RANK`, as launchers set them),
    unless given.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.num_replicas = _from_environment("WORLD_SIZE", "get_world_size", num_replicas)
        self.rank = _from_environment("RANK", "get_rank", rank)
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"Invalid rank {self.rank}, rank should be in the interval "
                f"[0, {self.num_replicas - 1}]"
            )
        self.dataset = dataset
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        share = len(dataset) / self.num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = permutation(count, generator).tolist()
        else:
            order = list(range(count))
        everyone = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(everyone, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next iteration is, for another order than in the last."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """What a loader keeps to start the same iteration again."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes back to the epoch of `state_dict`."""
        self.epoch = state["epoch"]


def _from_environment(name: str, question: str, given: int | None) -> int:
    if given is not None:
        return given
    distributed: Any = sys.modules.get("livegrad.distributed")  # else there is no group
    if distributed is not None and distributed.is_initialized():
        return int(getattr(distributed, question)())
    if name not in os.environ:
        raise RuntimeError(
            "Requires distributed package to be available: DistributedSampler got neither "
            f"num_replicas and rank, nor {name} in the environment"
        )
    return int(os.environ[name])
