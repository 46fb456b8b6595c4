"""Helpers for training that leave the loop to you, and `fit` for those who want one call."""

from __future__ import annotations

from livegrad.train.accumulate import Accumulate as Accumulate
from livegrad.train.checkpointer import Checkpointer as Checkpointer
from livegrad.train.config import (
    ConfigError as ConfigError,
    load_config as load_config,
    save_config as save_config,
)
from livegrad.train.early_stopping import EarlyStopping as EarlyStopping
from livegrad.train.fit import Run as Run, evaluate as evaluate, fit as fit
from livegrad.train.history import History as History
from livegrad.train.lr_finder import LRFinding as LRFinding, lr_find as lr_find
from livegrad.train.metrics import (
    AUC as AUC,
    BLEU as BLEU,
    F1 as F1,
    Accuracy as Accuracy,
    AveragePrecision as AveragePrecision,
    CohenKappa as CohenKappa,
    ConfusionMatrix as ConfusionMatrix,
    Dice as Dice,
    ExponentialMean as ExponentialMean,
    FBeta as FBeta,
    IoU as IoU,
    MatthewsCorrelation as MatthewsCorrelation,
    Maximum as Maximum,
    Mean as Mean,
    MeanAbsoluteError as MeanAbsoluteError,
    MeanAbsolutePercentageError as MeanAbsolutePercentageError,
    MeanSquaredError as MeanSquaredError,
    Metric as Metric,
    Metrics as Metrics,
    Minimum as Minimum,
    PearsonCorrelation as PearsonCorrelation,
    Perplexity as Perplexity,
    Precision as Precision,
    R2Score as R2Score,
    Recall as Recall,
    RootMeanSquaredError as RootMeanSquaredError,
    RunningMean as RunningMean,
    Specificity as Specificity,
    Sum as Sum,
)
from livegrad.train.progress import Progress as Progress, progress as progress
from livegrad.train.run_state import load_run as load_run, save_run as save_run
from livegrad.train.search import SearchResult as SearchResult, search as search
from livegrad.train.search_space import Choice as Choice, Float as Float, Int as Int
from livegrad.train.search_workers import Trial as Trial
from livegrad.train.seeding import seed_everything as seed_everything
from livegrad.train.summary import Summary as Summary, summary as summary
