"""The cart and its pole, in plain Python: the same numbers whatever framework asks."""

import math
import random

State = tuple[float, float, float, float]


class CartPole:
    """Four numbers: place and speed of the cart, angle and speed of the pole."""

    GRAVITY, FORCE, SECONDS = 9.8, 10.0, 0.02
    POLE, TOTAL = 0.1, 1.1  # masses
    HALF = 0.5  # of the pole's length
    WIDEST, STEEPEST = 2.4, math.radians(12)

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.state = self.reset()

    def reset(self) -> State:
        a, b, c, d = (self.chance.uniform(-0.05, 0.05) for _ in range(4))
        self.state = (a, b, c, d)
        return self.state

    def step(self, action: int) -> tuple[State, bool]:
        """Push to the left (0) or right (1); the new state, and whether the pole has fallen."""
        _, speed, angle, turning = self.state
        force = self.FORCE if action == 1 else -self.FORCE
        sine, cosine = math.sin(angle), math.cos(angle)
        lever = self.POLE * self.HALF
        pushed = (force + lever * turning**2 * sine) / self.TOTAL
        inertia = self.HALF * (4 / 3 - self.POLE * cosine**2 / self.TOTAL)
        turned = (self.GRAVITY * sine - cosine * pushed) / inertia
        driven = pushed - lever * turned * cosine / self.TOTAL
        speeds = (speed, driven, turning, turned)
        a, b, c, d = (x + self.SECONDS * v for x, v in zip(self.state, speeds, strict=True))
        self.state = (a, b, c, d)
        fallen = abs(self.state[0]) > self.WIDEST or abs(self.state[2]) > self.STEEPEST
        return self.state, fallen
