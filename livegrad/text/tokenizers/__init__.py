"""Tokenisers: words, bytes, byte pairs, pieces of words."""

from livegrad.text.tokenizers.base import Tokenizer as Tokenizer
from livegrad.text.tokenizers.bpe import BPETokenizer as BPETokenizer
from livegrad.text.tokenizers.byte_level import ByteTokenizer as ByteTokenizer
from livegrad.text.tokenizers.wordpiece import WordPieceTokenizer as WordPieceTokenizer
from livegrad.text.tokenizers.words import (
    basic_english as basic_english,
    get_tokenizer as get_tokenizer,
    ngrams_iterator as ngrams_iterator,
)
