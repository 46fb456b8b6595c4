"""How a tensor lies on the processes along one dim of a mesh."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """Where the values of a tensor are, along one dim of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along `dim` if that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each process has a term of it."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along a dim of the tensor."""

    dim: int

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """How large the part of a process is, and where it begins: all but the last are equal."""
        each = -(-curr_local_size // num_chunks)
        begins = min(each * rank, curr_local_size)
        return min(each, curr_local_size - begins), begins


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each process has parts of `split_factor` parts along a dim of the tensor."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of the tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a term; the tensor is their sum, or what `reduce_op` says."""

    reduce_op: str = "sum"


__all__ = ["Partial", "Placement", "Replicate", "Shard"]
