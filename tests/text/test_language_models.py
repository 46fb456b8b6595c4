"""Language models: caches and padding change nothing, weights go to folders and come back."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad.text import models as M
from livegrad.text.generation.choosing import of_likeliest, of_nucleus, repeating

SMALL: dict[str, Any] = {
    "gpt2": lambda: M.GPT2LMHeadModel(
        M.GPT2Config(60, 32, 16, 2, 2, initializer_range=0.4, eos_token_id=None)
    ),
    "llama": lambda: M.LlamaForCausalLM(
        M.LlamaConfig(60, 16, 24, 2, 4, 2, initializer_range=0.4, eos_token_id=None)
    ),
    "tied": lambda: M.LlamaForCausalLM(
        M.LlamaConfig(60, 16, 24, 2, 4, initializer_range=0.4, tie_word_embeddings=True)
    ),
    "t5": lambda: M.T5ForConditionalGeneration(
        M.T5Config(60, 16, 4, 24, 2, num_heads=4, eos_token_id=None)
    ),
    "bert": lambda: M.BertForMaskedLM(M.BertConfig(60, 16, 2, 4, 24, initializer_range=0.4)),
}
CAUSAL = ("gpt2", "llama")


def made(name: str) -> Any:
    lg.manual_seed(3)
    return SMALL[name]().eval()


PROMPT = [[5, 9, 3, 7], [8, 8, 1, 2]]


@pytest.mark.parametrize("name", CAUSAL)
def test_a_cache_changes_nothing(name: str) -> None:
    model = made(name)
    ids = lg.tensor(PROMPT)
    written = model.generate(ids, max_new_tokens=6)
    for _ in range(6):
        latest = model(ids).logits[:, -1].argmax(-1)
        ids = lg.cat([ids, latest.unsqueeze(1)], 1)
    assert written.tolist() == ids.tolist()


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("beams", [1, 3])
def test_padding_on_the_left_changes_nothing(name: str, beams: int) -> None:
    model = made(name)
    alone = model.generate(lg.tensor([[5, 9]]), max_new_tokens=5, num_beams=beams)
    batch = lg.tensor([[0, 0, 5, 9], PROMPT[1]])
    mask = lg.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    both = model.generate(batch, mask, max_new_tokens=5, num_beams=beams)
    assert both[0, 2:].tolist() == alone[0].tolist()


def test_beams_find_what_is_at_least_as_likely() -> None:
    model = made("gpt2")
    prompt = lg.tensor(PROMPT)

    def score(ids: Any) -> float:
        logits = model(ids[:, :-1]).logits[:, prompt.size(1) - 1 :].log_softmax(-1)
        return logits.gather(-1, ids[:, prompt.size(1) :].unsqueeze(-1)).sum().item()

    greedy = score(model.generate(prompt, max_new_tokens=6))
    assert score(model.generate(prompt, max_new_tokens=6, num_beams=8)) >= greedy - 1e-4
    several = model.generate(prompt, max_new_tokens=6, num_beams=4, num_return_sequences=3)
    assert several.shape == (6, 10)
    assert len({tuple(row) for row in several.tolist()}) == 6


def test_texts_end() -> None:
    model = made("gpt2")
    free = model.generate(lg.tensor(PROMPT), max_new_tokens=8)
    end = free[0, 6].item()
    first = free[0].tolist().index(end, 4)
    seen: list[list[int]] = []
    ended = model.generate(
        *(lg.tensor(PROMPT[:1]), None, 8), eos_token_id=end, streamer=seen.append
    )
    assert ended[0].tolist() == free[0, : first + 1].tolist()
    assert [x for (x,) in seen] == ended[0, 4:].tolist()
    both = model.generate(lg.tensor(PROMPT), None, 8, eos_token_id=end, pad_token_id=59)
    assert set(both[0, first + 1 :].tolist()) <= {59}
    long = model.generate(lg.tensor(PROMPT[:1]), None, 8, 6, eos_token_id=end)
    assert end not in long[0, 4:10].tolist()


def test_drawing() -> None:
    model = made("gpt2")
    prompt = lg.tensor(PROMPT)

    def drawn(seed: int, **options: Any) -> Any:
        generator = lg.Generator().manual_seed(seed)
        return model.generate(
            prompt, max_new_tokens=8, do_sample=True, generator=generator, **options
        ).tolist()

    assert drawn(1) == drawn(1) != drawn(2)
    greedy = model.generate(prompt, max_new_tokens=8).tolist()
    assert drawn(1, top_k=1) == drawn(1, top_p=1e-6) == drawn(1, temperature=1e-6) == greedy
    assert len(drawn(1, num_return_sequences=3)) == 6


def test_what_is_likely_enough() -> None:
    scores = lg.tensor([[0.1, 0.4, 0.2, 0.3]]).log()
    assert of_likeliest(scores, 2).isfinite().tolist() == [[False, True, False, True]]
    assert of_likeliest(scores, 0).isfinite().all()
    assert of_nucleus(scores, 0.65).isfinite().tolist() == [[False, True, False, True]]
    assert of_nucleus(scores, 0.75).isfinite().tolist() == [[False, True, True, True]]


def test_runs_that_would_come_again() -> None:
    assert repeating([1, 2, 3, 1, 2], 3) == {3}
    assert repeating([1, 2, 3], 1) == {1, 2, 3}
    assert repeating([1, 2], 0) == repeating([1], 3) == set()
    model = made("gpt2")
    row = model.generate(lg.tensor(PROMPT), max_new_tokens=12, no_repeat_ngram_size=2)[0].tolist()
    pairs = list(pairwise(row))
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_tokens": 0}, "at least 1"),
        ({"num_return_sequences": 2}, "Greedy methods"),
        ({"num_beams": 2, "num_return_sequences": 3}, "has to be smaller or equal"),
        ({"num_beams": 2, "do_sample": True}, "beams are not drawn"),
        ({"do_sample": True, "temperature": 0.0}, "strictly positive"),
        ({"top_p": 0.0}, "top_p has to be"),
        ({"top_k": -1}, "top_k has to be"),
        ({"repetition_penalty": 0.0}, "penalty has to be"),
    ],
)
def test_wrong_wishes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("gpt2").generate(lg.tensor(PROMPT), **options)


def test_wrong_inputs() -> None:
    model = made("gpt2")
    with pytest.raises(ValueError, match="batch, positions"):
        model.generate(lg.tensor([1, 2]))
    with pytest.raises(ValueError, match="more than the 32 positions"):
        model.generate(lg.tensor(PROMPT), max_new_tokens=40)


def test_an_encoder_and_a_decoder() -> None:
    model = made("t5")
    ids, mask = lg.tensor([[5, 9, 3, 0], PROMPT[1]]), lg.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    written = model.generate(ids, mask, max_new_tokens=5)
    again = lg.zeros(2, 1, dtype=lg.int64)
    for _ in range(5):
        logits = model(ids, mask, decoder_input_ids=again).logits
        again = lg.cat([again, logits[:, -1].argmax(-1, keepdim=True)], 1)
    assert written.tolist() == again.tolist()
    alone = model.generate(lg.tensor([[5, 9, 3]]), max_new_tokens=5, num_beams=2)
    assert model.generate(ids, mask, max_new_tokens=5, num_beams=2)[0].tolist() == alone[0].tolist()
    labels = lg.tensor([[4, 5, -100], [6, 7, 8]])
    assert model.moved_on(labels).tolist() == [[0, 4, 5], [0, 6, 7]]
    with pytest.raises(ValueError, match="labels say"):
        model(ids)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_weights_in_a_folder(name: str, tmp_path: Path) -> None:
    model = made(name)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert again.config == model.config
    ids = lg.tensor(PROMPT)
    options = {"decoder_input_ids": ids} if name == "t5" else {}
    assert (again(ids, **options).logits == model(ids, **options).logits).all()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "other"}))
    with pytest.raises(ValueError, match="of the type 'other'"):
        type(model).from_pretrained(tmp_path)


def test_a_head_on_the_weights_of_a_model_without(tmp_path: Path) -> None:
    config = M.BertConfig(60, 16, 2, 4, 24, num_labels=3)
    M.BertModel(config).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"no classifier\.weight, classifier\.bias: drawn anew"):
        model = M.BertForSequenceClassification.from_pretrained(tmp_path)
    assert model.config.num_labels == 3
    assert model(lg.tensor(PROMPT), labels=lg.tensor([0, 2])).loss.isfinite()


@pytest.mark.parametrize("name", sorted(SMALL))
def test_models_learn(name: str) -> None:
    model = made(name).train()
    optimizer = lg.optim.Adam(model.parameters(), lr=0.01)
    ids, losses = lg.tensor(PROMPT), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
