"""DQN: a network learns what each action is worth, from a memory of what happened. CartPole.

The world is gymnasium's, or our own where gymnasium is not installed; by chance the pole stays
upright for about 22 steps, 500 is all that there is.
"""

import copy
import random

import numpy as np
from cartpole import judge, make, returns
from common import arguments

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

args = arguments(__doc__)
Row = np.ndarray
DISCOUNT, BATCH, KEEP, HOLD = 0.99, 64, 50_000, 256
steps, curious = (6000, 2500) if args.quick else (60_000, 10_000)  # in all; until it acts by itself


class Memory:
    """The last steps: state, action, reward, next state, whether it fell then."""

    def __init__(self, size: int) -> None:
        self.states = np.zeros((size, 2, 4), np.float32)  # before and after
        self.actions = np.zeros(size, np.int64)
        self.rewards = np.zeros(size, np.float32)
        self.fell = np.zeros(size, np.float32)
        self.count = 0
        self.random = np.random.default_rng(args.seed)

    def add(self, before: Row, action: int, reward: float, after: Row, fell: bool) -> None:
        place = self.count % len(self.actions)
        self.states[place] = before, after
        self.actions[place], self.rewards[place], self.fell[place] = action, reward, fell
        self.count += 1

    def draw(self, count: int) -> list[lg.Tensor]:
        rows = self.random.integers(0, min(self.count, len(self.actions)), count)
        before, after = self.states[rows, 0], self.states[rows, 1]
        columns = (before, self.actions[rows], self.rewards[rows], after, self.fell[rows])
        return [lg.tensor(x) for x in columns]


layers = [nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)]
worth = nn.Sequential(*layers)
steady = copy.deepcopy(worth)  # stays for HOLD steps: a target that does not run away
optimizer = optim.Adam(worth.parameters(), lr=2e-3)
memory = Memory(KEEP)
env = make()


def greedy(observation: np.ndarray) -> int:
    with lg.no_grad():
        return int(worth(lg.tensor(observation)).argmax())


state, _ = env.reset(seed=args.seed)
history: list[float] = []
best, best_weights = 0.0, copy.deepcopy(worth.state_dict())
lived = 0
for step in (bar := train.progress(range(steps), "steps")):
    explores = random.random() < max(0.04, 1 - step / curious)
    action = random.randrange(2) if explores else greedy(state)
    after, reward, fell, ended, _ = env.step(action)
    memory.add(state, action, reward, after, fell)
    state, lived = after, lived + 1
    if fell or ended:
        history.append(lived)
        state, lived = env.reset()[0], 0
        bar.set(steps=float(np.mean(history[-10:])))
    if step < 500 or step % 2:
        continue

    before, actions, rewards, afters, falls = memory.draw(BATCH)
    with lg.no_grad():  # what follows: chosen by one network, judged by the other (double DQN)
        choice = worth(afters).argmax(1, keepdim=True)
        target = rewards + DISCOUNT * (1 - falls) * steady(afters).gather(1, choice)[:, 0]
    loss = F.smooth_l1_loss(worth(before).gather(1, actions[:, None])[:, 0], target)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(worth.parameters(), 10.0)
    optimizer.step()
    if step % HOLD == 0:
        steady.load_state_dict(worth.state_dict())
    if step > curious and step % 1000 == 0:  # the best network so far is kept
        tried = float(np.mean(returns(greedy, 20, seed=5000)))
        if tried >= best:
            best, best_weights = tried, copy.deepcopy(worth.state_dict())
        if best >= (200 if args.quick else 500):
            break

worth.load_state_dict(best_weights)
judge(greedy, history, args, quick_goal=100)
