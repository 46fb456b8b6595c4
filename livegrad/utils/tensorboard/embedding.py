"""Embeddings for TensorBoard's projector: files beside the events, and a text that names them.

projector_config.pbtxt                 all embeddings of the directory
00000/default/tensors.tsv              a row per point
              metadata.tsv             a label per point
              sprite.png               a picture per point, all in one square image
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import ceil, sqrt
from typing import Any

import numpy as np

from livegrad.utils.tensorboard.images import grid, image_bytes, png

Array = np.ndarray[Any, Any]


def folder_of(tag: str, step: int) -> str:
    """Where the files of an embedding go, below the directory of the writer."""
    encoded = tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
    return f"{step:05d}/{encoded}"


def make_folder(path: str) -> None:
    """Makes a directory, unless it is there; a file in its place is an error."""
    if os.path.isdir(path):
        print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
    elif os.path.exists(path):
        raise NotADirectoryError(f"Path: `{path}` exists, but is a file. Cannot proceed.")
    else:
        os.makedirs(path)


def write_points(path: str, points: Array) -> None:
    """`tensors.tsv`."""
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    rows = ["\t".join([str(x) for x in row]) + "\n" for row in points.tolist()]
    _write(os.path.join(path, "tensors.tsv"), "".join(rows))


def write_labels(path: str, labels: Sequence[Any], header: Sequence[Any] | None) -> None:
    """`metadata.tsv`: one column, or several with names."""
    lines = [str(label) for label in labels]
    if header:
        if len(header) != len(labels[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = ["\t".join([str(x) for x in row]) for row in [header, *labels]]
    _write(os.path.join(path, "metadata.tsv"), "\n".join(lines) + "\n")


def write_sprite(path: str, pictures: Array) -> None:
    """`sprite.png`: pictures (N, C, H, W) row by row, in a square if they are not too high."""
    columns = ceil(sqrt(len(pictures)))
    rows = grid(image_bytes(pictures.transpose(0, 2, 3, 1)), columns)
    height, width = rows.shape[:2]
    square = np.zeros((max(height, width), width, 3), np.uint8)
    square[:height] = rows
    with open(os.path.join(path, "sprite.png"), "wb") as file:
        file.write(png(square))


def described(name: str, folder: str, labelled: bool, pictures: Array | None) -> str:
    """One embedding in the words of `projector_config.pbtxt`."""
    lines = [f"  tensor_name: {_quoted(name)}"]
    if labelled:
        lines.append(f"  metadata_path: {_quoted(f'{folder}/metadata.tsv')}")
    if pictures is not None:
        height, width = pictures.shape[2:]
        lines += [
            "  sprite {",
            f"    image_path: {_quoted(f'{folder}/sprite.png')}",
            f"    single_image_dim: {width}",
            f"    single_image_dim: {height}",
            "  }",
        ]
    lines.append(f"  tensor_path: {_quoted(f'{folder}/tensors.tsv')}")
    return "embeddings {\n" + "\n".join(lines) + "\n}\n"


def write_config(path: str, embeddings: Sequence[str]) -> None:
    """`projector_config.pbtxt`, anew."""
    _write(os.path.join(path, "projector_config.pbtxt"), "".join(embeddings))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _quoted(text: str) -> str:
    """A string of protobuf's text format: bytes that are not plain are written in octal."""
    out = ""
    for byte in text.encode("utf-8"):
        if byte in b"\\\"'":
            out += "\\" + chr(byte)
        else:
            out += chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
    return f'"{out}"'
