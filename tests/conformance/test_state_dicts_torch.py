"""State dicts both ways with PyTorch: whole models of the same weights give the same outputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.models.language import bert, gpt2  # noqa: E402
from tests.models.resnet import resnet50  # noqa: E402


def draw(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def tokens(*shape: int, below: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(6).integers(1, below, shape)


MODELS = {
    "resnet50": (
        lambda lib: resnet50(lib.nn, classes=10, width=16),
        lambda: (draw(2, 3, 64, 64),),
    ),
    "lstm": (
        lambda lib: lib.nn.LSTM(7, 11, num_layers=2, bidirectional=True, batch_first=True),
        lambda: (draw(3, 9, 7),),
    ),
    "transformer": (
        lambda lib: lib.nn.Transformer(16, 4, 2, 2, 32, batch_first=True),
        lambda: (draw(2, 5, 16), draw(2, 7, 16)),
    ),
    "gpt2": (gpt2, lambda: (tokens(2, 12, below=97),)),
    "bert": (
        bert,
        lambda: (
            tokens(2, 10, below=83),
            np.arange(20).reshape(2, 10) % 2,
            np.array([[1] * 10, [1] * 6 + [0] * 4]),
        ),
    ),
}


def flat(x: Any) -> list[Any]:
    return [y for part in x for y in flat(part)] if isinstance(x, tuple) else [x]


def compare(ours: Any, theirs: Any, inputs: Any) -> None:
    got = flat(ours(*map(lg.tensor, inputs)))
    wanted = flat(theirs(*map(torch.tensor, inputs)))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_exchange(name: str) -> None:
    build, make_inputs = MODELS[name]
    torch.manual_seed(1)
    theirs, ours = build(torch).eval(), build(lg).eval()
    inputs = make_inputs()
    saved = theirs.state_dict()
    shapes = {key: tuple(value.shape) for key, value in ours.state_dict().items()}
    assert shapes == {key: tuple(value.shape) for key, value in saved.items()}
    assert list(shapes) == list(saved)

    # From PyTorch, tensors as they are.
    assert not ours.load_state_dict(saved).missing_keys
    compare(ours, theirs, inputs)

    # And back: a fresh PyTorch model takes over livegrad's weights.
    with lg.no_grad():
        for p in ours.parameters():
            p.mul_(0.9)
    fresh = build(torch).eval()
    fresh.load_state_dict(
        {key: torch.from_numpy(value.numpy()) for key, value in ours.state_dict().items()}
    )
    compare(ours, fresh, inputs)


def test_resnet50_has_torchvisions_size() -> None:
    net = resnet50(nn)
    assert sum(p.numel() for p in net.parameters()) == 25_557_032
    assert len(net.state_dict()) == 320


def test_gradients_of_a_transformer_in_training() -> None:
    """All of a model's gradients, with the same weights and without dropout."""
    torch.manual_seed(2)
    sizes = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0, "batch_first": True}
    theirs = torch.nn.Transformer(num_encoder_layers=1, num_decoder_layers=1, **sizes)
    ours = nn.Transformer(num_encoder_layers=1, num_decoder_layers=1, **sizes)
    ours.load_state_dict(theirs.state_dict())
    src, tgt = draw(2, 5, 8), draw(2, 4, 8)
    masks = [m.generate_square_subsequent_mask(4) for m in (ours, theirs)]
    y = ours(lg.tensor(src), lg.tensor(tgt), tgt_mask=masks[0])
    t = theirs(torch.tensor(src), torch.tensor(tgt), tgt_mask=masks[1])
    (y * y).mean().backward()
    (t * t).mean().backward()
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(
            p.grad.numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-6, err_msg=key
        )
