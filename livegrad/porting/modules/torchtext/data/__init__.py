"""`torchtext.data`."""

from __future__ import annotations

from livegrad.porting.modules.torchtext.data import (
    functional as functional,
    metrics as metrics,
    utils as utils,
)
from livegrad.porting.modules.torchtext.data.functional import (
    custom_replace as custom_replace,
    numericalize_tokens_from_iterator as numericalize_tokens_from_iterator,
    simple_space_split as simple_space_split,
    to_map_style_dataset as to_map_style_dataset,
)
from livegrad.text import (
    bleu_score as bleu_score,
    get_tokenizer as get_tokenizer,
    ngrams_iterator as ngrams_iterator,
)
