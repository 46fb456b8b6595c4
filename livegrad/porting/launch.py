"""`python -m torch.distributed.run train.py`, which is `torchrun`: for one process.

The process is this one: it gets the environment that `torchrun` gives a worker, and runs the
script.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from livegrad.porting import running

# What is about how several processes find each other, which one does not have to.
_ABOUT_OTHERS = (
    "--rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts --monitor-interval "
    "--start-method --role --log-dir --redirects --tee --local-ranks-filter --node-rank "
    "--local-addr --logs-specs"
).split()


def parser() -> argparse.ArgumentParser:
    """The options of `torchrun`, with hyphens or underscores."""
    out = argparse.ArgumentParser("torchrun", allow_abbrev=False)

    def add(name: str, **options: object) -> None:
        out.add_argument(name, *_other_spelling(name), **options)  # type: ignore[arg-type]

    add("--nproc-per-node", default="1")
    add("--nnodes", default="1")
    add("--master-addr", default="127.0.0.1")
    add("--master-port", default="29500")
    add("--standalone", action="store_true")
    add("--no-python", action="store_true")
    add("--use-env", action="store_true")
    for name in _ABOUT_OTHERS:
        add(name)
    out.add_argument("-m", "--module", action="store_true")
    out.add_argument("training_script")
    out.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return out


def _other_spelling(name: str) -> list[str]:
    other = "--" + name[2:].replace("-", "_")
    return [other] if other != name else []


def count(text: str) -> int:
    """How many processes (or machines) an option asks for; "auto" and "1:4" are content with 1."""
    if text in ("auto", "cpu"):
        return 1
    if text == "gpu":
        raise SystemExit("torchrun: --nproc-per-node=gpu: livegrad runs on the CPU; leave it out")
    least = text.split(":")[0]
    if not least.isdigit() or not int(least):
        raise SystemExit(f"torchrun: got {text!r}; a number of processes was expected")
    return int(least)


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What `torchrun` tells the only worker."""
    return {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "GROUP_RANK": "0",
        "ROLE_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_WORLD_SIZE": "1",
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": options.master_port,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": options.rdzv_id or "none",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the script that the options name, in this process."""
    options = parser().parse_args(arguments)
    for name in ("nproc_per_node", "nnodes"):
        if count(getattr(options, name)) > 1:
            raise SystemExit(
                f"torchrun: --{name.replace('_', '-')}={getattr(options, name)}: livegrad trains "
                "in one process for now (which uses all cores); say 1"
            )
    os.environ.update(environment(options))
    run = running.run_module if options.module else running.run_script
    run(options.training_script, options.training_script_args)


if __name__ == "__main__":
    del sys.path[0]  # put there for this module; the script's own directory comes instead
    main()
