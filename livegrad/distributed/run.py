"""`python -m livegrad.distributed.run script.py`: runs a script as `torchrun` does, in one process.

--standalone --nproc_per_node=1 --nnodes=1 …       one process; more are refused
-m package.module                                  a module instead of a script

The process is this one: it gets the environment that `torchrun` gives a worker.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import uuid
from collections.abc import Sequence

# What is about how several processes find each other, which one does not have to.
_ABOUT_OTHERS = """
    node-rank rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval
    start-method role log-dir redirects tee local-addr local-ranks-filter logs-specs
""".split()


def get_args_parser() -> argparse.ArgumentParser:
    """The options of `torchrun`, written with either dashes or underscores."""
    parser = argparse.ArgumentParser("torchrun", description=__doc__, allow_abbrev=False)

    def add(name: str, default: str | None = None) -> None:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", default=default)

    add("nproc-per-node", "1")
    add("nnodes", "1:1")
    add("master-addr", "127.0.0.1")
    add("master-port", "29500")
    for name in _ABOUT_OTHERS:
        add(name)
    for name in ("standalone", "no-python", "use-env"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


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
    ranks = {"RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0, "ROLE_RANK": 0}
    sizes = {"WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "GROUP_WORLD_SIZE": 1, "ROLE_WORLD_SIZE": 1}
    return {
        **{name: str(number) for name, number in {**ranks, **sizes}.items()},
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": options.master_port,
        "TORCHELASTIC_RUN_ID": options.rdzv_id or uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": options.max_restarts or "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def become_worker(args: Sequence[str] | None) -> argparse.Namespace:
    """Makes this process the worker that the arguments ask for; what it is to run."""
    options = get_args_parser().parse_args(args)
    for name in ("nproc_per_node", "nnodes"):
        if count(getattr(options, name)) > 1:
            raise SystemExit(
                f"torchrun: got --{name}={getattr(options, name)}; livegrad runs programs of one "
                f"process for now, which uses all cores. Use --{name}=1"
            )
    os.environ.update(environment(options))
    return options


def main(args: Sequence[str] | None = None) -> None:
    """Runs the script, or module, that the arguments say."""
    options = become_worker(args)
    sys.argv = [options.training_script, *options.training_script_args]
    if options.module:
        runpy.run_module(options.training_script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.training_script))
        runpy.run_path(options.training_script, run_name="__main__")


if __name__ == "__main__":
    main()
