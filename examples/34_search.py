"""Search: learning rate, width and dropout are chosen by trying, most of them only briefly.

Successive halving gives many trials a little time, and only the best of them more. The journal lets
an interrupted search go on: run it again with the same `--out`. The digits come with livegrad.
"""

from pathlib import Path

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.datasets import digits_split
from livegrad.train import Choice, Float, Int, Trial

args = arguments(__doc__)
data = [lg.tensor(part) for part in digits_split()]
images, labels, test_images, test_labels = data
images, test_images = images.flatten(1), test_images.flatten(1)
# The search looks at a fifth of the training images; test images are for the end alone.
held = lg.arange(len(images)) % 5 == 0
val_images, val_labels = images[held], labels[held]
images, labels = images[~held], labels[~held]

SPACE = {
    "lr": Float(1e-4, 1.0, log=True),
    "width": Int(8, 128, log=True),
    "dropout": Float(0.0, 0.6),
    "optimizer": Choice(["SGD", "Adam"]),
}
UNIT = 40  # steps for each unit of a trial's budget


def network(params: dict, steps: int) -> nn.Module:
    """A network with these parameters, trained for so many steps."""
    lg.manual_seed(args.seed)
    model = nn.Sequential(
        nn.Linear(64, params["width"]),
        nn.ReLU(),
        nn.Dropout(params["dropout"]),
        nn.Linear(params["width"], 10),
    )
    optimizer = getattr(optim, params["optimizer"])(model.parameters(), lr=params["lr"])
    for _ in range(steps):
        rows = lg.randint(0, len(images), (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    return model.eval()


@lg.no_grad()
def accuracy(model: nn.Module, x: lg.Tensor, y: lg.Tensor) -> float:
    return (model(x).argmax(1) == y).float().mean().item()


def objective(trial: Trial) -> float:
    return accuracy(network(trial.params, UNIT * trial.budget), val_images, val_labels)


if __name__ == "__main__":  # processes of a parallel search import this file
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    found = train.search(
        objective,
        SPACE,
        "halving",
        trials=20 if args.quick else 60,
        mode="max",
        seed=args.seed,
        budget=(1, 9),
        journal=out / "34_search.jsonl",
    )
    found.show(limit=8)
    found.plot(out / "34_search.svg")
    spent = sum(r.budget for r in found.results)
    full = 9 * len({r.number for r in found.results})
    print(f"halving spent {spent} units of {UNIT} steps; all trials in full would take {full}")

    longest = UNIT * 9
    by_trial = {r.number: r.params for r in found.results}
    best = accuracy(network(found.best.params, longest), test_images, test_labels)
    # What one would have got without a search: the first few of the same random parameters.
    some = [by_trial[i] for i in sorted(by_trial)[:8]]
    unsearched = [accuracy(network(p, longest), test_images, test_labels) for p in some]
    typical = sorted(unsearched)[len(unsearched) // 2]

    if plt := pyplot():
        plt.figure(figsize=(9, 3.5))
        for i, name in enumerate(("lr", "width")):
            plt.subplot(1, 2, i + 1, title="accuracy on validation digits", xlabel=name)
            x = [r.params[name] for r in found.done]
            y, budget = [r.value for r in found.done], [r.budget for r in found.done]
            plt.scatter(x, y, c=budget, s=[10 + 8 * b for b in budget], cmap="viridis")
            plt.xscale("log")
        plt.colorbar(label="budget")
        save(plt, args)

    result("share of the time that all in full would take", spent / full, at_most=0.5)
    result("accuracy on test digits, parameters by chance (median)", typical)
    goal = max(typical, 0.93 if args.quick else 0.95)
    result("accuracy on test digits, the best found", best, at_least=goal)
