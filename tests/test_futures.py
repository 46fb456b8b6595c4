"""Values that are there later."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import livegrad as lg
from livegrad.futures import Future, collect_all, wait_all


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def test_another_thread_sets_the_value() -> None:
    future: Future[int] = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    thread = threading.Timer(0.02, lambda: future.set_result(3))
    thread.start()
    assert future.wait() == future.value() == 3
    thread.join()
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(4)


def test_chains() -> None:
    future: Future[int] = Future()
    seen = []
    last = future.then(lambda f: f.value() + 1).then(lambda f: f.wait() * 10)
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(1)
    assert last.wait() == 20
    assert seen == [1]
    assert done(5).then(lambda f: f.value()).value() == 5


def test_errors_travel(capsys: Any) -> None:
    failed = done(0).then(lambda f: 1 // f.value())
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    with pytest.raises(ZeroDivisionError):
        failed.then(lambda f: f.value()).wait()
    done(0).add_done_callback(lambda f: 1 // f.value())
    assert "ZeroDivisionError" in capsys.readouterr().err
    broken: Future[int] = Future()
    broken.set_exception(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        broken.wait()
    with pytest.raises(AssertionError):
        Future().set_exception("no error")  # type: ignore[arg-type]


def test_all_of_them() -> None:
    late: Future[int] = Future()
    together = collect_all([done(1), late])
    assert not together.done()
    late.set_result(2)
    assert [f.value() for f in together.wait()] == [1, 2]
    assert wait_all([done(1), done(2)]) == [1, 2]
    assert wait_all([]) == []
    with pytest.raises(ZeroDivisionError):
        wait_all([done(1), done(0).then(lambda f: 1 // f.value())])


def test_the_name_at_the_top() -> None:
    assert lg.Future is Future
