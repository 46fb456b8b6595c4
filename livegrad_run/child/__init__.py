"""What processes that a program starts find on their path: see `sitecustomize.py`."""
