"""Vocabularies, fields, corpora, and how good a text is."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

import livegrad as lg
from livegrad.text import (
    Field,
    LabelledTexts,
    ParallelCorpus,
    Vocab,
    bleu_score,
    build_vocab_from_iterator,
    perplexity,
    vocab,
)
from livegrad.utils.data import DataLoader, LengthBucketSampler


def test_tokens_and_numbers() -> None:
    words = build_vocab_from_iterator([["b", "a", "b"], ["c", "a"]], specials=["<unk>"])
    assert words.get_itos() == ["<unk>", "a", "b", "c"]
    assert words(["b", "c"]) == words.lookup_indices(["b", "c"]) == [2, 3]
    assert words.lookup_tokens([1, 0]) == ["a", "<unk>"]
    assert "a" in words
    assert "z" not in words
    assert len(words) == 4
    with pytest.raises(RuntimeError, match="Token z not found"):
        words["z"]
    words.set_default_index(0)
    assert words["z"] == words.get_default_index() == 0
    with pytest.raises(RuntimeError, match="out of bounds"):
        words.lookup_token(4)


def test_tokens_are_added() -> None:
    words = Vocab(["a", "b"])
    words.insert_token("c", 0)
    words.append_token("d")
    assert words.get_stoi() == {"c": 0, "a": 1, "b": 2, "d": 3}
    for add in (words.append_token, lambda token: words.insert_token(token, 0)):
        with pytest.raises(RuntimeError, match="already exists"):
            add("a")
    with pytest.raises(RuntimeError, match="out of bounds"):
        words.insert_token("e", 9)
    with pytest.raises(RuntimeError, match="Duplicate"):
        Vocab(["a", "a"])


def test_which_tokens_are_in_it() -> None:
    assert vocab({"a": 1, "b": 2}, min_freq=2, specials=["x"], special_first=False).get_itos() == [
        *("b", "x")
    ]
    few = build_vocab_from_iterator([["a", "b", "b"]], specials=["x"], max_tokens=2)
    assert few.get_itos() == ["x", "b"]


def test_a_field() -> None:
    field = Field("basic_english", init_token="<s>", eos_token="</s>", include_lengths=True)
    with pytest.raises(RuntimeError, match="build_vocab"):
        field.process(["a"])
    field.build_vocab(["A cat.", "a dog."], min_freq=2)
    batch, lengths = field.process(["a cat.", "a"])
    assert batch.tolist() == [[2, 5, 0, 4, 3], [2, 5, 3, 1, 1]]
    assert lengths.tolist() == [5, 3]
    assert field.texts(batch) == [["a", "<unk>", "."], ["a"]]


def test_a_field_of_one_length() -> None:
    field = Field(fix_length=3, eos_token="</s>", batch_first=False)
    field.build_vocab(["a b c d"])
    batch = field(["a b c d", "a"])
    assert batch.shape == (3, 2)
    assert field.texts(batch) == [["a", "b"], ["a"]]


def test_labelled_texts(tmp_path: Path) -> None:
    for name, text in (("neg/1", "bad"), ("pos/1", "good"), ("pos/2", "fine")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.txt").write_text(text)
    data = LabelledTexts.from_folder(tmp_path)
    assert data.classes == ["neg", "pos"]
    assert list(data) == [("bad", 0), ("good", 1), ("fine", 1)]
    (tmp_path / "t.csv").write_text('label,text\nx,"one, two"\ny,three\n')
    assert LabelledTexts.from_csv(tmp_path / "t.csv", "text", "label")[0] == ("one, two", 0)
    with pytest.raises(ValueError, match="no column 'words'"):
        LabelledTexts.from_csv(tmp_path / "t.csv", "words", "label")
    with pytest.raises(ValueError, match="row 1: there are only 2"):
        LabelledTexts.from_csv(tmp_path / "t.csv", 5, 0)
    with pytest.raises(FileNotFoundError, match="no folders"):
        LabelledTexts.from_folder(tmp_path, "*.md")
    with pytest.raises(ValueError, match="1 texts and 2 labels"):
        LabelledTexts(["a"], [1, 2])


def written_catalog(pairs: dict[str, str]) -> bytes:
    """A .mo file: a header, tables of lengths and places, then texts."""
    pairs = {"": "Content-Type: text/plain; charset=UTF-8\n", **pairs}
    keys = sorted(pairs)
    texts = [x.encode() for x in (*keys, *[pairs[key] for key in keys])]
    at = 28 + 16 * len(keys)
    table = b""
    for text in texts:
        table += struct.pack("<II", len(text), at)
        at += len(text) + 1
    header = struct.pack("<7I", 0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, 0)
    return header + table + b"".join([text + b"\0" for text in texts])


def test_pairs_of_translations(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo words\n")
    (tmp_path / "a.de").write_text("eins\nzwei Wörter\n", encoding="utf-8")
    corpus = ParallelCorpus.from_files(tmp_path / "a.en", tmp_path / "a.de")
    assert corpus[1] == ("two words", "zwei Wörter")
    assert corpus.lengths() == [1, 2]
    assert len(corpus.filter(lambda source, target: " " in source)) == 1
    (tmp_path / "b.tsv").write_text('say "hi"\tsag "hallo"\n')
    assert ParallelCorpus.from_csv(tmp_path / "b.tsv")[0] == ('say "hi"', 'sag "hallo"')
    (tmp_path / "a.en").write_text("one\n")
    with pytest.raises(ValueError, match="has 1 lines"):
        ParallelCorpus.from_files(tmp_path / "a.en", tmp_path / "a.de")
    batches = list(DataLoader(corpus, batch_sampler=LengthBucketSampler(corpus.lengths(), 2)))
    assert len(batches) == 1


def test_catalogs(tmp_path: Path) -> None:
    folder = tmp_path / "locale" / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    messages = {"_Open  file": "Datei _öffnen", "%d files": "%d Dateien", "menu\x04Save": "Sichern"}
    (folder / "x.mo").write_bytes(written_catalog(messages))
    corpus = ParallelCorpus.from_catalogs(tmp_path, "de")
    assert sorted(corpus.pairs) == [("Open file", "Datei öffnen"), ("Save", "Sichern")]
    with pytest.raises(FileNotFoundError, match="no catalogs of fr"):
        ParallelCorpus.from_catalogs(tmp_path, "fr")


def test_bleu() -> None:
    candidate = [["my", "full", "pytorch", "test"], ["another", "sentence"]]
    references = [
        [["my", "full", "pytorch", "test"], ["completely", "different"]],
        [["no", "match"]],
    ]
    assert bleu_score(candidate, references) == pytest.approx(0.8408964276313782)
    assert bleu_score([["a", "b"]], [[["a", "b", "c", "d"]]], max_n=2) == pytest.approx(
        math.exp(-1)
    )
    assert bleu_score([["a"]], [[["b"]]]) == 0
    assert bleu_score([], []) == 0
    with pytest.raises(ValueError, match="should be the same"):
        bleu_score([["a"]], [])
    with pytest.raises(ValueError, match="equal to max_n"):
        bleu_score([["a"]], [[["a"]]], weights=[1.0])


def test_perplexity() -> None:
    logits = lg.zeros(2, 3, 8)
    targets = lg.tensor([[0, 1, 2], [3, -100, -100]])
    assert perplexity(logits, targets).item() == pytest.approx(8)
