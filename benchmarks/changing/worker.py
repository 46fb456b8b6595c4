"""The child process of one framework and one program: all steps, timed, every loss read."""

import sys
import time
from typing import Any

from benchmarks import frameworks
from benchmarks.child import Answer, answer_pipe, keep_to_cores, serve
from benchmarks.worker import version_of

FIRST, LAST = 150, 50
"""Steps in the two spans that are reported: from the very first one on, and up to the end."""


def spans(steps: int) -> dict[str, tuple[int, int]]:
    """Where the spans begin and end. The last third of a short run is its end."""
    return {"first": (0, min(FIRST, steps)), "last": (steps - min(LAST, -(-steps // 3)), steps)}


def run(step: Any, steps: int) -> Answer:
    """Seconds of each span on the wall clock and of the processor, and the losses."""
    bounds = spans(steps)
    marks = {place for span in bounds.values() for place in span}
    clock, losses = {}, []
    for i in range(steps):
        if i in marks:
            clock[i] = now()
        losses.append(step().item())
    clock[steps] = now()
    elapsed = {
        name: {what: clock[end][what] - clock[begin][what] for what in ("wall", "cpu")}
        for name, (begin, end) in bounds.items()
    }
    counts = {name: end - begin for name, (begin, end) in bounds.items()}
    return {"seconds": elapsed, "steps": counts, "losses": [float(loss) for loss in losses]}


def now() -> dict[str, float]:
    """Both clocks: the machine is shared, so the wall's alone says little.

    Nor does the processor's: it leaves out the process in which livegrad compiles hot functions,
    which takes its time from the same cores.
    """
    return {"wall": time.perf_counter(), "cpu": time.process_time()}


def compile_hot_functions() -> Answer:
    """What livegrad would do by itself in a process that lives long enough, some 40 seconds."""
    from livegrad.runtime.speedup import speed_up

    speed_up()
    return {}


def main() -> None:
    framework, program, seed, threads, steps, _started = sys.argv[1:]
    answers = answer_pipe()
    keep_to_cores(int(threads))
    namespace = frameworks.load(framework)
    assert namespace is not None
    frameworks.limit_threads(namespace, int(threads))

    from benchmarks.changing import ALL

    # Weights, data and environments are made before the clock starts.
    step = ALL[program](namespace, int(seed))
    handlers = {
        "run": lambda: {"version": version_of(framework), **run(step, int(steps))},
        "hot": compile_hot_functions,
    }
    serve(handlers, answers)


if __name__ == "__main__":
    main()
