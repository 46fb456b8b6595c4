"""How many threads share the work of a kernel: items of products are cut accordingly.

Results do not depend on it. Items repeat some of what is brought together for them, so more of them
than threads need would be a waste.
"""


class Shares:
    """Set by the runtime."""

    threads = 1

    @classmethod
    def items(cls) -> int:
        """As many work items as are enough: some more than threads, which do not start at once."""
        return 1 if cls.threads == 1 else 4 * cls.threads
