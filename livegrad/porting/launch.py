"""`python -m torch.distributed.run train.py`, which is `torchrun`: for one process, this one.

Its script is run as `livegrad run` runs one: tracebacks begin with the script's own lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from livegrad.distributed.run import become_worker
from livegrad_run import running


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the script that the options name, in this process."""
    options = become_worker(arguments)
    run = running.run_module if options.module else running.run_script
    run(options.training_script, options.training_script_args)


if __name__ == "__main__":
    del sys.path[0]  # put there for this module; the script's own directory comes instead
    main()
