"""A GAN: one network makes digits, another tells them from true ones; both get better.

The digits come with livegrad. How far the made digits are from true ones is measured by a distance
between sets of images (maximum mean discrepancy) that neither network knows.
"""

from common import arguments, distance, pyplot, result, save, show_images

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
NOISE = 16
data = digits_split()
images = lg.tensor(data.train_images).flatten(1) * 2 - 1  # (1437, 64), from -1 to 1
unseen = lg.tensor(data.test_images).flatten(1) * 2 - 1

generator = nn.Sequential(
    nn.Linear(NOISE, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh()
)
critic = nn.Sequential(
    nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3),
    nn.Linear(128, 128), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(128, 1),
)  # fmt: skip
to_make = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
to_tell = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
some_noise = lg.randn(360, NOISE)


def made() -> lg.Tensor:
    with lg.no_grad():
        return generator(some_noise)


true, false = lg.ones(64, 1), lg.zeros(64, 1)
before = distance(made(), unseen)
steps = 2000 if args.quick else 12_000
history = []
for step in (bar := train.progress(range(steps), "training")):
    real = images[lg.randint(0, len(images), (64,))]
    fake = generator(lg.randn(64, NOISE))

    # The critic learns to say true of real digits, and false of made ones.
    to_tell.zero_grad()
    told = F.binary_cross_entropy_with_logits(critic(real), true * 0.9)
    told = told + F.binary_cross_entropy_with_logits(critic(fake.detach()), false)
    told.backward()
    to_tell.step()

    # The generator learns to make digits of which the critic says true.
    to_make.zero_grad()
    fooled = F.binary_cross_entropy_with_logits(critic(fake), true)
    fooled.backward()
    to_make.step()

    bar.set(critic=told, generator=fooled)
    if step % 100 == 99:
        history.append(distance(made(), unseen))

after = sum(history[-3:]) / 3
floor = distance(images[:360], unseen)
if plt := pyplot():
    plt.figure(figsize=(10, 3.5))
    plt.subplot(131, title="distance to true digits", xlabel="step")
    plt.semilogy(range(100, steps + 1, 100), history)
    plt.axhline(before, ls=":", color="k", label="untrained")
    plt.legend()
    plt.subplot(132)
    show_images(plt, unseen[:40].view(-1, 8, 8), columns=8, title="true")
    plt.subplot(133)
    show_images(plt, made()[:40].view(-1, 8, 8), columns=8, title="made")
    save(plt, args)

result("distance of true digits from other true ones", floor)
result("distance of made digits before training", before)
result("distance after training", after, at_most=before / (5 if args.quick else 10))
