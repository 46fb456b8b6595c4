"""Translation: an encoder and a decoder with attention, teacher forcing, and beam search.

    livegrad data get translation-de && python 09_translation.py

With `--quick` or without that data, numbers in words ("ninety two", "zwei und neunzig") are made:
looking up word by word is not enough. BLEU is compared with copying, and with such a look-up.
"""

import random
from collections import Counter
from typing import Any

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.text import Field, ParallelCorpus, bleu_score
from livegrad.utils.data import DataLoader, LengthBucketSampler

args = arguments(__doc__)
ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand"
).split()
GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig "
    "neunzig hundert tausend"
).split()


def in_words(n: int, words: list[str]) -> str:
    """A number below a million, as it is said."""
    for size, word in ((1000, words[-1]), (100, words[-2])):
        if n >= size:
            rest = " " + in_words(n % size, words) if n % size else ""
            return f"{in_words(n // size, words)} {word}{rest}"
    if n < 20 or n % 10 == 0:
        return words[n] if n < 20 else words[18 + n // 10]
    tens, ones = words[18 + n // 10], words[n % 10]
    return f"{ones} und {tens}" if words is GERMAN else f"{tens} {ones}"


def merit(row: tuple[float, list[int], Any, Any]) -> float:
    """How good a translation is: its likelihood, of which each word of a longer one takes some."""
    return row[0] / len(row[1]) ** 0.6


class Translator(nn.Module):
    """GRUs that read and write; at each word the writer looks back at all that was read."""

    def __init__(self, source_words: int, target_words: int, width: int) -> None:
        super().__init__()
        self.read = nn.Embedding(source_words, width)
        self.written = nn.Embedding(target_words, width)
        self.encoder = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.ask = nn.Linear(width, width, bias=False)
        self.join = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.2)
        self.outer = nn.Linear(width, target_words)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What was read (N, S, width), and the state (1, N, width) that writing begins with."""
        memory, last = self.encoder(self.drop(self.read(source)))
        return memory, lg.cat([last[0], last[1]], dim=-1)[None]

    def decode(
        self, words: Tensor, state: Tensor, memory: Tensor, there: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scores of the word after each of `words` (N, T), the next state, and where it looked."""
        hidden, state = self.decoder(self.drop(self.written(words)), state)
        likeness = self.ask(hidden) @ memory.mT  # (N, T, S)
        looked = F.softmax(likeness.masked_fill(~there[:, None], -1e9), dim=-1)
        joined = lg.tanh(self.join(lg.cat([hidden, looked @ memory], dim=-1)))
        return self.outer(self.drop(joined)), state, looked

    def search(self, source: Tensor, begin: int, end: int, beams: int) -> tuple[list[int], Any]:
        """The likeliest translation of one sentence (1, S), and where each word looked."""
        memory, state = self.encode(source)
        there = lg.ones_like(source).bool()
        done, open_ = [], [(0.0, [begin], state, [])]  # log-likelihood, words, state, looks
        for _ in range(24):
            words = lg.tensor([row[1][-1:] for row in open_])
            states = lg.cat([row[2] for row in open_], dim=1)
            read = memory.expand(len(open_), -1, -1), there.expand(len(open_), -1)
            scores, states, looks = self.decode(words, states, *read)
            values, indices = [x.tolist() for x in F.log_softmax(scores[:, -1], -1).topk(beams)]
            longer = sorted(
                (-so_far - value, i, word)
                for i, (so_far, *_) in enumerate(open_)
                for value, word in zip(values[i], indices[i], strict=True)
            )
            rows = [
                (-cost, [*open_[i][1], word], states[:, i : i + 1], [*open_[i][3], looks[i]])
                for cost, i, word in longer[:beams]
            ]
            done += [row for row in rows if row[1][-1] == end]
            open_ = [row for row in rows if row[1][-1] != end]
            if not open_ or (done and max(map(merit, done)) > merit(open_[0])):
                break
        best_row = max(done or open_, key=merit)
        return best_row[1], best_row[3]


root = fetched("translation-de", "generated numbers in words", args.quick)
if root is None:
    numbers = random.sample(range(10_000), 1500 if args.quick else 4000)
    corpus = ParallelCorpus([(in_words(n, ENGLISH), in_words(n, GERMAN)) for n in numbers])
    width, epochs, rare = 48, 12 if args.quick else 10, 1
else:
    both = ParallelCorpus.from_csv(root / "pairs.tsv")
    corpus = both.filter(lambda a, b: 2 <= len(a.split()) <= 8 and len(b.split()) <= 9)
    random.shuffle(corpus.pairs)
    width, epochs, rare = 128, 20, 2
held = 100 if args.quick else 400
pairs, test_pairs = corpus.pairs[held:], corpus.pairs[:held]
source_field = Field("basic_english", lower=True)
target_field = Field("basic_english", lower=True, init_token="<s>", eos_token="</s>")
source_field.build_vocab([a for a, _ in pairs], min_freq=rare)
target_field.build_vocab([b for _, b in pairs], min_freq=rare)
print(f"{len(pairs)} pairs, {len(source_field.vocab)} and {len(target_field.vocab)} words")
pad, begin, end = [target_field.vocab[x] for x in ("<pad>", "<s>", "</s>")]


def collate(samples: list[tuple[str, str]]) -> tuple[Tensor, Tensor]:
    return source_field([a for a, _ in samples]), target_field([b for _, b in samples])


sampler = LengthBucketSampler(ParallelCorpus(pairs).lengths(), batch_size=64)
loader = DataLoader(pairs, batch_sampler=sampler, collate_fn=collate)
model = Translator(len(source_field.vocab), len(target_field.vocab), width)
optimizer = optim.AdamW(model.parameters(), lr=4e-3 if root is None else 2e-3)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
for epoch in range(epochs):
    for source, target in (bar := train.progress(loader, f"epoch {epoch + 1}/{epochs}")):
        memory, state = model.encode(source)
        there = source != source_field.vocab["<pad>"]
        # Teacher forcing: it is given the true words so far, and says each time what comes next.
        scores, _, _ = model.decode(target[:, :-1], state, memory, there)
        loss = F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        bar.set(loss=loss)

# The baseline: for each English word the German one that it occurs with most exclusively.
together, left, right = Counter(), Counter(), Counter()
for a, b in pairs:
    words, others = set(source_field.preprocess(a)), set(target_field.preprocess(b))
    left.update(words)
    right.update(others)
    together.update((x, y) for x in words for y in others)
lookup: dict[str, tuple[float, str]] = {}
for (x, y), n in together.items():
    lookup[x] = max(lookup.get(x, (0.0, x)), (n / (left[x] + right[y]), y))


def in_full(tokens: list[str], written: list[int], looked: list[Tensor]) -> list[str]:
    """The words; one that is not in the vocabulary is looked up where the writer looked."""
    words = target_field.vocab.lookup_tokens([x for x in written if x not in (begin, end)])
    asked = [tokens[int(look.argmax())] for look in looked]
    both = zip(words, asked, strict=False)  # it also looked for the end
    return [lookup.get(x, (0.0, x))[1] if word == "<unk>" else word for word, x in both]


found: dict[str, list[list[str]]] = {"copy": [], "look-up": [], "greedy": [], "4 beams": []}
model.eval()
with lg.no_grad():
    for a, _ in train.progress(test_pairs, "translating"):
        tokens = source_field.preprocess(a)
        found["copy"].append(tokens)
        found["look-up"].append([lookup.get(x, (0.0, x))[1] for x in tokens])
        for name, beams in (("greedy", 1), ("4 beams", 4)):
            written, looked = model.search(source_field([a]), begin, end, beams)
            found[name].append(in_full(tokens, written, looked))
wanted = [[target_field.preprocess(b)] for _, b in test_pairs]
bleu = {name: bleu_score(texts, wanted) for name, texts in found.items()}
for i in range(3):
    print(" → ".join([test_pairs[i][0], " ".join(found["4 beams"][i]), " ".join(wanted[i][0])]))

if plt := pyplot():
    plt.figure(figsize=(9, 4))
    plt.subplot(121, title="BLEU")
    plt.bar(list(bleu), list(bleu.values()))
    plt.subplot(122, title="where each word looked (last test sentence)")
    plt.imshow(lg.cat(looked).numpy(), cmap="Greys")
    plt.xticks(range(len(tokens)), tokens, rotation=60)
    plt.yticks(range(len(written) - 1), target_field.vocab.lookup_tokens(written[1:]))
    save(plt, args)

result("BLEU of copying", bleu["copy"])
result("BLEU of looking up word by word", bleu["look-up"])
result("BLEU, greedy", bleu["greedy"])
goal = max(bleu["copy"], bleu["look-up"], 0.0 if root else 0.8)
result("BLEU with 4 beams", bleu["4 beams"], at_least=goal)
