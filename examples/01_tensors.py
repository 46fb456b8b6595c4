"""Tensors and gradients: like NumPy's arrays, computed as late as possible, and autograd by hand.

A network of two layers is trained twice with the same steps: once with gradients that are worked
out with pencil and paper, once with `backward()`. The data are generated.
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
from livegrad import train

args = arguments(__doc__)

# ---- tensors: creation, arithmetic and broadcasting look as they do in PyTorch -------------------

a = lg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # (2, 3)
row = lg.tensor([10.0, 20.0, 30.0])  # (3,) is broadcast over the rows
print(a + row)
print("mean of each column:", a.mean(dim=0))
print("a @ a.T:", a @ a.T)
print("as NumPy:", (a * 2).numpy())
print("from NumPy:", lg.tensor(np.linspace(0, 1, 5, dtype=np.float32)))

# ---- gradients: d/dx of sum(x² + sin x) is 2x + cos x --------------------------------------------

x = lg.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = (x**2 + lg.sin(x)).sum()
y.backward()
print("gradient:", x.grad, "expected:", 2 * x.detach() + lg.cos(x.detach()))

# The graph is what Python did: here a loop that ends when a value says so.
z = lg.tensor(1.0, requires_grad=True)
power = z * 3
while power.item() < 100:
    power = power * power
power.backward()
print(f"3 squared until it passes 100: {power.item():g}, derivative: {z.grad.item():g}")

# ---- a network by hand, and by autograd ----------------------------------------------------------

inputs = lg.linspace(-2, 2, 100)[:, None]
targets = lg.sin(2 * inputs)
hidden, rate, steps = 32, 0.1, 300 if args.quick else 3000
first_w, first_b = lg.randn(1, hidden), lg.randn(hidden)  # weights and offsets of two layers
second_w, second_b = lg.randn(hidden, 1) * 0.1, lg.zeros(1)
start = [first_w, first_b, second_w, second_b]


def train_by_hand() -> tuple[list[float], lg.Tensor]:
    w1, b1, w2, b2 = [p.clone() for p in start]
    losses = []
    for _ in train.progress(range(steps), "by hand"):
        h = lg.tanh(inputs @ w1 + b1)
        output = h @ w2 + b2
        losses.append(((output - targets) ** 2).mean().item())
        # The chain rule, from the loss back to the weights. tanh' is 1 - tanh².
        d_output = 2 * (output - targets) / len(inputs)
        d_w2, d_b2 = h.T @ d_output, d_output.sum(0)
        d_h = (d_output @ w2.T) * (1 - h**2)
        d_w1, d_b1 = inputs.T @ d_h, d_h.sum(0)
        w1, b1, w2, b2 = w1 - rate * d_w1, b1 - rate * d_b1, w2 - rate * d_w2, b2 - rate * d_b2
    return losses, lg.tanh(inputs @ w1 + b1) @ w2 + b2


def train_by_autograd() -> tuple[list[float], lg.Tensor]:
    weights = [p.clone().requires_grad_() for p in start]
    losses = []
    for _ in train.progress(range(steps), "by autograd"):
        w1, b1, w2, b2 = weights
        loss = ((lg.tanh(inputs @ w1 + b1) @ w2 + b2 - targets) ** 2).mean()
        losses.append(loss.item())
        loss.backward()
        with lg.no_grad():
            for weight in weights:
                weight -= rate * weight.grad
                weight.grad = None
    w1, b1, w2, b2 = weights
    return losses, (lg.tanh(inputs @ w1 + b1) @ w2 + b2).detach()


by_hand, curve = train_by_hand()
by_autograd, same_curve = train_by_autograd()
print(f"loss by hand: {by_hand[0]:.3f} at first, {by_hand[-1]:.5f} after {steps} steps")
print(f"with autograd: {by_autograd[0]:.3f} at first, {by_autograd[-1]:.5f}")

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="loss")
    plt.semilogy(by_autograd, label="autograd")
    plt.semilogy(by_hand, "--", label="by hand")
    plt.legend()
    plt.subplot(122, title="the function")
    plt.plot(inputs.numpy(), curve.numpy(), label="learnt")
    plt.plot(inputs.numpy(), targets.numpy(), "k:", label="sin 2x")
    plt.legend()
    save(plt, args)

lg.explain()  # what the last computation did: why it ran, which operations became which kernel
result("by hand and autograd differ by", (curve - same_curve).abs().max().item(), at_most=1e-3)
result("loss with autograd", by_autograd[-1], at_most=0.05 if args.quick else 0.005)
