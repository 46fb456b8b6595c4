"""Runs a program from weights, batches and noise that are the same in PyTorch and livegrad.

    python same.py LOSSES COUNT script.py [args]

The first COUNT values on which `backward` was called are written to the file LOSSES, then the
program ends. What would be drawn by torch's generators is drawn by NumPy's; everything else is the
program's own.
"""

from __future__ import annotations

import os
import random as python_random
import runpy
import sys

import numpy as np
import torch

# What programs draw; the values of weights; and what is filled in place, which layers do as well
# when they are made, in one of the two only: it begins anew when the optimiser is made.
random, weights, filling = (np.random.RandomState(seed) for seed in range(3))


def _tensor(values, kwargs, dtype=None):
    out = torch.as_tensor(values)
    out = out.to(kwargs.get("dtype") or dtype or torch.get_default_dtype())
    return out.requires_grad_(True) if kwargs.get("requires_grad") else out


def _sizes(sizes):
    first = sizes[0] if sizes else ()
    return tuple(first) if isinstance(first, (tuple, list, torch.Size)) else tuple(sizes)


def randn(*size, **kwargs):
    return _tensor(random.randn(*_sizes(size or (kwargs["size"],))), kwargs)


def rand(*size, **kwargs):
    return _tensor(random.rand(*_sizes(size or (kwargs["size"],))), kwargs)


def randint(low, high=None, size=None, **kwargs):
    if not isinstance(high, int):
        low, high, size = 0, low, high if size is None else size
    return _tensor(random.randint(low, high, tuple(size)), kwargs, torch.int64)


def randperm(n, **kwargs):
    return _tensor(random.permutation(n), kwargs, torch.int64)


def normal(mean=0.0, std=1.0, size=None, **kwargs):
    shape = size if size is not None else (mean if torch.is_tensor(mean) else std).shape
    return _tensor(random.randn(*shape), kwargs) * std + mean


def uniform_(self, a=0.0, b=1.0, **kwargs):
    with torch.no_grad():
        return self.copy_(torch.as_tensor(filling.uniform(a, b, tuple(self.shape))))


def normal_(self, mean=0.0, std=1.0, **kwargs):
    with torch.no_grad():
        return self.copy_(torch.as_tensor(mean + std * filling.randn(*self.shape)))


def dropout(input, p=0.5, training=True, inplace=False):
    if not training or not p:
        return input
    kept = torch.as_tensor(random.rand(*input.shape) >= p).to(input.dtype)
    return input * kept / (1 - p)


def feature_dropout(input, p=0.5, training=True, inplace=False):
    if not training or not p:
        return input
    shape = (*input.shape[:2], *[1] * (input.dim() - 2))
    return input * torch.as_tensor(random.rand(*shape) >= p).to(input.dtype) / (1 - p)


def _like(draw):
    return lambda x, **kwargs: draw(*x.shape, **{"dtype": x.dtype, **kwargs})


def _chosen(probabilities, shape=()):
    """Numbers of categories, drawn by their probabilities, `shape` times for each row of these."""
    sums = np.cumsum(probabilities.detach().double().numpy(), -1)
    drawn = random.rand(*shape, *sums.shape[:-1], 1) * sums[..., -1:]
    return torch.as_tensor((sums <= drawn).sum(-1).clip(max=sums.shape[-1] - 1))


def multinomial(input, num_samples, replacement=False, **kwargs):
    if num_samples == 1 or replacement:
        return _chosen(input, (num_samples,)).movedim(0, -1)
    order = random.exponential(size=tuple(input.shape)) / input.detach().double().numpy()
    return torch.as_tensor(np.argsort(order, -1)[..., :num_samples].copy())


def _sampled(self, sample_shape=()):
    """Of a normal distribution: with gradients through mean and deviation."""
    shape = (*sample_shape, *self.batch_shape)
    return self.loc + self.scale * torch.as_tensor(random.randn(*shape)).to(self.loc.dtype)


def _sampled_together(self, sample_shape=()):
    """Of a normal distribution of vectors."""
    noise = torch.as_tensor(random.randn(*sample_shape, *self.batch_shape, *self.event_shape))
    return self.loc + (self.scale_tril @ noise.to(self.loc.dtype).unsqueeze(-1)).squeeze(-1)


def _same_choices() -> None:
    """Actions that are drawn, and states where environments begin."""
    dists = torch.distributions
    dists.Categorical.sample = lambda self, shape=(): _chosen(self.probs, tuple(shape))
    dists.Normal.rsample = _sampled
    dists.Normal.sample = lambda self, shape=(): _sampled(self, shape).detach()
    dists.MultivariateNormal.rsample = _sampled_together
    dists.MultivariateNormal.sample = lambda self, shape=(): _sampled_together(self, shape).detach()
    try:
        from gymnasium.utils import seeding
    except ImportError:
        return
    seeded = seeding.np_random
    seeding.np_random = lambda seed=None: seeded(0 if seed is None else seed)


def same_weights(parameters) -> None:
    """Fills parameters that have random values: uniform, by the size of what they multiply."""
    for p in parameters:
        values = p.detach()
        if p.numel() and not bool((values == values.flatten()[0]).all()):
            wide = (p.numel() // p.shape[0] if p.dim() > 1 else p.numel()) ** -0.5
            values.copy_(torch.as_tensor(weights.uniform(-wide, wide, tuple(p.shape))))


def prepare(path: str, count: int) -> None:
    """Puts the draws in their places, and listens to `backward`."""
    np.random.seed(0)  # noqa: NPY002  # the generator that programs use
    python_random.seed(0)
    # Data sets of livegrad.vision draw by livegrad's own names, torchvision's by torch's.
    for module in {id(m): m for m in (torch, sys.modules.get("livegrad", torch))}.values():
        module.randn, module.rand, module.randint = randn, rand, randint
        module.randperm, module.normal, module.multinomial = randperm, normal, multinomial
        module.randn_like, module.rand_like = _like(randn), _like(rand)
    torch.Tensor.uniform_, torch.Tensor.normal_ = uniform_, normal_
    torch.nn.functional.dropout = dropout
    torch.nn.Dropout.forward = lambda self, x: dropout(x, self.p, self.training)
    torch.nn.Dropout2d.forward = lambda self, x: feature_dropout(x, self.p, self.training)
    torch.utils.data.RandomSampler.__iter__ = lambda self: iter(
        random.permutation(len(self.data_source)).tolist()
    )
    _same_choices()
    _same_optimizers()
    _listen(path, count)


def _same_optimizers() -> None:
    """Parameters get the same values when they are given to an optimiser, once."""
    filled: set[int] = set()
    add = torch.optim.Optimizer.add_param_group

    def adding(self, group):
        given = group["params"]
        given = [given] if torch.is_tensor(given) else list(given)
        group["params"] = given
        fresh = [p for p in given if id(p) not in filled]
        filled.update(id(p) for p in fresh)
        same_weights(fresh)
        filling.seed(2)
        return add(self, group)

    torch.optim.Optimizer.add_param_group = adding


def _listen(path: str, count: int) -> None:
    backward = torch.Tensor.backward
    file = open(path, "w", buffering=1)  # noqa: SIM115  # until the process ends
    seen = [0]

    def listening(self, *args, **kwargs):
        print(float(self.detach().sum()), file=file)
        seen[0] += 1
        if seen[0] >= count:
            file.flush()
            os._exit(0)
        return backward(self, *args, **kwargs)

    torch.Tensor.backward = listening


if __name__ == "__main__":
    losses, count, script, *rest = sys.argv[1:]
    prepare(losses, int(count))
    sys.argv = [script, *rest]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
