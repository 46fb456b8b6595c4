"""MAML: weights from which a few examples are enough. It differentiates through its own learning.

Tasks are sine curves of another height and phase each; five points are given. The network learns
weights from which one step of gradient descent fits a new curve. The gradient of what is left after
that step goes through the step itself: a gradient of a gradient. Beside it is a network that is
trained on all tasks at once, and takes the same step.
"""

import math

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.func import functional_call, grad, vmap

args = arguments(__doc__)
GIVEN, RATE = 5, 0.02
Weights = dict[str, Tensor]


def tasks(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x and y of five given points and of ten others of each curve, each (count, n, 1)."""
    height = lg.empty(count, 1, 1).uniform_(0.5, 4)
    phase = lg.empty(count, 1, 1).uniform_(0, math.pi)
    x = lg.empty(count, GIVEN + 10, 1).uniform_(-5, 5)
    y = height * lg.sin(x + phase)
    return x[:, :GIVEN], y[:, :GIVEN], x[:, GIVEN:], y[:, GIVEN:]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)
    )


model, plain = network(), network()


def loss_of(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(functional_call(model, weights, (x,)), y)


def adapted(weights: Weights, x: Tensor, y: Tensor, steps: int = 1) -> Weights:
    """The weights after steps of gradient descent on the given points."""
    for _ in range(steps):
        slopes = grad(loss_of)(weights, x, y)
        weights = {name: w - RATE * slopes[name] for name, w in weights.items()}
    return weights


def after_steps(weights: Weights, x: Tensor, y: Tensor, ox: Tensor, oy: Tensor) -> Tensor:
    """What is wrong at other points of the curve, after the step."""
    return loss_of(adapted(weights, x, y), ox, oy)


each_task = vmap(after_steps, in_dims=(None, 0, 0, 0, 0))  # all tasks of a batch at once
steps = 1500 if args.quick else 15_000
weights = dict(model.named_parameters())
optimizer = optim.Adam(model.parameters(), lr=3e-3 if args.quick else 1e-3)
usual = optim.Adam(plain.parameters(), lr=3e-3 if args.quick else 1e-3)
history = []
for _ in (bar := train.progress(range(steps), "training")):
    x, y, other_x, other_y = tasks(16)
    optimizer.zero_grad()
    loss = each_task(weights, x, y, other_x, other_y).mean()
    loss.backward()
    optimizer.step()

    usual.zero_grad()
    F.mse_loss(plain(other_x), other_y).backward()
    usual.step()
    history.append(loss)
    bar.set(left=loss)

# New curves: how wrong it is after 0, 1, 3 and 10 steps on five points.
x, y, other_x, other_y = tasks(300)
left: dict[str, list[float]] = {"MAML": [], "trained on all at once": []}
counts = (0, 1, 3, 10)
for name, net in (("MAML", model), ("trained on all at once", plain)):
    start = {key: value.detach() for key, value in net.named_parameters()}
    for count in counts:

        def wrong(x: Tensor, y: Tensor, ox: Tensor, oy: Tensor) -> Tensor:
            return loss_of(adapted(start, x, y, count), ox, oy)  # noqa: B023

        left[name].append(vmap(wrong)(x, y, other_x, other_y).mean().item())
    print(f"{name}, error after {counts} steps: " + ", ".join(f"{x:.3f}" for x in left[name]))

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="error on new curves", xlabel="steps of adaptation")
    for name, errors in left.items():
        plt.plot(counts, errors, "o-", label=name)
    plt.legend()
    plt.subplot(122, title="a new curve from five points")
    line = lg.linspace(-5, 5, 100)[:, None]
    start = {key: value.detach() for key, value in model.named_parameters()}
    plt.plot(x[0].flatten().numpy(), y[0].flatten().numpy(), "ko")
    for count in counts:
        curve = functional_call(model, adapted(start, x[0], y[0], count), (line,))
        plt.plot(line.flatten().numpy(), curve.flatten().detach().numpy(), label=f"{count} steps")
    plt.legend(fontsize=8)
    save(plt, args)

before, after = left["MAML"][0], left["MAML"][1]
result("error before adaptation", before)
result("error after one step, trained on all at once", left["trained on all at once"][1])
result("error after one step, MAML", after, at_most=(0.7 if args.quick else 0.4) * before)
