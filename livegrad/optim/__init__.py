"""Optimisers: each rule is written once and recorded as one node over all parameters."""

from __future__ import annotations

from livegrad.optim.adam import (
    Adam as Adam,
    AdamW as AdamW,
)
from livegrad.optim.optimizer import Optimizer as Optimizer
from livegrad.optim.sgd import SGD as SGD
