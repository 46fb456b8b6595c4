"""`livegrad.watch()` and `livegrad.view()`: a record that is taken, asked, saved and shown."""

from __future__ import annotations

import os
import socket
import sys
import time
import webbrowser
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any

from livegrad.graph.handle import Handle
from livegrad.view.asking import Graph
from livegrad.view.document import Document, LiveDocument
from livegrad.view.files import FileDocument, save
from livegrad.view.gate import Gate
from livegrad.view.record import MOST_STEPS, Recorder, StepRecord
from livegrad.view.server import Server
from livegrad.view.steps import graph_of_step
from livegrad.view.summary import graph_of


class Watch:
    """A record of what runs: `with livegrad.watch() as w:`, then `w.graph()`, `w.save(…)`.

    `values=True` has statistics of all values taken, in steps for which there is time. `steps` is
    how many of the latest steps are kept.
    """

    def __init__(self, *, values: bool = False, steps: int = MOST_STEPS) -> None:
        if steps < 1:
            raise ValueError(f"watch: steps must be at least 1; got {steps}")
        self.recorder = Recorder(values, steps)
        self.document = LiveDocument(self.recorder)

    def start(self) -> Watch:
        """Begins."""
        self.recorder.start()
        return self

    def stop(self) -> None:
        """Ends."""
        self.recorder.stop()

    def __enter__(self) -> Watch:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.recorder.stop(error)

    def __repr__(self) -> str:
        state = "watching" if self.recorder.running else "ended"
        return f"<Watch: {len(self.steps)} steps, {state}>"

    def _repr_html_(self) -> str:
        try:
            return self.graph()._repr_html_()
        except LookupError:
            return escape(repr(self))

    @property
    def steps(self) -> list[StepRecord]:
        """The steps that are over, the latest last."""
        return self.recorder.steps

    def graph(self, step: int | None = None) -> Graph:
        """The graph of a step; of the latest that has one if none is given."""
        return graph_of_step(self.recorder.record(step))

    def log(self, name: str, value: float) -> None:
        """Adds a point to a curve that the page draws."""
        self.recorder.log(name, value)

    def step(self) -> None:
        """Says that a step is over, in a program without an optimiser."""
        self.recorder.step()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the record: `.html` to open in a browser, `.lgv` to open again, or `.json`."""
        return save(self.document, path)


class View:
    """A page that shows records: its `url`, and what to do with it."""

    def __init__(self, watch: Watch | None, documents: list[Document], port: int) -> None:
        self.watch = watch
        gate = None
        if watch is not None:
            document, recorder = watch.document, watch.recorder
            gate = Gate(
                lambda paused: setattr(document, "paused", paused),
                recorder.sampler.ask,
                recorder.code.turn,
            )
            recorder.at_step.append(gate.pass_through)
        self._documents = documents
        self._gate = gate
        self._server = Server(documents, gate, port)
        self.url = self._server.url

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the record: `.html` to open in a browser, `.lgv` to open again, or `.json`."""
        return save(self._documents[0], path)

    def graph(self, step: int | None = None) -> Graph:
        """The graph of a step of what is being watched."""
        if self.watch is None:
            raise RuntimeError("view: this shows a file; nothing is being watched")
        return self.watch.graph(step)

    def log(self, name: str, value: float) -> None:
        """Adds a point to a curve that the page draws."""
        if self.watch is not None:
            self.watch.log(name, value)

    def step(self) -> None:
        """Says that a step is over, in a program without an optimiser."""
        if self.watch is not None:
            self.watch.step()

    def stop(self, error: BaseException | None = None) -> None:
        """Ends watching; the page stays until `close`."""
        if self._gate is not None:
            self._gate.open()
        if self.watch is not None:
            self.watch.recorder.stop(error)

    def close(self) -> None:
        """Ends watching, and the page."""
        self.stop()
        self._server.close()

    def wait(self) -> None:
        """Keeps the page there until Ctrl-C."""
        try:
            while True:
                time.sleep(0.5)
        except KeyboardInterrupt:
            pass

    def open(self) -> None:
        """Opens the page in a browser, or says how to get there."""
        print(invitation(self.url, self._server.port, _is_remote()), file=sys.stderr)
        if not _is_remote():
            try:
                is_open = webbrowser.get().open(self.url)
            except webbrowser.Error:
                is_open = False
            if not is_open:
                print("(no browser was found here: open the link yourself)", file=sys.stderr)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(error)

    def __repr__(self) -> str:
        return f"<View {self.url}>"

    def _repr_html_(self) -> str:
        """A link. Where the notebook runs on another machine, it needs a forwarded port."""
        link = f'<a href="{self.url}" target="_blank" rel="noopener">{self.url}</a>'
        if not _is_remote():
            return link
        text = invitation(self.url, self._server.port, True).partition("\n")[2]
        return f"{link}<pre>{escape(text)}</pre>"


def _is_remote() -> bool:
    """Whether this is a shell on a machine that somebody is not sitting at."""
    return bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))


def invitation(url: str, port: int, remote: bool) -> str:
    """What is printed for people to follow."""
    text = f"livegrad view: {url}"
    if remote:
        name = os.environ.get("USER", "you")
        text += (
            f"\nThis is a remote shell. On your own machine, run\n"
            f"    ssh -N -L {port}:127.0.0.1:{port} {name}@{socket.gethostname()}\n"
            "and then open the link there."
        )
    return text


def watch(*, values: bool = False, steps: int = MOST_STEPS) -> Watch:
    """Records what runs: `with livegrad.watch() as w:`. See `livegrad.view.Watch`."""
    return Watch(values=values, steps=steps)


def view(
    *files: str | os.PathLike[str],
    port: int = 0,
    open: bool = True,
    values: bool = False,
) -> View:
    """Watches from now on, and shows it: a page at `view().url`. With files, shows those."""
    if files:
        documents: list[Document] = [FileDocument(file) for file in files]
        made = View(None, documents, port)
    else:
        watching = Watch(values=values)
        made = View(watching, [watching.document], port)
        watching.start()
    if open:
        made.open()
    return made


def graph(what: Any = None) -> Graph:
    """The graph of a tensor, of a step that was watched, or of the latest of these.

    Of a tensor it has what the tensor was computed from, as far as that is still known: all of it
    until its value is read, and whatever a gradient still needs.
    """
    if isinstance(what, Handle):
        return graph_of(what)
    if isinstance(what, StepRecord):
        return graph_of_step(what)
    if isinstance(what, (Watch, View)):
        return what.graph()
    if isinstance(what, Graph):
        return what
    if what is None or isinstance(what, int):
        if not Recorder.running_now:
            raise RuntimeError("graph: nothing is being watched: use `with livegrad.watch() as w:`")
        return graph_of_step(Recorder.running_now[-1].record(what))
    raise TypeError(f"graph: expected a tensor or a step; got {type(what).__name__}")
