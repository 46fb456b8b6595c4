"""The usual files of vocabularies: vocab.json and merges.txt, vocab.txt, tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from livegrad.serialization.files import writing
from livegrad.text import patterns
from livegrad.text.tokenizers.merging import Pair

if TYPE_CHECKING:
    from livegrad.text.tokenizers.bpe import BPETokenizer


def _json(path: Any) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _checked_tokens(path: Any, tokens: Any) -> dict[str, int]:
    numbers = tokens.values() if isinstance(tokens, dict) else [None]
    if not all([type(x) is int and x >= 0 for x in numbers]):
        raise ValueError(f"{path}: a vocabulary is an object of tokens and their numbers")
    return dict(tokens)


def read_vocab_json(path: Any) -> dict[str, int]:
    """Tokens and their ids."""
    return _checked_tokens(path, _json(path))


def read_merges(path: Any) -> list[Pair]:
    """Pairs, best first: two symbols per line, after a line that says the version."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    if lines[0].startswith("#version"):
        del lines[0]
    return [_pair(path, line) for line in lines if line]


def _pair(path: Any, merge: Any) -> Pair:
    parts = merge.split(" ") if isinstance(merge, str) else merge
    match parts:
        case [str(left), str(right)]:
            return left, right
    raise ValueError(f"{path}: {merge!r} is not two symbols that are merged")


def read_vocab_txt(path: Any) -> dict[str, int]:
    """A token per line; its number is its id."""
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return {line.rstrip("\r"): i for i, line in enumerate(lines)}


def write_vocab_txt(path: Any, tokens: dict[str, int]) -> None:
    """A token per line, in the order of their ids, which must have no gap."""
    ordered = sorted(tokens, key=tokens.__getitem__)
    if [tokens[x] for x in ordered] != list(range(len(ordered))):
        raise ValueError("the ids of the tokens are not 0, 1, 2, …: such a file cannot have them")
    with writing(path) as file:
        file.write("".join([f"{token}\n" for token in ordered]).encode())


# ------------------------------------------------------------------------------ tokenizer.json


def read_bpe(path: Path) -> dict[str, Any]:
    """What `BPETokenizer` is made of, from a tokenizer.json with bytes that are merged."""
    content = _json(path)
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else None
        raise ValueError(f"{path}: this is a tokeniser of the kind {kind}, not BPE")
    stages = list(_stages(content.get("pre_tokenizer")))
    level = next((x for x in stages if x.get("type") == "ByteLevel"), None)
    if level is None or content.get("normalizer"):
        raise ValueError(f"{path}: its tokens are not made of bytes, which is what is supported")
    added = content.get("added_tokens") or []
    tokens = _checked_tokens(path, model.get("vocab"))
    tokens |= {x["content"]: x["id"] for x in added}
    return {
        "tokens": tokens,
        "merges": [_pair(path, merge) for merge in model.get("merges", [])],
        "special_tokens": [x["content"] for x in added],
        "pattern": _pattern(path, stages, level),
        "add_prefix_space": bool(level.get("add_prefix_space", False)),
        "ignore_merges": bool(model.get("ignore_merges", False)),
    }


def _stages(stage: Any) -> Iterator[dict[str, Any]]:
    if isinstance(stage, dict):
        if stage.get("type") == "Sequence":
            for inner in stage.get("pretokenizers", []):
                yield from _stages(inner)
        else:
            yield stage


def _pattern(path: Path, stages: list[dict[str, Any]], level: dict[str, Any]) -> str:
    others = [x for x in stages if x is not level]
    if not others and level.get("use_regex", True):
        return patterns.GPT2
    match others:
        case [{"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}]:
            return pattern
    raise ValueError(f"{path}: words are cut in a way that is not supported: {others}")


def write_bpe(path: Path, tokenizer: BPETokenizer) -> None:
    """A tokenizer.json."""
    special = tokenizer.special_tokens
    split = {"type": "Split", "pattern": {"Regex": tokenizer.pattern}, "behavior": "Isolated"}
    level = {
        "type": "ByteLevel",
        "add_prefix_space": tokenizer.add_prefix_space,
        "trim_offsets": True,
        "use_regex": tokenizer.pattern == patterns.GPT2,
    }
    stages = [level] if level["use_regex"] else [split | {"invert": False}, level]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(token, tokenizer.token_to_id[token]) for token in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": stages},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.ignore_merges,
            "vocab": tokenizer.token_to_id,
            "merges": [list(pair) for pair in tokenizer.merges],
        },
    }
    with writing(path) as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=2).encode())


def _added(token: str, number: int) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": token, **flags, "special": True}
