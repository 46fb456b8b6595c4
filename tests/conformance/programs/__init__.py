"""Public programs, run as they are under PyTorch and under `livegrad run`.

    python -m tests.conformance.programs CHECKOUTS [--only words] [--report docs/programs.md]

CHECKOUTS is a directory with clones of the repositories that `catalogue.py` names, each called
owner+name. Nothing of them is changed: a program runs in a copy of its repository, with small data
files where it looks for its data set, and with arguments that make it short.
What lies in the folder that the variable TORCH_ONLY names is found under PyTorch alone.
"""
