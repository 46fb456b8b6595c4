"""REINFORCE: actions that were followed by much reward become likelier. CartPole.

The world is gymnasium's, or our own where gymnasium is not installed. A policy by chance keeps the
pole upright for about 22 steps; 500 is all that there is.
"""

import numpy as np
from cartpole import judge, make
from common import arguments

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

args = arguments(__doc__)
env = make()
env.reset(seed=args.seed)
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def greedy(observation: np.ndarray) -> int:
    with lg.no_grad():
        return int(policy(lg.tensor(observation)).argmax())


def episode() -> tuple[list[lg.Tensor], list[float]]:
    """The log-likelihood of each action that was drawn, and the reward after it."""
    observation, _ = env.reset()
    chances, rewards, over = [], [], False
    while not over:
        logarithms = F.log_softmax(policy(lg.tensor(observation)), dim=-1)
        action = lg.multinomial(logarithms.exp(), 1).item()
        chances.append(logarithms[action])
        observation, reward, fell, ended, _ = env.step(action)
        rewards.append(reward)
        over = fell or ended
    return chances, rewards


def rewards_to_come(rewards: list[float], discount: float = 0.99) -> lg.Tensor:
    """What followed each action, later rewards counting less."""
    sums, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + discount * total
        sums.append(total)
    return lg.tensor(sums[::-1])


history: list[float] = []
most, gather = (300, 3) if args.quick else (1500, 3)  # episodes; how many a step learns from
for _ in (bar := train.progress(range(most // gather), "updates")):
    chances, followed = [], []
    for _ in range(gather):
        some_chances, rewards = episode()
        chances += some_chances
        followed.append(rewards_to_come(rewards))
        history.append(sum(rewards))
    value = lg.cat(followed)
    # Whether it was better or worse than usual is what matters.
    advantage = (value - value.mean()) / (value.std() + 1e-6)
    loss = -(lg.stack(chances) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar.set(steps=sum(history[-20:]) / len(history[-20:]))
    if sum(history[-20:]) / 20 > (100 if args.quick else 495):
        break

judge(greedy, history, args, quick_goal=80)
