"""The one error of `load`, and the limits beyond which a file is refused."""

from __future__ import annotations

# As in the safetensors format itself; data.pkl of a PyTorch file has the same.
MOST_HEADER_BYTES = 100_000_000
# Containers within containers, in what is saved and in what is loaded.
MOST_DEPTH = 100
# Python objects cost many times the bytes they are described with, so their number is limited.
MOST_OBJECTS = 5_000_000
MOST_TENSORS = 1_000_000
MOST_DIMS = 64
MOST_INT_BYTES = 1024
# Sizes and offsets must be numbers that native code can hold.
MOST_ELEMENTS = (1 << 63) - 1


class LoadError(RuntimeError):
    """A file is not what it should be: truncated, corrupt, hostile, or of another kind."""
