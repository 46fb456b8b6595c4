"""An auto-encoder: 64 pixels through 4 numbers and back, better than principal components do it.

The digits come with livegrad. It is also trained to remove noise, which a copy could not do.
"""

from common import arguments, pyplot, result, save, show_images

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
CODE = 4
data = digits_split()
images = lg.tensor(data.train_images).flatten(1)
unseen = lg.tensor(data.test_images).flatten(1)


def autoencoder(code: int) -> nn.Sequential:
    """Encoder and decoder: 64 → code → 64."""
    encoder = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, code))
    decoder = nn.Sequential(nn.Linear(code, 128), nn.SiLU(), nn.Linear(128, 64), nn.Sigmoid())
    return nn.Sequential(encoder, decoder)


def principal_components(code: int) -> Tensor:
    """The best linear code of that size: test images through it and back."""
    mean = images.mean(0)
    _, _, directions = lg.linalg.svd(images - mean, full_matrices=False)
    kept = directions[:code]
    return (unseen - mean) @ kept.T @ kept + mean


def learn(model: nn.Module, noise: float, title: str) -> list[float]:
    """Trains a model to give back images of which it sees noisy ones."""
    steps = 1500 if args.quick else 10_000
    optimizer = optim.AdamW(model.parameters(), lr=4e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in (bar := train.progress(range(steps), title)):
        clean = images[lg.randint(0, len(images), (128,))]
        optimizer.zero_grad()
        loss = F.mse_loss(model(clean + noise * lg.randn_like(clean)), clean)
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss)
        bar.set(loss=loss)
    return lg.stack(losses).tolist()


model, denoiser = autoencoder(CODE), autoencoder(24)
losses = learn(model, 0.0, "code of 4 numbers")
learn(denoiser, 0.3, "removing noise")

noisy = unseen + 0.3 * lg.randn_like(unseen)
with lg.no_grad():
    back, cleaned = model(unseen), denoiser(noisy)
    codes = model[0](unseen)
linear = principal_components(CODE)
error = F.mse_loss(back, unseen).item()
linear_error = F.mse_loss(linear, unseen).item()
noise_error, left = F.mse_loss(noisy, unseen).item(), F.mse_loss(cleaned, unseen).item()

if plt := pyplot():
    plt.figure(figsize=(10, 4))
    plt.subplot(131, title="loss", xlabel="step")
    plt.semilogy(losses)
    plt.subplot(132, title="two of the four numbers, by digit")
    plt.scatter(*codes[:, :2].T.numpy(), c=data.test_labels, cmap="tab10", s=8)
    plt.subplot(133)
    rows = [unseen[:8], back[:8], linear[:8], noisy[:8], cleaned[:8]]
    title = "true, code of 4, linear code of 4,\nnoisy, cleaned"
    show_images(plt, lg.cat(rows).clamp(0, 1).view(-1, 8, 8), columns=8, title=title)
    save(plt, args)

result("squared error of 4 principal components", linear_error)
result("squared error of the auto-encoder's 4 numbers", error, at_most=0.8 * linear_error)
result("squared error of noisy images", noise_error)
result("squared error of cleaned images", left, at_most=0.4 * noise_error)
