"""A GPT for words: byte pairs that are learnt, GPT-2 from the library, sampling and beams.

    livegrad data get sotu && python 11_word_gpt.py

With `--quick` or without that data it learns little stories that are generated. Tokens are pieces
of words, found by merging frequent pairs of bytes. Its perplexity is compared with that of a model
that counts three tokens.
"""

import json
import math
import random
from collections import Counter

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
from livegrad import Tensor, optim, train
from livegrad.nn.utils.rnn import pad_sequence
from livegrad.text import BPETokenizer
from livegrad.text.models import GPT2Config, GPT2LMHeadModel

args = arguments(__doc__)


def story() -> str:
    """Who gave what to whom: to go on, one must remember names and things from the beginning."""
    giver, taker = random.sample("Anna Ben Clara Dora Emil Fritz Greta Hans".split(), 2)
    thing = random.choice("ball book hat kite lamp cup boat drum".split())
    return f" {giver} gave a {thing} to {taker} . {taker} thanked {giver} for the {thing} ."


root = fetched("sotu", "generated stories", args.quick)
if root is None:
    texts = [story() for _ in range(2000 if args.quick else 5000)]
else:
    lines = (root / "speeches.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines[-60:]]
test_texts, train_texts = texts[::10], [text for i, text in enumerate(texts) if i % 10]

size = 3000 if root else 500
tokenizer = BPETokenizer.train(train_texts, vocab_size=size, special_tokens=["<end>"])
context, batch_size, width, steps = (96, 32, 160, 800) if root else (24, 16, 64, 400)


def rows_of(texts: list[str]) -> Tensor:
    """Pieces of texts as rows of `context` tokens, with -100 after the end of a short one."""
    rows = []
    for text in texts:
        ids = lg.tensor(tokenizer.encode(text + "<end>"))
        rows += ids.split(context)
    return pad_sequence(rows, batch_first=True, padding_value=-100)


rows, test_rows = rows_of(train_texts), rows_of(test_texts)[:400]
print(f"{(rows >= 0).sum().item()} tokens of {len(tokenizer)} kinds; the last that were merged:")
print("  ", [tokenizer.decode([i]) for i in range(len(tokenizer) - 12, len(tokenizer) - 1)])
# A token counts where there is something to look back at: half a piece of a long text.
skipped = context // 2 if root else 3


def trigram_perplexity() -> float:
    """Of a model that counts what follows two tokens, mixed with shorter counts."""
    counts: list[Counter[tuple[int, ...]]] = [Counter(), Counter(), Counter()]
    for ids in rows.tolist():
        for n in range(3):
            counts[n].update(zip(*[ids[i:] for i in range(n + 1)], strict=False))
    chances = []
    for ids in test_rows.tolist():
        for i in range(skipped, len(ids)):
            if ids[i] >= 0:
                chance = (counts[0][(ids[i],)] + 1) / (rows.numel() + len(tokenizer))
                for n in (1, 2):
                    context = tuple(ids[i - n : i])
                    seen = counts[n - 1][context]
                    chance = (counts[n][(*context, ids[i])] + 5 * chance) / (seen + 5)
                chances.append(math.log(chance))
    return math.exp(-sum(chances) / len(chances))


end = tokenizer.token_to_id["<end>"]
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=3 * context,
        n_embd=width,
        n_layer=3 if root else 2,
        n_head=4,
        initializer_range=0.05,
        resid_pdrop=0.1 if root else 0.0,
        embd_pdrop=0.1 if root else 0.0,
        attn_pdrop=0.0,
        eos_token_id=end,
    )
)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
top = 3e-3 if root else 1e-2
optimizer = optim.AdamW(model.parameters(), lr=top, betas=(0.9, 0.98), weight_decay=0.05)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, top, total_steps=steps, pct_start=0.1)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    batch = rows[lg.randint(0, len(rows), (batch_size,))]
    loss = model(batch.clamp(min=0), labels=batch).loss  # each token, from those before it
    optimizer.zero_grad()
    loss.backward()
    lg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    bar.set(loss=loss)

model.eval()
with lg.no_grad():
    total = counted = 0
    for batch in test_rows.split(50):
        labels = batch.clone()
        labels[:, :skipped] = -100
        count = (labels >= 0).sum().item()
        total += model(batch.clamp(min=0), labels=labels).loss.item() * count
        counted += count
    perplexity = math.exp(total / counted)
baseline = trigram_perplexity()

prompt = lg.tensor([tokenizer.encode(" ".join(test_texts[0].split(" ")[:5]))])
count = 25 if args.quick else 60
drawn = model.generate(prompt, max_new_tokens=count, do_sample=True, top_p=0.9, temperature=0.8)
beams = model.generate(prompt, max_new_tokens=count, num_beams=3, no_repeat_ngram_size=3)
for name, written in (("drawn", drawn), ("3 beams", beams)):
    print(f"{name}: {tokenizer.decode(written[0].tolist())!r}")

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="perplexity per token", xlabel="step")
    plt.semilogy([math.exp(loss) for loss in losses])
    plt.axhline(baseline, color="k", ls=":", label="3-gram, test text")
    plt.axhline(perplexity, color="C1", label="GPT-2, test text")
    plt.legend()
    plt.subplot(122, title="what it writes")
    plt.axis("off")
    text = tokenizer.decode(drawn[0].tolist()).replace("$", "\\$")
    plt.text(0, 0.5, text, wrap=True, fontsize=10, va="center")
    save(plt, args)

result("perplexity of a 3-gram model", baseline)
result("perplexity of GPT-2", perplexity, at_most=baseline)
