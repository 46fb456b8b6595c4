"""Optimisers: each rule is written once and recorded as one node over all parameters."""

from __future__ import annotations

from livegrad.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from livegrad.optim.adam import (
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    NAdam as NAdam,
    RAdam as RAdam,
    SparseAdam as SparseAdam,
)
from livegrad.optim.asgd import ASGD as ASGD
from livegrad.optim.lbfgs import LBFGS as LBFGS
from livegrad.optim.matrix import (
    Adafactor as Adafactor,
    Muon as Muon,
)
from livegrad.optim.optimizer import Optimizer as Optimizer
from livegrad.optim.scaled import (
    Adadelta as Adadelta,
    Adagrad as Adagrad,
    RMSprop as RMSprop,
)
from livegrad.optim.sgd import SGD as SGD
from livegrad.optim.signed import (
    Lion as Lion,
    Rprop as Rprop,
)
