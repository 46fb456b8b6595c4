"""Diffusion: a network learns to see the noise in an image; taking it away step by step draws one.

The digits come with livegrad. How far the drawn digits are from true ones is measured by a distance
between sets of images (maximum mean discrepancy).
"""

import math

from common import arguments, distance, pyplot, result, save, show_images

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
STEPS = 50

# How much of the image is left after t steps of adding noise: from nearly all to nearly nothing.
places = lg.linspace(0, 1, STEPS + 1)
left = lg.cos((places + 0.01) / 1.01 * math.pi / 2) ** 2
left = left / left[0]
betas = (1 - left[1:] / left[:-1]).clamp(max=0.999)
left = lg.cumprod(1 - betas, 0)  # (STEPS,)


class Denoiser(nn.Module):
    """The noise in images (N, 64) of which each has had `t` (N,) steps of it."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.time = nn.Embedding(STEPS, width)
        self.inner = nn.Linear(64, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(3)
        )
        self.outer = nn.Linear(width, 64)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        hidden, when = self.inner(x), self.time(t)
        for block in self.blocks:
            hidden = hidden + block(hidden + when)
        return self.outer(hidden)


@lg.no_grad()
def draw(model: nn.Module, count: int) -> tuple[Tensor, list[Tensor]]:
    """Images from noise, backwards through the steps; and the first ones on the way."""
    x, way = lg.randn(count, 64), []
    for t in reversed(range(STEPS)):
        noise = model(x, lg.full((count,), t))
        # What the image would be without that noise, kept within the range of pixels.
        clean = ((x - (1 - left[t]).sqrt() * noise) / left[t].sqrt()).clamp(-1, 1)
        before = left[t - 1] if t else lg.tensor(1.0)
        mean = before.sqrt() * betas[t] / (1 - left[t]) * clean
        mean = mean + (1 - betas[t]).sqrt() * (1 - before) / (1 - left[t]) * x
        scale = (betas[t] * (1 - before) / (1 - left[t])).sqrt()
        x = mean + scale * lg.randn_like(x)
        if t % 10 == 0:
            way.append(x[:8])
    return x, way


data = digits_split()
images, unseen = [lg.tensor(x).flatten(1) * 2 - 1 for x in (data.train_images, data.test_images)]
model = Denoiser()
averaging = optim.swa_utils.get_ema_multi_avg_fn(0.995)
averaged = optim.swa_utils.AveragedModel(model, multi_avg_fn=averaging)
steps = 1500 if args.quick else 12_000
optimizer = optim.AdamW(model.parameters(), lr=2e-3)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
before = distance(draw(model, 360)[0], unseen)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    clean = images[lg.randint(0, len(images), (64,))]
    t = lg.randint(0, STEPS, (64,))
    noise = lg.randn_like(clean)
    kept = left[t][:, None]
    noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
    optimizer.zero_grad()
    loss = F.mse_loss(model(noisy, t), noise)
    loss.backward()
    optimizer.step()
    scheduler.step()
    averaged.update_parameters(model)
    losses.append(loss)
    bar.set(loss=loss)

drawn, way = draw(averaged, 360)
after = distance(drawn, unseen)
nearest = lg.cdist(drawn, images).min(1).values.mean().item()

if plt := pyplot():
    plt.figure(figsize=(10, 3.5))
    plt.subplot(131, title="loss", xlabel="step")
    plt.semilogy(lg.stack(losses).detach().numpy(), lw=0.5)
    plt.subplot(132)
    show_images(plt, lg.cat(way).view(-1, 8, 8), columns=8, title="from noise to digits")
    plt.subplot(133)
    show_images(plt, drawn[:64].view(-1, 8, 8), columns=8, title="drawn")
    save(plt, args)

print(f"a drawn digit's nearest training digit is {nearest:.2f} away: it is no copy")
result("distance of true digits from other true ones", distance(images[:360], unseen))
result("distance of drawn digits before training", before)
result("distance after training", after, at_most=before / 5)
