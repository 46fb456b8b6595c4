"""Is a sentence positive or negative? A recurrent network and a Transformer against a bag of words.

    livegrad data get sentiment && python 08_sentences.py

With `--quick` or without that data, sentences are generated; their words may be negated ("not at
all good, never boring"), which a bag of words cannot see: it does not know the order. The networks
also look into words, so that one they have never met ("unfunniest") tells them something.
"""

import random
import zlib
from functools import cache
from typing import Any

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.text import Field, LabelledTexts
from livegrad.utils.data import DataLoader, LengthBucketSampler, random_split

args = arguments(__doc__)


class Bag(nn.Module):
    """The mean of the words' vectors, whatever their order."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.outer = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, pieces: Tensor, lengths: Tensor) -> Tensor:
        mask = lg.arange(tokens.shape[1]) < lengths[:, None]
        return self.outer((self.embed(tokens) * mask[..., None]).sum(1) / lengths[:, None])


PIECES, MOST = 8000, 24  # rows for pieces of words, 0 for none; pieces of one word


@cache
def pieces_of(word: str) -> list[int]:
    """Three to five letters each: "<good>" has "<go", "goo", … in rows that chance picks."""
    word = f"<{word}>"
    found = [word[i : i + n] for n in (3, 4, 5) for i in range(len(word) - n + 1)][:MOST]
    rows = [1 + zlib.crc32(piece.encode()) % (PIECES - 1) for piece in found]
    return rows + [0] * (MOST - len(rows))


class Words(nn.Module):
    """A word's vector: its own, and those of its pieces."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.whole = nn.Embedding(words, width)
        self.parts = nn.Embedding(PIECES, width, padding_idx=0)
        nn.init.normal_(self.whole.weight, std=0.3)
        nn.init.normal_(self.parts.weight[1:], std=0.3)

    def forward(self, tokens: Tensor, pieces: Tensor) -> Tensor:
        count = (pieces > 0).sum(-1, keepdim=True).clamp(min=1)
        return self.whole(tokens) + self.parts(pieces).sum(2) / count.sqrt()


