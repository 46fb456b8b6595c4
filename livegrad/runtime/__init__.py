"""The runtime: turns pending nodes into values. Importing it makes it the graph's runtime."""

from livegrad.native.collector import lasting

with lasting():  # the collector would look at the modules of a process again and again
    from livegrad.runtime import counts as counts, flush as flush
    from livegrad.runtime.cpu import host as host
    from livegrad.runtime.cpu.host import get_num_threads, set_num_threads
    from livegrad.runtime.report import Stats, explain, stats

__all__ = [
    "Stats",
    "counts",
    "explain",
    "flush",
    "host",
    "get_num_threads",
    "set_num_threads",
    "stats",
]
