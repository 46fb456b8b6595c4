"""`torchtext.functional`: lists of tokens as tensors of one width."""

from __future__ import annotations

from typing import Any

import livegrad
from livegrad import Tensor
from livegrad.nn.utils.rnn import pad_sequence


def to_tensor(input: Any, padding_value: int | None = None, dtype: Any = livegrad.int64) -> Tensor:
    """Numbers of a text, or of several, which are padded if `padding_value` is given."""
    if padding_value is None:
        return livegrad.tensor(input, dtype=dtype)
    if input and isinstance(input[0], list):
        texts = [livegrad.tensor(text, dtype=dtype) for text in input]
        return pad_sequence(texts, batch_first=True, padding_value=float(padding_value))
    return livegrad.tensor(input, dtype=dtype)


def truncate(input: Any, max_seq_len: int) -> Any:
    """The first tokens of a text, or of each of several."""
    return _each(input, lambda text: text[:max_seq_len])


def add_token(input: Any, token_id: Any, begin: bool = True) -> Any:
    """A text, or several, with one token more."""
    return _each(input, lambda text: [token_id, *text] if begin else [*text, token_id])


def str_to_int(input: Any) -> Any:
    """Numbers that were written as text."""
    return _each(input, lambda text: [int(word) for word in text])


def _each(input: Any, change: Any) -> Any:
    """What a function makes of a text, or of each of several."""
    if input and isinstance(input[0], list):
        return [change(text) for text in input]
    if isinstance(input, list):
        return change(input)
    raise TypeError("Input type not supported")
