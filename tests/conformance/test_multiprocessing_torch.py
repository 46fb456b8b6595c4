"""Names, parameters and errors of `multiprocessing` are those of PyTorch."""

from __future__ import annotations

import inspect

import pytest

from livegrad import multiprocessing as ours

theirs = pytest.importorskip("torch.multiprocessing")

CLASSES = ("ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext")


def test_names() -> None:
    public = {x for x in theirs.__all__ if not x.startswith("_")}
    assert public <= set(dir(ours))


@pytest.mark.parametrize("name", ["spawn", "start_processes"])
def test_parameters(name: str) -> None:
    found = inspect.signature(getattr(ours, name)).parameters.values()
    wanted = inspect.signature(getattr(theirs, name)).parameters.values()
    assert [(p.name, p.default) for p in found] == [(p.name, p.default) for p in wanted]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    mine, other = getattr(ours, name), getattr(theirs, name)
    assert [c.__name__ for c in mine.__mro__] == [c.__name__ for c in other.__mro__]
    if name.endswith("Exception"):
        args = ("text", 1, 234, -9, "SIGKILL") if "Exited" in name else ("text", 1, 234)
        for known in ("msg", "error_index", "error_pid", "exit_code", "signal_name"):
            values = [getattr(kind(*args), known, None) for kind in (mine, other)]
            assert values[0] == values[1], known
        assert str(mine(*args)) == str(other(*args))


def test_strategies() -> None:
    assert ours.get_all_sharing_strategies() == theirs.get_all_sharing_strategies()
    for module in (ours, theirs):
        with pytest.raises(AssertionError):
            module.set_sharing_strategy("telepathy")
