"""Hugging Face's GPT-2 and BERT against livegrad models with their weights: outputs, gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.models.language import bert, gpt2  # noqa: E402

RNG = np.random.default_rng(6)
NO_TOKENS = {"bos_token_id": None, "eos_token_id": None}


def their_gpt2(head: bool) -> Any:
    kind = transformers.GPT2LMHeadModel if head else transformers.GPT2Model
    sizes = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}
    drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    return kind(transformers.GPT2Config(vocab_size=97, **sizes, **drops, **NO_TOKENS))


def our_gpt2(head: bool) -> Any:
    model = gpt2(lg)
    if not head:
        model.lm_head = nn.Identity()
    return model


def their_bert() -> Any:
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
    config = transformers.BertConfig(
        vocab_size=83, **sizes, intermediate_size=96, max_position_embeddings=32, pad_token_id=0
    )
    return transformers.BertModel(config)


# By name: their model, ours, the part of ours with their names, inputs, and their outputs.
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Any, Any, Any]] = {
    "GPT2LMHeadModel": (
        lambda: their_gpt2(True),
        lambda: our_gpt2(True),
        lambda model: model,
        {"input_ids": RNG.integers(1, 97, (2, 12))},
        lambda out: [out.logits],
    ),
    "GPT2Model": (
        lambda: their_gpt2(False),
        lambda: our_gpt2(False),
        lambda model: model.transformer,
        {"input_ids": RNG.integers(1, 97, (2, 12))},
        lambda out: [out.last_hidden_state],
    ),
    "BertModel": (
        their_bert,
        lambda: bert(lg),
        lambda model: model,
        {
            "input_ids": RNG.integers(1, 83, (2, 10)),
            "token_type_ids": np.arange(20).reshape(2, 10) % 2,
            "attention_mask": np.array([[1] * 10, [1] * 6 + [0] * 4]),
        },
        lambda out: [out.last_hidden_state, out.pooler_output],
    ),
}


def outputs(ours: Any, theirs: Any, inputs: Any, part: Any) -> tuple[list[Any], list[Any]]:
    got = ours(*map(lg.tensor, inputs.values()))
    wanted = theirs(**{name: torch.tensor(x) for name, x in inputs.items()})
    return list(got) if isinstance(got, tuple) else [got], part(wanted)


def close(ours: Any, theirs: Any, note: str = "") -> None:
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-5, err_msg=note
    )


@pytest.mark.parametrize("name", MODELS)
def test_weights_both_ways(name: str) -> None:
    make_theirs, make_ours, body, inputs, part = MODELS[name]
    torch.manual_seed(3)
    theirs, ours = make_theirs().eval(), make_ours().eval()
    with torch.no_grad():  # far from the start, where most outputs are almost equal
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.1)

    state = theirs.state_dict()
    assert list(state) == list(body(ours).state_dict())
    assert not any(body(ours).load_state_dict(state))
    got, wanted = outputs(ours, theirs, inputs, part)
    for a, b in zip(got, wanted, strict=True):
        close(a, b)

    # The gradients of a loss, for each parameter under its name.
    sum([(y * y).mean() for y in got]).backward()
    sum([(y * y).mean() for y in wanted]).backward()
    gradients = {key: p.grad for key, p in body(ours).named_parameters()}
    for key, p in theirs.named_parameters():
        close(gradients.pop(key), p.grad, key)
    assert not gradients

    # Another model of theirs takes ours' weights, after a step of training.
    lg.optim.SGD(ours.parameters(), lr=0.1).step()
    fresh = make_theirs().eval()
    weights = {key: torch.from_numpy(x.numpy()) for key, x in body(ours).state_dict().items()}
    loaded = fresh.load_state_dict(weights, strict=True)
    assert not loaded.missing_keys
    assert not loaded.unexpected_keys
    for a, b in zip(*outputs(ours, fresh, inputs, part), strict=True):
        close(a, b)


def test_save_pretrained_is_read(tmp_path: Path) -> None:
    """`load` reads the safetensors file that `save_pretrained` writes, tied weights left out."""
    theirs, ours = their_gpt2(True).eval(), gpt2(lg).eval()
    theirs.save_pretrained(tmp_path)
    state = lg.load(tmp_path / "model.safetensors")
    missing = ours.load_state_dict(state, strict=False)
    assert missing.missing_keys in ([], ["lm_head.weight"])
    assert not missing.unexpected_keys
    inputs, part = MODELS["GPT2LMHeadModel"][3:]
    for a, b in zip(*outputs(ours, theirs, inputs, part), strict=True):
        close(a, b)
