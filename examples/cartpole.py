"""CartPole: a pole on a cart is kept upright by pushing the cart left (0) or right (1).

The interface is gymnasium's, and so are the physics and the limits of CartPole-v1; `make` gives
gymnasium's own where it is installed.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from common import pyplot, result, save

Observation = np.ndarray[Any, np.dtype[np.float32]]
Policy = Callable[[Observation], int]


class CartPole:
    """Position and speed of the cart, angle and turning speed of the pole; 1 for every step."""

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
    LONGEST = 500

    def __init__(self) -> None:
        self.random = np.random.default_rng()
        self.state = [0.0] * 4
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode near the middle."""
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.state = self.random.uniform(-0.05, 0.05, 4).tolist()
        self.steps = 0
        return np.array(self.state, dtype=np.float32), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Observation, reward, whether it fell, whether the time is over, and nothing more."""
        x, speed, angle, turning = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        sin, cos, mass = math.sin(angle), math.cos(angle), self.CART + self.POLE
        pushed = (force + self.POLE * self.HALF_LENGTH * turning**2 * sin) / mass
        turn = (self.GRAVITY * sin - cos * pushed) / (
            self.HALF_LENGTH * (4 / 3 - self.POLE * cos**2 / mass)
        )
        gain = pushed - self.POLE * self.HALF_LENGTH * turn * cos / mass
        self.state = [
            x + self.SECONDS * speed,
            speed + self.SECONDS * gain,
            angle + self.SECONDS * turning,
            turning + self.SECONDS * turn,
        ]
        self.steps += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * math.pi / 180
        return np.array(self.state, np.float32), 1.0, fell, self.steps >= self.LONGEST, {}

    def close(self) -> None:
        """Nothing is open."""


def make() -> Any:
    """gymnasium's CartPole-v1, or ours where gymnasium is not installed."""
    try:
        import gymnasium
    except ImportError:
        return CartPole()
    return gymnasium.make("CartPole-v1")


def returns(policy: Policy, episodes: int, seed: int = 1000) -> list[float]:
    """The sum of rewards of whole episodes in which a policy acts."""
    env, found = make(), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        total, over = 0.0, False
        while not over:
            observation, reward, fell, ended, _ = env.step(policy(observation))
            total, over = total + reward, fell or ended
        found.append(total)
    return found


def by_chance(_: Observation) -> int:
    """A policy that does not look: what learning is compared with."""
    return random.randrange(2)


def judge(
    policy: Policy, history: list[float], args: argparse.Namespace, quick_goal: float
) -> None:
    """Compares what was learnt with chance, and draws the steps of all episodes on the way."""
    episodes = 10 if args.quick else 100
    chance = float(np.mean(returns(by_chance, episodes)))
    learnt = float(np.mean(returns(policy, episodes)))
    if plt := pyplot():
        plt.figure(figsize=(6, 3.5))
        plt.plot(history, lw=0.5)
        means = np.convolve(history, np.ones(20) / 20, "valid")
        plt.plot(range(len(history) - len(means), len(history)), means, label="mean of the last 20")
        plt.axhline(chance, color="k", ls=":", label="by chance")
        plt.title("steps that the pole stays upright")
        plt.xlabel("episode")
        plt.legend()
        save(plt, args)
    result("mean return by chance", chance)
    goal = quick_goal if args.quick else 475
    result(f"mean return over {episodes} episodes", learnt, at_least=goal)