class Recurrent(nn.Module):
    """An LSTM reads the sentence in both directions; the mean of the words is there beside it."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.embed = Words(words, width)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.5)
        self.outer = nn.Linear(2 * width, 2)

    def forward(self, tokens: Tensor, pieces: Tensor, lengths: Tensor) -> Tensor:
        vectors = self.drop(self.embed(tokens, pieces))
        packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        mask = (lg.arange(states.shape[1]) < lengths[:, None])[..., None]
        mean = (vectors * mask).sum(1) / lengths[:, None]
        found = lg.cat([states.masked_fill(~mask, -1e9).amax(1), mean], dim=1)
        return self.outer(self.drop(found))


class Attentive(nn.Module):
    """A Transformer: every word looks at every other."""

    def __init__(self, words: int, width: int = 64) -> None:
        super().__init__()
        self.embed = Words(words, width)
        self.places = nn.Embedding(64, width)
        nn.init.normal_(self.places.weight, std=0.5)
        layer = nn.TransformerEncoderLayer(
            width, 4, 2 * width, dropout=0.2, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.drop = nn.Dropout(0.3)
        self.outer = nn.Linear(width, 2)

    def forward(self, tokens: Tensor, pieces: Tensor, lengths: Tensor) -> Tensor:
        places = lg.arange(tokens.shape[1])
        mask = places < lengths[:, None]
        x = self.drop(self.embed(tokens, pieces) + self.places(places))
        x = self.encoder(x, src_key_padding_mask=~mask) * mask[..., None]
        return self.outer(x.sum(1) / lengths[:, None])


def generated(count: int) -> LabelledTexts:
    """Sentences of two to four judgements, some of them negated, with the sign of their sum."""
    good, bad = (
        "good nice bright funny warm clever".split(),
        "bad dull dark boring cold silly".split(),
    )
    fillers = "the film was really quite and then it seemed so very , again".split()
    texts: list[str] = []
    labels: list[str] = []
    while len(texts) < count:
        total, words = 0, []
        for _ in range(random.randint(2, 4)):
            sign, negated = random.choice((1, -1)), random.random() < 0.5
            words += random.choices(fillers, k=random.randint(1, 2)) + ["not"] * negated
            words.append(random.choice(good if sign > 0 else bad))
            total += -sign if negated else sign
        if total:
            texts.append(" ".join(words))
            labels.append("positive" if total > 0 else "negative")
    return LabelledTexts(texts, labels)


root = fetched("sentiment", "generated sentences with negations", args.quick)
if root is None:
    data, epochs = generated(3000), 5 if args.quick else 10
else:
    lines = [line for path in sorted(root.glob("*.tsv")) for line in path.read_text().splitlines()]
    rows = [line.split("\t", 1) for line in lines]
    rows = [row for row in rows if abs(float(row[0])) > 0.5]  # neither good nor bad: left out
    data = LabelledTexts([x for _, x in rows], ["pos" if float(s) > 0 else "neg" for s, _ in rows])
    epochs = 12
train_set, val_set, test_set = random_split(data, [0.7, 0.15, 0.15])
field = Field("basic_english", lower=True, include_lengths=True, preprocessing=lambda x: x[:64])
field.build_vocab([text for text, _ in train_set], min_freq=1 if root is None else 2)
print(f"{len(train_set)} sentences, {len(test_set)} for testing, {len(field.vocab)} words")


def collate(samples: list[tuple[str, int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    texts = [field.preprocess(text) for text, _ in samples]
    tokens, lengths = field.process([text for text, _ in samples])
    none = [[0] * MOST]
    rows = [[*map(pieces_of, words)] + none * (tokens.shape[1] - len(words)) for words in texts]
    return tokens, lg.tensor(rows), lengths, lg.tensor([label for _, label in samples])


sizes = [len(field.preprocess(text)) for text, _ in train_set]
size, rate = (32, 2e-3) if root is None else (64, 1e-3)
sampler = LengthBucketSampler(sizes, batch_size=size)  # sentences of similar length together
loader = DataLoader(train_set, batch_sampler=sampler, collate_fn=collate)


def accuracy(model: nn.Module, texts: Any) -> float:
    model.eval()
    with lg.no_grad():
        batches = DataLoader(texts, batch_size=200, collate_fn=collate)
        right = [(model(t, p, n).argmax(1) == y).sum() for t, p, n, y in batches]
    return sum(x.item() for x in right) / len(texts)


curves, tested = {}, {}  # by epoch on validation sentences; once on test sentences
models = {"bag of words": Bag, "LSTM": Recurrent, "Transformer": Attentive}
for name, kind in models.items():
    model = kind(len(field.vocab))
    optimizer = optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    curves[name] = []
    for epoch in range(epochs):
        model.train()
        bar = train.progress(loader, f"{name}, epoch {epoch + 1}/{epochs}")
        for tokens, pieces, lengths, labels in bar:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(tokens, pieces, lengths), labels)
            loss.backward()
            optimizer.step()
            bar.set(loss=loss)
        curves[name].append(accuracy(model, val_set))
        if curves[name][-1] == max(curves[name]):  # the best epoch so far
            tested[name] = accuracy(model, test_set)
    print(f"{name}: {max(curves[name]):.3f} on validation, {tested[name]:.3f} on test sentences")

if plt := pyplot():
    plt.figure(figsize=(6, 3.5))
    for name, curve in curves.items():
        plt.plot(range(1, epochs + 1), curve, "o-", label=name)
    plt.title("accuracy on validation sentences")
    plt.xlabel("epoch")
    plt.legend()
    save(plt, args)

baseline, gain = tested["bag of words"], 0.1 if root is None else 0.0
result("bag of words", baseline)
result("Transformer", tested["Transformer"], at_least=baseline + gain if root is None else None)
result("LSTM", tested["LSTM"], at_least=baseline + gain)
