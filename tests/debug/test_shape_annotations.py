"""Annotations of shapes, checked when asked, with names in the messages."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.debug import Bool, Float, Int, Shaped, ShapeError


@lg.shapes
def attend(q: Float["b t d"], k: Float["b s d"], mask: Bool["t s"] | None = None) -> Float["b t s"]:  # noqa: F722
    return q @ k.transpose(1, 2)


@lg.shapes
def embed(ids: Int["*batch n"], table: Float["v 4"]) -> Float["*batch n 4"]:  # noqa: F722
    return table[ids]


@lg.shapes
def doubled(x: Shaped["n ..."]) -> Shaped["2*n ..."]:  # noqa: F722
    return lg.cat([x, x])


def test_what_fits() -> None:
    assert attend(lg.ones(2, 3, 4), lg.ones(2, 5, 4)).shape == (2, 3, 5)
    assert embed(lg.zeros(2, 3, 5, dtype=lg.int64), lg.ones(7, 4)).shape == (2, 3, 5, 4)
    assert embed(lg.zeros(5, dtype=lg.int64), lg.ones(7, 4)).shape == (5, 4)
    assert doubled(lg.ones(3, 2, 2)).shape == (6, 2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: attend(lg.ones(2, 3, 4), lg.ones(2, 5, 6)),
            r"attend\(\): argument 'k' does not fit Float\[\"b s d\"\]: dim 2 is 6, but 'd' is 4 "
            r"by argument 'q' \(2, 3, 4\)\n  argument 'k' \(2, 5, 6\)\n +~$",
        ),
        (lambda: attend(lg.ones(2, 3), lg.ones(2, 5, 6)), "has 2 dims.*expected.*3"),
        (lambda: attend(lg.ones(2, 3, 4).long(), lg.ones(2, 5, 4)), "has dtype int64"),
        (lambda: attend([1.0], lg.ones(2, 5, 4)), "is list; expected"),
        (lambda: embed(lg.zeros(5, dtype=lg.int64), lg.ones(7, 3)), "dim 1 is 3, but '4' is 4"),
        (lambda: embed(lg.zeros((), dtype=lg.int64), lg.ones(7, 4)), "at least 1"),
    ],
)
def test_what_does_not(call: Any, text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        call()


def test_results_and_modules() -> None:
    @lg.shapes
    class Wrong(nn.Module):
        def forward(self, x: Float["b n"]) -> Float["n b"]:  # noqa: F722
            return x

    assert Wrong()(lg.ones(3, 3)).shape == (3, 3)
    with pytest.raises(ShapeError, match="the result does not fit"):
        Wrong()(lg.ones(3, 4))


def test_annotations_of_jaxtyping() -> None:
    class Made:  # what jaxtyping's Float[Tensor, "b c"] is, as far as it is read
        __name__ = "Float[Tensor, 'b c']"
        dim_str = "b c"

    def plain(x: Any) -> Any:
        return x

    plain.__annotations__ = {"x": Made()}
    checked = lg.shapes(plain)
    assert checked(lg.ones(2, 3)).shape == (2, 3)
    with pytest.raises(ShapeError, match="has 1 dims"):
        checked(lg.ones(2))
    assert Float[lg.Tensor, "b c"] == Float["b c"]
