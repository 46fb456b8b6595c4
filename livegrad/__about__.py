"""The version of livegrad: the only place it is written."""

__version__ = "0.1.0"
