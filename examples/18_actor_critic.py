"""Actor and critic: one network acts, another says how good the state is, which steadies learning.

Several worlds run side by side, and the network learns every few steps, not at the end of episodes.
CartPole is gymnasium's, or our own where gymnasium is not installed; by chance the pole stays
upright for about 22 steps, 500 is all that there is.
"""

import numpy as np
from cartpole import judge, make
from common import arguments

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
WORLDS, LENGTH, DISCOUNT, TRACE = 8, 16, 0.99, 0.95


class ActorCritic(nn.Module):
    """Scores of the actions (N, 2), and the value of the state (N,)."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        self.critic = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(states), self.critic(states)[..., 0]


model = ActorCritic()
steps = 500 if args.quick else 4000
optimizer = optim.Adam(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=steps)
worlds = [make() for _ in range(WORLDS)]
states = np.stack([env.reset(seed=args.seed + i)[0] for i, env in enumerate(worlds)])
lived, history = np.zeros(WORLDS), []


def greedy(observation: np.ndarray) -> int:
    with lg.no_grad():
        return int(model.actor(lg.tensor(observation)).argmax())


for _ in (bar := train.progress(range(steps), "updates")):
    seen, acted, rewards, falls = [], [], [], []
    for _ in range(LENGTH):
        with lg.no_grad():
            chances = F.softmax(model.actor(lg.tensor(states)), dim=-1)
            actions = lg.multinomial(chances, 1)[:, 0].numpy()
        seen.append(states)
        acted.append(actions)
        after = [env.step(int(a)) for env, a in zip(worlds, actions, strict=True)]
        states = np.stack([row[0] for row in after])
        rewards.append(np.array([row[1] for row in after], np.float32))
        falls.append(np.array([row[2] or row[3] for row in after]))
        lived += 1
        for i in np.flatnonzero(falls[-1]):
            history.append(float(lived[i]))
            lived[i] = 0
            states[i] = worlds[i].reset()[0]

    scores, values = model(lg.tensor(np.stack(seen)))  # (LENGTH, WORLDS, 2) and (LENGTH, WORLDS)
    with lg.no_grad():
        # Advantages: how much better it went than the critic said, over several steps ahead.
        next_value, ahead, found = model(lg.tensor(states))[1], lg.zeros(WORLDS), []
        for t in reversed(range(LENGTH)):
            goes_on = lg.tensor(~falls[t]).float()
            surprise = lg.tensor(rewards[t]) + DISCOUNT * next_value * goes_on - values[t]
            ahead = surprise + DISCOUNT * TRACE * ahead * goes_on
            next_value = values[t]
            found.append(ahead)
        advantage = lg.stack(found[::-1])
        target = advantage + values
    chosen = F.log_softmax(scores, -1).gather(-1, lg.tensor(np.stack(acted))[..., None])[..., 0]
    entropy = -(F.softmax(scores, -1) * F.log_softmax(scores, -1)).sum(-1).mean()
    scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    loss = -(chosen * scaled).mean() + 0.5 * F.smooth_l1_loss(values, target) - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    bar.set(steps=float(np.mean(history[-20:])) if history else 0.0)
    if np.sum(history[-20:]) / 20 > (170 if args.quick else 498):
        break

judge(greedy, history, args, quick_goal=150)
