"""Metrics: figures about many batches, by `update`, `compute` and `reset`."""

from __future__ import annotations

from livegrad.train.metrics.averages import (
    ExponentialMean as ExponentialMean,
    Maximum as Maximum,
    Mean as Mean,
    Minimum as Minimum,
    RunningMean as RunningMean,
    Sum as Sum,
)
from livegrad.train.metrics.base import (
    Metric as Metric,
    Metrics as Metrics,
)
from livegrad.train.metrics.classification import (
    F1 as F1,
    Accuracy as Accuracy,
    Dice as Dice,
    FBeta as FBeta,
    IoU as IoU,
    Precision as Precision,
    Recall as Recall,
    Specificity as Specificity,
)
from livegrad.train.metrics.confusion import (
    CohenKappa as CohenKappa,
    ConfusionMatrix as ConfusionMatrix,
    MatthewsCorrelation as MatthewsCorrelation,
)
from livegrad.train.metrics.ranking import (
    AUC as AUC,
    AveragePrecision as AveragePrecision,
    precision_recall_curve as precision_recall_curve,
    roc_curve as roc_curve,
)
from livegrad.train.metrics.regression import (
    MeanAbsoluteError as MeanAbsoluteError,
    MeanAbsolutePercentageError as MeanAbsolutePercentageError,
    MeanSquaredError as MeanSquaredError,
    PearsonCorrelation as PearsonCorrelation,
    R2Score as R2Score,
    RootMeanSquaredError as RootMeanSquaredError,
)
from livegrad.train.metrics.text import (
    BLEU as BLEU,
    Perplexity as Perplexity,
)
