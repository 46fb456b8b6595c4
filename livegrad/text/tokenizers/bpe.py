"""Byte-pair encoding of bytes, as GPT-2 and its successors have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from livegrad.text import patterns
from livegrad.text.tokenizers import files
from livegrad.text.tokenizers.base import Tokenizer
from livegrad.text.tokenizers.byte_level import as_characters, as_text, byte_characters
from livegrad.text.tokenizers.merging import Pair, learn_merges, merged

MOST_WORDS = 100_000  # whose tokens are remembered


class BPETokenizer(Tokenizer):
    """Words are cut by a pattern, and bytes of a word merged, the best learnt pair first.

    >>> tokenizer = BPETokenizer.train(["low lower lowest"] * 5, vocab_size=260)
    >>> tokenizer.tokenize("lower low")
    ['low', 'e', 'r', 'Ġlow']
    >>> tokenizer.decode(tokenizer.encode("anything, 😀"))
    'anything, 😀'

    `ignore_merges` takes words that are tokens as they are, whether
    merges lead to them or not. Vocabularies are read by `from_files` and `from_file`.
    """

    def __init__(
        self,
        tokens: dict[str, int],
        merges: Iterable[Pair],
        special_tokens: Iterable[str] = (),
        pattern: str = patterns.GPT2,
        add_prefix_space: bool = False,
        ignore_merges: bool = False,
    ) -> None:
        super().__init__(tokens, special_tokens)
        self.merges = [(left, right) for left, right in merges]
        self.ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self.pattern = pattern
        self.add_prefix_space = add_prefix_space
        self.ignore_merges = ignore_merges
        self._known: dict[str, list[str]] = {}

    # -------------------------------------------------------------------------------- learning

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 30_000,
        min_frequency: int = 0,
        special_tokens: Sequence[str] = (),
        pattern: str = patterns.GPT2,
        progress: Callable[[Iterable[str]], Iterable[str]] = iter,
    ) -> BPETokenizer:
        """A tokeniser with the merges that texts teach; `progress` may wrap them for a bar."""
        least = 256 + len(set(special_tokens))
        if vocab_size < least:
            raise ValueError(
                f"vocab_size must be at least {least}, for all bytes and special tokens, but got"
                f" {vocab_size}"
            )
        words: Counter[str] = Counter()
        cut = patterns.compiled(pattern).findall
        for text in progress(texts):
            words.update(map(as_characters, cut(text)))
        alphabet = sorted(byte_characters().values())
        ids = {token: i for i, token in enumerate(dict.fromkeys([*special_tokens, *alphabet]))}
        merges, ids = learn_merges(words, ids, vocab_size, min_frequency)
        return cls(ids, merges, special_tokens, pattern)

    # ---------------------------------------------------------------------------------- files

    @classmethod
    def from_files(cls, vocab: Any, merges: Any, **options: Any) -> BPETokenizer:
        """From GPT-2's two files, `vocab.json` and `merges.txt`."""
        tokens = files.read_vocab_json(vocab)
        options.setdefault("special_tokens", [x for x in ("<|endoftext|>",) if x in tokens])
        return cls(tokens, files.read_merges(merges), **options)

    @classmethod
    def from_file(cls, path: Any) -> BPETokenizer:
        """From a `tokenizer.json` that has this kind of tokeniser."""
        return cls(**files.read_bpe(Path(path)))

    def save(self, path: Any) -> None:
        """Writes a `tokenizer.json`, which `from_file` and Hugging Face's tokenizers read."""
        files.write_bpe(Path(path), self)

    # ------------------------------------------------------------------------------ text to ids

    def cut(self, text: str) -> list[str]:
        if self.add_prefix_space and not text.startswith(" "):
            text = f" {text}"
        found: list[str] = []
        known = self._known
        for word in map(as_characters, patterns.compiled(self.pattern).findall(text)):
            tokens = known.get(word)
            if tokens is None:
                tokens = self._tokens(word)
                if len(known) < MOST_WORDS:
                    known[word] = tokens
            found += tokens
        return found

    def _tokens(self, word: str) -> list[str]:
        if self.ignore_merges and word in self.token_to_id:
            return [word]
        tokens = merged(word, self.ranks)
        for token in tokens:
            if token not in self.token_to_id:
                raise ValueError(f"the vocabulary has no token {token!r}, which {word!r} needs")
        return tokens

    def join(self, tokens: Sequence[str]) -> str:
        return "".join([run if special else as_text(run) for run, special in self._runs(tokens)])
