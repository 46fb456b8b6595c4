"""A field: all that is done to one column of texts, from strings to padded batches of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from livegrad import Tensor, int64, tensor
from livegrad.nn.utils.rnn import pad_sequence
from livegrad.text.tokenizers.words import get_tokenizer
from livegrad.text.vocab import Vocab, build_vocab_from_iterator


class Field:
    """Texts to padded batches of numbers.

        "A cat." ─ tokenize ─► a cat . ─ vocab ─► 1, 5, 9, 7, 2 ─ batch ─► Tensor (batch, longest)
                                                  ▲           ▲
                                             init_token   eos_token

    >>> field = Field(lower=True, init_token="<s>", eos_token="</s>")
    >>> field.build_vocab(["A cat sat", "a dog sat"])
    >>> field.process(["a cat", "a bird sat"])
    tensor([[2, 4, 6, 3, 1],
            [2, 4, 0, 5, 3]])
    """

    def __init__(
        self,
        tokenize: Any = None,
        lower: bool = False,
        init_token: str | None = None,
        eos_token: str | None = None,
        pad_token: str = "<pad>",
        unk_token: str | None = "<unk>",
        batch_first: bool = True,
        include_lengths: bool = False,
        fix_length: int | None = None,
        preprocessing: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        self.tokenize = get_tokenizer(tokenize)
        self.lower = lower
        self.init_token, self.eos_token = init_token, eos_token
        self.pad_token, self.unk_token = pad_token, unk_token
        self.batch_first = batch_first
        self.include_lengths = include_lengths
        self.fix_length = fix_length
        self.preprocessing = preprocessing
        self._vocab: Vocab | None = None

    @property
    def vocab(self) -> Vocab:
        """The vocabulary that `build_vocab` made."""
        if self._vocab is None:
            raise RuntimeError("this field has no vocabulary yet: call build_vocab first")
        return self._vocab

    @vocab.setter
    def vocab(self, vocab: Vocab) -> None:
        self._vocab = vocab

    def preprocess(self, text: str | Sequence[str]) -> list[str]:
        """The tokens of a text, without those that mark its ends."""
        tokens = self.tokenize(text) if isinstance(text, str) else list(text)
        if self.lower:
            tokens = [token.lower() for token in tokens]
        return tokens if self.preprocessing is None else self.preprocessing(tokens)

    def build_vocab(
        self, texts: Iterable[str | Sequence[str]], min_freq: int = 1, max_size: int | None = None
    ) -> None:
        """Makes the vocabulary of texts; `max_size` counts tokens that are not special."""
        marks = (self.unk_token, self.pad_token, self.init_token, self.eos_token)
        special = list(dict.fromkeys([mark for mark in marks if mark is not None]))
        most = None if max_size is None else max_size + len(special)
        tokens = (self.preprocess(text) for text in texts)
        self._vocab = build_vocab_from_iterator(tokens, min_freq, special, max_tokens=most)
        if self.unk_token is not None:
            self._vocab.set_default_index(self._vocab[self.unk_token])

    def numbers(self, text: str | Sequence[str]) -> list[int]:
        """The numbers of a text, with those that mark its ends; at most `fix_length` of them."""
        marks = (self.init_token is not None) + (self.eos_token is not None)
        tokens = self.preprocess(text)
        if self.fix_length is not None:
            tokens = tokens[: max(self.fix_length - marks, 0)]
        begin = [] if self.init_token is None else [self.init_token]
        end = [] if self.eos_token is None else [self.eos_token]
        return self.vocab(begin + tokens + end)

    def process(self, batch: Iterable[str | Sequence[str]]) -> Tensor | tuple[Tensor, Tensor]:
        """A batch of texts as numbers, padded at the end; with lengths if the field has them."""
        rows = [tensor(self.numbers(text), dtype=int64) for text in batch]
        if not rows:
            raise ValueError("a batch has at least one text")
        lengths = tensor([len(row) for row in rows], dtype=int64)
        padding = self.vocab[self.pad_token]
        if self.fix_length is not None:  # the longest row says how long all are
            missing = self.fix_length - len(rows[0])
            rows[0] = tensor(rows[0].tolist() + [padding] * missing, dtype=int64)
        padded = pad_sequence(rows, batch_first=self.batch_first, padding_value=padding)
        return (padded, lengths) if self.include_lengths else padded

    __call__ = process

    def texts(self, numbers: Any) -> list[list[str]]:
        """The tokens of a batch of numbers, up to the end of each, without marks."""
        rows = numbers if self.batch_first or not isinstance(numbers, Tensor) else numbers.t()
        return [self._tokens(row) for row in (rows.tolist() if isinstance(rows, Tensor) else rows)]

    def _tokens(self, row: Sequence[int]) -> list[str]:
        tokens = self.vocab.lookup_tokens(row)
        if self.eos_token in tokens:
            tokens = tokens[: tokens.index(self.eos_token)]
        return [token for token in tokens if token not in (self.init_token, self.pad_token)]
