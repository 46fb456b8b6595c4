"""Bad input: the right class, at the user's line, saying what is wrong; nothing else is lost."""

from __future__ import annotations

import re
import traceback

import error_cases
import numpy as np
import pytest
from error_cases import CASES, LATE

import livegrad as lg
import livegrad.nn
import livegrad.optim


def mentioned(message, words):
    """Which of `words` (alternatives are separated by |) the message lacks."""
    return [w for w in words if not any(a.lower() in message.lower() for a in w.split("|"))]


@pytest.mark.parametrize("name", CASES)
def test_wrong_use_raises_at_its_line(name):
    case = CASES[name]
    bystander = lg.tensor([1.0, 2.0]) * 3  # pending while the error happens
    with pytest.raises(case.error) as caught:
        case.call(lg)
    assert mentioned(str(caught.value), case.mentions) == []
    assert len(str(caught.value)) > 10
    users = [f for f in traceback.extract_tb(caught.tb) if f.filename == error_cases.__file__]
    assert users[-1].lineno == case.call.__code__.co_firstlineno
    assert bystander.tolist() == [3.0, 6.0]
    assert (bystander + 1).tolist() == [4.0, 7.0]


@pytest.mark.parametrize("name", LATE)
def test_fault_at_run_time_names_the_recording_line(name):
    case = LATE[name]
    kept = lg.tensor([1.0, 2.0]) + 1
    kept.tolist()
    pending = lg.tensor([1.0, 2.0]) * 5
    with pytest.raises(case.error) as caught:
        case.call(lg).tolist()
    message = str(caught.value)
    assert mentioned(message, case.mentions) == []
    first = case.call.__code__.co_firstlineno
    numbers = [int(n) for n in re.findall(re.escape(error_cases.__file__) + r":(\d+)", message)]
    assert numbers, f"no line in {message!r}"
    assert first <= numbers[0] <= first + 2
    assert kept.tolist() == [2.0, 3.0]
    assert pending.tolist() == [5.0, 10.0]
    assert (lg.ones(2) + 1).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", LATE)
def test_fault_is_raised_once(name):
    bad = [LATE[name].call(lg)]
    other = lg.ones(2) * 4
    with pytest.raises(LATE[name].error):
        bad[0].tolist()
    bad.clear()
    assert other.tolist() == [4.0, 4.0]
    assert (other * other).tolist() == [16.0, 16.0]


def test_bad_value_raises_again_when_read_again():
    bad = lg.ones(3)[lg.tensor([5]) + 0]
    for _ in range(2):
        with pytest.raises(IndexError, match="5"):
            bad.tolist()
    good = lg.ones(3)[lg.tensor([2])]
    assert good.tolist() == [1.0]


def test_fault_in_a_training_step_leaves_the_parameters():
    weight = lg.tensor(np.eye(3, dtype=np.float32), requires_grad=True)
    optimizer = lg.optim.SGD([weight], lr=0.5)

    def step(tokens):
        optimizer.zero_grad()
        lg.nn.functional.embedding(lg.tensor(tokens), weight).sum().backward()
        optimizer.step()

    step([0])
    want = [[0.5, -0.5, -0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert weight.tolist() == want
    with pytest.raises(IndexError, match="17"):
        step([17])
    assert weight.tolist() == want
    step([1])
    assert weight.tolist() == [want[0], [-0.5, 0.5, -0.5], want[2]]


def test_error_inside_a_mode_restores_it():
    with pytest.raises(RuntimeError), lg.no_grad():
        lg.ones(2) + lg.ones(3)
    assert lg.is_grad_enabled()


def test_failed_write_changes_nothing():
    x = lg.tensor([1.0, 2.0, 3.0])
    view = x[:2]
    with pytest.raises(RuntimeError):
        view += lg.ones(3)
    with pytest.raises(IndexError):
        x[3] = 1.0
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert view.tolist() == [1.0, 2.0]


def test_message_says_op_got_and_expected():
    with pytest.raises(RuntimeError) as caught:
        lg.ones(2, 3) + lg.ones(4, 3)
    message = str(caught.value)
    assert message.startswith("The size of tensor a (2) must match the size of tensor b (4)")
    assert message.splitlines()[-1].startswith("add: ")
    assert "got shapes [2, 3] and [4, 3]" in message
    assert "expected" in message


def test_error_of_a_user_function_in_backward_is_the_users():
    x = lg.ones(2, requires_grad=True)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).sum().backward()
    assert lg.is_grad_enabled()
    y = lg.ones(2, requires_grad=True)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
