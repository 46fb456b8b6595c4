"""Sequences of different lengths: padded to one length, or packed without gaps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from livegrad.creation import as_tensor, full
from livegrad.ops.making.constants import from_array
from livegrad.ops.shaping.joining import cat
from livegrad.settings import contiguous_format
from livegrad.tensor import Tensor


class _Fields(NamedTuple):
    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


class PackedSequence(_Fields):
    """Sequences of different lengths without padding, step by step.

        a0 a1 a2        data         a0 b0 c0 │ a1 b1 │ a2
        b0 b1           batch_sizes  3          2       1
        c0

    The longest comes first; `sorted_indices` says where each was in the batch, `unsorted_indices`
    leads back (both None if the batch was in that order). Functions of this module make them.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, tuple | list) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With `data` as another dtype or on another device."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def float(self) -> PackedSequence:
        """With `data` as float32."""
        return self._replace(data=self.data.float())

    def double(self) -> PackedSequence:
        """With `data` as float64."""
        return self._replace(data=self.data.double())

    def half(self) -> PackedSequence:
        """With `data` as float16."""
        return self._replace(data=self.data.half())

    def long(self) -> PackedSequence:
        """With `data` as int64."""
        return self._replace(data=self.data.long())

    def int(self) -> PackedSequence:
        """With `data` as int32."""
        return self._replace(data=self.data.int())

    def short(self) -> PackedSequence:
        """With `data` as int16."""
        return self._replace(data=self.data.short())

    def char(self) -> PackedSequence:
        """With `data` as int8."""
        return self._replace(data=self.data.char())

    def byte(self) -> PackedSequence:
        """With `data` as uint8."""
        return self._replace(data=self.data.byte())

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CPU, and as `args` say."""
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """AssertionError: there is no GPU."""
        return self.to(*args, device="cuda", **kwargs)

    def pin_memory(self) -> PackedSequence:
        """The sequence itself: memory is the CPU's."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Always False."""
        return False

    def is_pinned(self) -> bool:
        """Always False."""
        return False


def invert_permutation(permutation: Any) -> Tensor | None:
    """The permutation that undoes `permutation`; None for None."""
    if permutation is None:
        return None
    given = np.asarray(permutation.tolist(), np.int64)
    inverse = np.empty_like(given)
    inverse[given] = np.arange(len(given))
    return from_array(inverse)


def _as_numbers(lengths: Any) -> list[int]:
    given = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    return [int(n) for n in given]


def _batch_sizes(lengths: list[int]) -> np.ndarray[Any, Any]:
    """How many sequences have a step 0, 1, …; lengths are sorted, the longest first."""
    step = np.arange(lengths[0])
    return np.asarray((np.asarray(lengths)[:, None] > step).sum(0), np.int64)


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Sequences padded to one length as a PackedSequence.

    Args:
        input: (T, N, …), or (N, T, …) with `batch_first`.
        lengths: of each sequence; a list, or a tensor, whose values are read.
        enforce_sorted: whether sequences must be in the order of their lengths, the longest first.
    """
    sizes = _as_numbers(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    time, batch = input.shape[:2]
    _check_lengths(sizes, time, batch)
    order = None
    if not enforce_sorted:
        places = np.argsort(-np.asarray(sizes), kind="stable")
        order = from_array(places)
        sizes = [sizes[i] for i in places]
        input = input.index_select(1, order)
    elif any(a < b for a, b in pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement"
        )
    steps = _batch_sizes(sizes)
    rows = [np.arange(count) + t * batch for t, count in enumerate(steps)]
    flat = input.reshape(time * batch, *input.shape[2:])
    data = flat.index_select(0, from_array(np.concatenate(rows)))
    return PackedSequence(data, from_array(steps), order)


def _check_lengths(lengths: list[int], time: int, batch: int) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if not lengths or min(lengths) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if max(lengths) > time:
        raise RuntimeError(
            f"Expected lengths of at most {time}, the number of steps of the input; got "
            f"{max(lengths)}"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """A PackedSequence as sequences padded to one length, (T, N, …), and their lengths."""
    steps = np.asarray(sequence.batch_sizes.tolist(), np.int64)
    longest, batch = len(steps), int(steps[0])
    time = longest if total_length is None else total_length
    if time < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    data = sequence.data
    # Every place of the result is a row of the data, or the row of padding behind it.
    rows = np.full((time, batch), len(data), np.int64)
    starts = np.concatenate(([0], np.cumsum(steps)[:-1]))
    column = np.arange(batch)
    inside = column < steps[:, None]
    rows[:longest][inside] = (starts[:, None] + column)[inside]
    lengths = inside.sum(0).astype(np.int64)
    if sequence.unsorted_indices is not None:
        order = np.asarray(sequence.unsorted_indices.tolist(), np.int64)
        rows, lengths = rows[:, order], lengths[order]
    if batch_first:
        rows = rows.T
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    picked = cat([data, padding]).index_select(0, from_array(np.ascontiguousarray(rows).ravel()))
    return picked.reshape(*rows.shape, *data.shape[1:]), from_array(lengths)


def pad_sequence(
    sequences: Iterable[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors (length, …) side by side, the shorter ones padded: (T, N, …)."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side: expected 'left' or 'right', got {padding_side!r}")
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    given = [x if isinstance(x, Tensor) else as_tensor(x) for x in sequences]
    if not given:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max([x.shape[0] for x in given])
    first = given[0]
    padded = []
    for x in given:
        if x.shape[1:] != first.shape[1:]:
            raise RuntimeError(
                f"pad_sequence: expected sequences that differ in length only; got {first.shape} "
                f"and {x.shape}"
            )
        gap = full((longest - x.shape[0], *x.shape[1:]), padding_value, dtype=x.dtype)
        padded.append(cat([x, gap] if padding_side == "right" else [gap, x]).unsqueeze(0))
    whole = cat(padded)
    return whole if batch_first else whole.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The tensors (length, …) that were padded: copies, so that writing to one changes it alone."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    sizes = _as_numbers(lengths)
    return [
        padded_sequences[i][:size].clone(memory_format=contiguous_format)
        for i, size in enumerate(sizes)
    ]


def pack_sequence(sequences: list[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (length, …) as a PackedSequence."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors (length, …) that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
