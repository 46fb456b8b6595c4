"""The same values in livegrad and PyTorch, and whether results and gradients agree."""

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def both(*shape):
    """The same values in both frameworks, with gradients."""
    values = RNG.normal(size=shape)
    return lg.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)


def agree(ours, theirs, message=""):
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=message
    )


def agree_with_gradients(ours, theirs, mine, yours):
    """Values, first and second gradients of a function of the leaves `mine` and `yours`."""
    agree(ours, theirs, "value")
    first = lg.autograd.grad((ours * ours).sum(), mine, create_graph=True)
    wanted = torch.autograd.grad((theirs * theirs).sum(), yours, create_graph=True)
    for a, b in zip(first, wanted, strict=True):
        agree(a, b, "gradient")
    second = lg.autograd.grad(sum((a * a).sum() for a in first), mine)
    wanted = torch.autograd.grad(sum((b * b).sum() for b in wanted), yours)
    for a, b in zip(second, wanted, strict=True):
        agree(a, b, "second gradient")
