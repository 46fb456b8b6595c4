"""Reinforcement learning on the cart and its pole: policy gradients, and deep Q-learning."""

import importlib
import random
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from benchmarks.changing.base import Step, filled
from benchmarks.changing.cartpole import CartPole
from benchmarks.frameworks import Namespace

DISCOUNT = 0.99


def _policy(t: Namespace, rng: np.random.Generator) -> Any:
    layers = (t.nn.Linear(4, 128), t.nn.ReLU(), t.nn.Linear(128, 2))
    return filled(t, rng, t.nn.Sequential(*layers))


def _returns(t: Namespace, rewards: list[float]) -> Any:
    """What came after each step of an episode, discounted and normalised."""
    total = 0.0
    found: deque[float] = deque()
    for reward in reversed(rewards):
        total = reward + DISCOUNT * total
        found.appendleft(total)
    returns = t.xp.tensor(list(found))
    return (returns - returns.mean()) / (returns.std() + 1e-6)


def reinforce(t: Namespace, seed: int) -> Step:
    """Observations and actions are given, nothing is read until the episode's loss."""
    xp, F, chance = t.xp, t.F, random.Random(seed)
    rng = np.random.default_rng(seed)
    policy = _policy(t, rng)
    optimiser = t.optim.Adam(policy.parameters(), lr=1e-3)
    observations = rng.standard_normal((400, 4)).astype("f")

    def step() -> Any:
        chosen, rewards = [], []
        for i in range(chance.randrange(100, 401)):
            logits = policy(xp.tensor(observations[i]).unsqueeze(0))
            chosen.append(F.log_softmax(logits, dim=1)[0, chance.randrange(2)])
            rewards.append(chance.random())
        returns = _returns(t, rewards)
        loss = xp.stack([-log * gain for log, gain in zip(chosen, returns, strict=True)]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


def reinforce_cartpole(t: Namespace, seed: int) -> Step:
    """Every action is sampled and read, as the environment wants it."""
    xp, F, chance = t.xp, t.F, random.Random(seed)
    categorical = importlib.import_module(f"{xp.__name__}.distributions").Categorical
    policy = _policy(t, np.random.default_rng(seed))
    optimiser = t.optim.Adam(policy.parameters(), lr=1e-3)
    world = CartPole(seed)

    def act(state: Any) -> tuple[int, Any]:
        """An action drawn with a number that both frameworks share, and its log-probability."""
        probabilities = F.softmax(policy(xp.tensor([state])), dim=1)
        action = int(chance.random() > probabilities[0, 0].item())
        return action, categorical(probabilities).log_prob(xp.tensor([action]))

    def step() -> Any:
        state, chosen, rewards = world.reset(), [], []
        # Of a length that is new, whatever the policy is worth: who falls gets up again.
        for _ in range(chance.randrange(100, 401)):
            action, log = act(state)
            state, fallen = world.step(action)
            chosen.append(log)
            rewards.append(-1.0 if fallen else 1.0)
            if fallen:
                state = world.reset()
        returns = _returns(t, rewards)
        loss = xp.cat([-log * gain for log, gain in zip(chosen, returns, strict=True)]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step


class Transition(NamedTuple):
    """One step of the environment; no next state after a fall."""

    state: Any
    action: Any
    next_state: Any
    reward: Any


BATCH, RATE = 128, 0.005


def dqn(t: Namespace, seed: int) -> Step:
    """One action and one update of the network, as in PyTorch's tutorial."""
    xp, chance = t.xp, random.Random(seed)
    online, target = _q_network(t, seed), _q_network(t, seed)
    optimiser = t.optim.AdamW(online.parameters(), lr=1e-4, amsgrad=True)
    world = CartPole(seed)
    memory: deque[Transition] = deque(maxlen=10_000)
    state = xp.tensor([world.state])

    def act() -> Any:
        if chance.random() < 0.2:
            return xp.tensor([[chance.randrange(2)]])
        with xp.no_grad():
            return online(state).max(1).indices.view(1, 1)

    def move() -> None:
        nonlocal state
        action = act()
        observation, fallen = world.step(action.item())
        following = None if fallen else xp.tensor([observation])
        memory.append(Transition(state, action, following, xp.tensor([1.0])))
        state = xp.tensor([world.reset()]) if fallen else following

    while len(memory) < BATCH:
        move()

    def step() -> Any:
        move()
        batch = Transition(*zip(*chance.sample(memory, BATCH), strict=True))
        loss = _q_loss(t, online, target, batch)
        optimiser.zero_grad()
        loss.backward()
        t.nn.utils.clip_grad_value_(online.parameters(), 100)
        optimiser.step()
        _follow(online, target)
        return loss

    return step


def _q_network(t: Namespace, seed: int) -> Any:
    nn = t.nn
    layers = (nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    return filled(t, np.random.default_rng(seed), nn.Sequential(*layers))


def _q_loss(t: Namespace, online: Any, target: Any, batch: Transition) -> Any:
    """How far values are from rewards and the values of the next states, which may be fewer."""
    xp = t.xp
    goes_on = xp.tensor([s is not None for s in batch.next_state], dtype=xp.bool)
    following = xp.cat([s for s in batch.next_state if s is not None])
    values = online(xp.cat(batch.state)).gather(1, xp.cat(batch.action))
    next_values = xp.zeros(BATCH)
    with xp.no_grad():
        next_values[goes_on] = target(following).max(1).values
    expected = next_values * DISCOUNT + xp.cat(batch.reward)
    return t.nn.SmoothL1Loss()(values, expected.unsqueeze(1))


def _follow(online: Any, target: Any) -> None:
    """The target network moves a little towards the other one."""
    state, goal = target.state_dict(), online.state_dict()
    for key in goal:
        state[key] = goal[key] * RATE + state[key] * (1 - RATE)
    target.load_state_dict(state)
