"""Language models with Hugging Face's weights give its outputs, and write its texts."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
hf = pytest.importorskip("transformers")

import livegrad as lg  # noqa: E402
from livegrad.text import models as M  # noqa: E402

IDS = [[29, 59, 68, 55, 58], [83, 62, 78, 21, 66], [13, 46, 76, 28, 89]]
MASK = [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]
COMMON = {"vocab_size": 97, "initializer_range": 0.3}
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "eos_token_id": None,
    "bos_token_id": None,
}
LONG = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}
GPT2 = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "eos_token_id": None}
BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}


def pair(name: str, config: str, **values: Any) -> tuple[Any, Any]:
    """A model of theirs, and ours with its weights."""
    torch.manual_seed(0)
    settings = getattr(hf, config)(**values)
    theirs = getattr(hf, name)(settings).eval()
    ours = getattr(M, name)(getattr(M, config).from_dict({**settings.to_dict(), **values})).eval()
    weights = {key: lg.tensor(x.detach().numpy()) for key, x in theirs.state_dict().items()}
    assert set(weights) == set(ours.state_dict())
    assert ours.load_weights(weights) == []
    return theirs, ours


CAUSAL = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {**COMMON, **GPT2}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**COMMON, **LLAMA}),
    "llama 3": ("LlamaForCausalLM", "LlamaConfig", {**COMMON, **LLAMA, "rope_parameters": LONG}),
    "tied": ("LlamaForCausalLM", "LlamaConfig", {**COMMON, **LLAMA, "tie_word_embeddings": True}),
}


@pytest.mark.parametrize("name", sorted(CAUSAL))
def test_decoders(name: str) -> None:
    model, config, values = CAUSAL[name]
    theirs, ours = pair(model, config, **values)
    a, b = theirs(torch.tensor(IDS), labels=torch.tensor(IDS)), ours(lg.tensor(IDS), lg.tensor(IDS))
    assert abs(a.logits.detach().numpy() - b.logits.detach().numpy()).max() < 3e-5
    assert b.loss.item() == pytest.approx(a.loss.item(), rel=1e-5)


WISHES = [
    {},
    {"num_beams": 4, "num_return_sequences": 2, "length_penalty": 2.0},
    {"num_beams": 3, "early_stopping": True, "no_repeat_ngram_size": 2},
    {"num_beams": 2, "early_stopping": "never"},
    {"repetition_penalty": 1.3, "min_new_tokens": 5},
]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("wish", WISHES)
def test_texts(name: str, wish: dict[str, Any]) -> None:
    model, config, values = CAUSAL[name]
    theirs, ours = pair(model, config, **values)
    options = {"max_new_tokens": 10, "eos_token_id": [7, 11, 50], "pad_token_id": 96, **wish}
    a = theirs.generate(
        torch.tensor(IDS), attention_mask=torch.tensor(MASK), do_sample=False, **options
    )
    assert ours.generate(lg.tensor(IDS), lg.tensor(MASK), **options).tolist() == a.tolist()


@pytest.mark.parametrize("name", ["BertModel", "BertForSequenceClassification", "BertForMaskedLM"])
def test_encoders(name: str) -> None:
    theirs, ours = pair(name, "BertConfig", **COMMON, **BERT)
    mask = [row[::-1] for row in MASK]
    segments = [[0, 0, 0, 1, 1]] * 3
    a = theirs(torch.tensor(IDS), torch.tensor(mask), torch.tensor(segments))
    b = ours(lg.tensor(IDS), attention_mask=lg.tensor(mask), token_type_ids=lg.tensor(segments))
    kind = "pooler_output" if name == "BertModel" else "logits"
    difference = getattr(a, kind).detach().numpy() - getattr(b, kind).detach().numpy()
    if name == "BertForMaskedLM":  # where there is a token
        difference = difference[torch.tensor(mask).bool().numpy()]
    assert abs(difference).max() < 3e-5


@pytest.mark.parametrize("kind", ["relu", "gated-gelu"])
@pytest.mark.parametrize("tied", [True, False])
def test_encoders_with_decoders(kind: str, tied: bool) -> None:
    values = {"feed_forward_proj": kind, "tie_word_embeddings": tied, "decoder_start_token_id": 0}
    theirs, ours = pair("T5ForConditionalGeneration", "T5Config", **T5, **values)
    mask = [row[::-1] for row in MASK]
    labels = [[4, 5, -100], [6, 7, 8], [9, 1, -100]]
    a = theirs(torch.tensor(IDS), torch.tensor(mask), labels=torch.tensor(labels))
    b = ours(lg.tensor(IDS), lg.tensor(mask), labels=lg.tensor(labels))
    assert abs(a.logits.detach().numpy() - b.logits.detach().numpy()).max() < 3e-5
    assert b.loss.item() == pytest.approx(a.loss.item(), rel=1e-5)
    for wish in ({}, {"num_beams": 3}):
        c = theirs.generate(
            torch.tensor(IDS),
            attention_mask=torch.tensor(mask),
            do_sample=False,
            max_new_tokens=8,
            **wish,
        )
        d = ours.generate(lg.tensor(IDS), lg.tensor(mask), max_new_tokens=8, **wish)
        assert d.tolist() == c.tolist()
