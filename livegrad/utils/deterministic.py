"""`torch.utils.deterministic`: results do not vary from run to run, whatever is said here."""

from __future__ import annotations

fill_uninitialized_memory = True
