"""Forecasting with a temporal convolutional network: causal, dilated, each layer sees twice as far.

The series is generated: the use of electricity by hour, with days, weeks, slow drift, and heating
that follows a temperature. The next 24 hours are forecast from the last week; beside it are the two
usual baselines, "as yesterday" and "as a week ago".
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
AHEAD, BEHIND = 24, 168


def series(hours: int) -> np.ndarray:
    """The use by hour, (hours,)."""
    random = np.random.default_rng(args.seed)
    t = np.arange(hours)
    day, week = 2 * np.pi * t / 24, (t // 24) % 7
    weather = np.zeros(hours)
    for i in range(1, hours):  # temperature wanders, and returns
        weather[i] = 0.985 * weather[i - 1] + 0.15 * random.standard_normal()
    working = np.where(week < 5, 1.0, 0.55)
    use = working * (np.sin(day - 2) + 0.5 * np.sin(2 * day)) + np.maximum(0, -weather)
    return (use + 0.3 * np.sin(t / 900) + 0.1 * random.standard_normal(hours)).astype(np.float32)


class Causal(nn.Module):
    """x + f(x), f seeing only what was: padded on the left alone."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.inner = nn.Conv1d(width, width, 3, dilation=dilation)
        self.outer = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(F.relu(self.inner(F.pad(x, (self.pad, 0)))))


class TCN(nn.Module):
    """Series (N, BEHIND) to the next AHEAD values (N, AHEAD)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        layers = [Causal(width, 2**i) for i in range(7)]  # sees 1 + 2 * (2**7 - 1) = 255 hours
        self.body = nn.Sequential(nn.Conv1d(1, width, 1), *layers)
        self.head = nn.Linear(width + AHEAD, AHEAD)

    def forward(self, x: Tensor) -> Tensor:
        last_day = x[:, -AHEAD:]  # the network says how tomorrow differs from it
        features = self.body(x[:, None])[:, :, -1]
        return last_day + self.head(lg.cat([features, last_day], dim=1))


values = lg.tensor(series(24 * 7 * (40 if args.quick else 150)))
values = (values - values.mean()) / values.std()
windows = values.unfold(0, BEHIND + AHEAD, 1)  # every stretch of a week and a day
cut = int(0.8 * len(windows))
past, future = windows[:cut, :BEHIND], windows[:cut, BEHIND:]
unseen = windows[cut + BEHIND + AHEAD :]  # shares no hour with what was learnt from
test_past, test_future = unseen[:, :BEHIND], unseen[:, BEHIND:]
print(f"data: {len(values)} generated hours; {len(past)} stretches, {len(test_past)} for testing")

model = TCN()
steps = 400 if args.quick else 4000
optimizer = optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    rows = lg.randint(0, len(past), (32,))
    optimizer.zero_grad()
    loss = F.smooth_l1_loss(model(past[rows]), future[rows])
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss)
    bar.set(loss=loss)

with lg.no_grad():
    found = lg.cat([model(x) for x in test_past.split(200)])
forecasts = {
    "as yesterday": test_past[:, -AHEAD:],
    "as a week ago": test_past[:, -BEHIND : -BEHIND + AHEAD],
    "TCN": found,
}
errors = {name: (x - test_future).abs().mean().item() for name, x in forecasts.items()}

if plt := pyplot():
    plt.figure(figsize=(10, 3.5))
    plt.subplot(131, title="loss", xlabel="step")
    plt.semilogy(lg.stack(losses).detach().numpy())
    plt.subplot(132, title="a day, forecast")
    plt.plot(test_future[100].numpy(), "k", label="true")
    for name, each in forecasts.items():
        plt.plot(each[100].numpy(), label=name, lw=2 if name == "TCN" else 0.8)
    plt.legend(fontsize=8)
    plt.subplot(133, title="error by hours ahead")
    for name, each in forecasts.items():
        plt.plot((each - test_future).abs().mean(0).numpy(), label=name)
    save(plt, args)

for name, error in errors.items():
    result(f"mean absolute error, {name}", error)
baseline = min(errors["as yesterday"], errors["as a week ago"])
gain = errors["TCN"] / baseline
result("error of the TCN, of the better baseline's", gain, at_most=0.9 if args.quick else 0.8)
