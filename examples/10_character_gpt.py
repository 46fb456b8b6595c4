"""A GPT written from scratch, for characters: attention, blocks, training, and text it makes up.

    livegrad data get moby-dick && python 10_character_gpt.py

With `--quick` or without that data it learns the reference of Python that comes with Python
(`pydoc_data`). Its perplexity is compared with that of a model that counts three characters.
"""

import math
from collections import Counter

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)


class Block(nn.Module):
    """Each place looks at those before it, then thinks by itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, width / heads)
        looked = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(looked.transpose(1, 2).reshape(batch, length, width))
        return x + self.think(self.norms[1](x))


class GPT(nn.Module):
    """Scores of the next token at every place."""

    def __init__(self, tokens: int, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(tokens, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.outer = nn.Linear(width, tokens, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(lg.arange(ids.shape[1]))
        return self.outer(self.norm(self.blocks(x)))

    def write(self, ids: list[int], count: int, temperature: float = 0.8) -> list[int]:
        """`count` more tokens, each drawn by its likelihood."""
        for _ in range(count):
            scores = self(lg.tensor([ids[-self.context :]]))[0, -1]
            ids = [*ids, lg.multinomial(F.softmax(scores / temperature, -1), 1).item()]
        return ids


def trigram_perplexity(ids: list[int], test: list[int], tokens: int) -> float:
    """Of a model that counts what follows two characters, mixed with shorter counts."""
    counts = [Counter(zip(*[ids[i:] for i in range(n)], strict=False)) for n in (1, 2, 3)]
    before = [Counter(zip(*[ids[i:] for i in range(n)], strict=False)) for n in (1, 2)]
    total = 0.0
    for a, b, c in zip(test, test[1:], test[2:], strict=False):
        chance = (counts[0][(c,)] + 1) / (len(ids) + tokens)
        for n, context in ((1, (b,)), (2, (a, b))):
            seen = before[n - 1][context]  # counts are trusted the more, the more there are
            chance = (counts[n][(*context, c)] + 5 * chance) / (seen + 5)
        total -= math.log(chance)
    return math.exp(total / (len(test) - 2))


root = fetched("moby-dick", "Python's own reference (pydoc_data)", args.quick)
if root is None:
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
else:
    text = (root / "moby-dick.txt").read_text(encoding="utf-8")
text = text[: 150_000 if args.quick else None]
letters = sorted(set(text))
numbers = {letter: i for i, letter in enumerate(letters)}
ids = [numbers[letter] for letter in text]
cut = int(0.9 * len(ids))
data, test = lg.tensor(ids[:cut]), ids[cut : cut + (8_000 if args.quick else 50_000)]
print(f"{len(ids)} characters, {len(letters)} different ones")

context, batch_size = (48, 24) if args.quick else (96, 32)
model = GPT(len(letters), context, width=64 if args.quick else 128, layers=2, heads=4)
steps, top = (400, 8e-3) if args.quick else (600, 3e-3)
optimizer = optim.AdamW(model.parameters(), lr=top, betas=(0.9, 0.98), weight_decay=0.01)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, top, total_steps=steps, pct_start=0.1)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    starts = lg.randint(0, len(data) - context - 1, (batch_size, 1))
    chunk = data[starts + lg.arange(context + 1)]  # (batch, context + 1)
    scores = model(chunk[:, :-1])
    loss = F.cross_entropy(scores.flatten(0, 1), chunk[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    bar.set(loss=loss)

with lg.no_grad():
    # Pieces overlap by half; only the second half counts, where there is enough to look back at.
    half = context // 2
    chunks = lg.tensor(test).unfold(0, context + 1, half)
    total = 0.0
    for c in chunks.split(64):
        scores, wanted = model(c[:, :-1])[:, half:], c[:, half + 1 :]
        total += F.cross_entropy(scores.flatten(0, 1), wanted.flatten()).item() * len(c)
    perplexity = math.exp(total / len(chunks))
    start = [numbers[letter] for letter in text[:20]]
    sample = "".join(letters[i] for i in model.write(start, 120 if args.quick else 400))
baseline = trigram_perplexity(ids[:cut], test, len(letters))
print(f"it writes: {sample!r}")

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="perplexity per character", xlabel="step")
    plt.semilogy([math.exp(loss) for loss in losses])
    plt.axhline(baseline, color="k", ls=":", label="3-gram, test text")
    plt.axhline(perplexity, color="C1", label="GPT, test text")
    plt.legend()
    plt.subplot(122, title="what it writes")
    plt.axis("off")
    plt.text(0, 0.5, sample[:300].replace("$", "\\$"), wrap=True, fontsize=10, va="center")
    save(plt, args)

result("perplexity of a 3-gram model", baseline)
result("perplexity of the GPT", perplexity, at_most=baseline)
