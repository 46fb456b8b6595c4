"""Text: tokenisers, vocabularies, corpora, language models and what they write.

| module | holds |
|---|---|
| `tokenizers` | words, bytes, byte pairs (trained here, or from the usual files), pieces of words |
| `vocab`, `field` | tokens as numbers; columns of texts as padded batches |
| `corpora` | labelled texts, pairs of translations |
| `models` | GPT-2, BERT, Llama, T5, with Hugging Face's names of weights |
| `generation` | greedy, drawn and beam search, with caches |
| `metrics` | BLEU, perplexity |
"""

from livegrad.text.corpora import LabelledTexts as LabelledTexts, ParallelCorpus as ParallelCorpus
from livegrad.text.field import Field as Field
from livegrad.text.metrics import bleu_score as bleu_score, perplexity as perplexity
from livegrad.text.tokenizers import (
    BPETokenizer as BPETokenizer,
    ByteTokenizer as ByteTokenizer,
    Tokenizer as Tokenizer,
    WordPieceTokenizer as WordPieceTokenizer,
    basic_english as basic_english,
    get_tokenizer as get_tokenizer,
    ngrams_iterator as ngrams_iterator,
)
from livegrad.text.vocab import (
    Vocab as Vocab,
    build_vocab_from_iterator as build_vocab_from_iterator,
    vocab as vocab,
)
