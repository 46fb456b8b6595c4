"""Programs run by other processes, which a crash of either library may end."""

from __future__ import annotations

import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

import torch

from .campaign import Campaign, Finding
from .generate import program
from .run import Difference, quietly

OWN_CRASH = "PyTorch ends the process by itself, while the program is written"
AT_ONCE = 1000  # programs of one process: what libraries keep for ever goes with it


def campaigns(seeds: Sequence[str], like: Campaign, jobs: int) -> Iterator[Campaign]:
    """A campaign of one program per seed, as they are done."""
    done: SimpleQueue[Campaign] = SimpleQueue()
    for job in range(jobs):
        Thread(target=supervise, args=(deque(seeds[job::jobs]), like, done), daemon=True).start()
    for _ in seeds:
        yield done.get()


def supervise(seeds: deque[str], like: Campaign, done: SimpleQueue[Campaign]) -> None:
    """Has one process after another run programs; each is left at a crash."""
    context = multiprocessing.get_context("spawn")
    while seeds:
        here, there = context.Pipe(duplex=False)
        some = list(seeds)[:AT_ONCE]
        process = context.Process(target=run_all, args=(there, some, like), daemon=True)
        process.start()
        there.close()
        try:
            for _ in some:
                done.put(here.recv())
                seeds.popleft()
        except EOFError:
            process.join()
            done.put(crashed(seeds.popleft(), process.exitcode))
        process.join()


def run_all(there: Connection, seeds: Sequence[str], like: Campaign) -> None:
    torch.set_num_threads(1)
    for seed in seeds:
        one = type(like)(like.without, like.shrinking)
        one.run(seed)
        there.send(one)


def write(seed: str) -> None:
    """Writes a program, with which livegrad has nothing to do."""
    with quietly():
        program(seed)


def crashed(seed: str, code: int | None, writing: Callable[[str], None] = write) -> Campaign:
    """What a program showed that ended its process."""
    writer = multiprocessing.get_context("spawn").Process(target=writing, args=(seed,), daemon=True)
    writer.start()
    writer.join()
    if writer.exitcode == code:
        return Campaign(programs=1, explained=Counter({OWN_CRASH: 1}))
    return Campaign(
        programs=1,
        findings=[Finding(seed, Difference(0, "crash", f"exit code {code}"), ())],
    )
