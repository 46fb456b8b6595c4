"""Programs that import torchtext get what livegrad has for texts."""

from __future__ import annotations

from pathlib import Path

import pytest

import livegrad as lg
from livegrad.porting.modules.torchtext import data, datasets, functional, transforms, vocab
from tests.porting.support import run, write

CLASSIFIER = """
import torch
from torch import nn
from torch.utils.data import DataLoader
import torchtext
from torchtext.data.functional import to_map_style_dataset
from torchtext.data.utils import get_tokenizer
from torchtext.datasets import AG_NEWS
from torchtext.vocab import build_vocab_from_iterator

torchtext.disable_torchtext_deprecation_warning()
torch.manual_seed(0)  # a word that was never seen has the vector that it began with
tokenizer = get_tokenizer("basic_english")
tokens = (tokenizer(text) for _, text in AG_NEWS("here", "train"))
words = build_vocab_from_iterator(tokens, specials=["<unk>"])
words.set_default_index(words["<unk>"])

def collate(batch):
    texts = [torch.tensor(words(tokenizer(text))) for _, text in batch]
    offsets = torch.tensor([0] + [len(t) for t in texts[:-1]]).cumsum(0)
    return torch.tensor([label - 1 for label, _ in batch]), torch.cat(texts), offsets

train, test = AG_NEWS("here")
loader = DataLoader(to_map_style_dataset(train), batch_size=2, collate_fn=collate)
bag, head = nn.EmbeddingBag(len(words), 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*bag.parameters(), *head.parameters()], lr=1.0)
for _ in range(40):
    for labels, texts, offsets in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(bag(texts, offsets)), labels).backward()
        optimizer.step()
labels, texts, offsets = collate(list(test))
print(head(bag(texts, offsets)).argmax(1).eq(labels).all().item())
"""


def test_a_classifier_of_texts_trains(tmp_path: Path) -> None:
    place = tmp_path / "here" / "datasets" / "AG_NEWS"
    place.mkdir(parents=True)
    rows = ['1,"Wars","Peace, and war"', '2,"Sport","The game is won"']
    (place / "train.csv").write_text("\n".join(rows * 3))
    (place / "test.csv").write_text('2,"Sport","a game"\n1,"Wars","a war"')
    write(tmp_path, script=CLASSIFIER)
    ran = run("script.py", cwd=tmp_path)
    assert ran.stdout == "True\n", ran.stderr


def test_texts_become_tensors_of_one_width() -> None:
    words = vocab.build_vocab_from_iterator([["a", "b"], ["a"]], specials=["<pad>", "<s>"])
    steps = transforms.Sequential(
        transforms.VocabTransform(words),
        transforms.AddToken(words["<s>"]),
        transforms.Truncate(3),
        transforms.ToTensor(padding_value=words["<pad>"]),
        transforms.PadTransform(4, words["<pad>"]),
    )
    out = steps([["a", "b", "a"], ["b"]])
    assert out.tolist() == [[1, 2, 3, 0], [1, 3, 0, 0]]
    assert out.dtype == lg.int64
    assert functional.str_to_int(["3", "4"]) == [3, 4]
    assert transforms.LabelToIndex(["yes", "no"], sort_names=True)(["no", "yes"]) == [0, 1]
    with pytest.raises(TypeError, match="not supported"):
        functional.truncate("text", 2)


def test_lines_become_numbers() -> None:
    lines = data.custom_replace([("S", "s"), (r"\s+", " ")])(["Sentence   one", "a S"])
    split = list(data.simple_space_split(lines))
    assert split == [["sentence", "one"], ["a", "s"]]
    known = {"sentence": 0, "one": 1, "a": 2, "s": 3}
    numbers = data.numericalize_tokens_from_iterator(known, split, removed_tokens=["a"])
    assert [list(line) for line in numbers] == [[0, 1], [3]]


def test_vectors_of_words_are_read_from_their_file(tmp_path: Path) -> None:
    (tmp_path / "glove.6B.2d.txt").write_text("the 1.0 2.0\ncat -1 0.5\n")
    vectors = vocab.GloVe("6B", 2, cache=str(tmp_path))
    assert (len(vectors), vectors.dim, vectors["cat"].tolist()) == (2, 2, [-1.0, 0.5])
    found = vectors.get_vecs_by_tokens(["THE", "dog"], lower_case_backup=True)
    assert found.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    with pytest.raises(FileNotFoundError, match="livegrad downloads no vectors"):
        vocab.FastText(cache=str(tmp_path))


def test_data_sets_are_read_from_their_files(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        file = tmp_path / "datasets" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    root = str(tmp_path)
    put("WikiText2/wikitext-2/wiki.train.tokens", " = A = \n b c\n")
    put("IMDB/aclImdb/train/pos/1.txt", "good")
    put("IMDB/aclImdb/train/neg/1.txt", "bad")
    put("Multi30k/train.de", "ein Hund\n")
    put("Multi30k/train.en", "a dog\n")
    put("SST2/SST-2/dev.tsv", "sentence\tlabel\nit is fun \t1\n")
    lines = datasets.WikiText2(root, split="train")
    assert list(lines) == list(lines) == [" = A = \n", " b c\n"]
    assert list(datasets.IMDB(root, "train")) == [(1, "bad"), (2, "good")]
    assert list(datasets.Multi30k(root, "train")) == [("ein Hund", "a dog")]
    assert list(datasets.SST2(root, "dev")) == [("it is fun", 1)]
    with pytest.raises(FileNotFoundError, match=r"ptb\.train\.txt is not there, and livegrad down"):
        datasets.PennTreebank(root)
    with pytest.raises(ValueError, match="'dev' is none of train, test"):
        datasets.IMDB(root, "dev")
