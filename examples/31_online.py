"""Online learning: one example at a time, answered and then learnt from, in a world that changes.

The stream is generated: points whose class is decided by a curve that turns slowly and jumps once.
A network that goes on learning is compared with one that stopped after the first tenth.
"""

import copy
import math
import time
from collections.abc import Iterator

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

args = arguments(__doc__)
LENGTH = 4000 if args.quick else 40_000


def stream(length: int) -> Iterator[tuple[lg.Tensor, int]]:
    """Points (4,) with a class: which side of a turning curve they lie on."""
    random = np.random.default_rng(args.seed)
    for i in range(length):
        angle = 2 * math.pi * i / length + (math.pi / 2 if i > 0.6 * length else 0)
        point = random.standard_normal(4).astype(np.float32)
        across = point[0] * math.cos(angle) + point[1] * math.sin(angle)
        along = -point[0] * math.sin(angle) + point[1] * math.cos(angle)
        yield lg.tensor(point), int(across + 0.5 * math.sin(2 * along) > 0)


model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
stopped = model
right: list[bool] = []
stopped_right: list[bool] = []
began = time.perf_counter()
for i, (point, label) in enumerate(bar := train.progress(stream(LENGTH), "stream", total=LENGTH)):
    scores = model(point)
    right.append(int(scores.detach().argmax()) == label)  # answered first
    loss = F.cross_entropy(scores, lg.tensor(label))  # then learnt from
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i == LENGTH // 10:
        stopped = copy.deepcopy(model)
    with lg.no_grad():
        stopped_right.append(int(stopped(point).argmax()) == label)
    if i % 500 == 499:
        bar.set(right=sum(right[-500:]) / 500)
seconds = time.perf_counter() - began

late = LENGTH // 5  # after both have learnt
online = sum(right[late:]) / (LENGTH - late)
frozen = sum(stopped_right[late:]) / (LENGTH - late)
print(f"{LENGTH / seconds:.0f} examples a second, each answered and learnt from by itself")

if plt := pyplot():
    window = np.ones(LENGTH // 20) / (LENGTH // 20)
    plt.figure(figsize=(6, 3.5))
    for name, each in (("goes on learning", right), ("stopped after a tenth", stopped_right)):
        plt.plot(np.convolve(each, window, "valid"), label=name)
    plt.axvline(0.6 * LENGTH, color="k", ls=":", label="the jump")
    plt.title("share of right answers, of the last twentieth")
    plt.xlabel("example")
    plt.legend()
    save(plt, args)

result("right answers of the one that stopped", frozen)
result("right answers of the one that goes on", online, at_least=max(0.8, frozen + 0.2))
