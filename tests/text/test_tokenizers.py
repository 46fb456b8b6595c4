"""Tokenisers: what they cut, learn, write to files, and how ids become text again."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from livegrad.text import (
    BPETokenizer,
    ByteTokenizer,
    WordPieceTokenizer,
    basic_english,
    get_tokenizer,
    ngrams_iterator,
)
from livegrad.text.patterns import GPT2, compiled
from livegrad.text.tokenizers.merging import merged

LINES = ["low lower lowest", "new newer newest wide", "the lowest of the new"] * 3


def trained(size: int = 280, **options: object) -> BPETokenizer:
    return BPETokenizer.train(LINES, vocab_size=size, **options)  # type: ignore[arg-type]


def test_merges_best_first() -> None:
    ranks = {("e", "r"): 0, ("l", "o"): 1, ("lo", "w"): 2}
    assert merged("lower", ranks) == ["low", "er"]
    assert merged("", ranks) == []
    assert merged("aaa", {("a", "a"): 0}) == ["aa", "a"]


def slowly_merged(word: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    parts = list(word)
    while True:
        pairs = [(ranks.get((a, b), 1 << 30), i) for i, (a, b) in enumerate(pairwise(parts))]
        if not pairs or min(pairs)[0] == 1 << 30:
            return parts
        i = min(pairs)[1]
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@settings(max_examples=200, deadline=None)
@given(
    st.text("ab", max_size=20),
    st.lists(st.tuples(st.sampled_from(["a", "b", "ab", "aa"]), st.sampled_from("ab")), max_size=6),
)
def test_merging_is_what_its_rule_says(word: str, pairs: list[tuple[str, str]]) -> None:
    ranks = {pair: rank for rank, pair in enumerate(dict.fromkeys(pairs))}
    assert merged(word, ranks) == slowly_merged(word, ranks)


def test_the_commonest_pairs_are_learnt_first() -> None:
    tokenizer = BPETokenizer.train(["ab ab ab cd"], vocab_size=258)
    assert tokenizer.merges == [("a", "b"), ("Ġ", "ab")]
    assert BPETokenizer.train(["ab cd"], vocab_size=300, min_frequency=2).merges == []


def test_learning_stops_at_the_size() -> None:
    assert len(trained(270)) == 270
    with pytest.raises(ValueError, match="at least 257"):
        trained(256, special_tokens=["<end>"])


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_bytes_and_pairs_give_back_any_text(text: str) -> None:
    for tokenizer in (TRAINED, ByteTokenizer(["<end>"])):
        assert tokenizer.decode(tokenizer.encode(text)) == text


TRAINED = trained(special_tokens=["<end>"])


def test_special_tokens() -> None:
    end = TRAINED.token_to_id["<end>"]
    ids = TRAINED.encode("low<end>lower")
    assert ids.count(end) == 1
    assert TRAINED.decode(ids) == "low<end>lower"
    assert TRAINED.decode(ids, skip_special_tokens=True) == "lowlower"
    tokenizer = ByteTokenizer()
    assert tokenizer.add_special_tokens(["<a>", "<a>", "<ab>"]) == 2
    assert tokenizer.encode("<ab><a>") == [257, 256]
    with pytest.raises(ValueError, match="not empty"):
        tokenizer.add_special_tokens([""])


def test_ids_that_are_not_there() -> None:
    with pytest.raises(IndexError, match="there is no token 999"):
        ByteTokenizer().decode([999])


def test_half_a_character_is_marked() -> None:
    assert ByteTokenizer().decode([0xC3]) == "�"


def test_files_give_the_same_tokeniser(tmp_path: Path) -> None:
    TRAINED.save(tmp_path / "tokenizer.json")
    again = BPETokenizer.from_file(tmp_path / "tokenizer.json")
    assert again.token_to_id == TRAINED.token_to_id
    assert again.encode("the newest<end> low") == TRAINED.encode("the newest<end> low")
    (tmp_path / "vocab.json").write_text(json.dumps(TRAINED.token_to_id), encoding="utf-8")
    merges = "\n".join(["#version: 0.2", *map(" ".join, TRAINED.merges)])
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    third = BPETokenizer.from_files(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert third.encode("the newest low") == TRAINED.encode("the newest low")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON", "is not JSON"),
        ("[]", "of the kind None"),
        ('{"model": {"type": "Unigram"}}', "of the kind Unigram, not BPE"),
        ('{"model": {"type": "BPE", "vocab": {}}}', "not made of bytes"),
        (
            '{"model": {"type": "BPE", "vocab": {"a": "b"}},'
            ' "pre_tokenizer": {"type": "ByteLevel"}}',
            "tokens and their numbers",
        ),
        (
            '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["abc"]},'
            ' "pre_tokenizer": {"type": "ByteLevel"}}',
            "not two symbols",
        ),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        BPETokenizer.from_file(tmp_path / "tokenizer.json")


def test_the_pattern_of_words() -> None:
    words = compiled(GPT2).findall("We've  12 naïve½ words…\n")
    assert words == ["We", "'ve", " ", " 12", " naïve", "½", " words", "…", "\n"]
    assert compiled(r"[^\p{Lu}\s]+").findall("aB c") == ["a", "c"]
    with pytest.raises(ValueError, match="called 'Qq'"):
        compiled(r"\p{Qq}")


def word_pieces() -> WordPieceTokenizer:
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "un",
        "##aff",
        "##able",
        "a",
        ",",
        "cafe",
    ]
    return WordPieceTokenizer({token: i for i, token in enumerate(tokens)})


def test_pieces_of_words() -> None:
    tokenizer = word_pieces()
    assert tokenizer.tokenize("Unaffable, a CAFÉ x") == [
        *("un", "##aff", "##able", ",", "a", "cafe", "[UNK]")
    ]
    assert tokenizer.encode_pair("a", "a , a") == ([2, 8, 3, 8, 9, 8, 3], [0, 0, 0, 1, 1, 1, 1])
    assert tokenizer.decode([5, 6, 7, 9]) == "unaffable ,"
    assert tokenizer.tokenize("a[MASK]a") == ["a", "[MASK]", "a"]
    assert tokenizer.tokenize("a" * 101) == ["[UNK]"]


def test_pieces_of_words_in_a_file(tmp_path: Path) -> None:
    tokenizer = word_pieces()
    tokenizer.save(tmp_path / "vocab.txt")
    again = WordPieceTokenizer.from_file(tmp_path / "vocab.txt")
    assert again.token_to_id == tokenizer.token_to_id


def test_words() -> None:
    assert basic_english('He said: "no!"') == ["he", "said", "no", "!"]
    assert get_tokenizer(None)("a  b") == ["a", "b"]
    assert get_tokenizer("basic_english") is basic_english
    assert get_tokenizer(list)("ab") == ["a", "b"]
    with pytest.raises(ValueError, match="Requested tokenizer spacy"):
        get_tokenizer("spacy")
    assert list(ngrams_iterator(["a", "b", "c"], 3)) == ["a", "b", "c", "a b", "b c", "a b c"]
