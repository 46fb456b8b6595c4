"""Tensors: like NumPy arrays, with gradients, and computed as late as possible."""

import numpy as np

import livegrad as lg

# Creation, arithmetic and broadcasting look as they do in PyTorch.
a = lg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # (2, 3)
row = lg.tensor([10.0, 20.0, 30.0])  # (3,) is broadcast over the rows
print(a + row)
print("mean of each column:", a.mean(dim=0))
print("a @ a.T:", a @ a.T)

# To NumPy and back.
print("as NumPy:", (a * 2).numpy())
print("from NumPy:", lg.tensor(np.linspace(0, 1, 5, dtype=np.float32)))

# Gradients: d/dx of sum(x² + sin x) is 2x + cos x.
x = lg.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = (x**2 + lg.sin(x)).sum()
y.backward()
print("gradient:", x.grad)
assert np.allclose(x.grad.numpy(), 2 * x.detach().numpy() + np.cos(x.detach().numpy()), atol=1e-5)

# The graph is what Python did: here a loop that ends when a value says so.
z = lg.tensor(1.0, requires_grad=True)
power = z * 3
while power.item() < 100:
    power = power * power
power.backward()
print(f"3 squared until it passes 100: {power.item():g}, derivative: {z.grad.item():g}")

# What the last computation did: why it ran, which operations became which kernel.
lg.explain()
