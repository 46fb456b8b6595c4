"""int8 against float32: LeNet on digits and a BERT-style encoder on sentences, with 1 and 2 threads.

    python -m benchmarks.int8 [lenet] [bert]

Both are trained here for a moment, then quantised: LeNet statically, the encoder dynamically. The
sentences are made up: their mood is that of most of their adjectives.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import compress, nn
from livegrad.datasets import digits_split
from livegrad.text.models import BertConfig, BertForSequenceClassification
from livegrad.vision.models import lenet


def trained(model: Any, batch: Any, steps: int, lr: float) -> None:
    """A moment of training; `batch(step)` gives inputs and labels."""
    optimizer = lg.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def accuracy(inputs: Any, labels: Any) -> Any:
    """A function that scores a model on these."""
    return lambda model: (model(inputs).argmax(1) == labels).float().mean().item()


def of_lenet() -> None:
    """Images of 28 by 28, 64 at a time."""
    split = digits_split()
    sets = [lg.tensor(x) for x in split]
    images, tests = [
        F.interpolate(x[:, None], (28, 28), mode="bilinear") for x in (sets[0], sets[2])
    ]
    lg.manual_seed(0)
    model = lenet()
    rng = np.random.default_rng(0)

    def batch(step: int) -> Any:
        rows = lg.tensor(rng.integers(0, len(images), 64))
        return images[rows], sets[1][rows]

    trained(model, batch, 700, 2e-3)
    model.eval()
    model.qconfig = compress.get_default_qconfig()
    prepared = compress.prepare(model)
    prepared(images[:256])
    small = compress.convert(prepared)
    score = accuracy(tests, sets[3])
    both = {"float32": model, "int8": small}
    for threads in (1, 2):
        lg.set_num_threads(threads)
        print(f"LeNet, 64 images, {threads} thread(s)")
        print(compress.compare(both, images[:64], score=score, repeats=60), "\n")


WORDS = "the film was good bad fine poor and it is a plot actor with very".split()
_GOOD, _BAD = [[WORDS.index(w) for w in words] for words in (("good", "fine"), ("bad", "poor"))]


def sentences(count: int, length: int, rng: np.random.Generator) -> Any:
    """Sentences of word numbers, and whether more of their three adjectives are good than bad."""
    plain = [i for i in range(len(WORDS)) if i not in (*_GOOD, *_BAD)]
    out = rng.choice(plain, (count, length))
    moods = rng.integers(0, 2, (count, 3))
    for row, good in enumerate(moods):
        at = rng.choice(length, 3, replace=False)
        out[row, at] = [rng.choice(_GOOD if mood else _BAD) for mood in good]
    return lg.tensor(out), lg.tensor((moods.sum(1) > 1).astype(np.int64))


class Encoder(nn.Module):
    """BERT of four layers; logits alone."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=len(WORDS), hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
            intermediate_size=1024, max_position_embeddings=64, num_labels=2,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        self.bert = BertForSequenceClassification(config)

    def forward(self, ids: Any) -> Any:
        """(N, 2)."""
        return self.bert(ids).logits


def of_bert() -> None:
    """Sentences of 32 words, 16 at a time."""
    rng = np.random.default_rng(0)
    lg.manual_seed(0)
    model = Encoder()
    trained(model, lambda step: sentences(32, 12, rng), 120, 3e-4)
    model.eval()
    ids, labels = sentences(500, 12, rng)
    small = compress.quantize_dynamic(model, {nn.Linear, nn.Embedding})
    both, batch = {"float32": model, "int8": small}, sentences(16, 32, rng)[0]
    for threads in (1, 2):
        lg.set_num_threads(threads)
        print(f"BERT-style encoder, 16 sentences of 32 words, {threads} thread(s)")
        print(compress.compare(both, batch, score=accuracy(ids, labels), repeats=40), "\n")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["lenet", "bert"]
    if "lenet" in wanted:
        of_lenet()
    if "bert" in wanted:
        of_bert()
