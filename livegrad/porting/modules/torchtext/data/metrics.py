"""`torchtext.data.metrics`."""

from __future__ import annotations

from livegrad.text import bleu_score as bleu_score
