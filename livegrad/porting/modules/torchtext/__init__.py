"""`torchtext`: the helpers of texts that programs import, from `livegrad.text`.

Torchtext itself ends where PyTorch 2.4 begins. Nothing is downloaded: data sets and word vectors
are read from the files that torchtext would have put in its folder.
"""

from __future__ import annotations

from livegrad.porting.modules.torchtext import (
    data as data,
    datasets as datasets,
    functional as functional,
    transforms as transforms,
    utils as utils,
    vocab as vocab,
)

__version__ = "0.18.0"  # the last there is


def disable_torchtext_deprecation_warning() -> None:
    """Nothing: there is no such warning here."""
