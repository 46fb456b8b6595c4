"""Names that few programs use, and what they do."""

from __future__ import annotations

import warnings

import pytest

import livegrad as lg
from livegrad import jit, serialization


@pytest.mark.parametrize("value", [1, True, -0.5, float("nan"), [2.0]])
def test_assert_async_passes(value: object) -> None:
    assert lg._assert_async(lg.tensor(value)) is None


def test_assert_async_fails() -> None:
    with pytest.raises(RuntimeError, match="nonzero value, but got zero"):
        lg._assert_async(lg.tensor(0.0))
    with pytest.raises(RuntimeError, match="^of mine$"):
        lg._assert_async(lg.tensor(False), "of mine")
    with pytest.raises(RuntimeError, match="ambiguous"):
        lg._assert_async(lg.tensor([1, 0]))


@pytest.mark.parametrize("name", ["selu_", "celu_", "rrelu_"])
def test_activations_in_place(name: str) -> None:
    x = lg.tensor([-1.0, 2.0])
    expected = getattr(lg.nn.functional, name[:-1])(x)
    assert getattr(lg, name)(x) is x
    assert x.tolist() == expected.tolist()


def test_threshold_in_place() -> None:
    x = lg.tensor([-1.0, 2.0])
    assert lg.threshold_(x, 0.5, 9.0) is x
    assert x.tolist() == [9.0, 2.0]


def test_warnings_of_tracing_can_be_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", jit.TracerWarning)
        jit.TracerWarning.ignore_lib_warnings()
        traced = jit.trace(lg.nn.Linear(2, 1), lg.ones(1, 2))
    assert traced(lg.ones(1, 2)).shape == (1, 1)


def test_annotations_of_loading() -> None:
    def load(path: serialization.FileLike, to: serialization.MAP_LOCATION = None) -> None: ...

    assert isinstance("cpu", serialization.MAP_LOCATION.__args__[2])
    assert load is not None
