"""A physics-informed network: it is told an equation, not its solution.

Heat in a rod: u_t = u_xx / 10, u(0, t) = u(1, t) = 0, u(x, 0) = sin πx + sin(3πx) / 2. The network
u(x, t) learns from how far it is from obeying the equation, which takes its derivatives by x and t,
and then the derivative of that by its weights. The exact solution, which is known here, is used for
measuring only. There are no data.
"""

import math

from common import arguments, pyplot, result, save

import livegrad as lg
from livegrad import Tensor, nn, optim, train

args = arguments(__doc__)
CONDUCT = 0.1


def exact(x: Tensor, t: Tensor) -> Tensor:
    slow = lg.exp(-CONDUCT * math.pi**2 * t) * lg.sin(math.pi * x)
    quick = lg.exp(-CONDUCT * 9 * math.pi**2 * t) * lg.sin(3 * math.pi * x)
    return slow + quick / 2


class Rod(nn.Module):
    """u(x, t), which is what it should be at t = 0 and at the ends whatever the weights are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        start = lg.sin(math.pi * x) + lg.sin(3 * math.pi * x) / 2
        inner = self.layers(lg.cat([2 * x - 1, 2 * t - 1], dim=1))
        return start + t * x * (1 - x) * inner * 10


def violated(model: nn.Module, x: Tensor, t: Tensor) -> Tensor:
    """u_t - u_xx / 10 at points, which should be 0."""
    x, t = x.requires_grad_(), t.requires_grad_()
    u = model(x, t)
    u_x, u_t = lg.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = lg.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t - CONDUCT * u_xx


def error(model: nn.Module) -> float:
    """Its distance from the exact solution, relative to that one's size."""
    grid = lg.linspace(0, 1, 60)
    x, t = [axis.reshape(-1, 1) for axis in lg.meshgrid(grid, grid, indexing="ij")]
    with lg.no_grad():
        found = model(x, t)
    return ((found - exact(x, t)).norm() / exact(x, t).norm()).item()


model = Rod(24 if args.quick else 32)
steps = 800 if args.quick else 6000
optimizer = optim.Adam(model.parameters(), lr=1e-2)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
before = error(model)
losses, errors = [], []
for step in (bar := train.progress(range(steps), "training")):
    optimizer.zero_grad()
    loss = (violated(model, lg.rand(256, 1), lg.rand(256, 1)) ** 2).mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    if step % 50 == 0:
        errors.append(error(model))
    bar.set(violation=loss, error=errors[-1])

if plt := pyplot():
    line = lg.linspace(0, 1, 80)[:, None]
    plt.figure(figsize=(10, 3.5))
    plt.subplot(121, title="violation of the equation, and error", xlabel="step")
    plt.semilogy(losses, lw=0.5, label="violation")
    plt.semilogy(range(0, steps, 50), errors, label="relative error")
    plt.legend()
    plt.subplot(122, title="heat along the rod; dotted: exact")
    for moment in (0.0, 0.1, 0.3, 1.0):
        t = lg.full_like(line, moment)
        plt.plot(line.numpy(), model(line, t).detach().numpy(), label=f"t = {moment}")
        plt.plot(line.numpy(), exact(line, t).numpy(), "k:")
    plt.legend()
    save(plt, args)

result("relative error before", before)
result("relative error after", error(model), at_most=0.03 if args.quick else 0.01)
