"""Neural networks: modules, parameters, losses, initial values."""

from __future__ import annotations

from livegrad.nn import functional, init, utils
from livegrad.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from livegrad.nn.container import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from livegrad.nn.dropout import Dropout
from livegrad.nn.linear import Bilinear, Flatten, Identity, Linear, Unflatten
from livegrad.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineSimilarity,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from livegrad.nn.module import Module
from livegrad.nn.normalization import LayerNorm, RMSNorm
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.nn.sparse import Embedding
