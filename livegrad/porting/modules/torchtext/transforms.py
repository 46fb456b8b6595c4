"""`torchtext.transforms`: the functions as modules, to be put one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import livegrad
from livegrad import Tensor, nn
from livegrad.nn.functional import pad
from livegrad.porting.modules.torchtext import functional
from livegrad.text import Vocab


class Sequential(nn.Sequential):
    """Transforms one after the other."""


class VocabTransform(nn.Module):
    """Tokens as their numbers."""

    def __init__(self, vocab: Vocab) -> None:
        super().__init__()
        self.vocab = vocab

    def forward(self, input: Any) -> Any:
        """The numbers of a text, or of several."""
        if input and isinstance(input[0], list):
            return [self.vocab.lookup_indices(text) for text in input]
        return self.vocab.lookup_indices(input)


class ToTensor(nn.Module):
    """Numbers of texts as a tensor."""

    def __init__(self, padding_value: int | None = None, dtype: Any = livegrad.int64) -> None:
        super().__init__()
        self.padding_value, self.dtype = padding_value, dtype

    def forward(self, input: Any) -> Tensor:
        """The tensor."""
        return functional.to_tensor(input, self.padding_value, self.dtype)


class PadTransform(nn.Module):
    """Tensors filled up at the end, to a given length."""

    def __init__(self, max_length: int, pad_value: int) -> None:
        super().__init__()
        self.max_length, self.pad_value = max_length, float(pad_value)

    def forward(self, x: Tensor) -> Tensor:
        """The tensor, as wide as it should be at least."""
        room = self.max_length - x.size(-1)
        return pad(x, (0, room), value=self.pad_value) if room > 0 else x


class LabelToIndex(nn.Module):
    """Names of classes as numbers: from a list, or a file with one in each line."""

    def __init__(
        self,
        label_names: Sequence[str] | None = None,
        label_path: str | None = None,
        sort_names: bool = False,
    ) -> None:
        super().__init__()
        if (label_names is None) == (label_path is None):
            raise AssertionError("label_names or label_path is required, and not both")
        if label_path is not None:
            with open(label_path, encoding="utf-8") as file:
                label_names = [line.strip() for line in file if line.strip()]
        names = list(label_names or ())
        self._names = sorted(names) if sort_names else names
        self._label_vocab = Vocab(self._names)

    def forward(self, labels: Any) -> Any:
        """The number of a name, or those of several."""
        if isinstance(labels, str):
            return self._label_vocab[labels]
        return self._label_vocab.lookup_indices(labels)

    @property
    def label_names(self) -> list[str]:
        """The names, by number."""
        return self._names


class Truncate(nn.Module):
    """The first tokens of texts."""

    def __init__(self, max_seq_len: int) -> None:
        super().__init__()
        self.max_seq_len = max_seq_len

    def forward(self, x: Any) -> Any:
        """What is left of a text, or of several."""
        return functional.truncate(x, self.max_seq_len)


class AddToken(nn.Module):
    """One token more at the beginning or the end of texts."""

    def __init__(self, token: Any, begin: bool = True) -> None:
        super().__init__()
        self.token, self.begin = token, begin

    def forward(self, input: Any) -> Any:
        """The text, or texts, with the token."""
        return functional.add_token(input, self.token, self.begin)


class StrToIntTransform(nn.Module):
    """Numbers that were written as text."""

    def forward(self, input: Any) -> Any:
        """The numbers."""
        return functional.str_to_int(input)
