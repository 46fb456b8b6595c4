"""Optimisers: each rule is written once and recorded as one node over all parameters."""

from __future__ import annotations

from livegrad.optim.adam import Adam, AdamW
from livegrad.optim.optimizer import Optimizer
from livegrad.optim.sgd import SGD
