"""The old name of `livegrad.distributed.run`: `python -m livegrad.distributed.launch script.py`."""

from __future__ import annotations

from livegrad.distributed.run import main

if __name__ == "__main__":
    main()
