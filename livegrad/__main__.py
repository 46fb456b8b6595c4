"""`python -m livegrad` is the command `livegrad`."""

from livegrad.cli import main

if __name__ == "__main__":
    main()
