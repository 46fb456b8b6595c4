"""A conditional GAN: digits on demand. Both networks are told which digit it is to be.

The digits come with livegrad. A classifier that is trained beside, on true digits alone, says how
many of the made ones are the digit that was asked for.
"""

from common import arguments, distance, pyplot, result, save, show_images

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
NOISE = 12


class Generator(nn.Module):
    """Noise (N, 12) and digits (N,) to images (N, 64)."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.which = nn.Embedding(10, 16)
        self.layers = nn.Sequential(
            nn.Linear(NOISE + 16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, 64), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        return self.layers(lg.cat([noise, self.which(labels)], dim=1))


class Critic(nn.Module):
    """Whether an image is a true one of that digit: its features against those of the digit."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width), nn.LeakyReLU(0.2), nn.Dropout(0.3),
            nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Dropout(0.3),
        )  # fmt: skip
        self.any_digit = nn.Linear(width, 1)
        self.which = nn.Embedding(10, width)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        features = self.layers(images)
        alike = (features * self.which(labels)).sum(1) / features.shape[1] ** 0.5
        return self.any_digit(features)[:, 0] + alike


images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
images, test_images = images.flatten(1), test_images.flatten(1)


def batch() -> tuple[Tensor, Tensor]:
    rows = lg.randint(0, len(images), (64,))
    return images[rows], labels[rows]


judge = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = optim.Adam(judge.parameters(), lr=5e-3)
for _ in train.progress(range(500), "classifier"):
    x, y = batch()
    optimizer.zero_grad()
    F.cross_entropy(judge(x), y).backward()
    optimizer.step()
trusted = (judge(test_images).argmax(1) == test_labels).float().mean().item()
print(f"the classifier is right about {trusted:.1%} of true test digits")

generator, critic = Generator(), Critic()
to_make = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
to_tell = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
asked = lg.arange(10).repeat(36)
noise = lg.randn(360, NOISE)


def obeyed() -> float:
    """How many of the made digits the classifier takes for what was asked."""
    with lg.no_grad():
        return (judge(generator(noise, asked)).argmax(1) == asked).float().mean().item()


before = obeyed()
far = distance(generator(noise, asked), test_images)
history = []
for step in (bar := train.progress(range(2000 if args.quick else 12_000), "GAN")):
    real, digit = batch()
    fake = generator(lg.randn(64, NOISE), digit)
    to_tell.zero_grad()
    told = F.softplus(-critic(real, digit)).mean() + F.softplus(critic(fake.detach(), digit)).mean()
    told.backward()
    to_tell.step()
    to_make.zero_grad()
    fooled = F.softplus(-critic(fake, digit)).mean()
    fooled.backward()
    to_make.step()
    bar.set(critic=told, generator=fooled)
    if step % 100 == 99:
        history.append(obeyed())
near = distance(generator(noise, asked), test_images)

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="made digits that are what was asked for", xlabel="hundred steps")
    plt.plot([before, *history])
    plt.subplot(122)
    made = generator(noise, asked)[:50].view(-1, 8, 8)
    show_images(plt, made, title="asked for: 0 1 2 3 4 5 6 7 8 9")
    save(plt, args)

result("distance to true digits before", far)
result("distance to true digits after", near, at_most=far / 5)
result("digits that are what was asked, before", before)
result("digits that are what was asked, after", history[-1], at_least=0.6 if args.quick else 0.9)
