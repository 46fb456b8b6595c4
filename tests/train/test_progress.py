"""progress(): what it shows on terminals, in notebooks and in logs."""

from __future__ import annotations

import io
import sys
import time
import types

import pytest

import livegrad as lg
from livegrad import train
from livegrad.train import screens
from livegrad.utils.data import DataLoader


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told to."""
    now = types.SimpleNamespace(time=100.0)
    monkeypatch.setattr(time, "perf_counter", lambda: now.time)
    return now


@pytest.fixture(autouse=True)
def terminal_environment(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def test_lines_for_logs(clock):
    out = io.StringIO()
    for i in (bar := train.progress(range(100), "epoch 1", file=out)):
        bar.set(loss=lg.tensor(0.5) / (i + 1), name="a")
        clock.time += 0.25
    lines = out.getvalue().splitlines()
    # A tenth takes 2.5 seconds; the last line is the one at the end.
    assert len(lines) == 11
    assert lines[0] == "epoch 1  10/100  10%  loss 0.05  name a  4 it/s  0:00:02 ETA 0:00:22"
    assert lines[-1] == "epoch 1  100/100  100%  loss 0.005  name a  4 it/s  0:00:25"


def test_a_quick_loop_is_one_line():
    out = io.StringIO()
    assert list(train.progress([1, 2, 3], file=out)) == [1, 2, 3]
    assert len(out.getvalue().splitlines()) == 1


def test_a_slow_loop_says_something_now_and_then(clock):
    out = io.StringIO()
    for _ in train.progress(range(1000), file=out, unit="file"):
        clock.time += 20.0
        if clock.time > 250:
            break
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert "2/1000" in lines[0]
    assert "20 s/file" in lines[0]
    assert lines[-1].startswith("7/1000")


def test_without_a_length_or_an_iterable(clock):
    out = io.StringIO()
    for _ in train.progress((i for i in range(5)), file=out):
        clock.time += 1.0
    assert out.getvalue() == "5  1 it/s  0:00:05\n"
    with train.progress(total=40, description="rows", file=out) as bar:
        clock.time += 2.0
        bar.update(40)
    assert out.getvalue().splitlines()[-1] == "rows  40/40  100%  20 it/s  0:00:02"
    with pytest.raises(TypeError, match="update"):
        iter(bar).__next__()


def test_values_are_read_only_when_drawn(counted):
    with counted() as c:
        for i in (bar := train.progress(range(50), file=io.StringIO())):
            bar.set(loss=lg.tensor(1.0) * i)
    assert c.flushes <= 2


def test_bars_on_a_terminal(clock):
    out = FakeTerminal()
    for _ in train.progress(range(2), "epochs", file=out):
        for i in (inner := train.progress(range(4), "batches", file=out)):
            clock.time += 0.5
            inner.set(loss=1.0 / (i + 1))
            inner.write(f"note {i}")
    text = out.getvalue()
    assert "━" in text
    assert "loss 0.25" in text
    assert "ETA" in text
    assert "note 3" in text
    last = text.rsplit("epochs", 1)[1]
    assert "2/2" in last
    assert "batches" not in last  # the inner bar has gone
    assert text.endswith("\x1b[?25h")  # and the cursor is back
    assert not screens.screen_for(out).bars


def test_what_is_printed_to_a_file_goes_there(capsys):
    for i in train.progress(range(2), file=FakeTerminal()):
        print("row", i)
    assert capsys.readouterr().out == "row 0\nrow 1\n"


def test_an_error_in_the_loop_ends_the_bar():
    out = FakeTerminal()
    with pytest.raises(ZeroDivisionError):
        for _ in train.progress(range(3), file=out):
            1 / 0
    assert not screens.screen_for(out).bars
    assert not hasattr(sys.stdout, "rich_proxied_file")


def test_dumb_terminals_get_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = FakeTerminal()
    list(train.progress(range(3), file=out))
    assert out.getvalue().startswith("3/3  100%")
    assert "\x1b" not in out.getvalue()


def test_notebooks(monkeypatch, clock):
    shown = []

    class Display:
        def update(self, content):
            shown.append(content)

    def display(content, display_id):
        shown.append(content)
        return Display()

    fake = types.ModuleType("IPython")
    fake.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
    inner = types.ModuleType("IPython.display")
    inner.HTML, inner.display = (lambda text: text), display
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    for i in (bar := train.progress(range(4), "<epoch>")):
        clock.time += 0.5
        bar.set(loss=0.5 / (i + 1))
    assert len(shown) >= 5
    assert "&lt;epoch&gt;" in shown[-1]
    assert 'value="1.0000"' in shown[-1]
    assert "loss 0.125" in shown[-1]


def test_a_resumed_loader_starts_where_it_was(clock):
    loader = DataLoader(list(range(10)), batch_size=2)
    batches = iter(loader)
    next(batches)
    next(batches)
    resumed = DataLoader(list(range(10)), batch_size=2)
    resumed.load_state_dict(loader.state_dict())
    out = io.StringIO()
    for _ in train.progress(resumed, file=out):
        clock.time += 1.0
    assert "  3/5  60%" in "  " + out.getvalue().splitlines()[0]
    assert out.getvalue().splitlines()[-1].startswith("5/5  100%  1 it/s")


def test_disabled():
    bar = train.progress(range(3), disable=True, file=io.StringIO())
    assert list(bar) == [0, 1, 2]
    assert len(bar) == 3
