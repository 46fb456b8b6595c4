"""A number is read on the shortest way, and is the same number on every way."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL
from livegrad.native import layout
from livegrad.runtime.speedup import Speedup, original_functions, speed_up

NUMBERS = {
    "bool": (False, True),
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), -1, (1 << 63) - 1),
    "float16": (-0.5, 65504.0),
    "float32": (-0.0, 1e-45, 0.1, 3.4e38, math.inf, -math.inf),
    "float64": (-0.0, 5e-324, 0.1, 1.7e308, math.inf, -math.inf),
}


@pytest.fixture(params=["translated", "python"])
def way(request):
    """Reading is a chain of hot functions: as native code, and as they are written."""
    if request.param == "python":
        with original_functions():
            yield
        return
    if not layout.is_known():
        pytest.skip("an interpreter we do not know")
    if not Speedup.made:
        speed_up()
    yield


@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_number_is_what_it_is(dtype, way):
    for number in NUMBERS[dtype]:
        stored = np.array(number, dtype)
        read = lg.tensor(stored).item()
        assert type(read) is type(stored.item())
        assert np.array(read, dtype).tobytes() == stored.tobytes()
        assert lg.tensor(np.array([0, number], dtype))[1].item() == stored.item()


def test_a_number_that_is_none(way):
    assert math.isnan(lg.tensor(math.nan).item())
    assert math.isnan((lg.tensor([0.0]) / 0).item())


def test_what_is_known_is_computed_again_and_again(way):
    x = lg.tensor([1.0, 2.0])
    for i in range(2000):
        assert (x[0] * i + x[1]).item() == i + 2
        assert not LOCAL.state.nodes


def test_a_refused_value_is_told_after_many_that_were_not(way):
    x, zero = lg.tensor([6, 8]), lg.tensor([2, 0])
    for _ in range(300):
        assert (x[0] // zero[0]).item() == 3
    with pytest.raises((RuntimeError, ZeroDivisionError), match="(?i)zero"):
        (x[1] // zero[1]).item()
    assert (x[0] // zero[0]).item() == 3


def test_more_than_one_number(way):
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted"):
        lg.ones(2).item()
    with pytest.raises(RuntimeError, match=r"item\(\) cannot be called on meta tensors"):
        lg.ones((), device="meta").item()


def test_threads_read_what_they_record(way):
    found = {}

    def read(number):
        x = lg.tensor(float(number))
        found[number] = sum((x + i).item() for i in range(200))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: 200.0 * n + 19900 for n in range(4)}
    assert (lg.tensor(1.0) + 1).item() == 2.0  # native code forgets the thread that asked last


def test_known_values_are_written_at_once(way):
    """What is written refers to nothing while it is: else all of the tensor would be copied."""
    x = lg.zeros(5, 3)
    assert x.sum().item() == 0
    address = x.data_ptr()
    row = lg.tensor([7.0, 8.0, 9.0])
    for key, value in ((2, row), ((3, 0), 5.0), (slice(4, 5), row), ((4, 2), lg.tensor(1.0))):
        x[key] = value
        assert not LOCAL.state.nodes, key
    assert x.data_ptr() == address
    expected = [[0.0] * 3, [0.0] * 3, [7.0, 8.0, 9.0], [5.0, 0.0, 0.0], [7.0, 8.0, 1.0]]
    assert x.tolist() == expected


def test_parts_by_ints(way):
    values = np.arange(24.0).reshape(4, 3, 2)
    x = lg.tensor(values)
    for i in (-4, -1, 0, 3):
        assert x[i].tolist() == values[i].tolist()
        assert x[lg.tensor(i)].tolist() == values[i].tolist()
        assert x[i][-1].tolist() == values[i][-1].tolist()
    for i in (-5, 4, 1 << 70):
        with pytest.raises(IndexError):
            x[i]
    with pytest.raises(IndexError):
        lg.tensor(1.0)[0]
    x.transpose_(0, 2)
    assert x[1].tolist() == values.transpose(2, 1, 0)[1].tolist()


def test_plain_numbers_become_tensors(way):
    for data in (3, -(1 << 63), [1, 2, 3], (4, 5), [1, 2.5], [True, 2], []):
        made = lg.tensor(data)
        expected = np.array(data)
        kept = expected.dtype if expected.dtype.kind in "i" else np.float32
        assert made.numpy().dtype == kept
        assert made.tolist() == expected.astype(kept).tolist()
    for data in (0.1, [0.1, -0.0, 1e-45, 3.3e38], 1e-46, float("inf"), [1.0, float("nan")]):
        stored = np.array(data, np.float32)
        assert lg.tensor(data).numpy().tobytes() == stored.tobytes()
    with pytest.raises(ValueError, match="Overflow"):
        lg.tensor(1 << 63)
