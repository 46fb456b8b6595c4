"""A variational auto-encoder: a code whose numbers are drawn, so that new digits can be drawn too.

It is trained to raise a lower bound of the likelihood of the images (in nats). The bound on test
digits is compared with the likelihood under pixels that are independent of each other. The digits
come with livegrad.
"""

from common import arguments, distance, pyplot, result, save, show_images

import livegrad as lg
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split
from livegrad.distributions import Bernoulli, Normal, kl_divergence

args = arguments(__doc__)
CODE = 8


class VAE(nn.Module):
    """Images (N, 64) to a distribution of codes, and codes to a distribution of images."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, width), nn.SiLU(), nn.Linear(width, 64))

    def codes(self, images: Tensor) -> Normal:
        mean, log_scale = self.encoder(images).chunk(2, dim=-1)
        return Normal(mean, log_scale.exp())

    def images(self, codes: Tensor) -> Bernoulli:
        return Bernoulli(logits=self.decoder(codes), validate_args=False)

    def bound(self, images: Tensor) -> Tensor:
        """The lower bound of each image's log-likelihood: how well it comes back, minus the code's
        distance from the distribution that new codes are drawn from."""
        codes = self.codes(images)
        drawn = codes.rsample()  # as mean + scale * noise, so that gradients pass
        fits = self.images(drawn).log_prob(images).sum(-1)
        return fits - kl_divergence(codes, Normal(0.0, 1.0)).sum(-1)


# Bernoulli's likelihood is of pixels that are 0 or 1; a pixel's grey is its chance to be 1.
data = digits_split()
images, unseen = [lg.tensor(x).flatten(1) for x in (data.train_images, data.test_images)]
unseen_bits = lg.bernoulli(unseen)

model = VAE()
optimizer = optim.Adam(model.parameters(), lr=3e-3)
steps = 1500 if args.quick else 15_000
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
bounds = []
for _ in (bar := train.progress(range(steps), "training")):
    batch = lg.bernoulli(images[lg.randint(0, len(images), (128,))])
    optimizer.zero_grad()
    loss = -model.bound(batch).mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    bounds.append(-loss)
    bar.set(bound=-loss)

with lg.no_grad():
    bound = lg.stack([model.bound(unseen_bits).mean() for _ in range(20)]).mean().item()
    drawn = model.images(lg.randn(360, CODE)).probs
    # Along the line between two codes digits change into each other.
    first, second = model.codes(unseen[:2]).mean
    between = model.images(lg.lerp(first, second, lg.linspace(0, 1, 10)[:, None])).probs
chances = images.mean(0).clamp(1e-3, 1 - 1e-3)
independent = Bernoulli(chances).log_prob(unseen_bits).sum(-1).mean().item()
independent_draws = lg.bernoulli(chances.expand(360, 64))

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="lower bound of the log-likelihood (nats)", xlabel="step")
    plt.plot(lg.stack(bounds).detach().numpy(), lw=0.5)
    plt.axhline(independent, color="k", ls=":", label="independent pixels")
    plt.ylim(independent - 10, bound + 5)
    plt.legend()
    plt.subplot(122)
    grid = lg.cat([drawn[:40], between]).view(-1, 8, 8)
    show_images(plt, grid, title="drawn; last row: from one to another")
    save(plt, args)

result("distance of drawn digits from true ones", distance(drawn, unseen), at_most=0.05)
result("log-likelihood with independent pixels", independent)
result("lower bound of the VAE", bound, at_least=independent + (2.5 if args.quick else 4))
