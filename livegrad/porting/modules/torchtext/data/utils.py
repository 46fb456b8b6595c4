"""`torchtext.data.utils`."""

from __future__ import annotations

from livegrad.text import get_tokenizer as get_tokenizer, ngrams_iterator as ngrams_iterator
