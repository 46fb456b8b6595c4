"""PyTorch's names of the files that hold the layers, such as `nn.modules.conv`."""

from __future__ import annotations

import sys

from livegrad.nn import (
    activation as activation,
    adaptive as adaptive,
    batchnorm as batchnorm,
    container as container,
    conv as conv,
    distance as distance,
    dropout as dropout,
    flatten as flatten,
    instancenorm as instancenorm,
    lazy as lazy,
    linear as linear,
    loss as loss,
    module as module,
    normalization as normalization,
    padding as padding,
    pooling as pooling,
    recurrent as rnn,
    sparse as sparse,
    transformer as transformer,
    tuples as utils,
    upsampling as upsampling,
)
from livegrad.nn.module import Module as Module

fold = pixelshuffle = flatten

# So that `from livegrad.nn.modules.conv import …` finds them, although this is no package.
for _name, _module in list(globals().items()):
    if getattr(_module, "__name__", "").startswith("livegrad.nn."):
        sys.modules.setdefault(f"{__name__}.{_name}", _module)

__all__ = ["Module", "rnn", "utils"]
