"""`python -m livegrad.distributed.run script.py`: runs a script as `torchrun` does, in one process.

--standalone --nproc_per_node=1 --nnodes=1 …       one process; more are refused
-m package.module                                  a module instead of a script
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import uuid
from collections.abc import Sequence

# Options of `torchrun` that change nothing where there is one process.
_IGNORED = """
    node-rank rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval
    start-method role log-dir redirects tee local-addr local-ranks-filter
""".split()


def get_args_parser() -> argparse.ArgumentParser:
    """The options of `torchrun`, written with either dashes or underscores."""
    parser = argparse.ArgumentParser(prog="livegrad.distributed.run", description=__doc__)

    def add(name: str, default: str | None = None) -> None:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", default=default)

    add("nproc-per-node", "1")
    add("nnodes", "1:1")
    add("master-addr", "127.0.0.1")
    add("master-port", "29500")
    for name in _IGNORED:
        add(name)
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return parser


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What a launcher tells the process that it starts."""
    counts = {"RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0, "ROLE_RANK": 0}
    sizes = {"WORLD_SIZE": 1, "LOCAL_WORLD_SIZE": 1, "GROUP_WORLD_SIZE": 1, "ROLE_WORLD_SIZE": 1}
    return {
        **{name: str(number) for name, number in {**counts, **sizes}.items()},
        "MASTER_ADDR": options.master_addr,
        "MASTER_PORT": options.master_port,
        "TORCHELASTIC_RUN_ID": options.rdzv_id or uuid.uuid4().hex,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": options.max_restarts or "0",
    }


def _refuse_more(name: str, given: str) -> None:
    most = given.rpartition(":")[2]
    if most not in ("1", "auto", "cpu", "gpu"):
        raise SystemExit(
            f"livegrad.distributed.run: got --{name}={given}; livegrad runs programs of one "
            f"process for now. Use --{name}=1"
        )


def main(args: Sequence[str] | None = None) -> None:
    """Runs the script, or module, that the arguments say."""
    options = get_args_parser().parse_args(args)
    _refuse_more("nproc_per_node", options.nproc_per_node)
    _refuse_more("nnodes", options.nnodes)
    os.environ.update(environment(options))
    sys.argv = [options.training_script, *options.training_script_args]
    if options.module:
        runpy.run_module(options.training_script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(options.training_script))
        runpy.run_path(options.training_script, run_name="__main__")


if __name__ == "__main__":
    main()
