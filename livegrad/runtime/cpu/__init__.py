"""The CPU back end: compile IR text, run plans of compiled kernels, hand out memory."""
