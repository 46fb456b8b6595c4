"""PyTorch's names of the files that hold the layers, such as `nn.modules.conv`."""

from __future__ import annotations

import sys
from typing import Any

from livegrad.nn import (
    activation as activation,
    adaptive as adaptive,
    attention,
    batchnorm as batchnorm,
    class_loss,
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
    ranking_loss,
    recurrent as rnn,
    recurrent_cells,
    sparse as sparse,
    transformer as transformer,
    tuples as utils,
    upsampling as upsampling,
)
from livegrad.nn.module import Module as Module

fold = pixelshuffle = channelshuffle = flatten

# Layers that PyTorch has in another file.
_ELSEWHERE = {
    (activation, attention): "MultiheadAttention",
    (loss, class_loss): "CrossEntropyLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
    "MultiMarginLoss NLLLoss",
    (loss, ranking_loss): "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss "
    "SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss",
    (rnn, recurrent_cells): "GRUCell LSTMCell RNNCell RNNCellBase",
}
for (_there, _here), _names in _ELSEWHERE.items():
    for _name in _names.split():
        setattr(_there, _name, getattr(_here, _name))

__path__: list[str] = []  # what is asked of packages; the files are those of livegrad.nn
# So that `from livegrad.nn.modules.conv import …` finds them, although this is no package.
for _name, _module in list(globals().items()):
    if getattr(_module, "__name__", "").startswith("livegrad.nn."):
        sys.modules.setdefault(f"{__name__}.{_name}", _module)

__all__ = ["Module", "rnn", "utils"]


def __getattr__(name: str) -> Any:
    """All layers are here too."""
    return getattr(sys.modules["livegrad.nn"], name)
