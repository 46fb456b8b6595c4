"""A child process that stays alive and does what a pipe tells it, one JSON line at a time."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


class ChildFailed(Exception):
    """The child ended without an answer; the message is the last line it wrote."""


class Child:
    """`python -m module arguments`, to be asked with `ask(command, ...)`."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str]) -> None:
        self.errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments, f"{time.time():.6f}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )

    def ask(self, command: str, **arguments: Any) -> Answer:
        """The answer to one command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ChildFailed(self.last_words())
        answer: Answer = json.loads(line)
        return answer

    def last_words(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def close(self) -> None:
        """Let the child end: it leaves when its pipe is closed."""
        self.process.communicate()
        self.errors.close()


def serve(handlers: dict[str, Callable[..., Answer]], answers: Any) -> None:
    """Answer the commands on standard input until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        answer = handlers[request.pop("command")](**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def answer_pipe() -> Any:
    """A private handle on standard output; whatever else is printed goes to standard error.

    Ctrl-C is left to the parent, which then closes the pipe.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def keep_to_cores(count: int) -> None:
    """Run on `count` cores only, also in libraries that cannot be told a number of threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
