"""Event files for TensorBoard, written without TensorBoard."""

from __future__ import annotations

from livegrad.utils.tensorboard.writer import SummaryWriter as SummaryWriter
