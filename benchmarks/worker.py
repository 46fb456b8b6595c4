"""The child process of one framework and one workload: imports, builds, then steps on command."""

import sys
import time
from typing import Any

from benchmarks import frameworks
from benchmarks.child import Answer, answer_pipe, keep_to_cores, serve


class Worker:
    """Holds the model of one workload in one framework.

    No step is repeated or left out: the loss of step i is the same in every framework.
    """

    def __init__(self, framework: str, workload: str, seed: int, threads: int) -> None:
        start = time.perf_counter()
        namespace = frameworks.load(framework)
        self.import_seconds = time.perf_counter() - start
        frameworks.limit_threads(namespace, threads)
        self.version = version_of(framework)
        self.step = build(namespace, workload, seed)
        self.count = 0

    def first(self, started: float) -> Answer:
        """The first step, its loss read, timed alone and since the process was started."""
        begin = time.perf_counter()
        loss = self.advance()
        return {
            "version": self.version,
            "import": self.import_seconds,
            "first_step": time.perf_counter() - begin,
            "from_start": time.time() - started,
            "loss": loss,
        }

    def losses(self, count: int) -> Answer:
        """The losses of the next `count` steps, to compare with other frameworks."""
        return {"losses": [self.advance() for _ in range(count)]}

    def burst(self, count: int, read_every: int) -> Answer:
        """Do `count` steps; the mean time of one, and the last loss."""
        step, first = self.step, self.count
        begin = time.perf_counter()
        for i in range(first, first + count):
            loss = step(i)
            if (i + 1) % read_every == 0:
                loss.item()
        last = loss.item()
        seconds = time.perf_counter() - begin
        self.count += count
        return {"us": seconds / count * 1e6, "loss": last}

    def memory(self) -> Answer:
        return {"peak_bytes": peak_bytes()}

    def advance(self) -> float:
        loss = self.step(self.count)
        self.count += 1
        return float(loss.item())


def build(namespace: frameworks.Namespace | None, name: str, seed: int) -> Any:
    import numpy as np  # after the framework, whose import is timed with all it needs

    from benchmarks import workloads

    workload = workloads.ALL[name]
    random = np.random.default_rng(seed)
    weights, batches = workload.weights(random), workload.batches(random)
    if namespace is None:
        if workload.jax is None:
            raise SystemExit(f"{workload.name} is not written for JAX")
        return workload.jax(weights, batches)
    return workload.eager(namespace, weights, batches)


def version_of(framework: str) -> str:
    return str(getattr(sys.modules[frameworks.PACKAGE[framework]], "__version__", "?"))


def peak_bytes() -> int:
    """The most memory this process ever had resident.

    On Linux `ru_maxrss` starts from the parent's peak, so the kernel's own mark is read instead.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            marks = [line.split()[1] for line in status if line.startswith("VmHWM:")]
        return int(marks[0]) * 1024
    except (OSError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    framework, workload, seed, threads, started = sys.argv[1:]
    answers = answer_pipe()
    keep_to_cores(int(threads))
    worker = Worker(framework, workload, int(seed), int(threads))
    handlers = {
        "first": lambda: worker.first(float(started)),
        "losses": worker.losses,
        "burst": worker.burst,
        "memory": worker.memory,
    }
    serve(handlers, answers)


if __name__ == "__main__":
    main()
