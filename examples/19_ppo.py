"""PPO: several passes over what was just seen, in steps that do not go too far. CartPole.

The world is gymnasium's, or our own where gymnasium is not installed; by chance the pole stays
upright for about 22 steps, 500 is all that there is.
"""

import numpy as np
from cartpole import judge, make
from common import arguments

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
WORLDS, LENGTH, DISCOUNT, TRACE, CLIP, PASSES, BATCH = 8, 64, 0.99, 0.95, 0.2, 4, 128

actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
parameters = [*actor.parameters(), *critic.parameters()]
rounds = 40 if args.quick else 250
optimizer = optim.Adam(parameters, lr=3e-3)
scheduler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=rounds)
worlds = [make() for _ in range(WORLDS)]
states = np.stack([env.reset(seed=args.seed + i)[0] for i, env in enumerate(worlds)])
lived, history = np.zeros(WORLDS), []


def greedy(observation: np.ndarray) -> int:
    with lg.no_grad():
        return int(actor(lg.tensor(observation)).argmax())


@lg.no_grad()
def explore() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """States, actions, their log-likelihoods, advantages and values, one row for each step."""
    global states, lived
    seen, acted, likely, rewards, overs = [], [], [], [], []
    for _ in range(LENGTH):
        logarithms = F.log_softmax(actor(lg.tensor(states)), dim=-1)
        actions = lg.multinomial(logarithms.exp(), 1)
        likely.append(logarithms.gather(1, actions)[:, 0])
        seen.append(states)
        acted.append(actions[:, 0])
        after = [env.step(a) for env, a in zip(worlds, actions[:, 0].tolist(), strict=True)]
        states = np.stack([row[0] for row in after])
        rewards.append([row[1] for row in after])
        overs.append([row[2] or row[3] for row in after])
        lived += 1
        for i in np.flatnonzero(overs[-1]):
            history.append(float(lived[i]))
            lived[i] = 0
            states[i] = worlds[i].reset()[0]
    places = lg.tensor(np.stack(seen))
    values = critic(places)[..., 0].numpy()
    next_value, ahead = critic(lg.tensor(states))[:, 0].numpy(), np.zeros(WORLDS, np.float32)
    advantages = np.zeros_like(values)
    for t in reversed(range(LENGTH)):
        goes_on = 1 - np.array(overs[t], np.float32)
        surprise = np.array(rewards[t], np.float32) + DISCOUNT * next_value * goes_on - values[t]
        ahead = surprise + DISCOUNT * TRACE * ahead * goes_on
        next_value, advantages[t] = values[t], ahead
    gained = lg.tensor(advantages)
    rows = (places, lg.stack(acted), lg.stack(likely), gained, gained + lg.tensor(values))
    return tuple(x.flatten(0, 1) for x in rows)


for _ in (bar := train.progress(range(rounds), "rounds")):
    places, actions, before, advantages, targets = explore()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    for _ in range(PASSES):
        for rows in lg.randperm(len(places)).split(BATCH):
            logarithms = F.log_softmax(actor(places[rows]), dim=-1)
            now = logarithms.gather(1, actions[rows, None])[:, 0]
            # How much likelier the action has become; beyond the clip nothing more is gained.
            ratio, advantage = (now - before[rows]).exp(), advantages[rows]
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            gain = lg.minimum(ratio * advantage, clipped * advantage).mean()
            entropy = -(logarithms.exp() * logarithms).sum(-1).mean()
            wrong = F.mse_loss(critic(places[rows])[:, 0], targets[rows])
            optimizer.zero_grad()
            (-gain + 0.5 * wrong - 0.01 * entropy).backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    scheduler.step()
    bar.set(steps=float(np.mean(history[-20:])))
    if np.sum(history[-20:]) / 20 > (180 if args.quick else 498):
        break

judge(greedy, history, args, quick_goal=150)
